"""Liveness: which processes still work on their tasks, by their leases and by their last signs of life.

A process renews the leases of its tasks. One of this machine that is dead loses them at once, one of another
machine when they expire. One that lives and renews nothing hangs or is suspended: it keeps its tasks until
somebody stops them, or until it has been silent for too long and runs nothing but one task. What is found
dead or hanging is closed in `crash_recovery`.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from gencode.agent.recorder import Recorder
from gencode.core.errors import Conflict, GenCodeError
from gencode.core.events import Event, PassingFact, TaskStalled
from gencode.core.ids import stamp
from gencode.core.status import EndReason, StopCause
from gencode.core.task import Task
from gencode.journal.owner import LEASE_SECONDS, owner_state, process_of
from gencode.journal.store import Lease, Ownership, Store
from gencode.tasks import process_engine

log = logging.getLogger(__name__)

BUSY = "Task {task} is running in another process; wait for it, or stop it first."

Tell = Callable[[Event], Awaitable[None]]
"""Hears something that is not written down."""


class LivenessTimeouts(Struct, frozen=True):
    """After how many seconds what is concluded about a task or its process."""

    stalled: float = 120.0
    """Without a sign of life, until a task is shown as stalled."""
    silent: float = 600.0
    """Without a sign of life, until it is timed out."""
    lease: float = LEASE_SECONDS
    longest_gap: float = 5.0
    """Of a longer time between two looks nobody knows what happened: the one that looks, or the machine, may
    have been suspended. No more than this is counted of it."""
    late: float = 15.0
    """So long a process may take to end a task whose time is up, and to write that down."""


def is_abandoned(held: Ownership) -> bool:
    """Whether nobody can be working on a task that is leased."""
    verdict = owner_state(held.owner)
    return verdict == "dead" or (verdict == "unknown" and held.over)


async def ownership_of(store: Store, task: str) -> Ownership | None:
    """Who leases a task; None where nobody does."""
    return next((each for each in await store.owned() if each.task == task), None)


async def lease_task(
    store: Store, task: str, owner: str, instead_of: str | None = None, session: str | None = None
) -> Lease:
    """Lease a task that exists; UserMistake while somebody else's lease runs, or may run on.

    A process of this machine that is only suspended renews nothing, and keeps what it has while it lives.
    """
    held = await ownership_of(store, task)
    if held is not None and held.owner != owner and owner_state(held.owner) == "alive":
        raise Conflict(BUSY.format(task=task))
    return await store.take(task, owner, instead_of, session)


async def silent_tasks(store: Store, stalled: float) -> dict[str, Ownership]:
    """Who has the tasks whose process gave no sign of life for so many seconds; who reads this gives one."""
    silent = [held for held in await store.owned() if held.owner and held.over and held.silent >= stalled]
    here = {owner for owner in {held.owner for held in silent} if process_of(owner) == os.getpid()}
    return {held.task: held for held in silent if held.owner not in here}


def not_ended_in_time(seconds: float) -> StopCause:
    """Why a task ends whose time is up and whose process did not end it."""
    why = f"it took longer than {seconds:.4g} s, and its process did not end it; it was killed"
    return StopCause(EndReason.TIME_LIMIT, why)


def silent_process(seconds: float) -> StopCause:
    """Why a task ends whose process gave no sign of life for so long."""
    return StopCause(EndReason.SILENT, f"its process gave no sign of life for {seconds:.0f} s; it was killed")


class LeaseRenewal:
    """Renews the leases of a process, and says in time when that is not possible.

    Another process may take a task over when its lease has run out, and not before. So `lost` is called well
    before that, counted from the last renewal that surely reached the store: everything that could still
    touch the outside world has to stop then.
    """

    RENEWALS = 5
    """So often in each lease time."""
    ENOUGH = 0.8
    """After this part of the lease time without a renewal, the leases are taken to be lost."""

    def __init__(
        self,
        renew: Callable[[], Awaitable[None]],
        lease_seconds: float = LEASE_SECONDS,
        lost: Callable[[], None] | None = None,
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
        return self.age < self._seconds * self.ENOUGH

    @property
    def settled(self) -> bool:
        """Whether the leases of others can be judged: all had time to renew since the store was lost."""
        return self.well and asyncio.get_running_loop().time() - self._back >= self._seconds

    async def run(self) -> None:
        """Renew until cancelled; a store that cannot be reached is tried again."""
        loop = asyncio.get_running_loop()
        self._renewed(loop.time())
        try:
            while True:
                begun = loop.time()
                try:
                    async with asyncio.timeout(self._seconds / 2):
                        await self._renew()
                    self._renewed(begun)
                except (GenCodeError, TimeoutError) as trouble:
                    log.warning("leases could not be renewed: %s", str(trouble) or "it took too long")
                await asyncio.sleep(self._seconds / self.RENEWALS)
        finally:
            if self._alarm is not None:
                self._alarm.cancel()

    def _renewed(self, begun: float) -> None:
        """The leases begin anew; a renewal that took long counts from its beginning."""
        if self._last and begun - self._last >= self._seconds * self.ENOUGH:
            self._back = begun
        self._last = begun
        if self._alarm is not None:
            self._alarm.cancel()
        if self._lost is not None:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_at(begun + self._seconds * self.ENOUGH, self._lost)


class Liveness(Protocol):
    """Whether a task that somebody here waits for gives signs of life."""

    async def look(self) -> StopCause | None:
        """Look once more; why the task is to be ended, if it was silent for too long."""
        ...


class TaskLiveness:
    """Signs of life of a task that runs in this process.

    Who waits for an agent, an answer or its turn is not silent.
    """

    def __init__(self, record: Recorder, timing: LivenessTimeouts) -> None:
        self._record = record
        self._timing = timing

    async def look(self) -> StopCause | None:
        """Write down that the task is stalled; why it is to be ended, if it was silent for too long."""
        record, timing = self._record, self._timing
        silent, task = record.silent, record.task
        if silent >= timing.silent:
            why = f"it gave no sign of life for {silent:.0f} s; silence_seconds allows no more"
            return StopCause(EndReason.SILENT, why)
        if silent >= timing.stalled and not task.run.stalled and not task.status.ended:
            await record.commit(TaskStalled(round(silent, 1)), quiet=True)
        return None


class SilenceCounter:
    """For how long tasks were silent while this process looked, whatever the clocks of machines say."""

    def __init__(self, longest_gap: float, clock: Callable[[], float]) -> None:
        self._longest_gap = longest_gap
        self._clock = clock
        self._last = clock()
        self._silent: dict[tuple[str, str], float] = {}

    def look(self, silent: Collection[tuple[str, str]]) -> float:
        """These tasks, each with its owner, are silent now; the seconds that are counted for this look.

        A silence begins with the first look at which it is seen, and ends with one at which it is not.
        """
        now = self._clock()
        passed, self._last = min(now - self._last, self._longest_gap), now
        self._silent = {each: self._silent.get(each, -passed) + passed for each in silent}
        return passed

    def __getitem__(self, held: tuple[str, str]) -> float:
        return self._silent.get(held, 0.0)

    def __contains__(self, held: tuple[str, str]) -> bool:
        return held in self._silent

    def owned_by(self, owner: str) -> list[str]:
        """The tasks of an owner that are silent."""
        return [task for task, whose in self._silent if whose == owner]


class ProcessLiveness:
    """Signs of life of a process that was started for one task: it renews its lease, and ends in time.

    The process itself notes when its task is silent, and ends it when its time is up. Only one that hangs, or
    is suspended, does neither.
    """

    def __init__(
        self,
        store: Store,
        task: str,
        timing: LivenessTimeouts,
        *,
        seconds: float | None,
        tell: Callable[[PassingFact], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seconds`: so long its task may take."""
        self._store = store
        self._task = task
        self._timing = timing
        self._seconds = seconds
        self._tell = tell
        self._silence = SilenceCounter(timing.longest_gap, clock)
        self._ran = 0.0
        self._told = False

    async def look(self) -> StopCause | None:
        """Tell that the task is stalled; why it is to be ended, if its process hangs."""
        missed = await self._missed()
        self._ran += self._silence.look(missed)
        if self._seconds is not None and self._ran >= self._seconds + self._timing.late:
            return not_ended_in_time(self._seconds)
        silent = max((self._silence[each] for each in missed), default=0.0)
        if silent >= self._timing.silent:
            return silent_process(silent)
        if silent >= self._timing.stalled and not self._told:
            self._tell(TaskStalled(round(silent, 1)))
        self._told = silent >= self._timing.stalled
        return None

    async def _missed(self) -> list[tuple[str, str]]:
        """The lease of the task where it has run out; one that nobody has any more is no silence."""
        try:
            held = await ownership_of(self._store, self._task)
        except GenCodeError as trouble:
            log.info("whether task %s is looked after is not known: %s", self._task, trouble)
            return []
        return [(held.task, held.owner)] if held is not None and held.over else []


