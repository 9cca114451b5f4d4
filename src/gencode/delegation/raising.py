"""Another budget for one task at rest: in its journal, never more than is left above it (delegation)."""

from typing import Protocol

from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.events import BudgetSet
from gencode.core.task import Task
from gencode.delegation.accounts import NO_BUDGET, bound, spent_by, tasks_above
from gencode.delegation.deadline import seconds_left
from gencode.delegation.portions import Borrow
from gencode.delegation.slices import set_aside_below
from gencode.runtime.amounts import check_budget, in_numbers, limits_of
from gencode.runtime.ports import Store
from gencode.runtime.purse import BudgetSpent, Purse


class Purses(Protocol):
    """Knows what is spent from in this process."""

    def budget_of(self, session: Task | None) -> Budget:
        """What a conversation may spend."""
        ...

    async def check_heard(self, task: Task, budget: Budget) -> None:
        """UserMistake where those below a task who are at work elsewhere would exceed its new budget."""
        ...

    async def bind(self, task: Task, budget: Budget) -> None:
        """Bound those at work here below a task at rest by the budget that it has from now on."""
        ...


async def set_budget(store: Store, borrow: Borrow, task: Task, budget: Budget, purses: Purses) -> None:
    """Let a task spend so much from now on, in all its lives; UserMistake when less is left above it.

    What others at work have of it is not left. It only bounds: what a task at rest may spend is set aside
    for it when it goes on, so nobody above has to be leased for this. Those below it who are at work in this
    process are bounded at once.
    """
    check_budget(budget)
    spent = in_numbers(await spent_by(store, task.id))
    asked = {
        kind: limit - spent[kind]
        for kind, limit in limits_of(budget).items()
        if limit is not None and limit > spent[kind]
    }
    async for above in tasks_above(store, task):
        limits = purses.budget_of(above) if above.conversation else above.budget
        if not asked or limits == NO_BUDGET:
            continue
        owner = "the session" if above.conversation else f"agent {above.agent}"
        purse = Purse(owner, limits, None, await spent_by(store, above.id))
        purse.set_aside(await set_aside_below(store, above))
        for kind, amount in asked.items():
            if short := purse.accounts[kind].short_of(amount):
                way = f"To raise that one: gen task budget {above.id} {kind} N."
                raise UserMistake(f"{short.too_little_words(amount, 0)} {way}")
    async with borrow(task.id) as lease:
        await purses.check_heard(lease.state, budget)
        await store.append(lease, [BudgetSet(budget)])
        await purses.bind(lease.state, budget)


async def check_own(store: Store, task: Task) -> None:
    """UserMistake with the way out when a task that has ended has spent all of its own budget."""
    if not task.status.ended or task.budget == NO_BUDGET:
        return
    seconds_left(task, task.budget)
    try:
        bound(None, task.agent, task.budget, await spent_by(store, task.id))
    except BudgetSpent as spent:
        raise UserMistake(
            f"{spent} A bigger one lets it go on: gen task budget {task.id} {spent.kind} N."
        ) from None
