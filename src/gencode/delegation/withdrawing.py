"""A task of workers is called off: whoever is at it is asked, and without one it ends here (delegation)."""

import logging

from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.events import DurableFact, TaskEnded, TaskStarted
from gencode.core.status import Status
from gencode.delegation.orphans import close_task, interrupting
from gencode.runtime.fleet import Dispatching
from gencode.runtime.owner import new_owner
from gencode.runtime.ports import Lease, Store, Wish

log = logging.getLogger(__name__)

MOST_TRIES = 5
"""So often it may be taken and left just when it is called off."""


async def call_off(store: Store, task: str, owner: str, why: str) -> None:
    """Stop a task wherever it is: whoever is at it is asked, and one that nobody is at ends at once."""
    for _ in range(MOST_TRIES):
        if await store.ask(task, Wish.STOP) or await _withdrawn(store, task, owner, why):
            return


async def give_up(store: Store, task: str, why: str) -> bool:
    """End a task as timed out that no worker could take; False when one has it by now, or had it since."""
    if not isinstance(store, Dispatching):
        return False
    try:
        # Nobody renews this one's leases, so that the task is free soon when the database goes away now.
        lease = await store.take(task, new_owner())
        found = await store.dispatched(task)
        if found is None or found.order is None:
            await store.release(lease)
            return False
        await store.append(lease, await _out_of_time(store, lease, why), last=True)
    except GenCodeError as trouble:
        log.info("task %s is waited for yet: %s", task, trouble)
        return False
    return True


async def _out_of_time(store: Store, lease: Lease, why: str) -> list[DurableFact]:
    """The last facts of a task: not begun yet, cut where it was, or to go on and not begun again."""
    now = lease.state
    if now.status is Status.RUNNING:
        return await interrupting(store, now, why, Status.TIMED_OUT)
    begun: list[DurableFact] = [TaskStarted()] if now.status.ended else []
    return [*begun, TaskEnded(Status.TIMED_OUT, now.result, why)]


async def _withdrawn(store: Store, task: str, owner: str, why: str) -> bool:
    """End a task that nobody has taken, or that nobody is at any more; False when somebody has it by now."""
    try:
        lease = await store.take(task, owner)
    except UserMistake:
        return False
    if lease.state.status is Status.PENDING:
        await store.append(lease, [TaskEnded(Status.CANCELLED, error=why)], last=True)
        return True
    await store.release(lease)
    if not lease.state.status.ended:
        await close_task(store, task, owner, why=why)
    return True
