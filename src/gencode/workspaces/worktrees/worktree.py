"""Records of worktrees on disk: their paths, the recorded facts about each, and their locks.

A task begins or ends in a worktree only with its lock, also between processes: nobody removes one that
another task is about to use, and of two that end at once one is the last.
"""

import asyncio
import fcntl
import hashlib
import os
import re
import socket
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from gencode.core.changes import BRANCHES
from gencode.core.errors import UserMistake
from gencode.core.spec import Workspace
from gencode.permissions.agent_folders import WORKTREES, worktrees_folder
from gencode.permissions.whole_files import write_private_file

MIRRORS = ".mirrors"
"""The folder, beside those of the worktrees, for repositories that were sent here."""
_RECORDS = ".records"
_LONGEST_RECORD = 256 * 1024
_NAME = re.compile(r"(?!.*\.\.)(?!.*\.lock$)[A-Za-z0-9][A-Za-z0-9._-]{0,62}[A-Za-z0-9]|[A-Za-z0-9]")
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


class Worktree(Struct, frozen=True):
    """A separate checkout. `repository` is the checkout it was made from, `base` the commit it began at,
    `workspace` the folders in it that match those it was requested from.

    `git_dir` and `main_dir` are git's folders of the two: files in a checkout could point elsewhere.
    """

    path: Path
    repository: Path
    base: str
    branch: str
    workspace: Workspace
    notes: tuple[str, ...]
    git_dir: Path
    main_dir: Path
    away: bool = False
    """Whether it was made for a task from another machine, which has the checkout."""
    begun: str = ""
    """What it was made from, as text, if that is not just the last commit."""
    after: str = ""
    """The task whose changes it began with; a merge includes them."""
    origin: str = ""
    """The commit where all agents' changes begin, if some were made between that and `base`."""
    mixed: bool = False
    """Whether it began with a person's uncommitted changes, so that only a patch can be merged."""
    holds: str = ""
    """For a task from another machine, the last commit it sent, here or before."""

    @property
    def first(self) -> str:
        """The last commit that is not an agent's change here."""
        return self.origin or self.base

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def common_dir(self) -> Path:
        """Git's folder that all checkouts of the repository share."""
        return self.git_dir.parents[1]

    @property
    def snapshot(self) -> Path:
        """The index as it was when the agent began; changes to the agent's own index have no effect."""
        return self.git_dir / "gencode-index"


def repository_folder(home: Path, repository: Path) -> Path:
    """The folder of the worktrees of one repository."""
    return _folder_of(worktrees_folder(home), repository)


def derived_worktrees(path: Path) -> list[Path]:
    """The worktrees that were made from the one at a path and still exist."""
    folder = _folder_of(path.parent.parent, path)
    found = [read_record(each) for each in _folders(folder) if not each.name.startswith(".")]
    return sorted(each.path for each in found if each is not None and each.repository == path)


def _folder_of(worktrees: Path, repository: Path) -> Path:
    real = os.path.realpath(repository)
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:10]
    plain = _ODD.sub("-", Path(real).name).strip("-.")[:40] or "repository"
    return worktrees / f"{plain}-{digest}"


def worktree_name(task: str, worktree: str) -> str:
    """The name of a task's worktree; one that had copies on workers has another one at home."""
    return Path(worktree).name if worktree else f"{task}-home"


def local_name(name: str, home: Path) -> str:
    """The name of a worktree that replaces one on another machine, with the same repository."""
    here = f"{socket.gethostname()}:{worktrees_folder(home)}".encode(errors="surrogateescape")
    return f"{name}-at-{hashlib.sha256(here).hexdigest()[:6]}"


def local_worktree(
    home: Path, repository: Path | None, name: str, worktree: str, branch: str
) -> Worktree | None:
    """The worktree of a task on this machine; the one on a `branch`, if there are two.

    One is also found by its branch if this machine had another name when it was made.
    """
    paths = [Path(worktree)] if worktree else []
    if repository is not None:
        folder = repository_folder(home, repository)
        told = [branch.removeprefix(BRANCHES)] if branch else []
        paths += [folder / each for each in (name, local_name(name, home), *told)]
    found = [existing_worktree(path) for path in dict.fromkeys(paths)]
    there = [tree for tree in found if tree is not None and not tree.away]
    return next((tree for tree in there if tree.branch == branch), there[0] if there else None)


def existing_worktree(path: Path) -> Worktree | None:
    """The worktree at a path, if it exists."""
    tree = read_record(path)
    return tree if tree is not None and tree.path.is_dir() else None


