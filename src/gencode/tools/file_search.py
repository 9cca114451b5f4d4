"""Runs a file search, with ripgrep or in Python, in a process that is killed when it is no longer needed.

Findings come in any order and are sorted here, because ripgrep is much faster when it need not sort. When
there are more than fit in memory the search runs again in order, and only as far as the page needs.
"""

import asyncio
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Protocol
from weakref import WeakKeyDictionary

from msgspec import Struct

from gencode.core.errors import ToolError
from gencode.tools.python_search import walk_command
from gencode.tools.search_records import LARGEST_WALKED, FileSearch, MatchParser, SearchMatch

OWN_TYPE = "wantednames"


@lru_cache(maxsize=64)
def find_ripgrep(root: Path) -> str | None:
    """The path of rg. PATH entries that are relative or in the workspace are skipped as untrusted."""
    beside = Path(sys.executable).parent / "rg"
    if os.access(beside, os.X_OK):
        return str(beside)
    entries = os.environ.get("PATH", "").split(os.pathsep)
    safe = [entry for entry in entries if _is_safe(entry, root)]
    return shutil.which("rg", path=os.pathsep.join(safe)) if safe else None


def _is_safe(entry: str, root: Path) -> bool:
    return entry.startswith("/") and not Path(entry).resolve().is_relative_to(root.resolve())


def ripgrep_command(program: str, search: FileSearch, outer_file: str, *, in_order: bool) -> list[str]:
    """The command line of ripgrep; `MatchParser` parses its output."""
    command = [
        program,
        "--no-config",
        "--no-messages",
        "--color=never",
        "--null",
        "--hidden",
        "--glob=!.git",
        "--no-require-git",
        "--no-ignore-parent",
        "--no-ignore-global",
        "--no-ignore-exclude",
        f"--max-filesize={LARGEST_WALKED}",
    ]
    if outer_file:
        command.append(f"--ignore-file={outer_file}")
    if in_order:
        command.append("--sort=path")
    if search.type:
        command.append(f"--type={search.type}")
    elif search.names:
        command += [f"--type-add={OWN_TYPE}:{name}" for name in search.names]
        command.append(f"--type={OWN_TYPE}")
    start = "./" if search.start == "." else f"./{search.start}"
    if search.shape == "paths":
        return [*command, "--files", "--", start]
    return [*command, *_matching(search), "-e", search.pattern, "--", start]


def _matching(search: FileSearch) -> list[str]:
    options = ["--with-filename", "--no-heading", "--crlf", "--engine=auto"]
    options.append("--ignore-case" if search.ignore_case else "--case-sensitive")
    if search.multiline:
        options += ["--multiline", "--multiline-dotall"]
    match search.shape:
        case "count":
            options.append("--count")
        case "files_with_matches":
            options.append("--files-with-matches")
        case _:
            options += [
                "--line-number",
                "--no-context-separator",
                f"--before-context={search.before}",
                f"--after-context={search.after}",
            ]
    return options


SECONDS = 10.0
KEPT_BYTES = 8 * 1024 * 1024
KEPT_HITS = 50_000
STDERR_BYTES = 16 * 1024
_CHUNK = 64 * 1024
_MISTAKE = 2
"""The exit code of a searcher that could not do what was asked."""


class Searcher(Protocol):
    """Builds the command line for a search, with a file of ignore rules or nothing."""

    def __call__(self, search: FileSearch, outer_file: str, *, in_order: bool) -> list[str]: ...


class SearchEnd(Struct, frozen=True):
    """How a search ended; `complaint` is what was wrong with it."""

    timed_out: bool = False
    complaint: str = ""


class SearchFindings(Struct):
    """What was found, file by file in the order of paths. `some`: it is too much, this is only a part."""

    ended: SearchEnd
    files: dict[bytes, list[SearchMatch]] = {}
    some: bool = False


def ripgrep_searcher(program: str) -> Searcher:
    """A searcher that runs the ripgrep at this path."""

    def command(search: FileSearch, outer_file: str, *, in_order: bool) -> list[str]:
        return ripgrep_command(program, search, outer_file, in_order=in_order)

    return command


def python_searcher(search: FileSearch, outer_file: str, *, in_order: bool) -> list[str]:
    """A searcher in plain Python; it is always in order."""
    del in_order
    return walk_command(search, outer_file)


def searcher_for(root: Path) -> Searcher:
    """The best searcher there is for a workspace."""
    program = find_ripgrep(root)
    return ripgrep_searcher(program) if program else python_searcher


