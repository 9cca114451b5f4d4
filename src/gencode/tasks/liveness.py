"""Liveness: which processes still work on their tasks, by their leases and their last signs of life.

A process renews the leases of its tasks. A dead process of this machine loses them at once, one of another
machine when they expire. A running process that renews nothing hangs or is suspended: it keeps its tasks
until somebody stops them, or until it has been silent for too long and runs only one task. Dead and hung
processes are closed in `crash_recovery`.
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
"""Publishes an event that is not written."""


class LivenessTimeouts(Struct, frozen=True):
    """After how many seconds a task or its process counts as stalled, or is timed out."""

    stalled: float = 120.0
    """Without a sign of life, until a task is shown as stalled."""
    silent: float = 600.0
    """Without a sign of life, until it is timed out."""
    lease: float = LEASE_SECONDS
    longest_gap: float = 5.0
    """The most seconds counted between two looks: in a longer gap the machine may have been suspended."""
    late: float = 15.0
    """How long a process may take to end a task whose time is up, and to write that."""


def is_abandoned(held: Ownership) -> bool:
    """Whether no process can be working on a leased task."""
    verdict = owner_state(held.owner)
    return verdict == "dead" or (verdict == "unknown" and held.over)


async def ownership_of(store: Store, task: str) -> Ownership | None:
    """The lease of a task; None without one."""
    return next((each for each in await store.owned() if each.task == task), None)


async def lease_task(
    store: Store, task: str, owner: str, instead_of: str | None = None, session: str | None = None
) -> Lease:
    """Lease a task; UserMistake while another owner's lease is valid, or may be renewed.

    A suspended process of this machine renews nothing, and keeps its leases as long as it exists.
    """
    held = await ownership_of(store, task)
    if held is not None and held.owner != owner and owner_state(held.owner) == "alive":
        raise Conflict(BUSY.format(task=task))
    return await store.take(task, owner, instead_of, session)


async def silent_tasks(store: Store, stalled: float) -> dict[str, Ownership]:
    """The leases whose process has been silent for so many seconds; the reading process is not."""
    silent = [held for held in await store.owned() if held.owner and held.over and held.silent >= stalled]
    here = {owner for owner in {held.owner for held in silent} if process_of(owner) == os.getpid()}
    return {held.task: held for held in silent if held.owner not in here}


def not_ended_in_time(seconds: float) -> StopCause:
    """The cause for a task whose time is up and whose process did not end it."""
    why = f"it took longer than {seconds:.4g} s, and its process did not end it; it was killed"
    return StopCause(EndReason.TIME_LIMIT, why)


def silent_process(seconds: float) -> StopCause:
    """The cause for a task whose process has been silent for so long."""
    return StopCause(EndReason.SILENT, f"its process gave no sign of life for {seconds:.0f} s; it was killed")


class LeaseRenewal:
    """Renews the leases of a process, and gives notice before they are lost.

    Another process may take a task over when its lease has expired, and not before. So `lost` is called well
    before that, counted from the last renewal that certainly reached the store: everything with an outside
    effect has to stop then.
    """

    RENEWALS = 5
    """How many renewals there are in each lease time."""
    ENOUGH = 0.8
    """After this part of the lease time without a renewal the leases count as lost."""

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
        """The seconds since the last renewal."""
        return asyncio.get_running_loop().time() - self._last

    @property
    def well(self) -> bool:
        """Whether leases are being renewed."""
        return self.age < self._seconds * self.ENOUGH

    @property
    def settled(self) -> bool:
        """Whether others' leases can be judged: all had time to renew since the store was unavailable."""
        return self.well and asyncio.get_running_loop().time() - self._back >= self._seconds

    async def run(self) -> None:
        """Renew until cancelled; retried while the store is unavailable."""
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
        """Record a renewal, from the time when it began."""
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
        """Look once; why the task has to be ended, if it was silent for too long."""
        ...


class TaskLiveness:
    """Signs of life of a task in this process.

    A task that waits for a subagent, an answer or a slot does not count as silent.
    """

    def __init__(self, record: Recorder, timing: LivenessTimeouts) -> None:
        self._record = record
        self._timing = timing

    async def look(self) -> StopCause | None:
        """Write that the task is stalled; why it has to be ended, if it was silent for too long."""
        record, timing = self._record, self._timing
        silent, task = record.silent, record.task
        if silent >= timing.silent:
            why = f"it gave no sign of life for {silent:.0f} s; the limit is silence_seconds"
            return StopCause(EndReason.SILENT, why)
        if silent >= timing.stalled and not task.run.stalled and not task.status.ended:
            await record.commit(TaskStalled(round(silent, 1)), quiet=True)
        return None


