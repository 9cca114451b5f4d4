"""A task that was given to workers and that none is at: what it waits for, and for how long (delegation)."""

import time
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from gencode.core.errors import GenCodeError
from gencode.core.events import PassingFact, ProgressMade
from gencode.runtime.fleet import Dispatching, NoWorker, Outlook

FIRST_SECONDS = 2.0
"""For so long nothing is said: most tasks are begun at once."""
LOOK_SECONDS = 1.5
DAY_SECONDS = 86_400.0
"""So long at least what nobody waits for is left to workers that may come: some are there by day only."""
BLIND_SECONDS = 60.0
"""Of a longer time between two looks nobody knows who was there."""
FindOutlook = Callable[[], Awaitable[Outlook | None]]
"""Finds out what a task waits for that no worker is at."""
GiveUp = Callable[[str, str], Awaitable[bool]]
"""Ends a task that was waited for in vain, and says why; False when somebody has it by now."""


class Vain:
    """Counts for how long no worker that was there could take a task, as far as anybody looked.

    It begins anew when one could. It stands still while the database is away, since nobody sees workers then,
    and while one that could not before is too busy to look again.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: float | None = None
        self._lasted = 0.0

    def over(self, seen: Outlook | None) -> bool:
        """One more look; whether it has been so for as long as the task is waited for."""
        now, last = self._clock(), self._last
        if seen is None or seen.most is None:
            self._last, self._lasted = None, 0.0
            return False
        if seen.unclear:
            self.lose_sight()
            return False
        if last is not None and now - last <= BLIND_SECONDS:
            self._lasted += now - last
        self._last = now
        return self._lasted >= seen.most

    def lose_sight(self) -> None:
        """A look was not possible, or told nothing."""
        self._last = None


class Waits:
    """Tells a person why nothing happens, once, and again when that changes; and when to wait no longer."""

    def __init__(
        self, tell: Callable[[PassingFact], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._clock = clock
        self._next = clock() + FIRST_SECONDS
        self._seen: Outlook | None = None
        self._told: Outlook | None = None
        self._vain = Vain(clock)

    async def look(self, outlook: FindOutlook | None, *, quiet: bool) -> str:
        """Look why a task is `quiet`, if it may not have begun; what is so twice in a row is said.

        Why it has to end, where it was waited for long enough.
        """
        now = self._clock()
        if outlook is None or (quiet and now < self._next):
            return ""
        if not quiet:
            self._next, self._seen = now + FIRST_SECONDS, None
            self._vain.over(None)
            return ""
        self._next = now + LOOK_SECONDS
        before, self._seen = self._seen, None
        try:
            self._seen = seen = await outlook()
        except GenCodeError:  # it is looked again, and whoever follows the task says what is wrong
            self._vain.lose_sight()
            return ""
        told = replace(seen, unclear=False) if seen else None
        if seen and seen.reason is not NoWorker.NOT_YET and seen == before and told != self._told:
            self._told = told
            self._tell(ProgressMade(f"waits for {_in_full(seen)}", note=True))
        return seen.end if self._vain.over(seen) and seen else ""


class Vigil:
    """A worker's: ends what no worker could take for too long, also where whoever sent it is gone.

    That is as long as it may take, and at `least` so long; nothing is looked at while it cannot `judge`.
    """

    def __init__(
        self,
        store: Dispatching,
        give_up: GiveUp,
        judge: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        least: float = DAY_SECONDS,
    ) -> None:
        self._store = store
        self._give_up = give_up
        self._judge = judge
        self._clock = clock
        self._least = least
        self._vain: dict[str, Vain] = {}

    async def look(self) -> list[str]:
        """Look at all that nobody has been at for a while; the tasks that have ended by that."""
        if not self._judge():
            self._lose_sight()
            return []
        try:
            late = await self._store.overdue(2 * self._store.lease_seconds)
            found = await self._store.outlooks([each.task for each in late])
        except GenCodeError:
            self._lose_sight()
            raise
        seen = {task: self._at_least(each) for task, each in found.items()}
        self._vain = {task: self._vain.get(task) or Vain(self._clock) for task in seen}
        over = [task for task, vain in self._vain.items() if vain.over(seen[task])]
        ended = [task for task in over if await self._give_up(task, seen[task].end)]
        for task in ended:  # it may be sent again before the next look
            del self._vain[task]
        return ended

    def _at_least(self, seen: Outlook) -> Outlook:
        return seen if seen.most is None else replace(seen, most=max(seen.most, self._least))

    def _lose_sight(self) -> None:
        for vain in self._vain.values():
            vain.lose_sight()


def _in_full(seen: Outlook) -> str:
    if seen.most is None:
        return seen.words
    return f"{seen.words}; if none comes within {seen.most:.10g} s, it ends"
