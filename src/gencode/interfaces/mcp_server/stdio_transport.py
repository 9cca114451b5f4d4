"""MCP on stdin and stdout, which belong to the protocol alone (MCP server).

At the start both are moved away: whatever anybody prints afterwards goes to stderr, and children read
nothing. A line is one message; one that is none, or is too long, is answered with an error.
"""

import asyncio
import os
import select
from collections.abc import Callable
from contextlib import suppress

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from msgspec import Struct

from gencode.interfaces.json_rpc import HEAD, id_at_an_end
from gencode.interfaces.mcp_server.json_rpc_messages import Wrong, understood

LONGEST = 4_000_000
"""Bytes of one message."""
CHUNK = 65_536

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


def taken_streams() -> tuple[int, int]:
    """Own handles of stdin and stdout; from now on 0 is empty, and 1 is stderr."""
    incoming, outgoing = _copied(0), _copied(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        os.dup2(nothing, 1)
    os.close(nothing)
    return incoming, outgoing


def _copied(handle: int) -> int:
    try:
        return os.dup(handle)
    except OSError:  # it was closed when we began
        return os.open(os.devnull, os.O_RDWR)


class Overlong(Struct, frozen=True):
    """The ends of a line that is too long."""

    head: bytes
    tail: bytes


class Lines:
    """Whole lines out of chunks; of one that is too long only its ends."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._kept = bytearray()
        self._tail = b""
        self._skips = False

    def take(self, chunk: bytes) -> list[bytes | Overlong]:
        """The lines that this chunk completes, in order."""
        found: list[bytes | Overlong] = []
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            self._grow(part)
            kept = bytes(self._kept)
            found.append(Overlong(kept, self._tail) if self._skips else kept)
            self._kept.clear()
            self._skips = False
        self._grow(rest)
        return found

    def rest(self) -> list[bytes | Overlong]:
        """What came after the last line end."""
        return self.take(b"\n") if self._kept or self._skips else []

    def _grow(self, part: bytes) -> None:
        if not self._skips and len(self._kept) + len(part) <= self._longest:
            self._kept += part
            return
        before = self._tail if self._skips else bytes(self._kept[-HEAD:])
        self._tail = (before + part)[-HEAD:]
        self._skips = True
        self._kept += part[:HEAD]
        del self._kept[HEAD:]


class Pipes:
    """One client at the other end of two handles. `gone` is told when it has closed its end."""

    def __init__(
        self, incoming: int, outgoing: int, gone: Callable[[], None], longest: int = LONGEST
    ) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._gone = gone
        self._longest = longest
        self._left = False

    async def read(self, into: Incoming, complaints: Outgoing) -> None:
        """Hand on messages until the client closes its end; answer what is no message."""
        lines = Lines(self._longest)
        async with into, complaints:
            with suppress(anyio.BrokenResourceError):  # nobody listens any more
                while chunk := await self._chunk():
                    for line in lines.take(chunk):
                        await self._hand_on(line, into, complaints)
                for line in lines.rest():
                    await self._hand_on(line, into, complaints)
            self._left = True
            self._gone()

    async def write(self, source: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write messages until there are no more, or nobody reads them."""
        async with source:
            try:
                async for each in source:
                    if self._left and _says_closed(each.message):
                        continue  # the client closed it itself, and some take an answer after that amiss
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await self._write(f"{text}\n".encode("utf-8", "replace"))
            except OSError:
                self._gone()

    async def _hand_on(self, line: bytes | Overlong, into: Incoming, complaints: Outgoing) -> None:
        """Hand a message on, or answer whoever sent what is none.

        A broken answer to a question of ours becomes one that failed, so that nobody waits for it.
        """
        if isinstance(line, bytes) and not line.strip():
            return
        message = self._understood(line)
        if isinstance(message, Wrong):
            await (into if message.is_answer else complaints).send(SessionMessage(message.answer()))
        else:
            await into.send(SessionMessage(message))

    def _understood(self, line: bytes | Overlong) -> types.JSONRPCMessage | Wrong:
        if isinstance(line, Overlong):
            found = id_at_an_end(line.head, line.tail)
            answers = found is not None and b'"method"' not in line.head + line.tail
            why = f"A message has at most {self._longest:,} bytes."
            return Wrong(types.INVALID_REQUEST, why, found, answers)
        return understood(line, "line")

    async def _chunk(self) -> bytes:
        try:
            await _ready(self._incoming, reading=True)
            return os.read(self._incoming, CHUNK)
        except OSError:  # a terminal that is gone
            return b""

    async def _write(self, content: bytes) -> None:
        """As much at a time as the other end surely takes: the handle may block, and must not be changed."""
        rest = memoryview(content)
        while rest:
            await _ready(self._outgoing, reading=False)
            rest = rest[os.write(self._outgoing, rest[: select.PIPE_BUF]) :]


def _says_closed(message: types.JSONRPCMessage) -> bool:
    """Whether this is what the SDK answers to calls that are open when a connection ends."""
    return isinstance(message, types.JSONRPCError) and message.error.code == types.CONNECTION_CLOSED


async def _ready(handle: int, *, reading: bool) -> None:
    """Wait until a handle can be read from or written to; a plain file always can."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def come() -> None:
        if not ready.done():
            ready.set_result(None)

    add, remove = (loop.add_reader, loop.remove_reader) if reading else (loop.add_writer, loop.remove_writer)
    try:
        add(handle, come)
    except PermissionError:
        await asyncio.sleep(0)
        return
    try:
        await ready
    finally:
        remove(handle)
