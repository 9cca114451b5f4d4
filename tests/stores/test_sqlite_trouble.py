"""Whatever is wrong with the file is told in a plain sentence; nothing is lost, the rest stays readable."""

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gencode.core.errors import CorruptFact, StoreTrouble
from gencode.core.events import TaskCreated, TaskStarted
from gencode.core.ids import new_id
from gencode.core.task import Task, replay
from gencode.journal.store import TaskQuery
from gencode.stores.sqlite import SqliteChanges, SqliteStore
from gencode.stores.sqlite_schema import VERSION, migrate, open_pair
from gencode.stores.task_fold import unreadable
from tests.contracts.changes import SOON
from tests.contracts.store import everything, said
from tests.stores.other_program import ended_task, rows

NOBODY = 65534


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE gen_journal SET body = 'garbage' WHERE task = ? AND seq = 3",
        "UPDATE gen_journal SET body = x'FFFE' WHERE task = ? AND seq = 3",
        """UPDATE gen_journal SET body = '{"kind":"Unheard"}' WHERE task = ? AND seq = 3""",
        "UPDATE gen_journal SET at = 'never' WHERE task = ? AND seq = 3",
        "UPDATE gen_journal SET at = x'FF' WHERE task = ? AND seq = 3",
        "DELETE FROM gen_journal WHERE task = ? AND seq = 3",
        "DELETE FROM gen_journal WHERE task = ? AND seq >= 3",
    ],
)
async def test_a_corrupt_fact_is_named_and_the_rest_is_readable(
    store: SqliteStore, path: Path, change: str
) -> None:
    good = await ended_task(store, "good")
    bad = await store.create(TaskCreated(prompt="bad"), "me")
    await store.append(bad, [TaskStarted(model="m"), said("a"), said("b")])
    await store.release(bad)
    until_then: Task | None = replay((await store.events(bad.task))[:2])
    rows(path, change, bad.task)
    [_, known] = await store.tasks(TaskQuery())
    assert known.end.error and known.end.error.startswith(f"Fact 3 of task {bad.task}")
    assert known == unreadable(until_then, CorruptFact(known.end.error)) == await store.task(bad.task)
    with pytest.raises(CorruptFact, match=f"Fact 3 of task {bad.task}"):
        await store.events(bad.task)
    with pytest.raises(CorruptFact, match=f"Fact 3 of task {bad.task}"):
        await store.take(bad.task, "you")
    assert await everything(store, good.task) == (await store.events(good.task), good.state)


async def test_a_task_of_which_nothing_can_be_read_hides_no_other(store: SqliteStore, path: Path) -> None:
    good = await ended_task(store, "good")
    bad = await store.create(TaskCreated(), "me")
    rows(path, "UPDATE gen_journal SET body = '' WHERE task = ?", bad.task)
    rows(path, "DELETE FROM gen_snapshot WHERE task = ?", bad.task)
    assert await store.tasks(TaskQuery()) == [good.state]
    with pytest.raises(CorruptFact, match=f"Fact 1 of task {bad.task}"):
        await store.task(bad.task)


def contents(path: Path) -> bytes:
    return path.read_bytes()


async def test_a_database_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    await (await SqliteStore.open(path)).close()
    rows(path, "PRAGMA user_version = 99")
    before = contents(path)
    for opening in (SqliteStore.open(path), asyncio.to_thread(migrate, path)):
        with pytest.raises(StoreTrouble, match=f"has version 99, .* up to {VERSION}; upgrade GenCode"):
            await opening
    assert contents(path) == before


async def test_a_file_that_is_not_a_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("milk, bread, butter\n" * 100)
    with pytest.raises(StoreTrouble, match=r"notes\.txt is not a database"):
        await SqliteStore.open(text)
    assert text.read_text() == "milk, bread, butter\n" * 100


async def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    music = tmp_path / "music.db"
    rows(music, "CREATE TABLE Songs (Title TEXT)")
    with pytest.raises(StoreTrouble, match=r"music\.db is a database of another program"):
        await SqliteStore.open(music)
    assert rows(music, "SELECT name FROM sqlite_master") == [("Songs",)]


async def test_a_folder_in_place_of_the_database_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreTrouble, match="cannot be opened"):
        await SqliteStore.open(tmp_path)


