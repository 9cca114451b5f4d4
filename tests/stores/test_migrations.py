"""A database that an earlier GenCode made is brought up to date, and everything in it stays."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from gencode.core.events import Event, TaskCreated, TaskEnded, TaskStarted, kind_of, settle
from gencode.core.status import EndReason, Status
from gencode.core.task import replay
from gencode.journal.store import Ownership, TaskQuery, TaskSignal
from gencode.stores.sqlite import SqliteStore
from gencode.stores.sqlite_schema import MIGRATIONS, VERSION, Migration, migrate
from tests.contracts.store import everything, said
from tests.stores.other_program import rows

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


@pytest.mark.parametrize("version", range(1, VERSION))
async def test_an_older_database_is_brought_up_to_date_and_keeps_its_tasks(path: Path, version: int) -> None:
    events = made_by_version(version, path)
    store = await SqliteStore.open(path)
    assert rows(path, "PRAGMA user_version") == [(VERSION,)]
    assert await everything(store, "aaaaaaaa") == (events, replay(events))
    [owned] = await store.owned()
    assert replace(owned, silent=0.0) == Ownership("bbbbbbbb", "me", over=True)
    assert await store.signals("me") == [("bbbbbbbb", TaskSignal.BACKGROUND)]
    await store.close()
    assert migrate(path) == Migration(VERSION, VERSION)


@pytest.mark.parametrize("version", range(1, VERSION))
async def test_the_tasks_of_an_older_database_can_be_written_to(path: Path, version: int) -> None:
    made_by_version(version, path)
    store = await SqliteStore.open(path)
    assert [await store.post(task, "hello", "user") for task in ("aaaaaaaa", "bbbbbbbb", "bbbbbbbb")] == [
        1,
        1,
        2,
    ]
    assert [(letter.task, letter.number) for letter in await store.posted_messages("me")] == [
        ("bbbbbbbb", 1),
        ("bbbbbbbb", 2),
    ]
    assert await store.delete("aaaaaaaa") == ["aaaaaaaa"]
    assert rows(path, "SELECT DISTINCT Task FROM Letters") == [("bbbbbbbb",)]
    assert [task.id for task in await store.tasks(TaskQuery())] == ["bbbbbbbb"]
    await store.close()


async def test_a_new_database_and_one_that_was_brought_up_to_date_have_the_same_shape(path: Path) -> None:
    made_by_version(2, path)
    new = path.with_name("new.db")
    for each in (path, new):
        await (await SqliteStore.open(each)).close()
    shape = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
    assert rows(path, shape) == rows(new, shape)
