"""What some other program sees and does in a database, and a task to look at."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from gencode.core.events import DurableFact, TaskCreated, TaskEnded, TaskStarted
from gencode.core.status import EndReason, Status
from gencode.journal.store import Lease
from gencode.stores.sqlite import SqliteStore
from tests.contracts.store import said


def rows(path: Path, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """What some other program sees or does in the file."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA recursive_triggers = ON")
        return connection.execute(statement, values).fetchall()


async def ended_task(store: SqliteStore, prompt: str) -> Lease:
    lease = await store.create(TaskCreated(prompt=prompt), "me")
    facts: list[DurableFact] = [
        TaskStarted(model="m"),
        said("a"),
        said("b"),
        TaskEnded(Status.COMPLETED, "ok", reason=EndReason.FINISHED),
    ]
    await store.append(lease, facts)
    return lease