async def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(StoreTrouble, match="cannot be opened"):
        await SqliteStore.open(tmp_path / "home" / "gen.db")


def scribble(path: Path, after: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:after] + b"scribble" * ((len(whole) - after) // 8))


async def test_a_damaged_file_is_told(path: Path) -> None:
    await (await SqliteStore.open(path)).close()
    empty = len(contents(path))
    store = await SqliteStore.open(path)
    for n in range(50):
        await ended_task(store, f"{n}" * 500)
    await store.close()
    scribble(path, after=empty)
    again = await SqliteStore.open(path)
    with pytest.raises(StoreTrouble, match="is damaged"):
        await again.tasks(TaskQuery())
    await again.close()


async def test_a_full_disk_is_told_and_work_goes_on_when_there_is_room(path: Path) -> None:
    connections = await asyncio.to_thread(open_pair, path, "normal")
    store = SqliteStore(path, connections, None, 15.0, new_id)
    lease = await store.create(TaskCreated(), "me")
    connections[0].execute("PRAGMA max_page_count = 60")
    with pytest.raises(StoreTrouble, match=r"The disk is full, so nothing more was written to .*gen\.db"):
        for _ in range(100):
            await store.append(lease, [said("small"), said("x" * 10_000)])
    assert len(await store.events(lease.task)) == lease.state.seq
    assert (lease.state.seq > 1, lease.state.seq % 2) == (True, 1)
    connections[0].execute("PRAGMA max_page_count = 1000000")
    await store.append(lease, [said("room again")])
    events, task = await everything(store, lease.task)
    assert replay(events) == task == lease.state
    await store.close()


async def test_who_waits_for_a_change_of_a_file_that_cannot_be_read_is_woken_to_hear_so(path: Path) -> None:
    writer, reader = await asyncio.to_thread(open_pair, path, "normal")
    changes = SqliteChanges(reader)
    reader.close()
    async with asyncio.timeout(SOON):
        first = await changes.after(changes.count)
        assert await changes.after(first) > first
    changes.close()
    writer.close()


@contextmanager
def without_root() -> Generator[None]:
    """Root may write everywhere, so it becomes nobody for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def open_folder() -> Generator[Path]:
    """A folder that everybody reaches; the usual one for tests is closed to others than its owner."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
        folder.chmod(0o777)


def forbid_writing(*paths: Path) -> None:
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)


async def test_a_read_only_file_is_read_and_the_first_write_says_why_it_cannot(open_folder: Path) -> None:
    path = open_folder / "gen.db"
    with without_root():
        store = await SqliteStore.open(path)
        lease = await ended_task(store, "read me")
        await store.close()
        forbid_writing(path)
        again = await SqliteStore.open(path)
        assert await again.tasks(TaskQuery()) == [lease.state]
        with pytest.raises(StoreTrouble, match=r"gen\.db cannot be written, .* is read-only"):
            await again.create(TaskCreated(), "me")
        await again.close()


async def test_a_read_only_folder_is_read_and_the_first_write_says_why_it_cannot(open_folder: Path) -> None:
    path = open_folder / "gen.db"
    with without_root():
        store = await SqliteStore.open(path)
        lease = await ended_task(store, "read me")
        events = await store.events(lease.task)
        await store.close()
    forbid_writing(open_folder, path)
    with without_root():
        again = await SqliteStore.open(path)
        assert await again.tasks(TaskQuery()) == [lease.state]
        assert await everything(again, lease.task) == (events, lease.state)
        with pytest.raises(StoreTrouble, match=r"gen\.db cannot be written, .* is read-only"):
            await again.create(TaskCreated(), "me")
        await again.close()


async def test_a_new_database_in_a_read_only_folder_is_told(open_folder: Path) -> None:
    forbid_writing(open_folder)
    for path in (open_folder / "gen.db", open_folder / "home" / "gen.db"):
        with (
            without_root(),
            pytest.raises(StoreTrouble, match=r"gen\.db cannot be opened: Permission denied"),
        ):
            await SqliteStore.open(path)


async def test_a_closed_store_says_that_it_is_closed(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "gencode.db")
    await store.close()
    with pytest.raises(StoreTrouble, match="This GenCode was closed"):
        await store.tasks(TaskQuery())
    with pytest.raises(StoreTrouble, match="This GenCode was closed"):
        await store.create(TaskCreated(), "me")
