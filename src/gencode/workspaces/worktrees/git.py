"""Runs GenCode's own git commands so that nothing of a repository runs: no hook, filter or driver.

Settings on the command line win over every file's. Settings that name a program are found by asking git for
the names of all settings, which starts nothing, and are overridden one by one.
"""

import asyncio
import os
import re
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from random import uniform
from typing import Any, TypeVar

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.structs import replace
from gencode.sandbox.processes.answer_timeout import answer_timeout
from gencode.sandbox.processes.environment import EnvironmentFilter

T = TypeVar("T")

SECONDS = 60.0
MOST_BYTES = 8 << 20
_ERROR_BYTES = 8 * 1024
_CHUNK = 64 * 1024
_TRIES = 12
_CUT = -1
_MISUSED = 129
"""Git's exit code for an unknown option."""
_GRACE = 2.0
_LITTLE_ROOM = 4 << 20

_EMPTIED = re.compile(
    # The name between two dots may be empty: `[diff ""]` is the driver of the attribute `diff=`.
    r"diff\.external|diff\..*\.(?:command|textconv)|filter\..*\.(?:clean|smudge|process)"
    r"|gpg\.(?:.*\.)?program|core\.(?:alternaterefscommand|gitproxy)|credential\.(?:.*\.)?helper",
    re.IGNORECASE | re.DOTALL,
)
_REFUSED = re.compile(r"filter\..*\.required", re.IGNORECASE | re.DOTALL)
_DRIVER = re.compile(r"merge\..*\.driver", re.IGNORECASE | re.DOTALL)
_HOOK = re.compile(r"(?P<hook>hook\..*)\.[^.]+", re.IGNORECASE | re.DOTALL)
_HALF = re.compile(r"(?:failed to read .*|bad object )(?P<half>worktrees/[^/\n]+)/")
_BUSY = re.compile(rf"\.lock'|could not lock|{_HALF.pattern}")
"""Another process has a lock, or is making a worktree."""
_FULL = ("No space left on device", "Disk quota exceeded")

_SETTINGS = {
    "advice.detachedHead": "false",
    "checkout.guess": "false",
    "commit.gpgSign": "false",
    "core.editor": "false",
    "core.logAllRefUpdates": "true",
    "core.quotePath": "false",
    "core.splitIndex": "false",
    # The worktrees of another machine with the same repository look as if they were gone.
    "gc.worktreePruneExpire": "never",
    "i18n.commitEncoding": "utf-8",
    "user.useConfigOnly": "false",
}
_VARIABLES = {
    "LC_ALL": "C",
    # These two also hold where a repository allows a protocol by name.
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_AUTHOR_NAME": "GenCode",
    "GIT_AUTHOR_EMAIL": "gencode@localhost",
    "GIT_COMMITTER_NAME": "GenCode",
    "GIT_COMMITTER_EMAIL": "gencode@localhost",
}


class GitResult(Struct, frozen=True):
    """The result of a call. `cut`: there was more output than wanted and git was ended."""

    code: int
    out: bytes
    error: str
    cut: bool = False

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def line(self) -> str:
        """A single name or number from the output."""
        return os.fsdecode(self.out.removesuffix(b"\n"))

    @property
    def names(self) -> list[bytes]:
        """The names in the output that end with NUL."""
        return [each for each in self.out.split(b"\0") if each]


