"""Splits identifiers and questions into words and reduces these to stems.

A stem is nearly always a beginning of the word it was made from, so that a pattern can grow it back.
"""

import re
from functools import lru_cache

_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+[a-z]?|[^\W\d_a-zA-Z]+")
_WORD = re.compile(r"[A-Za-z]\w*_\w+|[^\W_]+(?:['’][^\W_]+)?|[A-Za-z_]\w*")
_NEGATION = re.compile(r"n['’]t$", re.IGNORECASE)
_SHORT = re.compile(r"[^aeiou][aeiou][^aeiouwxy]")
_SILENT = frozenset(("e", "es", "ed", "er", "ers", "ing", "ings"))
_VOWEL = frozenset("aeiouy")

# Longest first. Each entry: ending, and how many letters must be left before it.
_ENDINGS = (
    ("izations", 4), ("isations", 4), ("ization", 4), ("isation", 4), ("ations", 3),
    ("ments", 4), ("nesses", 4), ("ation", 3), ("ators", 4), ("ator", 4), ("ities", 4),
    ("ions", 3), ("ably", 4), ("ible", 4), ("able", 4), ("ment", 4), ("ness", 4), ("less", 4), ("ings", 3),
    ("ated", 4), ("ates", 4), ("ized", 4), ("ised", 4), ("izes", 4), ("ises", 4), ("izer", 4), ("iser", 4),
    ("ize", 4), ("ise", 4), ("ate", 4), ("ion", 3), ("ity", 4), ("ive", 4), ("ies", 2), ("ied", 2),
    ("ying", 2), ("ing", 3), ("ers", 3), ("ors", 4), ("ely", 4), ("ful", 4), ("ed", 3), ("er", 3), ("or", 4),
    ("es", 3), ("ly", 4), ("al", 5), ("ic", 5), ("s", 3), ("e", 3), ("y", 2),
)  # fmt: skip

# Words whose ending only looks like one, or whose forms differ too much for a rule.
_FIXED_TEXT = """
access: access
action: action actions
address: address addresses
analys: analysis
author: author authors
authori: authorize authorizes authorized authorization authorise authorised authorisation
base: base based
basic: basic
begin: began begun
behavi: behaviour
break: broken broke
buffer: buffer buffers
build: built
case: case cases
catch: caught
character: character characters
child: children
choos: chosen chose
class: class classes
color: color colors colour colours coloured colored
compar: comparison comparisons
container: container
counter: counter
cursor: cursor
data: data
database: database databases
date: date dates
draw: drawn drew
during: during
editor: editor
embed: embed
entit: entity entities
error: error errors
event: event events
factor: factor
feed: feed feeds
filter: filter filters filtered filtering
find: found
folder: folder folders
function: function functions
gener: generator generators
generic: generic
giv: given
header: header headers
hid: hidden
hold: held
identit: identity
index: indices indexes
interval: interval intervals
iter: iterator iterators iterate iterates iterating iterated iteration iterations iterable iterables
keep: kept
layer: layer layers
letter: letter letters
los: lost
man: men
master: master masters
member: member members
memor: memory memories
metric: metric metrics
mirror: mirror
monitor: monitor monitors
need: need
noise: noise
number: number numbers
option: option options optional
order: order orders ordered ordering
owner: owner owners
panic: panic panics
paper: paper
parameter: parameter parameters
permission: permission permissions
person: people
pointer: pointer pointers
position: position positions positional
priorit: priority priorities
process: process processes processed processing
promise: promise promises
public: public
quer: query queries
rate: rate rates
readable: readable
region: region regions
regist: register registry registers registered registration
replic: replica replicas
request: request requests requested requester
resolv: resolution
respons: response responses
run: ran run runs running runner
section: section sections
securit: security
send: sent
server: server servers
session: session sessions
setting: setting settings
show: shown
signal: signal signals
size: size sizes sized
speed: speed
state: state states
static: static
station: station
status: status statuses
string: string strings
subscri: subscribe subscribes subscribed subscriber subscribers subscribing subscription subscriptions
table: table tables
tak: taken took
terminal: terminal
test: test tests tested tester testing
thing: thing things
thread: thread threads
throw: thrown threw
tier: tier
timer: timer timers
topic: topic topics
typ: typing
use: used uses using use
user: user users
utilit: utility utilities
variable: variable variables
vector: vector vectors
version: version versions
worker: worker workers
writ: written wrote
"""
_FIXED = {
    form: shared
    for shared, _, forms in (line.partition(": ") for line in _FIXED_TEXT.strip().splitlines())
    for form in forms.split()
}


def name_parts(text: str) -> list[str]:
    """The words inside a text or identifier, lower case: `parseHTTPHeader_v2` → parse http header v 2."""
    return [part.lower() for part in _PART.findall(text)]


def question_words(text: str) -> list[str]:
    """The words of a sentence as they stand, without apostrophe endings, and without `don't` and its like."""
    return [re.split(r"['’]", word)[0] for word in _WORD.findall(text) if not _NEGATION.search(word)]


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """The beginning that a word shares with its other forms: validated, validator, validation → valid."""
    word = word.lower()
    if word in _FIXED:
        return _FIXED[word]
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    for ending, left in _ENDINGS:
        base = word.removesuffix(ending)
        if base != word and len(base) >= left:
            if ending == "s" and word.endswith(("ss", "us", "is")):
                continue
            if not _VOWEL & set(base) or (ending in ("y", "ying") and base[-1] in "aeiou"):
                continue
            single = _undouble(base, ending)
            if ending in ("ed", "ing") and single.endswith(("er", "or")):
                return stem(single)
            silent = single == base and ending in _SILENT and _SHORT.fullmatch(base)
            return f"{base}e" if silent else single
    return word


def _undouble(base: str, ending: str) -> str:
    """stopping → stop, but calling → call."""
    if ending in ("s", "e", "y"):
        return base
    if len(base) > 3 and base[-1] == base[-2] and base[-1] not in "aeioulsz":
        return base[:-1]
    return base


def stems(text: str) -> list[str]:
    """The stems of all words inside a text, in order."""
    return [stem(part) for part in name_parts(text)]


_FILLERS = frozenset(
    (
        "get",
        "set",
        "is",
        "has",
        "from",
        "to",
        "by",
        "of",
        "in",
        "for",
        "with",
        "and",
        "or",
        "the",
        "on",
        "as",
        "do",
    )
)


def telling_length(name: str) -> int:
    """How many words of a name say something: two in `get_language_from_request`."""
    return max(sum(part not in _FILLERS for part in name_parts(name)), 1)
