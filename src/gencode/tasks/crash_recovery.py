"""Crash recovery: ends tasks whose process died or hangs, and tasks that nobody began.

Every such end is written here, under a lease, so that only one of several processes writes it: the
interrupted calls get results, and the task can be resumed. The subagents it waited for may continue in
another process or on another machine. The result of the interrupted call names them, and their results are
delivered later, like those of background tasks.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from gencode.agent.call_budget import USUAL_TOKEN, taken
from gencode.agent.output_files import is_whole, rewrite
from gencode.agent.tool_calls import interrupted
from gencode.core.errors import CorruptFact, GenCodeError, UserMistake
from gencode.core.events import (
    CallDecided,
    CostEstimated,
    DurableFact,
    Event,
    MessageAdded,
    TaskEnded,
    TaskStarted,
)
from gencode.core.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    ToolResult,
    Trace,
    Usage,
    UserMessage,
    unanswered,
)
from gencode.core.outcome import output_file
from gencode.core.rules import Action
from gencode.core.status import DIED, LOST, EndReason, Status, StopCause
from gencode.core.structs import replace
from gencode.core.task import Task, replay, transcript_of
from gencode.journal.dispatch import SharedJournal
from gencode.journal.owner import new_owner, owner_state
from gencode.journal.store import Lease, Store, TaskQuery, TaskSignal
from gencode.tasks import process_engine
from gencode.tasks.liveness import FolderLiveness, HungProcess, is_abandoned, ownership_of

log = logging.getLogger(__name__)
MOST_TRIES = 5
"""How often a task may be taken and released just when it is stopped."""
GO_ON = ". To resume it later: gen task resume {task} 'go on'"


async def close_orphans(store: Store, owner: str, outputs: Path | None = None) -> None:
    """End every task that has not ended and whose owner is dead, gone, or silent on another machine."""
    for held in await store.owned():
        if is_abandoned(held):
            await _close_orphan(store, held.task, owner, held.owner or None, outputs)


async def close_if_orphan(
    store: Store, task: str, owner: str, outputs: Path | None = None, why: StopCause | None = None
) -> None:
    """End this task if nobody runs it any more: its owner died, or released it without an end.

    The default cause is what is known of its owner.
    """
    held = await ownership_of(store, task)
    if held is not None and not is_abandoned(held):
        return
    found = await store.task(task)  # it may have ended while its owner was checked
    if found is not None and not found.status.ended:
        await _close_orphan(store, task, owner, held.owner if held else None, outputs, why)


async def _close_orphan(
    store: Store,
    task: str,
    owner: str,
    before: str | None,
    outputs: Path | None,
    why: StopCause | None = None,
) -> None:
    why = why or (LOST if before is not None and owner_state(before) == "unknown" else DIED)
    try:
        await close_task(store, task, owner, before, why, outputs=outputs)
    except GenCodeError as trouble:
        log.info("task %s could not be closed: %s", task, trouble)


async def close_task(
    store: Store,
    task: str,
    owner: str,
    instead_of: str | None = None,
    why: StopCause = DIED,
    status: Status = Status.INTERRUPTED,
    outputs: Path | None = None,
) -> None:
    """End a task in place of its owner; one that has ended stays as it is."""
    lease = await store.take(task, owner, instead_of)
    await close_leased(store, lease, why, status, outputs=outputs)


async def close_leased(
    store: Store,
    lease: Lease,
    why: StopCause,
    status: Status,
    *,
    prompt: str | None = None,
    outputs: Path | None = None,
) -> None:
    """End a task under this lease, and release it.

    `prompt` is the new prompt of an earlier task that waits in the queue.
    """
    facts: list[DurableFact] = []
    try:
        facts = await ending_facts(store, lease.state, why, status, prompt)
    finally:
        await _written(store, lease, facts)
    if facts:
        await restore_output_file(store, outputs, lease.state)


async def time_out(store: Store, task: str, why: StopCause) -> None:
    """Time out a task in place of a process that hangs, which can write nothing after that."""
    held = await ownership_of(store, task)
    await close_task(store, task, new_owner(), held.owner if held else None, why, Status.TIMED_OUT)


async def close_hung_process(store: Store, hanging: HungProcess) -> None:
    """Time out the tasks of a process that hangs, and kill it; it can write nothing after that."""
    for task, why in hanging.tasks.items():
        await close_task(store, task, new_owner(), hanging.owner, why, Status.TIMED_OUT)
    await process_engine.kill_task_process(hanging.owner)


async def recover_folder(store: Store, liveness: FolderLiveness) -> None:
    """Close the tasks of a folder whose processes hang, repeatedly until cancelled."""
    while True:
        await asyncio.sleep(liveness.seconds)
        try:
            for hanging in await liveness.look():
                await close_hung_process(store, hanging)
        except GenCodeError as trouble:
            log.info("whether tasks of other processes hang is not known: %s", trouble)


async def stop_anywhere(store: Store, task: str, owner: str, why: StopCause) -> None:
    """Stop a task wherever it is: through its process, or by ending it here if it has none."""
    for _ in range(MOST_TRIES):
        if await store.send_signal(task, TaskSignal.STOP) or await _cancelled(store, task, owner, why):
            return


async def _cancelled(store: Store, task: str, owner: str, why: StopCause) -> bool:
    """End a task that nobody has taken, or that nobody runs any more; False if a process has it by now."""
    try:
        lease = await store.take(task, owner)
    except UserMistake:
        return False
    status = Status.INTERRUPTED if lease.state.status is Status.RUNNING else Status.CANCELLED
    prompt: str | None = None
    known = False
    try:
        prompt = await _queued_prompt(store, task) if lease.state.status.ended else None
        known = True
    finally:
        if not known:
            await store.release(lease)
    await close_leased(store, lease, why, status, prompt=prompt)
    return True


async def _queued_prompt(store: Store, task: str) -> str | None:
    """The prompt with which workers are to resume a task; None if it is not in their queue."""
    found = await store.dispatched(task) if isinstance(store, SharedJournal) else None
    return found.prompt if found and found.order is not None else None


async def close_unclaimed(store: Store, task: str, why: str) -> bool:
    """Time out a task that no worker could take; False if one has it by now, or had it since."""
    if not isinstance(store, SharedJournal):
        return False
    try:
        # Everything is read first: every take counts as one that made a worker crash.
        now, found = replay(await store.events(task)), await store.dispatched(task)
        if now is None or found is None or found.order is None:
            return False
        cause = StopCause(EndReason.NO_WORKER, why + GO_ON.format(task=task))
        last = await ending_facts(store, now, cause, Status.TIMED_OUT, found.prompt)
        # This owner's leases are not renewed, so the task is soon free if the database is unavailable now.
        lease = await store.take(task, new_owner())
        return await _written(store, lease, last if lease.state.seq == now.seq else [])
    except GenCodeError as trouble:
        log.info("task %s is waited for yet: %s", task, trouble)
        return False


async def _written(store: Store, lease: Lease, last: list[DurableFact]) -> bool:
    """Write the last events of a leased task, if there are any, and release it; whether any were written."""
    written = False
    try:
        if last:
            await store.append(lease, last, last=True)
            written = True
    finally:
        if not written:
            await store.release(lease)
    return written


async def ending_facts(
    store: Store, task: Task, why: StopCause, status: Status, prompt: str | None = None
) -> list[DurableFact]:
    """The events that end a task: never begun, interrupted, or waiting to be resumed with a `prompt`.

    None for a task that has ended.
    """
    if task.status.ended:
        return [] if prompt is None else [*await _begun_with(store, task, prompt), _end(task, status, why)]
    events = await store.events(task.id)
    children = await store.tasks(TaskQuery(parent=task.id)) if unanswered(transcript_of(events)) else []
    in_flight = await store.ledger.holds(task.id)
    return interruption(task, events, why, children, in_flight=in_flight, status=status)


async def _begun_with(store: Store, task: Task, prompt: str) -> list[DurableFact]:
    """The events of a run that never began: its prompt is read when the task is resumed.

    Posted messages are kept in any case.
    """
    if not prompt.strip():
        return [TaskStarted()]
    earlier = transcript_of(await store.events(task.id))
    said = [prompt] if earlier or not task.created.prompt else [task.created.prompt, prompt]
    return [TaskStarted(), *(MessageAdded(UserMessage(each)) for each in said)]


def _end(task: Task, status: Status, why: StopCause) -> TaskEnded:
    return TaskEnded(status, task.report.text, str(why), changes=task.report.changes, reason=why.reason)


def interruption(
    task: Task,
    events: Sequence[Event],
    why: StopCause = DIED,
    children: Sequence[Task] = (),
    *,
    in_flight: bool,
    status: Status = Status.INTERRUPTED,
) -> list[DurableFact]:
    """The events that end a task whose process died: results for its interrupted calls, then its end.

    A model call `in_flight` has a cost: if a budget pays for it, it has a hold there.
    """
    if task.status.ended:
        return []
    transcript = transcript_of(events)
    open_calls = unanswered(transcript)
    if not open_calls:
        return [*(_lost_call(task, transcript) if in_flight else ()), _end(task, status, why)]
    answers = interrupted(open_calls, str(why), unapproved=_unapproved(events)).results
    named = [_naming(task, *each, children) for each in zip(open_calls, answers, strict=True)]
    return [MessageAdded(ToolMessage(tuple(named))), _end(task, status, why)]


def _unapproved(events: Sequence[Event]) -> set[str]:
    """The calls that never began: their approval would be in the journal."""
    last = {
        each.fact.call: each.fact.decision.action for each in events if isinstance(each.fact, CallDecided)
    }
    return {call for call, action in last.items() if action is Action.ASK}


def _lost_call(task: Task, transcript: Sequence[Message]) -> list[DurableFact]:
    """The estimated cost of a model call whose reply was lost; nothing if there was none."""
    told = task.totals.usage.input_tokens + task.totals.usage.output_tokens
    silent = task.totals.turns > 0 and not told  # it costs nothing, or an unknown amount
    waits = task.status is Status.PENDING  # in the queue, with its next messages already written
    if waits or silent or not transcript or isinstance(transcript[-1], AssistantMessage):
        return []
    tokens = taken(transcript, len(task.terms.system) // USUAL_TOKEN)
    usd = None if task.totals.usage.usd is None else task.totals.usage.usd * tokens / max(told, 1)
    return [CostEstimated(Usage(tokens, usd=usd))]


def _naming(task: Task, call: ToolCall, answer: ToolResult, children: Sequence[Task]) -> ToolResult:
    """The result of an interrupted call, with its subagents that have no result yet."""
    heard = {*task.evidence.children, *task.delivered.left}
    again = call.input.get("resume")
    sent = [
        each
        for each in children
        if (each.created.call == call.id and each.id not in heard) or each.id == again
    ]
    if not sent:
        return answer
    said = [f"Task {each.id} ({each.agent}) {_far(each)}" for each in sent]
    left = Trace(left=tuple(each.id for each in sent))
    return replace(answer, text="\n".join((answer.text, *said)), trace=left)


def _far(task: Task) -> str:
    if task.status.ended:
        return f"has ended ({task.status}). Its result is delivered separately."
    return "had not ended. Its result is delivered when it ends."


async def restore_output_file(store: Store, outputs: Path | None, task: Task) -> None:
    """Complete the output file of a background task that has ended; the journal is authoritative."""
    if outputs is None or not task.terms.background or not task.status.ended:
        return
    path = output_file(outputs, task.id)
    if is_whole(path, task):
        return
    try:
        events = await store.events(task.id)
    except CorruptFact as corrupt:
        events = [event for event in corrupt.before if isinstance(event, Event)]
    try:
        rewrite(path, events)
    except OSError as error:
        log.info("%s could not be written: %s", path, error.strerror)
