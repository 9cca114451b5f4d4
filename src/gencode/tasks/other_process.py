"""Tasks in processes of their own: bound to whoever sent them, or detached so that they outlive it."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial, reduce
from typing import NamedTuple

from msgspec.structs import replace

from gencode.agent.models import Model
from gencode.agent.stop import Stop
from gencode.agent.work_queue import Slot
from gencode.core.errors import GenCodeError, StoreUnavailable, UserMistake
from gencode.core.events import Event, TaskCreated
from gencode.core.ids import new_id
from gencode.core.status import EndReason, StopCause
from gencode.core.task import Task, fold
from gencode.journal.dispatch import Engine, EngineProcess, Handover
from gencode.journal.event_bus import EventBus
from gencode.journal.store import Store
from gencode.tasks.crash_recovery import stop_anywhere
from gencode.tasks.liveness import ProcessLiveness
from gencode.tasks.remote_task import RemoteTask
from gencode.tasks.running_task import GRACE_SECONDS
from gencode.tasks.supervisor import Supervisor
from gencode.tasks.watch import QUEUES, retry

log = logging.getLogger(__name__)

NOT_HERE = (
    "A process of its own needs what it can open itself: a journal on disk, a model with a name and no tools "
    "but GenCode's. Run the task in this process instead."
)
BEGIN_SECONDS = 10.0
"""So much longer than it may be silent a process may take to begin, since it has to be loaded first."""
CUT_SHORT = StopCause(EndReason.PARENT_STOPPED, "whoever sent it was stopped meanwhile")


class DetachedTask(NamedTuple):
    """A task that another process has begun; `folder_notice` is what a person should know of its folder."""

    id: str
    folder_notice: str = ""


Timed = Callable[[Handover], Handover]
"""What a process is handed, with the seconds that its task has from this moment on."""


class OtherProcesses:
    """Hands tasks over to other processes. Without an engine there are none."""

    def __init__(
        self, store: Store, bus: EventBus, supervisor: Supervisor, engine: Engine | None = None
    ) -> None:
        self._store = store
        self._bus = bus
        self._supervisor = supervisor
        self._engine = engine

    def employ(self, engine: Engine) -> None:
        """Let another engine start them: a worker has its own."""
        self._engine = engine

    @property
    def possible(self) -> bool:
        """Whether there can be other processes at all."""
        return self._engine is not None

    @property
    def far(self) -> bool:
        """Whether they may be on other machines, with folders that are not on this one."""
        return bool(getattr(self._engine, "far", False))

    async def bind(self, handover: Handover, stop: Stop, slot: Slot, timed: Timed) -> RemoteTask:
        """Run a task in a process that ends with this one; what happens there is heard here.

        Where too many agents are at work, it is written down and waits for its turn; `timed` says how long it
        may take when that has come.
        """
        if self._engine is None or handover.created is None:
            raise UserMistake(NOT_HERE)
        if slot.try_take():
            remote = await self._at_once(timed(handover), stop, slot)
        else:
            lease = await self._store.create(
                handover.created, self._supervisor.owner, session=handover.account
            )
            handover = replace(handover, task=lease.task, keeper=lease.owner)
            begin = partial(self._in_turn, handover, timed)
            alive = self._liveness(lease.task, handover)
            remote = RemoteTask(lease.state, stop, begin, self._store, self._bus, slot, lease, alive)
            self._bus.publish(await self._store.events(lease.task))
        slot.task = remote.id
        self._supervisor.watch(remote, lambda: self._followed(remote))
        return remote

    def _liveness(self, task: str, handover: Handover) -> ProcessLiveness | None:
        """The signs of life of a process on this machine."""
        if self.far:
            return None
        tell = partial(self._bus.tell, task)
        return ProcessLiveness(self._store, task, self._supervisor.timing, handover.seconds, tell)

    async def _followed(self, remote: RemoteTask) -> None:
        """Follow a task to its end; one that was stopped while the database was away is called off later."""
        try:
            await remote.follow(self._supervisor.owner)
        finally:
            if self.far and remote.stop.cause is not None and not remote.task.status.ended:
                self._supervisor.run_aside(self._call_off(remote.id, remote.stop.cause))

    async def _at_once(self, handover: Handover, stop: Stop, slot: Slot) -> RemoteTask:
        begun = False
        try:
            process = await self._given(handover, stop)
            events = await self._first_facts(process.task, stop)
            begun = True
        finally:
            if not begun:
                slot.give_back()
        told, alive = _told(events, process.task), self._liveness(process.task, handover)
        begin = partial(_already, process)
        remote = RemoteTask(told, stop, begin, self._store, self._bus, slot, liveness=alive)
        await remote.begin()
        self._bus.publish(events)
        return remote

    async def _given(self, handover: Handover, stop: Stop) -> EngineProcess:
        """Let a process take a task; one that may be queued when nobody tries any more is called off."""
        tell = partial(self._bus.tell, (handover.created and handover.created.parent) or "")
        try:
            return await retry(partial(self._start, handover), stop, tell, QUEUES)
        except (StoreUnavailable, asyncio.CancelledError):
            if self.far and handover.named:
                await self._called_off(handover.named)
            raise

    async def _first_facts(self, task: str, stop: Stop) -> list[Event]:
        """What is written of a task that was just given away; who is stopped meanwhile calls it off."""
        read = False
        try:
            events = await retry(partial(self._store.events, task), stop, partial(self._bus.tell, task))
            read = True
            return events
        finally:
            if not read:
                await self._called_off(task)

    async def _called_off(self, task: str) -> None:
        """Call off a task that was just given away; that goes on when it takes longer than anybody waits."""
        await asyncio.wait(
            [self._supervisor.run_aside(self._call_off(task, CUT_SHORT))], timeout=GRACE_SECONDS
        )

    async def _call_off(self, task: str, why: StopCause) -> None:
        """Stop a task wherever it is, also when the database is away at first."""
        try:
            step = partial(stop_anywhere, self._store, task, self._supervisor.owner, why)
            await retry(step, Stop())
        except GenCodeError as trouble:
            log.warning("task %s could not be called off: %s", task, trouble)

    async def detach(self, handover: Handover) -> DetachedTask:
        """Run a task in a process that goes on without this one, once it has begun there."""
        process = await self._detached(handover)
        return DetachedTask(process.task, getattr(process, "begins", ""))

    async def _detached(self, handover: Handover) -> EngineProcess:
        """Let a process take a task that nobody here waits for; a database that is away is waited for."""
        tell = partial(self._bus.tell, handover.named or handover.task)
        return await retry(partial(self._start, handover), self._supervisor.stop, tell, QUEUES)

    async def _in_turn(self, handover: Handover, timed: Timed) -> EngineProcess:
        """Let a process take a task whose turn has come."""
        return await self._start(timed(handover))

    async def _start(self, handover: Handover) -> EngineProcess:
        if self._engine is None:
            raise UserMistake(NOT_HERE)
        if self.far:
            return await self._engine.start(handover)
        most = self._supervisor.timing.silent + BEGIN_SECONDS
        try:
            async with asyncio.timeout(most):
                return await self._engine.start(handover)
        except TimeoutError:
            raise UserMistake(f"The process for the task did not begin within {most:.4g} s.") from None


def new_handover(
    created: TaskCreated, model: Model, seconds: float | None, *, bound: bool, account: str = ""
) -> Handover:
    """A new task for a process of its own; the `account` of a session may pay for it."""
    return Handover(
        model=model.lasting,
        created=created,
        seconds=seconds,
        effort=model.effort,
        warnings=model.warnings,
        background=created.background,
        bound=bound,
        account=account,
        named=new_id(),
    )


async def _already(process: EngineProcess) -> EngineProcess:
    return process


def _told(events: list[Event], task: str) -> Task:
    state = reduce(fold, events, None)
    if state is None:
        raise UserMistake(f"Task {task} is not in the journal that its process was told to use.")
    return state
