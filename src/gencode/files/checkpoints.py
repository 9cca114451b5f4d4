"""File checkpoints: the content of files before agents change them, stored by hash.

The content is in the folder of the task's outputs, readable for the owner only, and deleted with the task. An
event in the journal names it before the change is made, so a crash in between loses nothing.
"""

import asyncio
import hashlib
import logging
import os
import re
import stat
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

import msgspec

from gencode.core.events import FilesCheckpointed
from gencode.core.messages import FileCheckpoint
from gencode.core.structs import replace
from gencode.files.file_versions import FileVersions, States
from gencode.files.safe_files import state_of
from gencode.permissions.whole_files import write_private_file

log = logging.getLogger(__name__)

LARGEST = 20_000_000
"""The largest file that is stored, in bytes."""
MOST_BYTES = 500_000_000
"""The most bytes stored for a task; the oldest content makes room for new."""
ABSENT = ""
"""Instead of a hash: there is no file."""
UNKNOWN = "?"
"""Instead of a hash: content that is not stored."""
MOST_KNOWN = 2_000
"""How many files are stored before a command, the most recently read ones."""
FOLDER = ".checkpoints"
"""The name begins with a dot, so that agents are not offered it as an output."""

_HASH = re.compile("[0-9a-f]{64}")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FileContent(msgspec.Struct, frozen=True):
    """The content at a path, its hash and permissions; `data` is None for a large file or no regular file."""

    sha256: str
    data: bytes | None = b""
    mode: int = 0


def read_content(path: str, most: int = LARGEST) -> FileContent:
    """The content at a path at this moment, without following a link. It blocks."""
    try:
        handle = os.open(path, _READ)
    except (FileNotFoundError, NotADirectoryError):
        return FileContent(ABSENT)
    except (OSError, ValueError):
        return FileContent(UNKNOWN, None)  # a link, a folder, a file that may not be read
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            return FileContent(UNKNOWN, None)
        with open(handle, "rb", closefd=False) as file:
            data = file.read(most + 1)
    except OSError:
        return FileContent(UNKNOWN, None)
    finally:
        os.close(handle)
    return FileContent(hashlib.sha256(data).hexdigest(), data, stat.S_IMODE(found.st_mode))


class ContentFolder:
    """Content by hash in the folder of a task; the oldest is dropped for new content."""

    def __init__(self, task_folder: Path, most: int = MOST_BYTES) -> None:
        self.path = task_folder / FOLDER
        self._most = most
        self._size: int | None = None

    def has(self, sha256: str) -> bool:
        """Whether content is stored; it then counts as used."""
        try:
            os.utime(self.path / sha256)
        except OSError:
            return False
        return True

    def keep(self, sha256: str, data: bytes | None) -> bool:
        """Store content; False if that is not possible. It blocks."""
        if data is None:
            return False
        if sha256 == ABSENT or self.has(sha256):
            return True
        try:
            self._make_room(len(data))
            self._write(self.path / sha256, data)
        except OSError as error:
            log.warning("the content of a file could not be kept: %s", error.strerror)
            return False
        return True

    def read(self, sha256: str) -> bytes | None:
        """Content by hash; None if it is missing or damaged."""
        if not _HASH.fullmatch(sha256):
            return None
        found = read_content(str(self.path / sha256))
        return found.data if found.sha256 == sha256 else None

    def _write(self, target: Path, data: bytes) -> None:
        for folder in (self.path.parent.parent, self.path.parent, self.path):
            folder.mkdir(mode=0o700, exist_ok=True)
        write_private_file(target, data)

    def _make_room(self, size: int) -> None:
        if self._size is None:
            self._size = sum(each[1] for each in self._known())
        self._size += size
        if self._size <= self._most:
            return
        for _, freed, path in sorted(self._known()):
            Path(path).unlink(missing_ok=True)
            self._size -= freed
            if self._size <= self._most:
                return

    def _known(self) -> list[tuple[int, int, str]]:
        try:
            with os.scandir(self.path) as entries:
                found = [(each.stat(), each.path) for each in entries]
        except FileNotFoundError:
            return []
        return [(state.st_mtime_ns, state.st_size, path) for state, path in found]


class CallCheckpoints:
    """Saves the files that one call of an agent changes. `commit` writes an event of its task."""

    def __init__(
        self,
        folder: Path,
        call: str,
        versions: FileVersions,
        commit: Callable[[FilesCheckpointed], Coroutine[None, None, None]],
    ) -> None:
        self._content = ContentFolder(folder)
        self._call = call
        self._versions = versions
        self._commit = commit
        self._loop = asyncio.get_running_loop()

    def before(self, *changes: tuple[str, str]) -> None:
        """Save files, by real path, that are about to get content of this hash. It blocks: use a thread."""
        files = tuple(self._kept(path, after) for path, after in changes)
        writing = self._commit(FilesCheckpointed(self._call, files))
        asyncio.run_coroutine_threadsafe(writing, self._loop).result()

    async def before_command(self, states: States) -> Sequence[FileCheckpoint]:
        """Save every file that any agent knows: which of them a command will change is unknown."""
        known, tree = await asyncio.to_thread(self._keep_all, states)
        if tree:
            await self._commit(FilesCheckpointed(self._call, tree=tree))
        return known

    async def after_command(self, states: States, known: Sequence[FileCheckpoint]) -> None:
        """Record which of these files a command has changed, and no other agent."""
        if changed := await asyncio.to_thread(self._changed, states, known):
            await self._commit(FilesCheckpointed(self._call, changed))

    def _kept(self, path: str, after: str | None) -> FileCheckpoint:
        found = read_content(path)
        kept = self._content.keep(found.sha256, found.data)
        return FileCheckpoint(path, found.sha256, after, found.mode, kept=kept)

    def _keep_all(self, states: States) -> tuple[Sequence[FileCheckpoint], str]:
        found: list[FileCheckpoint] = []
        for path, state in [*states.items()][-MOST_KNOWN:]:
            known = self._versions.kept.get(path)
            if (
                known is None
                or known[0] != state
                or not (known[1].before and self._content.has(known[1].before))
            ):
                self._versions.kept[path] = known = (state, self._kept(path, None))
            found.append(known[1])
        if not found:
            return (), ""
        data = msgspec.json.encode(found)
        tree = hashlib.sha256(data).hexdigest()
        return found, tree if self._content.keep(tree, data) else ""

    def _changed(self, states: States, known: Sequence[FileCheckpoint]) -> tuple[FileCheckpoint, ...]:
        changed: list[FileCheckpoint] = []
        for each in known:
            now = state_of(each.path)
            if now != states[each.path] and not self._versions.author(each.path, now):
                after = read_content(each.path).sha256
                if after != each.before:
                    changed.append(replace(each, after=after))
        return tuple(changed)


def listed_in(tree: bytes) -> Sequence[FileCheckpoint]:
    """The files of a list that was saved before a command; none if it cannot be read."""
    try:
        return msgspec.json.decode(tree, type=list[FileCheckpoint])
    except (msgspec.MsgspecError, RecursionError):
        return ()
