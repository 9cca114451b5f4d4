"""Appends events to the Postgres journal in batches: all that wait go in one statement.

One statement moves every task on that is still its writer's, and writes the facts of exactly those: an append
whose lease is gone fails alone. While one statement is on its way the next ones gather, so that a thousand
agents cost few commits, and a single one waits for nobody.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from gencode.budgets.ledger import settles
from gencode.budgets.limits import cost_between
from gencode.core.errors import GenCodeError, StoreTrouble
from gencode.core.events import DurableFact, Event, kind_of
from gencode.core.task import Task
from gencode.journal.change_notifier import ChangeNotifier
from gencode.journal.store import Lease
from gencode.stores.journal_rules import Growth, extended_journal, lease_lost
from gencode.stores.ledger_tables import CALL, amounts
from gencode.stores.pg_ledger import completed
from gencode.stores.pg_pool import Connection, Pool, storable
from gencode.stores.task_fold import FOLD, SNAPSHOT_EVERY, snapshot

MOST_TOGETHER = 64
MOST_ON_THE_WAY = 2
"""Statements that may be in flight at once; the next batch gathers meanwhile."""

_FAULT = "A fault in GenCode kept this from being written."
_APPEND = completed("""
WITH told AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::text[],
                         $7::text[], $8::text[], $9::text[], $10::bigint[], $11::boolean[], $12::text[])
        AS t (id, epoch, owner, before, seq, model, at, status, ended, received, last, snapshot)
), moved AS (
    UPDATE gen_task g SET
        last_seq = t.seq, model = t.model, updated_at = t.at, status = t.status, ended_at = t.ended,
        received = t.received,
        owner = CASE WHEN t.last THEN NULL ELSE g.owner END,
        lease_until = CASE WHEN t.last THEN NULL ELSE clock_timestamp() + make_interval(secs => $19) END,
        signal = CASE WHEN t.last THEN 0 ELSE g.signal END,
        dispatch = CASE WHEN t.status IN ('pending', 'running') OR t.ended = g.ended_at THEN g.dispatch END
    FROM told t
    WHERE g.id = t.id AND g.epoch = t.epoch AND g.owner = t.owner AND g.last_seq = t.before
    RETURNING g.id, g.epoch
), written AS (
    INSERT INTO gen_journal (task, seq, epoch, kind, body, at)
    SELECT e.task, e.seq, m.epoch, e.kind, e.body, e.at
    FROM unnest($13::text[], $14::bigint[], $15::text[], $16::text[], $17::text[])
             AS e (task, seq, kind, body, at)
        JOIN moved m ON m.id = e.task
    ORDER BY e.task, e.seq
), kept AS (
    INSERT INTO gen_snapshot (task, seq, fold, body)
    SELECT t.id, t.seq, $18, t.snapshot FROM told t JOIN moved m ON m.id = t.id WHERE t.snapshot IS NOT NULL
    ON CONFLICT (task) DO UPDATE SET seq = excluded.seq, fold = excluded.fold, body = excluded.body
), taken AS (
    DELETE FROM gen_message l USING told t, moved m
    WHERE m.id = t.id AND l.task = t.id AND l.number <= t.received AND t.received > 0
), dropped AS (
    DELETE FROM gen_hold h USING moved m
    WHERE h.task = m.id AND m.id = ANY($20::text[]) RETURNING h.path, h.turns, h.tokens, h.usd
), {DELTAS} AS (
    {DROPPED}
    UNION ALL
    SELECT c.account, c.turns, c.tokens, c.usd, 0, 0, 0, 0, 0, false
    FROM unnest($21::text[], $22::text[], $23::bigint[], $24::bigint[], $25::bigint[])
             AS c (task, account, turns, tokens, usd)
        JOIN moved m ON m.id = c.task
    UNION ALL
    SELECT t.id, 0, 0, 0, 0, 0, 0, 0, 0, true FROM told t JOIN moved m ON m.id = t.id
    WHERE t.status NOT IN ('pending', 'running')
),
{CHANGED}
SELECT id FROM moved
""")
_WRITTEN = """
SELECT t.id FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS t (id, epoch, seq)
    JOIN gen_journal e ON e.task = t.id AND e.seq = t.seq AND e.epoch = t.epoch
