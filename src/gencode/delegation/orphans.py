"""Tasks whose process died: they are written down as interrupted, so that none stays running for ever.

What they waited for may go on, in a process of its own or on another machine. The answer to the call that was
cut names it, and what it comes to is given to its sender later, like the result of a task in the background.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from gencode.core.errors import Conflict, GenCodeError
from gencode.core.events import CostEstimated, DurableFact, MessageAdded, TaskEnded
from gencode.core.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    ToolResult,
    Trace,
    Usage,
    unanswered,
)
from gencode.core.reasons import DIED, LOST, Cause
from gencode.core.status import Status
from gencode.core.task import Task, transcript_of
from gencode.delegation.accounts import bounded_above
from gencode.delegation.outputs import make_whole
from gencode.runtime.calls import interrupted
from gencode.runtime.owner import fate
from gencode.runtime.ports import Lease, Ownership, Store, TaskQuery
from gencode.runtime.spending import USUAL_TOKEN, taken

log = logging.getLogger(__name__)

BUSY = "Task {task} is being worked on by another process; wait for it, or stop it first."


async def close_orphans(store: Store, owner: str, outputs: Path | None = None) -> None:
    """End every task that has not ended and whose owner is dead, gone, or silent where nobody can look."""
    for held in await store.owned():
        if given_up(held):
            await _closed(store, held.task, owner, held.owner or None, outputs)


async def close_if_orphan(store: Store, task: str, owner: str, outputs: Path | None = None) -> None:
    """End this one task if nobody works on it any more: its owner died, or gave it back without an end."""
    held = next((each for each in await store.owned() if each.task == task), None)
    if held is not None and not given_up(held):
        return
    found = await store.task(task)  # it may have ended while its owner was looked for
    if found is not None and not found.status.ended:
        await _closed(store, task, owner, held.owner if held else None, outputs)


def given_up(held: Ownership) -> bool:
    """Whether nobody can be working on a task that is leased."""
    verdict = fate(held.owner)
    return verdict == "dead" or (verdict == "unknown" and held.over)


async def taken_up(store: Store, task: str, owner: str, instead_of: str | None = None) -> Lease:
    """Lease a task that exists; UserMistake while somebody else's lease runs, or may run on.

    A process of this machine that is only suspended renews nothing, and keeps what it has while it lives.
    """
    held = next((each for each in await store.owned() if each.task == task), None)
    if held is not None and held.owner != owner and fate(held.owner) == "alive":
        raise Conflict(BUSY.format(task=task))
    return await store.take(task, owner, instead_of)


def interruption(
    task: Task,
    transcript: list[Message],
    why: Cause = DIED,
    children: Sequence[Task] = (),
    *,
    bounded: bool,
    status: Status = Status.INTERRUPTED,
) -> list[DurableFact]:
    """The facts that end a task whose process died: its cut calls answered, then its end.

    Where it has a budget, or somebody above it, the call of the model counts that may have been in flight.
    """
    if task.status.ended:
        return []
    ended = TaskEnded(status, task.report, str(why), changes=task.changes, reason=why.reason)
    open_calls = unanswered(transcript)
    if not open_calls:
        return [*(_in_flight(task, transcript) if bounded else ()), ended]
    answers = interrupted(open_calls, str(why)).results
    named = [_naming(task, *each, children) for each in zip(open_calls, answers, strict=True)]
    return [MessageAdded(ToolMessage(tuple(named))), ended]


def _in_flight(task: Task, transcript: Sequence[Message]) -> list[DurableFact]:
    """About what a call cost that nobody heard the reply of; nothing where it was not the model's turn."""
    told = task.usage.input_tokens + task.usage.output_tokens
    silent = task.turns > 0 and not told  # it costs nothing, or nobody knows what
    waits = task.status is Status.PENDING  # for its turn, with what it hears then written down
    if waits or silent or not transcript or isinstance(transcript[-1], AssistantMessage):
        return []
    tokens = taken(transcript, len(task.system) // USUAL_TOKEN)
    usd = None if task.usage.usd is None else task.usage.usd * tokens / max(told, 1)
    return [CostEstimated(Usage(tokens, usd=usd))]


def _naming(task: Task, call: ToolCall, answer: ToolResult, children: Sequence[Task]) -> ToolResult:
    """The answer to a call that was cut, with the agents that it had sent and that nothing was heard of."""
    heard = {*task.evidence.children, *task.left}
    again = call.input.get("resume")
    sent = [each for each in children if (each.call == call.id and each.id not in heard) or each.id == again]
    if not sent:
        return answer
    said = [f"Task {each.id} of {each.agent} {_far(each)}" for each in sent]
    left = Trace(left=tuple(each.id for each in sent))
    return replace(answer, text="\n".join((answer.text, *said)), trace=left)


def _far(task: Task) -> str:
    if task.status.ended:
        return f"ended as {task.status}: its result follows by itself."
    return "had not ended then: what it comes to follows by itself."


async def close_task(
    store: Store,
    task: str,
    owner: str,
    instead_of: str | None = None,
    why: Cause = DIED,
    outputs: Path | None = None,
) -> None:
    """End a task that nobody works on any more; one that has ended stays as it is."""
    lease = await store.take(task, owner, instead_of)
    written = False
    try:
        facts = await interrupting(store, lease.state, why)
        if facts:
            await store.append(lease, facts, last=True)
            written = True
            await make_whole(store, outputs, lease.state)
    finally:
        if not written:
            await store.release(lease)


async def interrupting(
    store: Store, task: Task, why: Cause, status: Status = Status.INTERRUPTED
) -> list[DurableFact]:
    """The facts that end a task which is leased here and that nobody works on any more."""
    transcript = transcript_of(await store.events(task.id))
    children = await store.tasks(TaskQuery(parent=task.id)) if unanswered(transcript) else []
    bounded = await bounded_above(store, task.id)
    return interruption(task, transcript, why, children, bounded=bounded, status=status)


async def _closed(store: Store, task: str, owner: str, instead_of: str | None, outputs: Path | None) -> None:
    why = LOST if instead_of is not None and fate(instead_of) == "unknown" else DIED
    try:
        await close_task(store, task, owner, instead_of, why, outputs)
    except GenCodeError as trouble:
        log.info("task %s could not be closed: %s", task, trouble)
