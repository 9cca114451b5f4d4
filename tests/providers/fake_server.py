"""A model server on 127.0.0.1 that answers exactly what a test tells it to, well or badly, over real HTTP."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Asked:
    """One request as the server got it."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Exchange:
    """One request that is being answered."""

    asked: Asked
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, *pieces: bytes) -> None:
        """Write each piece by itself, so that the client gets them one by one."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0.002)

    async def until_closed(self) -> None:
        """Wait until the client hangs up."""
        while await self.reader.read(65536):
            pass


Act = Callable[[Exchange], Awaitable[bool | None]]
"""Answers one request; True keeps the connection open for the next."""


@dataclass
class FakeServer:
    """Plays one act for each request, the last one again and again; keeps what it was asked."""

    acts: Sequence[Act]
    url: str = ""
    asked: list[Asked] = field(default_factory=list[Asked])
    connections: int = 0
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client closed its connection."""
    _serving: dict[asyncio.Task[None], asyncio.StreamWriter] = field(
        default_factory=dict["asyncio.Task[None]", asyncio.StreamWriter]
    )

    @property
    def last(self) -> Asked:
        """The last request."""
        return self.asked[-1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = writer
        try:
            while (asked := await _request(reader)) is not None:
                self.asked.append(asked)
                act = self.acts[min(len(self.asked), len(self.acts)) - 1]
                if not await act(Exchange(asked, reader, writer)):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.hung_up.set()
            writer.close()

    async def close(self) -> None:
        """End every connection, and wait until all are really gone."""
        for task, writer in self._serving.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await asyncio.sleep(0)


async def _request(reader: asyncio.StreamReader) -> Asked | None:
    line = await reader.readline()
    if not line:
        return None
    headers: dict[str, str] = {}
    while (header := await reader.readline()).strip():
        name, _, value = header.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(line.decode("latin-1").split(" ")[1], headers, json.loads(raw) if raw else None)


@asynccontextmanager
async def fake_server(*acts: Act) -> AsyncGenerator[FakeServer, None]:
    """A server that is gone after the block."""
    fake = FakeServer(acts)
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield fake
    finally:
        server.close()
        await fake.close()


def reply(body: bytes, status: str = "200 OK", kind: str = "application/json", **headers: str) -> Act:
    """One whole answer; `retry_after="3"` is the header Retry-After."""
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"

    async def act(exchange: Exchange) -> bool:
        await exchange.send(head.encode() + body)
        return True

    return act


def in_json(value: object, status: str = "200 OK", **headers: str) -> Act:
    """One whole answer in JSON."""
    return reply(json.dumps(value).encode(), status, **headers)


def streamed(*pieces: bytes, then: Act | None = None) -> Act:
    """An event stream in these pieces; `then` is played instead of its proper end."""

    async def act(exchange: Exchange) -> bool:
        await exchange.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            *(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece),
        )
        if then is not None:
            return bool(await then(exchange))
        await exchange.send(b"0\r\n\r\n")
        return True

    return act


def raw(data: bytes) -> Act:
    """Bytes that may be no HTTP at all, then the end of the connection."""

    async def act(exchange: Exchange) -> None:
        await exchange.send(data)

    return act


async def hang_up(exchange: Exchange) -> None:
    """Close at once."""


async def say_nothing(exchange: Exchange) -> None:
    """Never answer; wait for the client to give up."""
    await exchange.until_closed()


def events(*each: dict[str, Any] | bytes, named: bool = False, end: bytes = b"\n") -> list[bytes]:
    """Server-sent events, one bytes each; `named` gives them the line that tells their type."""
    lines: list[bytes] = []
    for event in each:
        told = event if isinstance(event, bytes) else json.dumps(event).encode()
        kind = str(event.get("type", "")) if named and isinstance(event, dict) else ""
        head = b"event: %b%b" % (kind.encode(), end) if kind else b""
        lines.append(b"%bdata: %b%b%b" % (head, told, end, end))
    return lines
