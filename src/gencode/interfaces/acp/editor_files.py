"""Files as an editor has them open: Read, Edit and Write see changes that are not saved yet (surfaces, ACP).

The gate decides first, as for every call, and only files inside the workspace are asked for. A file that the
editor has unchanged, or says that it does not know, is read and written on the disk, without following a
link, as always. For one with unsaved changes the tool works on a copy of the buffer, and what it made of that
is given to the editor, which shows and saves it. Where the editor does not say what it has, nothing is done.
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
from msgspec.structs import replace
from pydantic import ValidationError

from gencode.agent.toolbox import Tool, ToolContext, ToolOutput
from gencode.core.errors import ToolError
from gencode.core.spec import Workspace
from gencode.core.visible import visible_line
from gencode.files.file_versions import Seen
from gencode.files.openers import Identity, NotThere, open_for_reading, state_of
from gencode.interfaces.acp.call_display import Change
from gencode.interfaces.acp.editor import Editor
from gencode.interfaces.acp.json_lines import NOT_FOUND
from gencode.interfaces.acp.session_updates import Changes
from gencode.permissions.paths import Resolved, is_inside, places_of, resolve

LARGEST = 8_000_000
"""Bigger files cannot be compared: they are only read from the disk."""
MOST_SHOWN = 2_000_000
"""Changes of bigger texts are shown as the call tells them."""
PATIENCE = 10.0
UNSAVED = "[the editor has unsaved changes in this file; this is what it shows]"
UNSEEN = (
    "; there may be unsaved changes in it, so nothing was done. Try again, or ask the user to save the file "
    "and to look at the editor."
)
SAVED = "[written through the editor, with the unsaved changes it had]"
_NO_FILE = re.compile(
    r"no such file|(file|resource|path|document) (was )?not found|file does not exist|ENOENT", re.IGNORECASE
)
_STALE = Identity(0, 0, 0, 0, 0)
_READERS, _WRITERS = ("Read",), ("Edit", "Write")


class _NoText(ToolError):
    """A file that cannot be compared with a buffer."""


class _File(Struct, frozen=True):
    """A judged file: its text on the disk and in the editor, as far as there is one."""

    place: Resolved
    disk: str | None = None
    buffer: str | None = None

    @property
    def unsaved(self) -> bool:
        """Whether the editor shows something else than the disk holds."""
        if self.buffer is None:
            return False
        return self.disk is None or _plain(self.disk) != _plain(self.buffer)

    @property
    def text(self) -> str | None:
        """What a person sees of it."""
        return self.buffer if self.unsaved else self.disk


class Buffers:
    """The file tools of one session, with an editor's buffers over the disk."""

    def __init__(self, editor: Editor, session: str, folder: Path, changes: Changes) -> None:
        self._editor = editor
        self._root = os.path.realpath(folder)
        self._session = session
        self._changes = changes
        self._known: dict[tuple[str, str], str] = {}
        """The buffers that agents have seen, by task and path: their digests."""
        self._unsaved: set[str] = set()
        """What the editor had unsaved changes in when it was asked last."""

    def over(self, tools: tuple[Tool, ...]) -> list[Tool]:
        """These tools, those for files with the editor's buffers."""
        return [self._over(tool) for tool in tools if tool.name in (*_READERS, *_WRITERS)]

    def _over(self, tool: Tool) -> Tool:
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
            output = _whole(await tool.function(copy.ctx, **arguments))
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
                self._note(ctx, file, await asyncio.to_thread(_on_disk, file.place))
            return output
        if not self._editor.can_write:
            raise ToolError(
                f"{arguments.get('file_path')} has unsaved changes in the editor; ask the user to save it, "
                "then Read it again."
            )
        return await self._through(tool, ctx, arguments, file)

    async def _through(
        self, tool: Tool, ctx: ToolContext, arguments: dict[str, Any], file: _File
    ) -> ToolOutput:
        """Change a copy of the buffer, and hand what became of it to the editor."""
        real = file.place.real
        known = self._known.get((ctx.task, real))
        async with _Copy(ctx, file) as copy:
            if known is not None:
                copy.seen(fresh=known == _digest(file.buffer or ""))
            output = _whole(await tool.function(copy.ctx, **arguments))
            new = copy.text()
        await asyncio.to_thread(_check_way, ctx.place(str(arguments.get("file_path"))), file.place)
        try:
            async with asyncio.timeout(PATIENCE):
                await self._editor.client.write_text_file(session_id=self._session, path=real, content=new)
        except (RequestError, ConnectionError, ValidationError, TimeoutError) as error:
            raise ToolError(f"The editor did not write {arguments.get('file_path')}: {error}.") from None
        self._known[ctx.task, real] = _digest(new)
        if (state := state_of(real)) is not None:
            ctx.seen.wrote(real, state)
        self._note(ctx, file, new)
        return replace(output, text=f"{output.text}\n{SAVED}")

    async def _previewed(self, tool: Tool, ctx: ToolContext, arguments: dict[str, Any]) -> str:
        """What would change, and the whole of it for the editor's own view of differences."""
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
                self._note(ctx, file, copy.text())
        return text

    async def _file(self, ctx: ToolContext, arguments: dict[str, Any], *, writes: bool) -> _File | None:
        """The file a call is about; None for what is no text or none of the editor's.

        Denied if the call may not open it: nothing is asked of the editor then. A ToolError says that the
        editor may have unsaved changes in it which nobody can see.
        """
        named = str(arguments.get("file_path"))
        place = ctx.place(named)
        root = places_of(ctx.workspace).real_root
        if place.refusal or place.twin is not None or place.special or not is_inside(place.real, root):
            return None
        try:
            disk = await asyncio.to_thread(_on_disk, place)
        except _NoText as why:
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
        """What the editor has of a file; None when it says that it has none.

        An agent may work in a tree of its own, which is none of the editor's.
        """
        if not is_inside(real, self._root):
            return None
        if not self._editor.can_read:
            if real in self._unsaved:
                raise ToolError(f"{named} had unsaved changes, and the editor shows no files now{UNSEEN}")
            return None
        try:
            async with asyncio.timeout(PATIENCE):
                told = await self._editor.client.read_text_file(session_id=self._session, path=real)
        except RequestError as error:
            if _says_no_file(error):
                return None
            why = visible_line(str(error), 200)
        except ValidationError:
            why = "its answer is not what the protocol says"
        except TimeoutError:
            why = f"it did not answer within {PATIENCE:.0f} s"
        except ConnectionError:
            why = "it is gone"
        else:
            if len(told.content) <= LARGEST:
                return told.content
            why = f"it has more than {LARGEST:,} characters in it"
        raise ToolError(f"The editor did not show {named}: {why}{UNSEEN}")

    def _note(self, ctx: ToolContext, file: _File, new: str | None) -> None:
        if new is not None and max(len(new), len(file.text or "")) <= MOST_SHOWN:
            self._changes[ctx.task, ctx.call.id] = Change(file.place.real, file.text, new)


