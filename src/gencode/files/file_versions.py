"""Which version of each file an agent has seen, and which agent of this process changed it last.

An agent changes no file of which it does not know the present version.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import astuple

from gencode.core.errors import ToolError
from gencode.core.messages import FileCheckpoint, FileSeen, Message, ToolMessage
from gencode.core.spec import Workspace
from gencode.core.text import code_span
from gencode.files.safe_files import FileIdentity, identity_of, open_for_reading, state_of
from gencode.permissions.paths import resolve

MOST_CHANGES = 10_000
"""How many changes are remembered with their author, and how many known files; the oldest are dropped."""
MOST_FILES = 20
LONGEST_NAME = 200
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

States = Mapping[str, FileIdentity | None]
"""The states of files by real path; None for a missing file."""


class FileVersions:
    """Which agent of this process changed a file last, and which files any of them has seen."""

    __slots__ = ("_authors", "_known", "kept")

    def __init__(self) -> None:
        self.kept: dict[str, tuple[FileIdentity | None, FileCheckpoint]] = {}
        """The states of files when their content was last saved."""
        self._authors: dict[str, tuple[FileIdentity | None, str]] = {}
        self._known: dict[str, None] = {}

    def note(self, real: str, identity: FileIdentity | None, who: str) -> None:
        """Record who brought a file into this state; None if it was deleted."""
        self._authors.pop(real, None)
        self._authors[real] = (identity, who)
        if len(self._authors) > MOST_CHANGES:
            del self._authors[next(iter(self._authors))]

    def author(self, real: str, now: FileIdentity | None) -> str:
        """Who brought a file into its present state; empty if that is not known."""
        identity, who = self._authors.get(real, (None, ""))
        return who if identity == now else ""

    def know(self, real: str) -> None:
        """Record that an agent has seen a file, and may ask who changed it."""
        self._known[real] = None
        if len(self._known) > MOST_CHANGES:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self.kept.pop(oldest, None)

    def states(self) -> States:
        """The files that any agent has seen, as they are now."""
        return {real: state_of(real) for real in tuple(self._known)}

    def blame(self, before: States, who: str) -> None:
        """Record this agent as the author of changes since `before` that have no other known author."""
        for real, was in before.items():
            now = state_of(real)
            if now != was and not self.author(real, now):
                self.note(real, now, who)


class SeenFiles:
    """The files an agent read or wrote, by real path, each in its state at that time."""

    __slots__ = ("_files", "_hashes", "_told", "_who", "versions")

    def __init__(self, files: FileVersions | None = None, who: str = "") -> None:
        self._files: dict[str, FileIdentity] = {}
        self._hashes: dict[str, str] = {}
        self._told: dict[str, FileIdentity | None] = {}
        self.versions = files or FileVersions()
        self._who = who

    def note(self, real: str, identity: FileIdentity, sha256: str = "") -> None:
        """Record a file as it is now, with its hash if that is known."""
        self._files[real] = identity
        self._hashes[real] = sha256
        self._told.pop(real, None)
        self.versions.know(real)

    def wrote(self, real: str, identity: FileIdentity, sha256: str = "") -> None:
        """Record a file as this agent wrote it."""
        self.note(real, identity, sha256)
        self.versions.note(real, identity, self._who)

    def deleted(self, real: str) -> None:
        """Record that this agent deleted a file."""
        self.forget(real)
        self.versions.note(real, None, self._who)

    def forget(self, real: str) -> None:
        """Forget a file."""
        for known in (self._files, self._hashes, self._told):
            known.pop(real, None)

    def before(self) -> States:
        """The files that any agent has seen, as they are before a command of this one."""
        return self.versions.states()

    def ran(self, before: States) -> None:
        """After a command of this agent: record it as the author of changes, as far as is known."""
        self.versions.blame(before, self._who)

    def state(self, real: str) -> FileIdentity | None:
        """The state in which a file was last seen; None for an unknown file."""
        return self._files.get(real)

    def knows(self, real: str, sha256: str) -> bool:
        """Whether a file is as it was last seen; without a hash, whether it was seen at all."""
        return real in self._files and (not sha256 or self._hashes[real] == sha256)

    def has_seen(self, real: str, sha256: str) -> bool:
        """Whether the content of a file, by hash, is as it was seen."""
        return bool(sha256) and self._hashes.get(real) == sha256

    def author(self, real: str) -> str:
        """Which other agent brought a file into its present state; empty if that is not known."""
        who = self.versions.author(real, state_of(real))
        return "" if who == self._who else who

    def stale(self, cwd: Path) -> list[str]:
        """The files that others have changed since this agent saw them, and who did; each change once."""
        inside = os.path.realpath(cwd).rstrip("/") + "/"
        found: list[str] = []
        for real, known in tuple(self._files.items()):
            now = state_of(real)
            if now == known or self._told.get(real, known) == now:
                continue
            who = self.versions.author(real, now)
            if who and who == self._who:
                continue
            same_size = now is not None and now.size == known.size
            if now and same_size and self._hashes.get(real) and self.has_seen(real, _hash_of(real, now.size)):
                self._files[real] = now  # only its times changed
                continue
            self._told[real] = now
            name = real.removeprefix(inside)
            found.append(code_span(name, LONGEST_NAME) + (f" (by {who})" if who else ""))
        return found


def _hash_of(real: str, size: int) -> str:
    """The hash of a regular file of a known size; empty if it is something else by now."""
    try:
        with os.fdopen(os.open(real, _PLAIN), "rb") as file:
            plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return hashlib.sha256(file.read(size + 1)).hexdigest() if plain else ""
    except (OSError, ValueError):
        return ""


def changed_under(files: Sequence[str]) -> str:
    """A line for an agent whose knowledge of some files is out of date."""
    if not files:
        return ""
    some = ", ".join(files[:MOST_FILES])
    rest = f" and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else ""
    return f"\n[Files that you had read have changed: {some}{rest}. Read them again before you rely on them.]"


CHUNK = 1 << 20
ANOTHER = FileIdentity(0, 0, 0, 0, 0)
"""A state that no file has, for a changed file."""


def as_text(state: FileIdentity) -> str:
    """A state as text for the journal: its numbers are too large for some JSON readers."""
    return ":".join(f"{number:x}" for number in astuple(state))


def recall(seen: SeenFiles, files: Iterable[FileSeen], workspace: Workspace) -> None:
    """Restore the file versions an agent knew; an unchanged file counts as known.

    Of a changed file it is known that it changed. This blocks: files are read.
    """
    for known in files:
        path = str(Path(os.path.realpath(workspace.cwd), known.path))
        place = resolve(path, workspace)
        if place.refusal or place.real != path:  # a link by now, and so another file
            continue
        if not seen.knows(path, known.sha256):
            seen.note(path, _as_known(known, path, workspace), known.sha256)


def last_known(transcript: Iterable[Message]) -> list[FileSeen]:
    """The file versions that calls let their agent know, as of the last of them."""
    found: dict[str, FileSeen] = {}
    for message in transcript:
        for result in message.results if isinstance(message, ToolMessage) else ():
            for change in result.trace.changed:
                if not change.sha256:  # deleted or moved away by this agent
                    found.pop(change.path, None)
            for each in result.trace.seen:
                found.pop(each.path, None)
                found[each.path] = each
    return [*found.values()][-MOST_CHANGES:]


def _as_known(known: FileSeen, path: str, workspace: Workspace) -> FileIdentity:
    """The state of a file now, if its content is the known one."""
    try:
        with open_for_reading(resolve(path, workspace)) as file:
            state = identity_of(file)
            same = _hash(file) == known.sha256 if known.sha256 else as_text(state) == known.state
            return state if same and state == identity_of(file) else ANOTHER
    except (ToolError, OSError):
        return ANOTHER


def _hash(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
