"""Notifies waiters of changes in a store, whichever process wrote them.

Read the `count` before you look and wait with it afterwards; then no change between the two is missed:

    seen = store.changes.count
    while not await found():
        seen = await store.changes.after(seen)

A notification means that something was written, by anybody and about anything, or that this cannot be known
while the store is unavailable: look again. Events that write nothing, such as the death of a process, notify
nobody.
"""

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import suppress

from gencode.core.errors import StoreTrouble

SPACING_SECONDS = 0.03
"""The first change notifies at once; those that follow within this time are combined."""
EACH_SECONDS = 0.0001
"""Added for each waiter, because each of them looks."""
CLOSED = "This GenCode was closed; open it again to continue."


class ChangeNotifier:
    """Counts the writes to a store. One of them serves all waiters of a process."""

    def __init__(self) -> None:
        self._noted = 0
        self._told = 0
        """The number of the last change that waiters were notified of."""
        self._woke = -math.inf
        self._waiting: dict[asyncio.Future[None], int] = {}
        """The waiters, each with the count it has seen."""
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def count(self) -> int:
        """The number of changes so far; it only grows."""
        return self._noted

    def note(self) -> None:
        """Count a write."""
        self._noted += 1
        if self._waiting:
            self._wake_soon()

    async def after(self, seen: int, seconds: float | None = None) -> int:
        """Wait for a change after `seen`, or for so many seconds; the count then.

        StoreTrouble once the store is closed.
        """
        if self._closed:
            raise StoreTrouble(CLOSED)
        if self._told <= seen:
            woken = asyncio.get_running_loop().create_future()
            self._waiting[woken] = seen
            try:
                if self._noted > seen:
                    self._wake_soon()
                self.watch()
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await woken
            finally:
                del self._waiting[woken]
        if self._closed:
            raise StoreTrouble(CLOSED)
        return self._noted

    async def looks(self, seconds: float | None = None) -> AsyncGenerator[None, None]:
        """Yields now, and after every change or so many seconds; ends when the store is closed."""
        while not self._closed:
            seen = self._noted
            yield
            with suppress(StoreTrouble):
                await self.after(seen, seconds)

    @property
    def awaited(self) -> bool:
        """Whether anybody waits for a change."""
        return bool(self._waiting)

    def watch(self) -> None:
        """Notice writes of other processes, as long as somebody waits."""

    def close(self) -> None:
        """Notify everybody: nothing more is noticed."""
        self._closed = True
        self._wake()

    def _wake_soon(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            pause = self._woke + SPACING_SECONDS + len(self._waiting) * EACH_SECONDS - loop.time()
            if pause > 0:
                self._timer = loop.call_later(pause, self._wake)
            else:
                self._wake()

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._woke = asyncio.get_running_loop().time()
        self._told = self._noted
        for woken, seen in self._waiting.items():
            if not woken.done() and (seen < self._noted or self._closed):
                woken.set_result(None)
