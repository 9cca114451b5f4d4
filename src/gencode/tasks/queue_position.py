"""In which order those begin who wait for their turn, as the journals tell it to any process."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from gencode.agent.work_queue import Caps, QueueEntry, caps_of, order_of_starts
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.journal.owner import QUEUE
from gencode.journal.store import Store, TaskQuery


async def queue_positions(store: Store, waiting: Collection[str], caps: Mapping[str, int]) -> dict[str, int]:
    """The places of tasks that wait for their turn in the queue of the process that will run them.

    Those that any worker may take have none: it goes by who is free and what fits. `caps` are the reader's;
    the process that runs them is taken to have the same.
    """
    owners = {held.task: held.owner for held in await store.owned()} if waiting else {}
    if all(owners.get(task) == QUEUE for task in waiting):
        return {}
    queues: dict[str, list[Task]] = {}
    for task in sorted(await store.tasks(TaskQuery(statuses=(Status.PENDING,))), key=_came):
        queues.setdefault(owners.get(task.id, ""), []).append(task)
    queues.pop(QUEUE, None)
    running = await store.tasks(TaskQuery(statuses=(Status.RUNNING,)))
    begun = await _begun(store, queues.values(), running)
    found: dict[str, int] = {}
    for owner, queue in queues.items():
        here = [task for task in running if owner in (owners.get(task.id), owners.get(task.parent or ""))]
        line = _in_line(queue, begun, caps)
        at_work = _at_work(here, queue, caps) if caps else ()
        order = order_of_starts([line], at_work, caps)
        found |= {each.task: place for place, each in enumerate(order, start=1)}
    return found


async def _begun(
    store: Store, queues: Iterable[Sequence[Task]], running: Sequence[Task]
) -> Mapping[str, str]:
    """When an agent of each parent began last; where all wait for the same parent, that says nothing."""
    parents = {task.parent for queue in queues if len({each.parent for each in queue}) > 1 for task in queue}
    asked = tuple(parent for parent in parents if parent)
    ended = await store.tasks(TaskQuery(parents=asked)) if asked else ()
    last: dict[str, str] = {}
    for task in (*ended, *running):
        last[task.parent or ""] = max(last.get(task.parent or "", ""), _began(task))
    return last


def _in_line(queue: Sequence[Task], begun: Mapping[str, str], caps: Mapping[str, int]) -> list[QueueEntry]:
    """Who waits, by the turns of their parents: a parent's is over when one of its own begins."""
    came: dict[str, str] = {}
    for task in queue:
        came.setdefault(task.parent or "", _came(task))
    turns = {parent: max(first, begun.get(parent, "")) for parent, first in came.items()}
    line = [
        QueueEntry(task.id, task.parent or "", _caps_of(task, caps), number)
        for number, task in enumerate(queue)
    ]
    return sorted(line, key=lambda each: turns[each.parent])


def _at_work(running: Sequence[Task], queue: Sequence[Task], caps: Mapping[str, int]) -> list[Caps]:
    """The caps of those who hold a slot, the first who began first; who waits for an agent holds none."""
    waited = {task.parent for task in (*running, *queue) if not task.terms.background}
    working = [task for task in running if not task.conversation and task.id not in waited]
    return [_caps_of(task, caps) for task in sorted(working, key=_began)]


def restart_order(task: Task) -> tuple[bool, str]:
    """A key that puts tasks that were cut in the order they had: who was at work, and then who waited."""
    waited = task.run.started_at is None or task.run.queued_at > task.run.handed
    return waited, _came(task)


def _came(task: Task) -> str:
    """Since when it waits."""
    return task.run.queued_at or task.created_at


def _began(task: Task) -> str:
    return task.run.handed or task.run.started_at or ""


def _caps_of(task: Task, caps: Mapping[str, int]) -> Caps:
    return caps_of(task.terms.model or task.created.asked_model, caps)
