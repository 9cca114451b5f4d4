"""Plans the next tool calls of a search from the results so far.

Turn one counts, turn two (big repositories only) counts what was cut off, turn three looks into the best
files, turn four reads around the best places, turn five answers. Every call carries its purpose, so that
the whole state can be read back from a transcript.
"""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from gencode.offline_search.best_passages import MatchedFile, Passage, best_passages, look_pattern
from gencode.offline_search.code_blocks import CodeLine, naming_pattern, symbol_of
from gencode.offline_search.query import SearchQuery
from gencode.offline_search.ranking import MatchCounts, RankedFile, concept_weights, rank_files
from gencode.offline_search.result_parser import (
    GrepCounts,
    read_anywhere,
    read_counts,
    read_lines,
    read_matches,
    read_paths,
)

MOST_COUNTS = 19
MOST_PAGES = 6
LENGTHS_OF = 60
LOOKS = 14
MOST_CALLS = 40
ANSWERS = 5
READ_LINES = 60
ASIDE = "!*.po !*.pot !*.svg !*.lock !*.map !*.min.js !*.min.css !*.snap"


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A tool call to make, and its purpose."""

    purpose: str
    tool: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a tool call."""

    input: dict[str, Any]
    text: str
    error: bool


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search: passages, best first, and the lines to quote, by path."""

    places: tuple[Passage, ...]
    quotes: Mapping[str, Sequence[CodeLine]]


Results = Mapping[str, CallResult]


def next_step(query: SearchQuery, got: Results, tools: AbstractSet[str]) -> list[PlannedCall] | SearchResult:
    """More calls, or what was found. Without tools (the grace turn) it makes do with what there is."""
    if not got:
        calls = _first(query, tools)
        return calls or SearchResult((), {})
    seen = gather(query, got)
    stage = {purpose.split("-")[0] for purpose in got}
    read = [_path_of(got[purpose]) for purpose in sorted(got) if purpose.startswith("read-")]
    looked = [_path_of(got[purpose]) for purpose in got if purpose.startswith("look-")]
    ranked = rank_files(query, seen, read or looked or None)
    if "Grep" in tools and "more" not in stage and "look" not in stage:
        more = _more(query, got, ranked)
        if more:
            return more
    if "look" not in stage and tools & {"Grep", "Read"} and ranked:
        return _look(query, ranked, MOST_CALLS - ANSWERS - len(got), tools)
    places = _places(query, got, ranked, seen)
    if read:
        places.sort(key=lambda place: read.index(place.path))
    if "read" not in stage and "Read" in tools and "Grep" in tools and places:
        return _read(places[:ANSWERS])
    return SearchResult(tuple(places[:ANSWERS]), _quotes(got, places[:ANSWERS]))


def _first(query: SearchQuery, tools: AbstractSet[str]) -> list[PlannedCall]:
    calls: list[PlannedCall] = []
    if "Glob" in tools:
        calls.append(PlannedCall("names", "Glob", {"pattern": _names_pattern(query), "head_limit": 400}))
    if "Grep" in tools:
        calls.append(_count("lines", "^"))
        calls += _naming(query)
        calls += [_count(f"main-{place}", concept.pattern) for place, concept in enumerate(query.concepts)]
        pairs = "|".join(query.pair_pattern(pair) for pair in query.pairs)
        wanted = [_count("pairs", pairs)] if pairs else []
        kin = [
            _count(f"kin-{place}", concept.kin_pattern)
            for place, concept in enumerate(query.concepts)
            if concept.kin
        ]
        calls = (calls + wanted + kin)[:MOST_COUNTS]
    return calls


def _naming(query: SearchQuery) -> list[PlannedCall]:
    """Definitions named after two words of the question."""
    telling = [concept for concept in query.concepts if concept.weight >= 1]
    stemmed = [concept.stem for concept in telling]
    stemmed += [kin for concept in telling for kin, weight in concept.kin if weight > 0.7]
    usable = [each for each in dict.fromkeys(stemmed) if re.fullmatch(r"[a-z]{2,}", each)]
    if len(telling) < 2 or not usable:
        return []
    choices = "|".join(f"{each}|{each.capitalize()}" for each in usable)
    asked = {
        "pattern": naming_pattern(choices),
        "output_mode": "content",
        "-n": True,
        "head_limit": 0,
        "glob": ASIDE,
    }
    return [PlannedCall("naming", "Grep", asked)]


def _count(purpose: str, pattern: str, **more: Any) -> PlannedCall:
    return PlannedCall(
        purpose, "Grep", {"pattern": pattern, "output_mode": "count", "head_limit": 0, "glob": ASIDE, **more}
    )


def _names_pattern(query: SearchQuery) -> str:
    """Files named after a word of the question, in any case."""
    beginnings: list[str] = []
    for concept in query.concepts:
        if concept.weight >= 1 and re.fullmatch(r"[\w-]{3,}", concept.stem):
            beginnings += [concept.stem, concept.stem.capitalize(), concept.stem.upper()]
    choices = ",".join(dict.fromkeys(beginnings[:60])) or "*"
    return f"**/*{{{choices}}}*" if "," in choices else f"**/*{choices}*"


def gather(query: SearchQuery, got: Results) -> MatchCounts:
    """All counts that have come in, the pages of one pattern put together."""
    main = [_joined(got, f"main-{place}") for place in range(len(query.concepts))]
    kin = [_joined(got, f"kin-{place}") for place in range(len(query.concepts))]
    lengths = _joined(got, "lines")
    names = got.get("names")
    named = read_paths(names.text)[0] if names and not names.error else []
    files = max([lengths.files, 1, *(counts.files for counts in (*main, *kin))])
    return MatchCounts(
        main=tuple(counts.by_path for counts in main),
        kin=tuple(counts.by_path for counts in kin),
        pairs=_joined(got, "pairs").by_path,
        lengths=lengths.by_path,
        files=files,
        main_files=tuple(counts.files for counts in main),
        kin_files=tuple(counts.files for counts in kin),
        named=tuple(named),
        symbols=_symbols(got.get("naming")),
    )


def _symbols(said: CallResult | None) -> dict[str, tuple[str, ...]]:
    """The names that Grep found being defined, by path."""
    found: dict[str, list[str]] = {}
    if said and not said.error:
        for path, line in read_anywhere(said.text):
            symbol = symbol_of(line.text)
            if symbol:
                found.setdefault(path, []).append(symbol)
    return {path: tuple(dict.fromkeys(symbols)) for path, symbols in sorted(found.items())}


def _joined(got: Results, purpose: str) -> GrepCounts:
    first = got.get(purpose)
    if first is None or first.error:
        return GrepCounts({})
    counts = read_counts(first.text)
    by_path = dict(counts.by_path)
    for other in sorted(got):
        if other.startswith(f"more-{purpose}-") and not got[other].error:
            by_path.update(read_counts(got[other].text).by_path)
    return GrepCounts(by_path, max(counts.files - len(by_path), 0), counts.next_offset)


def _more(query: SearchQuery, got: Results, ranked: list[RankedFile]) -> list[PlannedCall]:
    """What was cut off: further pages of the rarer words, and the lengths of the likeliest files."""
    calls: list[PlannedCall] = []
    lengths = _joined(got, "lines")
    if lengths.more:
        unknown = [each.path for each in ranked[: 2 * LENGTHS_OF] if each.path not in lengths.by_path]
        if unknown:
            calls.append(_count("more-lines-0", "^", glob=" ".join(map(_as_glob, unknown[:LENGTHS_OF]))))
    cut_off = [
        (counts.files, purpose, counts, got[purpose].input)
        for purpose in sorted(got)
        if purpose.startswith("main-") and (counts := _joined(got, purpose)).more
    ]
    for files, purpose, counts, asked in sorted(cut_off, key=lambda each: each[:2]):
        page = max(counts.next_offset, 1)
        for number, offset in enumerate(range(page, files, page)):
            calls.append(PlannedCall(f"more-{purpose}-{number}", "Grep", {**asked, "offset": offset}))
    return calls[:MOST_PAGES]


def _as_glob(path: str) -> str:
    """A pattern for one path: anything that a glob or a list of globs could misread becomes `?`."""
    return "/" + re.sub(r"[^\w./@+-]", "?", path)


def _look(
    query: SearchQuery, ranked: list[RankedFile], room: int, tools: AbstractSet[str]
) -> list[PlannedCall]:
    best = ranked[: min(LOOKS, room)]
    if "Grep" not in tools:
        return [
            PlannedCall(f"look-{place}", "Read", {"file_path": each.path})
            for place, each in enumerate(best[:8])
        ]
    pattern = look_pattern(query)
    return [
        PlannedCall(
            f"look-{place}",
            "Grep",
            {"pattern": pattern, "path": each.path, "output_mode": "content", "-n": True, "head_limit": 0},
        )
        for place, each in enumerate(best)
    ]


def _places(query: SearchQuery, got: Results, ranked: list[RankedFile], seen: MatchCounts) -> list[Passage]:
    by_path = {each.path: each for each in ranked}
    files: list[MatchedFile] = []
    for purpose in sorted(got):
        said = got[purpose]
        path = _path_of(said)
        if not purpose.startswith("look-") or said.error or path not in by_path:
            continue
        lines = _seen_lines(said, path)
        files.append(MatchedFile(by_path[path], lines, seen.lengths.get(path, 0)))
    if not files:
        files = [MatchedFile(each, [], seen.lengths.get(each.path, 0)) for each in ranked[:ANSWERS]]
    return best_passages(query, concept_weights(query, seen), files)


def _seen_lines(said: CallResult, path: str) -> list[CodeLine]:
    return read_lines(said.text) if "file_path" in said.input else read_matches(said.text, path)


def _read(places: Sequence[Passage]) -> list[PlannedCall]:
    return [
        PlannedCall(
            f"read-{number}",
            "Read",
            {"file_path": place.path, "offset": _window(place), "limit": READ_LINES},
        )
        for number, place in enumerate(places)
    ]


def _window(place: Passage) -> int:
    """Where to begin reading: at the place itself, or at a telling comment right above it."""
    above = [number for number in place.telling[:3] if place.line - 25 <= number < place.line]
    return max(min([place.line, *above]), 1)


def _path_of(said: CallResult) -> str:
    return str(said.input.get("file_path") or said.input.get("path") or "")


def _quotes(got: Results, places: Sequence[Passage]) -> dict[str, Sequence[CodeLine]]:
    """The lines that were really seen of each file: read ones, or else those that Grep showed."""
    quotes: dict[str, Sequence[CodeLine]] = {}
    for kind in ("read-", "look-"):
        for purpose in sorted(got):
            said = got[purpose]
            if purpose.startswith(kind) and not said.error:
                path = _path_of(said)
                quotes.setdefault(path, _seen_lines(said, path))
    return {place.path: quotes[place.path] for place in places if place.path in quotes}
