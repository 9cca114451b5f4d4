"""Ranks files by match counts alone (BM25 with boosts for names and folders)."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gencode.offline_search.query import Concept, SearchQuery
from gencode.offline_search.stemmer import name_parts, stem, stems, telling_length

K1 = 1.4
B = 0.6
NAME = 2.2
FOLDER = 0.45
PAIR = 0.9
SECOND = 0.25
COVER = 0.5
HEADERS = 0.6
PROSE = 0.3
CODE_IN_DOCS = 0.6
NO_CODE = 0.45
TESTS = 0.35
BYGONE = 0.7
TESTS_ASKED = 0.5
SYMBOLS = 1.7
WHOLE_NAME = 0.3


@dataclass(frozen=True, slots=True)
class MatchCounts:
    """Match counts by file: for each concept, its synonyms and neighbours written as one."""

    main: tuple[Mapping[str, int], ...]
    kin: tuple[Mapping[str, int], ...]
    pairs: Mapping[str, int]
    lengths: Mapping[str, int]
    files: int
    main_files: tuple[int, ...]
    kin_files: tuple[int, ...]
    named: tuple[str, ...] = ()
    symbols: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {})


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A file with its score, the share of the question's weight it covers, and what its name says of it."""

    path: str
    score: float
    coverage: float
    named: float = 0.0


@dataclass(frozen=True, slots=True)
class ConceptWeights:
    """The weight of each concept of a question in this repository."""

    main: tuple[float, ...]
    kin: tuple[float, ...]
    whole: tuple[float, ...] = field(default=())


def rarity(matching: int, files: int) -> float:
    """The inverse document frequency of BM25, never negative."""
    matching = min(matching, files)
    return math.log(1 + (files - matching + 0.5) / (matching + 0.5))


def concept_weights(query: SearchQuery, seen: MatchCounts) -> ConceptWeights:
    """Rare words weigh more; a word that is nowhere weighs like a rare one, for the coverage only."""
    main: list[float] = []
    kin: list[float] = []
    whole: list[float] = []
    for concept, matching, kin_matching in zip(query.concepts, seen.main_files, seen.kin_files, strict=True):
        own = rarity(max(matching, 1), seen.files) * concept.weight
        other = rarity(max(kin_matching, 1), seen.files) * concept.weight
        best_kin = concept.kin[0][1] if concept.kin else 0.0
        main.append(own if matching else 0.0)
        kin.append(min(other, own) * best_kin if kin_matching else 0.0)
        whole.append(own)
    return ConceptWeights(tuple(main), tuple(kin), tuple(whole))


def rank_files(query: SearchQuery, seen: MatchCounts, only: Iterable[str] | None = None) -> list[RankedFile]:
    """All files with a match (or only these), best first; equal ones by path."""
    weights = concept_weights(query, seen)
    average = (sum(seen.lengths.values()) / len(seen.lengths)) if seen.lengths else 100.0
    pairs_worth = PAIR * rarity(max(len(seen.pairs), 1), seen.files)
    if only is None:
        paths = {path for counts in (*seen.main, *seen.kin) for path in counts}
        only = paths.union(seen.named, seen.symbols)
    ranked = [_rank(path, query, seen, weights, average, pairs_worth) for path in sorted(only)]
    ranked.sort(key=lambda each: (-each.score, each.path))
    return ranked


def _rank(
    path: str,
    query: SearchQuery,
    seen: MatchCounts,
    weights: ConceptWeights,
    average: float,
    pairs_worth: float,
) -> RankedFile:
    stretch = 1 - B + B * min(seen.lengths.get(path, average) / max(average, 1.0), 6.0)
    name, folders = path_stems(path)
    score = covered = in_name = named = 0.0
    for place, concept in enumerate(query.concepts):
        own = _saturate(seen.main[place].get(path, 0), stretch) * weights.main[place]
        other = _saturate(seen.kin[place].get(path, 0), stretch) * weights.kin[place]
        in_path = path_hit(concept, name, folders)
        in_name += in_path > FOLDER
        score += max(own, other) + SECOND * min(own, other)
        by_path = in_path * max(weights.main[place], weights.kin[place], 0.5 * weights.whole[place])
        score += by_path
        named += by_path if in_path > FOLDER else 0.0
        covered += _covered(own > 0, other > 0, in_path > 0, weights, place, concept)
    score += pairs_worth * _saturate(seen.pairs.get(path, 0), stretch)
    score += SYMBOLS * symbol_score(query, weights, seen.symbols.get(path, ()))
    total = sum(weights.whole) or 1.0
    coverage = covered / total
    score *= (1 - COVER + COVER * coverage) * path_weight(path, query)
    if in_name > 1:
        score *= 1 + WHOLE_NAME * min(in_name / max(len(name), 1), 1.0)
    if any(path.endswith(asked) for asked in query.paths):
        score *= 4
    return RankedFile(path, score, coverage, named / total)


def symbol_score(query: SearchQuery, weights: ConceptWeights, symbols: Sequence[str]) -> float:
    """How much the best name that a file defines speaks for the question."""
    best = 0.0
    for symbol in symbols:
        inside = stems(symbol)
        value = 0.0
        for place, concept in enumerate(query.concepts):
            strength = 1.0 if concept.stem in inside else 0.0
            strength = max([strength, *(weight for kin, weight in concept.kin if kin in inside)])
            value += weights.whole[place] * strength
        best = max(best, value / telling_length(symbol) ** 0.5)
    return best


