"""The stdio transport of MCP: a line is a message; an invalid or too long one is answered with an error."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.shared.message import SessionMessage

from gencode.interfaces.json_rpc import OverlongLine, id_at_an_end, read_lines, write_whole
from gencode.interfaces.mcp_server.transport import InvalidMessage, Shutdown, parse_message

LONGEST_MESSAGE = 4_000_000
"""In bytes."""
GOODBYE_SECONDS = 3.0

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


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
        async with into, errors:
            with suppress(anyio.BrokenResourceError):  # the server has ended
                async for line in read_lines(self._incoming, self._longest):
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
                    await write_whole(self._outgoing, f"{text}\n".encode("utf-8", "replace"))
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


def _says_closed(message: types.JSONRPCMessage) -> bool:
    """Whether this is the SDK's response to a call that was open when the connection ended."""
    return isinstance(message, types.JSONRPCError) and message.error.code == types.CONNECTION_CLOSED


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
