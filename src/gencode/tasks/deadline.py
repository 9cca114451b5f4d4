"""Deadlines and budgets of seconds: when a task must end, whose limit that is, how many seconds are left.

A run is limited by its own seconds (of its budget, and the most for any run) and by the deadlines above it: a
foreground task ends a while before its parent, so that the parent can still use its result, and a background
task ends with its ancestors. Seconds are never held in the ledger: they become a point in time, which can be
set or changed whenever needed.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from types import TracebackType
from typing import Protocol

from msgspec import Struct

from gencode.agent.stop import Stop
from gencode.budgets.ledger import BudgetSpent
from gencode.core.budget import Budget
from gencode.core.errors import Stopped, UserMistake
from gencode.core.events import TaskCreated
from gencode.core.ids import moment
from gencode.core.status import EndReason, StopCause
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.journal.dispatch import Handover, MissingWorker

SHARE_LEFT = 0.1
MOST_LEFT_SECONDS = 30.0
"""The most time that a task keeps for itself when a task that it waits for is ended in time."""
MOST_MOVING_SECONDS = 1.5
"""The most of that time for another process to start and to end."""
BLINK_SECONDS = 0.01
"""With less than this left when its turn comes, a task has not really begun."""
LATE = "it took longer than {seconds:.4g} s; {why}"
NOT_BEGUN = "it did not begin in time; {why}"
SPENT = "The budget of {seconds:g} {unit} of {owner} is spent. To raise it: gen task budget {task} seconds N."


class TimeLimit(StrEnum):
    """Whose time limit applies to a run."""

    BUDGET = "budget"
    RUN = "run"
    """The limit of this run (`max_seconds`)."""
    AGENT = "agent"
    """The limit of any run of an agent (`task_seconds`)."""
    PARENT = "parent"
    """The limit of the task that waits for it."""
    ANCESTORS = "ancestors"
    """The limit of the ancestors that it ends with."""


WHY: Mapping[TimeLimit, str] = {
    TimeLimit.RUN: "the limit is max_seconds",
    TimeLimit.AGENT: "the limit is task_seconds",
    TimeLimit.PARENT: "its parent has no time left",
    TimeLimit.ANCESTORS: "the tasks above it have no time left",
}


class TimedTask(Protocol):
    """A task that this process runs or follows."""

    stop: Stop
    deadline: "Deadline"

    @property
    def task(self) -> Task:
        """The task as it is written so far."""
        ...

    @property
    def queued(self) -> bool:
        """Whether it waits in the queue."""
        ...

    @property
    def elsewhere(self) -> bool:
        """Whether another process runs it."""
        ...

    def expire(self, why: StopCause) -> None:
        """Record that its time is up."""
        ...


FindTask = Callable[[str], TimedTask | None]
"""Finds a task that this process runs or follows."""


class TimeLimits(Struct, frozen=True):
    """The limits of a run that has not begun: seconds from its start on, and deadlines of its ancestors."""

    seconds: dict[TimeLimit, float] = {}
    until: float | None = None
    """When its ancestors end, if it ends with them."""
    parent: str | None = None
    report_by: float | None = None
    """When its parent needs its result, if that waits for it."""

    @property
    def tightest(self) -> tuple[TimeLimit, float | None]:
        """The shortest limit, and its seconds; None without any."""
        none: tuple[TimeLimit, float | None] = (TimeLimit.RUN, None)
        return min(self.seconds.items(), key=lambda each: each[1], default=none)

    @property
    def most(self) -> float | None:
        """The most seconds it may take."""
        return self.tightest[1]

    @property
    def own(self) -> float | None:
        """The seconds of its budget and of this run: its background tasks end with them."""
        named = (TimeLimit.BUDGET, TimeLimit.RUN)
        return min((self.seconds[each] for each in named if each in self.seconds), default=None)

    def end(self, began: float, find: FindTask) -> tuple[float | None, TimeLimit]:
        """When the time of a run is up, by its start, and whose limit that is."""
        by, most = self.tightest
        at = None if most is None else began + most
        if self.until is not None and (at is None or self.until < at):
            at, by = self.until, TimeLimit.ANCESTORS
        report_by = self.report_by if find(self.parent or "") is not None else None
        if report_by is not None and (at is None or report_by < at):
            return report_by, TimeLimit.PARENT
        return at, by


def time_limits(
    seconds: Mapping[TimeLimit, float | None],
    *,
    until: float | None = None,
    parent: str | None = None,
    report_by: float | None = None,
) -> TimeLimits:
    """The limits of a run: in seconds, and `until` its ancestors end."""
    known = {limit: each for limit, each in seconds.items() if each is not None}
    if until is not None:
        known[TimeLimit.ANCESTORS] = max(until - time.monotonic(), 0.001)
    return TimeLimits(known, until, parent, report_by)


def handed_limits(created: TaskCreated, handover: Handover, most: float | None) -> TimeLimits:
    """The limits of a run handed over by another process; `most` is the limit of any run."""
    seconds, own = handover.seconds, created.budget.seconds
    known = {TimeLimit.BUDGET: own} if own is not None else {}
    if seconds is None or seconds == own:
        return TimeLimits(known)
    above = TimeLimit.ANCESTORS if created.background else TimeLimit.PARENT
    by = TimeLimit.AGENT if seconds == most else above if handover.bound else TimeLimit.RUN
    return TimeLimits({by: seconds, **known})


def with_time_left(limits: TimeLimits, find: FindTask, handover: Handover) -> Handover:
    """A handover with the seconds that are left at this moment."""
    at, by = limits.end(time.monotonic(), find)
    if at is None:
        return replace(handover, seconds=None)
    left = max(at - time.monotonic(), 0.0)
    return replace(handover, seconds=left - _moving(left) if by is TimeLimit.PARENT else left)


def _moving(seconds: float) -> float:
    """How much of some seconds is for the start and end of a process."""
    return min(max(seconds, 0.0) / 2, MOST_MOVING_SECONDS)


class Deadline:
    """When one task must end, and why. It is set when the task begins, and may be changed."""

    __slots__ = ("_began", "_budget", "_on_changed", "_on_passed", "at", "cause", "limits")

    def __init__(self, limits: TimeLimits | None = None) -> None:
        self.limits = limits or TimeLimits()
        self.at: float | None = None
        """The time, by the monotonic clock; None before the task begins, and without a limit."""
        self.cause: StopCause | None = None
        """What is reported when it has passed: whose limit it was, and how to raise it."""
        self._on_passed: Callable[[], None] | None = None
        self._on_changed: Callable[[], None] | None = None
        self._began: float | None = None
        self._budget: Budget | None = None

    def when_passed(self, call: Callable[[], None]) -> None:
        """Call this when it has passed, before anything is stopped."""
        self._on_passed = call

    def when_changed(self, call: Callable[[], None] | None) -> None:
        """Call this when it changes; None removes the call."""
        self._on_changed = call

    def passed(self) -> None:
        """Record that it has passed."""
        if self._on_passed is not None:
            self._on_passed()

    def remaining(self) -> float | None:
        """The seconds that a task has left; None without a limit."""
        return None if self.at is None else max(self.at - time.monotonic(), 0.0)

    @property
    def of_background(self) -> float | None:
        """When the task's background tasks have to end with it; None if they do not."""
        own = self.limits.own
        return None if own is None or self._began is None else self._began + own

    def begin(self, task: Task, find: FindTask) -> None:
        """Set the deadline when the task begins."""
        self._began = time.monotonic()
        self._set(task, find, self._began)

    def change_budget(self, task: Task, budget: Budget, worked: float, find: FindTask) -> None:
        """Change the budget of the task; it has `worked` for so many seconds before this run."""
        known = {limit: each for limit, each in self.limits.seconds.items() if limit is not TimeLimit.BUDGET}
        if budget.seconds is not None:
            known[TimeLimit.BUDGET] = budget.seconds - worked
        self.limits = replace(self.limits, seconds=known)
        self._budget = budget
        if self._began is not None:
            self._set(task, find, self._began)

    def _set(self, task: Task, find: FindTask, began: float) -> None:
        self.at, by = self.limits.end(began, find)
        if self.at is not None:
            self.cause = self._why(task, by, self.at - began)
        if self._on_changed is not None:
            self._on_changed()

    def _why(self, task: Task, by: TimeLimit, left: float) -> StopCause:
        if by is TimeLimit.BUDGET:
            return StopCause(EndReason.BUDGET, spent_words(task, self._budget))
        tightest, most = self.limits.tightest
        seconds = (most or 0.0) if by is tightest else max(left, 0.0)
        late = LATE if seconds and (by is tightest or seconds > BLINK_SECONDS) else NOT_BEGUN
        return StopCause(EndReason.TIME_LIMIT, late.format(seconds=seconds, why=WHY[by]))


