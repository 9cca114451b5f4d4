"""Parses the results of Grep, Glob and Read into counts, paths and lines."""

import re
from dataclasses import dataclass

from gencode.offline_search.code_blocks import LONGEST_LINE, CodeLine

_MORE = re.compile(r"^\[… ?(?:([\d,]+) )?more; go on with offset=(\d+)\]$", re.MULTILINE)
_NOTE = re.compile(r"^\[.*\]$")
_COUNT = re.compile(r"^(.+):(\d+)$")
_READ_LINE = re.compile(r"^ *(\d+)\t(.*)$")
_MATCH = re.compile(r"^(\d+):(.*)$")


@dataclass(frozen=True, slots=True)
class GrepCounts:
    """How often a pattern matched, by path; `more` files were cut off after `next_offset`."""

    by_path: dict[str, int]
    more: int = 0
    next_offset: int = 0

    @property
    def files(self) -> int:
        """How many files matched, those that were cut off included."""
        return len(self.by_path) + self.more


def read_counts(text: str) -> GrepCounts:
    """The result of Grep with output_mode count: `path:count` lines."""
    by_path: dict[str, int] = {}
    rest = _rest(text)
    for line in text.splitlines():
        match = None if _NOTE.match(line) else _COUNT.match(line)
        if match:
            by_path[clean_path(match.group(1))] = int(match.group(2))
    return GrepCounts(by_path, *rest)


def read_paths(text: str) -> tuple[list[str], int]:
    """The result of Glob: one path per line, and how many were cut off."""
    paths = [clean_path(line) for line in text.splitlines() if line.strip() and not _NOTE.match(line)]
    if len(paths) == 1 and (" " in paths[0] and paths[0].endswith(".")):
        paths = []
    return paths, _rest(text)[0]


def read_matches(text: str, path: str) -> list[CodeLine]:
    """The matches of one file in the result of Grep with output_mode content."""
    return [line for name, line in read_anywhere(text) if name == clean_path(path)]


def read_anywhere(text: str) -> list[tuple[str, CodeLine]]:
    """The result of Grep with output_mode content: each path, and below it `line:text`."""
    found: list[tuple[str, CodeLine]] = []
    path = ""
    for raw in text.splitlines():
        if match := _MATCH.match(raw):
            found.append((path, CodeLine(int(match.group(1)), match.group(2)[:LONGEST_LINE])))
        elif raw and not _NOTE.match(raw):
            path = clean_path(raw)
    return found


def read_lines(text: str) -> list[CodeLine]:
    """The result of Read: numbered lines."""
    found = (_READ_LINE.match(raw) for raw in text.splitlines())
    return [CodeLine(int(match.group(1)), match.group(2)) for match in found if match]


def clean_path(path: str) -> str:
    """A path without a leading `./`."""
    return path.removeprefix("./")


def _rest(text: str) -> tuple[int, int]:
    """How many entries follow, and where; a number nobody counted is taken for as many as were shown."""
    matches = _MORE.findall(text[-1500:])
    if not matches:
        return 0, 0
    count, offset = matches[-1]
    return int(count.replace(",", "") or offset), int(offset)
