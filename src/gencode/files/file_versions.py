"""Which version of each file an agent has seen, also in earlier runs, and who changed a file last.

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
from gencode.core.messages import FileSeen, Message, ToolMessage
from gencode.core.spec import Workspace
from gencode.files.safe_files import FileIdentity, identity_of, open_for_reading, state_of
from gencode.permissions.paths import resolve, shown

MOST_CHANGES = 10_000
"""So many changes are remembered by their author, and so many files as known; the oldest are forgotten."""
MOST_FILES = 20
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

States = Mapping[str, FileIdentity | None]
"""The states of files by real path; None where nothing is."""


class FileVersions:
    """Who changed which file last, among all agents of this process, and which files any of them has seen."""

    __slots__ = ("_authors", "_known")

    def __init__(self) -> None:
        self._authors: dict[str, tuple[FileIdentity | None, str]] = {}
        self._known: dict[str, None] = {}

    def note(self, real: str, identity: FileIdentity | None, who: str) -> None:
        """Remember who brought a file into this state, None where it was deleted."""
        self._authors.pop(real, None)
        self._authors[real] = (identity, who)
        if len(self._authors) > MOST_CHANGES:
            del self._authors[next(iter(self._authors))]

    def author(self, real: str, now: FileIdentity | None) -> str:
        """Who brought a file into the state it is in; empty when that is not known."""
        identity, who = self._authors.get(real, (None, ""))
        return who if identity == now else ""

    def know(self, real: str) -> None:
        """Remember that somebody has seen a file, who may want to know who changed it."""
        self._known[real] = None
        if len(self._known) > MOST_CHANGES:
            del self._known[next(iter(self._known))]

    def states(self) -> States:
        """The files that anybody has seen, as they are now."""
        return {real: state_of(real) for real in tuple(self._known)}

    def blame(self, before: States, who: str) -> None:
        """What is not as it was before was changed by this one, if nobody else is known to have done so."""
        for real, was in before.items():
            now = state_of(real)
            if now != was and not self.author(real, now):
                self.note(real, now, who)


class SeenFiles:
    """The files an agent read or wrote, by real path, each in the state it was in then."""

    __slots__ = ("_files", "_hashes", "_told", "_versions", "_who")

    def __init__(self, files: FileVersions | None = None, who: str = "") -> None:
        self._files: dict[str, FileIdentity] = {}
        self._hashes: dict[str, str] = {}
        self._told: dict[str, FileIdentity | None] = {}
        self._versions = files or FileVersions()
        self._who = who

    def note(self, real: str, identity: FileIdentity, sha256: str = "") -> None:
        """Remember a file as it is now, with the hash of what is in it if that is known."""
        self._files[real] = identity
        self._hashes[real] = sha256
        self._told.pop(real, None)
        self._versions.know(real)

    def wrote(self, real: str, identity: FileIdentity, sha256: str = "") -> None:
        """Remember a file as this agent left it, and that it did."""
        self.note(real, identity, sha256)
        self._versions.note(real, identity, self._who)

    def deleted(self, real: str) -> None:
        """Remember that this agent deleted a file, which it does not know any more."""
        self.forget(real)
        self._versions.note(real, None, self._who)

    def forget(self, real: str) -> None:
        """Let a file be one that was never seen."""
        for known in (self._files, self._hashes, self._told):
            known.pop(real, None)

    def before(self) -> States:
        """The files that any agent has seen, as they are before a command of this one."""
        return self._versions.states()

    def ran(self, before: States) -> None:
        """A command of this agent has ended: what changed meanwhile was changed by it, as far as is known."""
        self._versions.blame(before, self._who)

    def state(self, real: str) -> FileIdentity | None:
        """The state in which a file was seen last; None for one that never was."""
        return self._files.get(real)

    def knows(self, real: str, sha256: str) -> bool:
        """Whether this is how a file was seen last; of one without a hash, whether it was seen at all."""
        return real in self._files and (not sha256 or self._hashes[real] == sha256)

    def has_seen(self, real: str, sha256: str) -> bool:
        """Whether what is in a file, by its hash, is what was seen in it, whatever else became of it."""
        return bool(sha256) and self._hashes.get(real) == sha256

    def author(self, real: str) -> str:
        """Which other agent brought a file into the state it is in; empty when that is not known."""
        who = self._versions.author(real, state_of(real))
        return "" if who == self._who else who

    def stale(self, cwd: Path) -> list[str]:
        """The files that others have changed since this agent saw them, and who did; each change once."""
        inside = os.path.realpath(cwd).rstrip("/") + "/"
        found: list[str] = []
        for real, known in tuple(self._files.items()):
            now = state_of(real)
            if now == known or self._told.get(real, known) == now:
                continue
            who = self._versions.author(real, now)
            if who and who == self._who:
                continue
            same_size = now is not None and now.size == known.size
            if now and same_size and self._hashes.get(real) and self.has_seen(real, _hash_of(real, now.size)):
                self._files[real] = now  # it was only touched
                continue
            self._told[real] = now
            name = real.removeprefix(inside)
            found.append((name if name.isprintable() else shown(name)) + (f" (by {who})" if who else ""))
        return found


def _hash_of(real: str, size: int) -> str:
    """The hash of what is in a plain file of a known size; empty where that is something else by now."""
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
"""The state of a file that is not as it was: no file has it."""


def as_text(state: FileIdentity) -> str:
    """A state as journals keep it: its numbers are too large for some that read JSON."""
    return ":".join(f"{number:x}" for number in astuple(state))


def recall(seen: SeenFiles, files: Iterable[FileSeen], workspace: Workspace) -> None:
    """Let an agent know files again that it knew: as they are, if they are as they were then.

    Of any other one it knows that it was changed. This blocks: files are read for it.
    """
    for known in files:
        path = str(Path(os.path.realpath(workspace.cwd), known.path))
        place = resolve(path, workspace)
        if place.refusal or place.real != path:  # a link by now, and so another file
            continue
        if not seen.knows(path, known.sha256):
            seen.note(path, _as_known(known, path, workspace), known.sha256)


def last_known(transcript: Iterable[Message]) -> list[FileSeen]:
    """Every file that calls let their agent know, as after the last of them."""
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
    """The state of a file now, if what is in it is what was known of it."""
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
