"""The SQLite store: a journal in one file that several processes may share.

A commit happens on the event loop's own thread, because handing it to another one costs more than the commit;
SQLite never waits in there: while another process writes, the coroutine sleeps and tries again. Where many
tasks are at work, their commits are made together (`together.py`). With durability `power` every commit waits
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
from gencode.stores.group_commit import GroupCommit, WriteStep, patiently
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
from gencode.stores.sqlite_ledger import Accounts, SqliteLedger
from gencode.stores.sqlite_schema import Durability, PlainErrors, Transaction, open_pair
from gencode.stores.sqlite_writes import FOLD, RELEASE, AppendEvents, DeleteTask, InsertTask, PostMessage
from gencode.stores.task_fold import StoredFact, events_of, folded, lines_of, snapshot_of

if TYPE_CHECKING:
    from gencode.stores.sqlite_event_log import SqliteEventLog
    from gencode.stores.sqlite_questions import SqliteQuestions
    from gencode.stores.sqlite_schedule import SqliteOutbox, SqliteSchedule

T = TypeVar("T")

WATCH_SECONDS = 0.04
"""While somebody waits for a change, it is looked so often whether another process has written."""
AWAY_SECONDS = 0.5
"""And so often where the file cannot be read at this moment."""
_FEW = 4
"""Up to so many leased tasks write at once, each in its own transaction; more of them share one."""

_TAKE = """
UPDATE Sessions SET Epoch = Epoch + 1, Owner = :owner, Cancel = 0,
                    LeaseUntil = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :lease)
WHERE Id = :id AND (LeaseUntil IS NULL OR Owner = :owner OR Owner = :dead
                    OR LeaseUntil <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
RETURNING Epoch
"""
_RENEW = """
UPDATE Sessions SET LeaseUntil = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?) WHERE Owner = ? RETURNING Id
"""
# The numbers are those of `TaskSignal`: only a stop (1) replaces a report (3), nothing a stop, a budget (5)
# nothing.
_ASK = """
UPDATE Sessions SET Cancel = iif(Cancel = 1 OR (Cancel = 3 AND :wish <> 1) OR (Cancel <> 0 AND :wish = 5),
                                 Cancel, :wish)
WHERE Id = :id AND Owner IS NOT NULL
"""
ASKED = "SELECT Id, Cancel FROM Sessions WHERE Owner = ? AND Cancel <> 0 AND Cancel BETWEEN 1 AND 5"
_HEARD = "UPDATE Sessions SET Cancel = 0 WHERE Owner = ? AND Cancel IN (4, 5)"
_LETTER = "SELECT l.Task, l.Number, l.Text, l.Sender, l.At FROM Sessions s JOIN Letters l ON l.Task = s.Id"
LETTERS = f"{_LETTER} WHERE s.Owner = ? AND s.Posted > s.Mailed AND l.Number > s.Mailed ORDER BY 1, 2"
_WAITING = f"{_LETTER} WHERE s.Id = ? AND l.Number > s.Mailed ORDER BY 2"
_OWNED = """
SELECT Id, Owner, LeaseUntil <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
       coalesce((julianday('now') - julianday(LeaseUntil)) * 86400, 0) FROM Sessions WHERE Owner IS NOT NULL
UNION ALL
SELECT Id, '', 1, 0 FROM Sessions WHERE Status IN ('pending', 'running') AND Owner IS NULL
"""

_TASK = """
SELECT s.Id, CAST(s.LastSeq AS INTEGER), CAST(p.Body AS BLOB)
FROM Sessions s LEFT JOIN Snapshots p ON p.Task = s.Id AND p.Fold = ? WHERE s.Id = ?
"""
_TASKS = """
SELECT s.Id, CAST(s.LastSeq AS INTEGER), CAST(p.Body AS BLOB)
FROM Sessions s LEFT JOIN Snapshots p ON p.Task = s.Id AND p.Fold = :fold
WHERE (:parent IS NULL OR s.Parent = :parent)
  AND (:cwd IS NULL OR s.Cwd = :cwd)
  AND (:statuses IS NULL OR s.Status IN (SELECT value FROM json_each(:statuses)))
  AND (:ended_after IS NULL OR s.EndedAt IS NULL OR s.EndedAt > :ended_after)
  AND (:conversations IS NULL OR s.Conversation = :conversations)
  AND (:roots = 0 OR s.Parent IS NULL)
  AND (:agent IS NULL OR s.Agent = :agent COLLATE NOCASE)
  AND (:before IS NULL
       OR (s.CreatedAt, s.rowid) < (SELECT b.CreatedAt, b.rowid FROM Sessions b WHERE b.Id = :before))
