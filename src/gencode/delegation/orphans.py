"""Tasks whose process died: they are written down as interrupted, so that none stays running for ever."""

import logging
from collections.abc import Sequence

from gencode.core.errors import GenCodeError
from gencode.core.events import DurableFact, MessageAdded, TaskEnded
from gencode.core.messages import ToolCall, unanswered
from gencode.core.status import Status
from gencode.core.task import Task, transcript_of
from gencode.runtime.calls import interrupted
from gencode.runtime.owner import fate
from gencode.runtime.ports import Store

log = logging.getLogger(__name__)

DIED = "the process that ran it died"


async def close_orphans(store: Store, owner: str) -> None:
    """End every task whose owner is dead, or whose lease ran out at an owner nobody can look at."""
    for held in await store.owned():
        verdict = fate(held.owner)
        if verdict == "dead" or (verdict == "unknown" and held.over):
            try:
                await close_task(store, held.task, owner, instead_of=held.owner)
            except GenCodeError as trouble:
                log.info("task %s could not be closed: %s", held.task, trouble)


def interruption(task: Task, open_calls: Sequence[ToolCall]) -> list[DurableFact]:
    """The facts that end a task whose process died: its cut calls answered, then its end."""
    if task.status.ended:
        return []
    facts: list[DurableFact] = [MessageAdded(interrupted(open_calls, DIED))] if open_calls else []
    return [*facts, TaskEnded(Status.INTERRUPTED, task.result, DIED)]


async def close_task(store: Store, task: str, owner: str, instead_of: str | None = None) -> None:
    """End a task that nobody works on any more; nothing happens to one that has ended."""
    lease = await store.take(task, owner, instead_of)
    try:
        transcript = transcript_of(await store.events(task))
        if facts := interruption(lease.state, unanswered(transcript)):
            await store.append(lease, facts)
    finally:
        await store.release(lease)
