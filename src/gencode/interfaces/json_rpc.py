"""JSON-RPC over stdio, for ACP and MCP: lines on two handles, and the id of broken messages."""

import asyncio
import json
import os
import re
import select
from collections.abc import AsyncGenerator
from typing import Any, cast

from msgspec import Struct

CHUNK = 65_536
HEAD = 2_000
"""Bytes at each end of a line that is too long which are kept, to find its id in them."""
_ID = r'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9]{1,18})\s*'
_EARLIER = r'"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*'
_BEGINNING = re.compile(rf"\s*\{{\s*(?:{_EARLIER})*{_ID}[,}}]")
_END = re.compile(rf"[\]}}\"]\s*,\s*{_ID}\}}\s*$")
"""An id after everything else: the brace after it ends the message."""

Id = str | int | None


def id_in(value: object) -> Id:
    """A value as the id of a response; None for what is not an id."""
    if isinstance(value, bool):
        return None
    return value if isinstance(value, str | int) else None


def id_at_an_end(head: bytes, tail: bytes = b"") -> Id:
    """The id of a message of which only the ends are known; None if it is not in them."""
    found = _BEGINNING.match(head.decode("utf-8", "replace")) or _END.search(tail.decode("utf-8", "replace"))
    if found is None:
        return None
    try:
        return id_in(json.loads(found[1]))
    except ValueError:
        return None


def decode_leniently(line: bytes) -> dict[str, Any] | None:
    """An invalid line, decoded leniently: broken characters are replaced. None if it is not an object.

    Only for its id, so that it can be answered; nothing else of it may be used.
    """
    try:
        found: object = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def take_stdio() -> tuple[int, int]:
    """Handles for stdin and stdout that only the protocol uses.

    What anybody else prints goes to stderr from now on, and whoever reads stdin finds it empty.
    """
    incoming, outgoing = _duplicate(0), _duplicate(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    return incoming, outgoing


def _duplicate(handle: int) -> int:
    try:
        return os.dup(handle)
    except OSError:  # it was closed before we started
        return os.open(os.devnull, os.O_RDWR)


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


async def read_lines(handle: int, longest: int) -> AsyncGenerator[bytes | OverlongLine, None]:
    """The lines of a handle until its end, also the last one without a line end."""
    lines = LineSplitter(longest)
    while chunk := await _chunk(handle):
        for line in lines.take(chunk):
            yield line
    for line in lines.rest():
        yield line


async def _chunk(handle: int) -> bytes:
    try:
        await _ready(handle, reading=True)
        return os.read(handle, CHUNK)
    except OSError:  # the terminal was closed
        return b""


async def write_whole(handle: int, content: bytes) -> None:
    """Write in pieces that never block: the handle may be blocking, and others may share it."""
    rest = memoryview(content)
    while rest:
        await _ready(handle, reading=False)
        rest = rest[os.write(handle, rest[: select.PIPE_BUF]) :]


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
