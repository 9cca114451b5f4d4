"""Queries over stored tasks: events, ancestors and descendants, costs, and positions in the queue."""

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from gencode.agent.work_queue import Caps, QueueEntry, caps_of, order_of_starts
from gencode.budgets.limits import Spent
from gencode.core.budget import Budget
from gencode.core.errors import CorruptFact
from gencode.core.events import Event
from gencode.core.messages import Usage
from gencode.core.status import Status
from gencode.core.structs import replace
from gencode.core.task import RunEnd, Task, TaskReport
from gencode.journal.dispatch import SharedJournal
from gencode.journal.owner import QUEUE
from gencode.journal.store import Store, TaskQuery
from gencode.tasks.deadline import worked_seconds


async def readable_events(store: Store, task: str, after: int = 0) -> tuple[list[Event], CorruptFact | None]:
    """The events of a task as far as they can be read, and what is wrong with the next one."""
    try:
        return await store.events(task, after), None
    except CorruptFact as corrupt:
        return [event for event in corrupt.before if isinstance(event, Event)], corrupt


async def with_woken_as_pending(store: Store, tasks: Sequence[Task]) -> list[Task]:
    """Tasks with those that were resumed as pending, until a worker begins with them.

    Until then the last event in the journal is the earlier end, and the earlier result does not answer the
    new prompt.
    """
    ended = [task.id for task in tasks if task.status.ended and not task.conversation]
    if not ended or not isinstance(store, SharedJournal):
        return [*tasks]
    woken = {*ended} - await store.over(ended)
    waits = partial(replace, status=Status.PENDING, report=TaskReport(), end=RunEnd())
    return [waits(task) if task.id in woken else task for task in tasks]


async def tasks_above(
    store: Store, task: Task, known: Mapping[str, Task] = MappingProxyType({})
) -> AsyncGenerator[Task, None]:
    """The ancestors of a task, the nearest first; imported tasks may have a circular ancestry.

    Those in `known` are not read.
    """
    passed = {task.id}
    parent = task.parent
    while parent is not None and parent not in passed:
        passed.add(parent)
        found = known.get(parent) or await store.task(parent)
        if found is None:
            return
        yield found
        parent = found.parent


async def accounts_above(store: Store, parent: str | None, account: str) -> tuple[str, ...]:
    """The accounts that pay for subagents of a task: its own, its ancestors', and that of a session."""
    path: list[str] = []
    found = await store.task(parent) if parent is not None else None
    if found is not None:
        path = [found.id, *[each.id async for each in tasks_above(store, found)]]
    return (*path, account) if account else tuple(path)


async def descendants(store: Store, task: str) -> list[Task]:
    """All descendants of a task, each after its parent."""
    family: dict[str, Task] = {}
    above = [task]
    while above:
        found = await store.tasks(TaskQuery(parents=tuple(above)))
        fresh = {each.id: each for each in found if each.id not in family and each.id != task}
        family |= fresh
        above = [*fresh]
    return [*family.values()]


async def current_budget(store: Store, task: Task) -> Budget:
    """The budget of a task at this moment, whichever process set it."""
    balance = await store.ledger.balance(task.id)
    own = task.terms.budget
    return own if balance is None else replace(balance.budget, seconds=balance.seconds(own.seconds))


async def spent_by(store: Store, task: str) -> Spent:
    """The cost of a task with its subagents so far."""
    found = await store.task(task)
    if found is None:
        return total_spent(await descendants(store, task))
    return replace(total_spent([found, *await descendants(store, task)]), seconds=worked_seconds(found))


def total_spent(family: Sequence[Task]) -> Spent:
    """The cost of a task with its subagents, all in `family`."""
    usage = sum((each.totals.usage for each in family), start=Usage())
    return Spent(
        turns=sum(each.totals.turns for each in family),
        tokens=usage.input_tokens + usage.output_tokens,
        usd=usage.usd or 0.0,
        spawns=max(len(family) - 1, 0),
    )


async def queue_positions(store: Store, waiting: Collection[str], caps: Mapping[str, int]) -> dict[str, int]:
    """The positions of waiting tasks in the queue of the process that will run them.

    Tasks that any worker may take have none: that depends on free and suitable workers. `caps` are the
    reader's; those of the process that runs them are assumed to be the same.
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


def restart_order(task: Task) -> tuple[bool, str]:
    """A sort key for interrupted tasks: first those that ran, then those in the queue."""
    waited = task.run.started_at is None or task.run.queued_at > task.run.handed
    return waited, _came(task)


async def _begun(
    store: Store, queues: Iterable[Sequence[Task]], running: Sequence[Task]
) -> Mapping[str, str]:
    """When an agent of each parent began last; not needed if all wait for the same parent."""
    parents = {task.parent for queue in queues if len({each.parent for each in queue}) > 1 for task in queue}
    asked = tuple(parent for parent in parents if parent)
    ended = await store.tasks(TaskQuery(parents=asked)) if asked else ()
    last: dict[str, str] = {}
    for task in (*ended, *running):
        last[task.parent or ""] = max(last.get(task.parent or "", ""), _began(task))
    return last


def _in_line(queue: Sequence[Task], begun: Mapping[str, str], caps: Mapping[str, int]) -> list[QueueEntry]:
    """The queue with the turns of parents: a parent's turn is over when one of its subagents begins."""
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
    """The caps of the tasks that hold a slot, in order of their start; a waiting parent holds none."""
    waited = {task.parent for task in (*running, *queue) if not task.terms.background}
    working = [task for task in running if not task.conversation and task.id not in waited]
    return [_caps_of(task, caps) for task in sorted(working, key=_began)]


def _came(task: Task) -> str:
    """When it began to wait."""
    return task.run.queued_at or task.created_at


def _began(task: Task) -> str:
    return task.run.handed or task.run.started_at or ""


def _caps_of(task: Task, caps: Mapping[str, int]) -> Caps:
    return caps_of(task.terms.model or task.created.asked_model, caps)