class SilenceCounter:
    """Measures how long tasks were silent while this process looked, whatever the clocks of machines say."""

    def __init__(self, longest_gap: float, clock: Callable[[], float]) -> None:
        self._longest_gap = longest_gap
        self._clock = clock
        self._last = clock()
        self._silent: dict[tuple[str, str], float] = {}

    def look(self, silent: Collection[tuple[str, str]]) -> float:
        """Record which tasks, with their owners, are silent now; the seconds counted for this look.

        A silence begins with the first look that sees it, and ends with the first that does not.
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
        """The silent tasks of an owner."""
        return [task for task, whose in self._silent if whose == owner]


class ProcessLiveness:
    """Signs of life of a process that was started for one task: it renews its lease, and ends in time.

    The process itself notices when its task is silent, and ends it when its time is up. Only a hung or
    suspended process does neither.
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
        """`seconds`: the most that its task may take."""
        self._store = store
        self._task = task
        self._timing = timing
        self._seconds = seconds
        self._tell = tell
        self._silence = SilenceCounter(timing.longest_gap, clock)
        self._ran = 0.0
        self._told = False

    async def look(self) -> StopCause | None:
        """Publish that the task is stalled; why it has to be ended, if its process hangs."""
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
        """The lease of the task if it has expired; a released one is no silence."""
        try:
            held = await ownership_of(self._store, self._task)
        except GenCodeError as trouble:
            log.info("whether task %s is looked after is not known: %s", self._task, trouble)
            return []
        return [(held.task, held.owner)] if held is not None and held.over else []


class HungProcess(Struct, frozen=True):
    """A hung process that runs one task, and why each of its tasks has to be ended."""

    owner: str
    tasks: dict[str, StopCause]


class FolderLiveness:
    """Finds hung processes of other programs that run one task of a folder.

    A process that hangs or is suspended notices nothing itself. A parent that waits for its task uses
    `ProcessLiveness`; for a task that nobody waits for only this class notices it. Only processes that run
    one task are found; any other, such as a conversation, may have been suspended by a person.
    """

    def __init__(
        self,
        store: Store,
        root: Path,
        timing: LivenessTimeouts,
        tell: Tell | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timing` applies to tasks below the folder `root`; `tell` publishes which become stalled."""
        self._store = store
        self._root = root
        self._timing = timing
        self._tell = tell
        self._silence = SilenceCounter(timing.longest_gap, clock)
        self._told: set[str] = set()

    @property
    def seconds(self) -> float:
        """The interval between looks."""
        return min(self._timing.longest_gap, self._timing.silent / 4)

    async def look(self) -> list[HungProcess]:
        """Look once; the hung processes with a task whose time is up."""
        held = (await silent_tasks(self._store, 0.0)).values()
        await self._tell_of([each for each in held if each.silent >= self._timing.stalled])
        alone = {owner for owner in {each.owner for each in held} if process_engine.runs_one_task(owner)}
        self._silence.look([(each.task, each.owner) for each in held if each.owner in alone])
        found = [HungProcess(owner, await self._overdue(owner)) for owner in alone]
        return [each for each in found if each.tasks]

    async def _tell_of(self, stalled: Sequence[Ownership]) -> None:
        """Report stalled tasks, once for each stall."""
        new = [each for each in stalled if each.task not in self._told] if self._tell else []
        self._told = {each.task for each in stalled}
        for each in new:
            found = await self._store.task(each.task)
            if self._tell and found is not None and not found.status.ended:
                await self._tell(Event(each.task, None, stamp(), TaskStalled(round(each.silent, 1))))

    async def _overdue(self, owner: str) -> dict[str, StopCause]:
        """Why each task of a hung process has to be ended; nothing while every task has time left."""
        tasks = [await self._store.task(task) for task in self._silence.owned_by(owner)]
        here = [each for each in tasks if each and not each.status.ended and self._is_here(each.cwd)]
        overdue = {each.id: why for each in here if (why := self._why(each, owner))}
        rest = {each.id: silent_process(self._silence[each.id, owner]) for each in here}
        return {**rest, **overdue} if overdue else {}

    def _why(self, task: Task, owner: str) -> StopCause | None:
        """Why the time of a task is up, if it is: the time of its silence counts.

        Its background tasks do not end it.
        """
        silent, beside = self._silence[task.id, owner], (task.parent or "", owner) in self._silence
        if task.run.seconds is not None and silent >= task.run.seconds + self._timing.late and not beside:
            return not_ended_in_time(task.run.seconds)
        return silent_process(silent) if silent >= self._timing.silent else None

    def _is_here(self, cwd: str) -> bool:
        return Path(cwd).is_relative_to(self._root)
