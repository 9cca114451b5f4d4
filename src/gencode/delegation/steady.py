"""Takes steps in the journal for whoever waits for an agent elsewhere, also when the database is away."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gencode.core.errors import StoreAway
from gencode.core.events import PassingFact, ProgressMade
from gencode.runtime.stop import Stop

T = TypeVar("T")

AWAY_SECONDS = 300.0
"""So long a database may be away; then who waits for the agent hears that, and goes on without it."""
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
WAITS = "waits for the database, which cannot be reached; the agent itself may be at work"
QUEUES = "waits for the database, which cannot be reached, to give an agent to the workers"


class Steady:
    """Tries again, with longer and longer pauses, for as long as nobody stops what waits."""

    def __init__(self, stop: Stop, tell: Callable[[PassingFact], None]) -> None:
        self._stop = stop
        self._tell = tell

    async def patiently(self, step: Callable[[], Awaitable[T]], note: str = WAITS) -> T:
        """What a step gives that may be repeated; StoreAway when the database stays away."""
        until, pause = time.monotonic() + AWAY_SECONDS, FIRST_PAUSE
        while True:
            try:
                return await step()
            except StoreAway:
                if self._stop.stopped or time.monotonic() > until:
                    raise
            if pause == FIRST_PAUSE:
                self._tell(ProgressMade(note, note=True))
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
