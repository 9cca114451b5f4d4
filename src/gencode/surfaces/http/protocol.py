"""HTTP/1.1 with an end to patience: a peer that does not finish its request head is not waited for."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0


class Impatient(H11Protocol):
    """uvicorn's protocol, which itself only bounds the time between requests."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect the head of a request from now on."""
        super().connection_made(transport)
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
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self._late is None and self.conn.their_state is h11.IDLE:
            self._late = asyncio.get_running_loop().call_later(HEAD_SECONDS, self.transport.close)

    def _relax(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
