"""The ledger in the SQLite file.

What a commit of the journal changes in it is written in the same transaction: the steps have the `Accounts`.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence

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
    settles,
    with_hold,
)
from gencode.budgets.limits import Amounts, check_budget, cost_between, cost_of, lasting_seconds, limited
from gencode.core.budget import Budget
from gencode.core.ids import stamp
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.stores.group_commit import FunctionStep, GroupCommit, WriteStep, patiently
from gencode.stores.journal_rules import lease_lost
from gencode.stores.ledger_rows import CALL, SpendingPath, account_from, amounts, need_of, values_of
from gencode.stores.sqlite_schema import PlainErrors

Reads = Callable[[sqlite3.Connection, str], Task | None]
"""Reads a task, as far as its facts can be read."""

_ACCOUNTS = """
SELECT id, path, agent, open, calls, limit_turns, limit_tokens, limit_usd, limit_spawns,
       spent_turns, spent_tokens, spent_usd, spent_spawns, held_turns, held_tokens, held_usd,
       seconds, top, session
FROM gen_account
"""
_ACCOUNT = f"{_ACCOUNTS} WHERE id = ?"
_OF_TREE = f"{_ACCOUNTS} WHERE top = ?"
_OPEN_OF_TREE = f"{_OF_TREE} AND open = 1"
_OPEN_OF_SESSION = f"{_ACCOUNTS} WHERE open = 1 AND session <> '' AND session = ?"
_PUT = """
INSERT OR REPLACE INTO gen_account (
       id, path, agent, open, calls, limit_turns, limit_tokens, limit_usd, limit_spawns,
       spent_turns, spent_tokens, spent_usd, spent_spawns, held_turns, held_tokens, held_usd,
       seconds, top, session)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_SPEND = """
UPDATE gen_account SET spent_turns = spent_turns + ?, spent_tokens = spent_tokens + ?,
                       spent_usd = spent_usd + ?, spent_spawns = spent_spawns + ?
WHERE id = ?
"""
_CARRY = """
UPDATE gen_account SET calls = calls + ?, held_turns = held_turns + ?, held_tokens = held_tokens + ?,
                    held_usd = held_usd + ?
WHERE id = ?
"""
_ANY = "SELECT 1 FROM gen_account WHERE id = ?"
_CLOSE = "UPDATE gen_account SET open = 0 WHERE id = ?"
_HOLD = "INSERT INTO gen_hold (task, owner, path, turns, tokens, usd, at) VALUES (?, ?, ?, ?, ?, ?, ?)"
_OWNS = "SELECT 1 FROM gen_task WHERE id = ? AND owner = ?"
_HOLDS = "SELECT 1 FROM gen_hold WHERE task = ?"
_HAS = f"{_HOLDS} AND owner = ?"
_HOLDERS = "SELECT task, turns, tokens, usd FROM gen_hold WHERE instr(path, ?) > 0 ORDER BY at"
_DROP = "DELETE FROM gen_hold WHERE task = ? RETURNING path, turns, tokens, usd"
_ABOVE = "SELECT parent, coalesce(paid_by, ''), counted FROM gen_task WHERE id = ?"
_BELOW = """
WITH RECURSIVE below(id) AS (
    SELECT id FROM gen_task WHERE id = :id OR paid_by = :id
    UNION SELECT s.id FROM gen_task s JOIN below b ON s.parent = b.id
)
SELECT id FROM below
"""


