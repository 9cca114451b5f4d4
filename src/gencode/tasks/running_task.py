"""A running task, and its implementation for tasks of this process."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from gencode.agent.recorder import Recorder
from gencode.agent.run_setup import LoopResult, RunSetup
from gencode.agent.stop import Stop
from gencode.core.budget import Budget
from gencode.core.errors import GenCodeError
from gencode.core.events import DurableFact, PassingFact
from gencode.core.messages import FileChange, Message
from gencode.core.status import Status, StopCause
from gencode.core.task import Task
from gencode.journal.store import Lease
from gencode.tasks.deadline import Deadline, FindTask, TimeLimits, worked_seconds
from gencode.tasks.liveness import Liveness
from gencode.tasks.task_folders import TaskFolder

if TYPE_CHECKING:
    from gencode.tasks.delegate import AgentDelegate
    from gencode.tasks.delivery import AgentInbox

GRACE_SECONDS = 2.0
RestsOn = Callable[[], Awaitable[tuple[FileChange, ...] | None]]
"""Finds the inputs that the result of a task depends on; None if they are not known."""


class RunningTask(ABC):
    """One running task, and its branch of the stop tree."""

    def __init__(
        self, stop: Stop, liveness: Liveness | None = None, limits: TimeLimits | None = None
    ) -> None:
        self.stop = stop
        self.deadline = Deadline(limits)
        """When it has to end; not known for a task of another process."""
        self.liveness = liveness
        """Its signs of life; None if others have to time it out."""
        self.trouble: GenCodeError | None = None
        self.work: asyncio.Task[None] | None = None
        self.overdue: StopCause | None = None
        """Why its time is up, if it is."""
        self.stop_requested = False
        """Whether another process has asked to stop it."""
        self.sent_back: asyncio.Future[None] | None = None
        """Done when the task is moved to the background; None while nobody waits for it."""

    @property
    @abstractmethod
    def task(self) -> Task:
        """The task as it is written so far."""

    @property
    def id(self) -> str:
        """The id of the task."""
        return self.task.id

    @property
    @abstractmethod
    def queued(self) -> bool:
        """Whether it waits in the queue."""

    @abstractmethod
    def tell(self, fact: PassingFact) -> None:
        """Publish an event that is not stored."""

    @property
    @abstractmethod
    def elsewhere(self) -> bool:
        """Whether another process runs it."""

    @property
    def interrupted(self) -> bool:
        """Whether only its turn was interrupted, and nothing else was stopped."""
        return False

    @property
    def at_work(self) -> bool:
        """Whether it runs in this process, or waits for a slot."""
        return False

    @property
    def folder_notice(self) -> str:
        """A note about its folder, for a person."""
        return ""

    @property
    def unfinished(self) -> Lease | None:
        """The lease of a task whose end could not be written down here."""
        return None

    @property
    def over(self) -> bool:
        """Whether it has ended and that is written."""
        return self.work is not None and self.work.done() and self.task.status.ended

    async def has_ended(self) -> bool:
        """Whether its end is written, although its cleanup may still be running."""
        return self.task.status.ended

    @property
    def stopped_elsewhere(self) -> bool:
        """Whether it has ended because another process asked for that."""
        return self.stop_requested and self.task.status is Status.CANCELLED

    async def wait(self, seconds: float) -> None:
        """Wait for its end, at most so long."""
        if self.work is not None and seconds > 0:
            await asyncio.wait([self.work], timeout=seconds)

    async def ended(self) -> Task:
        """The task once it has ended; raises the error if its end could not be written."""
        if self.work is not None and not self.work.done():
            await _ended(self.work)
        if self.trouble is not None:
            raise self.trouble
        return self.task

    async def in_foreground(self, news: "asyncio.Future[Any] | None" = None) -> bool:
        """Wait until it has ended, is moved to the background, or `news` has come; whether it has ended."""
        if self.work is None:
            return True
        sent_back = self.background_signal()
        try:
            await asyncio.wait([self.work, sent_back, news or sent_back], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sent_back.cancel()
            self.sent_back = None
        return self.work.done()

    def background_signal(self) -> "asyncio.Future[None]":
        """A future that is done when the task is moved to the background."""
        self.sent_back = asyncio.get_running_loop().create_future()
        return self.sent_back

    def move_to_background(self) -> None:
        """Release its parent, which waits for it."""
        if self.sent_back is not None and not self.sent_back.done():
            self.sent_back.set_result(None)

    def fall(self) -> None:
        """Remove it from the stop tree: it has ended."""
        self.stop.fall()

    def run_in(self, work: "asyncio.Task[None]") -> None:
        """Set the asyncio task that supervises it."""
        self.work = work

    def fail(self, trouble: GenCodeError) -> None:
        """Record that its end could not be written."""
        self.trouble = trouble

    def expire(self, why: StopCause) -> None:
        """Record that its time is up."""
        self.overdue = why

    def request_stop(self) -> None:
        """Record that another process asked to stop it."""
        self.stop_requested = True

    async def time_out(self, why: StopCause) -> None:
        """End it: it was silent for too long."""
        await self.halt(why)

    async def halt(self, why: StopCause) -> None:
        """Stop the task and wait until it has ended, or was cancelled after the grace time."""
        self.stop.stop(why)
        if self.work is not None:
            _, late = await asyncio.wait([self.work], timeout=GRACE_SECONDS)
            for work in late:
                work.cancel()
            if late:  # a cancelled task still writes how it ended
                await asyncio.wait(late, timeout=GRACE_SECONDS)


class LocalTask(RunningTask):
    """A task that runs in this process: its setup, transcript and recorder, its inbox and its delegate."""

    def __init__(
        self,
        setup: RunSetup,
        transcript: list[Message],
        record: Recorder,
        stop: Stop,
        *,
        inbox: "AgentInbox",
        delegate: "AgentDelegate",
        workplace: TaskFolder | None = None,
        liveness: Liveness | None = None,
        limits: TimeLimits | None = None,
        first: tuple[DurableFact, ...] = (),
        rests_on: RestsOn | None = None,
        ready: LoopResult | None = None,
    ) -> None:
        """`first` is written when it leaves the queue; empty if it did not have to wait.

        `ready` is its result, if that is known without a run. `rests_on` finds the inputs of its result, if
        those are recorded so that it can be reused.
        """
        super().__init__(stop, liveness, limits)
        self.setup = setup
        self.transcript = transcript
        self.record = record
        self.inbox = inbox
        self.delegate = delegate
        self.workplace = workplace
        self.first = first
        self.rests_on = rests_on
        self.ready = ready
        self.turns = stop.branch()
        """The branch of its turns; if only that is stopped, the agent may still report."""
        self.reports = False
        self.began = record.task
        """The task as it was before this run."""

    @property
    def task(self) -> Task:
        """The task as it is written so far."""
        return self.record.lease.state

    @property
    def id(self) -> str:
        """The id of the task."""
        return self.record.lease.task

    @property
    def queued(self) -> bool:
        """Whether it waits in the queue."""
        return bool(self.first)

    @property
    def elsewhere(self) -> bool:
        """Whether another process runs it."""
        return False

    @property
    def at_work(self) -> bool:
        """Whether it runs in this process, or waits for a slot."""
        slot = self.setup.slot
        return slot is None or slot.held or slot.waits

    @property
    def folder_notice(self) -> str:
        """A note about its folder, for a person."""
        return self.workplace.notice if self.workplace is not None else ""

    @property
    def unfinished(self) -> Lease | None:
        """The lease of a task whose end could not be written down here."""
        return None if self.over else self.record.lease

    @property
    def interrupted(self) -> bool:
        """Whether only its turn was interrupted, and nothing else was stopped."""
        return self.turns.stopped and not self.stop.stopped and not self.reports

    def tell(self, fact: PassingFact) -> None:
        """Publish an event that is not stored."""
        self.record.tell(fact)

    def begun(self) -> None:
        """Record that it has left the queue, and that this is written."""
        self.first = ()

    def fall(self) -> None:
        """Remove it from the stop tree and release its slot: it has ended."""
        self.turns.fall()
        super().fall()
        if self.setup.slot is not None:
            self.setup.slot.release()

    def change_seconds(self, budget: Budget, find: FindTask) -> None:
        """Apply the seconds of another budget; its earlier runs count."""
        self.deadline.change_budget(self.task, budget, worked_seconds(self.began), find)

    def report(self, why: StopCause) -> None:
        """Stop the work, and let the agent report in one last turn."""
        self.reports = True
        self.turns.stop(why)

    def interrupt(self, why: StopCause) -> None:
        """Interrupt the current step: an agent continues from there, a conversation's turn ends.

        A task in the queue does nothing that could be interrupted.
        """
        if self.first:
            return
        if self.task.conversation:
            self.turns.stop(why)
        else:
            self.turns.cut(why)


async def _ended(work: "asyncio.Task[None]") -> None:
    """Wait as `asyncio.wait` does, at a third of its cost: a thousand agents are waited for at once."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(_: "asyncio.Task[None]") -> None:
        if not ended.done():
            ended.set_result(None)

    work.add_done_callback(end)
    try:
        await ended
    finally:
        work.remove_done_callback(end)
