"""Turns a question into weighted concepts, and each concept into a ripgrep pattern."""

import re
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from gencode.offline_search.code_synonyms import (
    leading_words,
    phrases_in,
    stop_words,
    synonyms_of,
    weak_stems,
)
from gencode.offline_search.stemmer import name_parts, question_words, stem

MOST_CONCEPTS = 9
MOST_SYNONYMS = 7
WEAK = 0.35
LONG_PROMPT = 400
LONG_STEM = 5
LEAD = 3
ENOUGH = 5
LONGEST_WORD = 60
INITIALS = 0.7

_PATHLIKE = re.compile(
    r"(?:[\w.@-]+/)+[\w@-]+\.\w{1,8}\b|\b[\w-]+\.(?:py|pyi|jsx?|tsx?|go|rs|cc?|cpp|hh?|hpp|java|rb|php|cs|kt|swift|"
    r"sh|sql|md|rst|toml|json|ya?ml|txt|html|css)\b"
)
_CAPITALIZED_PARTS = re.compile(r"(?:[A-Z][a-z]+){2,}")
_TAILS = (
    "e|s|es|ed|d|ing|er|ers|or|ors|ion|ions|y|ies|ied|ying|able|al|ten|tten|is|"
    "ation|ations|ate|ates|ated|ator|ators"
)
_SILENT_TAILS = "e|es|ed|er|ers|ing|ings|able"