def _covered(
    own: bool, other: bool, named: bool, weights: ConceptWeights, place: int, concept: Concept
) -> float:
    if own or named:
        return weights.whole[place]
    return weights.whole[place] * concept.kin[0][1] if other and concept.kin else 0.0


def _saturate(times: int, stretch: float) -> float:
    return times * (K1 + 1) / (times + K1 * stretch) if times else 0.0


def path_stems(path: str) -> tuple[list[str], list[str]]:
    """The stems of a file's name and of its folders."""
    folder, _, name = path.rpartition("/")
    return stems(name.rsplit(".", 1)[0] if "." in name[1:] else name), stems(folder)


def path_hit(concept: Concept, name: list[str], folders: list[str]) -> float:
    """How much a path speaks for a concept."""
    share = 1.0 / math.sqrt(max(len(name), 1))
    if concept.stem in name:
        return NAME * (0.4 + 0.6 * share)
    joined = "".join(name)
    if len(concept.stem) >= 5 and concept.stem in joined:
        return NAME * 0.7 * (0.4 + 0.6 * share)
    for kin, weight in concept.kin:
        if kin in name or (len(kin) >= 6 and kin in joined):
            return NAME * weight * 0.8 * (0.4 + 0.6 * share)
    if concept.stem in folders:
        return FOLDER
    if any(kin in folders for kin, _ in concept.kin):
        return FOLDER * 0.4
    return 0.0


_TEST_FOLDERS = "test tests testing spec specs fixtures __tests__ testdata mocks e2e unittests"
_DOC_NAMES = "doc docs documentation changelog changelogs history readme license contributing news"
_ASIDE_FOLDERS = "example examples sample samples demo demos bench benchmark benchmarks fuzz playground"
_FOREIGN_FOLDERS = "vendor vendored third_party thirdparty node_modules dist deps external bundled out"
_BYGONE_FOLDERS = "deprecated legacy obsolete attic old"
_BYGONE = frozenset(_BYGONE_FOLDERS.split())
_TESTS = frozenset(_TEST_FOLDERS.split())
_DOCS = frozenset(_DOC_NAMES.split())
_ASIDE = frozenset(_ASIDE_FOLDERS.split())
_FOREIGN = frozenset(_FOREIGN_FOLDERS.split())
_PROSE = (
    ".md",
    ".rst",
    ".txt",
    ".adoc",
    ".html",
    ".po",
    ".pot",
    ".tex",
    ".1",
    ".org",
    ".texi",
    ".texinfo",
    ".info",
)
_CODE_ENDINGS = """
py pyx pyi js jsx mjs cjs ts tsx mts cts vue svelte go rs c h cc cpp cxx hpp hh hxx java kt kts scala groovy
rb php cs fs swift m mm sh bash zsh fish ps1 pl pm lua r jl ex exs erl hrl hs ml mli clj cljs dart zig nim sql
proto graphql asm s v sv vhd el lisp scm tcl vb pas d f90 css scss less sol tf nix cmake make bzl gradle
"""
_CODE = frozenset(_CODE_ENDINGS.split())
_MINIFIED = re.compile(r"[.-]min\.(?:js|css)$|\.bundle\.js$|-lock\.|\.lock$|\.po$")


_SHOUTED = re.compile(r"[A-Z][A-Z_-]+$")


def is_prose(path: str) -> bool:
    """Whether a file is text for people."""
    name = path.rsplit("/", 1)[-1]
    return path.lower().endswith(_PROSE) or bool(_SHOUTED.match(name))


def path_weight(path: str, query: SearchQuery) -> float:
    """What a file is worth by its place alone: tests, docs, examples and foreign code stand back."""
    lower = path.lower()
    folders = lower.split("/")
    name = folders[-1]
    plain = name_parts(path.rsplit("/", 1)[-1])
    worth = 1.0
    is_test = _TESTS & set(folders[:-1]) or {"test", "tests", "spec"} & set(plain) or name == "conftest.py"
    if is_test:
        worth *= TESTS_ASKED if query.wants(stem("test"), "fixtur", "spec") else TESTS
    about_docs = query.wants("doc", stem("documentation"), "changelog", "readm")
    if (is_prose(path) or name.split(".")[0] in _DOCS) and not about_docs:
        worth *= PROSE
    elif _DOCS & set(folders[:-1]) and not about_docs:
        worth *= CODE_IN_DOCS
    elif name.rsplit(".", 1)[-1] not in _CODE and not query.wants("json", "yaml", "toml", "xml", "configur"):
        worth *= NO_CODE
    if _ASIDE & set(folders[:-1]) and not query.wants("exampl", "benchmark", "sampl"):
        worth *= 0.5
    if _FOREIGN & set(folders[:-1]) or _MINIFIED.search(lower):
        worth *= 0.3
    if _BYGONE & set(folders[:-1]):
        worth *= BYGONE
    if lower.endswith((".d.ts", ".pyi")):
        worth *= 0.5
    elif lower.endswith((".h", ".hpp", ".hh")):
        worth *= HEADERS
    return worth