class _Copy:
    """A copy of what a person sees of a file, at the same place below a folder of its own.

    A tool that works in `ctx` finds that copy under the name of the file, and nothing else.
    """

    def __init__(self, ctx: ToolContext, file: _File) -> None:
        self._file = file
        self._folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="gen-acp-")))
        inside = os.path.relpath(file.place.real, os.path.realpath(ctx.workspace.root))
        self._path = self._folder / inside
        cwd = self._folder / os.path.relpath(ctx.workspace.cwd, ctx.workspace.root)
        workspace = Workspace(self._folder, cwd, ctx.workspace.home)
        self._seen = Seen()

        def place(_: str) -> Resolved:
            return resolve(str(self._path), workspace)

        self.ctx = replace(ctx, workspace=workspace, place=place, seen=self._seen)

    async def __aenter__(self) -> "_Copy":
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._file.text is not None:
            self._path.write_text(self._file.text, "utf-8", newline="")
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def seen(self, *, fresh: bool) -> None:
        """The agent knows this file, as it is now or as it was."""
        state = state_of(str(self._path))
        if state is not None:
            self._seen.note(str(self._path), state if fresh else _STALE)

    def text(self) -> str:
        """What became of it."""
        return self._path.read_bytes().decode("utf-8", "replace")


def _on_disk(place: Resolved) -> str | None:
    """The text at a judged path; None when there is no file. `_NoText` for what cannot be compared."""
    try:
        with open_for_reading(place) as file:
            content = file.read(LARGEST + 1)
    except NotThere:
        return None
    if len(content) > LARGEST:
        raise _NoText("is too big to be compared with what the editor has")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise _NoText("is no UTF-8 and cannot be compared with what the editor has") from None


def _says_no_file(error: RequestError) -> bool:
    """Whether an editor says that there is no such file; every other error says nothing about the file."""
    return error.code == NOT_FOUND or bool(_NO_FILE.search(f"{error} {error.data}"))


def _check_way(now: Resolved, before: Resolved) -> None:
    """The editor follows links, so there must be none on the way at this moment, as when it was judged."""
    if now != before:
        raise ToolError("The path changed while it was looked at; nothing was written.")
    try:
        open_for_reading(now).close()
    except NotThere:
        return


def _whole(output: str | ToolOutput) -> ToolOutput:
    return ToolOutput(output) if isinstance(output, str) else output


def _plain(text: str) -> str:
    """A text as editors hold it: without a byte order mark, every line ended by LF."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
