"""The ledger in two tables beside the journal: accounts with limits, and holds for model calls.

Written once for SQLite and Postgres. What an append or a new task changes in it is a part of its own commit:
of the transaction of a step (`sqlite_ledger.py`), or of its one statement (`pg_ledger.py`).
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

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
    left_for,
    plus,
    with_hold,
)
from gencode.budgets.limits import (
    COSTS_OF_A_CALL,
    UNITS,
    Amounts,
    check_budget,
    cost_of,
    lasting_seconds,
    limited,
)
from gencode.core.budget import Budget
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.stores.journal_rules import lease_lost
from gencode.stores.sql_dialect import Row, SqlDatabase, Statements, listing
from gencode.stores.task_fold import FOLD, folded, snapshot_of

KINDS: tuple[str, ...] = tuple(UNITS)
CALL: tuple[str, ...] = COSTS_OF_A_CALL

# The depth is bounded, because the parents of imported tasks may form a cycle.
UP = """
WITH RECURSIVE up (id, parent, paid_by, counted, depth) AS (
    SELECT id, parent, paid_by, counted, 0 FROM gen_task WHERE id = $1
    UNION ALL
    SELECT g.id, g.parent, g.paid_by, g.counted, up.depth + 1
    FROM gen_task g JOIN up ON g.id = up.parent WHERE up.depth < 100
)
{then}
"""
_ROUTE = UP.replace("{then}", "SELECT id, coalesce(paid_by, ''), counted FROM up ORDER BY depth")
_SELECT = """
SELECT id, {words:path}, agent, {still_open}, calls,
       limit_turns, limit_tokens, limit_usd, limit_spawns, spent_turns, spent_tokens, spent_usd, spent_spawns,
       held_turns, held_tokens, held_usd, seconds, top, session
FROM gen_account
"""
_ON_PATH = f"{_SELECT} WHERE id IN ({{listed}}) ORDER BY id"
_LOCKED = f"{_ON_PATH} {{for_update}}"
_OF_TREE = f"{_SELECT} WHERE top = $1"
_OPEN_OF_TREE = f"{_OF_TREE} AND open = {{true}}"
_OPEN_OF_SESSION = f"{_SELECT} WHERE open = {{true}} AND session <> '' AND session = $1"
# Nobody else writes to the table until the transaction ends; with SQLite nobody does anyway.
_LOCK_ALL = "{lock_table:gen_account}"
_THERE = "SELECT 1 FROM gen_account WHERE id = $1"
_IDS = "SELECT id FROM gen_account ORDER BY id"
_PUT = """
INSERT INTO gen_account (
    id, path, agent, open, calls, limit_turns, limit_tokens, limit_usd, limit_spawns,
    spent_turns, spent_tokens, spent_usd, spent_spawns, held_turns, held_tokens, held_usd,
    seconds, top, session)
