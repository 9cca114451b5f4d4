"""Placeholders for names that must not appear while a command runs, in git's folder and in the user's home.

Most sandboxes keep a command from changing what is there, and not from making what is not. So what is not
there is made first. Git takes nothing from an empty file or folder, and a `commondir` that names the folder
it is in says what git does without one. That one goes again with the last command that needs it, and so
does an empty folder of submodules; an empty file and an empty folder of hooks stay. A folder from which the
user's agents and hooks would be read is made empty, and goes again with the last command.
"""

import fcntl
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gencode.core.structs import replace
from gencode.sandbox.guarded_paths import file_mode, is_linked_worktree_file
from gencode.sandbox.profile import SandboxProfile

OWN_COMMONDIR = b".\n"
"""What a `commondir` says that stands in."""
_COMMON = "commondir"
_FILES = ("config", "config.worktree")
_SUBMODULES = "modules"
_FOLDERS = ("hooks", _SUBMODULES)
_ELSEWHERE = re.compile(rb"^\s*(?:\[core\]\s*)?worktree\s*=", re.I | re.M)
"""Git does not heed it in a folder with a `commondir`; a submodule is found by other means as well."""
_PER_WORKTREE = re.compile(rb"^\s*(?:\[extensions\]\s*)?worktreeconfig\b", re.I | re.M)
_LARGEST_CONFIG = 1 << 20
_TRIES = 50
_PAUSE = 0.01
_RESERVED = 0o500
"""The permissions of a folder that stands in; somebody's own folder has others."""
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Placeholders(Struct):
    """What stands in for one command: how it is enclosed now, and what is given up when it has ended."""

    plan: SandboxProfile
    commons: list[tuple[Path, int]]
    folders: list[tuple[Path, int]] = []

    def release(self) -> None:
        """Remove what stands in, unless another command needs it."""
        while self.folders:
            path, handle = self.folders.pop()
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(handle, path):
                    path.rmdir()
            os.close(handle)
        while self.commons:
            path, handle = self.commons.pop()
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(handle, path) and os.pread(handle, len(OWN_COMMONDIR) + 1, 0) == OWN_COMMONDIR:
                    with suppress(OSError):
                        path.with_name(_SUBMODULES).rmdir()
                    path.unlink()
            os.close(handle)


def add_placeholders(plan: SandboxProfile) -> Placeholders:
    """Put something in the place of each name in git's folders that is guarded and not there.

    Where that cannot be, the whole folder is guarded.
    """
    held = Placeholders(plan, [])
    closed: list[Path] = []
    for place in plan.reserved:
        with suppress(OSError):  # whoever cannot make it here cannot make it inside either
            held.folders += _reserved(place)
    for folder in _git_folders(plan):
        try:
            if is_linked_worktree_file(folder / _COMMON):
                _stand_in_linked(folder)
            elif folder.parent not in plan.guarded and _ELSEWHERE.search(_config(folder)):
                closed.append(folder)
            else:
                held.commons += _common(folder / _COMMON)  # first: who has it keeps the others there
                _stand_in(folder)
        except FileNotFoundError:
            continue  # it went away, as worktrees do
        except OSError:
            closed.append(folder)
    held.plan = replace(plan, guarded=(*plan.guarded, *closed))
    return held


def _git_folders(plan: SandboxProfile) -> Iterable[Path]:
    """Those that the command could write to."""
    found = dict.fromkeys(place.parent for place in plan.guarded if place.name == _COMMON)
    return [
        folder
        for folder in found
        if folder.is_dir() and any(folder.is_relative_to(root) for root in plan.writable)
    ]


def _stand_in(folder: Path) -> None:
    for name in _FILES:
        _empty(folder / name)
    for name in _FOLDERS:
        with suppress(FileExistsError):
            (folder / name).mkdir()


def _stand_in_linked(folder: Path) -> None:
    """Only where git looks there at all: these folders are also made and removed by others."""
    if _PER_WORKTREE.search(_config(folder.parents[1])):
        _empty(folder / "config.worktree")


def _empty(path: Path) -> None:
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def _config(folder: Path) -> bytes:
    if not file_mode(folder / "config"):
        return b""
    with (folder / "config").open("rb") as file:
        return file.read(_LARGEST_CONFIG)


def _common(path: Path) -> list[tuple[Path, int]]:
    """The `commondir` that stands in, with a lock by which others see that it is needed.

    Nothing where git has one of its own. OSError when it cannot be had.
    """
    for _ in range(_TRIES):
        handle = _made(path)
        if handle is None:
            with suppress(FileNotFoundError):
                handle = os.open(path, _OPEN)
        if handle is None:
            continue
        if os.pread(handle, len(OWN_COMMONDIR) + 1, 0) != OWN_COMMONDIR:
            os.close(handle)
            return []
        if _is_locked(handle) and _is_at(handle, path):
            return [(path, handle)]
        os.close(handle)
        time.sleep(_PAUSE)
    raise OSError(f"{path} is in use")


def _reserved(path: Path) -> list[tuple[Path, int]]:
    """A folder that stands in, with a lock by which others see that it is needed; nothing for another one."""
    for _ in range(_TRIES):
        with suppress(FileExistsError):
            path.mkdir(mode=_RESERVED)
        try:
            handle = os.open(path, _OPEN | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        if stat.S_IMODE(os.fstat(handle).st_mode) != _RESERVED:
            os.close(handle)
            return []
        if _is_locked(handle) and _is_at(handle, path):
            return [(path, handle)]
        os.close(handle)
        time.sleep(_PAUSE)
    raise OSError(f"{path} is in use")


def _made(path: Path) -> int | None:
    """A new one that appears as a whole; None when there is one."""
    if os.path.lexists(path):
        return None
    handle, draft = tempfile.mkstemp(prefix="gencode-", dir=path.parent)
    try:
        os.write(handle, OWN_COMMONDIR)
        os.fchmod(handle, 0o644)
        os.link(draft, path)
    except OSError as error:
        os.close(handle)
        if isinstance(error, FileExistsError):
            return None
        raise
    finally:
        Path(draft).unlink(missing_ok=True)
    return handle


def _is_locked(handle: int) -> bool:
    """A command could hold a lock of its own for ever, so nobody waits for it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: then it stays, which does no harm
    return True


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except OSError:
        return False
