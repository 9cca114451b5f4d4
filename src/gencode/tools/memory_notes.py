"""memory_list, memory_read, memory_write, memory_patch and memory_append: notes that outlive a session.

Notes are Markdown files below the per-user folder, one folder for each owner, and never in a repository:

    memory/user/NAME.md   memory/project/FOLDER-HASH/NAME.md   memory/agent/AGENT-HASH/NAME.md

A note is replaced as a whole or not at all. A change holds the lock of the folder, across processes, so that
no other change is lost.
"""

import asyncio
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from gencode.agent.toolbox import Param, Tool, ToolContext, tool
from gencode.core.errors import ToolError
from gencode.core.spec import Workspace, same_name
from gencode.core.text import counted
from gencode.files.safe_files import PathMissing, open_for_reading, replace_file
from gencode.permissions.paths import Resolved, shown
from gencode.tools.edit import Edit, edited
from gencode.tools.file_changes import run_to_completion
from gencode.tools.files import size_text
from gencode.tools.text_files import TextFile, checked

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
    """A folder with the notes of one scope. Its methods block; call them in a thread."""

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
        except PathMissing:
            return None

    def change(self, name: str, make: Callable[[str | None], str]) -> str:
        """Replace a note with `make` of its text (None: there is none), under the lock; the new text."""
        place = self._place(name)
        self._make()
        with self._alone():
            before = self.read(name)
            text = make(before)
            data = text.encode()
            if len(data) > LARGEST:
                raise ToolError(
                    f"The note would be {size_text(len(data))}, and the limit is {size_text(LARGEST)}; "
                    "shorten it, or start another one."
                )
            if before is None and len(self.notes()) >= MOST:
                raise ToolError(f"There are {MOST} notes, which is the limit; add to one of those.")
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
        return ToolError(f"Notes cannot be saved in {self.path}: {error.strerror}.")


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
            f"{shown(name, 80)} is not a valid name for a note; use up to 64 letters, digits, - and _, "
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
                raise ToolError("Another process is changing these notes; try again later.") from None
            time.sleep(_PATIENCE)
        else:
            return


Home = Callable[[], Path]
"""Where the per-user folder is."""

SCOPES: tuple[Scope, ...] = get_args(Scope)
Name = Annotated[str, Param("Such as build-steps", also=("path", "key", "file"))]
Where = Annotated[Scope, "user: everywhere; project: in this workspace; agent: for agents of your name"]
Content = Annotated[str, Meta(max_length=LARGEST), Param("Markdown", also=("text",))]


def memory_list(home: Home) -> Tool:
    """The tool memory_list over the notes below a folder."""

    @tool(effect="read", name="memory_list", on_request=True)
    async def run(
        ctx: ToolContext, scope: Annotated[Scope | None, "Only these; all three if left out"] = None
    ) -> str:
        """List the saved notes with their size and time of the last change."""
        return await asyncio.to_thread(_listed, ctx, home(), (scope,) if scope else SCOPES)

    return run


def memory_read(home: Home) -> Tool:
    """The tool memory_read over the notes below a folder."""

    @tool(effect="read", name="memory_read", on_request=True)
    async def run(ctx: ToolContext, name: Name, scope: Where = "project") -> str:
        """Read a note. An agent wrote it earlier: check what matters."""
        title, folder = clean_name(name), _folder(ctx, home, scope)
        text = await asyncio.to_thread(folder.read, title)
        if text is None:
            raise await asyncio.to_thread(_missing, folder, title, scope)
        return text or f"The note {title} is empty."

    return run


def memory_write(home: Home) -> Tool:
    """The tool memory_write over the notes below a folder."""

    @tool(effect="write", name="memory_write", on_request=True)
    async def run(ctx: ToolContext, name: Name, content: Content, scope: Where = "project") -> str:
        """Save a note for later tasks: create it, or replace all of it."""
        title, text = clean_name(name), checked(content, "content")
        return await _changed(_folder(ctx, home, scope), title, scope, lambda _: text)

    return run


def memory_patch(home: Home) -> Tool:
    """The tool memory_patch over the notes below a folder."""

    @tool(effect="write", name="memory_patch", on_request=True)
    async def run(
        ctx: ToolContext,
        name: Name,
        old_string: Annotated[str, Param("The exact text", also=("old_text", "old"))],
        new_string: Annotated[str, Param("What replaces it", also=("new_text", "new"))],
        replace_all: Annotated[bool, "Replace every occurrence"] = False,
        scope: Where = "project",
    ) -> str:
        """Replace exact text in a note."""
        title, folder = clean_name(name), _folder(ctx, home, scope)
        edit = Edit(old_string, new_string, replace_all)

        def patched(before: str | None) -> str:
            if before is None:
                raise _missing(folder, title, scope)
            return edited(TextFile(before), (edit,), title, lambda: None).text

        return await _changed(folder, title, scope, patched)

    return run


def memory_append(home: Home) -> Tool:
    """The tool memory_append over the notes below a folder."""

    @tool(effect="write", name="memory_append", on_request=True)
    async def run(ctx: ToolContext, name: Name, content: Content, scope: Where = "project") -> str:
        """Add lines to the end of a note; it is created if there is none."""
        title, text = clean_name(name), checked(content, "content")
        if not text.strip():
            raise ToolError("The content is empty; say what to add.")

        def longer(before: str | None) -> str:
            between = "\n" if before and not before.endswith("\n") else ""
            return f"{before or ''}{between}{text}{'' if text.endswith(chr(10)) else chr(10)}"

        return await _changed(_folder(ctx, home, scope), title, scope, longer)

    return run


def _folder(ctx: ToolContext, home: Home, scope: Scope) -> NoteFolder:
    return folder_of(home(), scope, ctx.workspace, ctx.agent)


async def _changed(folder: NoteFolder, title: str, scope: Scope, make: Callable[[str | None], str]) -> str:
    existed: list[bool] = []

    def remembering(before: str | None) -> str:
        existed.append(before is not None)
        return make(before)

    text = await run_to_completion(lambda _: folder.change(title, remembering))
    done = "Changed" if existed[0] else "Created"
    return f"{done} the note {title} ({scope}): {size_text(len(text.encode()))}."


def _listed(ctx: ToolContext, home: Path, scopes: tuple[Scope, ...]) -> str:
    lines: list[str] = []
    for scope in scopes:
        notes = folder_of(home, scope, ctx.workspace, ctx.agent).notes()
        lines.append(f"{scope}: {counted(len(notes), 'note')}")
        for note in notes:
            changed = datetime.fromtimestamp(note.changed, UTC)
            lines.append(f"  {note.name} ({size_text(note.size)}, {changed:%Y-%m-%d %H:%MZ})")
    return "\n".join(lines)


def _missing(folder: NoteFolder, title: str, scope: Scope) -> ToolError:
    names = ", ".join(note.name for note in folder.notes()) or "none"
    return ToolError(f"There is no note {title} in the scope {scope}. Existing notes: {names}.")
