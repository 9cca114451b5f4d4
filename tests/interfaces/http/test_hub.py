"""What is offered to one client: in order, at once where it can be, and nothing after a gap."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.protocols.http.flow_control import FlowControl

from gencode.interfaces.http import hub
from gencode.interfaces.http.hub import StreamClient
from gencode.interfaces.http.listener import MOST_AT_ONCE, PeerConnection, framed

LAST = b"<last>"


class Line:
    """A client whose peer is at the other end of a real connection, and what a stream does for it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.flow = FlowControl(cast("asyncio.Transport", writer.transport))
        self.wire = PeerConnection(writer.transport, self.flow)
        self.wire.use_chunks(False)
        self.client = StreamClient("", brief=False)

    async def pump(self) -> None:
        """Send what waits, then let the rest go straight."""
        while True:
            self.writer.write(await self.client.more(self.wire))


@asynccontextmanager
async def line() -> AsyncGenerator[Line, None]:
    here, there = socket.socketpair()
    _, writer = await asyncio.open_connection(sock=here)
    reader, other = await asyncio.open_connection(sock=there, limit=2**24)
    opened = Line(reader, writer)
    pump = asyncio.create_task(opened.pump())
    try:
        yield opened
    finally:
        pump.cancel()
        await asyncio.wait([pump])
        for each in (writer, other):
            each.close()
            await each.wait_closed()


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), max_size=20))
def test_a_client_hears_everything_in_order_however_it_falters(steps: list[tuple[bool, bool, int]]) -> None:
    async def play() -> bytes:
        async with line() as opened:
            for number, (paused, yields, size) in enumerate(steps):
                opened.flow.write_paused = paused
                opened.client.offer(framed(b"<%d>" % number + b"x" * (size * MOST_AT_ONCE // 2)))
                if yields:
                    await asyncio.sleep(0)
            opened.flow.write_paused = False
            opened.client.offer(framed(LAST))
            return await opened.reader.readuntil(LAST)

    told = asyncio.run(play())
    assert told.replace(b"x", b"") == b"".join(b"<%d>" % number for number in range(len(steps))) + LAST


async def test_who_is_let_go_of_hears_nothing_after_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "MOST_WAITING", 10)
    async with line() as opened:
        for number in range(5):
            opened.client.offer(framed(b"<%d>......" % number))
        assert opened.client.slow and opened.client.dropped.is_set()
        for number in range(5, 8):
            opened.client.offer(framed(b"<%d>" % number))
            await asyncio.sleep(0.01)
        opened.writer.write_eof()
        assert await opened.reader.read() == b""


async def test_a_peer_that_is_gone_is_not_written_to() -> None:
    async with line() as opened:
        await asyncio.sleep(0)
        opened.wire.cut()
        assert not opened.wire.write(framed(b"x"))
        opened.client.offer(framed(b"x"))
        assert opened.client.rest() == b"x"