@dataclass(frozen=True, slots=True)
class Concept:
    """One thing a question is about: its stem, the stems that may stand for it, and what it weighs."""

    word: str
    stem: str
    weight: float
    kin: tuple[tuple[str, float], ...] = ()
    exact: bool = False

    @property
    def pattern(self) -> str:
        """A ripgrep pattern for the word itself."""
        return (
            f"(?:{exact_pattern(self.word)}|{stem_pattern(self.stem)})"
            if self.exact
            else stem_pattern(self.stem)
        )

    @property
    def kin_pattern(self) -> str:
        """A ripgrep pattern for the words that may stand for it."""
        return any_pattern([each for each, _ in self.kin])


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A question as concepts, ready to be searched."""

    text: str
    concepts: tuple[Concept, ...]
    pairs: tuple[tuple[int, int], ...] = ()
    paths: tuple[str, ...] = ()

    def pair_pattern(self, pair: tuple[int, int]) -> str:
        """A ripgrep pattern for two neighbours written as one: thread pool, thread_pool, threadPool."""
        first, second = (self.concepts[place] for place in pair)
        return f"(?i:{_spelt(first.stem)}[a-z]{{0,4}}[-_ ]?{_spelt(second.stem)})"

    @property
    def words(self) -> str:
        """What was searched, for the person."""
        return " ".join(concept.word for concept in self.concepts)

    def wants(self, *stemmed: str) -> bool:
        """Whether the question itself speaks of one of these."""
        return any(concept.stem in stemmed for concept in self.concepts)


def query_of(text: str) -> SearchQuery:
    """The concepts of a question, most telling kept when there are too many."""
    focus = _focus(text)
    paths = tuple(dict.fromkeys(_PATHLIKE.findall(focus)))[:3]
    words = question_words(_PATHLIKE.sub(" ", focus)) or question_words(focus)
    stemmed = [stem(word) for word in words]
    phrases = phrases_in(stemmed)
    named = {places[0]: names for places, names in phrases}
    rest = {place for places, _ in phrases for place in places[1:]}
    kept = [place for place, word in enumerate(words) if _is_content(word, place)]
    if not kept:
        kept = [place for place, word in enumerate(words) if 2 < len(word) <= LONGEST_WORD]
    strong = [place for place in kept if stemmed[place] not in weak_stems()]
    kept = _most_telling(strong if len(strong) >= ENOUGH else kept, stemmed)
    concepts: list[Concept] = []
    index: dict[str, int] = {}
    at_place: dict[int, int] = {}
    for place in kept:
        if stemmed[place] not in index:
            index[stemmed[place]] = len(concepts)
            concepts.append(_concept(words[place], stemmed[place], named.get(place, ()), place in rest))
        at_place[place] = index[stemmed[place]]
    pairs = _neighbours(at_place, concepts)
    concepts = [_without_synonyms_asked_for(concept, index.keys()) for concept in concepts]
    return SearchQuery(focus, tuple(concepts), pairs, paths)


def stem_pattern(stemmed: str) -> str:
    """Where a stem begins a part of an identifier: `log` in logger, error_log, errorLog, not in catalog."""
    return any_pattern([stemmed])


def any_pattern(stemmed: Sequence[str]) -> str:
    """Where any of these stems begins a part; short ones must also end there, but for common endings.

    Every spelling is written out: ripgrep is many times faster with plain words than with ignored case.
    """
    plain = [each for each in stemmed if each.isascii() and each[:1].isalpha()]
    long = [each for each in plain if len(each) >= LONG_STEM]
    silent = [each[:-1] for each in plain if len(each) == LONG_STEM - 1 and each.endswith("e")]
    short = [each for each in plain if len(each) < LONG_STEM and each[:-1] not in silent]
    patterns = [_begins(long)] if long else []
    if silent:
        patterns.append(f"(?:{_begins(silent)})(?i:{_SILENT_TAILS})(?:[^a-z]|$)")
    if short:
        patterns.append(f"(?:{_begins(short)})(?:[a-z]?(?:{_TAILS})|(?i:s|ed|ing|er)?)(?:[^a-z]|$)")
    for each in stemmed:
        if each[:1].isdecimal():
            patterns.append(f"(?:\\b|_|[a-zA-Z]){re.escape(each)}(?:\\D|$)")
        elif each not in plain:
            patterns.append(re.escape(each))
    return "|".join(patterns)


def _begins(stemmed: Sequence[str]) -> str:
    same_case = "|".join(f"{_spelt(each)}|{_spelt(each, upper=True)}" for each in stemmed)
    capital = "|".join(each[0].upper() + _spelt(each)[1:] for each in stemmed)
    return f"(?:\\b|_|\\d)(?:{same_case})|(?:{capital})"


def exact_pattern(word: str) -> str:
    """An identifier exactly as it was asked for."""
    return f"\\b{re.escape(word)}\\b"


def _spelt(stemmed: str, upper: bool = False) -> str:
    """Both spellings of words that British and American writers end differently."""
    if stemmed == "color":
        return "COLOU?R" if upper else "colou?r"
    spelt = re.escape(stemmed.upper() if upper else stemmed)
    if stemmed.endswith(("yz", "ys")) and len(stemmed) > 4:
        return f"{spelt[:-1]}[{'SZ' if upper else 'sz'}]"
    return spelt


def _is_content(word: str, place: int) -> bool:
    lower = word.lower()
    if lower in stop_words() or (place < LEAD and lower in leading_words()):
        return False
    return 1 < len(word) <= LONGEST_WORD or not word.isascii()


def _focus(text: str) -> str:
    """The sentences that ask, when a prompt is long; the beginning of it at worst."""
    if len(text) <= LONG_PROMPT:
        return text
    sentences = re.split(r"(?<=[.?!])\s+|\n+", text[:20_000])
    asking = [sentence for sentence in sentences if sentence.rstrip().endswith("?")]
    chosen = " ".join(asking[:3]) if asking else " ".join(sentences[:6])
    return chosen[: 2 * LONG_PROMPT]


def _most_telling(places: list[int], stemmed: list[str]) -> list[int]:
    """At most MOST_CONCEPTS stems: strong before weak, repeated before single, early before late."""
    if len({stemmed[place] for place in places}) <= MOST_CONCEPTS:
        return places
    often = Counter(stemmed[place] for place in places)
    first = {stemmed[place]: place for place in reversed(places)}
    best = sorted(first, key=lambda each: (each in weak_stems(), -often[each], first[each]))[:MOST_CONCEPTS]
    return [place for place in places if stemmed[place] in best]


def _concept(word: str, stemmed: str, names: tuple[str, ...], in_phrase: bool) -> Concept:
    exact = "_" in word or bool(re.search(r"[a-z][A-Z]", word))
    weak = (in_phrase or stemmed in weak_stems()) and not exact
    kin = tuple((name, 0.9) for name in names) + synonyms_of(stemmed)
    if exact:
        inside = [part for part in name_parts(word) if len(part) > 2]
        kin = tuple((stem(part), 0.4) for part in inside)
        if short := _initials(word):
            kin = ((short, INITIALS), *kin)
    weight = WEAK if weak else 2.0 if exact else 1.0
    return Concept(word, stemmed.lower(), weight, () if weak else kin[:MOST_SYNONYMS], exact)


def _without_synonyms_asked_for(concept: Concept, asked: AbstractSet[str]) -> Concept:
    """A word of the question stands for itself: where it is found, no other word of it is found too."""
    kin = tuple((stemmed, weight) for stemmed, weight in concept.kin if stemmed not in asked)
    return replace(concept, kin=kin)


def _initials(word: str) -> str:
    """The usual abbreviation of a name in capitalized parts: gh of GitHub, js of JavaScript."""
    return "".join(filter(str.isupper, word)).lower() if _CAPITALIZED_PARTS.fullmatch(word) else ""


def _neighbours(at_place: dict[int, int], concepts: list[Concept]) -> tuple[tuple[int, int], ...]:
    pairs: list[tuple[int, int]] = []
    for place in sorted(at_place):
        if place + 1 not in at_place:
            continue
        pair = (at_place[place], at_place[place + 1])
        ascii_only = all(concepts[each].stem.isascii() and len(concepts[each].stem) > 2 for each in pair)
        if pair[0] != pair[1] and ascii_only and pair not in pairs:
            pairs.append(pair)
    return tuple(pairs[:4])
