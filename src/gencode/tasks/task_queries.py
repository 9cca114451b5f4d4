"""Queries over the tree of tasks: what is above a task, what is below it, and what that has cost."""

from collections.abc import AsyncGenerator, Sequence

from msgspec.structs import replace

from gencode.budgets.limits import Spent, shares
from gencode.core.budget import Budget
from gencode.core.messages import Usage
from gencode.core.task import Task
from gencode.journal.store import Store, TaskQuery
from gencode.tasks.deadline import worked_seconds


async def spent_by(store: Store, task: str) -> Spent:
    """What a task and everything below it have cost so far."""
    found = await store.task(task)
    if found is None:
        return total_spent(await below(store, task))
    return replace(total_spent([found, *await below(store, task)]), seconds=worked_seconds(found))


async def current_budget(store: Store, task: Task) -> Budget:
    """What a task may spend at this moment, in whatever process that was set."""
    balance = await store.ledger.balance(task.id)
    own = task.terms.budget
    return own if balance is None else replace(balance.budget, seconds=balance.seconds(own.seconds))


async def is_bounded(store: Store, task: Task) -> bool:
    """Whether a budget pays for a task: its own, or one above it."""
    path = [task.id, *[each.id async for each in tasks_above(store, task)]]
    if await store.ledger.left(path) is not None:
        return True
    return shares(task.terms.budget) or any(
        [shares(each.terms.budget) async for each in tasks_above(store, task)]
    )


async def tasks_above(store: Store, task: Task) -> AsyncGenerator[Task, None]:
    """The tasks above one, the nearest first; what was imported may go round in circles."""
    passed = {task.id}
    parent = task.parent
    while parent is not None and parent not in passed:
        passed.add(parent)
        found = await store.task(parent)
        if found is None:
            return
        yield found
        parent = found.parent


async def accounts_above(store: Store, parent: str | None, account: str) -> tuple[str, ...]:
    """The accounts that pay for work below a task: that one's, those above it, and that of a session."""
    path: list[str] = []
    found = await store.task(parent) if parent is not None else None
    if found is not None:
        path = [found.id, *[each.id async for each in tasks_above(store, found)]]
    return (*path, account) if account else tuple(path)


async def below(store: Store, task: str) -> list[Task]:
    """Everything below a task, each after the one that sent it."""
    family: dict[str, Task] = {}
    above = [task]
    while above:
        found = await store.tasks(TaskQuery(parents=tuple(above)))
        fresh = {each.id: each for each in found if each.id not in family and each.id != task}
        family |= fresh
        above = [*fresh]
    return [*family.values()]


def total_spent(family: Sequence[Task]) -> Spent:
    """What a task and those below it have cost, of which it is one."""
    usage = sum((each.totals.usage for each in family), start=Usage())
    return Spent(
        turns=sum(each.totals.turns for each in family),
        tokens=usage.input_tokens + usage.output_tokens,
        usd=usage.usd or 0.0,
        spawns=max(len(family) - 1, 0),
    )