"""


class _Append:
    """One append that is waiting or in flight."""

    __slots__ = ("facts", "future", "growth", "last", "lease")

    def __init__(self, lease: Lease, facts: Sequence[DurableFact], last: bool) -> None:
        self.lease = lease
        self.facts = facts
        self.last = last
        self.growth: Growth | None = None
        self.future: asyncio.Future[list[Event]] = asyncio.get_running_loop().create_future()


class AppendBatcher:
    """Appends the events of all tasks that are leased here, in batches."""

    def __init__(self, link: Pool, lease_seconds: float, changes: ChangeNotifier) -> None:
        self._link = link
        self._changes = changes
        self._lease_seconds = lease_seconds
        self._waiting: list[_Append] = []
        self._busy: set[str] = set()
        self._on_the_way: set[asyncio.Task[None]] = set()

    async def append(self, lease: Lease, facts: Sequence[DurableFact], *, last: bool) -> list[Event]:
        """Write all facts, or raise Fenced and write none."""
        append = _Append(lease, facts, last)
        self._waiting.append(append)
        self._send()
        try:
            return await asyncio.shield(append.future)
        except asyncio.CancelledError:
            if append in self._waiting:
                self._waiting.remove(append)
                raise
            task = asyncio.current_task()
            await asyncio.wait([append.future])
            if task is None or append.future.exception() is not None:
                raise
            task.uncancel()
            task.cancel()  # committed, so the result is returned; the cancel comes with the next await
            return append.future.result()

    async def close(self) -> None:
        """Wait for the batches in flight."""
        while self._on_the_way:
            await asyncio.wait(self._on_the_way)

    def _send(self) -> None:
        while len(self._on_the_way) < MOST_ON_THE_WAY and (batch := self._gathered()):
            flight = asyncio.get_running_loop().create_task(self._flown(batch))
            self._on_the_way.add(flight)
            flight.add_done_callback(self._landed)

    def _landed(self, flight: "asyncio.Task[None]") -> None:
        self._on_the_way.discard(flight)
        self._send()

    def _gathered(self) -> list[_Append]:
        """The next batch: at most one append of each task, since the next one starts where it ends."""
        batch: list[_Append] = []
        later: list[_Append] = []
        for append in self._waiting:
            if len(batch) < MOST_TOGETHER and append.lease.task not in self._busy:
                self._busy.add(append.lease.task)
                batch.append(append)
            else:
                later.append(append)
        self._waiting = later
        return batch

    async def _flown(self, batch: list[_Append]) -> None:
        try:
            for append in batch:
                try:
                    append.growth = extended_journal(append.lease.state, append.facts)
                except GenCodeError as wrong:
                    append.future.set_exception(wrong)
            ready = [append for append in batch if append.growth is not None]
            moved = await self._written(ready) if ready else set[str]()
            self._changes.note()
            for append in ready:
                if append.growth is not None and append.lease.task in moved:
                    append.lease.state = append.growth.state
                    append.future.set_result(append.growth.events)
                else:
                    append.future.set_exception(lease_lost(append.lease.task))
        except GenCodeError as trouble:
            for append in batch:
                if not append.future.done():
                    append.future.set_exception(trouble)
        finally:
            self._busy.difference_update(append.lease.task for append in batch)
            for append in batch:
                if not append.future.done():
                    append.future.set_exception(StoreTrouble(_FAULT))
                append.future.exception()  # the caller may be gone; marks the exception as retrieved

    async def _written(self, batch: Sequence[_Append]) -> set[str]:
        """Write a batch; the tasks that were written, also when an earlier reply of the server was lost."""
        values = (*_rows(batch), FOLD, self._lease_seconds, *_costs(batch))

        async def step(connection: Connection, again: bool) -> set[str]:
            moved = {row[0] for row in await connection.fetch(_APPEND, *values)}
            if again and len(moved) < len(batch):
                asked = [each for each in batch if each.lease.task not in moved]
                moved |= {row[0] for row in await connection.fetch(_WRITTEN, *_lasts(asked))}
            return moved

        return await self._link.swiftly(step)


def _lasts(batch: Sequence[_Append]) -> tuple[list[str], list[int], list[int]]:
    growths = [each.growth.state.seq if each.growth else 0 for each in batch]
    return [each.lease.task for each in batch], [each.lease.epoch for each in batch], growths


def _rows(batch: Sequence[_Append]) -> list[list[Any]]:
    """The tasks and their facts as columns for the statement."""
    tasks: list[tuple[Any, ...]] = []
    facts: list[tuple[Any, ...]] = []
    for append in batch:
        growth, lease = append.growth, append.lease
        if growth is None:
            continue
        state = growth.state
        tasks.append(
            (
                state.id,
                lease.epoch,
                lease.owner,
                lease.state.seq,
                state.seq,
                storable(state.run.model),
                growth.events[-1].at,
                state.status,
                state.end.at,
                state.delivered.mailed,
                append.last,
                snapshot(state) if _is_due(lease.state, growth) else None,
            )
        )
        facts += [(state.id, *fact) for fact in zip(*fact_columns(growth), strict=True)]
    return [[row[column] for row in tasks] for column in range(12)] + [
        [row[column] for row in facts] for column in range(5)
    ]


def _is_due(before: Task, growth: Growth) -> bool:
    ends = growth.turns_status and growth.state.status.ended
    return ends or growth.state.seq // SNAPSHOT_EVERY != before.seq // SNAPSHOT_EVERY


def fact_columns(growth: Growth) -> tuple[list[Any], ...]:
    """The numbers, kinds, JSON and times of events."""
    return (
        [event.seq for event in growth.events],
        [kind_of(event.fact) for event in growth.events],
        [body.decode() for body in growth.bodies],
        [event.at for event in growth.events],
    )


def _costs(batch: Sequence[_Append]) -> list[list[Any]]:
    """The tasks whose calls are settled, and what facts cost each account on a path, as columns."""
    settled: list[str] = []
    rows: list[tuple[Any, ...]] = []
    for append in batch:
        if append.growth is None:
            continue
        after, cost = append.growth.state, cost_between(append.lease.state, append.growth.state)
        if settles(append.lease.state, after):
            settled.append(after.id)
        if cost:
            rows += [(after.id, account, *amounts(cost, CALL)) for account in append.lease.path]
    return [settled, *([row[column] for row in rows] for column in range(5))]
