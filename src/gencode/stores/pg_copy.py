"""Copies a SQLite database into Postgres, repeatably, and verifies the copy.

Each task goes over in one transaction: its row, the facts that are not there yet, its messages. What was
copied before and has gone on since, or was deleted there, stays as it is; what differs is reported and not
touched.
"""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct

from gencode.core.errors import CorruptFact
from gencode.core.events import unicode_text
from gencode.journal.owner import owner_state
from gencode.stores.open_store import open_postgres
from gencode.stores.pg_pool import Connection, storable
from gencode.stores.postgres import PostgresStore
from gencode.stores.sqlite_schema import PlainErrors, migrate
from gencode.stores.task_fold import StoredFact, folded

_TASKS = """
SELECT id, agent, cwd, conversation, parent, status, model, created_at, updated_at, ended_at, epoch, last_seq,
       posted, received, owner
FROM gen_task ORDER BY created_at, rowid
"""
_FACTS = """
SELECT seq, epoch, kind, CAST(body AS BLOB), CAST(at AS TEXT) FROM gen_journal WHERE task = ? ORDER BY seq
"""
_MESSAGES = "SELECT number, text, sender, at FROM gen_message WHERE task = ? ORDER BY number"
_JOBS = "SELECT id, due, owner, revision, body, created_at FROM gen_job ORDER BY created_at, number"
_OUTBOX = """
SELECT number, channel, CAST(chat AS BLOB), CAST(text AS BLOB), sender, at, tries, not_before
FROM gen_outbox ORDER BY number
"""

