"""A database that an earlier GenCode made is brought up to date, and everything in it stays."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from gencode.core.errors import StoreTrouble
from gencode.core.task import replay
from gencode.journal.store import Ownership, TaskQuery, TaskSignal
from gencode.stores.sqlite import SqliteStore
from gencode.stores.sqlite_migrations import OLDEST
from gencode.stores.sqlite_schema import VERSION, Migration, migrate
from tests.contracts.store import everything
from tests.stores.earlier_database import made_by_version
from tests.stores.other_program import rows


@pytest.mark.parametrize("version", range(OLDEST, VERSION))
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


@pytest.mark.parametrize("version", range(OLDEST, VERSION))
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
    assert rows(path, "SELECT DISTINCT task FROM gen_message") == [("bbbbbbbb",)]
    assert [task.id for task in await store.tasks(TaskQuery())] == ["bbbbbbbb"]
    await store.close()


async def test_a_new_database_and_one_that_was_brought_up_to_date_have_the_same_shape(path: Path) -> None:
    made_by_version(OLDEST, path)
    new = path.with_name("new.db")
    for each in (path, new):
        await (await SqliteStore.open(each)).close()
    assert shape(path) == shape(new)


def test_a_database_that_no_release_made_is_left_alone(path: Path) -> None:
    made_by_version(OLDEST, path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 5")
    before = path.read_bytes()
    with pytest.raises(StoreTrouble, match="has version 5"):
        migrate(path)
    assert path.read_bytes() == before


def shape(path: Path) -> dict[str, str]:
    """Tables and views with their columns, indexes and triggers; without what only keeps 0.1 out."""
    named = rows(path, "SELECT type, name FROM sqlite_master WHERE name NOT IN ('Sessions', 'Events')")
    keys = 'SELECT "table", "from", "to", on_delete FROM pragma_foreign_key_list(?)'
    columns = 'SELECT lower(name), type, "notnull", pk FROM pragma_table_info(?)'
    return {
        f"{kind} {name}": str((sorted(rows(path, columns, name)), rows(path, keys, name))).lower()
        for kind, name in named
    }
