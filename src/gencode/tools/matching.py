"""tools: lines of one file that match a pattern, as the Python searcher writes them."""

import os
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import accumulate
from typing import TextIO

from gencode.tools.hits import LARGEST_WALKED, FileSearch

LONGEST_MATCHED_LINE = 1024 * 1024


class LineMatcher:
    """Searches file after file for one pattern."""

    def __init__(self, search: FileSearch) -> None:
        self._search = search
        flags = re.IGNORECASE if search.ignore_case else re.NOFLAG
        if search.multiline:
            flags |= re.MULTILINE | re.DOTALL
        self._regex = re.compile(search.pattern, flags)

    def findings(self, path: str, file: TextIO) -> Iterator[bytes]:
        """The records for one file."""
        name = b"./" + os.fsencode(path) + b"\0"
        match self._search.shape:
            case "files_with_matches":
                if next(self._matching(file), None) is not None:
                    yield name
            case "count":
                if total := sum(1 for _ in self._matching(file)):
                    yield b"%s%d\n" % (name, total)
            case _:
                lines = self._spanning_lines(file) if self._search.multiline else self._lines(file)
                for number, matches, text in self._with_context(lines):
                    shown = text.encode("utf-8", "surrogateescape")
                    yield b"%s%d%s%s\n" % (name, number, b":" if matches else b"-", shown)

    def _matching(self, file: TextIO) -> Iterator[object]:
        """One item per match (whole file) or per matching line."""
        if self._search.multiline:
            return self._regex.finditer(file.read(LARGEST_WALKED).replace("\r\n", "\n"))
        return (number for number, matches, _ in self._lines(file) if matches)

    def _lines(self, file: TextIO) -> Iterator[tuple[int, bool, str]]:
        """Every line with its number and whether it matches; a line of megabytes counts by its beginning."""
        number, inside = 0, False
        while piece := file.readline(LONGEST_MATCHED_LINE):
            if not inside:
                number += 1
                line = piece.removesuffix("\n").rstrip("\r")
                yield number, self._regex.search(line) is not None, line
            inside = not piece.endswith("\n")

    def _spanning_lines(self, file: TextIO) -> Iterator[tuple[int, bool, str]]:
        text = file.read(LARGEST_WALKED).replace("\r\n", "\n")
        lines = text.removesuffix("\n").split("\n") if text else []
        starts = [0, *accumulate(len(line) + 1 for line in lines)]
        matching: set[int] = set()
        for match in self._regex.finditer(text):
            first = bisect_right(starts, match.start()) - 1
            last = bisect_right(starts, max(match.start(), match.end() - 1)) - 1
            matching.update(range(first, last + 1))
        return ((at + 1, at in matching, line) for at, line in enumerate(lines))

    def _with_context(self, lines: Iterator[tuple[int, bool, str]]) -> Iterator[tuple[int, bool, str]]:
        earlier: deque[tuple[int, bool, str]] = deque(maxlen=self._search.before)
        following = 0
        for line in lines:
            if line[1]:
                yield from earlier
                earlier.clear()
                yield line
                following = self._search.after
            elif following:
                yield line
                following -= 1
            else:
                earlier.append(line)
