"""HTTP/1.1 with an end to patience, and a short way for what many are sent.

A peer that does not finish its request head, or takes nothing for long, is not waited for. What is sent to
hundreds of streams at once is framed once and written to their sockets, past the parser of each connection.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from gencode.interfaces.http.event_frames import Framed

HEAD_SECONDS = 10.0
STUCK_SECONDS = 60.0
"""So long a peer may take nothing of what waits for it."""
MOST_AT_ONCE = 65_536
"""So many bytes are handed to a connection before it is asked whether its peer takes more."""
WIRE = "wire"
"""Under this name the state of a request holds the way to its peer."""


class Wire:
    """The way to one peer; only who has begun an answer without a length may use it, between its pieces."""

    def __init__(self, transport: asyncio.WriteTransport, flow: FlowControl) -> None:
        self._transport = transport
        self._flow = flow
        self.chunked = True
        """Whether the answer is sent in chunks; an old peer is sent bytes until the end."""

    def write(self, news: Framed) -> bool:
        """Send at once; False when that is too much, the peer does not take any more now, or is gone."""
        if len(news.chunk) > MOST_AT_ONCE or self._flow.write_paused or self._transport.is_closing():
            return False
        self._transport.write(news.chunk if self.chunked else news.plain)
        return True

    def cut(self) -> None:
        """Let go of a peer at once, with whatever waits for it."""
        self._transport.abort()


class Impatient(H11Protocol):
    """uvicorn's protocol, which itself only bounds the time between requests."""

    _late: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect the head of a request from now on."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, WIRE: Wire(transport, self.flow)}
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take in some bytes; only a whole head ends the waiting for it."""
        self._expect()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._relax()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._relax()
        self._unstuck()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The peer takes less than it is sent."""
        super().pause_writing()
        self._unstuck()
        self._look_later()

    def resume_writing(self) -> None:
        """It has taken what waited."""
        super().resume_writing()
        self._unstuck()

    def _expect(self) -> None:
        if self._late is None and self.conn.their_state is h11.IDLE:
            self._late = asyncio.get_running_loop().call_later(HEAD_SECONDS, self.transport.close)

    def _look_later(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        loop = asyncio.get_running_loop()
        self._stuck = loop.call_later(STUCK_SECONDS, self._look_whether_stuck, waiting)

    def _look_whether_stuck(self, waiting: int) -> None:
        if self.transport.get_write_buffer_size() >= waiting:
            self.transport.abort()
        else:
            self._look_later()

    def _unstuck(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _relax(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
