"""Synonyms of programmers, and stop words that say nothing about what is looked for.

About programming in general, and never about one set of questions: a table of everyday words helped on the
questions that its author knew and on no others. Commas part families; everything is compared by stem.
"""

from functools import cache

from gencode.offline_search.stemmer import stem

# Short and long spellings of one word: nearly the same.
_SPELLINGS = """
argument arg parameter param, attribute attr, authentication auth authenticate, authorization authorize
auth, application app, asynchronous async, background bg, buffer buf, certificate cert, character char,
column col, command cmd, configuration config configure conf cfg, connection conn connect, context ctx,
database db, default defaults, dependency dep, destination dest dst, directory dir folder, document doc,
environment env, error err, execute exec, expression expr, function func fn, generate gen, identifier id
ident, implementation impl, information info, initialize init initial, iterator iter iterate, language lang,
library lib, maximum max, memory mem, message msg, minimum min, navigation nav, number num, object obj,
operation op operator, original orig, package pkg, page paginate, password passwd pwd, pointer ptr, position
pos, previous prev, process proc, production prod, reference ref, regular regex, repository repo, request
req, response resp res, return ret, sequence seq, server srv, session sess, source src, specification spec,
standard std, statistics stats stat, string str, synchronise sync synchronous, system sys, temporary temp
tmp, utility util, value val, variable var, version ver, window win
"""

# Different words for one thing or act.
_FAMILIES = """
abort cancel interrupt, absolute canonical, access permission privilege acl grant allow permit authorize,
account user, allowed permitted allowlist whitelist safelist, answer reply response respond, append add
push, ask prompt query, assert check verify validate ensure, begin start launch boot, bind attach, block
mutex lock, body payload content, boundary multipart, break split divide chunk partition segment, broadcast
publish notify emit, browser client agent, build construct assemble, cache memoize memo, call invoke,
capital uppercase upper, caught catch recover rescue, chain compose sequence pipeline, change modify update
mutate edit, choose select pick prefer, clean sanitize purify strip, clone copy duplicate, close shutdown
dispose, collect gather aggregate, combine merge join concat, compare equal diff equality, complete finish
done, compress deflate gzip zip, compute calculate evaluate, convert transform translate cast coerce, count
tally, crash panic abort, create make new generate produce, damaged corrupt broken, deadline timeout, decode
decompress unpack inflate, decrypt decipher, default fallback, delay sleep wait backoff, delete remove drop
erase unlink destroy discard, deny forbid reject refuse block, daemon background detach, database sql sqlite
postgres mysql, detect discover find locate search lookup, diagnose debug inspect, discard evict expire
purge prune, duplicate already visited, quiet idle debounce silence, slow throttle latency delay, scale
autoscale grow shrink, display show print render draw, distance levenshtein, duplicate dupe dedupe unique,
duration elapsed, encode serialize marshal, encrypt cipher, environment getenv, error exception failure
fault, escape quote encode, event signal, execute run spawn perform, expand grow resize enlarge, extract
parse pull, fake mock stub, fetch download retrieve, field member property, filter exclude ignore, flag
option switch, focus visibility, follow redirect, forbidden denied, form formdata, forward proxy, function
callback hook listener, hash digest checksum, hook callback lifecycle middleware, human readable, identifier
uuid, image picture photo thumbnail, incoming receive inbound, increase grow, insert add put, language
locale i18n, layout template, length size, limit throttle quota cap rate, link url href anchor uri
hyperlink, listen accept serve bind, list array collection, load read open import, location path, log logger
record trace, login signin auth authenticate credential, loop iterate, match pattern regex glob wildcard,
measure time stopwatch benchmark, missing absent notfound, monitor watch observe, move rename, name label
title, network socket tcp, normalize canonicalize, notify alert, order sort, outgoing send outbound, owner
uid, parallel concurrent thread multithreaded, parse tokenize lex scan, password credential secret, path
route url, periodic schedule cron interval, permitted allow, persist save store write, pool worker, port
address, prevent guard protect, previous last, print output write, private secret, prototype proto, queue
backlog enqueue, quit exit terminate stop, random nonce, read load parse, recover restore rollback,
recursive nested, redo replay, register subscribe, reload refresh autoreload, repair fix restore, repeat
again retry reattempt, replace substitute, replica slave follower, request call, resolve lookup, restart
reload, rewrite transform, role group, roll revert undo, route url endpoint, rule policy, sandbox isolate,
schema model, send dispatch transmit deliver, serialize dump stringify pickle, settings config options
preferences, balance distribute spread, state status, stop cancel terminate kill, stream pipe, style color
theme ansi, suggest hint recommend similar, subclass inherit, tag label, task job work, template
placeholder, terminal tty console, test spec, trace stack, transaction commit atomic, tree node, trim
truncate shorten, type kind, unknown notfound missing invalid 404, upload attachment multipart file,
upstream backend, visit walk traverse, visitor client, wait block, wrap decorate, write save append
"""

