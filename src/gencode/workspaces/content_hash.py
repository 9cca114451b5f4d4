"""Hashes of files and folders: one hash for all of what can be seen there."""

import hashlib
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from gencode.core.errors import GenCodeError
from gencode.core.spec import Workspace

MOST_NAMES = 10_000
MOST_BYTES = 100_000_000
"""So much is looked at for one result; one that rests on more is not given again."""
IGNORES = (".gitignore", ".ignore", ".rgignore")
REPOSITORY = ".git"
"""Searches pass it over, and a folder that has it is where ignore files begin to count."""
TICK_SECONDS = 0.02
"""By so much the times of a file may be behind the clock."""
CHUNK = 1 << 20
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotHashable(GenCodeError):
    """What something rests on cannot be told exactly."""


class ContentHasher:
    """Hashes what lies in a workspace, each file once and not too much in all. Its calls block.

    With `unchanged_since` there is a hash only for what nobody has touched from that moment on: then it is
    what everybody saw who looked meanwhile.
    """

    def __init__(self, workspace: Workspace, unchanged_since: float | None = None) -> None:
        self._cwd = os.path.realpath(workspace.cwd)
        self._root = os.path.realpath(workspace.root)
        self._until = None if unchanged_since is None else int((unchanged_since - TICK_SECONDS) * 1e9)
        self._names_left = MOST_NAMES
        self._bytes_left = MOST_BYTES
        self._hashes: dict[str, str] = {}
        self._files: dict[str, str] = {}

    def hash(self, name: str) -> str:
        """Of a file or folder by its name from the working directory; empty where there is none."""
        if name not in self._hashes:
            try:
                self._hashes[name] = self._looked_at(os.path.normpath(f"{self._cwd}/{name}"))
            except (NotHashable, OSError, ValueError):
                self._hashes[name] = ""
        return self._hashes[name]

    def _looked_at(self, path: str) -> str:
        inside = Path(path).relative_to(self._cwd).parts
        if os.path.realpath(path) != path or REPOSITORY in (part.lower() for part in inside):
            raise NotHashable
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return self._file(path)
        digest = hashlib.sha256()
        for row in (*self._rules_above(path), *self._below(path)):
            digest.update(repr(row).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def _rules_above(self, path: str) -> Iterator[tuple[str, ...]]:
        """The ignore files that count in a folder: from the top of its repository, or the workspace."""
        above = [path, *map(str, Path(path).parents)]
        top = next((each for each in above if os.path.lexists(f"{each}/{REPOSITORY}")), self._root)
        for folder in above[: above.index(top) + 1]:
            for name in IGNORES:
                file = f"{folder}/{name}"
                yield folder, name, self._file(file) if os.path.lexists(file) else ""
            self._check(os.lstat(folder))

    def _below(self, path: str) -> Iterator[tuple[str, ...]]:
        folders = [path]
        while folders:
            folder = folders.pop()
            with os.scandir(folder) as found:
                entries = sorted(islice(found, self._names_left + 1), key=lambda entry: entry.name)
            self._names_left -= len(entries)
            if self._names_left < 0:
                raise NotHashable
            for entry in entries:
                yield folder, entry.name, self._seen_of(entry)
                if entry.is_dir(follow_symlinks=False) and entry.name != REPOSITORY:
                    folders.append(entry.path)
            self._check(os.lstat(folder))

    def _seen_of(self, entry: "os.DirEntry[str]") -> str:
        if entry.is_symlink():
            if entry.name in IGNORES:  # it counts with what is at its other end
                raise NotHashable
            return f"link {os.readlink(entry.path)}"  # noqa: PTH115 (bytes that are not UTF-8 stay text)
        if entry.is_file(follow_symlinks=False):
            return self._file(entry.path)
        return f"kind {stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)}"

    def _file(self, path: str) -> str:
        if path not in self._files:
            self._files[path] = self._content(path)
        return self._files[path]

    def _content(self, path: str) -> str:
        digest = hashlib.sha256()
        handle = os.open(path, _OPEN)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise NotHashable
            while chunk := os.read(handle, CHUNK):
                digest.update(chunk)
                self._bytes_left -= len(chunk)
                if self._bytes_left < 0:
                    raise NotHashable
            self._check(os.fstat(handle))
        finally:
            os.close(handle)
        return digest.hexdigest()

    def _check(self, found: os.stat_result) -> None:
        """Raise where a file or folder was touched since; no program can set that time back."""
        if self._until is not None and found.st_ctime_ns >= self._until:
            raise NotHashable
