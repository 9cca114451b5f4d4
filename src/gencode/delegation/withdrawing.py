"""A task of workers is called off: whoever is at it is asked, and without one it ends here (delegation)."""

from gencode.core.errors import UserMistake
from gencode.core.events import TaskEnded
from gencode.core.status import Status
from gencode.delegation.orphans import close_task
from gencode.runtime.ports import Store, Wish

MOST_TRIES = 5
"""So often it may be taken and left just when it is called off."""


async def call_off(store: Store, task: str, owner: str, why: str) -> None:
    """Stop a task wherever it is: whoever is at it is asked, and one that nobody is at ends at once."""
    for _ in range(MOST_TRIES):
        if await store.ask(task, Wish.STOP) or await _withdrawn(store, task, owner, why):
            return


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