def remaining(timed: TimedTask | None, find: FindTask) -> float | None:
    """The seconds that a task has left; None without a limit.

    It ends with the task that waits for it, and with its conversation.
    """
    found: list[float] = []
    waited = True
    while timed is not None:
        seconds, task = timed.deadline.remaining(), timed.task
        if seconds is not None and (waited or task.conversation):
            found.append(seconds)
        waited = waited and not task.terms.background
        timed = find(task.parent or "")
    return min(found, default=None)


def report_by(parent: str | None, find: FindTask) -> float | None:
    """When a task needs the result of a subagent it starts now and waits for.

    It can then still pass on other results. A conversation needs no such reserve: a person reads the results
    as they are.
    """
    above = find(parent or "")
    left = remaining(above, find)
    if left is None or above is None or above.task.conversation:
        return None
    return time.monotonic() + left - min(left * SHARE_LEFT, MOST_LEFT_SECONDS)


@contextmanager
def ended_in_queue(timed: TimedTask, by: float | None) -> Generator[None, None, None]:
    """End a task that is still in the queue at the time `by` which its parent needs its result."""

    def late() -> None:
        if timed.queued:
            cause = StopCause(EndReason.TIME_LIMIT, NOT_BEGUN.format(why=WHY[TimeLimit.PARENT]))
            timed.expire(cause)
            timed.stop.stop(cause)

    if by is not None and timed.elsewhere:
        by -= _moving(by - time.monotonic())
    timer = None if by is None else asyncio.get_running_loop().call_at(by, late)
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


