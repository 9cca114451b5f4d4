"""The ledger in the SQLite file.

What a commit of the journal changes in it is written in the same transaction: the steps have the `Accounts`.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any

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
from gencode.core.ids import stamp
from gencode.core.task import Task
from gencode.stores.group_commit import FunctionStep, GroupCommit, WriteStep, patiently
from gencode.stores.ledger_rows import CALL, KINDS, SpendingPath, account_from, amounts, need_of, values_of
from gencode.stores.sqlite_schema import PlainErrors

Reads = Callable[[sqlite3.Connection, str], Task | None]
"""Reads a task, as far as its facts can be read."""

_ACCOUNTS = """
SELECT Id, Path, Agent, Open, Calls, LimitTurns, LimitTokens, LimitUsd, LimitSpawns,
       SpentTurns, SpentTokens, SpentUsd, SpentSpawns, HeldTurns, HeldTokens, HeldUsd, Seconds, Top, Session
FROM Accounts
"""
_OF_TREE = f"{_ACCOUNTS} WHERE Top = ?"
_OPEN_OF_TREE = f"{_OF_TREE} AND Open = 1"
_OPEN_OF_SESSION = f"{_ACCOUNTS} WHERE Open = 1 AND Session <> '' AND Session = ?"
_PUT = """
INSERT OR REPLACE INTO Accounts (
       Id, Path, Agent, Open, Calls, LimitTurns, LimitTokens, LimitUsd, LimitSpawns,
       SpentTurns, SpentTokens, SpentUsd, SpentSpawns, HeldTurns, HeldTokens, HeldUsd, Seconds, Top, Session)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_SPEND = """
UPDATE Accounts SET SpentTurns = SpentTurns + ?, SpentTokens = SpentTokens + ?, SpentUsd = SpentUsd + ?,
                    SpentSpawns = SpentSpawns + ?
"""
_CARRY = """
UPDATE Accounts SET Calls = Calls + ?, HeldTurns = HeldTurns + ?, HeldTokens = HeldTokens + ?,
                    HeldUsd = HeldUsd + ?
"""
_ANY = "SELECT 1 FROM Accounts"
_CLOSE = "UPDATE Accounts SET Open = 0 WHERE Id = ?"
_HOLD = "INSERT INTO Holds (Task, Owner, Path, Turns, Tokens, Usd, At) VALUES (?, ?, ?, ?, ?, ?, ?)"
_HELD = "SELECT Turns, Tokens, Usd FROM Holds WHERE Task = ?"
_HOLDERS = "SELECT Task, Turns, Tokens, Usd FROM Holds WHERE instr(Path, ?) > 0 ORDER BY At"
_DROP = "DELETE FROM Holds WHERE Task = ? RETURNING Path, Turns, Tokens, Usd"
_ABOVE = "SELECT Parent, coalesce(PaidBy, ''), Counted FROM Sessions WHERE Id = ?"
_BELOW = """
WITH RECURSIVE Below(Id) AS (
    SELECT Id FROM Sessions WHERE Id = :id OR PaidBy = :id
    UNION SELECT s.Id FROM Sessions s JOIN Below b ON s.Parent = b.Id
)
SELECT Id FROM Below
"""