_KNOWN = "SELECT last_seq, owner IS NOT NULL OR dispatch IS NOT NULL FROM gen_task WHERE id = $1 FOR UPDATE"
_FACTS_THERE = "SELECT seq, body, at FROM gen_journal WHERE task = $1 AND seq <= $2 ORDER BY seq"
_PUT_TASK = """
INSERT INTO gen_task (id, agent, cwd, conversation, parent, status, model, created_at, updated_at, ended_at,
                      epoch, last_seq, posted, received)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (id) DO UPDATE SET status = excluded.status, model = excluded.model,
    updated_at = excluded.updated_at, ended_at = excluded.ended_at, last_seq = excluded.last_seq,
    epoch = greatest(gen_task.epoch, excluded.epoch), posted = greatest(gen_task.posted, excluded.posted),
    received = greatest(gen_task.received, excluded.received)
"""
_PUT_FACTS = """
INSERT INTO gen_journal (task, seq, epoch, kind, body, at)
SELECT $1, e.seq, e.epoch, e.kind, e.body, e.at
FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[]) AS e (seq, epoch, kind, body, at)
ORDER BY e.seq
ON CONFLICT (task, seq) DO NOTHING
"""
_PUT_MESSAGE = """
INSERT INTO gen_message (task, number, text, sender, at)
SELECT $1, $2, $3, $4, $5 FROM gen_task WHERE id = $1 AND received < $2
ON CONFLICT (task, number) DO NOTHING
"""
_POSTED = "UPDATE gen_task SET posted = greatest(posted, $2) WHERE id = $1"
_FIRST_TIME = "INSERT INTO gen_copied (kind, id) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id"
_PUT_JOB = """
INSERT INTO gen_job (id, due, owner, revision, body, created_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (id) DO NOTHING
"""
_PUT_OUT = """
INSERT INTO gen_outbox (channel, chat, text, sender, at, tries, not_before)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""


class CopyReport(Struct, frozen=True):
    """The result of a copy. `busy` are tasks that are running; copy again when they have ended."""

    address: str
    tasks: int
    facts: int
    new: int
    busy: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class _SourceTask(Struct, frozen=True):
    """One task as stored in the SQLite file."""

    row: tuple[Any, ...]
    facts: list[tuple[int, int, str, bytes, str]]
    messages: list[tuple[int, str, str, str]]

    @property
    def id(self) -> str:
        return self.row[0]

    @property
    def busy(self) -> bool:
        owner = self.row[14]
        return owner is not None and owner_state(owner) != "dead"

    @property
    def stored(self) -> list[StoredFact]:
        return [(seq, at, body) for seq, _, _, body, at in self.facts]


async def copy_to(path: Path, url: str) -> CopyReport:
    """Copy the database of this machine into a shared one, and verify the copy."""
    store = await open_postgres(url)
    try:
        return await copy_database(path, store)
    finally:
        await store.close()


async def copy_database(path: Path, store: PostgresStore) -> CopyReport:
    """Copy the SQLite database at `path`; nothing in it is changed but its version."""
    with PlainErrors(path), closing(await asyncio.to_thread(_opened, path)) as source:
        return await _CopyRun(source, store).run()


def _opened(path: Path) -> sqlite3.Connection:
    migrate(path)
    uri = f"{path.absolute().as_uri()}?mode=ro"
    source = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    source.text_factory = _decoded
    source.execute("BEGIN")  # one snapshot for all reads
    return source


class _CopyRun:
    def __init__(self, source: sqlite3.Connection, store: PostgresStore) -> None:
        self._source = source
        self._store = store
        self._facts = 0
        self._new = 0
        self._problems: list[str] = []

    async def run(self) -> CopyReport:
        busy: list[str] = []
        count = 0
        for row in self._source.execute(_TASKS).fetchall():
            task = self._read(row)
            if task.busy:
                busy.append(task.id)
                continue
            count += 1
            if await self._put(task):
                await self._check(task)
        await self._put_plans()
        copied = (self._store.link.address, count, self._facts, self._new)
        return CopyReport(*copied, tuple(busy), tuple(self._problems))

    def _read(self, row: tuple[Any, ...]) -> _SourceTask:
        facts = self._source.execute(_FACTS, (row[0],)).fetchall()
        return _SourceTask(row, facts, self._source.execute(_MESSAGES, (row[0],)).fetchall())

    async def _put(self, task: _SourceTask) -> bool:
        """Write what is missing in the target; False when the task must not be touched."""

        async def step(connection: Connection, _again: bool) -> str | bool:
            async with connection.transaction():
                return await self._written(connection, task)

        told = await self._store.link.patiently(step)
        if isinstance(told, str):
            self._problems.append(told)
            return False
        return told

    async def _written(self, connection: Connection, task: _SourceTask) -> str | bool:
        there = await connection.fetchrow(_KNOWN, task.id)
        first = await connection.fetchval(_FIRST_TIME, "task", task.id) is not None
        if there is None and not first:
            return False  # it was deleted there
        last: int = task.row[11]
        if there is not None:
            rows = await connection.fetch(_FACTS_THERE, task.id, min(there[0], last))
            if [(row[0], row[2], row[1]) for row in rows] != _texts(task.stored)[: len(rows)]:
                return f"Task {task.id} is another one there, with other facts; it was left alone."
            if there[0] < last and there[1]:
                return f"Task {task.id} is being worked on there and lacks facts; it was left alone."
        known = there[0] if there is not None else 0
        if known < last:
            await connection.execute(_PUT_TASK, *_row(task))
            await connection.execute(_PUT_FACTS, task.id, *_columns(task, known))
            self._new += sum(fact[0] > known for fact in task.facts)
        for number, text, sender, at in task.messages:
            message = (unicode_text(text).encode(), unicode_text(sender).encode(), at)
            await connection.execute(_PUT_MESSAGE, task.id, number, *message)
        await connection.execute(_POSTED, task.id, task.row[12])
        return True

    async def _check(self, task: _SourceTask) -> None:
        """Compare the folds of source and target; facts that cannot be read must be equal, too."""
        last: int = task.row[11]
        here, wrong = folded(task.id, None, task.stored, last)
        rows = await self._store.link.fetch(_FACTS_THERE, task.id, last)
        there, also = folded(task.id, None, [(row[0], row[2], row[1]) for row in rows], last)
        same = [(row[0], row[2], row[1]) for row in rows] == _texts(task.stored)
        if not same or here != there or _said(wrong) != _said(also):
            self._problems.append(f"Task {task.id} did not arrive as it was; run this again.")
        else:
            self._facts += len(rows)

    async def _put_plans(self) -> None:
        """Copy scheduled jobs and undelivered messages; what was copied once is not copied again."""
        plans = self._source.execute(_JOBS).fetchall()
        messages = self._source.execute(_OUTBOX).fetchall()

        async def step(connection: Connection, _again: bool) -> None:
            async with connection.transaction():
                for plan in plans:
                    if await connection.fetchval(_FIRST_TIME, "appointment", plan[0]) is not None:
                        await connection.execute(_PUT_JOB, *plan)
                for number, channel, chat, text, *rest in messages:
                    sender, at, tries, not_before = rest
                    if await connection.fetchval(_FIRST_TIME, "message", f"{number} {at}") is not None:
                        words = (channel, chat, text)
                        await connection.execute(_PUT_OUT, *words, sender, at, tries, not_before)

        await self._store.link.patiently(step)


def _texts(facts: Sequence[StoredFact]) -> list[tuple[int, str, str]]:
    return [(seq, storable(at), _text(body)) for seq, at, body in facts]


def _text(body: str | bytes) -> str:
    """A stored fact as text; invalid bytes are replaced."""
    return storable(body.decode("utf-8", "replace") if isinstance(body, bytes) else body)


def _row(task: _SourceTask) -> list[Any]:
    values = [storable(each) if isinstance(each, str) else each for each in task.row[:14]]
    values[3] = bool(values[3])
    return values


def _columns(task: _SourceTask, known: int) -> list[list[Any]]:
    rows = [
        (seq, epoch, kind, _text(body), storable(at))
        for seq, epoch, kind, body, at in task.facts
        if seq > known
    ]
    return [[row[column] for row in rows] for column in range(5)]


def _decoded(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")


def _said(trouble: CorruptFact | None) -> str:
    return str(trouble or "")
