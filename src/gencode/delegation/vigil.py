"""Silence of tasks that other processes run, as anybody sees it who reads the journal; in the end, their end.

A process that hangs or is suspended notes nothing itself, and does not renew its leases. Whoever sent a task
and waits for it has a `Heartbeat`; of one that nobody waits for, this is all that is ever noticed.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from gencode.core.errors import GenCodeError
from gencode.core.events import Event, TaskStalled
from gencode.core.ids import stamp
from gencode.core.reasons import Cause
from gencode.core.task import Task
from gencode.delegation.heartbeat import BLIND_SECONDS, LATE_SECONDS, silent_process, unended
from gencode.delegation.pulse import Liveness
from gencode.delegation.withdrawing import time_out
from gencode.runtime import one_task
from gencode.runtime.owner import process_of
from gencode.runtime.ports import Ownership, Store

log = logging.getLogger(__name__)

Tell = Callable[[Event], Awaitable[None]]
"""Hears something that is not written down."""


async def silent_ones(store: Store, stalled: float) -> dict[str, Ownership]:
    """Who has the tasks whose process gave no sign of life for so many seconds; who reads this gives one."""
    silent = [held for held in await store.owned() if held.owner and held.over and held.silent >= stalled]
    here = {owner for owner in {held.owner for held in silent} if process_of(owner) == os.getpid()}
    return {held.task: held for held in silent if held.owner not in here}


class Vigil:
    """Ends tasks of a folder whose own processes hang, when all of a long time has passed before its eyes.

    What passed while nobody looked does not count: the machine may have slept. Only processes that run one
    task are ended; any other, such as a conversation, a person may have suspended.
    """

    def __init__(
        self,
        store: Store,
        root: Path,
        liveness: Liveness,
        tell: Tell | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`liveness` counts for tasks below the folder `root`; `tell` hears of all that become stalled."""
        self._store = store
        self._root = root
        self._liveness = liveness
        self._tell = tell
        self._clock = clock
        self._last = clock()
        self._silent: dict[tuple[str, str], float] = {}
        self._told: set[str] = set()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(min(BLIND_SECONDS, self._liveness.over / 4))
            try:
                await self.look()
            except GenCodeError as trouble:
                log.info("whether tasks of other processes hang is not known: %s", trouble)

    async def look(self) -> None:
        """Count the silence of all, and end those of whom nothing was heard for too long."""
        now = self._clock()
        passed, self._last = min(now - self._last, BLIND_SECONDS), now
        held = (await silent_ones(self._store, 0.0)).values()
        await self._tell_of([each for each in held if each.silent >= self._liveness.stalled])
        alone = {owner for owner in {each.owner for each in held} if one_task.runs_one_task(owner)}
        silent = [(each.task, each.owner) for each in held if each.owner in alone]
        self._silent = {each: self._silent.get(each, -passed) + passed for each in silent}
        for owner in alone:
            await self._judge(owner)

    async def _tell_of(self, stalled: Sequence[Ownership]) -> None:
        """Let it be heard of tasks that they are stalled, once for each time."""
        new = [each for each in stalled if each.task not in self._told] if self._tell else []
        self._told = {each.task for each in stalled}
        for each in new:
            found = await self._store.task(each.task)
            if self._tell and found is not None and not found.status.ended:
                await self._tell(Event(each.task, None, stamp(), TaskStalled(round(each.silent, 1))))

    async def _judge(self, owner: str) -> None:
        """End what a process runs, in its place, and then that, once the time of one of them is up."""
        tasks = [await self._store.task(task) for task, whose in self._silent if whose == owner]
        here = [each for each in tasks if each and not each.status.ended and self._is_here(each.cwd)]
        overdue = {each.id: why for each in here if (why := self._overdue(each, owner))}
        for each in here if overdue else ():
            why = overdue.get(each.id) or silent_process(self._silent[each.id, owner])
            await time_out(self._store, each.id, why)
        if overdue:
            await one_task.end(owner)

    def _overdue(self, task: Task, owner: str) -> Cause | None:
        """Why the time of a task is up, if it is: who is silent for as long as it may take has used that up.

        What it sent beside itself does not end it.
        """
        silent, beside = self._silent[task.id, owner], (task.parent, owner) in self._silent
        if task.seconds is not None and silent >= task.seconds + LATE_SECONDS and not beside:
            return unended(task.seconds)
        return silent_process(silent) if silent >= self._liveness.over else None

    def _is_here(self, cwd: str) -> bool:
        return Path(cwd).is_relative_to(self._root)