class Accounts:
    """The tables of the ledger, read and written on one connection inside the open transaction."""

    __slots__ = ("_connection", "_cursor", "_read_task")

    def __init__(self, connection: sqlite3.Connection, read_task: Reads) -> None:
        self._connection = connection
        self._cursor = connection.cursor()  # to make one costs as much as to look up an account
        self._read_task = read_task

    def route(self, task: str | None) -> SpendingPath:
        """The accounts that a task spends from; the parents of imported tasks may form a cycle."""
        tasks: list[str] = []
        unread: list[str] = []
        session = ""
        while task is not None and task not in tasks:
            rows = self._cursor.execute(_ABOVE, (task,)).fetchall()
            if not rows:
                break
            tasks.append(task)
            task, session, counted = rows[0]
            if not counted:
                unread.append(tasks[-1])
        return SpendingPath(tuple(tasks), session, tuple(unread))

    def on(self, path: Sequence[str]) -> dict[str, Account]:
        """The accounts on a path, and every open one below those that have a limit."""
        rows = self._cursor.execute(_each(_ACCOUNT, path), path).fetchall()
        found = {row[0]: account_from(row) for row in rows}
        limiting = [row for row in rows if found[row[0]].limits]
        sessions = {row[18] for row in limiting if row[18] == row[0]}
        below = [(_OPEN_OF_SESSION, session) for session in sessions]
        below += [(_OPEN_OF_TREE, top) for top in {row[17] for row in limiting} - sessions]
        for statement, key in below:
            for row in self._connection.execute(statement, (key,)):
                if row[0] not in found:
                    found[row[0]] = account_from(row)
        return found

    def verdict(self, hold: Hold) -> Verdict:
        """Whether a call may be made for a task without a hold."""
        verdict = decide(self.on(hold.path), hold)
        if isinstance(verdict, Wait):
            holders = self._connection.execute(_HOLDERS, (verdict.account,))
            return replace(verdict, holders=tuple(row[0] for row in holders if row[0] != hold.task))
        return verdict

    def check_owner(self, hold: Hold) -> None:
        """Fenced unless the owner of a hold has the lease of its task."""
        if not self._cursor.execute(_OWNS, (hold.task, hold.owner)).fetchall():
            raise lease_lost(hold.task)

    def holds(self, task: str) -> bool:
        """Whether a task has a hold."""
        return bool(self._connection.execute(_HOLDS, (task,)).fetchall())

    def has(self, hold: Hold) -> bool:
        """Whether the owner of a hold has one for its task."""
        return bool(self._connection.execute(_HAS, (hold.task, hold.owner)).fetchall())

    def release(self, hold: Hold) -> None:
        """Drop the hold if its owner still has it."""
        if self.has(hold):
            self.drop(hold.task)

    def take_hold(self, hold: Hold) -> None:
        """Store a hold."""
        need = amounts(hold.need, CALL)
        row = (hold.task, hold.owner, " ".join(hold.path), *need, stamp())
        self._cursor.execute(_HOLD, row)
        self._change(_CARRY, (1, *need), hold.path)

    def drop(self, task: str) -> None:
        """Drop the hold of a task, if it has one."""
        for path, *held in self._cursor.execute(_DROP, (task,)).fetchall():
            self._change(_CARRY, (-1, *[-each for each in held]), path.split())

    def limit(self, account: str, limits: Amounts, seconds: float) -> None:
        """Set the limits of an account; BudgetSpent when the accounts above have too little left for them."""
        route = self.route(account)
        self.learn(route)
        accounts = self.on(route.path or (account,))
        known = accounts.get(account) or self._counted(account)
        check_limits(accounts, known, limits)
        self._put(replace(known, limits=limits, seconds=seconds))

    def check_created(self, state: Task, session: str) -> SpendingPath:
        """The accounts above a new task; BudgetSpent when they have too little left for it."""
        route = self.route(state.parent)
        route = route if route.tasks else SpendingPath((), session)
        if route.unread:
            self.learn(route)
        if limited(state.terms.budget) or self._is_limited(route.path):
            check_begins(self.on(route.path), account_of(state, route.path), spawned=True)
        return route

    def created(self, state: Task, route: SpendingPath) -> None:
        """Count a new task in the accounts above it, and open its own."""
        if limited(state.terms.budget):
            self._put(account_of(state, route.path))
        if self._is_limited(route.path):
            self._spend(route.path, plus(cost_of(state), {"spawns": 1}))

    def adopted(self, state: Task) -> None:
        """Count the cost of an imported task and of its descendants."""
        for account in self.on(self.route(state.id).path).values():
            self.recount(account.id)

    def check_appended(self, before: Task, after: Task) -> Account | None:
        """The account, if any, of a task that these facts resume; BudgetSpent when too little is left."""
        if not goes_on(before, after):
            return None
        route = self.route(after.id)
        self.learn(route)
        accounts = self.on(route.path)
        known = accounts.get(after.id)
        if known is None and limited(after.terms.budget):
            known = self._counted(after.id)
        account = again(known, before, after, route.path[1:])
        if accounts or account.limits:
            check_begins(accounts, account, spawned=False)
        return account if account.limits else None

    def appended(self, before: Task, after: Task, path: Sequence[str], opened: Account | None) -> bool:
        """Settle what facts cost; the account of their task is `opened`, or closed where they end it.

        Returns whether there is any account on the path.
        """
        if opened is not None:
            self._put(opened)
        if not self._is_limited(path):
            return False
        if settles(before, after):
            self.drop(after.id)
            self._spend(path, cost_between(before, after))
        if after.status.ended:
            self._cursor.execute(_CLOSE, (after.id,))
        return True

    def _is_limited(self, path: Sequence[str]) -> bool:
        """Whether there is any account on a path; asked with every append, and usually there is none."""
        # Fetch all rows: a statement with some left would keep its transaction open.
        return bool(self._cursor.execute(_each(_ANY, path), path).fetchall())

    def deleted(self, tasks: Iterable[str]) -> None:
        """Delete the accounts of tasks; accounts above keep what they cost."""
        for task in tasks:
            self.drop(task)
            self._connection.execute("DELETE FROM gen_account WHERE id = ?", (task,))

    def taken(self, task: str, session: str | None) -> tuple[str, ...]:
        """The path of a task that was leased just now; it moves to `session` if one is named."""
        route = self.route(task)
        if session is not None and session != route.session:
            top = route.tasks[-1]
            self._connection.execute("UPDATE gen_task SET paid_by = ? WHERE id = ?", (session or None, top))
            route = route._replace(session=session)
            for row in self._connection.execute(_OF_TREE, (top,)).fetchall():
                self._put(account_from(row))
            self.recount(session)
        self.learn(route)
        return route.path

    def learn(self, route: SpendingPath) -> None:
        """Open accounts for tasks that have a budget in their journal only."""
        for task in route.unread:
            state = self._read_task(self._connection, task)
            if state is not None and limited(state.terms.budget) and task not in self.on((task,)):
                self._put(replace(self._counted(task), limits=limited(state.terms.budget)))
            self._connection.execute("UPDATE gen_task SET counted = 1 WHERE id = ?", (task,))

    def recount(self, account: str) -> bool:
        """Recompute from the journals what was spent below an account; returns whether that corrected it."""
        known = self.on((account,)).get(account)
        if known is None:
            return False
        spent = self._counted(account).spent
        self._put(replace(known, spent=spent))
        return amounts(spent) != amounts(known.spent)

    def recount_all(self) -> list[str]:
        """Recount every account; returns those that were corrected."""
        ids = [row[0] for row in self._connection.execute("SELECT id FROM gen_account ORDER BY id")]
        return [account for account in ids if self.recount(account)]

    def _counted(self, account: str) -> Account:
        """A new account without limits; what was spent and is held below it is counted."""
        spent: Amounts = {}
        for (task,) in self._connection.execute(_BELOW, {"id": account}).fetchall():
            state = self._read_task(self._connection, task)
            if state is not None:
                spent = plus(spent, plus(cost_of(state), {"spawns": int(task != account)}))
        state = self._read_task(self._connection, account)
        found = Account(account) if state is None else account_of(state, self.route(account).path[1:])
        found = replace(found, limits={}, spent=spent)
        for row in self._connection.execute(_HOLDERS, (account,)):
            found = with_hold(found, need_of(row[1:]))
        return found

    def _put(self, account: Account) -> None:
        """Write an account with its present path; one that is not a task's is a session's."""
        route = self.route(account.id)
        account = replace(account, path=route.path[1:])
        place = (route.tasks[-1], route.session) if route.tasks else (account.id, account.id)
        self._connection.execute(_PUT, (*values_of(account), *place))

    def _spend(self, path: Sequence[str], cost: Amounts) -> None:
        if path and cost:
            self._change(_SPEND, amounts(cost), path)

    def _change(self, statement: str, values: Sequence[int], path: Iterable[str]) -> None:
        """Change every account on a path."""
        self._cursor.executemany(statement, [(*values, each) for each in path])


