"""Tasks that other processes run: started, followed through the journal, stopped, and closed after a crash.

A bound task ends with whoever started it; a detached one outlives it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial, reduce
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

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
from gencode.core.task import Task, fold
from gencode.journal.dispatch import Engine, EngineProcess, Handover, WorkerTask
from gencode.journal.event_bus import EventBus
from gencode.journal.store import Lease, Store, TaskSignal
from gencode.tasks.crash_recovery import close_if_orphan, close_unclaimed, stop_anywhere, time_out
from gencode.tasks.deadline import TimeLimits, with_time_left
from gencode.tasks.liveness import Liveness, ProcessLiveness
from gencode.tasks.running_task import GRACE_SECONDS, RunningTask
from gencode.tasks.supervisor import Supervisor
from gencode.tasks.watch import LOOK_SECONDS, QUEUES, WAITS, FindOutlook, WorkerWait, retry

log = logging.getLogger(__name__)
QUESTION_TOOL = "AskUserQuestion"
"""The tool with which an agent asks what it wants to know."""
EXIT_SECONDS = 0.01
"""A process that has written its end is gone in a moment, and nothing says when."""
T = TypeVar("T")
NOT_HERE = (
    "A process of its own needs a journal on disk, a named model and only built-in tools. Run the task in "
    "this process instead."
)
BEGIN_SECONDS = 10.0
"""So much longer than it may be silent a process may take to begin, since it has to be loaded first."""
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
        """The task as it was written when the journal was last looked at."""
        return self._task

    @property
    def elsewhere(self) -> bool:
        """Whether another process works on it."""
        return True

    async def has_ended(self) -> bool:
        """Whether its end is written, also where that was after the last look."""
        if self._task.status.ended:
            return True
        now = await self._store.task(self.id)
        return now is not None and now.status.ended

    def tell(self, fact: PassingFact) -> None:
        """Publish an event that is not stored."""
        self._bus.tell(self.id, fact)

    async def retry(self, step: Callable[[], Awaitable[T]], note: str = WAITS) -> T:
        """What a step gives that may be repeated, also when the store is away for a while."""
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
    """The calls of a task that wait for an answer, as its facts tell: what it wants to know, and may do."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._open)

    def hear(self, fact: AnyFact) -> None:
        """One more fact of the task."""
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
    """A task for which this process has started another one, as its parent holds it.

    While its agent waits for an answer there, others may work in its place here.
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
        """With its `process`, or with what `begin` starts once it is its turn; until then it is written with
        `lease`.

        `slot` is its right to be at work, in the process of its parent. Without `liveness`, expired leases
        tell others to take its place.
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
        """Whether it waits for its turn to begin."""
        return self._process is None

    async def begin(self) -> None:
        """Let a process take it, if none has it yet."""
        if self._begin is not None:
            self._process = await self._begin()

    def fall(self) -> None:
        """Take it off the stop tree and let others work: it has ended."""
        super().fall()
        self._park()

    async def follow(self, owner: str) -> None:
        """Hear what is written until the task has ended, or its process is gone and it is ended here."""
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
        """Wait for its turn and let a process take it; one that cannot begin any more ends here."""
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
                ended = TaskEnded(status, error=str(why), reason=why.reason)
                await self._store.append(self._lease, [ended], last=True)
        except Fenced:  # workers have it, or a process took it and died before it had begun
            if status is not Status.FAILED:
                await stop_anywhere(self._store, self.id, owner, why)
            await close_if_orphan(self._store, self.id, owner)
        await self._hear()
        return False

    async def _call_off(self, owner: str, why: StopCause) -> None:
        """Stop it wherever it is. One that workers were given and that none is at ends here."""
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
        """End its process, and the task in its place: it gives no sign of life, or takes too long."""
        try:
            await time_out(self._store, self.id, why)
        except GenCodeError as trouble:  # whoever looks at it next ends it, as one whose process died
            log.warning("the end of task %s could not be written down: %s", self.id, trouble)
        finally:
            if self._process is not None:
                self._process.kill()

    def _park(self) -> None:
        """Let others work."""
        if self._returning is not None:
            self._returning.cancel()
            self._returning = None
        if self._slot is not None:
            self._slot.release()

    def _unpark(self) -> None:
        """Take a slot again, before new tasks; its process runs on meanwhile."""
        if self._slot is not None and self._returning is None and not self._slot.try_acquire():
            self._returning = asyncio.get_running_loop().create_task(self._slot.take())

    def _comes_home(self) -> bool:
        """Whether what it changed is waited for, however many others are before it; a stop ends that."""
        well = self._task.status is Status.COMPLETED and not self.stop.stopped
        return well and isinstance(self._process, WorkerTask) and self._process.comes_home()

    async def _let_go(self, owner: str, patience: float) -> None:
        """Wait for the process and close what it left open: a crash there ends this task, nothing else."""
        # Looks are counted instead of seconds: while this process gets no time, that one gets none either.
        looks, killed = round(patience / EXIT_SECONDS), False
        while self._process is not None and not self._process.gone:
            if looks <= 0 and not self._comes_home():
                self._process.kill()
                killed = True
            await asyncio.sleep(EXIT_SECONDS)
            looks -= 1
        await self._hear()
        if self._calling_off and not self._task.status.ended:  # it may have been cut short
            await self._call_off(owner, self._calling_off)
        why = STOP_UNANSWERED if self._calling_off and killed else None
        await close_if_orphan(self._store, self.id, owner, why=why)
        await self._hear()


class DetachedTask(NamedTuple):
    """A task that another process has begun; `folder_notice` is what a person should know of its folder."""

    id: str
    folder_notice: str = ""


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

    async def bind(self, handover: Handover, stop: Stop, slot: Slot, limits: TimeLimits) -> RemoteTask:
        """Run a task in a process that ends with this one; its events are published here.

        Where too many agents are at work, it is written down and waits for its turn. `limits` bound its time
        once it begins.
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
        """Let a process take a task; one that may be queued when nobody tries any more is called off."""
        tell = partial(self._bus.tell, (handover.created.parent if handover.created else None) or "")
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
        """Stop a task that was just handed over; that continues when it takes longer than anybody waits."""
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
        """Run a task in a process that outlives this one, once it has begun there."""
        process = await self._detached(handover)
        return DetachedTask(process.task, getattr(process, "begins", ""))

    async def _detached(self, handover: Handover) -> EngineProcess:
        """Let a process take a task that nobody here waits for; a database that is away is waited for."""
        tell = partial(self._bus.tell, handover.named or handover.task)
        return await retry(partial(self._start, handover), self._supervisor.stop, tell, QUEUES)

    async def _in_turn(self, handover: Handover, limits: TimeLimits) -> EngineProcess:
        """Let a process take a task whose turn has come."""
        return await self._start(self._timed(handover, limits))

    def _timed(self, handover: Handover, limits: TimeLimits) -> Handover:
        """What a process is handed, with the seconds that its task has from this moment on."""
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


def _told(events: list[Event], task: str) -> Task:
    state = reduce(fold, events, None)
    if state is None:
        raise UserMistake(f"Task {task} is not in the journal that its process was told to use.")
    return state
