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

_END = "SELECT rowid, Task, Seq FROM Journal ORDER BY rowid DESC LIMIT 1"
_MARK = "SELECT rowid, Task, Seq FROM Journal WHERE Task = ? AND Seq = ?"
_FACT = "SELECT rowid, Task, Seq, CAST(At AS TEXT), CAST(Body AS BLOB) FROM Journal"
_FROM = f"{_FACT} WHERE rowid >= ? AND rowid <= ? ORDER BY rowid LIMIT ?"
_OF_TASK = f"{_FACT} WHERE Task = ? AND Seq > ? AND rowid <= ? ORDER BY Seq LIMIT ?"
_BEFORE = f"{_FACT} WHERE Task = ? AND Seq < ? ORDER BY Seq DESC LIMIT ?"
_COUNTS = "SELECT Status, count(*) FROM Sessions WHERE (:cwd IS NULL OR Cwd = :cwd) GROUP BY Status"
_SPENT = """
SELECT substr(CAST(e.At AS TEXT), 1, 16) AS Minute,
       sum(coalesce(json_extract(e.Body, '$.message.usage.inputTokens'), 0)),
       sum(coalesce(json_extract(e.Body, '$.message.usage.outputTokens'), 0)),
       sum(coalesce(json_extract(e.Body, '$.message.usage.cachedTokens'), 0)),
       sum(json_extract(e.Body, '$.message.usage.usd'))
FROM Sessions s JOIN Journal e ON e.Task = s.Id
WHERE s.UpdatedAt >= :since AND (:cwd IS NULL OR s.Cwd = :cwd)
  AND e.Kind = 'MessageAdded' AND e.At >= :since AND json_valid(e.Body)
GROUP BY Minute ORDER BY Minute
"""

_Row = tuple[int, str, int, str, bytes]


class SqliteEventLog:
    """A `GlobalLog` of one file."""

    def __init__(self, path: Path, reader: sqlite3.Connection, errors: PlainErrors) -> None:
        self._path = path
        self._reader = reader
        self._errors = errors

    async def end(self) -> LogPosition | None:
        """The newest fact; None when there is none at all."""
        return await self._one(_END)

    async def mark(self, task: str, seq: int) -> LogPosition | None:
        """Where a fact stands; None when it is not there (any more)."""
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
        """The facts of one task after a number, in order, up to a place among all facts."""
        return await self._facts(_OF_TASK, (task, after, upto, most))

    async def before(self, task: str, seq: int, most: int) -> list[LogEntry]:
        """The last facts of a task before a number, in order."""
        return list(reversed(await self._facts(_BEFORE, (task, seq, most))))

    async def counts(self, cwd: str | None) -> Mapping[Status, int]:
        """How many tasks there are of each status, in one folder or everywhere."""
        rows = await self._read(lambda: self._reader.execute(_COUNTS, {"cwd": _folder(cwd)}).fetchall())
        return {Status(status): count for status, count in rows}

    async def spent(self, since: str, cwd: str | None) -> list[tuple[str, Usage]]:
        """What models used since a moment, by minutes; a long read, so it has a thread of its own."""
        wanted = {"since": since, "cwd": _folder(cwd)}
        with self._errors:
            rows = await asyncio.to_thread(self._read_apart, _SPENT, wanted)
        return [(minute, Usage(*numbers)) for minute, *numbers in rows]

    async def _one(self, statement: str, *values: object) -> LogPosition | None:
        row = await self._read(lambda: self._reader.execute(statement, values).fetchone())
        return LogPosition(*row) if row else None

    async def _facts(self, statement: str, values: Sequence[object]) -> list[LogEntry]:
        return await self._read(lambda: _bounded(self._reader.execute(statement, values)))

    async def _read(self, read: Callable[[], Any]) -> Any:
        return await patiently(read, self._errors)

    def _read_apart(self, statement: str, wanted: Mapping[str, object]) -> list[tuple[Any, ...]]:
        uri = f"{self._path.absolute().as_uri()}?mode=ro"
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
