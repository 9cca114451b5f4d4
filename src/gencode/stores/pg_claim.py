"""Claims a waiting task in Postgres and writes its first events, in one statement.

To take it first and to write afterwards are two ways to the server, and two times to wait for its disk,
before an agent says its first word. Nothing is given up for that: whoever begins has seen the task, and it is
begun only as it was seen, and only if nobody's lease runs.
"""

from collections.abc import Sequence
from typing import Any

from gencode.core.events import DurableFact, Event, kind_of
from gencode.core.task import Task
from gencode.journal.store import Lease
from gencode.stores.journal_rules import extended_journal, lease_held, lease_lost, task_missing
from gencode.stores.ledger_rows import SpendingPath
from gencode.stores.pg_ledger import completed, route_from
from gencode.stores.pg_pool import Connection, storable

_BEGIN = completed("""
WITH begun AS (
    UPDATE gen_task SET
        epoch = epoch + 1, owner = $2, wish = CASE WHEN dispatch IS NULL THEN 0 ELSE wish END,
        lease_until = clock_timestamp() + make_interval(secs => $4),
        last_seq = $6, model = $7, updated_at = $8, status = $9
    WHERE id = $1 AND last_seq = $5
      AND (lease_until IS NULL OR owner = $2 OR owner = $3 OR lease_until <= clock_timestamp())
    RETURNING id, epoch
), written AS (
    INSERT INTO gen_journal (task, seq, epoch, kind, body, at)
    SELECT b.id, e.seq, b.epoch, e.kind, e.body, e.at
    FROM begun b, unnest($10::bigint[], $11::text[], $12::text[], $13::text[]) AS e (seq, kind, body, at)
    ORDER BY e.seq
)
SELECT epoch, {ROUTE} FROM begun
""")
_MINE = completed("""
SELECT t.epoch, {ROUTE}
FROM gen_task t JOIN gen_journal e ON e.task = t.id AND e.seq = $3 AND e.epoch = t.epoch
WHERE t.id = $1 AND t.owner = $2 AND t.last_seq = $3 AND e.at = $4
""")
_LAST_SEQ = "SELECT last_seq FROM gen_task WHERE id = $1"


class TaskClaim:
    """The claim of a task that was `seen` waiting, and its first events, by `owner`."""

    def __init__(self, seen: Task, owner: str, facts: Sequence[DurableFact], lease_seconds: float) -> None:
        self._seen = seen
        self._owner = owner
        self._growth = extended_journal(seen, facts)
        self._lease_seconds = lease_seconds
        self.instead_of: str | None = None
        """An owner in whose place it is begun."""
        self.route = SpendingPath(())
        """What it spends from, once it is begun."""

    async def write(self, connection: Connection, again: bool) -> tuple[Lease, list[Event]]:
        """Begin it; UserMistake while somebody else's lease runs, Fenced when it is not as it was seen."""
        seen, state, events = self._seen, self._growth.state, self._growth.events
        row: tuple[Any, ...] = (
            seen.id,
            self._owner,
            self.instead_of,
            self._lease_seconds,
            seen.seq,
            state.seq,
            storable(state.run.model),
            events[-1].at,
            state.status,
        )
        facts: tuple[Any, ...] = (
            [each.seq for each in events],
            [kind_of(each.fact) for each in events],
            [body.decode() for body in self._growth.bodies],
            [each.at for each in events],
        )
        begun = await connection.fetchrow(_BEGIN, *row, *facts)
        if begun is None and again:
            begun = await connection.fetchrow(_MINE, seen.id, self._owner, state.seq, events[-1].at)
        if begun is None:
            last = await connection.fetchval(_LAST_SEQ, seen.id)
            if last is None:
                raise task_missing(seen.id)
            raise lease_held(seen.id) if last == seen.seq else lease_lost(seen.id)
        self.route = route_from(begun[1])
        return Lease(self._owner, begun[0], state, self.route.path), events