ORDER BY s.CreatedAt DESC, s.rowid DESC LIMIT :limit
"""
# Asked for every task that ends, and most have sent nobody.
_IS_PARENT = "SELECT 1 FROM Sessions WHERE Parent = ? LIMIT 1"
# With the choice inside the query SQLite would look at every task there is.
_CHILDREN = _TASKS.replace("(:parent IS NULL OR s.Parent = :parent)", "s.Parent = :parent")
_SEVERAL = _CHILDREN.replace("s.Parent = :parent", "s.Parent IN (SELECT value FROM json_each(:parents))")
_UNHEARD = _TASKS.replace("WHERE ", "WHERE s.Posted > s.Mailed AND s.Owner IS NULL AND ", 1)
_IDS = "SELECT Id FROM Sessions WHERE Id >= ? AND Id < ? || 'g' ORDER BY Id LIMIT 20"
_LAST_SEQ = "SELECT CAST(LastSeq AS INTEGER) FROM Sessions WHERE Id = ?"
_EVENTS = (
    "SELECT Seq, CAST(At AS TEXT), CAST(Body AS BLOB) FROM Journal WHERE Task = ? AND Seq > ? ORDER BY Seq"
)


class SqliteChanges(ChangeNotifier):
    """The changes of a file: one timer of the process asks SQLite for what others have committed."""

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
        """Wake everybody: nothing more is noticed."""
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
        """A number that another one replaces with every commit of others; None where it cannot be read."""
        try:
            version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            return None
        return version


class SqliteStore:
    """A `Store` in a file. Make one with `await SqliteStore.open(path)`."""

    def __init__(
        self,
        path: Path,
        connections: tuple[sqlite3.Connection, sqlite3.Connection],
        thread: ThreadPoolExecutor | None,
        lease_seconds: float,
        draw: Callable[[], str],
    ) -> None:
        self._path = path
        self._plain_errors = PlainErrors(path)
        self._writer, self._reader = connections
        self._cursor = self._writer.cursor()  # one for all steps: to make one costs a tenth of a commit
        self._thread = thread
        # A commit of its own leaves the number of the connection that writes as it was. While a thread is
        # at that one, the other connection takes every commit for somebody else's.
        self.changes = SqliteChanges(self._writer if thread is None else self._reader)
        """Wakes whoever waits for something new."""
        self._commits = GroupCommit(self._writer, self._plain_errors, thread, self.changes)
        self._accounts = Accounts(self._writer, _read_task)
        # Each commit makes the other connection read its pages anew.
        reads = self._accounts if thread is None else Accounts(self._reader, _read_task)
        self.ledger = SqliteLedger(self._commits, self._accounts, reads, self._plain_errors, self._is_busy)
        """What tasks may spend, and have spent."""
        self._leased: set[str] = set()
        self._lease_seconds = lease_seconds
        self._lease = f"{lease_seconds:+.3f} seconds"
        self._draw = draw

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
    def schedule(self) -> "SqliteSchedule":
        """What is planned for later; nothing of it is loaded before somebody asks."""
        from gencode.stores.sqlite_schedule import SqliteSchedule

        return SqliteSchedule(self._commits, self._writer, self._reader, self._plain_errors, self._draw)

    @property
    def outbox(self) -> "SqliteOutbox":
        """Messages that are not delivered yet."""
        from gencode.stores.sqlite_schedule import SqliteOutbox

        return SqliteOutbox(self._commits, self._writer, self._reader, self._plain_errors)

    @property
    def global_log(self) -> "SqliteEventLog":
        """The facts of all tasks in one order."""
        from gencode.stores.sqlite_event_log import SqliteEventLog

        return SqliteEventLog(self._path, self._reader, self._plain_errors)

    @property
    def questions(self) -> "SqliteQuestions":
        """Where questions wait until a person answers them."""
        from gencode.stores.sqlite_questions import SqliteQuestions

        return SqliteQuestions(self._commits, self._writer, self._reader, self._plain_errors)

    async def close(self) -> None:
        """Let go of the file; nothing that was appended is lost."""
        self.changes.close()
        self._reader.close()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.shutdown)
        self._writer.close()

    @property
    def storms(self) -> Path:
        """The folder in which processes that share this write down that a model refuses."""
        return self._path.parent / "storms"

    async def create(
        self,
        fact: TaskCreated,
        owner: str,
        then: Sequence[DurableFact] = (),
        named: str = "",
        session: str = "",
    ) -> Lease:
        """Write the first facts of a new task under a free id, and lease it to `owner`."""
        for task in task_ids(self._draw, named):
            growth = new_journal(task, (fact, *then))
            insert = InsertTask(
                self._cursor, self._accounts, growth, lease=self._lease, owner=owner, session=session
            )
            if await self._write(insert):
                self._leased.add(growth.state.id)
                return Lease(owner, 1, growth.state, insert.path)
        raise StoreTrouble(f"No free task id was found in {DRAWS} draws in the database {self._path}.")

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
        events = await self._write(AppendEvents(self._cursor, self._accounts, lease, facts, last))
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
        wanted = {"id": task, "wish": signal.value}
        return await self._commits.change(lambda: self._writer.execute(_ASK, wanted).rowcount) > 0

    async def signals(self, owner: str) -> list[tuple[str, TaskSignal]]:
        """What somebody asked of the tasks of `owner`; an interrupt and a budget are told once."""
        rows = await self._read(lambda: self._reader.execute(ASKED, (owner,)).fetchall())
        asked = [(task, TaskSignal(signal)) for task, signal in rows]
        if any(signal.once for _, signal in asked):
            return await self._commits.change(lambda: self._heard(owner))
        return asked

    def _heard(self, owner: str) -> list[tuple[str, TaskSignal]]:
        """The same, read and taken back as one step: what is asked in between is not lost."""
        asked = [
            (task, TaskSignal(signal)) for task, signal in self._writer.execute(ASKED, (owner,)).fetchall()
        ]
        self._writer.execute(_HEARD, (owner,))
        return asked

    async def post(self, task: str, text: str, sender: str) -> int:
        """Leave a letter for a task, whoever runs it; its number. UserMistake when it cannot be taken."""
        return await self._write(PostMessage(self._cursor, task, message_text(text), unicode_text(sender)))

    async def posted_messages(self, owner: str) -> list[PostedMessage]:
        """The letters to the tasks of `owner` that these have not taken yet, in order."""
        return await self._letters(LETTERS, owner)

    async def unread_messages(self, task: str) -> list[PostedMessage]:
        """The letters that a task has not taken yet, in order."""
        return await self._letters(_WAITING, task)

    async def adopt(self, events: Sequence[Event]) -> None:
        """Write a whole foreign journal of one task as it is; UserMistake if its id is taken."""
        growth = imported_journal(events)
        if not await self._write(InsertTask(self._cursor, self._accounts, growth, lease=self._lease)):
            raise id_taken(growth.state.id)

    async def delete(self, task: str) -> list[str]:
        """Delete a task with everything below it, all or nothing; the ids that are gone."""
        return await self._write(DeleteTask(self._cursor, self._accounts, task))

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

    async def _letters(self, statement: str, whose: str) -> list[PostedMessage]:
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
            path = self._accounts.taken(task, session)
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


def _read_task(connection: sqlite3.Connection, task: str) -> Task | None:
    """A task as far as its facts can be read, inside of whatever transaction is open."""
    row = connection.execute(_TASK, (FOLD, task)).fetchone()
    return _folded(connection, row)[0] if row is not None else None


def _folded(
    connection: sqlite3.Connection, row: tuple[str, int, bytes | None]
) -> tuple[Task | None, CorruptFact | None]:
    """A task from its snapshot and the facts after it, as far as that goes, and what ended it too early."""
    task, last, body = row
    state = snapshot_of(body)
    known = state.seq if state else 0
    rows = connection.execute(_EVENTS, (task, known)).fetchall() if known < last else []
    return folded(task, state, rows, last)
