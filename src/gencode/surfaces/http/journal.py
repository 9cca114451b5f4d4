"""Pages of the journal: what was written by whom, in the order of the commits (surfaces, server).

The port of the store gives whole tasks and whole journals. A server needs windows of them, and the facts of
all tasks and all processes in one order. SQLite lets one process write at a time, so that the numbers of the
rows are that order; a place in it is spoken of by the fact that stands there, which no clean-up renumbers.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from gencode.core.errors import CorruptFact, StoreTrouble
from gencode.core.events import Event, decode_fact
from gencode.core.status import Status

T = TypeVar("T")
PATIENCE = 10.0
MOST_BYTES = 4_000_000
"""So many bytes of facts are held at once, and one more fact."""

_LAST = "SELECT rowid, Task, Seq FROM Events ORDER BY rowid DESC LIMIT 1"
_PLACE = "SELECT rowid FROM Events WHERE Task = ? AND Seq = ?"
_FACT = "SELECT rowid, Task, Seq, CAST(At AS TEXT), CAST(Body AS BLOB) FROM Events"
_FROM = f"{_FACT} WHERE rowid >= ? AND rowid <= ? ORDER BY rowid LIMIT ?"
_OF_TASK = f"{_FACT} WHERE Task = ? AND Seq > ? AND rowid <= ? ORDER BY Seq LIMIT ?"
_BEFORE = f"{_FACT} WHERE Task = ? AND Seq < ? ORDER BY Seq DESC LIMIT ?"
_PARENT = "SELECT Parent FROM Sessions WHERE Id = ?"
_PAGE = """
SELECT Id FROM Sessions
WHERE (:parent IS NULL OR Parent = :parent)
  AND (:roots = 0 OR Parent IS NULL)
  AND (:cwd IS NULL OR Cwd = :cwd)
  AND (:agent IS NULL OR Agent = :agent COLLATE NOCASE)
  AND (:conversation IS NULL OR Conversation = :conversation)
  AND (:statuses IS NULL OR Status IN (SELECT value FROM json_each(:statuses)))
  AND (:before IS NULL
       OR (CreatedAt, rowid) < (SELECT CreatedAt, rowid FROM Sessions WHERE Id = :before))
ORDER BY CreatedAt DESC, rowid DESC LIMIT :limit
"""
_COUNTS = "SELECT Status, count(*) FROM Sessions WHERE (:cwd IS NULL OR Cwd = :cwd) GROUP BY Status"
_UNHEARD = "SELECT Id FROM Sessions WHERE Posted > Mailed AND Owner IS NULL AND Conversation = 1"
_SPENT = """
SELECT strftime('%Y-%m-%dT%H:%M:00.000000Z',
                CAST(strftime('%s', e.At) AS INTEGER) / :seconds * :seconds, 'unixepoch') AS Since,
       sum(coalesce(json_extract(e.Body, '$.message.usage.inputTokens'), 0)),
       sum(coalesce(json_extract(e.Body, '$.message.usage.outputTokens'), 0)),
       sum(coalesce(json_extract(e.Body, '$.message.usage.cachedTokens'), 0)),
       sum(json_extract(e.Body, '$.message.usage.usd'))
FROM Sessions s JOIN Events e ON e.Task = s.Id
WHERE s.UpdatedAt >= :since AND (:cwd IS NULL OR s.Cwd = :cwd)
  AND e.Kind = 'MessageAdded' AND e.At >= :since
