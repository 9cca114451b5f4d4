"""Tasks that other processes run: started, followed through the journal, stopped, and closed after a crash.

A bound task ends with the process that started it; a detached one outlives it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial, reduce
from typing import NamedTuple, TypeVar

from gencode.agent.models import Model
from gencode.agent.stop import Stop
from gencode.agent.work_queue import Slot
from gencode.core.errors import Fenced, GenCodeError, Stopped, StoreUnavailable, UserMistake
from gencode.core.events import (
    AnyFact,
    CallDecided,
    Event,
    MessageAdded,
    PassingFact,
    TaskBackgrounded,
    TaskCreated,
    TaskEnded,
)
from gencode.core.ids import new_id
from gencode.core.messages import AssistantMessage, ToolMessage
from gencode.core.rules import Action
from gencode.core.status import CANCELLED, STOP_UNANSWERED, EndReason, Status, StopCause
from gencode.core.structs import replace
from gencode.core.task import Task, fold
from gencode.journal.dispatch import Engine, EngineProcess, Handover, WorkerTask
from gencode.journal.event_bus import EventBus
from gencode.journal.store import Lease, Store, TaskSignal
from gencode.tasks.crash_recovery import (
    close_if_orphan,
    close_leased,
    close_unclaimed,
    stop_anywhere,
    time_out,
)
from gencode.tasks.deadline import TimeLimits, with_time_left
from gencode.tasks.liveness import Liveness, ProcessLiveness
from gencode.tasks.running_task import GRACE_SECONDS, RunningTask
from gencode.tasks.supervisor import Supervisor
from gencode.tasks.watch import LOOK_SECONDS, QUEUES, WAITS, FindOutlook, WorkerWait, retry

log = logging.getLogger(__name__)
QUESTION_TOOL = "AskUserQuestion"
"""The tool by which an agent asks questions."""
EXIT_SECONDS = 0.01
"""A process that has written its end is gone in a moment, without a notification."""
T = TypeVar("T")
NOT_HERE = (
    "A process of its own needs a journal on disk, a named model and only built-in tools. Run the task in "
    "this process instead."
)
BEGIN_SECONDS = 10.0
"""How much longer than its silence limit a process may take to begin, since it has to be loaded first."""
CUT_SHORT = StopCause(EndReason.PARENT_STOPPED, "its parent was stopped meanwhile")
StartProcess = Callable[[], Awaitable[EngineProcess]]
"""Starts the process that runs a task."""


class FollowedTask(RunningTask):
    """A task that another process runs; its events are read from the journal and published here."""

    def __init__(
        self, task: Task, stop: Stop, store: Store, bus: EventBus, liveness: Liveness | None = None
    ) -> None:
        super().__init__(stop, liveness=liveness)
        self._task = task
        self._store = store
        self._bus = bus

    @property
    def task(self) -> Task:
        """The task as of the last look at the journal."""
        return self._task

    @property
    def elsewhere(self) -> bool:
        """Whether another process runs it."""
        return True

    async def has_ended(self) -> bool:
        """Whether its end is written, even after the last look."""
        if self._task.status.ended:
            return True
        now = await self._store.task(self.id)
        return now is not None and now.status.ended

    def tell(self, fact: PassingFact) -> None:
        """Publish an event that is not stored."""
        self._bus.tell(self.id, fact)

    async def retry(self, step: Callable[[], Awaitable[T]], note: str = WAITS) -> T:
        """The result of a repeatable step, retried while the store is unavailable."""
        return await retry(step, self.stop, self.tell, note)

    async def _hear(self) -> list[Event]:
        events = await self.retry(lambda: self._store.events(self.id, self._task.seq))
        for event in events:
            self._task = fold(self._task, event)
        self._bus.publish(events)
        if any(isinstance(event.fact, TaskBackgrounded) for event in events):
            self.move_to_background()
        return events


class PendingCalls:
    """The calls of a task that wait for an answer, by its events: its questions and approvals."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._open)

    def hear(self, fact: AnyFact) -> None:
        """Apply one more event of the task."""
        match fact:
            case MessageAdded(AssistantMessage(calls=calls)):
                self._open = {each.id for each in calls if each.name == QUESTION_TOOL}
            case MessageAdded(ToolMessage()) | TaskEnded():
                self._open = set()
            case CallDecided(call=call, decision=decision) if decision.action is Action.ASK:
                self._open.add(call)
            case CallDecided(call=call, tool=tool, decision=decision):
                if tool != QUESTION_TOOL or decision.action is Action.DENY:
                    self._open.discard(call)
            case _:
                pass


