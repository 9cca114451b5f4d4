"""File tools over an editor's buffers: Read, Edit and Write see changes that are not saved yet.

The gate decides first, as for every call, and only files in the workspace are requested from the editor. A
file without unsaved changes, or unknown to the editor, is read and written on disk, without following links,
as always. For one with unsaved changes the tool works on a copy of the buffer, and the editor gets the
result, shows it and saves it. If the editor does not tell what it has, the call fails.
"""

import asyncio
import os
import re
import shutil
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from acp.exceptions import RequestError
from msgspec import Struct
from pydantic import ValidationError

from gencode.agent.toolbox import Tool, ToolContext, ToolOutput
from gencode.core.errors import ToolError
from gencode.core.spec import Workspace
from gencode.core.structs import replace
from gencode.core.text import visible_line
from gencode.files.file_versions import SeenFiles
from gencode.files.safe_files import FileIdentity, PathMissing, open_for_reading, state_of
from gencode.interfaces.acp.editor_client import EditorClient
from gencode.interfaces.acp.session_updates import FileDiffs
from gencode.interfaces.acp.stdio_transport import NOT_FOUND
from gencode.interfaces.acp.tool_call_updates import FileDiff
from gencode.permissions.paths import Resolved, is_inside, places_of, resolve

LARGEST_TEXT = 8_000_000
"""Larger files are not compared with the editor's buffer: they are only read from disk."""
LONGEST_DIFF = 2_000_000
"""No diff of the whole file is kept for larger texts: the editor shows that of the call's arguments."""
EDITOR_SECONDS = 10.0
UNSAVED = "[this is the editor's version of the file, with unsaved changes]"
UNSEEN = (
    ". Nothing was done, because the file may have unsaved changes there. Try again, or ask the user to save "
    "the file and check the editor."
)
SAVED = "[written by the editor, together with its unsaved changes]"
_NO_FILE = re.compile(
    r"no such file|(file|resource|path|document) (was )?not found|file does not exist|ENOENT", re.IGNORECASE
)
_STALE = FileIdentity(0, 0, 0, 0, 0)
_READERS, _WRITERS = ("Read",), ("Edit", "Write")


class _NotComparable(ToolError):
    """A file that cannot be compared with a buffer: too large, or not UTF-8."""


class _File(Struct, frozen=True):
    """A file that the gate allowed: its text on disk and in the editor; None where there is none."""

    place: Resolved
    disk: str | None = None
    buffer: str | None = None

    @property
    def unsaved(self) -> bool:
        """Whether the buffer differs from the file on disk."""
        if self.buffer is None:
            return False
        return self.disk is None or _normalized(self.disk) != _normalized(self.buffer)

    @property
    def text(self) -> str | None:
        """The text that the user sees."""
        return self.buffer if self.unsaved else self.disk


