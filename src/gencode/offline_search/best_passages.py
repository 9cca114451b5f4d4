"""Finds the best passage inside each of the best files."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gencode.offline_search.code_blocks import (
    DEFINITION_PATTERN,
    LONGEST_LINE,
    CodeBlock,
    CodeLine,
    is_comment,
    only_declares,
    split_blocks,
)
from gencode.offline_search.query import LONG_STEM, SearchQuery, any_pattern, exact_pattern
from gencode.offline_search.ranking import ConceptWeights, RankedFile, is_prose, path_weight
from gencode.offline_search.stemmer import name_parts, stem, telling_length

SYMBOL = 3.0
TOGETHER = 0.6
DECLARATION = 0.8
# How the files are put in order: fitted by softmax regression over the questions of the bench.
BLOCK_SHARE = 0.67
NAMED_SHARE = 0.92
SYMBOLS_SHARE = 0.61
HEAD_SHARE = 0.86
STANDING_SHARE = 0.83
SHAPE_SHARE = 0.65
MOST_SYMBOLS = 6
HEAD_LINES = 30
USUAL_BLOCK = 30
_IMPORT = re.compile(
    r"^\s*(?:import\b|from\b.*\bimport\b|use\s|#include|.*\brequire\(|export\b.*\bfrom\b|package\s)"
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A place in a file that answers: its line, what is defined there, and the lines that speak for it.

    `coverage` is the share of the question's weight that the file covers, `together` what one block covers.
    """

    path: str
    line: int
    symbol: str
    score: float
    coverage: float
    together: float
    telling: tuple[int, ...]
    path_weight: float = 1.0


@dataclass(frozen=True, slots=True)
class FileEvidence:
    """What else speaks for a file: its best symbols and its opening comment; `shape` speaks against it."""

    symbols: float = 0.0
    head: float = 0.0
    shape: bool = False


@dataclass(frozen=True, slots=True)
class MatchedFile:
    """What was found of one file: its rank, its matched lines in order, its length."""

    ranked: RankedFile
    lines: Sequence[CodeLine]
    length: int


def look_pattern(query: SearchQuery) -> str:
    """A ripgrep pattern for every line that matters: definitions, the question's words and their kin."""
    stemmed = [concept.stem for concept in query.concepts if concept.weight >= 1]
    stemmed += [each for concept in query.concepts for each, _ in concept.kin]
    exact = [exact_pattern(concept.word) for concept in query.concepts if concept.exact]
    pairs = [query.pair_pattern(pair) for pair in query.pairs]
    return "|".join([DEFINITION_PATTERN, any_pattern(list(dict.fromkeys(stemmed))), *exact, *pairs])


class ConceptMatcher:
    """Matches parts of identifiers with the concepts of a question; results are cached for one search."""

    def __init__(self, query: SearchQuery) -> None:
        self._query = query
        self._exact = [(place, each.word) for place, each in enumerate(query.concepts) if each.exact]
        self._known: dict[str, tuple[tuple[int, float], ...]] = {}

    def of(self, text: str) -> dict[int, float]:
        """The concepts in a text with the strength of their best word."""
        found: dict[int, float] = {}
        words = name_parts(text)
        for word in words:
            known = self._known.get(word)
            if known is None:
                known = self._known[word] = tuple(self._stands_for(word))
            for place, strength in known:
                found[place] = max(strength, found.get(place, 0.0))
        for place, word in self._exact:
            if word in text:
                found[place] = 1.0
        return found

    def _stands_for(self, word: str) -> list[tuple[int, float]]:
        own = stem(word)
        found: list[tuple[int, float]] = []
        for place, concept in enumerate(self._query.concepts):
            strength = 1.0 if _same(own, word, concept.stem) else 0.0
            for kin, weight in concept.kin:
                if weight > strength and _same(own, word, kin):
                    strength = weight
            if strength:
                found.append((place, strength))
        return found


def _same(own: str, word: str, asked: str) -> bool:
    return own == asked or (len(asked) >= LONG_STEM and word.startswith(asked))