class SqliteLedger:
    """`Ledger` in two tables beside the journal."""

    def __init__(
        self,
        commits: GroupCommit,
        accounts: Accounts,
        reads: Accounts,
        errors: PlainErrors,
        together: Callable[[], bool],
    ) -> None:
        """`accounts` writes, and `reads` reads on the event loop's thread."""
        self._commits = commits
        self._accounts = accounts
        self._reads = reads
        self._errors = errors
        self._together = together

    async def left(self, path: Sequence[str]) -> Amounts | None:
        """What is left for a call of the first on a path; None: nothing limits it."""
        accounts = await patiently(lambda: self._reads.on(path), self._errors)
        limits = any(accounts[each].limits for each in path if each in accounts)
        return left_for(accounts, path) if limits else None

    async def hold(self, hold: Hold) -> Verdict:
        """Take a hold if the call may be made now; nothing is written for one that may not."""
        return await self._commits.write(_Holding(self._accounts, hold), together=self._together())

    async def holds(self, task: str) -> bool:
        """Whether a task has a hold."""
        return await patiently(lambda: self._reads.holds(task), self._errors)

    async def release(self, hold: Hold) -> None:
        """Drop a hold for a call that was not made."""
        if await patiently(lambda: self._reads.has(hold), self._errors):
            step = FunctionStep(lambda: self._accounts.release(hold))
            await self._commits.write(step, together=self._together())

    async def limit(self, account: str, budget: Budget) -> None:
        """Set, raise or lower the budget of a task or a session."""
        check_budget(budget)
        step = FunctionStep(lambda: self._accounts.limit(account, limited(budget), lasting_seconds(budget)))
        await self._commits.write(step, together=False)

    async def balance(self, account: str) -> Balance | None:
        """An account as it is now; None when the task has none."""

        def read() -> dict[str, Account]:
            return self._reads.on(self._reads.route(account).path or (account,))

        accounts = await patiently(read, self._errors)
        return balance_of(accounts, accounts[account]) if account in accounts else None

    async def recount(self) -> Sequence[str]:
        """Recompute from the journals what was spent; returns the accounts that were corrected."""
        wrong = FunctionStep(self._accounts.recount_all)
        return await self._commits.write(wrong, together=False)


class _Holding(WriteStep[Verdict]):
    """Takes a hold if that is allowed; it replaces an earlier one of its task."""

    __slots__ = ("_accounts", "_hold")

    def __init__(self, accounts: Accounts, hold: Hold) -> None:
        self._accounts = accounts
        self._hold = hold

    def write(self) -> Verdict:
        """Decide again inside the transaction."""
        self._accounts.check_owner(self._hold)
        self._accounts.drop(self._hold.task)
        verdict = self._accounts.verdict(self._hold)
        if isinstance(verdict, Granted) and verdict.bounded:
            self._accounts.take_hold(self._hold)
        return verdict


def _each(statement: str, ids: Sequence[str]) -> str:
    """One SELECT for each id: for `IN` SQLite would build a temporary table."""
    return " UNION ALL ".join([statement] * len(ids))
