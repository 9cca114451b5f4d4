"""Budgets of tasks and sessions in the ledger: which applies, how one is set. Seconds are in `deadline`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from gencode.budgets.ledger import BudgetSpent, Shortage
from gencode.budgets.limits import (
    COSTS_OF_A_CALL,
    NO_BUDGET,
    check_budget,
    in_numbers,
    in_units,
    limits_of,
    shares,
    tightest,
)
from gencode.core.budget import Budget
from gencode.core.ids import new_id
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.journal.store import Store
from gencode.tasks.deadline import seconds_left
from gencode.tasks.queries import current_budget, spent_by, tasks_above

GO_ON = "To raise it: gen task budget {task} {kind} N."
RAISE = "To raise that one: gen task budget {task} {kind} N."
MOST_WRITTEN = 1_000
"""For how many sessions it is known whether another process set another budget."""


class TaskBudgets:
    """The budgets of the conversations and tasks of one process.

    `account` is the account of this session in the ledger: it pays for work that belongs to no conversation.
    """

    def __init__(self, store: Store, budget: Budget, named: Budget) -> None:
        """`budget` limits all conversations here; its `named` part takes precedence over what one had."""
        self._store = store
        self.budget = budget
        self._named = named
        self._usual = _without(budget, named)
        self._set = False
        self._written: dict[str, Budget] = {}
        """The budgets of sessions when the named ones began to apply to them."""
        self.account = f"session-{new_id()}"
        self._limited = NO_BUDGET
        """The limits of this session's account in the ledger."""

    async def limit_session(self, budget: Budget) -> None:
        """Set the budget of conversations and all other work of this session; earlier costs count."""
        check_budget(budget)
        self.budget = budget
        self._set, self._usual = True, NO_BUDGET
        self._written.clear()
        await self.open_account()

    async def open_account(self) -> str:
        """The account of this session, with its limits set."""
        if self._limited != self.budget:
            await self._store.ledger.limit(self.account, self.budget)
            self._limited = self.budget
        return self.account

    async def current(self, task: Task) -> Budget:
        """The budget of a task now, whichever process set it."""
        return await current_budget(self._store, task)

    async def of_conversation(self, session: Task | None) -> Budget:
        """The budget of a conversation: of each kind the named one, else what it had, or the default.

        One that another process set after that takes precedence.
        """
        if session is None:
            return self.budget
        had = await self.current(session)
        if self._written.get(session.id, had) != had:
            return tightest(had, self._usual)
        if self._set:
            return self.budget
        kept = tightest(had, self.budget)
        kinds = ((name, getattr(self._named, name)) for name in kept.__struct_fields__)
        return replace(kept, **{name: amount for name, amount in kinds if amount is not None})

    def keep(self, session: str, budget: Budget) -> None:
        """Remember the budget of a conversation, until another process sets another one."""
        self._written.setdefault(session, budget)
        if len(self._written) > MOST_WRITTEN:
            del self._written[next(iter(self._written))]

    async def root_of(self, task: Task) -> Task:
        """The root of a task, or the task itself."""
        top = task
        async for above in tasks_above(self._store, task):
            top = above
        return top

    async def detached_budget(self, asked: Budget) -> Budget:
        """The budget of work without a conversation that outlives this session: at most what that has left.

        It counts as one agent itself. BudgetSpent if nothing is left.
        """
        if not shares(self.budget):
            return asked
        balance = await self._store.ledger.balance(await self.open_account())
        if balance is None:
            return asked
        for kind in (*COSTS_OF_A_CALL, "spawns"):
            limit, left = balance.account.limits.get(kind), balance.left.get(kind)
            if limit is not None and left is not None and left < 1:
                spent = balance.account.spent.get(kind, 0)
                raise BudgetSpent(Shortage(balance.account.id, kind, limit, spent, limit - spent))
        left = in_units(balance.left)
        return tightest(asked, left if left.spawns is None else replace(left, spawns=left.spawns - 1))

    async def check_not_spent(self, task: Task) -> None:
        """BudgetSpent, with how to raise it, for an ended task that has spent all of its own budget."""
        budget = await self.current(task)
        if not task.status.ended or budget == NO_BUDGET:
            return
        seconds_left(task, budget)
        spent = in_numbers(await spent_by(self._store, task.id)) if shares(budget) else {}
        for kind, limit in limits_of(budget).items():
            if limit is not None and kind in COSTS_OF_A_CALL and spent[kind] >= limit:
                agent = "" if task.conversation else task.agent
                short = Shortage(task.id, kind, limit, spent[kind], 0, agent=agent)
                raise BudgetSpent(short, GO_ON.format(task=task.id, kind=kind))

    async def limit(self, task: Task, budget: Budget) -> None:
        """Set the budget of a task at once; BudgetSpent, with how to raise it, if less is left above it."""
        try:
            await self._store.ledger.limit(task.id, budget)
        except BudgetSpent as spent:
            short = spent.shortage
            raise BudgetSpent(short, RAISE.format(task=short.account, kind=short.kind)) from None

    @asynccontextmanager
    async def with_advice(self) -> AsyncGenerator[None, None]:
        """Add which budget has to be raised, if one of a task lets nothing start."""
        try:
            yield
        except BudgetSpent as spent:
            if type(spent) is not BudgetSpent or spent.shortage.account == self.account:
                raise
            short = spent.shortage
            raise BudgetSpent(short, GO_ON.format(task=short.account, kind=short.kind)) from None


def _without(budget: Budget, named: Budget) -> Budget:
    """A budget without the kinds that are named."""
    kinds = {name: None for name in named.__struct_fields__ if getattr(named, name) is not None}
    return replace(budget, **kinds)