class RemoteTask(FollowedTask):
    """A task that this process has started in another one, as its parent holds it.

    While its agent waits for an answer there, other agents may run in its place here.
    """

    def __init__(
        self,
        task: Task,
        stop: Stop,
        store: Store,
        bus: EventBus,
        *,
        process: EngineProcess | None = None,
        begin: StartProcess | None = None,
        lease: Lease | None = None,
        slot: Slot | None = None,
        liveness: Liveness | None = None,
    ) -> None:
        """With its `process`, or with the one that `begin` starts once its turn comes; until then it is
        written with `lease`.

        `slot` is its slot in the queue of its parent's process. Without `liveness`, others notice by the
        expired lease that it is silent.
        """
        super().__init__(task, stop, store, bus, liveness)
        self._process = process
        self._begin = begin
        self._lease = lease
        self._slot = slot
        self._unanswered = PendingCalls()
        self._returning: asyncio.Task[None] | None = None
        self._waits = WorkerWait(self.tell)
        self._calling_off: StopCause | None = None

    @property
    def queued(self) -> bool:
        """Whether it waits in the queue."""
        return self._process is None

    async def begin(self) -> None:
        """Let a process take it, if none has it yet."""
        if self._begin is not None:
            self._process = await self._begin()

    def fall(self) -> None:
        """Remove it from the stop tree and release its slot: it has ended."""
        super().fall()
        self._park()

    async def follow(self, owner: str) -> None:
        """Follow the journal until the task has ended, or its process is gone and it is ended here."""
        patience = 0.0
        if self._process is None and not await self._has_begun(owner):
            return
        try:
            try:
                with self.stop.interruptible():
                    await self._followed()
            except Stopped as stopped:
                patience, self._calling_off = GRACE_SECONDS / 2, stopped.cause
                await self._call_off(owner, stopped.cause)
                async with asyncio.timeout(GRACE_SECONDS):
                    await self._followed()
            patience = GRACE_SECONDS
        except (TimeoutError, asyncio.CancelledError):
            pass
        finally:
            await self._let_go(owner, patience)

    async def _has_begun(self, owner: str) -> bool:
        """Wait in the queue and let a process take it; if it cannot begin any more, it ends here."""
        status, why = Status.CANCELLED, CANCELLED
        try:
            with self.stop.interruptible():
                if self._slot is not None:
                    await self._slot.take()
                await self.retry(self.begin, QUEUES)
            return True
        except Stopped as stopped:
            status, why = Status.TIMED_OUT if self.overdue else Status.CANCELLED, stopped.cause
        except UserMistake as mistake:
            status, why = Status.FAILED, StopCause(EndReason.NOT_STARTED, str(mistake))
        except asyncio.CancelledError:
            pass
        try:
            if self._lease is not None:
                await close_leased(self._store, self._lease, why, status)
        except Fenced:  # workers have it, or a process took it and died before it began
            if status is not Status.FAILED:
                await stop_anywhere(self._store, self.id, owner, why)
            await close_if_orphan(self._store, self.id, owner)
        await self._hear()
        return False

    async def _call_off(self, owner: str, why: StopCause) -> None:
        """Stop it wherever it is. A task in the queue of the workers ends here."""
        if isinstance(self._process, WorkerTask):
            await stop_anywhere(self._store, self.id, owner, why)
        else:
            await self._store.send_signal(self.id, TaskSignal.STOP)

    @property
    def _gone(self) -> bool:
        return self._process is None or self._process.gone

    @property
    def _outlook(self) -> FindOutlook | None:
        return self._process.missing_worker if isinstance(self._process, WorkerTask) else None

    async def _followed(self) -> None:
        seen = self._store.changes.count
        events = await self.retry(lambda: self._store.events(self.id))
        events = [each for each in events if (each.seq or 0) <= self._task.seq]
        while not self._task.status.ended and not self._gone:
            for event in events:
                self._unanswered.hear(event.fact)
            if self._unanswered:
                self._park()
            else:
                self._unpark()
            seen = await self._store.changes.after(seen, LOOK_SECONDS)
            events = await self._hear()
            if why := await self._waits.look(self._outlook, quiet=not events):
                await close_unclaimed(self._store, self.id, why)

    async def time_out(self, why: StopCause) -> None:
        """End its process, and the task in place of it: it is silent, or takes too long."""
        try:
            await time_out(self._store, self.id, why)
        except GenCodeError as trouble:  # the next reader ends it like a task whose process died
            log.warning("the end of task %s could not be written down: %s", self.id, trouble)
        finally:
            if self._process is not None:
                self._process.kill()

    def _park(self) -> None:
        """Release the slot."""
        if self._returning is not None:
            self._returning.cancel()
            self._returning = None
        if self._slot is not None:
            self._slot.release()

    def _unpark(self) -> None:
        """Acquire a slot again, before new tasks; its process continues meanwhile."""
        if self._slot is not None and self._returning is None and not self._slot.try_acquire():
            self._returning = asyncio.get_running_loop().create_task(self._slot.take())

    def _comes_home(self) -> bool:
        """Whether its changes are still being copied back, however long that takes; a stop ends the wait."""
        well = self._task.status is Status.COMPLETED and not self.stop.stopped
        return well and isinstance(self._process, WorkerTask) and self._process.comes_home()

    async def _let_go(self, owner: str, patience: float) -> None:
        """Wait for the process and close what it left open: a crash there ends only this task."""
        # Looks are counted instead of seconds: while this process gets no time, that one gets none either.
        looks, killed = round(patience / EXIT_SECONDS), False
        while self._process is not None and not self._process.gone:
            if looks <= 0 and not self._comes_home():
                self._process.kill()
                killed = True
            await asyncio.sleep(EXIT_SECONDS)
            looks -= 1
        await self._hear()
        if self._calling_off and not self._task.status.ended:  # the stop may have been cut short
            await self._call_off(owner, self._calling_off)
        why = STOP_UNANSWERED if self._calling_off and killed else None
        await close_if_orphan(self._store, self.id, owner, why=why)
        await self._hear()


