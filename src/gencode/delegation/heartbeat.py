"""Signs of life of a process that runs one task, as its sender sees them: its lease, and an end in time.

The process itself notes when its task is silent, and ends it when its time is up. Only one that hangs, or is
suspended, does neither, and it does not renew its lease either.
"""

import logging
import time
from collections.abc import Callable

from gencode.core.errors import GenCodeError
from gencode.core.events import PassingFact, TaskStalled
from gencode.core.reasons import Cause, EndReason
from gencode.delegation.pulse import Liveness
from gencode.runtime.ports import Store

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
BLIND_SECONDS = 5.0
"""Of a longer time between two looks nobody knows what happened: this process may have stood still, too."""
LATE_SECONDS = 15.0
"""So long it may take a process to end a task whose time is up, and to write that down."""


def unended(seconds: float) -> Cause:
    """Why a task ends whose time is up and whose process did not end it."""
    why = f"it took longer than {seconds:.4g} s, and its process did not end it; it was killed"
    return Cause(EndReason.TIME_LIMIT, why)


def silent_process(seconds: float) -> Cause:
    """Why a task ends whose process gave no sign of life for so long."""
    return Cause(EndReason.SILENT, f"its process gave no sign of life for {seconds:.0f} s; it was killed")


class Heartbeat:
    """Counts for how long a process has not renewed its lease, and for how long it runs."""

    def __init__(
        self,
        store: Store,
        liveness: Liveness,
        seconds: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seconds`: so long its task may take."""
        self._store = store
        self._liveness = liveness
        self._seconds = seconds
        self._clock = clock
        self._last = clock()
        self._ran = 0.0
        self._silent = 0.0
        self._told = False

    async def look(self, task: str, tell: Callable[[PassingFact], None]) -> Cause | None:
        """Look again, once a second; why the process is to be ended, if it is."""
        now = self._clock()
        if now - self._last < LOOK_SECONDS:
            return None
        passed, self._last = min(now - self._last, BLIND_SECONDS), now
        self._ran += passed
        if self._seconds is not None and self._ran >= self._seconds + LATE_SECONDS:
            return unended(self._seconds)
        self._silent = self._silent + passed if await self._missed(task) else 0.0
        if self._silent >= self._liveness.over:
            return silent_process(self._silent)
        if self._silent >= self._liveness.stalled and not self._told:
            tell(TaskStalled(round(self._silent, 1)))
        self._told = self._silent >= self._liveness.stalled
        return None

    async def _missed(self, task: str) -> bool:
        """Whether the lease of a task has run out; one that nobody has any more is no silence."""
        try:
            return any(held.task == task and held.over for held in await self._store.owned())
        except GenCodeError as trouble:
            log.info("whether task %s is looked after is not known: %s", task, trouble)
            return False