VALUES ($1, {array:$2}, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
ON CONFLICT (id) DO UPDATE SET
    path = excluded.path, agent = excluded.agent, open = excluded.open, calls = excluded.calls,
    limit_turns = excluded.limit_turns, limit_tokens = excluded.limit_tokens,
    limit_usd = excluded.limit_usd, limit_spawns = excluded.limit_spawns,
    spent_turns = excluded.spent_turns, spent_tokens = excluded.spent_tokens,
    spent_usd = excluded.spent_usd, spent_spawns = excluded.spent_spawns,
    held_turns = excluded.held_turns, held_tokens = excluded.held_tokens, held_usd = excluded.held_usd,
    seconds = excluded.seconds, top = excluded.top, session = excluded.session
"""
# For accounts in the order of their ids, in which everybody locks them.
_CARRY = """
UPDATE gen_account SET calls = calls + $2, held_turns = held_turns + $3, held_tokens = held_tokens + $4,
                       held_usd = held_usd + $5
WHERE id = $1
"""
_DELETE = "DELETE FROM gen_account WHERE id IN {texts:$1}"
_HELD = """
SELECT h.task FROM gen_task t LEFT JOIN gen_hold h ON h.task = t.id WHERE t.id = $1 AND t.owner = $2 {share:t}
"""
_HOLD = """
INSERT INTO gen_hold (task, owner, path, turns, tokens, usd, at)
VALUES ($1, $2, {array:$3}, $4, $5, $6, {now})
"""
_HOLDS = "SELECT 1 FROM gen_hold WHERE task = $1"
_HOLDERS = "SELECT task, turns, tokens, usd FROM gen_hold WHERE {contains:path}"
_DROP = "DELETE FROM gen_hold WHERE task = $1 RETURNING {words:path}, turns, tokens, usd"
_DROP_ALL = "DELETE FROM gen_hold WHERE task IN {texts:$1} RETURNING {words:path}, turns, tokens, usd"
_RELEASE = "DELETE FROM gen_hold WHERE task = $1 AND owner = $2 RETURNING {words:path}, turns, tokens, usd"
_BELOW = """
WITH RECURSIVE below (id) AS (
    SELECT id FROM gen_task WHERE id = $1 OR paid_by = $1
    UNION SELECT t.id FROM gen_task t JOIN below b ON t.parent = b.id
)
SELECT t.id, CAST(t.last_seq AS bigint), {stored:s.body} FROM below b JOIN gen_task t ON t.id = b.id
    LEFT JOIN gen_snapshot s ON s.task = t.id AND s.fold = $2
"""
_EVENTS = """
SELECT seq, CAST(at AS text), {stored:body} FROM gen_journal WHERE task = $1 AND seq > $2 AND seq <= $3
ORDER BY seq
"""
_PAY = "UPDATE gen_task SET paid_by = $2 WHERE id = $1"
_COUNTED = "UPDATE gen_task SET counted = {true} WHERE id IN {texts:$1}"


class SpendingPath(NamedTuple):
    """The accounts a task spends from: itself, its ancestors (nearest first), and perhaps a session.

    The budgets of those that are `unread` are in their journals, and perhaps not in the ledger.
    """

    tasks: tuple[str, ...]
    session: str = ""
    unread: tuple[str, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        """All accounts in one path, as a lease has it."""
        return (*self.tasks, self.session) if self.session else self.tasks


class LedgerTable:
    """`Ledger` in tables beside the journal."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def left(self, path: Sequence[str]) -> Amounts | None:
        """What is left for a call of the first on a path; None: nothing limits it."""
        accounts = await self._database.read(lambda statements: Accounts(statements).on(path))
        limits = any(accounts[each].limits for each in path if each in accounts)
        return left_for(accounts, path) if limits else None

    async def hold(self, hold: Hold) -> Verdict:
        """Take a hold if the call may be made now; nothing is written for one that may not."""
        return await self._database.transaction(
            lambda statements: Accounts(statements).hold(hold), batched=True
        )

    async def holds(self, task: str) -> bool:
        """Whether a task has a hold."""
        return bool(await self._database.fetch(_HOLDS, task))

    async def release(self, hold: Hold) -> None:
        """Drop a hold for a call that was not made."""
        await self._database.transaction(lambda statements: Accounts(statements).release(hold), batched=True)

    async def limit(self, account: str, budget: Budget) -> None:
        """Set, raise or lower the budget of a task or a session."""
        check_budget(budget)
        await self._database.transaction(lambda statements: Accounts(statements).limit(account, budget))

    async def balance(self, account: str) -> Balance | None:
        """An account as it is now; None when the task has none."""

        async def read(statements: Statements) -> dict[str, Account]:
            accounts = Accounts(statements)
            return await accounts.on((await accounts.route(account)).path or (account,))

        found = await self._database.read(read)
        return balance_of(found, found[account]) if account in found else None

    async def recount(self) -> Sequence[str]:
        """Recompute from the journals what was spent; returns the accounts that were corrected."""
        return await self._database.transaction(lambda statements: Accounts(statements).recount())


class Accounts:
    """The tables of the ledger, read and written in the open transaction."""

    __slots__ = ("_statements",)

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    async def route(self, task: str) -> SpendingPath:
        """The accounts that a task spends from."""
        return route_of(await self._statements.fetch(_ROUTE, task))

    async def on(self, path: Sequence[str], *, lock: bool = False) -> dict[str, Account]:
        """The accounts on a path, and every open one below those that have a limit."""
        if not path:
            return {}
        rows = await self._statements.fetch(listing(_LOCKED if lock else _ON_PATH, len(path)), *path)
        if not rows:  # as for most calls
            return {}
        found = {row[0]: _account(row) for row in rows}
        limiting = [row for row in rows if found[row[0]].limits]
        sessions = {row[18] for row in limiting if row[18] == row[0]}
        below = [(_OPEN_OF_SESSION, session) for session in sessions]
        below += [(_OPEN_OF_TREE, top) for top in {row[17] for row in limiting} - sessions]
        for statement, key in below:
            for row in await self._statements.fetch(statement, key):
                if row[0] not in found:
                    found[row[0]] = _account(row)
        return found

    async def hold(self, hold: Hold) -> Verdict:
        """Take a hold if the call may be made now; it replaces an earlier one of its task.

        Until it is committed nobody can take or end the task, so that whoever does it next settles the hold.
        """
        accounts = await self.on(hold.path, lock=True)
        held = await self._statements.fetch(_HELD, hold.task, hold.owner)
        if not held:
            raise lease_lost(hold.task)
        if held[0][0] is not None:
            await self.drop(hold.task)
            accounts = await self.on(hold.path)
        verdict = decide(accounts, hold)
        if isinstance(verdict, Granted) and verdict.bounded:
            need = amounts(hold.need, CALL)
            await self._statements.fetch(_HOLD, hold.task, hold.owner, " ".join(hold.path), *need)
            await self._statements.run_many(_CARRY, sorted((each, 1, *need) for each in hold.path))
        elif isinstance(verdict, Wait):
            holders = await self._statements.fetch(_HOLDERS, verdict.account)
            return replace(verdict, holders=frozenset(row[0] for row in holders))
        return verdict

    async def release(self, hold: Hold) -> None:
        """Drop the hold of a task if its owner still has it."""
        await self._dropped(await self._statements.fetch(_RELEASE, hold.task, hold.owner))

    async def drop(self, task: str) -> None:
        """Drop the hold of a task, if it has one."""
        await self._dropped(await self._statements.fetch(_DROP, task))

    async def delete(self, tasks: Sequence[str]) -> None:
        """Delete the accounts of tasks; accounts above keep what they cost."""
        await self._dropped(await self._statements.fetch(_DROP_ALL, json.dumps(tasks)))
        await self._statements.fetch(_DELETE, json.dumps(tasks))

    async def limit(self, account: str, budget: Budget) -> None:
        """Set the limits of an account; BudgetSpent when the accounts above have too little left for them."""
        route = await self.route(account)
        await self._prepare(account, route)
        accounts = await self.on(route.path or (account,), lock=True)
        known = accounts.get(account) or await self._counted(account, route)
        check_limits(accounts, known, limited(budget))
        await self.put(replace(known, limits=limited(budget), seconds=lasting_seconds(budget)), route)

    async def check_created(self, state: Task, route: SpendingPath) -> None:
        """BudgetSpent when the accounts above a new task have too little left for it."""
        above = route.path[1:]
        check_begins(await self.on(above, lock=True), account_of(state, above), spawned=True)

    async def check_resumed(self, before: Task, after: Task, route: SpendingPath) -> Account | None:
        """The account, if any, of a task that goes on; BudgetSpent when too little is left for it."""
        limits = limited(after.terms.budget)
        if limits or route.unread:
            await self._prepare(after.id, route)
        accounts = await self.on(route.path, lock=True)
        known = accounts.get(after.id)
        if known is None and limits:
            known = await self._counted(after.id, route)
        account = again(known, before, after, route.path[1:])
        if accounts or account.limits:
            check_begins(accounts, account, spawned=False)
        return account if account.limits else None

    async def learn(self, route: SpendingPath) -> None:
        """Open accounts for tasks that have a budget in their journal only."""
        if not route.unread:
            return
        await self._statements.fetch(_LOCK_ALL)
        for task in route.unread:
            if not await self._statements.fetch(_THERE, task):
                own = await self.route(task)
                account = await self._counted(task, own)
                if account.limits:
                    await self.put(account, own)
        await self._statements.fetch(_COUNTED, json.dumps(route.unread))

    async def move(self, route: SpendingPath, session: str) -> SpendingPath:
        """Charge a tree, with all that it has cost, to another session."""
        await self._statements.fetch(_LOCK_ALL)
        top = route.tasks[-1]
        await self._statements.fetch(_PAY, top, session or None)
        for row in await self._statements.fetch(_OF_TREE, top):
            await self.put(_account(row), await self.route(row[0]))
        await self.recount([session])
        return route._replace(session=session)

    async def recount(self, accounts: Sequence[str] | None = None) -> list[str]:
        """Recompute from the journals what was spent from accounts (None: all); those that were corrected."""
        await self._statements.fetch(_LOCK_ALL)
        if accounts is None:
            accounts = [row[0] for row in await self._statements.fetch(_IDS)]
        wrong: list[str] = []
        for account in accounts:
            for row in await self._statements.fetch(listing(_ON_PATH, 1), account):
                known, route = _account(row), await self.route(account)
                spent = (await self._counted(account, route)).spent
                if amounts(spent) != amounts(known.spent):
                    await self.put(replace(known, spent=spent), route)
                    wrong.append(account)
        return wrong

    async def put(self, account: Account, route: SpendingPath) -> None:
        """Write an account with its present path; one that is not a task's is a session's."""
        top, session = (route.tasks[-1], route.session) if route.tasks else (account.id, account.id)
        await self._statements.fetch(
            _PUT,
            account.id,
            " ".join(route.path[1:]),
            account.agent,
            account.open,
            account.calls,
            *(account.limits.get(kind) for kind in KINDS),
            *amounts(account.spent),
            *amounts(account.held, CALL),
            account.seconds,
            top,
            session,
        )
        await self._statements.announce(LIMITS)

    async def _prepare(self, account: str, route: SpendingPath) -> None:
        """Learn what the journals say of a path, and lock the table if the account will be new.

        A new account counts what was spent before, while nobody else may spend anything.
        """
        await self.learn(route)
        if not await self._statements.fetch(_THERE, account):
            await self._statements.fetch(_LOCK_ALL)

    async def _counted(self, account: str, route: SpendingPath) -> Account:
        """A new account, with what was spent and is held below it."""
        tasks, spent = await self._below(account), dict[str, int]()
        for task in tasks.values():
            spent = plus(spent, plus(cost_of(task), {"spawns": int(task.id != account)}))
        state = tasks.get(account)
        found = Account(account) if state is None else account_of(state, route.path[1:])
        found = replace(found, spent=spent)
        for row in await self._statements.fetch(_HOLDERS, account):
            found = with_hold(found, dict(zip(CALL, row[1:], strict=True)))
        return found

    async def _below(self, account: str) -> dict[str, Task]:
        """A task and its descendants, or all that a session pays for, as far as their facts can be read."""
        found: dict[str, Task] = {}
        for task, last, body in await self._statements.fetch(_BELOW, account, FOLD):
            state = snapshot_of(body)
            known = state.seq if state is not None else 0
            newer = await self._statements.fetch(_EVENTS, task, known, last) if known < last else ()
            state, _ = folded(task, state, newer, last)
            if state is not None:
                found[task] = state
        return found

    async def _dropped(self, rows: Sequence[Row]) -> None:
        changes = [
            (each, -1, -turns, -tokens, -usd) for path, turns, tokens, usd in rows for each in path.split()
        ]
        await self._statements.run_many(_CARRY, sorted(changes))


LIMITS = "ledger"
"""What is announced where an account is written: it may limit what nothing limited before."""


def route_of(rows: Sequence[Row]) -> SpendingPath:
    """A route from rows with an id, who pays for it, and whether it was counted; ids may come twice."""
    tasks = {row[0]: row for row in reversed(rows)}
    order = tuple(dict.fromkeys(row[0] for row in rows))
    unread = tuple(task for task in order if not tasks[task][2])
    return SpendingPath(order, tasks[order[-1]][1] if order else "", unread)


def amounts(found: Amounts, kinds: Sequence[str] = KINDS) -> tuple[int, ...]:
    """The amount of each kind, in the order of the columns."""
    return tuple(found.get(kind, 0) for kind in kinds)


def _account(row: Row) -> Account:
    limits = {kind: limit for kind, limit in zip(KINDS, row[5:9], strict=True) if limit is not None}
    spent = {"turns": row[9], "tokens": row[10], "usd": row[11], "spawns": row[12]}
    held = {"turns": row[13], "tokens": row[14], "usd": row[15]}
    return Account(row[0], tuple(row[1].split()), row[2], limits, spent, held, row[4], bool(row[3]), row[16])
