"""When the time of agents is up: each ends with those above it, and is heard of by who waits for it."""

import asyncio
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import TracebackType

from msgspec.structs import replace

from gencode.core.errors import Stopped
from gencode.core.events import TaskCreated
from gencode.core.reasons import Cause, EndReason
from gencode.delegation.live import Job, Live
from gencode.delegation.origin import Origin
from gencode.delegation.time_left import spent_words
from gencode.runtime.limits import Clock, Limits
from gencode.runtime.ports import Handover

SHARE_LEFT = 0.1
MOST_LEFT_SECONDS = 30.0
"""So much of its time, and no more, an agent has left when one that it waits for is ended because of that."""
MOST_MOVING_SECONDS = 1.5
"""So much of that is not the agent's own where a process has to begin and to end for it."""
BLINK_SECONDS = 0.01
"""Who has no more of the time of others when its turn comes has not really begun."""
LATE = "it took longer than {seconds:.4g} s; {why}"
NOT_BEGUN = "it did not begin in time; {why}"
WHY: Mapping[Clock, str] = {
    "run": "max_seconds lets a run take no more",
    "task": "task_seconds lets a run take no more",
    "waits": "the agent that waits for it has no more time",
    "above": "those that it has to end with have no more time",
}

Find = Callable[[str], Live | None]


def limits_of(
    place: Origin, turns: int | None, times: Mapping[Clock, float | None], heard: float | None
) -> Limits:
    """How long an agent works at most: by what was said, its purse, and the end of all above it.

    Who waits for it at its place wants to have `heard` of it by then.
    """
    until = place.until if place.background else None  # who is waited for ends with whoever waits
    known: dict[Clock, float] = {clock: each for clock, each in times.items() if each is not None}
    if until is not None:
        known["above"] = max(until - time.monotonic(), 0.001)
    none: tuple[Clock, float | None] = ("run", None)
    by, seconds = min(known.items(), key=lambda each: each[1], default=none)
    own = min((each for clock, each in known.items() if clock in ("budget", "run")), default=None)
    return Limits(turns, seconds, until, by, own, place.task, heard)


def heard_by(waits: str | None, find: Find) -> float | None:
    """The moment at which an agent that `waits` wants to have heard of one that it sends now.

    It can pass on then what else has come. Before the end of a conversation nobody has to end: a person reads
    what has come as it is.
    """
    above = find(waits or "")
    end = end_of(above, find)
    if end is None or above is None or above.task.conversation:
        return None
    left = max(end - time.monotonic(), 0.0)
    return end - min(left * SHARE_LEFT, MOST_LEFT_SECONDS)


@contextmanager
def while_in_line(job: Live, heard: float | None) -> Generator[None, None, None]:
    """End a job that still waits for its turn when its sender wants to have heard of it."""

    def late() -> None:
        if job.queued:
            job.overdue = Cause(EndReason.TIME_LIMIT, NOT_BEGUN.format(why=WHY["waits"]))
            job.stop.stop(job.overdue)

    if heard is not None and not isinstance(job, Job):
        heard -= _moving(heard - time.monotonic())
    timer = None if heard is None else asyncio.get_running_loop().call_at(heard, late)
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


def limits_there(created: TaskCreated, handover: Handover, most: float | None) -> Limits:
    """The limits of a run that began in another process; `most` is what any run may take."""
    seconds, own = handover.seconds, created.budget.seconds
    if not handover.bound:
        by: Clock = "run"
    else:
        by = "above" if created.background else "waits"
    if seconds in (own, most):
        by = "budget" if seconds == own else "task"
    return Limits(created.max_turns, seconds, by=by, own=own)


def in_time(limits: Limits, find: Find, handover: Handover) -> Handover:
    """What another process is handed at this moment, with the seconds that it has from now on."""
    ends, by = due(limits, find)
    if ends is None:
        return replace(handover, seconds=None)
    left = max(ends - time.monotonic(), 0.0)
    return replace(handover, seconds=left - _moving(left) if by == "waits" else left)


def _moving(seconds: float) -> float:
    """How much of some seconds is for the process in which an agent works."""
    return min(max(seconds, 0.0) / 2, MOST_MOVING_SECONDS)


def set_end(job: Job, find: Find) -> None:
    """Say when the time of a job is up that begins now, and what is told then."""
    limits, now = job.seat.limits, time.monotonic()
    job.until = None if limits.own is None else now + limits.own
    job.ends, by = due(limits, find)
    if job.ends is None:
        return
    by = limits.by if job.task.conversation else by  # which ends with nobody
    seconds = limits.seconds if by == limits.by else max(job.ends - now, 0.0)
    late = LATE if seconds and (by == limits.by or seconds > BLINK_SECONDS) else NOT_BEGUN
    words = spent_words(job.task) if by == "budget" else late.format(seconds=seconds, why=WHY[by])
    job.late = Cause(EndReason.BUDGET if by == "budget" else EndReason.TIME_LIMIT, words)


def due(limits: Limits, find: Find) -> tuple[float | None, Clock]:
    """The moment at which the time of a run is up that begins now, and whose time that is."""
    ends, by = None if limits.seconds is None else time.monotonic() + limits.seconds, limits.by
    if limits.until is not None and (ends is None or limits.until < ends):
        ends, by = limits.until, "above"
    heard = limits.heard if find(limits.sender or "") is not None else None
    return (heard, "waits") if heard is not None and (ends is None or heard < ends) else (ends, by)


def end_of(live: Live | None, find: Find) -> float | None:
    """The moment at which a task ends at the latest; None where it has no limit.

    It ends with who waits for it, and with its conversation.
    """
    ends: list[float] = []
    waited = True
    while isinstance(live, Job):
        if live.ends is not None and (waited or live.task.conversation):
            ends.append(live.ends)
        waited = waited and not live.task.background
        live = find(live.task.parent or "")
    return min(ends, default=None)


class Alarm:
    """Cuts what a job does when its time is up: it is Stopped then, with what ran out and the way out.

    Who wants to know it hears of that before anybody who is cut takes a step. Every agent has one for as long
    as it works, so it is one timer and no generator.
    """

    __slots__ = ("_before", "_job", "_rang", "_task", "_timer")

    def __init__(self, job: Job) -> None:
        self._job = job
        self._rang = False
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        if self._job.ends is not None and self._task is not None:
            self._before = self._task.cancelling()
            self._timer = asyncio.get_running_loop().call_at(self._job.ends, self._ring)

    def _ring(self) -> None:
        self._rang = True
        if self._job.when_late is not None:
            self._job.when_late()
        if self._task is not None:
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._rang or self._task is None:
            return
        ours = self._task.uncancel() <= self._before  # nobody else has cut it as well
        job = self._job
        if ours and isinstance(error, asyncio.CancelledError) and job.late is not None:
            job.overdue = job.late
            job.stop.stop(job.late)
            raise Stopped(job.late) from None
