"""The request of a file search, and the parser for the output of a searcher.

A searcher writes paths below `FileSearch.base`, each ended by a NUL; `count` and `content` go on to the end
of the line with the number, or with the line's number, `:` or `-` (a line around a match) and its text.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from msgspec import Struct

SearchOutput = Literal["paths", "files_with_matches", "count", "content"]
LONGEST_RECORD = 64 * 1024
LARGEST_WALKED = 50 * 1024 * 1024
"""Bigger files are only searched when they are named, so that a line of gigabytes cannot fill the memory."""


class FileSearch(Struct, frozen=True, kw_only=True):
    """The request of one search: where, for what, and what to return.

    `start` is the file or folder below `base`, "." for `base` itself. `names` are patterns for file names (a
    coarse sieve, empty: all). `outer` holds the ignore rules above `start`, written for `base`.
    """

    base: str
    start: str
    shape: SearchOutput
    pattern: str = ""
    ignore_case: bool = False
    multiline: bool = False
    before: int = 0
    after: int = 0
    type: str = ""
    names: tuple[str, ...] = ()
    outer: str = ""


class SearchMatch(NamedTuple):
    """A path with nothing else, with a count, or with one line (`matches`: not just around a match)."""

    path: bytes
    number: int = 0
    text: bytes = b""
    matches: bool = True


_LINE = re.compile(rb"(\d+)([:-])(.*)", re.DOTALL)
_BINARY_NOTE = re.compile(rb"\./[^\0]*?: WARNING: stopped searching binary file [^\n]*\n(?=\./)")


class MatchParser:
    """Parses a searcher's output as a stream, in constant memory."""

    def __init__(self, shape: SearchOutput) -> None:
        self._shape = shape
        self._left = b""
        self._overlong = False

    def feed(self, chunk: bytes) -> Iterator[SearchMatch]:
        """The matches that are complete with this chunk."""
        if self._shape in ("paths", "files_with_matches"):
            *paths, self._left = (self._left + chunk).split(b"\0")
            yield from (SearchMatch(path.removeprefix(b"./")) for path in paths)
            return
        if self._overlong:
            end = chunk.find(b"\n")
            if end < 0:
                return
            chunk, self._overlong = chunk[end:], False
        buffer, at = self._left + chunk, 0
        while (nul := buffer.find(b"\0", at)) >= 0 and (end := buffer.find(b"\n", nul)) >= 0:
            if hit := self._hit(buffer[at:nul], buffer[nul + 1 : end].rstrip(b"\r")):
                yield hit
            at = end + 1
        self._left = buffer[at : at + LONGEST_RECORD]
        self._overlong = len(buffer) - at > LONGEST_RECORD

    def _hit(self, path: bytes, rest: bytes) -> SearchMatch | None:
        if b"\n" in path:
            path = _BINARY_NOTE.sub(b"", path)
        path = path.removeprefix(b"./")
        if self._shape == "count":
            return SearchMatch(path, int(rest)) if rest.isdigit() else None
        found = _LINE.match(rest)
        return SearchMatch(path, int(found[1]), found[3], found[2] == b":") if found else None
