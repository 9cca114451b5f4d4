"""File search in plain Python, for machines without ripgrep.

It runs as a process of its own, because a hostile pattern can keep Python's `re` busy forever and only a
process can be killed. It reads one `FileSearch` as JSON, honours the same ignore files and writes the same
output as ripgrep, in the order of the paths.
"""

import os
import re
import stat
import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TextIO

import msgspec

from gencode.core.structs import replace
from gencode.tools.glob_patterns import compile_plain
from gencode.tools.ignore_files import IGNORE_FILES, IgnoreRules, read_rules
from gencode.tools.search_records import LARGEST_WALKED, FileSearch

LONGEST_MATCHED_LINE = 1024 * 1024


class LineMatcher:
    """Finds the matching lines of files for one pattern."""

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
        """Every line with its number and whether it matches; long lines are searched at their beginning."""
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


_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SNIFFED_BYTES = 64 * 1024


class UnknownType(Exception):
    """A type of files that only ripgrep may know."""


@dataclass(slots=True)
class _OpenFolder:
    """An open folder of the walk and the ignore rules in it."""

    path: str
    entries: Iterator["os.DirEntry[str]"]
    rules: dict[str, IgnoreRules]


class FolderWalk:
    """Iterates over the regular files below a folder, without ignored ones; links are never followed."""

    def __init__(self, start: str, outer: str) -> None:
        self._outer = IgnoreRules(outer)
        self._levels: list[_OpenFolder] = []
        self._start = start

    def __iter__(self) -> Iterator[str]:
        self._enter(self._start)
        while self._levels:
            level = self._levels[-1]
            entry = next(level.entries, None)
            if entry is None:
                self._levels.pop()
                continue
            path = entry.name if level.path == "." else f"{level.path}/{entry.name}"
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or self._ignored(path, is_folder):
                continue
            if is_folder:
                self._enter(path)
            elif entry.is_file(follow_symlinks=False):
                yield path

    def _enter(self, path: str) -> None:
        try:
            with os.scandir(path) as found:
                entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
        except OSError:
            return
        present = {entry.name for entry in entries}
        rules = {name: IgnoreRules(read_rules(path, name)) for name in IGNORE_FILES if name in present}
        self._levels.append(_OpenFolder(path, iter(entries), rules))

    def _ignored(self, path: str, is_folder: bool) -> bool:
        for name in IGNORE_FILES:
            for level in reversed(self._levels):
                if rules := level.rules.get(name):
                    inside = path if level.path == "." else path[len(level.path) + 1 :]
                    if (verdict := rules.verdict(inside, is_folder)) is not None:
                        return verdict
        return bool(self._outer.verdict(path, is_folder))


def run(search: FileSearch) -> None:
    """Search from the current folder and write what is found to standard output."""
    out = os.fdopen(1, "wb", buffering=_SNIFFED_BYTES, closefd=False)
    searcher = None if search.shape == "paths" else LineMatcher(search)
    if search.type:
        raise UnknownType(f"unrecognized file type: {search.type}")
    wanted = compile_plain(search.names) if search.names else None
    if os.path.isdir(search.start):  # noqa: PTH112 – paths stay text here, bytes that are not UTF-8 included
        files: Iterator[str] = iter(FolderWalk(search.start, search.outer))
        most = LARGEST_WALKED
    else:
        files, most, wanted = iter([search.start]), sys.maxsize, None
    for path in files:
        if wanted and not wanted.fullmatch(path.rsplit("/", 1)[-1]):
            continue
        if searcher is None:
            out.write(os.fsencode(path) + b"\0")
        elif file := _text_file(path, most):
            with file:
                out.writelines(searcher.findings(path, file))
    out.flush()


def _text_file(path: str, most: int) -> TextIO | None:
    """A file open for reading as text; None for what cannot be read, is too big or is binary."""
    try:
        handle = os.open(path, _OPEN)
    except OSError:
        return None
    status = os.fstat(handle)
    head = (
        os.pread(handle, _SNIFFED_BYTES, 0)
        if stat.S_ISREG(status.st_mode) and status.st_size <= most
        else b"\0"
    )
    wide = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in head and not wide:
        os.close(handle)
        return None
    if wide:
        return os.fdopen(handle, encoding="utf-16", errors="replace", newline="\n")
    return os.fdopen(handle, encoding="utf-8-sig", errors="surrogateescape", newline="\n")


def main() -> int:
    """The process: a search as JSON, its start, and a file with outer ignore rules (or nothing) as arguments.

    What is wrong with the search goes to standard error in ripgrep's manner.
    """
    text, start, outer_file = sys.argv[1:]
    outer = Path(outer_file).read_text("utf-8", "replace") if outer_file else ""
    try:
        run(replace(msgspec.json.decode(text, type=FileSearch), start=start, outer=outer))
    except (UnknownType, re.error) as error:
        sys.stderr.write(f"rg: {error}\n")
        return 2
    except BrokenPipeError:
        return 1
    return 0


def walk_command(search: FileSearch, outer_file: str) -> list[str]:
    """The command line that runs this file as a process; its folder is the search's base.

    It is an isolated Python that finds this package where it is now. `start` travels beside the JSON because
    a name that is not UTF-8 has no place in JSON.
    """
    start_here = "from gencode.tools.python_search import main; sys.exit(main())"
    boot = f"import sys; sys.path.append(sys.argv.pop(1)); {start_here}"
    home = str(Path(__file__).parents[2])
    asked = msgspec.json.encode(replace(search, base="", start="", outer="")).decode()
    return [
        sys.executable,
        "-I",
        "-W",
        "ignore",
        "-X",
        "utf8",
        "-c",
        boot,
        home,
        asked,
        search.start,
        outer_file,
    ]
