"""The SQLite store: a journal in one file that several processes may share.

A commit happens on the event loop's own thread, because handing it to another one costs more than the commit;
SQLite never waits in there: while another process writes, the coroutine sleeps and tries again. Where many
tasks are running, their commits are grouped (`group_commit.py`). With durability `power` every commit waits
for the disk, so that one does go to a thread.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from gencode.core.errors import CorruptFact, StoreTrouble
from gencode.core.events import DurableFact, Event, TaskCreated, unicode_text
from gencode.core.ids import new_id
from gencode.core.task import Task
from gencode.journal.change_notifier import ChangeNotifier
from gencode.journal.owner import LEASE_SECONDS
from gencode.journal.store import Lease, Ownership, PostedMessage, TaskQuery, TaskSignal
from gencode.stores.group_commit import GroupCommit, SqliteDatabase, WriteStep, patiently
from gencode.stores.journal_rules import (
    DRAWS,
    id_taken,
    imported_journal,
    lease_held,
    message_text,
    new_journal,
    task_ids,
    task_missing,
)
from gencode.stores.ledger_tables import LedgerTable
from gencode.stores.sql_dialect import SideTables
from gencode.stores.sqlite_ledger import CommitLedger
from gencode.stores.sqlite_schema import Durability, PlainErrors, Transaction, open_pair
from gencode.stores.sqlite_writes import RELEASE, AppendEvents, DeleteTask, InsertTask, PostMessage
from gencode.stores.task_fold import FOLD, StoredFact, events_of, folded, lines_of, snapshot_of

if TYPE_CHECKING:
    from gencode.stores.sqlite_event_log import SqliteEventLog

T = TypeVar("T")

WATCH_SECONDS = 0.04
"""Between two looks for writes of other processes, while a change is awaited."""
AWAY_SECONDS = 0.5
"""The same while the file cannot be read."""
_FEW = 4
"""Up to so many leased tasks write in transactions of their own; more of them share one."""

_TAKE = """
UPDATE gen_task SET epoch = epoch + 1, owner = :owner, signal = 0,
                    lease_until = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :lease)
WHERE id = :id AND (lease_until IS NULL OR owner = :owner OR owner = :dead
                    OR lease_until <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
RETURNING epoch
"""
_RENEW = """
UPDATE gen_task SET lease_until = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?) WHERE owner = ? RETURNING id
"""
# The numbers are those of `TaskSignal`: only a stop (1) replaces a report (3), nothing a stop, a budget (5)
# nothing.
_ASK = """
UPDATE gen_task SET signal = iif(signal = 1 OR (signal = 3 AND :signal <> 1) OR (signal <> 0 AND :signal = 5),
                                 signal, :signal)
WHERE id = :id AND owner IS NOT NULL
"""
ASKED = "SELECT id, signal FROM gen_task WHERE owner = ? AND signal <> 0 AND signal BETWEEN 1 AND 5"
_HEARD = "UPDATE gen_task SET signal = 0 WHERE owner = ? AND signal IN (4, 5)"
_MESSAGE = """
SELECT m.task, m.number, m.text, m.sender, m.at FROM gen_task t JOIN gen_message m ON m.task = t.id
"""
MESSAGES = f"{_MESSAGE} WHERE t.owner = ? AND t.posted > t.received AND m.number > t.received ORDER BY 1, 2"
_WAITING = f"{_MESSAGE} WHERE t.id = ? AND m.number > t.received ORDER BY 2"
_OWNED = """
SELECT id, owner, lease_until <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
       coalesce((julianday('now') - julianday(lease_until)) * 86400, 0) FROM gen_task WHERE owner IS NOT NULL
UNION ALL
SELECT id, '', 1, 0 FROM gen_task WHERE status IN ('pending', 'running') AND owner IS NULL
"""

_TASK = """
SELECT s.id, CAST(s.last_seq AS INTEGER), CAST(p.body AS BLOB)
FROM gen_task s LEFT JOIN gen_snapshot p ON p.task = s.id AND p.fold = ? WHERE s.id = ?
"""
_TASKS = """
SELECT s.id, CAST(s.last_seq AS INTEGER), CAST(p.body AS BLOB)
FROM gen_task s LEFT JOIN gen_snapshot p ON p.task = s.id AND p.fold = :fold
WHERE (:parent IS NULL OR s.parent = :parent)
  AND (:cwd IS NULL OR s.cwd = :cwd)
  AND (:statuses IS NULL OR s.status IN (SELECT value FROM json_each(:statuses)))
  AND (:ended_after IS NULL OR s.ended_at IS NULL OR s.ended_at > :ended_after)
  AND (:conversations IS NULL OR s.conversation = :conversations)
  AND (:roots = 0 OR s.parent IS NULL)
  AND (:agent IS NULL OR s.agent = :agent COLLATE NOCASE)
  AND (:before IS NULL
       OR (s.created_at, s.rowid) < (SELECT b.created_at, b.rowid FROM gen_task b WHERE b.id = :before))
