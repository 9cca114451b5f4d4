"""Looks up what a name stands for, and lists everything of a kind: exact matches, without a ranking."""

import re
from collections.abc import Mapping

from gencode.offline_search import answer_text
from gencode.offline_search.code_blocks import CodeLine, naming_pattern, symbol_of
from gencode.offline_search.intents import CollectIntent, DefinitionIntent
from gencode.offline_search.query import query_of
from gencode.offline_search.ranking import path_stems, path_weight
from gencode.offline_search.result_parser import read_anywhere, read_lines, read_paths
from gencode.offline_search.search_plan import ASIDE, CallResult, PlannedCall
from gencode.offline_search.stemmer import stem, stems

SHOWN_LINES = 40
MOST_PLACES = 5
MOST_LISTED = 60
MOST_MODULES = 3
OUTERMOST = r"^(?:[a-z]+ )*(?:class|def|func|function|fn|struct|interface|trait|enum|type|const)\b"
"""For ripgrep: definitions that stand in no other one."""

LOOKUPS = ("defin", "places", "called", "inside-")
"""How the purposes of the calls made here begin."""

Place = tuple[str, int, str]
"""A path, a line and the name that is defined there."""


def look_up(wanted: DefinitionIntent, got: Mapping[str, CallResult]) -> list[PlannedCall] | str | None:
    """The next calls, the definitions, or None where nothing has that name."""
    found = got.get("defined")
    if found is None:
        name = re.escape(wanted.name)
        pattern = (
            rf"(?i)^\s*(?:[\w()\"]+\s+){{0,6}}(?:\([^)]*\)\s*)?{name}\b|^[\w<>:,&*~ ]*\b{name}\s*\([^;]*$"
            rf"|\b{name}\s*[:=]\s*(?:async\s+)?(?:function\b|\()"
        )
        return [_grep("defined", pattern)]
    places = [each for each in _defined(found) if _last(each[2]).casefold() == wanted.name.casefold()]
    if not places:
        return None
    query = query_of(wanted.name)
    places.sort(key=lambda each: (_last(each[2]) != wanted.name, -path_weight(each[0], query), each[:2]))
    first = places[0]
    read = got.get("definition")
    if read is None:
        window = {"file_path": first[0], "offset": first[1], "limit": SHOWN_LINES}
        return [PlannedCall("definition", "Read", window)]
    heads = [f"{path}:{line}  {symbol}" for path, line, symbol in places[:MOST_PLACES]]
    shown = [] if read.error else _body(read_lines(read.text))
    quote = [first[0], *(f"{line.number:6}\t{line.text}" for line in shown)] if shown else []
    parts = ["\n".join(heads), "\n".join(quote), answer_text.closing(wanted.name)]
    return "\n\n".join(filter(None, parts))


def collect(wanted: CollectIntent, got: Mapping[str, CallResult]) -> list[PlannedCall] | str | None:
    """The next calls, the list, or None where nothing is called so."""
    wanted_stems = [stem(word) for word in wanted.words]
    if not got:
        usable = [each for each in wanted_stems if re.fullmatch(r"[a-z]{2,}", each)]
        choices = "|".join(f"{each}|{each.capitalize()}" for each in usable) or re.escape(wanted_stems[-1])
        return [
            PlannedCall("places", "Glob", {"pattern": f"**/*{wanted_stems[-1]}*/**", "head_limit": 400}),
            PlannedCall("called", "Glob", {"pattern": f"**/*{wanted_stems[-1]}*.*", "head_limit": 100}),
            _grep("defined", naming_pattern(choices, several=len(usable) > 1)),
        ]
    query = query_of(" ".join(wanted.words))
    modules = [path for path in _paths(got.get("called")) if path_stems(path)[0] == wanted_stems]
    modules.sort(key=lambda path: (-path_weight(path, query), path))
    inside = [each for purpose, each in sorted(got.items()) if purpose.startswith("inside-")]
    if modules and not inside:
        return [
            _grep(f"inside-{place}", OUTERMOST, path) for place, path in enumerate(modules[:MOST_MODULES])
        ]
    files = [path for path in _paths(got.get("places")) if _holds(path.rpartition("/")[0], wanted_stems)]
    names = [place for place in _defined(got.get("defined")) if _is_called(place[2], wanted_stems)]
    names = sorted({*names, *(place for said in inside for place in _defined(said))})
    worth = {path: path_weight(path, query) for path in {*files, *(path for path, _, _ in names)}}
    if not worth:
        return None
    usual = 0.6 * max(worth.values())  # what is in tests and documents stands back behind what is in code
    lines = [f"{path}:{line}  {symbol}" for path, line, symbol in names if worth[path] >= usual]
    lines += [path for path in files if worth[path] >= usual and not path.endswith("__init__.py")]
    more = max(len(lines) - MOST_LISTED, 0)
    return answer_text.list_text(lines[:MOST_LISTED], more, " ".join(wanted.words))


def _grep(purpose: str, pattern: str, path: str = "") -> PlannedCall:
    asked = {"pattern": pattern, "output_mode": "content", "-n": True, "head_limit": 0}
    return PlannedCall(purpose, "Grep", asked | ({"path": path} if path else {"glob": ASIDE}))


def _defined(said: CallResult | None) -> list[Place]:
    if said is None or said.error:
        return []
    lines = ((path, line.number, symbol_of(line.text)) for path, line in read_anywhere(said.text))
    return sorted({place for place in lines if place[2]})


def _paths(said: CallResult | None) -> list[str]:
    return [] if said is None or said.error else sorted(read_paths(said.text)[0])


def _last(symbol: str) -> str:
    return re.split(r"\.|::", symbol)[-1]


def _holds(folder: str, wanted: list[str]) -> bool:
    """Whether a folder, or it and the one above, has all the words: management/commands."""
    near = stems("/".join(folder.split("/")[-2:]))
    return all(each in near for each in wanted) and wanted[-1] in stems(folder.rpartition("/")[2])


def _is_called(symbol: str, wanted: list[str]) -> bool:
    """Whether a name ends with the last of the words and has all of them: NotFoundError of `errors`."""
    inside = stems(_last(symbol))
    return bool(inside) and inside[-1] == wanted[-1] and all(each in inside for each in wanted)


def _body(lines: list[CodeLine]) -> list[CodeLine]:
    """A definition up to the next one that stands as far out."""
    if not lines:
        return []
    depth, end = _depth(lines[0].text), len(lines)
    for place, line in enumerate(lines[1:], start=1):
        if line.text.strip() and _depth(line.text) <= depth and symbol_of(line.text):
            end = place
            break
    while not lines[end - 1].text.strip():
        end -= 1
    return lines[:end]


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())
