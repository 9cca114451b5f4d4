"""Timeouts for answers of other processes.

They do not run out while this process is suspended (Ctrl-Z), or too busy to listen: a timer that fires late
starts again, so that what was said meanwhile is read first.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

LATE_SECONDS = 1.0


class AnswerTimer:
    """Calls `then` when no answer came for so many seconds in which this process could have read one."""

    def __init__(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._then = then
        self._start()

    def cancel(self) -> None:
        """The answer came, or does not matter any more."""
        self._handle.cancel()

    def _start(self) -> None:
        self._due = self._loop.time() + self._seconds
        self._handle = self._loop.call_at(self._due, self._expired)

    def _expired(self) -> None:
        if self._loop.time() - self._due > LATE_SECONDS:
            self._start()
        else:
            self._then()


@asynccontextmanager
async def answer_timeout(seconds: float) -> AsyncGenerator[None]:
    """`asyncio.timeout` with such a timer."""
    async with asyncio.timeout(None) as timeout:
        timer = AnswerTimer(seconds, lambda: timeout.reschedule(0))
        try:
            yield
        finally:
            timer.cancel()
