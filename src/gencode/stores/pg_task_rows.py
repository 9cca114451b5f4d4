"""Writes or deletes a whole task in Postgres at once, also together with its place in the queue."""

import re
from functools import lru_cache
from typing import Any

import asyncpg

from gencode.budgets.limits import cost_of
from gencode.core.task import Task
from gencode.stores.journal_rules import Growth, task_missing, tasks_running
from gencode.stores.ledger_tables import CALL, Accounts, SpendingPath, amounts
from gencode.stores.pg_append import fact_columns
from gencode.stores.pg_ledger import completed
from gencode.stores.pg_pool import Connection, PostgresStatements, storable
from gencode.stores.task_fold import FOLD, snapshot

# One statement, so that a new task costs one round trip.
_NEW = completed("""
WITH new AS (
    INSERT INTO gen_task (id, agent, cwd, conversation, parent, status, model, created_at, updated_at,
                          ended_at, epoch, owner, lease_until, last_seq, received, dispatch, dispatched_at,
                          paid_by, counted)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
            CASE WHEN $12::text IS NULL THEN NULL ELSE clock_timestamp() + make_interval(secs => $13) END,
            $14, $15, $16, CASE WHEN $16::bytea IS NULL THEN NULL ELSE clock_timestamp() END, $23, $24)
    {twice} RETURNING id, epoch, last_seq
), written AS (
    INSERT INTO gen_journal (task, seq, epoch, kind, body, at)
    SELECT n.id, e.seq, n.epoch, e.kind, e.body, e.at
    FROM new n, unnest($17::bigint[], $18::text[], $19::text[], $20::text[]) AS e (seq, kind, body, at)
    ORDER BY e.seq
), kept AS (
    INSERT INTO gen_snapshot (task, seq, fold, body) SELECT n.id, n.last_seq, $21, $22 FROM new n
    ON CONFLICT (task) DO UPDATE SET seq = excluded.seq, fold = excluded.fold, body = excluded.body
), {DELTAS} AS (
    SELECT c.id, $26::bigint, $27::bigint, $28::bigint, 1, 0, 0, 0, 0, false
    FROM new n, unnest($25::text[]) AS c (id)
),
{CHANGED}
SELECT id FROM new
""")
_TASK = _NEW.replace("{twice}", "ON CONFLICT (id) DO NOTHING")
_PART = _NEW.replace("{twice}", "").rpartition("SELECT")[0].strip()
_SAME = "SELECT 1 FROM gen_task WHERE id = $1 AND owner IS NOT DISTINCT FROM $2 AND created_at = $3"
_BELOW = """
WITH RECURSIVE below (id) AS (
    SELECT $1::text COLLATE "C" UNION SELECT t.id FROM gen_task t JOIN below b ON t.parent = b.id
)
SELECT t.id, t.owner, t.dispatch IS NOT NULL FROM gen_task t
WHERE t.id IN (SELECT id FROM below) ORDER BY t.created_at, t.number FOR UPDATE
"""
_GONE = (
    "DELETE FROM gen_message WHERE task = ANY($1::text[])",
    "DELETE FROM gen_snapshot WHERE task = ANY($1::text[])",
    "DELETE FROM gen_journal WHERE task = ANY($1::text[])",
    "DELETE FROM gen_task WHERE id = ANY($1::text[])",
)


class NewTaskRow:
    """A new task with its whole journal, leased to `owner` or to nobody; `dispatch` is for the workers."""

    def __init__(
        self,
        growth: Growth,
        lease_seconds: float,
        owner: str | None = None,
        dispatch: bytes | None = None,
        route: SpendingPath | None = None,
    ) -> None:
        """Its cost is added along its `route`; without one it is counted later."""
        self._growth = growth
        self._route = route
        self._lease_seconds = lease_seconds
        self._owner = owner
        self._dispatch = dispatch

    @property
    def task(self) -> str:
        """Its id."""
        return self._growth.state.id

    @property
    def state(self) -> Task:
        """The task."""
        return self._growth.state

    async def write(self, connection: Connection, again: bool) -> bool:
        """Write it in one statement; False when another task has its id."""
        if await connection.fetchval(_TASK, *self._values()) is not None:
            return True
        return again and await self.written(connection)

    async def written(self, connection: Connection) -> bool:
        """Whether exactly this task was written before."""
        state = self._growth.state
        return bool(await connection.fetchval(_SAME, state.id, self._owner, state.created_at))

    def parts(self) -> tuple[str, tuple[Any, ...]]:
        """The beginning of a statement that also writes it, and the values of that.

        When its id is taken by another one, the statement fails.
        """
        return _PART, self._values()

    def _values(self) -> tuple[Any, ...]:
        state, events = self._growth.state, self._growth.events
        row: tuple[Any, ...] = (
            state.id,
            storable(state.agent),
            storable(state.cwd),
            state.conversation,
            None if state.parent is None else storable(state.parent),
            state.status,
            storable(state.run.model),
            state.created_at,
            events[-1].at,
            state.end.at,
            0 if self._owner is None else 1,
            self._owner,
            self._lease_seconds,
            state.seq,
            state.delivered.mailed,
            self._dispatch,
        )
        route = self._route
        paid = (route.session or None) if route is not None and len(route.tasks) == 1 else None
        above = list(route.path[1:]) if route is not None else []
        cost = amounts(cost_of(state), CALL)
        return (
            *row,
            *fact_columns(self._growth),
            FOLD,
            snapshot(state),
            paid,
            route is not None,
            above,
            *cost,
        )


async def delete(connection: Connection, task: str) -> list[str]:
    """Delete a task and its descendants in the open transaction; refused while any of them is running."""
    rows = await connection.fetch(_BELOW, task)
    if not rows:
        raise task_missing(task)
    if owned := [row[0] for row in rows if row[1] is not None or row[2]]:
        raise tasks_running(owned)
    ids: list[str] = [row[0] for row in rows]
    await Accounts(PostgresStatements(connection)).delete(ids)
    for statement in _GONE:
        await connection.execute(statement, ids)
    return ids


_PARAMETER = re.compile(r"\$(\d+)")
_BEGINS = re.compile(r"\s*WITH\s(?!\s*RECURSIVE\b)", re.IGNORECASE)


class NotCombinable(Exception):
    """The statement cannot be combined with the insert of a task; nothing was written."""


class EnqueueConnection:
    """A connection whose first statement also inserts a task, so that both are written or neither.

    A transaction would take four round trips; one statement is a transaction by itself. `taken`: nothing was
    written, because another task has the id.
    """

    def __init__(self, connection: Connection, new: NewTaskRow) -> None:
        self._connection = connection
        self._new = new
        self.sent = False
        self.taken = False

    async def fetch(self, statement: str, *values: object) -> list[Any]:
        """The rows of a statement; the first one inserts the task as well."""
        if self.sent:
            return await self._connection.fetch(statement, *values)
        head, own = self._new.parts()
        whole = _joined(head, statement, len(own))
        if whole is None:
            raise NotCombinable
        self.sent = True
        try:
            return await self._connection.fetch(whole, *own, *values)
        except asyncpg.UniqueViolationError as twice:
            if getattr(twice, "table_name", "") != "gen_task":
                raise
            self.taken = True
            return []


@lru_cache(maxsize=16)
def _joined(head: str, statement: str, count: int) -> str | None:
    """The two statements as one; the values of the first come first."""
    begins = _BEGINS.match(statement)
    if begins is None:
        return None
    rest = _PARAMETER.sub(lambda found: f"${int(found[1]) + count}", statement[begins.end() :])
    return f"{head}, {rest}"