def enclosing_worktree(folder: Path) -> Path | None:
    """The worktree that contains a folder, by the records; usually there is none."""
    if WORKTREES not in str(folder):  # called at the end of every task
        return None
    return next((each for each in (folder, *folder.parents) if record_file(each).is_file()), None)


def checked_name(name: str) -> str:
    """A name that is one plain folder and one plain part of a branch, or UserMistake."""
    if not _NAME.fullmatch(name):
        raise UserMistake(
            f"A worktree cannot be called {name[:80]!r}: use letters, digits and . _ - inside, at most 64."
        )
    return name


def record_file(path: Path) -> Path:
    """The file with the record of the worktree at a path."""
    return path.parent / _RECORDS / f"{path.name}.json"


def write_record(worktree: Worktree) -> None:
    """Write the record of a worktree beside it, where its agent does not work."""
    path = record_file(worktree.path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private_file(path, msgspec.json.encode(worktree, enc_hook=_plain))


def remove_record(path: Path) -> None:
    record_file(path).unlink(missing_ok=True)


def retire_record(path: Path) -> None:
    """Record that there is no worktree at a path any more; where it began stays known."""
    with suppress(FileNotFoundError):
        record_file(path).replace(_retired(path))


def read_last_record(path: Path) -> Worktree | None:
    """The record of the worktree at a path, or of the last one there that was removed unchanged."""
    return read_record(path) or _read(_retired(path), path)


def read_record(path: Path) -> Worktree | None:
    """The record of the worktree at a path; None if there is none, or it cannot be read."""
    return _read(record_file(path), path)


def _retired(path: Path) -> Path:
    return record_file(path).with_suffix(".gone")


def _read(record: Path, path: Path) -> Worktree | None:
    try:
        with record.open("rb") as file:
            text = file.read(_LONGEST_RECORD)
        found = msgspec.json.decode(text, type=Worktree, dec_hook=_typed)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.path == path and found.branch == BRANCHES + path.name else None


def all_worktrees(home: Path) -> list[Path]:
    """Every worktree that exists or is recorded, in order."""
    found: set[Path] = set()
    for folder in _folders(worktrees_folder(home)):
        if folder.name == MIRRORS:
            continue
        found.update(each for each in _folders(folder) if not each.name.startswith("."))
        with suppress(OSError):
            found.update(
                folder / each.stem for each in (folder / _RECORDS).iterdir() if each.suffix == ".json"
            )
    return sorted(found)


@contextmanager
def private_folder(folder: Path) -> Generator[None]:
    """Make a private folder for worktrees, or say why that failed."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise UserMistake(f"A worktree cannot be made in {folder}: {error.strerror}.") from None


def _folders(folder: Path) -> list[Path]:
    try:
        return [each for each in folder.iterdir() if each.is_dir() and not each.is_symlink()]
    except OSError:
        return []


def _plain(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError


def _typed(kind: type, value: Any) -> Any:
    return Path(value) if kind is Path else value


LOCK_SECONDS = 120.0


@asynccontextmanager
async def folder_lock(folder: Path) -> AsyncGenerator[tuple[int, ...]]:
    """Wait for the lock of a folder, also between processes: git fails at worktrees that are half made.

    Gives the lock's descriptors, for a git that may outlive its process; none without locks.
    """
    with (folder / ".lock").open("ab") as file:
        yield await lock_file(file.fileno(), f"making a worktree in {folder}")


async def lock_file(handle: int, what: str, seconds: float = LOCK_SECONDS) -> tuple[int, ...]:
    """Lock a file; its descriptors. UserMistake if others hold it for too long."""
    end = time.monotonic() + seconds
    while (held := _try_lock(handle)) is None:
        if time.monotonic() > end:
            raise UserMistake(f"Another process has been {what} for too long. Try again.")
        await asyncio.sleep(0.02)
    return held


def _try_lock(handle: int) -> tuple[int, ...] | None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError:
        return ()  # a file system without locks: git's own must be enough
    return (handle,)


@asynccontextmanager
async def worktree_lock(path: Path) -> AsyncGenerator[Worktree | None]:
    """The worktree at a path with its lock held; None if there is none any more."""
    while file := _opened(path):
        with file:
            await lock_file(file.fileno(), f"beginning or ending in {path}")
            if _is_current(file, path):  # it may have been removed and recreated meanwhile
                yield read_record(path)
                return
    yield None


def _opened(path: Path) -> IO[bytes] | None:
    """The record of a worktree, which is also its lock, since it is never replaced."""
    try:
        return record_file(path).open("r+b")
    except OSError:
        return None


def _is_current(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), record_file(path).stat())
    except OSError:
        return False
