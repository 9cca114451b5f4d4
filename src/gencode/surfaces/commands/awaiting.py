"""Tasks that wait for a worker of a fleet, in words: what they wait for, and what helps."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from gencode.app import GenCode
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.runtime.fleet import Outlook
from gencode.surfaces.visible import visible_line

MOST_ASKED = 20
"""Of so many tasks it is found out what they wait for."""
PATIENCE = 2.0
"""So many seconds workers have to look at a task for which one of them is free."""
LOOK_SECONDS = 0.1


async def awaited(gen: GenCode, task: Outcome, patience: float = PATIENCE) -> str:
    """What a task waits for that no worker has begun with; empty where one has, or none is needed."""
    if task.status is not Status.PENDING or not gen.launcher.apart.far:
        return ""
    from gencode.fleet import outlook

    until = time.monotonic() + patience
    seen = await outlook(gen.store, task.agent_id)
    while seen == Outlook() and time.monotonic() < until:  # a worker begins with it or says what it lacks
        await asyncio.sleep(LOOK_SECONDS)
        seen = await outlook(gen.store, task.agent_id)
    if seen is None:
        return ""
    why = f": {seen.why}" if seen.why else ""
    way = f" (what helps: {seen.way})" if seen.way else ""
    return visible_line(f"a worker{why}{way}")


async def all_awaited(gen: GenCode, tasks: Sequence[Outcome]) -> list[str]:
    """What these tasks wait for, a line for each reason that there is something to be said about."""
    told = Counter([await awaited(gen, task, 0.0) for task in tasks[-MOST_ASKED:]])
    return [
        f"{'1 task waits' if count == 1 else f'{count} tasks wait'} for {what}"
        for what, count in told.items()
        if ":" in what
    ]