class DeadlineAlarm:
    """Interrupts a task when its deadline passes: it raises Stopped, with the limit and how to raise it.

    Listeners are called before anything interrupted takes a step. Every running agent has one, so it is one
    timer and no generator.
    """

    __slots__ = ("_before", "_rang", "_task", "_timed", "_timer")

    def __init__(self, timed: TimedTask) -> None:
        self._timed = timed
        self._rang = False
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._before = self._task.cancelling() if self._task is not None else 0
        self._timed.deadline.when_changed(self._arm)
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        at = self._timed.deadline.at
        if at is not None and not self._rang:
            self._timer = asyncio.get_running_loop().call_at(at, self._ring)

    def _ring(self) -> None:
        self._rang = True
        self._timed.deadline.passed()
        if self._task is not None:
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        timed = self._timed
        timed.deadline.when_changed(None)
        if self._timer is not None:
            self._timer.cancel()
        if not self._rang or self._task is None:
            return
        ours = self._task.uncancel() <= self._before  # nobody else has cancelled it as well
        cause = timed.deadline.cause
        if ours and isinstance(error, asyncio.CancelledError) and cause is not None:
            timed.expire(cause)
            timed.stop.stop(cause)
            raise Stopped(cause) from None


class UnclaimedTimer:
    """Measures for how long no available worker could take a task.

    It starts again when one could. It pauses while the database is unavailable, since no worker can be seen
    then, and while a worker that could not take the task is too busy to look again.
    """

    LONGEST_GAP = 60.0
    """After a longer gap between two looks it is unknown which workers were there."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: float | None = None
        self._lasted = 0.0

    def is_over(self, seen: MissingWorker | None) -> bool:
        """Record one look; whether the time limit of the wait has passed."""
        now, last = self._clock(), self._last
        if seen is None or seen.most is None:
            self._last, self._lasted = None, 0.0
            return False
        if seen.unclear:
            self.pause()
            return False
        if last is not None and now - last <= self.LONGEST_GAP:
            self._lasted += now - last
        self._last = now
        return self._lasted >= seen.most

    def pause(self) -> None:
        """Record that nothing could be seen this time."""
        self._last = None


class TimeSpent(BudgetSpent):
    """A task has used the seconds of its budget."""

    def __init__(self, message: str) -> None:
        UserMistake.__init__(self, message)

    @property
    def kind(self) -> str:
        """The kind of budget that is too small."""
        return "seconds"


def worked_seconds(task: Task) -> float:
    """How long a task ran, in all its runs; a run without an end counts up to its last event.

    A clock that was set back takes nothing away from earlier runs.
    """
    if task.run.since is None:
        return task.totals.worked_ms / 1000
    run = (moment(task.touched_at) - moment(task.run.since)).total_seconds()
    return task.totals.worked_ms / 1000 + max(run, 0.0)


def seconds_left(task: Task | None, budget: Budget, *, over: bool = False) -> float | None:
    """How long a task may still run by its budget; None without a limit.

    All its runs count, in whatever process they were. TimeSpent if nothing is left; but a task that is taken
    `over` in the middle of a run gets a moment in which it ends. A task that never began has all of it.
    """
    if budget.seconds is None or task is None:
        return budget.seconds
    left = budget.seconds - worked_seconds(task)
    if over:
        return max(left, 0.001)
    if left <= 0:
        raise TimeSpent(spent_words(task, budget))
    return left


def spent_words(task: Task, budget: Budget | None = None) -> str:
    """The message that a task has used the seconds of its budget, and how to raise it."""
    seconds = (budget or task.terms.budget).seconds or 0.0
    owner = "the session" if task.conversation else f"agent {task.agent}"
    unit = "second" if seconds == 1 else "seconds"
    return SPENT.format(seconds=seconds, unit=unit, owner=owner, task=task.id)
