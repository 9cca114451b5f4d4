"""The ledger in Postgres: what is particular to a database that is a round trip away.

Calls that share an account are one after the other: each locks the accounts on its path, in the order of
their ids. What a commit of the journal changes is a part of its one statement. Of paths that nothing limits
this process remembers so, until a notification says that an account was written.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from gencode.budgets.ledger import Granted, Hold, Verdict, account_of, goes_on
from gencode.budgets.limits import Amounts, limited
from gencode.core.budget import Budget
from gencode.core.task import Task
from gencode.stores.ledger_tables import LIMITS, UP, Accounts, LedgerTable, SpendingPath, route_of
from gencode.stores.pg_pool import (
    Connection,
    NotifyListener,
    Pool,
    PostgresDatabase,
    PostgresStatements,
    storable,
)
from gencode.stores.sql_dialect import Statements

if TYPE_CHECKING:
    from gencode.stores.pg_task_rows import NewTaskRow

_ROUTE = UP.replace(
    "{then}", "SELECT json_agg(json_build_array(id, coalesce(paid_by, ''), counted) ORDER BY depth) FROM up"
)
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
_FREE = """
SELECT 1 FROM gen_account WHERE top = ANY($1::text[])
UNION ALL SELECT 1 FROM gen_account WHERE session <> '' AND session = ANY($1::text[]) LIMIT 1
"""
_LOOK_SECONDS = 2.0
"""Between two looks for new limits without a notification."""


def completed(statement: str) -> str:
    """A statement with its shared parts filled in: the route of the task $1, and changes of accounts."""
    parts = {"{ROUTE}": f"({_ROUTE})", "{DELTAS}": _DELTAS, "{DROPPED}": _DROPPED, "{CHANGED}": _CHANGED}
    for place, part in parts.items():
        statement = statement.replace(place, part)
    return statement


class PostgresLedger(LedgerTable):
    """`Ledger` in tables beside the journal."""

    def __init__(self, link: Pool, ear: NotifyListener, note: Callable[[], None]) -> None:
        """`note` announces a change; whoever waits for an account is not woken by calls that wait, too."""
        super().__init__(PostgresDatabase(link, lambda: None))
        self._link = link
        self._ear = ear
        self._note = note
        self._free: set[str] = set()
        """The tops of trees, and the sessions, that had no account when that was last looked up."""
        self._routes: dict[str, SpendingPath] = {}
        """The routes of tasks that are leased here."""

    async def left(self, path: Sequence[str]) -> Amounts | None:
        """What is left for a call of the first on a path; None: nothing limits it."""
        return None if await self.is_free(path) else await super().left(path)

    async def hold(self, hold: Hold) -> Verdict:
        """Take a hold if the call may be made now."""
        if await self.is_free(hold.path):
            return Granted(bounded=False)
        verdict = await super().hold(hold)
        if isinstance(verdict, Granted):
            self._note()
        return verdict

    async def release(self, hold: Hold) -> None:
        """Drop a hold for a call that was not made."""
        await super().release(hold)
        self._note()

    async def limit(self, account: str, budget: Budget) -> None:
        """Set, raise or lower the budget of a task or a session."""
        await super().limit(account, budget)
        self._changed()

    async def is_free(self, path: Sequence[str]) -> bool:
        """Whether no account limits this path, as far as this process knows."""
        if not path:
            return True
        if not self._ear.listens or not await self._ear.quiet(LIMITS, LIMITS, _LOOK_SECONDS):
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
        return await self._database.read(lambda statements: Accounts(statements).route(storable(task)))

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
        if again and await new.written(connection):
            return True
        accounts = Accounts(PostgresStatements(connection))
        await accounts.check_created(new.state, route)
        written = await new.write(connection, False)
        if written and limited(new.state.terms.budget):
            await accounts.put(account_of(new.state, route.path[1:]), route)
        return written

    def created(self, state: Task, route: SpendingPath) -> None:
        """Keep the route of a new task that is leased here."""
        self._routes[state.id] = route
        if limited(state.terms.budget):
            self._free -= {*route.path[-2:]}

    async def taken(self, route: SpendingPath, session: str | None) -> SpendingPath:
        """The route of a task that was leased just now; it moves to `session` if one is named."""
        if session is not None and session != route.session:
            before = route
            route = await self._database.transaction(
                lambda statements: Accounts(statements).move(before, session)
            )
        if route.unread:
            route = await self._learned(route)
        self._routes[route.tasks[0]] = route
        return route

    async def going_on(self, before: Task, after: Task) -> None:
        """Open the account of a task that goes on; BudgetSpent when too little is left for it."""
        if not goes_on(before, after):
            return
        route = await self.route(after.id)
        if not limited(after.terms.budget) and await self.is_free(route.path):
            return

        async def resume(statements: Statements) -> None:
            accounts = Accounts(statements)
            account = await accounts.check_resumed(before, after, route)
            if account is not None:
                await accounts.put(account, route)

        await self._database.transaction(resume)

    async def adopted(self, task: str) -> None:
        """Count the cost of an imported task."""
        route = await self.route(task)
        if not await self.is_free(route.path):
            await self._database.transaction(lambda statements: Accounts(statements).recount(route.path))

    async def _learned(self, route: SpendingPath) -> SpendingPath:
        """Open accounts for tasks that have a budget in their journal only."""
        await self._database.transaction(lambda statements: Accounts(statements).learn(route))
        self._changed()
        return route._replace(unread=())

    def _changed(self) -> None:
        self._free.clear()
        self._note()


def route_from(told: str | None) -> SpendingPath:
    """A route from its JSON."""
    return route_of(msgspec.json.decode(told or "[]", type=list[tuple[str, str, bool]]))
