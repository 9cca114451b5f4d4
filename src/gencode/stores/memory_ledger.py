"""The ledger in memory."""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from gencode.budgets.ledger import (
    Account,
    Balance,
    Granted,
    Hold,
    Verdict,
    Wait,
    account_of,
    again,
    balance_of,
    check_begins,
    check_limits,
    decide,
    goes_on,
    left_for,
    plus,
    with_hold,
)
from gencode.budgets.limits import Amounts, check_budget, cost_between, cost_of, lasting_seconds, limited
from gencode.core.budget import Budget
from gencode.core.task import Task


class MemoryLedger:
    """`Ledger` in dictionaries; it knows the tasks of the store, and what is above each."""

    def __init__(
        self,
        task: Callable[[str], Task | None],
        tasks: Callable[[], Iterable[Task]],
        path: Callable[[str], tuple[str, ...]],
        note: Callable[[], None],
    ) -> None:
        self._task = task
        self._tasks = tasks
        self._note = note
        self._path = path
        """The ids above a task, nearest first."""
        self._accounts: dict[str, Account] = {}
        self._holds: dict[str, Hold] = {}

    async def left(self, path: Sequence[str]) -> Amounts | None:
        """What is left for a call of the first on a path; None: nothing limits it."""
        if not any(each in self._accounts and self._accounts[each].limits for each in path):
            return None
        return left_for(self._accounts, path)

    async def hold(self, hold: Hold) -> Verdict:
        """Take a hold if the call may be made now."""
        self._drop(hold.task)
        verdict = decide(self._accounts, hold)
        if isinstance(verdict, Wait):
            holders = [each.task for each in self._holds.values() if verdict.account in each.path]
            return replace(verdict, holders=tuple(holders))
        if isinstance(verdict, Granted) and verdict.bounded:
            self._holds[hold.task] = hold
            for account in self._on(hold.path):
                self._accounts[account.id] = with_hold(account, hold.need)
        return verdict

    async def release(self, task: str) -> None:
        """Drop the hold of a task whose call was not made."""
        self._drop(task)

    async def limit(self, account: str, budget: Budget) -> None:
        """Set, raise or lower the budget of a task or a session."""
        check_budget(budget)
        known, limits = self._accounts.get(account) or self._new(account), limited(budget)
        check_limits(self._accounts, known, limits)
        self._accounts[account] = replace(known, limits=limits, seconds=lasting_seconds(budget))
        self._note()

    async def balance(self, account: str) -> Balance | None:
        """An account as it is now; None when the task has none."""
        known = self._accounts.get(account)
        return balance_of(self._accounts, known) if known is not None else None

    def created(self, state: Task, above: Sequence[str]) -> None:
        """Count a new task above it, and open its account; BudgetSpent when there is too little for it."""
        self.learn(above)
        account = account_of(state, above)
        check_begins(self._accounts, account, spawned=True)
        if account.limits:
            self._accounts[state.id] = account
        self._count(above, plus(cost_of(state), {"spawns": 1}))

    def check_appended(self, before: Task, after: Task, path: Sequence[str]) -> None:
        """BudgetSpent when these facts let a task go on for which too little is left."""
        if goes_on(before, after):
            self.learn(path)
            known = self._accounts.get(after.id)
            if known is None and limited(after.terms.budget):
                known = self._new(after.id)
            account = again(known, before, after, path[1:])
            check_begins(self._accounts, account, spawned=False)
            if account.limits:
                self._accounts[after.id] = account

    def appended(self, before: Task, after: Task, path: Sequence[str]) -> bool:
        """Settle what these facts cost, and close the account of a task that they end.

        Whether there is any account on the path.
        """
        accounts = self._on(path)
        if accounts:
            cost = cost_between(before, after)
            if cost or after.status.ended:
                self._drop(after.id)
                self._count(path, cost)
            if after.status.ended and after.id in self._accounts:
                self._accounts[after.id] = replace(self._accounts[after.id], open=False)
        self._note()
        return bool(accounts)

    def deleted(self, tasks: Iterable[str]) -> None:
        """Forget the accounts of tasks that are deleted; what they cost stays counted above."""
        for task in tasks:
            self._drop(task)
            self._accounts.pop(task, None)

    def learn(self, path: Iterable[str]) -> None:
        """Open accounts for tasks whose journals tell of a budget, and that have none yet."""
        for each in path:
            state = self._task(each)
            if state is not None and each not in self._accounts and (limits := limited(state.terms.budget)):
                self._accounts[each] = replace(self._new(each), limits=limits)

    async def recount(self) -> Sequence[str]:
        """Read from the journals what was spent; the accounts that had it wrong."""
        before = dict(self._accounts)
        self.count(before)
        now = self._accounts
        return [each for each, old in before.items() if any(plus(old.spent, now[each].spent, -1).values())]

    def count(self, accounts: Iterable[str]) -> None:
        """Read from the journals what was spent below these accounts."""
        for account in self._on(accounts):
            self._accounts[account.id] = replace(account, spent=self._new(account.id).spent)

    def _new(self, account: str) -> Account:
        """An account that has no limits yet, with all that was spent below it."""
        spent: Amounts = {}
        for each in self._tasks():
            if each.id == account or account in self._path(each.id):
                spent = plus(spent, plus(cost_of(each), {"spawns": int(each.id != account)}))
        state = self._task(account)
        new = account_of(state, self._path(account), spent) if state is not None else Account(account)
        new = replace(new, limits={}, spent=spent)
        for hold in self._holds.values():
            new = with_hold(new, hold.need) if account in hold.path else new
        return new

    def _on(self, path: Iterable[str]) -> list[Account]:
        return [self._accounts[each] for each in path if each in self._accounts]

    def _count(self, path: Iterable[str], cost: Amounts) -> None:
        for account in self._on(path) if cost else ():
            self._accounts[account.id] = replace(account, spent=plus(account.spent, cost))

    def _drop(self, task: str) -> None:
        hold = self._holds.pop(task, None)
        if hold is not None:
            for account in self._on(hold.path):
                self._accounts[account.id] = with_hold(account, hold.need, -1)
            self._note()
