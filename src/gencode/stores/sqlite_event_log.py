"""The global event log in the SQLite file: the events of all tasks in the order of their commits.

SQLite lets one process write at a time, so that the numbers of the rows are that order. A clean-up of the
file may number them anew, and the number of a deleted last row is given again; so a mark counts by its fact.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from gencode.core.events import unicode_text
from gencode.core.messages import Usage
from gencode.core.status import Status
from gencode.journal.global_log import END, MOST, MOST_BYTES, LogEntry, LogPosition, found
from gencode.stores.group_commit import patiently
from gencode.stores.sqlite_schema import PATIENCE, PlainErrors

_END = "SELECT rowid, task, seq FROM gen_journal ORDER BY rowid DESC LIMIT 1"
_MARK = "SELECT rowid, task, seq FROM gen_journal WHERE task = ? AND seq = ?"
_FACT = "SELECT rowid, task, seq, CAST(at AS TEXT), CAST(body AS BLOB) FROM gen_journal"
_FROM = f"{_FACT} WHERE rowid >= ? AND rowid <= ? ORDER BY rowid LIMIT ?"
_OF_TASK = f"{_FACT} WHERE task = ? AND seq > ? AND rowid <= ? ORDER BY seq LIMIT ?"
_BEFORE = f"{_FACT} WHERE task = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
_COUNTS = "SELECT status, count(*) FROM gen_task WHERE (:cwd IS NULL OR cwd = :cwd) GROUP BY status"
_SPENT = """
SELECT substr(CAST(e.at AS TEXT), 1, 16) AS minute,
       sum(coalesce(json_extract(e.body, '$.message.usage.inputTokens'), 0)),
       sum(coalesce(json_extract(e.body, '$.message.usage.outputTokens'), 0)),
       sum(coalesce(json_extract(e.body, '$.message.usage.cachedTokens'), 0)),
       sum(json_extract(e.body, '$.message.usage.usd'))
FROM gen_task s JOIN gen_journal e ON e.task = s.id
WHERE s.updated_at >= :since AND (:cwd IS NULL OR s.cwd = :cwd)
  AND e.kind = 'MessageAdded' AND e.at >= :since AND json_valid(e.body)
GROUP BY minute ORDER BY minute
"""

_Row = tuple[int, str, int, str, bytes]


class SqliteEventLog:
    """A `GlobalLog` of one file."""

    def __init__(self, path: Path | None, reader: sqlite3.Connection, errors: PlainErrors) -> None:
        self._path = path
        self._reader = reader
        self._errors = errors

    async def end(self) -> LogPosition | None:
        """The mark of the newest fact; None when there is none."""
        return await self._one(_END)

    async def mark(self, task: str, seq: int) -> LogPosition | None:
        """The mark of a fact; None when it does not exist (any more)."""
        return await self._one(_MARK, unicode_text(task), seq)

    async def after(
        self, mark: LogPosition | None, upto: int = END, most: int = MOST
    ) -> list[LogEntry] | None:
        """The facts after a mark (None: from the first one) and up to a place, in order."""
        if mark is None:
            return await self._facts(_FROM, (0, upto, most))
        for _ in range(2):
            rows = await self._facts(_FROM, (mark.place, max(upto, mark.place), most + 1))
            if rows and rows[0].mark == mark:
                return rows[1:]
            mark = await self.mark(mark.task, mark.seq)
            if mark is None:
                break
        return None

    async def of_task(self, task: str, after: int, upto: int = END, most: int = MOST) -> list[LogEntry]:
        """The facts of one task after a number, in order, up to a place in the log."""
        return await self._facts(_OF_TASK, (task, after, upto, most))

    async def before(self, task: str, seq: int, most: int) -> list[LogEntry]:
        """The last facts of a task before a number, in order."""
        return list(reversed(await self._facts(_BEFORE, (task, seq, most))))

    async def counts(self, cwd: str | None) -> Mapping[Status, int]:
        """The number of tasks by status, in one folder or everywhere."""
        rows = await self._read(lambda: self._reader.execute(_COUNTS, {"cwd": _folder(cwd)}).fetchall())
        return {Status(status): count for status, count in rows}

    async def spent(self, since: str, cwd: str | None) -> list[tuple[str, Usage]]:
        """What models used since a moment, by minutes; a long read, so it has a thread of its own."""
        wanted = {"since": since, "cwd": _folder(cwd)}
        if self._path is None:  # a database in memory has one connection only
            rows = await self._read(lambda: self._reader.execute(_SPENT, wanted).fetchall())
        else:
            with self._errors:
                rows = await asyncio.to_thread(_read_apart, self._path, _SPENT, wanted)
        return [(minute, Usage(*numbers)) for minute, *numbers in rows]

    async def _one(self, statement: str, *values: object) -> LogPosition | None:
        row = await self._read(lambda: self._reader.execute(statement, values).fetchone())
        return LogPosition(*row) if row else None

    async def _facts(self, statement: str, values: Sequence[object]) -> list[LogEntry]:
        return await self._read(lambda: _bounded(self._reader.execute(statement, values)))

    async def _read(self, read: Callable[[], Any]) -> Any:
        return await patiently(read, self._errors)


def _read_apart(path: Path, statement: str, wanted: Mapping[str, object]) -> list[tuple[Any, ...]]:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)) as connection:
        return connection.execute(statement, wanted).fetchall()


def _bounded(rows: Iterable[_Row]) -> list[LogEntry]:
    """The facts of some rows, up to so many bytes."""
    facts: list[LogEntry] = []
    size = 0
    for row in rows:
        facts.append(found(*row))
        size += len(row[4])
        if size > MOST_BYTES:
            break
    return facts


def _folder(cwd: str | None) -> str | None:
    return None if cwd is None else unicode_text(cwd)
