"""Databases as earlier versions made them."""

import sqlite3
from contextlib import closing
from pathlib import Path

from gencode.core.events import Event, TaskCreated, TaskEnded, TaskStarted, kind_of, settle
from gencode.core.status import EndReason, Status
from gencode.stores.sqlite_migrations import MIGRATIONS
from tests.contracts.store import said

AT = "2026-01-01T00:00:00.000000Z"
LIFE = (
    TaskCreated(prompt="old"),
    TaskStarted(model="m"),
    said("hello"),
    TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED),
)


def made_by_version(version: int, path: Path) -> list[Event]:
    """A database as that version made it, with a task that has ended and one whose owner died."""
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.execute("PRAGMA journal_mode = WAL")
        for statement in (each for steps in MIGRATIONS[:version] for each in steps):
            old.execute(statement)
        for task, status, owner, until in (
            ("aaaaaaaa", "completed", None, None),
            ("bbbbbbbb", "running", "me", "2026-01-01T00:00:00.000Z"),
        ):
            last = len(LIFE) if owner is None else 2
            old.execute(
                "INSERT INTO Sessions (Id, Agent, Cwd, Conversation, Status, CreatedAt, UpdatedAt, Epoch, "
                "Owner, LeaseUntil, LastSeq, Cancel) VALUES (?, '', '', 0, ?, ?, ?, 1, ?, ?, ?, ?)",
                (task, status, AT, AT, owner, until, last, 2 if owner else 0),
            )
            for seq, fact in enumerate(LIFE[:last], start=1):
                row = (task, seq, kind_of(fact), settle(fact)[1].decode(), AT)
                insert = "INSERT INTO Events (Task, Seq, Epoch, Kind, Body, At) VALUES (?, ?, 1, ?, ?, ?)"
                old.execute(insert if version < 7 else insert.replace("Events", "Journal"), row)
    return [Event("aaaaaaaa", seq, AT, fact) for seq, fact in enumerate(LIFE, start=1)]
