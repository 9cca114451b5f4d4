"""The stdio transport of MCP: a line is a message; an invalid or too long one is answered with an error."""

import asyncio
import os
import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.shared.message import SessionMessage
from msgspec import Struct

from gencode.interfaces.json_rpc import HEAD, id_at_an_end
from gencode.interfaces.mcp_server.transport import InvalidMessage, Shutdown, parse_message

LONGEST_MESSAGE = 4_000_000
"""In bytes."""
CHUNK = 65_536
GOODBYE_SECONDS = 3.0

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


class OverlongLine(Struct, frozen=True):
    """The beginning and the end of a line that is too long."""

    head: bytes
    tail: bytes


class LineSplitter:
    """Splits chunks into lines; of a line that is too long only both ends are kept."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._kept = bytearray()
        self._tail = b""
        self._skips = False

    def take(self, chunk: bytes) -> list[bytes | OverlongLine]:
        """The lines that a chunk completes, in order."""
        found: list[bytes | OverlongLine] = []
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            self._grow(part)
            kept = bytes(self._kept)
            found.append(OverlongLine(kept, self._tail) if self._skips else kept)
            self._kept.clear()
            self._skips = False
        self._grow(rest)
        return found

    def rest(self) -> list[bytes | OverlongLine]:
        """The text after the last line end."""
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


class StdioConnection:
    """Messages of one client over two handles. `closed` is called when the client closes its end."""

    def __init__(
        self, incoming: int, outgoing: int, closed: Callable[[], None], longest: int = LONGEST_MESSAGE
    ) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._closed = closed
        self._longest = longest
        self._input_ended = False

    async def read(self, into: Incoming, errors: Outgoing) -> None:
        """Pass messages on until the client closes its end; answer invalid ones."""
        lines = LineSplitter(self._longest)
        async with into, errors:
            with suppress(anyio.BrokenResourceError):  # the server has ended
                while chunk := await self._chunk():
                    for line in lines.take(chunk):
                        await self._pass_on(line, into, errors)
                for line in lines.rest():
                    await self._pass_on(line, into, errors)
            self._input_ended = True
            self._closed()

    async def write(self, source: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write messages until there are no more, or the client has closed its end."""
        async with source:
            try:
                async for each in source:
                    if self._input_ended and _says_closed(each.message):
                        continue  # the client has closed the connection; some fail on a response after that
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await self._write(f"{text}\n".encode("utf-8", "replace"))
            except OSError:
                self._closed()

    async def _pass_on(self, line: bytes | OverlongLine, into: Incoming, errors: Outgoing) -> None:
        """Pass a message on, or answer an invalid one.

        An invalid response to a request of ours becomes an error, so that the request does not wait.
        """
        if isinstance(line, bytes) and not line.strip():
            return
        message = self._parsed(line)
        if isinstance(message, InvalidMessage):
            await (into if message.is_response else errors).send(SessionMessage(message.error_response()))
        else:
            await into.send(SessionMessage(message))

    def _parsed(self, line: bytes | OverlongLine) -> types.JSONRPCMessage | InvalidMessage:
        if isinstance(line, OverlongLine):
            found = id_at_an_end(line.head, line.tail)
            is_response = found is not None and b'"method"' not in line.head + line.tail
            why = f"The message is longer than the limit of {self._longest:,} bytes."
            return InvalidMessage(types.INVALID_REQUEST, why, found, is_response)
        return parse_message(line, "line")

    async def _chunk(self) -> bytes:
        try:
            await _ready(self._incoming, reading=True)
            return os.read(self._incoming, CHUNK)
        except OSError:  # the terminal was closed
            return b""

    async def _write(self, content: bytes) -> None:
        """Write in pieces that never block: the handle may be blocking, and others may share it."""
        rest = memoryview(content)
        while rest:
            await _ready(self._outgoing, reading=False)
            rest = rest[os.write(self._outgoing, rest[: select.PIPE_BUF]) :]


def _says_closed(message: types.JSONRPCMessage) -> bool:
    """Whether this is the SDK's response to a call that was open when the connection ended."""
    return isinstance(message, types.JSONRPCError) and message.error.code == types.CONNECTION_CLOSED


async def _ready(handle: int, *, reading: bool) -> None:
    """Wait until a handle can be read or written without blocking; a plain file always can."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def set_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    add, remove = (loop.add_reader, loop.remove_reader) if reading else (loop.add_writer, loop.remove_writer)
    try:
        add(handle, set_ready)
    except PermissionError:
        await asyncio.sleep(0)
        return
    try:
        await ready
    finally:
        remove(handle)


async def serve_stdio(server: Server[object], streams: tuple[int, int], shutdown: Shutdown) -> None:
    """Serve the client at the other end of these handles until it disconnects, or the shutdown begins."""
    incoming_handle, outgoing_handle = streams
    connection = StdioConnection(incoming_handle, outgoing_handle, shutdown.begin)
    to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_client = anyio.create_memory_object_stream[SessionMessage](0)
    reading = asyncio.create_task(connection.read(to_us, outgoing.clone()))
    writing = asyncio.create_task(connection.write(to_client))
    serving = asyncio.create_task(server.run(incoming, outgoing, server.create_initialization_options()))
    begun = asyncio.create_task(shutdown.begun.wait())
    try:
        await asyncio.wait([reading, writing, serving, begun], return_when=asyncio.FIRST_COMPLETED)
    finally:
        shutdown.begin()
        for each in (reading, begun):
            each.cancel()
        await _end([reading, begun])
        await _end([serving])  # its stream of messages has ended, so it answers what is open and ends
        await _end([writing])
    for each in (reading, writing, serving):
        if not each.cancelled() and (trouble := each.exception()):
            raise trouble


async def _end(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    """Wait for tasks to end, and cancel those that are late."""
    _, late = await asyncio.wait(tasks, timeout=GOODBYE_SECONDS)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late)
