"""What a commit of the journal changes in the ledger of the SQLite file, in the same transaction."""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache

from gencode.budgets.ledger import Account, account_of, goes_on, plus, settles
from gencode.budgets.limits import Amounts, cost_between, cost_of, limited
from gencode.core.task import Task
from gencode.stores.ledger_tables import Accounts, SpendingPath, amounts
from gencode.stores.sql_dialect import Statements, without_waiting

_SPEND = """
UPDATE gen_account SET spent_turns = spent_turns + ?, spent_tokens = spent_tokens + ?,
                       spent_usd = spent_usd + ?, spent_spawns = spent_spawns + ?
WHERE id = ?
"""
_ANY = "SELECT 1 FROM gen_account WHERE id = ?"
_CLOSE = "UPDATE gen_account SET open = 0 WHERE id = ?"


class CommitLedger:
    """The ledger inside of the open transaction of a write step; most tasks have no account on their path."""

    __slots__ = ("_accounts", "_cursor")

    def __init__(self, cursor: sqlite3.Cursor, statements: Statements) -> None:
        self._cursor = cursor
        self._accounts = Accounts(statements)

    def check_created(self, state: Task, session: str) -> SpendingPath:
        """The accounts of a new task; BudgetSpent when those above have too little left for it."""
        route = SpendingPath((state.id,), session)
        if state.parent is not None:
            above = without_waiting(self._accounts.route(state.parent))
            without_waiting(self._accounts.learn(above))
            route = SpendingPath((state.id, *above.tasks), above.session if above.tasks else session)
        if limited(state.terms.budget) or self._is_limited(route.path[1:]):
            without_waiting(self._accounts.check_created(state, route))
        return route

    def created(self, state: Task, route: SpendingPath) -> None:
        """Count a new task in the accounts above it, and open its own."""
        above = route.path[1:]
        if limited(state.terms.budget):
            without_waiting(self._accounts.put(account_of(state, above), route))
        if self._is_limited(above):
            self._spend(above, plus(cost_of(state), {"spawns": 1}))

    def adopted(self, task: str) -> None:
        """Count the cost of an imported task and of its descendants."""
        route = without_waiting(self._accounts.route(task))
        if self._is_limited(route.path):
            without_waiting(self._accounts.recount(route.path))

    def check_appended(self, before: Task, after: Task) -> tuple[Account, SpendingPath] | None:
        """The account, if any, of a task that these facts resume; BudgetSpent when too little is left."""
        if not goes_on(before, after):
            return None
        route = without_waiting(self._accounts.route(after.id))
        account = without_waiting(self._accounts.check_resumed(before, after, route))
        return account and (account, route)

    def appended(
        self, before: Task, after: Task, path: Sequence[str], opened: tuple[Account, SpendingPath] | None
    ) -> bool:
        """Settle what facts cost; the account of their task is `opened`, or closed where they end it.

        Returns whether there is any account on the path.
        """
        if opened is not None:
            without_waiting(self._accounts.put(*opened))
        if not self._is_limited(path):
            return False
        if settles(before, after):
            without_waiting(self._accounts.drop(after.id))
            self._spend(path, cost_between(before, after))
        if after.status.ended:
            self._cursor.execute(_CLOSE, (after.id,))
        return True

    def deleted(self, tasks: Sequence[str]) -> None:
        """Delete the accounts of tasks; accounts above keep what they cost."""
        without_waiting(self._accounts.delete(tasks))

    def taken(self, task: str, session: str | None) -> tuple[str, ...]:
        """The path of a task that was leased just now; it moves to `session` if one is named."""
        route = without_waiting(self._accounts.route(task))
        if session is not None and session != route.session:
            route = without_waiting(self._accounts.move(route, session))
        without_waiting(self._accounts.learn(route))
        return route.path

    def _is_limited(self, path: Sequence[str]) -> bool:
        """Whether there is any account on a path; asked with every append, and usually there is none."""
        # All rows are fetched: a statement with some left would keep its transaction open.
        return bool(path) and bool(self._cursor.execute(_any_of(len(path)), path).fetchall())

    def _spend(self, path: Iterable[str], cost: Amounts) -> None:
        if cost:
            spent = amounts(cost)
            self._cursor.executemany(_SPEND, [(*spent, each) for each in path])


@lru_cache
def _any_of(count: int) -> str:
    """One SELECT for each id: for `IN` SQLite would build a temporary table."""
    return " UNION ALL ".join([_ANY] * count)