class Git(Struct, frozen=True):
    """A git program and its options for every call. `where` names the repository, if the folder does not."""

    program: str
    environ: dict[str, str]
    folder: Path
    where: tuple[str, ...] = ()
    held: tuple[int, ...] = ()
    """Locks that are held until git has ended, even if the process that started it is killed before."""

    async def run(
        self,
        *words: str,
        stdin: bytes = b"",
        seconds: float = SECONDS,
        most: int = MOST_BYTES,
        index: str = "",
    ) -> GitResult:
        """Run git to its end, after at most `seconds` or `most` bytes."""
        environ = {**self.environ, "GIT_INDEX_FILE": index} if index else self.environ
        try:
            process = await asyncio.create_subprocess_exec(
                self.program,
                "--no-pager",
                *self.where,
                *words,
                cwd=self.folder,
                env=environ,
                stdin=PIPE if stdin else DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
                pass_fds=self.held,
            )
        except OSError as error:
            raise UserMistake(f"git could not be started: {error.strerror}.") from None
        return await _listen(process, stdin, seconds, most)

    async def run_uninterrupted(self, *words: str) -> GitResult:
        """Run a short writing call to its end, and retry while another git holds a lock."""
        return await run_to_end(self.run_with_retries(*words))

    async def run_with_retries(self, *words: str, seconds: float = SECONDS) -> GitResult:
        """Run git, and retry for some seconds while another git holds a lock."""
        said = await self.run(*words, seconds=seconds)
        for number in range(_TRIES):
            if said.ok or not _BUSY.search(said.error):
                break
            await asyncio.sleep(uniform(0.5, 1) * min(0.05 * 2**number, 1.0))  # noqa: S311
            said = await self.run(*words, seconds=seconds)
        return said

    async def output_line(self, *words: str) -> str:
        """The one line of output, or nothing if git refuses."""
        said = await self.run(*words)
        return said.line if said.ok else ""

    def for_checkout(self, git_dir: Path, work_tree: Path) -> "Git":
        """The same for a named checkout, without a search: a file in it cannot redirect git."""
        return replace(self, folder=work_tree, where=(f"--git-dir={git_dir}", f"--work-tree={work_tree}"))


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run something to its end even if it is cancelled: a git that is killed leaves locks behind."""
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing])
        raise


async def safe_git(folder: Path, outside: Path, git_dir: Path | None = None) -> Git:
    """Git for a repository around a folder. A program below `outside` is not used as git."""
    program = _find(os.environ, outside)
    if program is None:
        raise UserMistake("git is not installed; a worktree needs it. Install git, or run without isolation.")
    where = (f"--git-dir={git_dir}",) if git_dir else ()
    asking = Git(program, _environment({}), folder, where)
    listing = await asking.run("config", "--null", "--name-only", "--show-scope", "--list", "--includes")
    scopes, names = listing.names[::2], {os.fsdecode(name) for name in listing.names[1::2]}
    if listing.code == _MISUSED or (listing.ok and b"command" not in scopes):
        raise UserMistake(
            "A worktree needs git 2.31 or newer: one that is older than 2.31 would start programs that a "
            "repository names. Update git, or run without isolation."
        )
    if listing.code == _CUT:
        raise UserMistake(
            f"The configuration of the git repository at {folder} cannot be read: {listing.error}."
        )
    return Git(program, _environment(_without_programs(names)), folder)


def is_disk_full(said: GitResult, place: Path | None = None) -> bool:
    """Whether git failed because the disk is full; `place` is where it wrote."""
    full = any(word in said.error for word in _FULL)
    return full or ("unable to write" in said.error and _has_no_room(place))


def git_error(said: GitResult, what: str, place: Path | None = None) -> UserMistake:
    """Why git failed, as a sentence; `place` is where it wrote."""
    if is_disk_full(said, place):
        return UserMistake(f"{what}: the disk is full. Free some space and try again.")
    if "dubious ownership" in said.error:
        return UserMistake(
            f"{what}: it belongs to somebody else. If you trust it, add it to git's safe.directory."
        )
    if said.code == _CUT or said.cut:
        return UserMistake(f"{what}: git took too long or printed too much.")
    if half := _HALF.search(said.error):
        left = f"If none is running, it was killed; then remove the folder {half['half']} in git's own folder"
        return UserMistake(f"{what}: another git process is adding a worktree there. {left}, and try again.")
    if _BUSY.search(said.error):
        return UserMistake(f"{what}: another git process holds a lock there. Try again when it has finished.")
    lines = [line for line in said.error.splitlines() if line.startswith(("fatal:", "error:"))]
    reason = (lines or said.error.splitlines() or ["no reason was given"])[0]
    return UserMistake(f"{what}: git said {reason[:300]!r}.")


def _has_no_room(place: Path | None) -> bool:
    """Whether a disk is full: git does not always say so."""
    try:
        return place is not None and shutil.disk_usage(place).free < _LITTLE_ROOM
    except OSError:
        return False


def _find(environ: Mapping[str, str], outside: Path) -> str | None:
    """The path of git. Entries of PATH that are relative or in the repository could be anybody's program."""
    entries = environ.get("PATH", os.defpath).split(os.pathsep)
    safe = [
        each for each in entries if each.startswith("/") and not Path(each).resolve().is_relative_to(outside)
    ]
    return shutil.which("git", path=os.pathsep.join(safe)) if safe else None


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """Our environment, without keys and without what changes git; the hooks folder cannot exist."""
    return {
        **EnvironmentFilter().read_only(os.environ, Path(os.devnull), {**_SETTINGS, **more}),
        **_VARIABLES,
    }


def _without_programs(names: set[str]) -> dict[str, str]:
    """For each setting that names a program: the option that overrides it. Some merges then need a person."""
    found: dict[str, str] = {}
    for name in names:
        if _EMPTIED.fullmatch(name):
            found[name] = ""
        elif _REFUSED.fullmatch(name):
            found[name] = "false"
        elif _DRIVER.fullmatch(name):
            found[name] = "false"  # the program that always fails: changes on both sides are a conflict
        elif hook := _HOOK.fullmatch(name):
            found[f"{hook['hook']}.enabled"] = "false"
    return found


async def _listen(process: Process, stdin: bytes, seconds: float, most: int) -> GitResult:
    out, error = bytearray(), bytearray()
    done = False
    try:
        async with answer_timeout(seconds):
            await asyncio.gather(
                _feed(process, stdin),
                _take(process, process.stdout, out, most),
                _take(process, process.stderr, error, _ERROR_BYTES, ends=False),
            )
            await process.wait()
            done = True
    except TimeoutError:
        return GitResult(_CUT, bytes(out), f"it took longer than {seconds:g} s")
    finally:
        if not done:
            await _end(process)
    cut = len(out) > most
    complaint = error.decode(errors="replace") or ("its output is too long" if cut else "")
    return GitResult(_CUT if cut else process.returncode or 0, bytes(out[:most]), complaint, cut)


async def _feed(process: Process, stdin: bytes) -> None:
    if process.stdin is not None:
        with suppress(ConnectionError):  # it ended before it had read everything
            process.stdin.write(stdin)
            await process.stdin.drain()
        process.stdin.close()


async def _take(
    process: Process, stream: asyncio.StreamReader | None, kept: bytearray, most: int, *, ends: bool = True
) -> None:
    """Read one byte more than is wanted, to know whether there was more."""
    while stream and (chunk := await stream.read(_CHUNK)):
        kept += chunk[: most + 1 - len(kept)]
        if ends and len(kept) > most:
            _signal(process, signal.SIGTERM)


async def _end(process: Process) -> None:
    """Terminate git, which then removes its locks; kill it if it does not end."""
    _signal(process, signal.SIGTERM)
    try:
        async with answer_timeout(_GRACE):
            await process.wait()
    except TimeoutError:
        _signal(process, signal.SIGKILL)
        await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
