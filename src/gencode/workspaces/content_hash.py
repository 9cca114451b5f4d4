"""Hashes the contents of files and folders, for the result cache."""

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
"""The most bytes that are hashed for one result; a result that depends on more is not reused."""
IGNORES = (".gitignore", ".ignore", ".rgignore")
REPOSITORY = ".git"
"""Searches skip it, and the folder that has it is where ignore files begin to apply."""
TICK_SECONDS = 0.02
"""By how much the time of a file may lag behind the clock."""
CHUNK = 1 << 20
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _users_excludes() -> tuple[str, ...]:
    """Where git looks for the user's excludes file and for the setting that names another one."""
    home = os.environ.get("HOME", "")
    config = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return f"{config}/git/ignore", f"{config}/git/config", f"{home}/.gitconfig"


class NotHashable(GenCodeError):
    """What a result depends on cannot be determined."""


class ContentHasher:
    """Hashes the contents of a workspace, each file once and with a limit on the sum. Its calls block.

    With `unchanged_since` it only hashes what nobody has changed from that time on, so that it is what every
    reader saw.
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
        """The hash of a file or folder by its path from the working directory; empty if there is none."""
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
        """The ignore files that apply in a folder: from the top of its repository, or the workspace."""
        above = [path, *map(str, Path(path).parents)]
        top = next((each for each in above if os.path.lexists(f"{each}/{REPOSITORY}")), self._root)
        for folder in above[: above.index(top) + 1]:
            for name in IGNORES:
                file = f"{folder}/{name}"
                yield folder, name, self._file(file) if os.path.lexists(file) else ""
            self._check(os.lstat(folder))
        for file in (f"{top}/{REPOSITORY}/info/exclude", *_users_excludes()):
            yield top, file, self._file(file) if os.path.lexists(file) else ""

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
            if entry.name in IGNORES:  # a linked ignore file applies with its target
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
        """Raise NotHashable if a file or folder was changed since; no program can set its ctime back."""
        if self._until is not None and found.st_ctime_ns >= self._until:
            raise NotHashable