async def find(searcher: Searcher, search: FileSearch, wanted: Callable[[bytes], bool]) -> SearchFindings:
    """Run a search and collect every match in wanted files, up to a limit."""
    hits, size, count = MatchParser(search.shape), 0, 0
    findings = SearchFindings(SearchEnd())

    def take(chunk: bytes) -> bool:
        nonlocal size, count
        for hit in hits.feed(chunk):
            if hit.path in findings.files or wanted(hit.path):
                findings.files.setdefault(hit.path, []).append(hit)
                size += len(hit.path) + len(hit.text)
                count += 1
        findings.some = size > KEPT_BYTES or count > KEPT_HITS
        return not findings.some

    findings.ended = await _run(searcher, search, take, in_order=False)
    if not findings.some:
        order = sorted(findings.files, key=_order)
        findings.files = {path: findings.files[path] for path in order}
    return findings


async def find_in_order(
    searcher: Searcher, search: FileSearch, take: Callable[[SearchMatch], bool]
) -> SearchEnd:
    """Run a search in the order of paths and pass on each match until `take` returns False."""
    hits = MatchParser(search.shape)
    return await _run(searcher, search, lambda chunk: all(map(take, hits.feed(chunk))), in_order=True)


def _order(path: bytes) -> bytes:
    """Paths in the order of their components: what is in the folder `a` comes before the file `a.txt`."""
    return path.replace(b"/", b"\0")


async def _run(
    searcher: Searcher, search: FileSearch, take: Callable[[bytes], bool], *, in_order: bool
) -> SearchEnd:
    for text in (search.pattern, search.type, *search.names):
        if "\0" in text or not _encodable(text):
            raise ToolError("The pattern contains a character that cannot be searched for.")
    with _as_file(search.outer) as handle:
        handles = () if handle is None else (handle,)
        command = searcher(search, f"/dev/fd/{handle}" if handles else "", in_order=in_order)
        async with _turn():
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    cwd=search.base,
                    stdin=DEVNULL,
                    stdout=PIPE,
                    stderr=PIPE,
                    env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
                    start_new_session=True,
                    pass_fds=handles,
                )
            except OSError as error:
                reason = os.strerror(error.errno or 0)
                raise ToolError(f"The search could not be started: {reason}.") from None
            return await _listen(process, take)


async def _listen(process: Process, take: Callable[[bytes], bool]) -> SearchEnd:
    """Read until the process ends, `take` has enough, or the time is over; then the process is killed."""
    complaint, done = b"", False
    try:
        async with asyncio.timeout(SECONDS):
            complaint, _ = await asyncio.gather(_beginning(process.stderr), _feed(process, take))
            await process.wait()
            done = True
    except TimeoutError:
        return SearchEnd(timed_out=True)
    finally:
        if not done:
            _kill(process)
            await _beginning(process.stdout)
            await _beginning(process.stderr)
            await process.wait()
    wrong = process.returncode == _MISTAKE
    return SearchEnd(complaint=complaint.decode("utf-8", "replace").strip() if wrong else "")


async def _feed(process: Process, take: Callable[[bytes], bool]) -> None:
    """Pass on the output; once `take` has enough, discard the rest so that the pipe can close."""
    enough = False
    while process.stdout and (chunk := await process.stdout.read(_CHUNK)):
        if not enough and not take(chunk):
            enough = True
            _kill(process)


async def _beginning(stream: asyncio.StreamReader | None) -> bytes:
    kept = b""
    while stream and (chunk := await stream.read(_CHUNK)):
        kept += chunk[: STDERR_BYTES - len(kept)]
    return kept


def _kill(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _as_file(text: str) -> Generator[int | None]:
    """A handle on a file without a name that holds the text; None for no text."""
    if not text:
        yield None
        return
    with _nameless() as file:
        file.write(text.encode("utf-8", "replace"))
        file.seek(0)
        yield file.fileno()


def _nameless() -> IO[bytes]:
    """A file in memory where the system has such a thing: searching needs no room on a disk."""
    return os.fdopen(os.memfd_create("rules"), "wb") if sys.platform == "linux" else TemporaryFile()


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def _turn() -> asyncio.Semaphore:
    """Many agents search at once; few processes at a time are as fast and never use up the handles."""
    loop = asyncio.get_running_loop()
    return _turns.setdefault(loop, asyncio.Semaphore(max(4, 2 * (os.cpu_count() or 1))))


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