class EditorFiles:
    """The file tools of one session, with an editor's buffers over the disk."""

    def __init__(self, editor: EditorClient, session: str, folder: Path, diffs: FileDiffs) -> None:
        self._editor = editor
        self._root = os.path.realpath(folder)
        self._session = session
        self._diffs = diffs
        self._known: dict[tuple[str, str], str] = {}
        """The SHA-256 of the buffers that agents have read, by task and path."""
        self._unsaved: set[str] = set()
        """The files that had unsaved changes when the editor was last asked."""

    def wrap(self, tools: tuple[Tool, ...]) -> list[Tool]:
        """The file tools among these, over the editor's buffers."""
        return [self._wrapped(tool) for tool in tools if tool.name in (*_READERS, *_WRITERS)]

    def _wrapped(self, tool: Tool) -> Tool:
        async def run(ctx: ToolContext, **arguments: Any) -> str | ToolOutput:
            if tool.name in _WRITERS:
                return await self._write(tool, ctx, arguments, await self._file(ctx, arguments, writes=True))
            return await self._read(tool, ctx, arguments, await self._file(ctx, arguments, writes=False))

        async def preview(ctx: ToolContext, **arguments: Any) -> str:
            return await self._previewed(tool, ctx, arguments)

        return replace(tool, function=run, preview=preview if tool.preview else None)

    async def _read(
        self, tool: Tool, ctx: ToolContext, arguments: dict[str, Any], file: _File | None
    ) -> str | ToolOutput:
        if file is None or not file.unsaved:
            return await tool.function(ctx, **arguments)
        async with _Copy(ctx, file) as copy:
            output = _as_output(await tool.function(copy.ctx, **arguments))
        self._known[ctx.task, file.place.real] = _digest(file.buffer or "")
        return replace(output, text=f"{output.text}\n{UNSAVED}")

    async def _write(
        self, tool: Tool, ctx: ToolContext, arguments: dict[str, Any], file: _File | None
    ) -> str | ToolOutput:
        if file is None:
            return await tool.function(ctx, **arguments)
        if not file.unsaved:
            output = await tool.function(ctx, **arguments)
            with suppress(ToolError):
                self._keep_diff(ctx, file, await asyncio.to_thread(_on_disk, file.place))
            return output
        if not self._editor.can_write:
            raise ToolError(
                f"{arguments.get('file_path')} has unsaved changes in the editor. Ask the user to save it, "
                "then Read it again."
            )
        return await self._write_through_editor(tool, ctx, arguments, file)

    async def _write_through_editor(
        self, tool: Tool, ctx: ToolContext, arguments: dict[str, Any], file: _File
    ) -> ToolOutput:
        """Change a copy of the buffer, and send the result to the editor."""
        real = file.place.real
        known = self._known.get((ctx.task, real))
        async with _Copy(ctx, file) as copy:
            if known is not None:
                copy.seen(fresh=known == _digest(file.buffer or ""))
            output = _as_output(await tool.function(copy.ctx, **arguments))
            new = copy.text()
        await asyncio.to_thread(_check_unchanged, ctx.place(str(arguments.get("file_path"))), file.place)
        await asyncio.to_thread(ctx.keep_before, (real, sha256(new.encode("utf-8", "replace")).hexdigest()))
        try:
            async with asyncio.timeout(EDITOR_SECONDS):
                await self._editor.client.write_text_file(session_id=self._session, path=real, content=new)
        except (RequestError, ConnectionError, ValidationError, TimeoutError) as error:
            raise ToolError(f"The editor could not write {arguments.get('file_path')}: {error}.") from None
        self._known[ctx.task, real] = _digest(new)
        if (state := state_of(real)) is not None:
            ctx.seen.wrote(real, state)
        self._keep_diff(ctx, file, new)
        return replace(output, text=f"{output.text}\n{SAVED}")

    async def _previewed(self, tool: Tool, ctx: ToolContext, arguments: dict[str, Any]) -> str:
        """The preview of a change, and a diff of the whole file for the editor."""
        shown = tool.preview
        if shown is None:
            return ""
        file = await self._file(ctx, arguments, writes=True)
        if file is None:
            return await shown(ctx, **arguments)
        async with _Copy(ctx, file) as copy:
            copy.seen(fresh=True)
            text = await shown(copy.ctx, **arguments)
            with suppress(ToolError):
                await tool.function(copy.ctx, **arguments)
                self._keep_diff(ctx, file, copy.text())
        return text

    async def _file(self, ctx: ToolContext, arguments: dict[str, Any], *, writes: bool) -> _File | None:
        """The file of a call; None for one that is not text or not in the editor's workspace.

        Denied if the call may not open it: the editor is not asked then. ToolError if the editor may have
        unsaved changes in it that cannot be read.
        """
        named = str(arguments.get("file_path"))
        place = ctx.place(named)
        root = places_of(ctx.workspace).real_root
        if place.refusal or place.twin is not None or place.special or not is_inside(place.real, root):
            return None
        try:
            disk = await asyncio.to_thread(_on_disk, place)
        except _NotComparable as why:
            unseen = writes or place.real in self._unsaved
            if unseen and await self._buffer(place.real, named) is not None:
                raise ToolError(f"{named} {why}{UNSEEN}") from None
            return None
        except ToolError:
            return None
        if disk is None and writes and place.real not in self._unsaved:
            return _File(place)  # a new file: many an editor shows an error when it is asked for one
        file = _File(place, disk, await self._buffer(place.real, named))
        (self._unsaved.add if file.unsaved else self._unsaved.discard)(place.real)
        return file

    async def _buffer(self, real: str, named: str) -> str | None:
        """The editor's text of a file; None when it has none.

        An agent may work in a worktree, which is outside of the editor's workspace.
        """
        if not is_inside(real, self._root):
            return None
        if not self._editor.can_read:
            if real in self._unsaved:
                raise ToolError(f"{named} had unsaved changes, and the editor shares no files now{UNSEEN}")
            return None
        try:
            async with asyncio.timeout(EDITOR_SECONDS):
                told = await self._editor.client.read_text_file(session_id=self._session, path=real)
        except RequestError as error:
            if _says_no_file(error):
                return None
            why = visible_line(str(error), 200)
        except ValidationError:
            why = "its answer does not follow the protocol"
        except TimeoutError:
            why = f"it did not answer within {EDITOR_SECONDS:.0f} s"
        except ConnectionError:
            why = "it has disconnected"
        else:
            if len(told.content) <= LARGEST_TEXT:
                return told.content
            why = f"the text is longer than {LARGEST_TEXT:,} characters"
        raise ToolError(f"The editor did not return {named}: {why}{UNSEEN}")

    def _keep_diff(self, ctx: ToolContext, file: _File, new: str | None) -> None:
        if new is not None and max(len(new), len(file.text or "")) <= LONGEST_DIFF:
            self._diffs[ctx.task, ctx.call.id] = FileDiff(file.place.real, file.text, new)