def best_passages(query: SearchQuery, weights: ConceptWeights, files: Sequence[MatchedFile]) -> list[Passage]:
    """The best block of every file, and the files in their final order."""
    hits = ConceptMatcher(query)
    places = [(file.ranked, *best_block(query, weights, file, hits)) for file in files]
    top_file = max((ranked.score for ranked, _, _ in places), default=0.0) or 1.0
    standing = max((place.path_weight for _, place, _ in places), default=1.0)
    top_block = max((place.score for _, place, _ in places), default=0.0) or 1.0
    ordered = [
        replace(
            place,
            score=ranked.score / top_file
            + BLOCK_SHARE * place.score / top_block
            + NAMED_SHARE * ranked.named
            + SYMBOLS_SHARE * signs.symbols
            + HEAD_SHARE * signs.head
            + STANDING_SHARE * math.log(place.path_weight / standing)
            - SHAPE_SHARE * signs.shape,
            coverage=max(place.together, ranked.coverage),
        )
        for ranked, place, signs in places
    ]
    ordered.sort(key=lambda each: (-each.score, each.path))
    return ordered


def best_block(
    query: SearchQuery, weights: ConceptWeights, file: MatchedFile, hits: ConceptMatcher
) -> tuple[Passage, FileEvidence]:
    """The block of a file that answers best, and what the rest of the file says."""
    path = file.ranked.path
    length = max(file.length, file.lines[-1].number if file.lines else 1)
    total = sum(weights.whole) or 1.0
    worth = path_weight(path, query)
    best = Passage(path, 1, "", 0.0, 0.0, 0.0, ())
    shape = False
    symbols: dict[str, float] = {}
    for block in split_blocks(list(file.lines), length, is_prose(path)):
        named = _in_symbol(block.symbol, weights, hits)
        declares = any(line.number == block.start and only_declares(line.text) for line in block.lines)
        place = _score(path, block, weights, total, hits)
        score = (place.score + SYMBOL * named * (0.4 + 0.6 * place.coverage)) * (
            DECLARATION if declares else 1
        )
        symbols[block.symbol] = named / total
        if score > best.score:
            best, shape = replace(place, score=score), declares
    signs = FileEvidence(
        sum(sorted(symbols.values())[-MOST_SYMBOLS:]), _in_head(file.lines, weights, hits) / total, shape
    )
    return replace(best, score=best.score * worth, path_weight=worth), signs


def _in_symbol(symbol: str, weights: ConceptWeights, hits: ConceptMatcher) -> float:
    """How much of the question's weight a defined name holds, less when it holds much else."""
    if not symbol:
        return 0.0
    return _worth(hits.of(symbol), weights) / telling_length(symbol) ** 0.5


def _in_head(lines: Sequence[CodeLine], weights: ConceptWeights, hits: ConceptMatcher) -> float:
    """How much of it the comments at the top of a file hold."""
    found: dict[int, float] = {}
    for line in lines:
        if line.number <= HEAD_LINES and is_comment(line.text):
            for place, share in hits.of(line.text).items():
                found[place] = max(share, found.get(place, 0.0))
    return _worth(found, weights)


def _worth(found: Mapping[int, float], weights: ConceptWeights) -> float:
    return sum(weights.whole[place] * share for place, share in found.items())


def _score(
    path: str, block: CodeBlock, weights: ConceptWeights, total: float, hits: ConceptMatcher
) -> Passage:
    """A block by its text alone."""
    strength: dict[int, float] = {}
    best: dict[int, float] = {}
    by_line: list[tuple[float, int]] = []
    together = 0.0
    for line in block.lines:
        found = hits.of(line.text) if len(line.text) < LONGEST_LINE else {}
        if not found:
            continue
        factor = 0.3 if _IMPORT.match(line.text) else 1.0
        value = _worth(found, weights) * factor
        for place, share in found.items():
            strength[place] = strength.get(place, 0.0) + share * factor
            best[place] = max(share, best.get(place, 0.0))
        together = max(together, value if len(found) > 1 else 0.0)
        by_line.append((value, line.number))
    stretch = 0.5 + 0.5 * min((block.end - block.start + 1) / USUAL_BLOCK, 6.0)
    score = sum(
        weights.whole[place] * best[place] * times * 2.2 / (times + 1.2 * stretch)
        for place, times in strength.items()
    )
    coverage = _worth(best, weights) / total
    score = (score + TOGETHER * together) * (0.4 + 0.6 * coverage)
    by_line.sort(key=lambda each: (-each[0], each[1]))
    line = block.start if block.symbol else (by_line[0][1] if by_line else block.start)
    telling = tuple(number for _, number in by_line[:6])
    return Passage(path, line, block.symbol or block.inside, score, coverage, coverage, telling)
