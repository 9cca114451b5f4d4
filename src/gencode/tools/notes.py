"""tools: where notes are kept: Markdown files below the per-user folder, one folder for each owner.

    memory/user/NAME.md   memory/project/FOLDER-HASH/NAME.md   memory/agent/AGENT-HASH/NAME.md

Nothing of it lies in a repository. A note is replaced as a whole or not at all, and whoever changes one holds
the lock of its folder, in whatever process, so that no change of another is lost.
"""

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gencode.core.errors import ToolError
from gencode.core.spec import Workspace, same_name
from gencode.permissions.paths import Resolved, shown
from gencode.runtime.openers import NotThere, open_for_reading, replace_file
from gencode.tools.files import size_text

Scope = Literal["user", "project", "agent"]

LARGEST = 64 * 1024
MOST = 200
LOCK_SECONDS = 10.0
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_SUFFIX = ".md"
_LOCK_FILE = ".lock"
_PATIENCE = 0.02


class Note(Struct, frozen=True):
    """A note as a list shows it."""

    name: str
    size: int
    changed: float


class NoteFolder:
    """The notes of one scope. These calls block; call them in a thread."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def notes(self) -> list[Note]:
        """Every note, by name."""
        try:
            with os.scandir(self.path) as entries:
                found = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
                named = [
                    (entry.name.removesuffix(_SUFFIX), entry.stat()) for entry in found if _is_note(entry)
                ]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._trouble(error) from None
        return sorted(
            (Note(name, status.st_size, status.st_mtime) for name, status in named),
            key=lambda note: note.name,
        )

    def read(self, name: str) -> str | None:
        """The text of a note; None when there is none."""
        try:
            with open_for_reading(self._place(name)) as file:
                return file.read(LARGEST).decode("utf-8", "replace")
        except NotThere:
            return None

    def change(self, name: str, make: Callable[[str | None], str]) -> str:
        """Make a new text of the old one (None: there is none), alone; the new text."""
        place = self._place(name)
        self._make()
        with self._alone():
            before = self.read(name)
            text = make(before)
            data = text.encode()
            if len(data) > LARGEST:
                raise ToolError(
                    f"The note would have {size_text(len(data))}, and {size_text(LARGEST)} is the most; "
                    "shorten it, or begin another one."
                )
            if before is None and len(self.notes()) >= MOST:
                raise ToolError(f"There are {MOST} notes already; write into one of those.")
            replace_file(place, data)
        return text

    def _place(self, name: str) -> Resolved:
        """Just this file: a link in its place is not followed, and a file with several names not opened."""
        path = f"{os.path.realpath(self.path)}/{name}{_SUFFIX}"
        return Resolved(f"The note {name}", path, path)

    def _make(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._trouble(error) from None

    @contextmanager
    def _alone(self) -> Generator[None]:
        flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            handle = os.open(self.path / _LOCK_FILE, flags, 0o600)
        except OSError as error:
            raise self._trouble(error) from None
        try:
            _wait_for(handle)
            yield
        finally:
            os.close(handle)

    def _trouble(self, error: OSError) -> ToolError:
        return ToolError(f"Notes cannot be kept in {self.path}: {error.strerror}.")


def folder_of(home: Path, scope: Scope, workspace: Workspace, agent: str) -> NoteFolder:
    """The notes of the user, of this workspace, or of every agent with this name."""
    memory = home / "memory"
    match scope:
        case "user":
            return NoteFolder(memory / "user")
        case "project":
            root = os.path.realpath(workspace.root)
            return NoteFolder(memory / "project" / _key(Path(root).name, root))
        case "agent":
            return NoteFolder(memory / "agent" / _key(agent, same_name(agent)))


def clean_name(name: str) -> str:
    """The name of a note in one spelling; ToolError for what cannot be one."""
    plain = name.strip().removesuffix(_SUFFIX).lower()
    if not _NAME.fullmatch(plain):
        raise ToolError(
            f"{shown(name, 80)} is no name for a note; use up to 64 letters, digits, - and _, "
            "as in build-steps."
        )
    return plain


def _key(title: str, identity: str) -> str:
    """A folder name that a person recognises and that no two owners share."""
    plain = _NOT_IN_NAMES.sub("-", title.lower()).strip("-")[:40] or "x"
    return f"{plain}-{hashlib.sha256(os.fsencode(identity)).hexdigest()[:12]}"


def _is_note(entry: "os.DirEntry[str]") -> bool:
    return entry.name.endswith(_SUFFIX) and _NAME.fullmatch(entry.name.removesuffix(_SUFFIX)) is not None


def _wait_for(handle: int) -> None:
    ends = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                raise ToolError(
                    "Somebody else is changing these notes all the time; try again later."
                ) from None
            time.sleep(_PATIENCE)
        else:
            return
