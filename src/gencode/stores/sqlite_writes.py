"""Writes to the SQLite file: a new task, more events of a leased one, a message, a deletion."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from gencode.core.events import DurableFact, Event, kind_of
from gencode.core.ids import stamp
from gencode.core.task import Task
from gencode.journal.store import Lease
from gencode.stores.group_commit import WriteStep
from gencode.stores.journal_rules import (
    MOST_WAITING,
    Growth,
    extended_journal,
    lease_lost,
    mailbox_full,
    task_missing,
    tasks_running,
)
from gencode.stores.sqlite_ledger import CommitLedger
from gencode.stores.task_fold import FOLD, SNAPSHOT_EVERY, snapshot

_INSERT_SESSION = """
INSERT INTO gen_task (id, agent, cwd, conversation, parent, status, model, created_at, updated_at, ended_at,
                      epoch, owner, lease_until, last_seq, received, paid_by, counted)
VALUES (:id, :agent, :cwd, :conversation, :parent, :status, :model, :created, :updated, :ended,
        :epoch, :owner, iif(:owner IS NULL, NULL, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :lease)), :seq,
        :received, :paid, :owner IS NOT NULL)
ON CONFLICT (id) DO NOTHING
"""
_INSERT_EVENT = "INSERT INTO gen_journal (task, seq, epoch, kind, body, at) VALUES (?, ?, ?, ?, ?, ?)"
_ADVANCE = """
UPDATE gen_task SET last_seq = ?, model = ?, updated_at = ?
WHERE id = ? AND epoch = ? AND owner = ? AND last_seq = ?
"""
# The status and the owner only where they change: naming a column makes SQLite write its indexes anew.
_TURN = _ADVANCE.replace("SET ", "SET status = ?, ended_at = ?, ")
_LAST_TURN = _TURN.replace("SET ", "SET owner = NULL, lease_until = NULL, ")
_BELOW = """
WITH RECURSIVE below(id) AS (SELECT ? UNION SELECT s.id FROM gen_task s JOIN below b ON s.parent = b.id)
SELECT s.id, s.owner FROM gen_task s JOIN below b ON s.id = b.id ORDER BY s.created_at, s.rowid
"""
_SNAPSHOT = """
INSERT INTO gen_snapshot (task, seq, fold, body) VALUES (?, ?, ?, ?)
ON CONFLICT (task) DO UPDATE SET seq = excluded.seq, fold = excluded.fold, body = excluded.body
"""
_RECEIVED = "UPDATE gen_task SET received = ? WHERE id = ?"
_TAKEN = "DELETE FROM gen_message WHERE task = ? AND number <= ?"
# Also above `received`: an imported task may have received messages that were never posted here.
_NUMBER = """
UPDATE gen_task SET posted = max(posted, received) + 1 WHERE id = ? AND posted - received < ? RETURNING posted
"""
_INSERT_MESSAGE = "INSERT INTO gen_message (task, number, text, sender, at) VALUES (?, ?, ?, ?, ?)"
RELEASE = "UPDATE gen_task SET owner = NULL, lease_until = NULL WHERE id = ? AND epoch = ? AND owner = ?"


class InsertTask(WriteStep[bool]):
    """A new task with its whole journal; False when its id is taken."""

    __slots__ = ("_cursor", "_epoch", "_growth", "_lease", "_ledger", "_owner", "_session", "path")

    def __init__(
        self,
        cursor: sqlite3.Cursor,
        ledger: CommitLedger,
        growth: Growth,
        *,
        lease: str,
        owner: str | None = None,
        session: str = "",
    ) -> None:
        self._cursor = cursor
        self._ledger = ledger
        self._growth = growth
        self._lease = lease
        self._owner = owner
        self._session = session
        self._epoch = 0 if owner is None else 1
        self.path: tuple[str, ...] = ()
        """The accounts that the new task spends from, once it is written."""

    def write(self) -> bool:
        """Write the row of the task, its facts and, where these are many or the last ones, their fold."""
        growth = self._growth
        route = self._ledger.check_created(growth.state, self._session) if self._owner is not None else None
        row = {**_row(growth.state), "epoch": self._epoch, "owner": self._owner, "lease": self._lease}
        row["updated"] = growth.events[-1].at
        row["paid"] = self._session or None if route is not None and len(route.tasks) == 1 else None
        if not self._cursor.execute(_INSERT_SESSION, row).rowcount:
            return False
        _write_facts(self._cursor, growth, self._epoch)
        if growth.state.seq >= SNAPSHOT_EVERY or growth.state.status.ended:
            _write_snapshot(self._cursor, growth.state)
        if route is None:
            self._ledger.adopted(growth.state.id)
        else:
            self._ledger.created(growth.state, route)
            self.path = route.path
        return True


class AppendEvents(WriteStep[list[Event]]):
    """More facts of a leased task, guarded by its epoch and number; `last` also gives the lease back."""

    __slots__ = ("_before", "_cursor", "_facts", "_last", "_lease", "_ledger")

    def __init__(
        self,
        cursor: sqlite3.Cursor,
        ledger: CommitLedger,
        lease: Lease,
        facts: Sequence[DurableFact],
        last: bool,
    ) -> None:
        self._cursor = cursor
        self._ledger = ledger
        self._lease = lease
        self._facts = facts
        self._last = last
        self._before = lease.state

    def write(self) -> list[Event]:
        """Move the task on if it is still ours, then write the facts and what follows from them."""
        lease, cursor = self._lease, self._cursor
        before = self._before = lease.state
        growth = extended_journal(before, self._facts)
        state = growth.state
        turns_status = growth.turns_status
        opened = self._ledger.check_appended(before, state) if turns_status else None
        if not self._advance(growth, turns_status):
            raise lease_lost(state.id)
        _write_facts(cursor, growth, lease.epoch)
        ends = turns_status and state.status.ended
        if ends or state.seq // SNAPSHOT_EVERY != before.seq // SNAPSHOT_EVERY:
            _write_snapshot(cursor, state)
        if state.delivered.mailed != before.delivered.mailed:
            cursor.execute(_RECEIVED, (state.delivered.mailed, state.id))
            cursor.execute(_TAKEN, (state.id, state.delivered.mailed))
        lease.unlimited = not self._ledger.appended(before, state, lease.path, opened)
        if self._last and not turns_status:
            cursor.execute(RELEASE, (state.id, lease.epoch, lease.owner))
        lease.state = state
        return growth.events

    def _advance(self, growth: Growth, turns_status: bool) -> int:
        """Move the row of the task on; 0 when it is not ours any more."""
        lease, state = self._lease, growth.state
        guarded = (state.seq, state.run.model, growth.events[-1].at)
        guarded += (state.id, lease.epoch, lease.owner, self._before.seq)
        if not turns_status:
            return self._cursor.execute(_ADVANCE, guarded).rowcount
        statement = _LAST_TURN if self._last else _TURN
        return self._cursor.execute(statement, (state.status, state.end.at, *guarded)).rowcount

    def undo(self) -> None:
        """Restore the lease's state."""
        self._lease.state = self._before