class DetachedTask(NamedTuple):
    """A task that another process has begun; `folder_notice` is a note about its folder for the person."""

    id: str
    folder_notice: str = ""


class OtherProcesses:
    """Hands tasks over to other processes, if there is an engine."""

    def __init__(
        self, store: Store, bus: EventBus, supervisor: Supervisor, engine: Engine | None = None
    ) -> None:
        self._store = store
        self._bus = bus
        self._supervisor = supervisor
        self._engine = engine

    def employ(self, engine: Engine) -> None:
        """Use another engine: a worker has its own."""
        self._engine = engine

    @property
    def possible(self) -> bool:
        """Whether there can be other processes at all."""
        return self._engine is not None

    @property
    def far(self) -> bool:
        """Whether they may be on other machines, with folders that are not on this one."""
        return bool(getattr(self._engine, "far", False))

    async def bind(self, handover: Handover, stop: Stop, slot: Slot, limits: TimeLimits) -> RemoteTask:
        """Run a task in a process that ends with this one; its events are published here.

        If too many agents are running, it is written and waits in the queue. `limits` apply once it begins.
        """
        if self._engine is None or handover.created is None:
            raise UserMistake(NOT_HERE)
        if slot.try_acquire():
            remote = await self._at_once(self._timed(handover, limits), stop, slot)
        else:
            lease = await self._store.create(
                handover.created, self._supervisor.owner, session=handover.account
            )
            handover = replace(handover, task=lease.task, keeper=lease.owner)
            remote = RemoteTask(
                lease.state,
                stop,
                self._store,
                self._bus,
                begin=partial(self._in_turn, handover, limits),
                lease=lease,
                slot=slot,
                liveness=self._liveness(lease.task, handover),
            )
            self._bus.publish(await self._store.events(lease.task))
        slot.assign(remote.id)
        self._supervisor.watch(remote, lambda: self._followed(remote))
        return remote

    def _liveness(self, task: str, handover: Handover) -> ProcessLiveness | None:
        """The signs of life of a process on this machine."""
        if self.far:
            return None
        tell = partial(self._bus.tell, task)
        return ProcessLiveness(
            self._store, task, self._supervisor.timing, seconds=handover.seconds, tell=tell
        )

    async def _followed(self, remote: RemoteTask) -> None:
        """Follow a task to its end; if it is stopped while the database is unavailable, stop it later."""
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
                slot.release()
        remote = RemoteTask(
            _told(events, process.task),
            stop,
            self._store,
            self._bus,
            process=process,
            slot=slot,
            liveness=self._liveness(process.task, handover),
        )
        self._bus.publish(events)
        return remote

    async def _given(self, handover: Handover, stop: Stop) -> EngineProcess:
        """Let a process take a task; if that is cancelled, a task that may be queued is stopped."""
        tell = partial(self._bus.tell, (handover.created.parent if handover.created else None) or "")
        try:
            return await retry(partial(self._start, handover), stop, tell, QUEUES)
        except (StoreUnavailable, asyncio.CancelledError):
            if self.far and handover.named:
                await self._called_off(handover.named)
            raise

    async def _first_facts(self, task: str, stop: Stop) -> list[Event]:
        """The first events of a task that was just handed over; if that is cancelled, the task is stopped."""
        read = False
        try:
            events = await retry(partial(self._store.events, task), stop, partial(self._bus.tell, task))
            read = True
            return events
        finally:
            if not read:
                await self._called_off(task)

    async def _called_off(self, task: str) -> None:
        """Stop a task that was just handed over; that continues if it takes longer than the wait."""
        await asyncio.wait(
            [self._supervisor.run_aside(self._call_off(task, CUT_SHORT))], timeout=GRACE_SECONDS
        )

    async def _call_off(self, task: str, why: StopCause) -> None:
        """Stop a task wherever it is, also when the database is unavailable at first."""
        try:
            step = partial(stop_anywhere, self._store, task, self._supervisor.owner, why)
            await retry(step, Stop())
        except GenCodeError as trouble:
            log.warning("task %s could not be called off: %s", task, trouble)

    async def detach(self, handover: Handover) -> DetachedTask:
        """Run a task in a process that outlives this one; returns once it has begun there."""
        process = await self._detached(handover)
        return DetachedTask(process.task, getattr(process, "begins", ""))

    async def _detached(self, handover: Handover) -> EngineProcess:
        """Let a process take a task that nobody here waits for, retried while the database is unavailable."""
        tell = partial(self._bus.tell, handover.named or handover.task)
        return await retry(partial(self._start, handover), self._supervisor.stop, tell, QUEUES)

    async def _in_turn(self, handover: Handover, limits: TimeLimits) -> EngineProcess:
        """Let a process take a task whose turn has come."""
        return await self._start(self._timed(handover, limits))

    def _timed(self, handover: Handover, limits: TimeLimits) -> Handover:
        """The handover, with the seconds that the task has from this moment on."""
        return with_time_left(limits, self._supervisor.find, handover)

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
            raise UserMistake(f"The process for the task did not start within {most:.4g} s.") from None


def new_handover(
    created: TaskCreated, model: Model, seconds: float | None, *, bound: bool, account: str = ""
) -> Handover:
    """The handover of a new task; the `account` of a session may pay for it."""
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


def _told(events: list[Event], task: str) -> Task:
    state = reduce(fold, events, None)
    if state is None:
        raise UserMistake(f"Task {task} is not in the journal that its process was told to use.")
    return state
