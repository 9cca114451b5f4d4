"""Files that are written as a whole or not at all: drafts without a name, and the lock of private files.

A process that is killed while it writes leaves nothing behind where the file system has unnamed files.
"""

import errno
import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_HANDLES = "/proc/self/fd"
"""Where a file without a name is given one."""
_UNNAMED: int = os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC if Path(_HANDLES).is_dir() else 0
_NO_UNNAMED = frozenset({errno.ENOTSUP, errno.EISDIR, errno.EINVAL})
_NAMED = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: int = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class FileDraft:
    """A new file in an open folder, which gets a name when it is whole; without `rename` nothing stays.

    Where the file system has no files without a name, it has one of its own from the beginning.
    """

    def __init__(self, folder: int, mode: int = 0o600) -> None:
        self._folder = folder
        self._name = ""
        if _UNNAMED:
            try:
                self.handle = os.open(".", _UNNAMED, mode, dir_fd=folder)
                return
            except OSError as error:
                if error.errno not in _NO_UNNAMED:
                    raise
        name = _free_name()
        self.handle = os.open(name, _NAMED, mode, dir_fd=folder)
        self._name = name

    def __enter__(self) -> "FileDraft":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.handle)
        if self._name:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._folder)

    def write(self, content: bytes) -> None:
        """Append to it."""
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(self.handle, rest) :]

    def sync(self) -> None:
        """Wait until the disk has it; some file systems have nothing to sync."""
        try:
            os.fsync(self.handle)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
                raise

    def rename(self, name: str) -> None:
        """Take the place of the file of this name."""
        if not self._name:
            free = _free_name()
            os.link(f"{_HANDLES}/{self.handle}", free, dst_dir_fd=self._folder)
            self._name = free
        os.rename(self._name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._name = ""


def _free_name() -> str:
    return f".gen-{secrets.token_hex(8)}.tmp"


def write_private_file(path: Path, content: bytes, *, sync: bool = False, at_ns: int | None = None) -> None:
    """Write a file as a whole or not at all, for its owner only; its modification time may be set.

    With `sync` the disk has it before it takes the place of the file that was there.
    """
    folder = os.open(path.parent, _FOLDER)
    try:
        with FileDraft(folder) as draft:
            draft.write(content)
            if at_ns is not None:
                with suppress(OSError, OverflowError):  # no file system knows every time
                    os.utime(draft.handle, ns=(at_ns, at_ns))
            if sync:
                draft.sync()
            draft.rename(path.name)
    finally:
        os.close(folder)


class FileLock:
    """A lock on a private file of a folder, between processes."""

    def __init__(self, home: Path, file: str) -> None:
        self._path = home / f"{file}.lock"

    def __enter__(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._handle = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._handle, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