class _Copy:
    """A copy of the text that the user sees, at the same relative path in a temporary folder.

    A tool that runs with `ctx` finds only this copy, under the name of the file.
    """

    def __init__(self, ctx: ToolContext, file: _File) -> None:
        self._file = file
        self._folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="gen-acp-")))
        inside = os.path.relpath(file.place.real, os.path.realpath(ctx.workspace.root))
        self._path = self._folder / inside
        cwd = self._folder / os.path.relpath(ctx.workspace.cwd, ctx.workspace.root)
        workspace = Workspace(self._folder, cwd, ctx.workspace.home)
        self._seen = SeenFiles()

        def place(_: str) -> Resolved:
            return resolve(str(self._path), workspace)

        self.ctx = replace(ctx, workspace=workspace, place=place, seen=self._seen, checkpoints=None)

    async def __aenter__(self) -> "_Copy":
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._file.text is not None:
            self._path.write_text(self._file.text, "utf-8", newline="")
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def seen(self, *, fresh: bool) -> None:
        """Record that the agent has read this file: in this version (`fresh`) or an earlier one."""
        state = state_of(str(self._path))
        if state is not None:
            self._seen.note(str(self._path), state if fresh else _STALE)

    def text(self) -> str:
        """The text after the tool has run."""
        return self._path.read_bytes().decode("utf-8", "replace")


def _on_disk(place: Resolved) -> str | None:
    """The text at a path that was judged; None when there is no file."""
    try:
        with open_for_reading(place) as file:
            content = file.read(LARGEST_TEXT + 1)
    except PathMissing:
        return None
    if len(content) > LARGEST_TEXT:
        raise _NotComparable("is too large to compare with the editor's version")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise _NotComparable("is not UTF-8 and cannot be compared with the editor's version") from None


def _says_no_file(error: RequestError) -> bool:
    """Whether an editor's error means that there is no such file."""
    return error.code == NOT_FOUND or bool(_NO_FILE.search(f"{error} {error.data}"))


def _check_unchanged(now: Resolved, before: Resolved) -> None:
    """The editor follows links: ToolError if the path now has one that was not there when it was judged."""
    if now != before:
        raise ToolError("The path changed during the call; nothing was written.")
    try:
        open_for_reading(now).close()
    except PathMissing:
        return


def _as_output(output: str | ToolOutput) -> ToolOutput:
    return ToolOutput(output) if isinstance(output, str) else output


def _normalized(text: str) -> str:
    """A text as editors hold it: without a byte order mark, lines ended by LF."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