ORDER BY s.created_at DESC, s.rowid DESC LIMIT :limit
"""
# Asked for every task that ends, and most have no children.
_IS_PARENT = "SELECT 1 FROM gen_task WHERE parent = ? LIMIT 1"
# With the choice inside the query SQLite would scan all tasks.
_CHILDREN = _TASKS.replace("(:parent IS NULL OR s.parent = :parent)", "s.parent = :parent")
_SEVERAL = _CHILDREN.replace("s.parent = :parent", "s.parent IN (SELECT value FROM json_each(:parents))")
_UNHEARD = _TASKS.replace("WHERE ", "WHERE s.posted > s.received AND s.owner IS NULL AND ", 1)
_IDS = "SELECT id FROM gen_task WHERE id >= ? AND id < ? || 'g' ORDER BY id LIMIT 20"
_LAST_SEQ = "SELECT CAST(last_seq AS INTEGER) FROM gen_task WHERE id = ?"
_EVENTS = """
SELECT seq, CAST(at AS TEXT), CAST(body AS BLOB) FROM gen_journal WHERE task = ? AND seq > ? ORDER BY seq
"""


class SqliteChanges(ChangeNotifier):
    """The changes of a file: one timer of the process asks SQLite whether others have committed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection = connection
        self._version = self._newest()
        self._next_look: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Notice what other processes write, for as long as changes are awaited."""
        if self._next_look is None:
            self._look()

    def close(self) -> None:
        """Wake all waiters and stop looking."""
        if self._next_look is not None:
            self._next_look.cancel()
        super().close()

    def _look(self) -> None:
        self._next_look = None
        if not self.awaited:
            return
        before, self._version = self._version, self._newest()
        if self._version is None or self._version != before:
            self.note()
        pause = WATCH_SECONDS if self._version is not None else AWAY_SECONDS
        self._next_look = asyncio.get_running_loop().call_later(pause, self._look)

    def _newest(self) -> int | None:
        """A number that changes with every commit of another connection; None where it cannot be read."""
        try:
            version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            return None
        return version


class SqliteStore(SideTables):
    """A `Store` in a file. Make one with `await SqliteStore.open(path)`."""

    def __init__(
        self,
        path: Path | None,
        connections: tuple[sqlite3.Connection, sqlite3.Connection],
        thread: ThreadPoolExecutor | None,
        lease_seconds: float,
        draw: Callable[[], str],
    ) -> None:
        """Without a `path` it is in memory, and only this process can write."""
        self._path = path
        self._plain_errors = PlainErrors(path or Path(":memory:"))
        self._writer, self._reader = connections
        self._cursor = self._writer.cursor()  # one for all steps: to make one costs a tenth of a commit
        self._thread = thread
        # The writing connection does not count its own commits as changes. With a thread it cannot be
        # asked here, so the reading one is, which counts our commits, too.
        watched = self._writer if thread is None else self._reader
        self.changes: ChangeNotifier = ChangeNotifier() if path is None else SqliteChanges(watched)
        """Wakes whoever waits for something new."""
        self._commits = GroupCommit(self._writer, self._plain_errors, thread, self.changes)
        database = SqliteDatabase(
            self._commits, self._writer, self._reader, self._plain_errors, self._is_busy
        )
        super().__init__(database, draw)
        self._commit_ledger = CommitLedger(self._cursor, database.statements)
        self.ledger = LedgerTable(database)
        """What tasks may spend, and have spent."""
        self._leased: set[str] = set()
        self._lease_seconds = lease_seconds
        self._lease = f"{lease_seconds:+.3f} seconds"

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        durability: Durability = "normal",
        lease_seconds: float = LEASE_SECONDS,
        draw: Callable[[], str] = new_id,
    ) -> Self:
        """Open the database at `path`, made or brought up to date where needed."""
        connections = await asyncio.to_thread(open_pair, path, durability)
        thread = ThreadPoolExecutor(1, "gencode-commit") if durability == "power" else None
        return cls(path, connections, thread, lease_seconds, draw)

    @property
    def global_log(self) -> "SqliteEventLog":
        """The facts of all tasks in one order."""
        from gencode.stores.sqlite_event_log import SqliteEventLog

        return SqliteEventLog(self._path, self._reader, self._plain_errors)

    async def close(self) -> None:
        """Close the file; nothing that was appended is lost."""
        self.changes.close()
        self._reader.close()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.shutdown)
        self._writer.close()

    @property
    def storms(self) -> Path | None:
        """The folder in which processes that share this file record refusals of models."""
        return self._path.parent / "storms" if self._path is not None else None

    async def create(
        self,
        fact: TaskCreated,
        owner: str,
        then: Sequence[DurableFact] = (),
        named: str = "",
        session: str = "",
    ) -> Lease:
        """Write the first facts of a new task under a free id, and lease it to `owner`."""
        for task in task_ids(self.draw, named):
            growth = new_journal(task, (fact, *then))
            insert = InsertTask(
                self._cursor, self._commit_ledger, growth, lease=self._lease, owner=owner, session=session
            )
            if await self._write(insert):
                self._leased.add(growth.state.id)
                return Lease(owner, 1, growth.state, insert.path)
        raise StoreTrouble(f"No free task id was found in {DRAWS} draws.")

    async def take(
        self, task: str, owner: str, instead_of: str | None = None, session: str | None = None
    ) -> Lease:
        """Lease an existing task with a new epoch; UserMistake while somebody else's lease runs."""
        lease = await self._commits.change(lambda: self._take(task, owner, instead_of, session))
        self._leased.add(task)
        return lease

    async def append(self, lease: Lease, facts: Sequence[DurableFact], *, last: bool = False) -> list[Event]:
        """Write all facts in one transaction, or raise Fenced and write none; `last` gives the lease back."""
        if not facts:
            return []
        events = await self._write(AppendEvents(self._cursor, self._commit_ledger, lease, facts, last))
        if last:
            self._leased.discard(lease.task)
        return events

    async def renew(self, owner: str) -> set[str]:
        """Extend every lease of `owner`; the tasks that it has."""
        row = (self._lease, owner)
        return {
            task
            for (task,) in await self._commits.change(lambda: self._writer.execute(_RENEW, row).fetchall())
        }

    async def release(self, lease: Lease) -> None:
        """Give the lease back at once, whatever the task's status."""
        self._leased.discard(lease.task)
        row = (lease.task, lease.epoch, lease.owner)
        await self._commits.change(lambda: self._writer.execute(RELEASE, row))

    async def owned(self) -> list[Ownership]:
        """Every task that is leased or has not ended, its owner (empty: nobody), and whether that is over."""
        rows = await self._read(lambda: self._reader.execute(_OWNED).fetchall())
        return [
            Ownership(task, owner, bool(over), late + self._lease_seconds if owner and over else 0.0)
            for task, owner, over, late in rows
        ]

    async def send_signal(self, task: str, signal: TaskSignal) -> bool:
        """Ask something of whoever holds the lease of a task; False when nobody does."""
        wanted = {"id": task, "signal": signal.value}
        return await self._commits.change(lambda: self._writer.execute(_ASK, wanted).rowcount) > 0

    async def signals(self, owner: str) -> list[tuple[str, TaskSignal]]:
        """What somebody asked of the tasks of `owner`; an interrupt and a budget are told once."""
        rows = await self._read(lambda: self._reader.execute(ASKED, (owner,)).fetchall())
        asked = [(task, TaskSignal(signal)) for task, signal in rows]
        if any(signal.once for _, signal in asked):
            return await self._commits.change(lambda: self._heard(owner))
        return asked

    def _heard(self, owner: str) -> list[tuple[str, TaskSignal]]:
        """Read and reset the signals in one transaction, so that none is lost in between."""
        asked = [
            (task, TaskSignal(signal)) for task, signal in self._writer.execute(ASKED, (owner,)).fetchall()
        ]
        self._writer.execute(_HEARD, (owner,))
        return asked

    async def post(self, task: str, text: str, sender: str) -> int:
        """Leave a message for a task, whoever runs it; its number. UserMistake when it cannot be taken."""
        return await self._write(PostMessage(self._cursor, task, message_text(text), unicode_text(sender)))

    async def posted_messages(self, owner: str) -> list[PostedMessage]:
        """The messages to the tasks of `owner` that these have not taken yet, in order."""
        return await self._messages(MESSAGES, owner)

    async def unread_messages(self, task: str) -> list[PostedMessage]:
        """The messages that a task has not taken yet, in order."""
        return await self._messages(_WAITING, task)

    async def adopt(self, events: Sequence[Event]) -> None:
        """Write a whole foreign journal of one task as it is; UserMistake if its id is taken."""
        growth = imported_journal(events)
        if not await self._write(InsertTask(self._cursor, self._commit_ledger, growth, lease=self._lease)):
            raise id_taken(growth.state.id)

    async def delete(self, task: str) -> list[str]:
        """Delete a task with everything below it, all or nothing; the ids that are gone."""
        return await self._write(DeleteTask(self._cursor, self._commit_ledger, task))

    async def task(self, task: str) -> Task | None:
        """The fold of a task's facts, as far as they can be read."""
        return await self._read(lambda: self._task(task))

    async def tasks(self, query: TaskQuery) -> list[Task]:
        """The folds of the newest tasks that match, oldest first, each as far as its facts can be read.

        `ended_after` leaves unfinished tasks in.
        """
        return await self._read(lambda: self._tasks(query))

    async def ids(self, beginning: str) -> list[str]:
        """Every task id that starts so (at most 20)."""
        start = unicode_text(beginning)
        rows = await self._read(lambda: self._reader.execute(_IDS, (start, start)).fetchall())
        return [row[0] for row in rows]

    async def events(self, task: str, after: int = 0) -> list[Event]:
        """The facts of a task with a number above `after`, in order; CorruptFact if one cannot be read."""
        return await self._read(lambda: self._events(task, max(after, 0)))

    async def lines(self, task: str) -> list[dict[str, Any]]:
        """All facts of a task as objects for an export, also those of kinds that are not known here."""
        return await self._read(lambda: lines_of(task, *self._stored(task, 0)))

    async def _messages(self, statement: str, whose: str) -> list[PostedMessage]:
        rows = await self._read(lambda: self._reader.execute(statement, (whose,)).fetchall())
        return [PostedMessage(*row) for row in rows]

    def _write(self, step: WriteStep[T]) -> Awaitable[T]:
        return self._commits.write(step, together=self._is_busy())

    def _is_busy(self) -> bool:
        return len(self._leased) > _FEW

    def _read(self, step: Callable[[], T]) -> Awaitable[T]:
        return patiently(step, self._plain_errors)

    def _take(self, task: str, owner: str, instead_of: str | None, session: str | None) -> Lease:
        with Transaction(self._writer):
            row = self._writer.execute(_TASK, (FOLD, task)).fetchone()
            if row is None:
                raise task_missing(task)
            claimed = self._writer.execute(
                _TAKE, {"id": task, "owner": owner, "lease": self._lease, "dead": instead_of}
            ).fetchall()
            if not claimed:
                raise lease_held(task)
            state, trouble = _folded(self._writer, row)
            if state is None or trouble:
                raise trouble or task_missing(task)
            path = self._commit_ledger.taken(task, session)
        return Lease(owner, claimed[0][0], state, path)

    def _task(self, task: str) -> Task | None:
        with Transaction(self._reader, "BEGIN"):
            row = self._reader.execute(_TASK, (FOLD, task)).fetchone()
            if row is None:
                return None
            state, trouble = _folded(self._reader, row)
        if state is None and trouble:
            raise trouble
        return state

    def _tasks(self, query: TaskQuery) -> list[Task]:
        parent = query.parents[0] if len(query.parents) == 1 else query.parent
        if parent and self._reader.execute(_IS_PARENT, (parent,)).fetchone() is None:
            return []
        wanted = {
            "fold": FOLD,
            "parent": parent,
            "cwd": None if query.cwd is None else unicode_text(query.cwd),
            "statuses": msgspec.json.encode(query.statuses).decode() if query.statuses else None,
            "ended_after": query.ended_after,
            "conversations": query.conversations,
            "limit": -1 if query.limit is None else max(query.limit, 0),
            "roots": query.roots,
            "agent": None if query.agent is None else unicode_text(query.agent),
            "before": query.before,
        }
        statement = _UNHEARD if query.unheard else _CHILDREN if parent else _TASKS
        if len(query.parents) > 1:
            statement = _SEVERAL
            wanted["parents"] = msgspec.json.encode(query.parents).decode()
        with Transaction(self._reader, "BEGIN"):
            rows = self._reader.execute(statement, wanted).fetchall()
            states = [_folded(self._reader, row)[0] for row in reversed(rows)]
        return [state for state in states if state is not None]

    def _events(self, task: str, after: int) -> list[Event]:
        rows, last = self._stored(task, after)
        return events_of(task, rows, after, last)

    def _stored(self, task: str, after: int) -> tuple[list[StoredFact], int]:
        """The facts after a number, and the number of the last one."""
        with Transaction(self._reader, "BEGIN"):
            last = self._reader.execute(_LAST_SEQ, (task,)).fetchone()
            rows = self._reader.execute(_EVENTS, (task, after)).fetchall() if last else []
        return rows, last[0] if last else 0


def _folded(
    connection: sqlite3.Connection, row: tuple[str, int, bytes | None]
) -> tuple[Task | None, CorruptFact | None]:
    """A task from its snapshot and the facts after it, as far as they can be read, and the error."""
    task, last, body = row
    state = snapshot_of(body)
    known = state.seq if state else 0
    rows = connection.execute(_EVENTS, (task, known)).fetchall() if known < last else []
    return folded(task, state, rows, last)
