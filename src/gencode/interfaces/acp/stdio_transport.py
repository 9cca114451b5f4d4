"""JSON-RPC messages of ACP, one a line, over stdin and stdout.

Input is not trusted: a line that is too long, not JSON or not a message of the protocol is answered with an
error of the protocol, and the next line is read.
"""

import asyncio
import json
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import msgspec

from gencode.interfaces.json_rpc import HEAD, Id, decode_leniently, id_at_an_end, id_in

LONGEST_LINE = 16 * 1024 * 1024
PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32_700, -32_600, -32_603
NOT_FOUND = -32_002
"""The error code of ACP for a session or file that does not exist."""
TOO_LONG = f"The line is longer than the limit of {LONGEST_LINE:,} bytes."
NO_JSON = "The line is not valid JSON."
NO_MESSAGE = "This is not a JSON-RPC 2.0 message: an object with a method, a result or an error."

OVERLONG = b"\n\n"
"""Marks a line that is too long, and is followed by its beginning; no real line starts with it."""

Message = dict[str, Any]


class JsonLineTransport:
    """Reads and writes messages; `sent` is called with each message after it was written."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: "asyncio.StreamWriter | FileWriter",
        sent: Callable[[Message], None] = lambda _: None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._sent = sent
        self._write_lock = asyncio.Lock()
        self._ended = asyncio.Event()

    async def send(self, message: Message) -> None:
        """Write one message; ConnectionError when the editor has disconnected."""
        line = json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
        async with self._write_lock:
            self._writer.write(line)
            await self._writer.drain()
        self._sent(message)

    async def receive(self) -> Message | None:
        """The next valid message; None at the end."""
        while (message := await self._next()) is not None:
            if "fault" not in message:
                return message
            try:
                await self.send(message["fault"])
            except ConnectionError:
                return None
        return None

    def end(self) -> None:
        """Stop reading, as if the editor had closed its side."""
        self._ended.set()

    async def close(self) -> None:
        """Flush, and close our side."""
        async with self._write_lock:
            self._writer.close()
            with suppress(ConnectionError):
                await self._writer.wait_closed()

    async def _next(self) -> Message | None:
        """The next message, or the `error_response` to answer with; None at the end."""
        while not self._ended.is_set():
            reading = asyncio.ensure_future(self._line())
            ending = asyncio.ensure_future(self._ended.wait())
            try:
                await asyncio.wait([reading, ending], return_when=asyncio.FIRST_COMPLETED)
            finally:
                ending.cancel()
                if not reading.done():
                    reading.cancel()
            if not reading.done() or reading.cancelled() or not (line := reading.result()):
                return None
            if line.startswith(OVERLONG):
                return _overlong(line.removeprefix(OVERLONG))
            if line.strip() and (message := parse_line(line)) is not None:
                return message
        return None

    async def _line(self) -> bytes:
        """One line; empty at the end, `OVERLONG` and its beginning for one that is too long."""
        try:
            return await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as end:
            return end.partial
        except asyncio.LimitOverrunError:
            return OVERLONG + await self._skip()
        except ConnectionError:
            return b""

    async def _skip(self) -> bytes:
        """Skip the rest of a line that is too long, and return its beginning."""
        head = b""
        while True:
            try:
                rest = await self._reader.readuntil(b"\n")
                return head or rest[:HEAD]
            except asyncio.LimitOverrunError as more:
                passed = await self._reader.readexactly(more.consumed)
                head = head or passed[:HEAD]
            except asyncio.IncompleteReadError:
                return head


class FileWriter:
    """Writes to a plain file, which asyncio cannot wait for."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def write(self, line: bytes) -> None:
        """Write the whole line."""
        while line:
            line = line[os.write(self._handle, line) :]

    async def drain(self) -> None:
        """Nothing to wait for: `write` has written everything."""

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    async def wait_closed(self) -> None:
        """It is closed already."""


def error_response(code: int, words: str, asked: object = None) -> Message:
    """An error response to the request with this id, or to an unknown one."""
    return {"jsonrpc": "2.0", "id": asked, "error": {"code": code, "message": words}}


def parse_line(line: bytes) -> Message | None:
    """A line as a message, or `{"fault": …}` with the error to answer with; None for one to ignore."""
    try:
        found: object = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _not_json(decode_leniently(line))
    if not isinstance(found, dict):
        return {"fault": error_response(INVALID_REQUEST, NO_MESSAGE)}
    message = cast("Message", found)
    asked = message.get("id")
    if not isinstance(asked, str | int | float | None):
        return {"fault": error_response(INVALID_REQUEST, NO_MESSAGE)}
    if "method" in message:
        sound = isinstance(message["method"], str) and isinstance(message.get("params"), dict | None)
        return message if sound else {"fault": error_response(INVALID_REQUEST, NO_MESSAGE, asked)}
    if "result" in message:
        return message
    if "error" not in message:
        return {"fault": error_response(INVALID_REQUEST, NO_MESSAGE, asked)}
    if asked is None:
        return None  # the editor could not read a message of ours
    return {**message, "error": _valid_error(message["error"])}


def _not_json(guessed: Message | None) -> Message:
    """A line that is not JSON. A response becomes one with an error, so that the request does not wait."""
    if guessed is None:
        return {"fault": error_response(PARSE_ERROR, NO_JSON)}
    asked = id_in(guessed.get("id"))
    if asked is None or "method" in guessed:
        return {"fault": error_response(PARSE_ERROR, NO_JSON, asked)}
    return _failed(asked, "its response is not valid JSON: it has a broken character")


def _overlong(head: bytes) -> Message:
    """The same for a line that is too long, as far as its beginning tells."""
    asked = id_at_an_end(head)
    if asked is None or b'"method"' in head:
        return {"fault": error_response(PARSE_ERROR, TOO_LONG, asked)}
    return _failed(asked, f"its response is longer than {LONGEST_LINE:,} bytes")


def _failed(asked: Id, why: str) -> Message:
    return {"jsonrpc": "2.0", "id": asked, "error": {"code": PARSE_ERROR, "message": why, "data": None}}


def _valid_error(error: object) -> Message:
    """The error of a response, in a form that the library can raise."""
    told = cast("Message", error) if isinstance(error, dict) else {}
    code, words = told.get("code"), told.get("message")
    return {
        "code": code if isinstance(code, int) else INTERNAL_ERROR,
        "message": words if isinstance(words, str) else "An error without a message",
        "data": told.get("data"),
    }


async def open_transport(incoming: int, outgoing: int, sent: Callable[[Message], None]) -> JsonLineTransport:
    """A transport on two handles, which may be pipes, sockets or files."""
    return JsonLineTransport(await _reader(incoming), await _writer(outgoing), sent)


async def _reader(handle: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    if _is_pollable(handle):
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(handle, "rb", 0))
        return reader
    with os.fdopen(handle, "rb") as file:
        reader.feed_data(file.read(LONGEST_LINE))
    reader.feed_eof()
    return reader


async def _writer(handle: int) -> "asyncio.StreamWriter | FileWriter":
    if not _is_pollable(handle):
        return FileWriter(handle)
    loop = asyncio.get_running_loop()
    # The protocol of a reader is the one of asyncio that knows how to wait for a writer.
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, os.fdopen(handle, "wb", 0))
    return asyncio.StreamWriter(transport, protocol, None, loop)


def _is_pollable(handle: int) -> bool:
    mode = os.fstat(handle).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(handle)
