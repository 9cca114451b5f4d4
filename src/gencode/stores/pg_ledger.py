"""The ledger in Postgres.

Calls that share an account are one after the other: each locks the accounts on its path, in the order of
their ids. What a commit of the journal changes is a part of its one statement. A new account counts what was
spent before while nobody else may change any (LOCK TABLE), so that nothing is missed which is being written.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

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
from gencode.budgets.limits import Amounts, check_budget, cost_of, lasting_seconds, limited
from gencode.core.budget import Budget
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.stores.journal_rules import lease_lost
from gencode.stores.ledger_rows import CALL, SpendingPath, account_from, amounts, need_of, values_of
from gencode.stores.pg_pool import WAKE, Connection, NotifyListener, Pool, storable
from gencode.stores.sqlite_writes import FOLD
from gencode.stores.task_fold import StoredFact, folded, snapshot_of

if TYPE_CHECKING:
    from gencode.stores.pg_task_rows import NewTaskRow

LEDGER = """
ALTER TABLE gen_task ADD COLUMN paid_by text COLLATE "C";
ALTER TABLE gen_task ADD COLUMN counted boolean NOT NULL DEFAULT false;
CREATE INDEX gen_task_paid ON gen_task (paid_by) WHERE paid_by IS NOT NULL;
CREATE TABLE gen_account (
    id text COLLATE "C" PRIMARY KEY,
    path text[] COLLATE "C" NOT NULL,
    agent text NOT NULL,
    open boolean NOT NULL,
    calls bigint NOT NULL,
    limit_turns bigint, limit_tokens bigint, limit_usd bigint, limit_spawns bigint,
    spent_turns bigint NOT NULL, spent_tokens bigint NOT NULL,
    spent_usd bigint NOT NULL, spent_spawns bigint NOT NULL,
    held_turns bigint NOT NULL, held_tokens bigint NOT NULL, held_usd bigint NOT NULL,
    top text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX gen_account_top ON gen_account (top);
CREATE INDEX gen_account_session ON gen_account (session) WHERE session <> '';
CREATE TABLE gen_hold (
    task text COLLATE "C" PRIMARY KEY,
    owner text NOT NULL,
    path text[] COLLATE "C" NOT NULL,
    turns bigint NOT NULL, tokens bigint NOT NULL, usd bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
"""

# The depth is bounded, because the parents of imported tasks may form a cycle.
_ROUTE = """
(WITH RECURSIVE up (id, parent, paid_by, counted, depth) AS (
    SELECT id, parent, paid_by, counted, 0 FROM gen_task WHERE id = $1
    UNION ALL
    SELECT g.id, g.parent, g.paid_by, g.counted, up.depth + 1
    FROM gen_task g JOIN up ON g.id = up.parent WHERE up.depth < 100
)
SELECT json_agg(json_build_array(id, coalesce(paid_by, ''), counted) ORDER BY depth) FROM up)
"""
# A statement can change a row only once, so the changes of each account are summed first.
_CHANGED = """
locked AS (
    SELECT a.id FROM gen_account a WHERE a.id IN (SELECT d.id FROM deltas d) ORDER BY a.id FOR UPDATE
), changed AS (
    UPDATE gen_account a SET
        spent_turns = a.spent_turns + d.turns, spent_tokens = a.spent_tokens + d.tokens,
        spent_usd = a.spent_usd + d.usd, spent_spawns = a.spent_spawns + d.spawns,
        calls = a.calls + d.calls, held_turns = a.held_turns + d.held_turns,
        held_tokens = a.held_tokens + d.held_tokens, held_usd = a.held_usd + d.held_usd,
        open = a.open AND NOT d.ends
    FROM (
        SELECT id, sum(turns) AS turns, sum(tokens) AS tokens, sum(usd) AS usd, sum(spawns) AS spawns,
               sum(calls) AS calls, sum(held_turns) AS held_turns, sum(held_tokens) AS held_tokens,
               sum(held_usd) AS held_usd, bool_or(ends) AS ends
        FROM deltas GROUP BY id
    ) d JOIN locked l ON l.id = d.id
    WHERE a.id = d.id
)
"""
_DROPPED = "SELECT unnest(path) AS id, 0, 0, 0, 0, -1, -turns, -tokens, -usd, false FROM dropped"
_DELTAS = "deltas (id, turns, tokens, usd, spawns, calls, held_turns, held_tokens, held_usd, ends)"
_COLUMNS = """
a.id, array_to_string(a.path, ' '), a.agent,
a.open AND (a.id = a.session OR t.status IN ('pending', 'running')), a.calls,
a.limit_turns, a.limit_tokens, a.limit_usd, a.limit_spawns,
a.spent_turns, a.spent_tokens, a.spent_usd, a.spent_spawns, a.held_turns, a.held_tokens, a.held_usd,
a.seconds
"""


def completed(statement: str) -> str:
    """A statement with its shared parts filled in: the path of a task, and changes of accounts."""
    parts = {"{ROUTE}": _ROUTE, "{DELTAS}": _DELTAS, "{DROPPED}": _DROPPED, "{CHANGED}": _CHANGED}
    for place, part in {**parts, "{COLUMNS}": _COLUMNS}.items():
        statement = statement.replace(place, part)
    return statement


_RELEASE = completed("""
WITH dropped AS (DELETE FROM gen_hold WHERE task = $1 AND owner = $2 RETURNING path, turns, tokens, usd),
{DELTAS} AS ({DROPPED}),
{CHANGED}
SELECT count(*) FROM dropped
""")
_DROP = completed("""
WITH dropped AS (DELETE FROM gen_hold WHERE task = ANY($1::text[]) RETURNING path, turns, tokens, usd),
{DELTAS} AS ({DROPPED}),
{CHANGED}
SELECT count(*) FROM dropped
""")
# The task cannot be taken or ended until the hold is committed, so whoever does it next settles the hold.
_HOLD = completed("""
WITH mine AS (SELECT id FROM gen_task WHERE id = $1 AND owner = $2 FOR SHARE), dropped AS (
    SELECT h.path, h.turns, h.tokens, h.usd FROM gen_hold h JOIN mine m ON m.id = h.task
), taken AS (
    INSERT INTO gen_hold (task, owner, path, turns, tokens, usd) SELECT id, $2, $3, $4, $5, $6 FROM mine
    ON CONFLICT (task) DO UPDATE SET owner = $2, path = $3, turns = $4, tokens = $5, usd = $6,
                                     at = clock_timestamp()
), {DELTAS} AS (
    {DROPPED} UNION ALL
    SELECT unnest($3::text[]), 0, 0, 0, 0, 1, $4::bigint, $5::bigint, $6::bigint, false FROM mine
),
{CHANGED}
SELECT id FROM mine
""")
_UP = completed("SELECT {ROUTE}")
_HELD = """
SELECT h.turns, h.tokens, h.usd FROM gen_task t LEFT JOIN gen_hold h ON h.task = t.id
WHERE t.id = $1 AND t.owner = $2
"""
_HOLDS = "SELECT 1 FROM gen_hold WHERE task = $1"
_HOLDERS = "SELECT task, turns, tokens, usd FROM gen_hold WHERE $1 = ANY(path) ORDER BY at, task"
_LOCK = "SELECT id FROM gen_account WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE"
_LOCK_ALL = "LOCK TABLE gen_account IN EXCLUSIVE MODE"
_ON = completed("""
WITH mine AS (SELECT * FROM gen_account WHERE id = ANY($1::text[])), limiting AS (
    SELECT id, top, session FROM mine
    WHERE limit_turns IS NOT NULL OR limit_tokens IS NOT NULL OR limit_usd IS NOT NULL
       OR limit_spawns IS NOT NULL
), wanted AS (
    SELECT id FROM mine
    UNION SELECT a.id FROM limiting m JOIN gen_account a ON a.open AND a.top = m.top WHERE m.id <> m.session
    UNION SELECT a.id FROM limiting m JOIN gen_account a ON a.open AND a.session <> '' AND a.session = m.id
    WHERE m.id = m.session
)
SELECT {COLUMNS} FROM wanted w JOIN gen_account a ON a.id = w.id LEFT JOIN gen_task t ON t.id = a.id
""")
_PUT = """
INSERT INTO gen_account (
    id, path, agent, open, calls, limit_turns, limit_tokens, limit_usd, limit_spawns,
    spent_turns, spent_tokens, spent_usd, spent_spawns, held_turns, held_tokens, held_usd,
    seconds, top, session)
VALUES ($1, string_to_array($2, ' '), $3, $4, $5, $6, $7, $8, $9,
        $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
ON CONFLICT (id) DO UPDATE SET
    path = excluded.path, agent = excluded.agent, open = excluded.open, calls = excluded.calls,
    limit_turns = excluded.limit_turns, limit_tokens = excluded.limit_tokens,
    limit_usd = excluded.limit_usd, limit_spawns = excluded.limit_spawns,
    spent_turns = excluded.spent_turns, spent_tokens = excluded.spent_tokens,
    spent_usd = excluded.spent_usd, spent_spawns = excluded.spent_spawns,
    held_turns = excluded.held_turns, held_tokens = excluded.held_tokens, held_usd = excluded.held_usd,
    seconds = excluded.seconds, top = excluded.top, session = excluded.session
"""
_BELOW = """
WITH RECURSIVE below (id) AS (
    SELECT id FROM gen_task WHERE id = $1 OR paid_by = $1
    UNION SELECT t.id FROM gen_task t JOIN below b ON t.parent = b.id
)
SELECT t.id, t.last_seq, s.body FROM below b JOIN gen_task t ON t.id = b.id
    LEFT JOIN gen_snapshot s ON s.task = t.id AND s.fold = $2
"""
_EVENTS = "SELECT seq, at, body FROM gen_journal WHERE task = $1 AND seq > $2 AND seq <= $3 ORDER BY seq"
_PAY = "UPDATE gen_task SET paid_by = $2 WHERE id = $1"
_COUNTED = "UPDATE gen_task SET counted = true WHERE id = ANY($1::text[])"
_FREE = """
SELECT 1 FROM gen_account WHERE top = ANY($1::text[])
UNION ALL SELECT 1 FROM gen_account WHERE session <> '' AND session = ANY($1::text[]) LIMIT 1
"""
_THERE = "SELECT 1 FROM gen_account WHERE id = $1"
_SPENT = """
UPDATE gen_account SET spent_turns = $2, spent_tokens = $3, spent_usd = $4, spent_spawns = $5 WHERE id = $1
"""
_NOTIFY = "SELECT pg_notify($1, $2)"
_TREE = "SELECT id FROM gen_account WHERE top = $1"
_NEWS = "ledger"
_LOOK_SECONDS = 2.0
"""Between two looks for new limits without a notification."""


class PostgresLedger:
    """`Ledger` in two tables beside the journal."""

    def __init__(self, link: Pool, ear: NotifyListener, note: Callable[[], None]) -> None:
        self._link = link
        self._ear = ear
        self._note = note
        """Announces a change in this process."""
        self._free: set[str] = set()
        """The tops of trees, and the sessions, that had no account when that was last looked up."""
        self._routes: dict[str, SpendingPath] = {}
        """The routes of tasks that are leased here."""

    async def left(self, path: Sequence[str]) -> Amounts | None:
        """What is left for a call of the first on a path; None: nothing limits it."""
        if await self.is_free(path):
            return None
        accounts = await self._link.patiently(lambda connection, _: _on(connection, path))
        limits = any(accounts[each].limits for each in path if each in accounts)
        return left_for(accounts, path) if limits else None

    async def hold(self, hold: Hold) -> Verdict:
        """Take a hold if the call may be made now."""
        if await self.is_free(hold.path):
            return Granted(bounded=False)

        async def step(connection: Connection, _again: bool) -> Verdict:
            async with connection.transaction():
                await connection.fetch(_LOCK, hold.path)
                return await _taken(connection, hold)

        verdict = await self._link.patiently(step)
        if isinstance(verdict, Granted):
            self._note()
        return verdict

    async def holds(self, task: str) -> bool:
        """Whether a task has a hold."""
        return bool(await self._link.fetch(_HOLDS, task))

    async def release(self, hold: Hold) -> None:
        """Drop a hold for a call that was not made."""
        dropped = await self._link.fetch(_RELEASE, hold.task, hold.owner)
        if dropped[0][0]:
            self._note()

    async def limit(self, account: str, budget: Budget) -> None:
        """Set, raise or lower the budget of a task or a session."""
        check_budget(budget)
        limits = limited(budget)

        async def step(connection: Connection, _again: bool) -> None:
            async with connection.transaction():
                await connection.execute(_LOCK_ALL)
                route = await _route(connection, account)
                await _learn(connection, route.unread)
                accounts = await _on(connection, route.path or (account,))
                known = accounts.get(account) or await _counted(connection, account)
                check_limits(accounts, known, limits)
                limited_anew = replace(known, limits=limits, seconds=lasting_seconds(budget))
                await _put(connection, limited_anew, route)
                await connection.fetch(_NOTIFY, WAKE, _NEWS)

        await self._link.patiently(step)
        self._changed()

    async def balance(self, account: str) -> Balance | None:
        """An account as it is now; None when the task has none."""

        async def step(connection: Connection, _again: bool) -> Balance | None:
            route = await _route(connection, account)
            accounts = await _on(connection, route.path or (account,))
            return balance_of(accounts, accounts[account]) if account in accounts else None

        return await self._link.patiently(step)

    async def recount(self, accounts: Sequence[str] | None = None) -> Sequence[str]:
        """Read from the journals what was spent (by default from all accounts); those that had it wrong."""

        async def step(connection: Connection, _again: bool) -> list[str]:
            async with connection.transaction():
                await connection.execute(_LOCK_ALL)
                every = await connection.fetch("SELECT id FROM gen_account ORDER BY id")
                wanted = [row[0] for row in every if accounts is None or row[0] in accounts]
                return [each for each in wanted if await _recounted(connection, each)]

        return await self._link.patiently(step)

    async def is_free(self, path: Sequence[str]) -> bool:
        """Whether no account limits this path, as far as this process knows."""
        if not path:
            return True
        if not self._ear.listens or not await self._ear.quiet(_NEWS, _NEWS, _LOOK_SECONDS):
            self._free.clear()  # a listener is not started for this alone
        tops = {*path[-2:]}  # the last one is the top of the tree, or the session, and then it is before that
        if not tops <= self._free:
            if await self._link.fetch(_FREE, list(tops)):
                return False
            self._free |= tops
        return True

    async def route(self, task: str) -> SpendingPath:
        """The accounts that a task spends from."""
        if task in self._routes:
            return self._routes[task]
        return await self._link.patiently(lambda connection, _: _route(connection, task))

    def keep(self, route: SpendingPath) -> None:
        """Keep the route of a task that is leased here."""
        self._routes[route.tasks[0]] = route

    def forget(self, task: str) -> None:
        """Drop the route of a task whose lease has ended."""
        self._routes.pop(task, None)

    async def route_below(self, state: Task, session: str) -> SpendingPath:
        """The accounts that a new task spends from, its own included."""
        parent = await self.route(state.parent) if state.parent is not None else SpendingPath(())
        if parent.unread:
            parent = await self._learned(parent)
        return SpendingPath((state.id, *parent.tasks), parent.session if parent.tasks else session)

    async def is_unlimited(self, state: Task, route: SpendingPath) -> bool:
        """Whether no account limits a new task."""
        return not limited(state.terms.budget) and await self.is_free(route.path[1:])

    async def create(
        self, connection: Connection, again: bool, new: "NewTaskRow", route: SpendingPath
    ) -> bool:
        """Write a new task with its account in the transaction that is open; False when its id is taken.

        BudgetSpent when too little is left for it.
        """
        await connection.fetch(_LOCK, route.path[1:])
        if again and await new.written(connection):
            return True
        account = account_of(new.state, route.path[1:])
        check_begins(await _on(connection, account.path), account, spawned=True)
        written = await new.write(connection, False)
        if written and account.limits:
            await _put(connection, account, route)
            await connection.fetch(_NOTIFY, WAKE, _NEWS)
        return written

    def created(self, state: Task, route: SpendingPath) -> None:
        """Keep the route of a new task that is leased here."""
        self.keep(route)
        if limited(state.terms.budget):
            self._free -= {*route.path[-2:]}

    async def taken(self, route: SpendingPath, session: str | None) -> SpendingPath:
        """The route of a task that was leased just now; it moves to `session` if one is named."""
        if session is not None and session != route.session:
            route = await self._moved(route, session)
        if route.unread:
            route = await self._learned(route)
        self.keep(route)
        return route

    async def going_on(self, before: Task, after: Task) -> None:
        """Open the account of a task that goes on; BudgetSpent when too little is left for it."""
        if not goes_on(before, after):
            return
        route = await self.route(after.id)
        if not limited(after.terms.budget) and await self.is_free(route.path):
            return

        async def step(connection: Connection, _again: bool) -> None:
            async with connection.transaction():
                known = await connection.fetchval(_THERE, after.id) is not None
                if not known and limited(after.terms.budget):
                    await connection.execute(_LOCK_ALL)
                await connection.fetch(_LOCK, route.path)
                accounts = await _on(connection, route.path)
                account = accounts.get(after.id)
                if account is None and limited(after.terms.budget):
                    account = await _counted(connection, after.id)
                account = again(account, before, after, route.path[1:])
                check_begins(accounts, account, spawned=False)
                if account.limits:
                    await _put(connection, account, route)
                    await connection.fetch(_NOTIFY, WAKE, _NEWS)

        await self._link.patiently(step)

    async def adopted(self, task: str) -> None:
        """Count the cost of an imported task."""
        route = await self._link.patiently(lambda connection, _: _route(connection, task))
        if not await self.is_free(route.path):
            await self.recount(route.path)

    async def _moved(self, route: SpendingPath, session: str) -> SpendingPath:
        """Charge a tree, with all that it has cost, to another session."""
        moved = route._replace(session=session)

        async def step(connection: Connection, _again: bool) -> None:
            async with connection.transaction():
                await connection.execute(_LOCK_ALL)
                await connection.execute(_PAY, route.tasks[-1], session or None)
                for row in await connection.fetch(_TREE, route.tasks[-1]):
                    accounts = await _on(connection, [row[0]])
                    await _put(connection, accounts[row[0]], await _route(connection, row[0]))
                await _recounted(connection, session)

        await self._link.patiently(step)
        return moved

    async def _learned(self, route: SpendingPath) -> SpendingPath:
        """Open accounts for tasks that have a budget in their journal only."""

        async def step(connection: Connection, _again: bool) -> None:
            async with connection.transaction():
                await connection.execute(_LOCK_ALL)
                await _learn(connection, route.unread)

        await self._link.patiently(step)
        self._changed()
        return route._replace(unread=())

    def _changed(self) -> None:
        self._free.clear()
        self._note()


def route_from(told: str | None) -> SpendingPath:
    """A route from its JSON; the parents of imported tasks may form a cycle."""
    rows: list[tuple[str, str, bool]] = msgspec.json.decode(told or "[]", type=list[tuple[str, str, bool]])
    tasks = {task: (session, counted) for task, session, counted in reversed(rows)}
    order = tuple(dict.fromkeys(task for task, _, _ in rows))
    session = tasks[order[-1]][0] if order else ""
    return SpendingPath(order, session, tuple(task for task in order if not tasks[task][1]))


async def delete_accounts(connection: Connection, tasks: Sequence[str]) -> None:
    """Delete the accounts of tasks in the open transaction; accounts above keep what they cost."""
    await connection.fetch(_DROP, tasks)
    await connection.execute("DELETE FROM gen_account WHERE id = ANY($1::text[])", tasks)


async def _route(connection: Connection, task: str) -> SpendingPath:
    return route_from(await connection.fetchval(_UP, storable(task)))


async def _on(connection: Connection, path: Sequence[str]) -> dict[str, Account]:
    """The accounts on a path, and every open one below those that have a limit."""
    return {row[0]: account_from(row) for row in await connection.fetch(_ON, list(path))}


async def _taken(connection: Connection, hold: Hold) -> Verdict:
    """Take a hold in the open transaction; it replaces an earlier one of its task."""
    accounts = await _on(connection, hold.path)
    mine = await connection.fetchrow(_HELD, hold.task, hold.owner)
    if mine is None:
        raise lease_lost(hold.task)
    held = None if mine[0] is None else mine
    if held is not None:
        for each in set(hold.path) & accounts.keys():
            accounts[each] = with_hold(accounts[each], need_of(held), -1)
    verdict = decide(accounts, hold)
    if isinstance(verdict, Granted) and verdict.bounded:
        need = amounts(hold.need, CALL)
        if not await connection.fetch(_HOLD, hold.task, hold.owner, list(hold.path), *need):
            raise lease_lost(hold.task)
    elif held is not None:
        await connection.fetch(_DROP, [hold.task])
    if isinstance(verdict, Wait):
        holders = [row[0] for row in await connection.fetch(_HOLDERS, verdict.account)]
        return replace(verdict, holders=tuple(each for each in holders if each != hold.task))
    return verdict


async def _learn(connection: Connection, tasks: Sequence[str]) -> None:
    for task in tasks:
        state = (await _below(connection, task)).get(task)
        if state is not None and limited(state.terms.budget) and not await _on(connection, [task]):
            account = replace(await _counted(connection, task), limits=limited(state.terms.budget))
            await _put(connection, account, await _route(connection, task))
    if tasks:
        await connection.execute(_COUNTED, list(tasks))
        await connection.fetch(_NOTIFY, WAKE, _NEWS)


async def _recounted(connection: Connection, account: str) -> bool:
    known = (await _on(connection, [account])).get(account)
    if known is None:
        return False
    spent = (await _counted(connection, account)).spent
    await connection.execute(_SPENT, account, *amounts(spent))
    return amounts(spent) != amounts(known.spent)


async def _counted(connection: Connection, account: str) -> Account:
    """A new account without limits; what was spent and is held below it is counted."""
    tasks, spent = await _below(connection, account), dict[str, int]()
    for task in tasks.values():
        spent = plus(spent, plus(cost_of(task), {"spawns": int(task.id != account)}))
    state = tasks.get(account)
    route = await _route(connection, account)
    found = Account(account) if state is None else account_of(state, route.path[1:])
    found = replace(found, limits={}, spent=spent)
    for row in await connection.fetch(_HOLDERS, account):
        found = with_hold(found, need_of(row[1:]))
    return found


async def _below(connection: Connection, account: str) -> dict[str, Task]:
    """A task and its descendants, or all tasks that a session pays for, as far as their facts can be read."""
    found: dict[str, Task] = {}
    for task, last, body in await connection.fetch(_BELOW, account, FOLD):
        state = snapshot_of(body)
        known = state.seq if state is not None else 0
        newer: list[StoredFact] = []
        if known < last:
            newer = [(row[0], row[1], row[2]) for row in await connection.fetch(_EVENTS, task, known, last)]
        state, _ = folded(task, state, newer, last)
        if state is not None:
            found[task] = state
    return found


async def _put(connection: Connection, account: Account, route: SpendingPath) -> None:
    """Write an account with its present path; one that is not a task's is a session's."""
    account = replace(account, path=route.path[1:])
    place = (route.tasks[-1], route.session) if route.tasks else (account.id, account.id)
    await connection.execute(_PUT, *values_of(account), *place)
