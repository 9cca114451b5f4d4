"""A task in a process of its own, as its sender sees it: followed, stopped and closed through the journal."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gencode.agent.stop import Stop
from gencode.agent.work_queue import Slot
from gencode.core.errors import Fenced, GenCodeError, Stopped, UserMistake
from gencode.core.events import (
    AnyFact,
    CallDecided,
    Event,
    MessageAdded,
    PassingFact,
    TaskBackgrounded,
    TaskEnded,
)
from gencode.core.messages import AssistantMessage, ToolMessage
from gencode.core.rules import Action
from gencode.core.status import CANCELLED, STOP_UNANSWERED, EndReason, Status, StopCause
from gencode.core.task import Task, fold
from gencode.journal.dispatch import EngineProcess, WorkerTask
from gencode.journal.event_bus import EventBus
from gencode.journal.store import Lease, Store, TaskSignal
from gencode.tasks.crash_recovery import close_if_orphan, close_unclaimed, stop_anywhere, time_out
from gencode.tasks.liveness import Liveness
from gencode.tasks.running_task import GRACE_SECONDS, RunningTask
from gencode.tasks.watch import LOOK_SECONDS, QUEUES, WAITS, FindOutlook, WorkerWait, retry

log = logging.getLogger(__name__)

QUESTION_TOOL = "AskUserQuestion"
"""The tool with which an agent asks what it wants to know."""
EXIT_SECONDS = 0.01
"""A process that has written its end is gone in a moment, and nothing says when."""
T = TypeVar("T")
Begin = Callable[[], Awaitable[EngineProcess]]
"""Starts the process that runs a task."""


class FollowedTask(RunningTask):
    """A task that another process runs. What is written there is heard here, too."""

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
        """Let something be heard that is not written down."""
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


class OpenQuestions:
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
    """The sender's end of a task for which a process is started.

    While its agent waits for an answer there, others may work in its place here.
    """

    def __init__(
        self,
        task: Task,
        stop: Stop,
        begin: Begin,
        store: Store,
        bus: EventBus,
        slot: Slot | None = None,
        lease: Lease | None = None,
        liveness: Liveness | None = None,
    ) -> None:
        """`slot` is its right to be at work, in the process that sent it, and `lease` what it is written with
        while it waits for its turn. Without `liveness`, leases that run out tell others to take its place.
        """
        super().__init__(task, stop, store, bus, liveness)
        self._begin = begin
        self._slot = slot
        self._lease = lease
        self._process: EngineProcess | None = None
        self._unanswered = OpenQuestions()
        self._returning: asyncio.Task[None] | None = None
        self._waits = WorkerWait(self.tell)
        self._calling_off: StopCause | None = None

    @property
    def queued(self) -> bool:
        """Whether it waits for its turn to begin."""
        return self._process is None

    async def begin(self) -> None:
        """Let a process take it."""
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
                with self.stop.interrupts():
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
            with self.stop.interrupts():
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
            await self._store.ask(self.id, TaskSignal.STOP)

    @property
    def _gone(self) -> bool:
        return self._process is None or self._process.gone

    @property
    def _outlook(self) -> FindOutlook | None:
        return self._process.outlook if isinstance(self._process, WorkerTask) else None

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
            self._slot.give_back()

    def _unpark(self) -> None:
        """Count as at work again, before those who are new; it goes on there meanwhile."""
        if self._slot is not None and self._returning is None and not self._slot.try_take():
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
