"""JSON-RPC messages of ACP, one a line, over stdin and stdout.

Input is not trusted: a line that is too long, not JSON or not a message of the protocol is answered with an
error of the protocol, and the next line is read.
"""

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any, cast

import msgspec

from gencode.interfaces.json_rpc import (
    Id,
    OverlongLine,
    decode_leniently,
    id_at_an_end,
    id_in,
    read_lines,
    write_whole,
)

LONGEST_LINE = 16 * 1024 * 1024
PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32_700, -32_600, -32_603
NOT_FOUND = -32_002
"""The error code of ACP for a session or file that does not exist."""
TOO_LONG = f"The line is longer than the limit of {LONGEST_LINE:,} bytes."
NO_JSON = "The line is not valid JSON."
NO_MESSAGE = "This is not a JSON-RPC 2.0 message: an object with a method, a result or an error."

Message = dict[str, Any]


class JsonLineTransport:
    """Reads and writes messages on two handles; `sent` is called with each message after it was written."""

    def __init__(
        self, incoming: int, outgoing: int, sent: Callable[[Message], None] = lambda _: None
    ) -> None:
        self._lines = read_lines(incoming, LONGEST_LINE)
        self._outgoing = outgoing
        self._sent = sent
        self._write_lock = asyncio.Lock()
        self._reading: asyncio.Future[bytes | OverlongLine | None] | None = None
        self._ended = False

    async def send(self, message: Message) -> None:
        """Write one message; ConnectionError when the editor has disconnected."""
        line = json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
        async with self._write_lock:
            try:
                await write_whole(self._outgoing, line)
            except OSError as gone:
                raise ConnectionError(gone.strerror) from None
        self._sent(message)

    async def receive(self) -> Message | None:
        """The next valid message; None at the end. Lines that are none are answered with an error."""
        while (line := await self._line()) is not None:
            message = _overlong(line) if isinstance(line, OverlongLine) else parse_line(line)
            if message is None:
                continue
            if "fault" not in message:
                return message
            try:
                await self.send(message["fault"])
            except ConnectionError:
                return None
        return None

    def end(self) -> None:
        """Stop reading, as if the editor had closed its side."""
        self._ended = True
        if self._reading is not None:
            self._reading.cancel()

    async def close(self) -> None:
        """Close our side, after what is being written."""
        async with self._write_lock:
            os.close(self._outgoing)

    async def _line(self) -> bytes | OverlongLine | None:
        """The next line; None at the end."""
        if self._ended:
            return None
        self._reading = asyncio.ensure_future(anext(self._lines, None))
        try:
            return await self._reading
        except asyncio.CancelledError:
            if self._ended:
                return None
            raise


def error_response(code: int, words: str, asked: object = None) -> Message:
    """An error response to the request with this id, or to an unknown one."""
    return {"jsonrpc": "2.0", "id": asked, "error": {"code": code, "message": words}}


def parse_line(line: bytes) -> Message | None:
    """A line as a message, or `{"fault": …}` with the error to answer with; None for one to ignore."""
    if not line.strip():
        return None
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


def _overlong(line: OverlongLine) -> Message:
    """The same for a line that is too long, as far as its ends tell."""
    asked = id_at_an_end(line.head, line.tail)
    if asked is None or b'"method"' in line.head + line.tail:
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
