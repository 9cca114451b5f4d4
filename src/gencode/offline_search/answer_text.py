"""Formats the answer of the offline search: places and verbatim quotes."""

from collections.abc import Sequence

from gencode.offline_search.best_passages import Passage
from gencode.offline_search.code_blocks import CodeLine
from gencode.offline_search.query import SearchQuery
from gencode.offline_search.ranking import path_weight
from gencode.offline_search.search_plan import SearchResult

MODEL = "offline-search"
# When something is found: fitted by logistic regression over the questions of the bench.
FLOOR = 3.5
LEAST_COVERED = 0.5
WORD_SHARE = 0.25
MOST_WORDS = 6
FURTHER = 2.2
ASIDE = 0.75
ROOM = 1_850
LONGEST_QUOTE = 160
QUOTED_FIRST = 5
QUOTED = 3
QUOTED_PER_PART = 12
LONGEST_TEXT = 24_000

CONNECT = (
    "to connect a model set ANTHROPIC_API_KEY or OPENAI_API_KEY, run a local Ollama, "
    "or pass --model PROVIDER/MODEL"
)
REFUSAL = f"I am only a search ({MODEL}): I cannot edit, run or plan anything; {CONNECT}."
UNSEARCHABLE = f"no confident match: no file says this, so a search ({MODEL}) cannot find it; {CONNECT}."
READ_THESE = "I cannot explain anything. These are the places to read."
ABLE = (
    f"I am only a search ({MODEL}): ask where or how something is done in this code, "
    f"`read PATH` or `list the python files in DIR`; {CONNECT}."
)
_CLOSING = "This is a search, not an explanation"


def closing(words: str) -> str:
    """The last line of every answer."""
    return f"{_CLOSING} (model {MODEL}; words searched: {words[:300] or 'none'})."


def confident(query: SearchQuery, found: SearchResult) -> list[Passage]:
    """The places worth naming, or none when even the best ones cover too little of the question.

    The more words a question has, the fewer of them any one file holds; a name or a heading that says what
    is looked for, which the score counts, makes up for words that are not there.
    """
    if not found.places:
        return []
    top = found.places[:3]
    usual = 0.5 * max(place.path_weight for place in top)
    share = [1.0 if place.path_weight >= usual else ASIDE for place in top]
    covered = max(place.coverage * part for place, part in zip(top, share, strict=True))
    together = max(place.together * part for place, part in zip(top, share, strict=True))
    evidence = covered + together
    words = WORD_SHARE * min(len(query.concepts), MOST_WORDS)
    if evidence < LEAST_COVERED or evidence + words + top[0].score < FLOOR:
        return []
    return [place for place in found.places if place.score >= top[0].score - FURTHER]


def found_text(query: SearchQuery, found: SearchResult, trouble: str = "", *, explains: bool = False) -> str:
    """The answer to one question: places, quotes, and what it is. `explains`: reasons were asked for."""
    places = confident(query, found)
    if not places:
        return _nothing(query, found, trouble)
    heads = [_head(place) for place in places]
    last = closing(query.words)
    room = ROOM - sum(len(head) + 1 for head in heads) - len(last) - 2
    quotes: list[str] = []
    for number, place in enumerate(places):
        quote = _quote(place, found.quotes.get(place.path, ()), QUOTED_FIRST if number == 0 else QUOTED)
        if quote and len(quote) + 2 <= room:
            quotes.append(quote)
            room -= len(quote) + 2
    return "\n\n".join(["\n".join(heads), *quotes, *([READ_THESE] if explains else []), last])


def _head(place: Passage) -> str:
    symbol = _one_line(place.symbol)[:80]
    return f"{_one_line(place.path)}:{place.line}" + (f"  {symbol}" if symbol else "")


def _one_line(text: str) -> str:
    """Names are anybody's text: a line break in one must not look like another answer."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _nothing(query: SearchQuery, found: SearchResult, trouble: str) -> str:
    lines = ["no confident match" + (f": {trouble}" if trouble else "")]
    useful = [
        place for place in found.places[:3] if path_weight(place.path, query) > 0 and place.coverage > 0
    ]
    if useful:
        nearest = "; ".join(f"{_one_line(place.path)} (line {place.line})" for place in useful)
        lines.append(f"Nearest, but weak: {nearest}")
    return "\n".join([*lines, "", closing(query.words)])


def _quote(place: Passage, seen: Sequence[CodeLine], most: int) -> str:
    """The defining line and the most telling ones, as they stand in the file."""
    by_number = {line.number: line for line in seen}
    if not by_number:
        return ""
    wanted = [number for number in (place.line, *place.telling) if number in by_number]
    if place.symbol and len(wanted) < most:
        wanted += [number for number in range(place.line + 1, place.line + most) if number in by_number]
    chosen: list[int] = []
    for number in dict.fromkeys(wanted):
        text = by_number[number].text
        if text.strip() and len(text) <= LONGEST_QUOTE and len(chosen) < most:
            chosen.append(number)
    lines = [f"{number:6}\t{by_number[number].text}" for number in sorted(chosen)]
    return "\n".join([_one_line(place.path), *lines]) if lines else ""


def parts_text(parts: Sequence[tuple[str, str, bool]], words: str) -> str:
    """The main agent's answer: under a heading per part what its task found (question, result, failed)."""
    sections: list[str] = []
    for question, result, failed in parts:
        body = f"This part failed: {_first_line(result)}" if failed else _trimmed(result)
        sections.append(body if len(parts) == 1 else f"## {_one_line(question)[:200]}\n{body}")
    return "\n\n".join([*sections, closing(words)])


def _trimmed(result: str) -> str:
    """A part's result: all of its places, some of its quotes, without its closing line."""
    blocks = [block for block in result.strip().split("\n\n") if not block.startswith(_CLOSING)]
    if not blocks:
        return "no confident match"
    kept = [blocks[0]]
    quoted = 0
    for block in blocks[1:]:
        quoted += block.count("\n")
        if quoted > QUOTED_PER_PART:
            break
        kept.append(block)
    return "\n\n".join(kept)


def _first_line(text: str) -> str:
    return _one_line(text.strip().split("\n", 1)[0])[:300] or "it gave no reason"


def file_text(path: str, lines: Sequence[CodeLine], *, cut: bool) -> str:
    """A file as it is, bounded; `cut` when more of it follows."""
    text = "\n".join(line.text for line in lines)
    shown = text[:LONGEST_TEXT]
    more = [f"[cut here; `read {_one_line(path)} lines A-B` shows the rest]"] if cut or shown != text else []
    return "\n".join([shown, *more, "", f"{_CLOSING} (model {MODEL}; read {_one_line(path)})."])


def list_text(paths: Sequence[str], more: int, what: str) -> str:
    """A listing, bounded."""
    shown = [_one_line(path) for path in paths[:300]]
    left = more + max(len(paths) - 300, 0)
    lines = shown or ["no such files"]
    if left:
        lines.append(f"[… and {left:,} more]")
    return "\n".join([*lines, "", f"{_CLOSING} (model {MODEL}; listed {_one_line(what)})."])
