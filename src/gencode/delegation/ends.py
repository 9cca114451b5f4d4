"""When the time of agents is up: each ends with those above it, and is heard of by who waits for it."""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from gencode.delegation.live import Job, Live

SHARE_LEFT = 0.1
MOST_LEFT_SECONDS = 30.0
"""So much of its time, and no more, an agent has left when one that it waits for is ended because of that."""

Find = Callable[[str], Live | None]


def set_end(job: Job, find: Find) -> float | None:
    """Say when the time of a job is up that begins now; the seconds until then."""
    limits = job.seat.limits
    waits = None if job.task.background else job.task.parent
    seconds = heard_of(limits.seconds, waits, find)
    if seconds is not None:
        ends = time.monotonic() + seconds
        job.ends = min(ends, limits.until or ends)
    return seconds


def heard_of(seconds: float | None, waits: str | None, find: Find) -> float | None:
    """So many seconds, or fewer where an agent `waits` for who begins now and has to end itself.

    That one hears of it then, and can pass on what else has come. Before the end of a conversation nobody has
    to end: a person reads what has come as it is.
    """
    above = find(waits or "")
    end = end_of(above, find)
    if end is None or above is None or above.task.conversation:
        return seconds
    left = max(end - time.monotonic(), 0.0)
    left -= min(left * SHARE_LEFT, MOST_LEFT_SECONDS)
    return left if seconds is None else min(seconds, left)


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


@contextmanager
def alarm(job: Job) -> Generator[None, None, None]:
    """Tell who wants to know it that the time of a job is up, before anybody who is cut then takes a step."""
    if job.ends is None:
        yield
        return
    timer = asyncio.get_running_loop().call_at(job.ends, lambda: job.when_late and job.when_late())
    try:
        yield
    finally:
        timer.cancel()