# Phrases that have a short name.
_PHRASES = """
cross site request forgery: csrf xsrf
cross site script: xss
write ahead: wal journal
least recently used: lru
command line: cli argv
environment variable: environ getenv
log in: login auth
sign in: login auth
edit distance: levenshtein
regular expression: regex regexp
not found: 404 notfound
deep copy: clone
garbage collect: gc
rate limit: throttle
access control: acl
try again: retry
tried again: retry
slow down: throttle
pull out: extract
pulled out: extract
throw out: evict discard
throw away: discard evict
man page: manual
character set: charset encoding
"""

_STOP = """
a about an and any are as at be been being both but by can could did do does doing each either else for from
had has have having he her here him his how i if in into is it its itself just let me more most much my no nor
not of on one only or other our out over own please same she should so some such than that the their them
then there these they this those through to too under until up upon very via was we were what whatever when
where whether which while who whom whose why will with within without would you your yours
dont doesnt didnt isnt arent wasnt werent wont cant couldnt wouldnt shouldnt havent hasnt hadnt
also may might must shall look looks looked responsible
tell find show give want know look locate identify explain describe
code codebase file files repository repo project piece place places line lines
"""

# Words that only introduce what is asked for when they stand at the beginning: which class, search for.
_LEADING = "search source class function method module component"

_WEAK = """
handle implement define declare goes went gone occur notice
use using get set make do work happen take put give keep come go see need
part actually exactly currently really thing way kind sort able mean bit two three
several many few all every another different various new given certain particular specific actual
after before again during against between beside besides back first second last next long short
like per above below ones once ever still yet even always never
determine decide figure turn become allow let possible automatically directly
done made called found code program programs system main logic library nobody somebody someone something
value values object objects data thing things number numbers type types old own real
class function method module component source everything anything whenever everywhere around between away
along across towards whole entire afterwards beforehand often sometimes already
"""


@cache
def stop_words() -> frozenset[str]:
    """Words of a question that say nothing about what is looked for."""
    return frozenset(_STOP.split())


@cache
def leading_words() -> frozenset[str]:
    """Words that say nothing at the beginning of a question."""
    return frozenset(_LEADING.split())


@cache
def weak_stems() -> frozenset[str]:
    """Stems that count little."""
    return frozenset(stem(word) for word in _WEAK.split())


@cache
def _table() -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    for text, weight in ((_FAMILIES, 0.65), (_SPELLINGS, 0.85)):
        for family in text.split(","):
            members = list(dict.fromkeys(stem(word) for word in family.split()))
            for member in members:
                others = table.setdefault(member, {})
                for other in members:
                    if other != member:
                        others[other] = max(weight, others.get(other, 0.0))
    return table


@cache
def _phrases() -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    pairs = (line.split(": ") for line in _PHRASES.strip().splitlines())
    return tuple((tuple(map(stem, long.split())), tuple(map(stem, short.split()))) for long, short in pairs)


def synonyms_of(stemmed: str) -> tuple[tuple[str, float], ...]:
    """The stems that may stand for this one, with their weight, best first."""
    others = _table().get(stemmed, {})
    return tuple(sorted(others.items(), key=lambda pair: (-pair[1], pair[0])))


def phrases_in(stemmed: list[str]) -> list[tuple[tuple[int, ...], tuple[str, ...]]]:
    """Phrases with a short name: the places of their words (gaps of one allowed), and that name."""
    found: list[tuple[tuple[int, ...], tuple[str, ...]]] = []
    for phrase, names in _phrases():
        for start in range(len(stemmed)):
            places = _follow(stemmed, phrase, start)
            if places:
                found.append((places, names))
                break
    return found


def _follow(stemmed: list[str], phrase: tuple[str, ...], start: int) -> tuple[int, ...]:
    places: list[int] = []
    at = start
    for word in phrase:
        near = [spot for spot in (at, at + 1, at + 2) if spot < len(stemmed) and stemmed[spot] == word]
        if not near or (not places and near[0] != start):
            return ()
        places.append(near[0])
        at = near[0] + 1
    return tuple(places)
