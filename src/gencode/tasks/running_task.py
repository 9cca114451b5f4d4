"""A running task as its parent holds it, and its implementation for tasks of this process."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

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

GRACE_SECONDS = 2.0
RestsOn = Callable[[], Awaitable[tuple[FileChange, ...] | None]]
"""Finds out what the result of a task rests on; None where that is not known."""


class RunningTask(ABC):
    """One live task, and the branch of the stop tree it hangs from."""

    def __init__(
        self, stop: Stop, liveness: Liveness | None = None, limits: TimeLimits | None = None
    ) -> None:
        self.stop = stop
        self.deadline = Deadline(limits)
        """When it has to end; not known of one that another process runs."""
        self.liveness = liveness
        """Its signs of life; None of one that others time out when it gives none."""
        self.trouble: GenCodeError | None = None
        self.work: asyncio.Task[None] | None = None
        self.overdue: StopCause | None = None
        """Why its time is up, if it is."""
        self.stop_requested = False
        """Whether somebody in another process asked for its end."""
        self.sent_back: asyncio.Future[None] | None = None
        """Done when the task is sent to the background; None while nobody waits who would have to know."""

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
        """Whether it waits for its turn to begin."""

    @abstractmethod
    def tell(self, fact: PassingFact) -> None:
        """Publish an event that is not stored."""

    @property
    @abstractmethod
    def elsewhere(self) -> bool:
        """Whether another process works on it."""

    @property
    def interrupted(self) -> bool:
        """Whether only its turn was interrupted, and nothing else was stopped."""
        return False

    @property
    def at_work(self) -> bool:
        """Whether it works in this process, or waits for its turn to."""
        return False

    @property
    def folder_notice(self) -> str:
        """What a person should know of the folder it works in."""
        return ""

    @property
    def unfinished(self) -> Lease | None:
        """The lease of a task whose end could not be written down here."""
        return None

    @property
    def over(self) -> bool:
        """Whether it has ended and that is written down."""
        return self.work is not None and self.work.done() and self.task.status.ended

    async def has_ended(self) -> bool:
        """Whether its end is written, although it may still be put away."""
        return self.task.status.ended

    @property
    def stopped_elsewhere(self) -> bool:
        """Whether it has ended because somebody in another process asked for that."""
        return self.stop_requested and self.task.status is Status.CANCELLED

    async def wait(self, seconds: float) -> None:
        """Wait for its end, at most so long."""
        if self.work is not None and seconds > 0:
            await asyncio.wait([self.work], timeout=seconds)

    async def ended(self) -> Task:
        """The task once it has ended; raises what kept it from being written down, if anything did."""
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
        """Release whoever waits for it."""
        if self.sent_back is not None and not self.sent_back.done():
            self.sent_back.set_result(None)

    def fall(self) -> None:
        """Take it off the stop tree: it has ended."""
        self.stop.fall()

    def run_in(self, work: "asyncio.Task[None]") -> None:
        """The asyncio task in which it is looked after."""
        self.work = work

    def fail(self, trouble: GenCodeError) -> None:
        """Its end could not be written down."""
        self.trouble = trouble

    def expire(self, why: StopCause) -> None:
        """Its time is up."""
        self.overdue = why

    def request_stop(self) -> None:
        """Somebody in another process asked for its end."""
        self.stop_requested = True

    async def time_out(self, why: StopCause) -> None:
        """End it: it gave no sign of life for too long."""
        await self.halt(why)

    async def halt(self, why: StopCause) -> None:
        """Stop the task and wait until it has ended, or was cancelled after the grace time."""
        self.stop.stop(why)
        if self.work is not None:
            _, late = await asyncio.wait([self.work], timeout=GRACE_SECONDS)
            for work in late:
                work.cancel()
            if late:  # and what is cut off still writes down how it ended
                await asyncio.wait(late, timeout=GRACE_SECONDS)


class LocalTask(RunningTask):
    """A task that runs in this process: its setup, its transcript and its recorder."""

    def __init__(
        self,
        setup: RunSetup,
        transcript: list[Message],
        record: Recorder,
        stop: Stop,
        *,
        workplace: TaskFolder | None = None,
        liveness: Liveness | None = None,
        limits: TimeLimits | None = None,
        first: tuple[DurableFact, ...] = (),
        rests_on: RestsOn | None = None,
        ready: LoopResult | None = None,
    ) -> None:
        """`first` is written once it is its turn to work; nothing when it works from the start.

        `ready` is how it ends without any work, when its result is known already. `rests_on` says what its
        result rests on, where that is written down so that it may be given again.
        """
        super().__init__(stop, liveness, limits)
        self.setup = setup
        self.transcript = transcript
        self.record = record
        self.workplace = workplace
        self.first = first
        self.rests_on = rests_on
        self.ready = ready
        self.turns = stop.branch()
        """The branch its turns hang from; when only that is stopped, the agent may still report."""
        self.reports = False
        self.began = record.task
        """The task as it was before this run."""

    @property
    def task(self) -> Task:
        """The task as it is written so far."""
        return self.record.task

    @property
    def queued(self) -> bool:
        """Whether it waits for its turn to begin."""
        return bool(self.first)

    @property
    def elsewhere(self) -> bool:
        """Whether another process works on it."""
        return False

    @property
    def at_work(self) -> bool:
        """Whether it works in this process, or waits for its turn to."""
        slot = self.setup.slot
        return slot is None or slot.held or slot.waits

    @property
    def folder_notice(self) -> str:
        """What a person should know of the folder it works in."""
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
        """It is its turn to work, and that is written down."""
        self.first = ()

    def fall(self) -> None:
        """Take it off the stop tree and let others work: it has ended."""
        self.turns.fall()
        super().fall()
        if self.setup.slot is not None:
            self.setup.slot.release()

    def change_seconds(self, budget: Budget, find: FindTask) -> None:
        """Limit its seconds by another budget; its earlier runs count."""
        self.deadline.change_budget(self.task, budget, worked_seconds(self.began), find)

    def report(self, why: StopCause) -> None:
        """Stop the work, and let the agent say in one last turn what it has found."""
        self.reports = True
        self.turns.stop(why)

    def interrupt(self, why: StopCause) -> None:
        """Interrupt what it does now: an agent continues from there, a conversation's turn is over.

        One that waits for its turn does nothing that could be cut.
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
