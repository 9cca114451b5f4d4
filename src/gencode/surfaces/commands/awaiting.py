"""Tasks that wait for a worker of a fleet, in words: what they wait for, and what helps."""

from collections import Counter
from collections.abc import Sequence

from gencode.app import GenCode
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.surfaces.visible import visible_line

MOST_ASKED = 20
"""Of so many tasks it is found out what they wait for."""


async def awaited(gen: GenCode, task: Outcome) -> str:
    """What a task waits for that no worker has begun with; empty where one has, or none is needed."""
    if task.status is not Status.PENDING or not gen.launcher.apart.far:
        return ""
    from gencode.fleet import outlook

    seen = await outlook(gen.store, task.agent_id)
    if seen is None:
        return ""
    why = f": {seen.why}" if seen.why else ""
    way = f" (what helps: {seen.way})" if seen.way else ""
    return visible_line(f"a worker{why}{way}")


async def all_awaited(gen: GenCode, tasks: Sequence[Outcome]) -> list[str]:
    """What these tasks wait for, a line for each reason that there is something to be said about."""
    told = Counter([await awaited(gen, task) for task in tasks[-MOST_ASKED:]])
    return [
        f"{'1 task waits' if count == 1 else f'{count} tasks wait'} for {what}"
        for what, count in told.items()
        if ":" in what
    ]