class Accounts:
    """The tables of the ledger, read and written on one connection inside of whatever transaction is open."""

    __slots__ = ("_connection", "_cursor", "_read_task")

    def __init__(self, connection: sqlite3.Connection, read_task: Reads) -> None:
        self._connection = connection
        self._cursor = connection.cursor()  # to make one costs as much as to look up an account
        self._read_task = read_task

    def route(self, task: str | None) -> SpendingPath:
        """What a task spends from; what was imported may go round in circles."""
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
        """The accounts on a path, and every open one below those that limit anything."""
        rows = self._cursor.execute(*_those(_ACCOUNTS, (), path)).fetchall()
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
        """Whether a call may be made of a task that holds nothing."""
        verdict = decide(self.on(hold.path), hold)
        if isinstance(verdict, Wait):
            holders = self._connection.execute(_HOLDERS, (verdict.account,))
            return replace(verdict, holders=tuple(row[0] for row in holders if row[0] != hold.task))
        return verdict

    def holds(self, task: str) -> bool:
        """Whether a task has a hold."""
        return self._connection.execute(_HELD, (task,)).fetchone() is not None

    def take_hold(self, hold: Hold) -> None:
        """Write a hold down."""
        need = amounts(hold.need, CALL)
        row = (hold.task, hold.owner, " ".join(hold.path), *need, stamp())
        self._cursor.execute(_HOLD, row)
        self._cursor.execute(*_those(_CARRY, (1, *need), hold.path))

    def drop(self, task: str) -> None:
        """Take back the hold of a task, if it has one."""
        for path, *held in self._cursor.execute(_DROP, (task,)).fetchall():
            self._cursor.execute(*_those(_CARRY, (-1, *(-each for each in held)), path.split()))

    def limit(self, account: str, limits: Amounts, seconds: float) -> None:
        """Give an account these limits, if what is more than before is left above it."""
        route = self.route(account)
        self.learn(route)
        accounts = self.on(route.path or (account,))
        known = accounts.get(account) or self._counted(account)
        check_limits(accounts, known, limits)
        self._put(replace(known, limits=limits, seconds=seconds))

    def check_created(self, state: Task, session: str) -> SpendingPath:
        """What a new task spends from, but for itself; BudgetSpent when there is too little for it."""
        route = self.route(state.parent)
        route = route if route.tasks else SpendingPath((), session)
        if route.unread:
            self.learn(route)
        if limited(state.terms.budget) or self._is_limited(route.path):
            check_begins(self.on(route.path), account_of(state, route.path), spawned=True)
        return route

    def created(self, state: Task, route: SpendingPath) -> None:
        """Count a new task above it, and open its account."""
        if limited(state.terms.budget):
            self._put(account_of(state, route.path))
        if self._is_limited(route.path):
            self._spend(route.path, plus(cost_of(state), {"spawns": 1}))

    def adopted(self, state: Task) -> None:
        """Count a task whose journal came from elsewhere, with those below it that came before."""
        for account in self.on(self.route(state.id).path).values():
            self.recount(account.id)

    def check_appended(self, before: Task, after: Task) -> Account | None:
        """The account of a task that facts let go on, if it has one; BudgetSpent when too little is left."""
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

        Whether there is any account on the path.
        """
        if opened is not None:
            self._put(opened)
        if not self._is_limited(path):
            return False
        ends, cost = after.status.ended, cost_between(before, after)
        if ends or cost:
            self.drop(after.id)
            self._spend(path, cost)
        if ends:
            self._cursor.execute(_CLOSE, (after.id,))
        return True

    def _is_limited(self, path: Sequence[str]) -> bool:
        """Whether there is any account on a path: asked with every append, and mostly there is none."""
        # All rows: a statement with some left would keep its transaction open.
        return bool(self._cursor.execute(*_those(_ANY, (), path)).fetchall())

    def deleted(self, tasks: Iterable[str]) -> None:
        """Forget tasks; what they cost stays counted above them."""
        for task in tasks:
            self.drop(task)
            self._connection.execute("DELETE FROM Accounts WHERE Id = ?", (task,))

    def taken(self, task: str, session: str | None) -> tuple[str, ...]:
        """The path of a task that is leased, in this session from now on, if that is said."""
        route = self.route(task)
        if session is not None and session != route.session:
            top = route.tasks[-1]
            self._connection.execute("UPDATE Sessions SET PaidBy = ? WHERE Id = ?", (session or None, top))
            route = route._replace(session=session)
            for row in self._connection.execute(_OF_TREE, (top,)).fetchall():
                self._put(account_from(row))
            self.recount(session)
        self.learn(route)
        return route.path

    def learn(self, route: SpendingPath) -> None:
        """Open accounts for tasks whose journals tell of a budget that the ledger does not know."""
        for task in route.unread:
            state = self._read_task(self._connection, task)
            if state is not None and limited(state.terms.budget) and task not in self.on((task,)):
                self._put(replace(self._counted(task), limits=limited(state.terms.budget)))
            self._connection.execute("UPDATE Sessions SET Counted = 1 WHERE Id = ?", (task,))

    def recount(self, account: str) -> bool:
        """Read from the journals what was spent below an account; whether that differs from what it had."""
        known = self.on((account,)).get(account)
        if known is None:
            return False
        spent = self._counted(account).spent
        self._put(replace(known, spent=spent))
        return amounts(spent) != amounts(known.spent)

    def recount_all(self) -> list[str]:
        """Recount every account; those that had it wrong."""
        ids = [row[0] for row in self._connection.execute("SELECT Id FROM Accounts ORDER BY Id")]
        return [account for account in ids if self.recount(account)]

    def _counted(self, account: str) -> Account:
        """An account without limits, with all that was spent and is held below it."""
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
        """Write an account, with the path that it has now; one that is no task is that of a session."""
        route = self.route(account.id)
        account = replace(account, path=route.path[1:])
        place = (route.tasks[-1], route.session) if route.tasks else (account.id, account.id)
        self._connection.execute(_PUT, (*values_of(account), *place))

    def _spend(self, path: Sequence[str], cost: Amounts) -> None:
        if path and cost:
            self._cursor.execute(*_those(_SPEND, amounts(cost, KINDS), path))


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
        """`accounts` are those for writing, and `reads` those for reading on the event loop's own thread."""
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

    async def release(self, task: str) -> None:
        """Drop the hold of a task whose call was not made."""
        if await patiently(lambda: self._reads.holds(task), self._errors):
            await self._commits.write(
                FunctionStep(lambda: self._accounts.drop(task)), together=self._together()
            )

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
        """Read from the journals what was spent; the accounts that had it wrong."""
        wrong = FunctionStep(self._accounts.recount_all)
        return await self._commits.write(wrong, together=False)


class _Holding(WriteStep[Verdict]):
    """A hold in the place of the one that its task had, if it may be taken."""

    __slots__ = ("_accounts", "_hold")

    def __init__(self, accounts: Accounts, hold: Hold) -> None:
        self._accounts = accounts
        self._hold = hold

    def write(self) -> Verdict:
        """Look at the accounts again, now that nobody else can change them."""
        self._accounts.drop(self._hold.task)
        verdict = self._accounts.verdict(self._hold)
        if isinstance(verdict, Granted) and verdict.bounded:
            self._accounts.take_hold(self._hold)
        return verdict


def _those(statement: str, values: Sequence[Any], ids: Sequence[str]) -> tuple[str, tuple[Any, ...]]:
    """A statement about the accounts with these ids, and its values."""
    return f"{statement} WHERE Id IN ({', '.join('?' * len(ids))})", (*values, *ids)