class PostMessage(WriteStep[int]):
    """A message to a task, whoever holds its lease; the message's number."""

    __slots__ = ("_cursor", "_sender", "_task", "_text")

    def __init__(self, cursor: sqlite3.Cursor, task: str, text: str, sender: str) -> None:
        self._cursor = cursor
        self._task = task
        self._text = text
        self._sender = sender

    def write(self) -> int:
        """Draw the next number and write the message under it."""
        numbered = self._cursor.execute(_NUMBER, (self._task, MOST_WAITING)).fetchall()
        if not numbered:
            known = self._cursor.execute("SELECT 1 FROM gen_task WHERE id = ?", (self._task,)).fetchone()
            raise mailbox_full(self._task) if known else task_missing(self._task)
        number: int = numbered[0][0]
        row = (self._task, number, self._text, self._sender, stamp())
        self._cursor.execute(_INSERT_MESSAGE, row)
        return number


class DeleteTask(WriteStep[list[str]]):
    """A task and everything below it; nothing while any of it is leased."""

    __slots__ = ("_cursor", "_ledger", "_task")

    def __init__(self, cursor: sqlite3.Cursor, ledger: CommitLedger, task: str) -> None:
        self._cursor = cursor
        self._ledger = ledger
        self._task = task

    def write(self) -> list[str]:
        """Delete the rows; those of facts and snapshots go with them."""
        rows = self._cursor.execute(_BELOW, (self._task,)).fetchall()
        if not rows:
            raise task_missing(self._task)
        if owned := [task for task, owner in rows if owner is not None]:
            raise tasks_running(owned)
        ids: list[str] = [task for task, _ in rows]
        self._ledger.deleted(ids)
        self._cursor.executemany("DELETE FROM gen_task WHERE id = ?", [(task,) for task in ids])
        return ids


def _write_facts(cursor: sqlite3.Cursor, growth: Growth, epoch: int) -> None:
    pairs = zip(growth.events, growth.bodies, strict=True)
    rows = [(e.task, e.seq, epoch, kind_of(e.fact), body.decode(), e.at) for e, body in pairs]
    cursor.executemany(_INSERT_EVENT, rows)


def _write_snapshot(cursor: sqlite3.Cursor, state: Task) -> None:
    cursor.execute(_SNAPSHOT, (state.id, state.seq, FOLD, snapshot(state)))


def _row(state: Task) -> dict[str, Any]:
    return {
        "id": state.id,
        "agent": state.agent,
        "cwd": state.cwd,
        "conversation": state.conversation,
        "parent": state.parent,
        "status": state.status,
        "model": state.run.model,
        "created": state.created_at,
        "ended": state.end.at,
        "seq": state.seq,
        "received": state.delivered.mailed,
    }