class HungProcess(Struct, frozen=True):
    """A process that runs one task and hangs, and why each task that it has is to be ended."""

    owner: str
    tasks: dict[str, StopCause]


class FolderLiveness:
    """Finds processes of other programs that run one task of a folder, and hang.

    A process that hangs or is suspended notes nothing itself. Whoever sent a task and waits for it has its
    `ProcessLiveness`; of one that nobody waits for, this is all that is ever noticed. Only processes that run
    one task are found; any other, such as a conversation, a person may have suspended.
    """

    def __init__(
        self,
        store: Store,
        root: Path,
        timing: LivenessTimeouts,
        tell: Tell | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timing` counts for tasks below the folder `root`; `tell` hears of all that become stalled."""
        self._store = store
        self._root = root
        self._timing = timing
        self._tell = tell
        self._silence = SilenceCounter(timing.longest_gap, clock)
        self._told: set[str] = set()

    @property
    def seconds(self) -> float:
        """How often to look."""
        return min(self._timing.longest_gap, self._timing.silent / 4)

    async def look(self) -> list[HungProcess]:
        """Look once more; the processes that hang, once the time of one of their tasks is up."""
        held = (await silent_tasks(self._store, 0.0)).values()
        await self._tell_of([each for each in held if each.silent >= self._timing.stalled])
        alone = {owner for owner in {each.owner for each in held} if process_engine.runs_one_task(owner)}
        self._silence.look([(each.task, each.owner) for each in held if each.owner in alone])
        found = [HungProcess(owner, await self._overdue(owner)) for owner in alone]
        return [each for each in found if each.tasks]

    async def _tell_of(self, stalled: Sequence[Ownership]) -> None:
        """Report tasks that are stalled, once for each time."""
        new = [each for each in stalled if each.task not in self._told] if self._tell else []
        self._told = {each.task for each in stalled}
        for each in new:
            found = await self._store.task(each.task)
            if self._tell and found is not None and not found.status.ended:
                await self._tell(Event(each.task, None, stamp(), TaskStalled(round(each.silent, 1))))

    async def _overdue(self, owner: str) -> dict[str, StopCause]:
        """Why each task of a process that hangs is to be ended; nothing while each has time left."""
        tasks = [await self._store.task(task) for task in self._silence.owned_by(owner)]
        here = [each for each in tasks if each and not each.status.ended and self._is_here(each.cwd)]
        overdue = {each.id: why for each in here if (why := self._why(each, owner))}
        rest = {each.id: silent_process(self._silence[each.id, owner]) for each in here}
        return {**rest, **overdue} if overdue else {}

    def _why(self, task: Task, owner: str) -> StopCause | None:
        """Why the time of a task is up, if it is: who is silent for as long as it may take has used that up.

        What it sent beside itself does not end it.
        """
        silent, beside = self._silence[task.id, owner], (task.parent or "", owner) in self._silence
        if task.run.seconds is not None and silent >= task.run.seconds + self._timing.late and not beside:
            return not_ended_in_time(task.run.seconds)
        return silent_process(silent) if silent >= self._timing.silent else None

    def _is_here(self, cwd: str) -> bool:
        return Path(cwd).is_relative_to(self._root)
