"""A task of workers is called off: whoever is at it is asked, and without one it ends here (delegation)."""

import logging

from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.events import DurableFact, MessageAdded, TaskEnded, TaskStarted
from gencode.core.messages import UserMessage
from gencode.core.reasons import Cause, EndReason
from gencode.core.status import Status
from gencode.core.task import Task, replay, transcript_of
from gencode.delegation.orphans import close_task, interrupting
from gencode.runtime.fleet import Dispatch, Dispatching
from gencode.runtime.owner import new_owner
from gencode.runtime.ports import Lease, Store, Wish

log = logging.getLogger(__name__)

MOST_TRIES = 5
"""So often it may be taken and left just when it is called off."""
GO_ON = ". To go on with it after that: gen task resume {task} 'go on'"


async def call_off(store: Store, task: str, owner: str, why: Cause) -> None:
    """Stop a task wherever it is: whoever is at it is asked, and one that nobody is at ends at once."""
    for _ in range(MOST_TRIES):
        if await store.ask(task, Wish.STOP) or await _withdrawn(store, task, owner, why):
            return


async def give_up(store: Store, task: str, why: str) -> bool:
    """End a task as timed out that no worker could take; False when one has it by now, or had it since."""
    if not isinstance(store, Dispatching):
        return False
    try:
        # All is read before: each time that it is taken counts as one that brought a worker down.
        now, found = replay(await store.events(task)), await store.dispatched(task)
        if now is None or found is None or found.order is None:
            return False
        cause = Cause(EndReason.NO_WORKER, why + GO_ON.format(task=task))
        last = await _out_of_time(store, now, found.prompt, cause)
        # Nobody renews this one's leases, so that the task is free soon when the database goes away now.
        return await _written(store, await store.take(task, new_owner()), now, last)
    except GenCodeError as trouble:
        log.info("task %s is waited for yet: %s", task, trouble)
        return False


async def time_out(store: Store, task: str, why: Cause) -> None:
    """End a task as timed out in the place of a process that hangs; after that it can write nothing more."""
    held = next((each.owner for each in await store.owned() if each.task == task), None)
    lease, last = await store.take(task, new_owner(), held), list[DurableFact]()
    try:
        last = await interrupting(store, lease.state, why, Status.TIMED_OUT)
    finally:
        await _written(store, lease, lease.state, last)


async def _written(store: Store, lease: Lease, seen: Task, last: list[DurableFact]) -> bool:
    """Write the last facts of a task, unless something was written since it was `seen`; it is free then."""
    written = False
    try:
        if last and lease.state.seq == seen.seq:
            await store.append(lease, last, last=True)
            written = True
    finally:
        if not written:
            await store.release(lease)
    return written


async def _out_of_time(store: Store, now: Task, prompt: str, why: Cause) -> list[DurableFact]:
    """The last facts of a task: not begun yet, cut where it was, or to go on and not begun again."""
    if now.status is Status.RUNNING:
        return await interrupting(store, now, why, Status.TIMED_OUT)
    return [*await not_begun(store, now, prompt), _end(Status.TIMED_OUT, now, why)]


def _end(status: Status, now: Task, why: Cause) -> TaskEnded:
    return TaskEnded(status, now.report, str(why), changes=now.changes, reason=why.reason)


async def not_begun(store: Store, task: Task, prompt: str) -> list[DurableFact]:
    """The facts before the end of a run that nobody began with: what it was told is heard when it goes on.

    Of a first run that is known anyway, and letters are kept until they are heard.
    """
    if not task.status.ended:
        return []
    if not prompt.strip():
        return [TaskStarted()]
    earlier = transcript_of(await store.events(task.id))
    said = [prompt] if earlier or not task.prompt else [task.prompt, prompt]
    return [TaskStarted(), *(MessageAdded(UserMessage(each)) for each in said)]


async def _withdrawn(store: Store, task: str, owner: str, why: Cause) -> bool:
    """End a task that nobody has taken, or that nobody is at any more; False when somebody has it by now."""
    try:
        lease = await store.take(task, owner)
    except UserMistake:
        return False
    written = False
    try:
        if facts := await _called_off(store, lease.state, why):
            await store.append(lease, facts, last=True)
            written = True
    finally:
        if not written:
            await store.release(lease)
    if lease.state.status is Status.RUNNING:
        await close_task(store, task, owner, why=why)
    return True


async def _called_off(store: Store, now: Task, why: Cause) -> list[DurableFact]:
    """The last facts of a task that nobody has begun with; none where there is nothing to call off."""
    if now.status is Status.PENDING:
        return [_end(Status.CANCELLED, now, why)]
    found = await _queued(store, now.id) if now.status.ended else None
    if found is None:
        return []
    return [*await not_begun(store, now, found.prompt), _end(Status.CANCELLED, now, why)]


async def _queued(store: Store, task: str) -> Dispatch | None:
    """What is known of a task that workers are to begin with."""
    found = await store.dispatched(task) if isinstance(store, Dispatching) else None
    return found if found and found.order is not None else None
