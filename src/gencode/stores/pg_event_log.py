"""The global event log in Postgres: the events of all tasks in one order.

Every fact draws a number when it is written, and transactions are committed in another order than they drew:
a number that is missing may still appear. Whoever is about to bring it holds a lock on the table until its
transaction ends. So nothing behind a missing number is told before all who held such a lock, when it was
first seen to be missing, have ended. What others do in the same server, however long, keeps nobody waiting.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from gencode.core.events import unicode_text
from gencode.core.messages import Usage
from gencode.core.status import Status
from gencode.journal.global_log import END, MOST, MOST_BYTES, LogEntry, LogPosition, found
from gencode.stores.pg_pool import Connection, Pool, storable

LOOK_SECONDS = 0.01
LOOKS = 5
"""Between two looks for a missing number."""

_END = "SELECT place, task, seq FROM gen_journal ORDER BY place DESC LIMIT 1"
_MARK = "SELECT place, task, seq FROM gen_journal WHERE task = $1 AND seq = $2"
_AFTER = """
SELECT place, task, seq, at, body FROM (
    SELECT *, sum(octet_length(body)) OVER (ORDER BY place) - octet_length(body) AS before_it
    FROM (SELECT * FROM gen_journal WHERE place > $1 AND place <= $2 ORDER BY place LIMIT $3) AS part
) AS measured WHERE before_it <= $4 ORDER BY place
"""
_OF_TASK = """
SELECT place, task, seq, at, body FROM (
    SELECT *, sum(octet_length(body)) OVER (ORDER BY seq) - octet_length(body) AS before_it
    FROM (
        SELECT * FROM gen_journal WHERE task = $1 AND seq > $2 AND place <= $3 ORDER BY seq LIMIT $4
    ) AS part
) AS measured WHERE before_it <= $5 ORDER BY seq
"""
_BEFORE = """
SELECT place, task, seq, at, body FROM gen_journal WHERE task = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3
"""
_WRITERS = """
SELECT virtualtransaction FROM pg_catalog.pg_locks
WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND relation = 'gen_journal'::regclass
  AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
"""
_COUNTS = "SELECT status, count(*) FROM gen_task WHERE $1::text IS NULL OR cwd = $1 GROUP BY status"
# Postgres reads no JSON with zero characters; a one takes as much room, also behind an escaped backslash.
_SPENT = r"""
SELECT minute, sum(coalesce((usage ->> 'inputTokens')::bigint, 0))::bigint,
       sum(coalesce((usage ->> 'outputTokens')::bigint, 0))::bigint,
       sum(coalesce((usage ->> 'cachedTokens')::bigint, 0))::bigint,
       sum((usage ->> 'usd')::float8)
FROM (
    SELECT left(e.at, 16) AS minute, replace(e.body, '\u0000', '\u0001')::json #> '{message,usage}' AS usage
    FROM gen_task t JOIN gen_journal e ON e.task = t.id
    WHERE t.updated_at >= $1 AND ($2::text IS NULL OR t.cwd = $2)
      AND e.kind = 'MessageAdded' AND e.at >= $1
) AS used GROUP BY minute ORDER BY minute
"""
_IF_JSON = ("e.kind = 'MessageAdded'", "e.kind = 'MessageAdded' AND e.body IS JSON")
"""From this version on Postgres can pass over what a hand has damaged."""
_SPENT_IF_JSON = _SPENT.replace(*_IF_JSON)
IS_JSON_SINCE = 160_000


class PostgresEventLog:
    """The `GlobalLog` of a database; one object for all followers in this process."""

    def __init__(self, link: Pool) -> None:
        self._link = link
        self._whole = 0
        """No event can appear at or below this place any more."""
        self._waiting: tuple[int, frozenset[str]] | None = None
        """The place up to which that will hold once these writers have ended."""
        self._looking = asyncio.Lock()

    async def end(self) -> LogPosition | None:
        """The mark of the newest fact with no possible gap before it; None when there is none."""
        rows = await self._link.fetch(_END)
        if not rows:
            return None
        while self._whole < rows[0][0]:
            if not await self._is_whole(rows[0][0]):
                await asyncio.sleep(LOOK_SECONDS)
        return LogPosition(*rows[0])

    async def mark(self, task: str, seq: int) -> LogPosition | None:
        """The mark of a fact; None when it does not exist (any more)."""
        rows = await self._link.fetch(_MARK, storable(unicode_text(task)), seq)
        return LogPosition(*rows[0]) if rows else None

    async def after(
        self, mark: LogPosition | None, upto: int = END, most: int = MOST
    ) -> list[LogEntry] | None:
        """The facts after a mark and up to a place, as far as there can be no gap between them."""
        first = mark.place if mark else 0
        looks = 0
        while True:
            rows = await self._link.fetch(_AFTER, first, upto, most, MOST_BYTES)
            whole = rows if upto <= self._whole else self._without_gap(rows, first)
            if len(whole) == len(rows):
                break
            if not await self._is_whole(rows[-1][0]):
                looks += 1
                if whole or looks >= LOOKS:
                    break
                await asyncio.sleep(LOOK_SECONDS)
        return [found(*row) for row in whole]

    async def of_task(self, task: str, after: int, upto: int = END, most: int = MOST) -> list[LogEntry]:
        """The facts of one task after a number, in order, up to a place in the log."""
        return [found(*row) for row in await self._link.fetch(_OF_TASK, task, after, upto, most, MOST_BYTES)]

    async def before(self, task: str, seq: int, most: int) -> list[LogEntry]:
        """The last facts of a task before a number, in order."""
        rows = await self._link.fetch(_BEFORE, task, min(seq, END), most)
        return [found(*row) for row in reversed(rows)]

    async def counts(self, cwd: str | None) -> Mapping[Status, int]:
        """The number of tasks by status, in one folder or everywhere."""
        return {Status(row[0]): row[1] for row in await self._link.fetch(_COUNTS, _folder(cwd))}

    async def spent(self, since: str, cwd: str | None) -> list[tuple[str, Usage]]:
        """What models used since a moment, by minutes."""

        async def step(connection: Connection, _again: bool) -> list[Any]:
            version = int(await connection.fetchval("SHOW server_version_num"))
            statement = _SPENT_IF_JSON if version >= IS_JSON_SINCE else _SPENT
            return await connection.fetch(statement, since, _folder(cwd))

        return [(row[0], Usage(*row[1:])) for row in await self._link.patiently(step)]

    def _without_gap(self, rows: Sequence[Any], first: int) -> list[Any]:
        """The rows before the first missing number that may still appear."""
        whole: list[Any] = []
        expected = max(first, self._whole) + 1
        for row in rows:
            if row[0] > self._whole:
                if row[0] != expected:
                    break
                expected += 1
            whole.append(row)
        if first <= self._whole:
            self._whole = max(self._whole, expected - 1)
        return whole

    async def _is_whole(self, place: int) -> bool:
        """Whether all transactions that could still write at or below a place have ended."""
        async with self._looking:  # a list of writers must not be older than the one it is held against
            return await self._looked(place)

    async def _looked(self, place: int) -> bool:
        writers = frozenset(row[0] for row in await self._link.fetch(_WRITERS))
        if self._waiting is None:
            self._waiting = (place, writers)
        upto, waiting = self._waiting
        if waiting & writers:
            return False
        self._whole = max(self._whole, upto)
        self._waiting = None
        return True


def _folder(cwd: str | None) -> str | None:
    return None if cwd is None else storable(unicode_text(cwd))
