"""The connected ACP client: its capabilities, and the queue of session updates that are sent to it.

Text that still waits is joined, and a newer state of a tool call replaces an older one that was not sent yet:
a slow editor gets only what is still to be shown.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from acp.helpers import text_block
from acp.interfaces import Client
from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ClientCapabilities,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)

from gencode.core.ids import new_id
from gencode.core.text import open_end, visible


class EditorClient:
    """The connection to one editor. Its capabilities are known once it has sent `initialize`."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._capabilities = ClientCapabilities()

    def connect(self, client: Client) -> None:
        """Use this connection."""
        self._client = client

    def set_capabilities(self, capabilities: ClientCapabilities | None) -> None:
        """Keep what the editor says that it supports."""
        self._capabilities = capabilities or ClientCapabilities()

    @property
    def client(self) -> Client:
        """The methods of the editor; ConnectionError when none is connected."""
        if self._client is None:
            raise ConnectionError("No editor is connected.")
        return self._client

    @property
    def can_read(self) -> bool:
        """Whether it returns the text of its buffers."""
        fs = self._capabilities.fs
        return bool(fs and fs.read_text_file)

    @property
    def can_write(self) -> bool:
        """Whether it writes files through its buffers."""
        fs = self._capabilities.fs
        return bool(fs and fs.write_text_file)

    @property
    def can_show_forms(self) -> bool:
        """Whether it can show a form to the user."""
        elicitation = self._capabilities.elicitation
        return bool(elicitation and elicitation.form)


ChunkKind = Literal["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]
Send = Callable[[Any], Awaitable[None]]


class _QueuedUpdate:
    """An update to be sent, or a text that may still grow."""

    __slots__ = ("kind", "message", "pieces", "update")

    def __init__(
        self, update: Any = None, kind: ChunkKind | None = None, piece: str = "", message: str = ""
    ) -> None:
        self.update = update
        self.kind: ChunkKind | None = kind
        self.pieces = [piece]
        self.message = message


class UpdateQueue:
    """The updates of one session, in order. Nothing is sent while it is `held`."""

    def __init__(self, send: Send, *, held: bool = False) -> None:
        self._send = send
        self._queue: deque[_QueuedUpdate] = deque()
        self._calls: dict[str, _QueuedUpdate] = {}
        self._shown: dict[str, int] = {}
        """A hash of each tool call as it was last added: the same state is not sent twice."""
        self._before: dict[ChunkKind, str] = {}
        self._carried: dict[ChunkKind, str] = {}
        self._message_id = new_id()
        self._held = held
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def add_text(self, kind: ChunkKind, piece: str) -> None:
        """Add a piece of text; control characters are escaped."""
        self._append_text(kind, self._escaped(kind, piece))

    def _append_text(self, kind: ChunkKind, text: str) -> None:
        if not text:
            return
        last = self._queue[-1] if self._queue else None
        if last is not None and (last.kind, last.message) == (kind, self._message_id):
            last.pieces.append(text)
        else:
            self._enqueue(_QueuedUpdate(kind=kind, piece=text, message=self._message_id))

    def end_message(self) -> None:
        """Complete the message: text that is added next belongs to a new one."""
        for kind, rest in self._carried.items():
            before = self._before.get(kind, "")
            self._append_text(kind, visible(before + rest.removesuffix("\r"))[len(visible(before)) :])
        self._before.clear()
        self._carried.clear()
        self._message_id = new_id()

    def add_note(self, text: str) -> None:
        """Add a notice of GenCode between the agent's messages, as a Markdown quote."""
        quoted = visible(text).replace("\n", "\n> ")
        self._enqueue(_QueuedUpdate(_chunk("agent_message_chunk", f"\n\n> {quoted}\n\n", new_id())))

    def add(self, update: Any) -> None:
        """Add any other update; one of a tool call replaces one that still waits."""
        if isinstance(update, ToolCallProgress | ToolCallStart):
            waiting = self._calls.get(update.tool_call_id)
            told = hash(update.model_dump_json())
            if self._shown.get(update.tool_call_id) == told:
                return
            self._shown[update.tool_call_id] = told
            if waiting is not None and isinstance(update, ToolCallProgress):
                waiting.update = _merged(waiting.update, update)
                return
            waiting = self._calls[update.tool_call_id] = _QueuedUpdate(update)
            self._enqueue(waiting)
        else:
            self._enqueue(_QueuedUpdate(update))

    def forget_sent(self) -> None:
        """Send tool calls again, also those that were sent in this state before."""
        self._shown.clear()

    def release(self) -> None:
        """Start to send: the queue is not held any more."""
        self._held = False
        self._wake.set()

    async def flush(self) -> None:
        """Wait until everything was sent, or the editor has disconnected."""
        await self._idle.wait()

    async def send_all(self) -> None:
        """Send what is added, until cancelled or the editor disconnects."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._queue and not self._held:
                    await self._send(self._next())
                if not self._queue:
                    self._idle.set()
        except ConnectionError:
            return
        finally:
            self._closed = True
            self._queue.clear()
            self._idle.set()

    def _enqueue(self, waiting: _QueuedUpdate) -> None:
        if self._closed:
            return
        self._queue.append(waiting)
        self._idle.clear()
        self._wake.set()

    def _next(self) -> Any:
        waiting = self._queue.popleft()
        if waiting.kind is not None:
            return _chunk(waiting.kind, "".join(waiting.pieces), waiting.message)
        call = getattr(waiting.update, "tool_call_id", "")
        if self._calls.get(call) is waiting:
            del self._calls[call]
        return waiting.update

    def _escaped(self, kind: ChunkKind, piece: str) -> str:
        """A piece escaped as a part of the text it continues; an incomplete character sequence waits."""
        whole = self._carried.pop(kind, "") + piece
        before = self._before.get(kind, "")
        if waits := open_end(before + whole):
            whole, self._carried[kind] = whole.removesuffix(waits), waits
        self._before[kind] = (before + whole)[-2:]
        return visible(before + whole)[len(visible(before)) :]


def _chunk(
    kind: ChunkKind, text: str, message: str
) -> AgentMessageChunk | AgentThoughtChunk | UserMessageChunk:
    match kind:
        case "agent_message_chunk":
            return AgentMessageChunk(session_update=kind, content=text_block(text), message_id=message)
        case "agent_thought_chunk":
            return AgentThoughtChunk(session_update=kind, content=text_block(text), message_id=message)
        case "user_message_chunk":
            return UserMessageChunk(session_update=kind, content=text_block(text), message_id=message)


def _merged(before: Any, after: ToolCallProgress) -> Any:
    """Two updates of one tool call as one."""
    new = {name: value for name in after.model_fields_set if (value := getattr(after, name)) is not None}
    new.pop("session_update", None)
    return before.model_copy(update=new)
