"""A database of an earlier version is upgraded alone, after a backup copy; old processes lose nothing."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gencode.core.errors import StoreTrouble
from gencode.journal.owner import new_owner
from gencode.stores.sqlite import SqliteStore
from gencode.stores.sqlite_migrations import MIGRATIONS, OLDEST
from gencode.stores.sqlite_schema import VERSION, Migration, migrate
from tests.stores.earlier_database import made_by_version
from tests.stores.other_program import rows
from tests.stores.process_outcomes import outcomes, start

LAST_OF_0_1 = 6
ELSEWHERE = "farm-7 pid:[1]|boot|4711|99|aaaaaaaa"
SHAPE = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
INSERT = "INSERT INTO Events (Task, Seq, Epoch, Kind, Body, At) VALUES ('bbbbbbbb', 3, 1, 'x', '{}', '')"
"""As 0.1 writes a fact."""


@pytest.fixture
def old(path: Path) -> Path:
    made_by_version(LAST_OF_0_1, path)
    return path


def backup_of(path: Path, number: str = "") -> Path:
    return path.with_name(f"{path.name}.0.1-backup{number}")


def contents(path: Path) -> list[Any]:
    """All that stands in a database, whatever its version."""
    return [
        rows(path, f"SELECT * FROM {table} ORDER BY 1")  # noqa: S608 (a name from the database itself)
        for (table,) in rows(path, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    ]


def others(path: Path) -> set[str]:
    """What lies beside a database, without what SQLite puts there."""
    return {each.name for each in path.parent.iterdir()} - {
        path.name,
        *(f"{path.name}{end}" for end in ("-wal", "-shm")),
    }


def leased_by(owner: str, path: Path) -> None:
    rows(
        path,
        "UPDATE Sessions SET Owner = ?, LeaseUntil = '2999-01-01T00:00:00.000Z' WHERE Id = 'bbbbbbbb'",
        owner,
    )


def test_the_state_before_an_upgrade_is_kept_in_a_private_copy_beside_it(old: Path) -> None:
    shape, before = rows(old, SHAPE), contents(old)
    assert migrate(old) == Migration(LAST_OF_0_1, VERSION, backup_of(old))
    assert others(old) == {backup_of(old).name}
    assert backup_of(old).stat().st_mode & 0o777 == 0o600
    assert (rows(backup_of(old), SHAPE), contents(backup_of(old))) == (shape, before)
    assert rows(backup_of(old), "PRAGMA user_version") == [(LAST_OF_0_1,)]


def test_what_is_in_the_log_of_a_killed_process_is_in_the_copy(old: Path) -> None:
    copy = old.with_name("killed.db")
    with closing(sqlite3.connect(old, isolation_level=None)) as killed:
        killed.execute(INSERT)
        for end in ("", "-wal"):
            copy.with_name(f"{copy.name}{end}").write_bytes(old.with_name(f"{old.name}{end}").read_bytes())
    migrate(copy)
    assert rows(copy, "SELECT seq FROM gen_journal WHERE task = 'bbbbbbbb'") == [(1,), (2,), (3,)]
    assert rows(backup_of(copy), "SELECT Seq FROM Events WHERE Task = 'bbbbbbbb'") == [(1,), (2,), (3,)]


def test_a_copy_is_never_written_over_another_one(old: Path) -> None:
    backup_of(old).write_text("mine")
    backup_of(old, "-2").symlink_to("nowhere")
    assert migrate(old).backup == backup_of(old, "-3")
    assert backup_of(old).read_text() == "mine"


def test_half_a_copy_of_a_killed_upgrade_is_made_anew(old: Path) -> None:
    backup_of(old, ".part").write_text("half")
    assert migrate(old).backup == backup_of(old)
    assert others(old) == {backup_of(old).name}


async def test_without_room_for_a_copy_nothing_is_changed(old: Path) -> None:
    rows(old, "UPDATE Sessions SET Model = ?", "m" * 100_000)
    before = contents(old)
    [said] = await outcomes(await start("migrate-with-room-for", old, "100000"))
    assert "was not upgraded, because no backup copy could be made" in said and "Nothing was changed" in said
    assert (contents(old), rows(old, "PRAGMA user_version"), others(old)) == (before, [(LAST_OF_0_1,)], set())
    assert migrate(old).after == VERSION


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(old: Path) -> None:
    rows(old, "CREATE TABLE Journal (Mine TEXT)")
    before = contents(old)
    with pytest.raises(StoreTrouble, match="already another table"):
        migrate(old)
    assert (contents(old), others(old)) == (before, set())


async def test_a_process_that_has_the_database_open_is_named_and_nothing_is_changed(old: Path) -> None:
    idle = await start("stay-connected", old)
    before = contents(old)
    with pytest.raises(StoreTrouble) as refused:
        await asyncio.to_thread(migrate, old)
    assert f"process {idle.pid} (" in str(refused.value) and "Nothing was changed" in str(refused.value)
    assert "End it, then try again" in str(refused.value)
    assert (contents(old), others(old)) == (before, set())
    await outcomes(idle)
    assert migrate(old).after == VERSION


async def test_a_process_that_is_about_to_end_is_waited_for(old: Path) -> None:
    idle = await start("stay-connected", old)
    upgrade = asyncio.create_task(asyncio.to_thread(migrate, old))
    await outcomes(idle)
    assert (await upgrade).after == VERSION


def test_a_process_on_another_machine_that_works_on_a_task_is_named(old: Path) -> None:
    leased_by(ELSEWHERE, old)
    with pytest.raises(StoreTrouble, match="while process 4711 on farm-7 works on task bbbbbbbb"):
        migrate(old)
    assert (rows(old, "PRAGMA user_version"), others(old)) == ([(LAST_OF_0_1,)], set())


def test_a_dead_process_keeps_nobody_from_upgrading(old: Path) -> None:
    place, boot, _, began, end = new_owner().split("|")
    leased_by("|".join((place, boot, "4194999", began, end)), old)
    assert migrate(old).after == VERSION


async def test_of_processes_that_upgrade_at_once_one_does_it(old: Path) -> None:
    processes = [await start("migrate", old) for _ in range(4)]
    said = sorted(await outcomes(*processes))
    assert said == [f"[{LAST_OF_0_1}, {VERSION}]", *[f"[{VERSION}, {VERSION}]"] * 3]
    assert others(old) == {backup_of(old).name}


@pytest.mark.parametrize(
    "statement", [INSERT, "SELECT Seq, At, Body FROM Events WHERE Task = 'bbbbbbbb' AND Seq > 0"]
)
async def test_a_connection_of_the_earlier_version_neither_reads_nor_writes(
    old: Path, statement: str
) -> None:
    with closing(sqlite3.connect(old, isolation_level=None)) as connection:
        store = await SqliteStore.open(old)
        before = contents(old)
        with pytest.raises(sqlite3.OperationalError) as refused:
            connection.execute(statement)
        # 0.1 says: The database PATH could not be used: …
        assert str(refused.value).endswith("upgraded it; end this program and start the new one")
        assert contents(old) == before
        await store.close()


def test_a_new_database_has_no_copy(path: Path) -> None:
    assert migrate(path) == Migration(0, VERSION)
    assert others(path) == set()
    assert OLDEST + len(MIGRATIONS) == VERSION
