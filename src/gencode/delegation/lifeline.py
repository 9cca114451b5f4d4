"""Keeps the leases of a worker, and lets go of everything in time when that is not possible.

Another worker may take a task over when its lease has run out, and not before. So everything that could still
touch the outside world is stopped a good while earlier, counted from the last renewal that surely counted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gencode.core.errors import GenCodeError

log = logging.getLogger(__name__)

RENEWALS = 4
"""So often in each lease time."""
ENOUGH = 0.8
"""After this part of the lease time without a renewal, everything is stopped."""


class Lifeline:
    """Calls `renew` for as long as it runs, and `lost` when it did not succeed for too long."""

    def __init__(
        self, renew: Callable[[], Awaitable[None]], lease_seconds: float, lost: Callable[[], None]
    ) -> None:
        self._renew = renew
        self._seconds = lease_seconds
        self._lost = lost
        self._last = 0.0
        self._back = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def age(self) -> float:
        """For how many seconds nothing was renewed."""
        return asyncio.get_running_loop().time() - self._last

    @property
    def well(self) -> bool:
        """Whether leases are being renewed."""
        return self.age < self._seconds * ENOUGH

    @property
    def settled(self) -> bool:
        """Whether those of others can be judged, too: who was cut off with this one had time to renew."""
        return self.well and asyncio.get_running_loop().time() - self._back >= self._seconds

    async def run(self) -> None:
        """Renew until cancelled."""
        loop = asyncio.get_running_loop()
        self._arm(loop.time())
        try:
            while True:
                begun = loop.time()
                try:
                    async with asyncio.timeout(self._seconds / 2):
                        await self._renew()
                    self._arm(begun)
                except (GenCodeError, TimeoutError) as trouble:
                    log.warning("leases could not be renewed: %s", str(trouble) or "it took too long")
                await asyncio.sleep(self._seconds / RENEWALS)
        finally:
            if self._alarm is not None:
                self._alarm.cancel()

    def _arm(self, begun: float) -> None:
        """From here on the leases count; what is begun late counts from its beginning."""
        if self._last and begun - self._last >= self._seconds * ENOUGH:
            self._back = begun
        self._last = begun
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_at(begun + self._seconds * ENOUGH, self._lost)
