"""What an editor is told about one session, in order, as fast as it reads (surfaces, ACP).

Text that still waits is joined, and a newer state of a tool call takes the place of an older one that nobody
has read, so that a slow editor costs no more than what is to be shown.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from acp.helpers import text_block
from acp.schema import AgentMessageChunk, AgentThoughtChunk, ToolCallProgress, ToolCallStart, UserMessageChunk

from gencode.core.ids import new_id
from gencode.core.visible import open_end, visible

Voice = Literal["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]
Send = Callable[[Any], Awaitable[None]]


class _Waiting:
    """Something to be sent: an update, or a text that may still grow."""

    __slots__ = ("message", "pieces", "update", "voice")

    def __init__(
        self, update: Any = None, voice: Voice | None = None, piece: str = "", message: str = ""
    ) -> None:
        self.update = update
        self.voice: Voice | None = voice
        self.pieces = [piece]
        self.message = message


class Outbox:
    """The updates of one session. Nothing is sent while it is `held`."""

    def __init__(self, send: Send, *, held: bool = False) -> None:
        self._send = send
        self._queue: deque[_Waiting] = deque()
        self._calls: dict[str, _Waiting] = {}
        self._shown: dict[str, int] = {}
        """Each call as it was shown last, so that nothing is said twice."""
        self._before: dict[Voice, str] = {}
        self._carried: dict[Voice, str] = {}
        self._message = new_id()
        self._held = held
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._over = False

    def say(self, voice: Voice, piece: str) -> None:
        """A piece of text; what would act on a screen is spelled."""
        self._say(voice, self._harmless(voice, piece))

    def _say(self, voice: Voice, text: str) -> None:
        if not text:
            return
        last = self._queue[-1] if self._queue else None
        if last is not None and (last.voice, last.message) == (voice, self._message):
            last.pieces.append(text)
        else:
            self._add(_Waiting(voice=voice, piece=text, message=self._message))

    def end(self) -> None:
        """What is said next is another message."""
        for voice, rest in self._carried.items():
            before = self._before.get(voice, "")
            self._say(voice, visible(before + rest.removesuffix("\r"))[len(visible(before)) :])
        self._before.clear()
        self._carried.clear()
        self._message = new_id()

    def note(self, text: str) -> None:
        """A line of ours between what the agent says, as a quote."""
        quoted = visible(text).replace("\n", "\n> ")
        self._add(_Waiting(_chunk("agent_message_chunk", f"\n\n> {quoted}\n\n", new_id())))

    def show(self, update: Any) -> None:
        """Any other update."""
        if isinstance(update, ToolCallProgress | ToolCallStart):
            waiting = self._calls.get(update.tool_call_id)
            told = hash(update.model_dump_json())
            if self._shown.get(update.tool_call_id) == told:
                return
            self._shown[update.tool_call_id] = told
            if waiting is not None and isinstance(update, ToolCallProgress):
                waiting.update = _joined(waiting.update, update)
                return
            waiting = self._calls[update.tool_call_id] = _Waiting(update)
            self._add(waiting)
        else:
            self._add(_Waiting(update))

    def forget(self) -> None:
        """What was shown before may be shown once more."""
        self._shown.clear()

    def release(self) -> None:
        """Send from now on."""
        self._held = False
        self._wake.set()

    async def flush(self) -> None:
        """Wait until everything was sent, or nobody reads any more."""
        await self._idle.wait()

    async def pump(self) -> None:
        """Send what comes, until cancelled or nobody reads any more."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._queue and not self._held:
                    await self._send(self._taken())
                if not self._queue:
                    self._idle.set()
        except ConnectionError:
            return
        finally:
            self._over = True
            self._queue.clear()
            self._idle.set()

    def _add(self, waiting: _Waiting) -> None:
        if self._over:
            return
        self._queue.append(waiting)
        self._idle.clear()
        self._wake.set()

    def _taken(self) -> Any:
        waiting = self._queue.popleft()
        if waiting.voice is not None:
            return _chunk(waiting.voice, "".join(waiting.pieces), waiting.message)
        call = getattr(waiting.update, "tool_call_id", "")
        if self._calls.get(call) is waiting:
            del self._calls[call]
        return waiting.update

    def _harmless(self, voice: Voice, piece: str) -> str:
        """A piece made visible as a part of the text that it goes on with; what is not whole yet waits."""
        whole = self._carried.pop(voice, "") + piece
        before = self._before.get(voice, "")
        if waits := open_end(before + whole):
            whole, self._carried[voice] = whole.removesuffix(waits), waits
        self._before[voice] = (before + whole)[-2:]
        return visible(before + whole)[len(visible(before)) :]


def _chunk(voice: Voice, text: str, message: str) -> AgentMessageChunk | AgentThoughtChunk | UserMessageChunk:
    match voice:
        case "agent_message_chunk":
            return AgentMessageChunk(session_update=voice, content=text_block(text), message_id=message)
        case "agent_thought_chunk":
            return AgentThoughtChunk(session_update=voice, content=text_block(text), message_id=message)
        case "user_message_chunk":
            return UserMessageChunk(session_update=voice, content=text_block(text), message_id=message)


def _joined(before: Any, after: ToolCallProgress) -> Any:
    """The update that says what two of the same call say, one after the other."""
    new = {name: value for name in after.model_fields_set if (value := getattr(after, name)) is not None}
    new.pop("session_update", None)
    return before.model_copy(update=new)
