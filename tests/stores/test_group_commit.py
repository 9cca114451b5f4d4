"""Many tasks that write in one turn of the event loop share a transaction, and none suffers from another."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gencode.core.errors import Fenced, StoreTrouble
from gencode.core.events import TaskCreated
from gencode.core.task import replay
from gencode.journal.store import Lease
from gencode.stores import group_commit
from gencode.stores.sqlite import SqliteStore
from tests.contracts.store import said
from tests.stores.other_program import rows

MANY = 20


async def many(store: SqliteStore) -> list[Lease]:
    return [await store.create(TaskCreated(prompt=f"{n}"), "me") for n in range(MANY)]


async def numbers(store: SqliteStore, leases: list[Lease]) -> list[int]:
    """How many facts each task has; every journal must replay to what its lease says."""
    counted: list[int] = []
    for lease in leases:
        events = await store.events(lease.task)
        assert replay(events) == lease.state == await store.task(lease.task)
        counted.append(len(events))
    return counted


def outcome(done: asyncio.Future[object]) -> str:
    error = done.exception()
    return type(error).__name__ if error else "written"


async def all_of(*appends: "asyncio.Task[object]") -> list[str]:
    await asyncio.wait(appends)
    return [outcome(each) for each in appends]


async def test_appends_of_one_turn_share_transactions(store: SqliteStore, path: Path) -> None:
    leases = await many(store)
    log = path.with_name(f"{path.name}-wal")
    sizes = [log.stat().st_size]
    await asyncio.gather(*(store.append(lease, [said("hello")]) for lease in leases))
    sizes.append(log.stat().st_size)
    for lease in leases:
        await store.append(lease, [said("hello")])
    sizes.append(log.stat().st_size)
    together_grew, apart_grew = sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert 0 < together_grew < apart_grew / 2  # every commit writes its pages anew
    assert await numbers(store, leases) == [3] * MANY


async def test_a_lost_lease_fails_alone(store: SqliteStore) -> None:
    leases = await many(store)
    lost = leases[7]
    taken = await store.take(lost.task, "you", "me")
    appends = [asyncio.create_task(store.append(lease, [said("mine")])) for lease in leases]
    ended = await all_of(*appends)
    assert ended == ["Fenced" if lease is lost else "written" for lease in leases]
    leases[7] = taken
    assert await numbers(store, leases) == [1 if lease is taken else 2 for lease in leases]
    with pytest.raises(Fenced):
        await store.append(lost, [said("still mine?")])


async def test_what_sqlite_refuses_fails_alone(store: SqliteStore, path: Path) -> None:
    leases = await many(store)
    refused = leases[3].task
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        when = f"WHEN NEW.task = '{refused}' BEGIN SELECT RAISE(ABORT, 'no'); END"
        other.execute(f"CREATE TRIGGER no BEFORE INSERT ON gen_journal {when}")
        appends = [asyncio.create_task(store.append(lease, [said("mine")])) for lease in leases]
        ended = await all_of(*appends)
        assert ended == ["IntegrityError" if lease.task == refused else "written" for lease in leases]
        assert await numbers(store, leases) == [1 if lease.task == refused else 2 for lease in leases]
        other.execute("DROP TRIGGER no")
    await asyncio.gather(*(store.append(lease, [said("again")]) for lease in leases))
    assert await numbers(store, leases) == [2 if lease.task == refused else 3 for lease in leases]


async def test_two_appends_of_one_task_in_one_turn_follow_each_other(store: SqliteStore) -> None:
    leases = await many(store)
    first, second = await asyncio.gather(
        store.append(leases[0], [said("one")]), store.append(leases[0], [said("two")])
    )
    assert [event.seq for event in (*first, *second)] == [2, 3]
    assert await numbers(store, leases) == [3, *[1] * (MANY - 1)]


async def test_an_append_that_is_cancelled_before_the_commit_writes_nothing(store: SqliteStore) -> None:
    leases = await many(store)
    appends = [asyncio.create_task(store.append(lease, [said("mine")])) for lease in leases]
    asyncio.get_running_loop().call_soon(appends[5].cancel)
    await asyncio.wait(appends)
    assert [each.cancelled() for each in appends] == [n == 5 for n in range(MANY)]
    assert await numbers(store, leases) == [1 if n == 5 else 2 for n in range(MANY)]


async def test_a_cancel_after_the_commit_comes_once_the_events_were_heard(store: SqliteStore) -> None:
    leases = await many(store)
    heard: list[int] = []
    cut: list[str] = []

    async def work() -> None:
        heard.extend(event.seq or 0 for event in await store.append(leases[0], [said("mine")]))
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError as cancelled:
            cut.append(type(cancelled).__name__)
            raise

    working = asyncio.create_task(work())
    born = leases[0].state
    while leases[0].state is born:  # noqa: ASYNC110 (the moment between the commit and its being heard)
        await asyncio.sleep(0)
    working.cancel()
    await asyncio.wait([working])
    assert (heard, cut, working.cancelled()) == ([2], ["CancelledError"], True)


async def test_everybody_waits_for_another_process_and_nobody_is_lost(store: SqliteStore, path: Path) -> None:
    leases = await many(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        appends = [asyncio.create_task(store.append(lease, [said("patient")])) for lease in leases]
        await asyncio.sleep(0.05)
        assert not any(each.done() for each in appends)
        other.execute("ROLLBACK")
    assert await all_of(*appends) == ["written"] * MANY
    assert await numbers(store, leases) == [2] * MANY


async def test_a_lock_that_is_never_given_back_is_told_to_everybody(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = await many(store)
    monkeypatch.setattr(group_commit, "PATIENCE", 0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        appends = [asyncio.create_task(store.append(lease, [said("too long")])) for lease in leases]
        assert await all_of(*appends) == [StoreTrouble.__name__] * MANY
    assert await numbers(store, leases) == [1] * MANY
    assert rows(path, "SELECT count(*) FROM gen_journal") == [(MANY,)]