GROUP BY Since ORDER BY Since
"""
_END = 2**62


class Place(NamedTuple):
    """A fact and where it stands among all facts."""

    place: int
    event: Event


class Last(NamedTuple):
    """The newest fact of all."""

    place: int
    task: str
    seq: int


class Wanted(Struct, frozen=True):
    """Which tasks are on a page; every field that is set narrows it."""

    parent: str | None = None
    roots: bool = False
    cwd: str | None = None
    agent: str | None = None
    conversation: bool | None = None
    statuses: tuple[Status, ...] = ()
    before: str | None = None
    limit: int = 100


class Journal:
    """Reads the database at `path` beside the store that writes it."""

    def __init__(self, path: Path) -> None:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        self._path = path
        self._connection = sqlite3.connect(
            uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False
        )
        self._slow = sqlite3.connect(uri, uri=True, timeout=5, isolation_level=None, check_same_thread=False)
        self._parents: dict[str, str | None] = {}

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
        self._slow.close()

    async def last(self) -> Last | None:
        """The newest fact; None when there is none."""
        row = await self._patiently(lambda: self._connection.execute(_LAST).fetchone())
        return Last(*row) if row else None

    async def place(self, task: str, seq: int) -> int | None:
        """Where a fact stands; None when it is not there (any more)."""
        row = await self._patiently(lambda: self._connection.execute(_PLACE, (task, seq)).fetchone())
        return row[0] if row else None

    async def facts(self, first: int, upto: int = _END, most: int = 500) -> list[Place]:
        """The facts of all tasks from one place to another, both included, in the order of the commits."""
        return await self._facts(_FROM, (first, upto, most))

    async def of_task(self, task: str, after: int, upto: int = _END, most: int = 500) -> list[Place]:
        """The facts of one task after a number, in order, up to a place among all facts."""
        return await self._facts(_OF_TASK, (task, after, upto, most))

    async def before(self, task: str, seq: int, most: int) -> list[Place]:
        """The last facts of a task before a number, in order."""
        return list(reversed(await self._facts(_BEFORE, (task, seq, most))))

    async def parent(self, task: str) -> str | None:
        """The task that asked for another one."""
        if task not in self._parents:
            row = await self._patiently(lambda: self._connection.execute(_PARENT, (task,)).fetchone())
            if row is None:
                return None
            if len(self._parents) > 20_000:
                self._parents.clear()
            self._parents[task] = row[0]
        return self._parents[task]

    async def page(self, wanted: Wanted) -> list[str]:
        """The ids of the tasks on a page, the newest first."""
        row: dict[str, Any] = msgspec.structs.asdict(wanted)
        row["statuses"] = msgspec.json.encode(wanted.statuses).decode() if wanted.statuses else None
        rows = await self._patiently(lambda: self._connection.execute(_PAGE, row).fetchall())
        return [row[0] for row in rows]

    async def counts(self, cwd: str | None) -> dict[str, int]:
        """How many tasks there are of each status."""
        rows = await self._patiently(lambda: self._connection.execute(_COUNTS, {"cwd": cwd}).fetchall())
        return dict(rows)

    async def unheard(self) -> list[str]:
        """Conversations at rest to which somebody wrote something that they have not heard."""
        rows = await self._patiently(lambda: self._connection.execute(_UNHEARD).fetchall())
        return [row[0] for row in rows]

    async def spent(self, since: str, seconds: int, cwd: str | None) -> list[tuple[Any, ...]]:
        """Tokens and money by pieces of time; a long read, so it has a thread of its own."""
        row = {"since": since, "seconds": seconds, "cwd": cwd}
        read = self._slow.execute
        return await asyncio.to_thread(lambda: self._plainly(lambda: read(_SPENT, row).fetchall()))

    async def _facts(self, statement: str, values: Sequence[object]) -> list[Place]:
        def read() -> list[Place]:
            return list(_readable(self._connection.execute(statement, values)))

        return await self._patiently(read)

    async def _patiently(self, read: Callable[[], T]) -> T:
        """Read again while another process rearranges the file; SQLite never waits on this thread."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return read()
            except sqlite3.OperationalError as error:
                code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF
                if code not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > until:
                    raise StoreTrouble(f"The database {self._path} cannot be read: {error}.") from error
            except sqlite3.DatabaseError as error:
                raise StoreTrouble(f"The database {self._path} cannot be read: {error}.") from error
            await asyncio.sleep(0.01)

    def _plainly(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except sqlite3.DatabaseError as error:
            raise StoreTrouble(f"The database {self._path} cannot be read: {error}.") from error


def _readable(rows: Iterable[tuple[int, str, int, str, bytes]]) -> Iterable[Place]:
    """The facts among rows, up to so many bytes; one that cannot be read is passed over."""
    size = 0
    for place, task, seq, at, body in rows:
        size += len(body)
        try:
            yield Place(place, Event(task, seq, at, decode_fact(body)))
        except CorruptFact:
            continue
        if size > MOST_BYTES:
            return
