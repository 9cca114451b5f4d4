"""A task that was given to workers and that none is at: its sender says what it waits for (delegation)."""

import time
from collections.abc import Awaitable, Callable

from gencode.core.errors import GenCodeError
from gencode.core.events import PassingFact, ProgressMade
from gencode.runtime.fleet import Outlook

FIRST_SECONDS = 2.0
"""For so long nothing is said: most tasks are begun at once."""
LOOK_SECONDS = 1.5
FindOutlook = Callable[[], Awaitable[Outlook | None]]
"""Finds out what a task waits for that no worker is at."""


class Waits:
    """Tells a person why nothing happens, once, and again when that changes."""

    def __init__(
        self, tell: Callable[[PassingFact], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._clock = clock
        self._next = clock() + FIRST_SECONDS
        self._seen: Outlook | None = None
        self._said: Outlook | None = None

    async def look(self, outlook: FindOutlook | None, *, quiet: bool) -> None:
        """Look why a task is `quiet`, if it may not have begun; what is so twice in a row is said."""
        if outlook is None:
            return
        now = self._clock()
        if not quiet:
            self._next, self._seen = now + FIRST_SECONDS, None
        elif now >= self._next:
            self._next = now + LOOK_SECONDS
            before, self._seen = self._seen, await _found(outlook)
            if self._seen and self._seen.why and self._seen == before and self._seen != self._said:
                self._said = self._seen
                self._tell(ProgressMade(f"waits for {self._seen.words}", note=True))


async def _found(outlook: FindOutlook) -> Outlook | None:
    try:
        return await outlook()
    except GenCodeError:  # it is looked again, and whoever follows the task says what is wrong
        return None
