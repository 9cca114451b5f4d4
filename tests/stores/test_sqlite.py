"""The SQLite store keeps the promises of the port, and those of a file that several processes share."""

import asyncio
import itertools
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from gencode.budgets.ledger import Granted, Hold
from gencode.core.budget import Budget
from gencode.core.errors import StoreTrouble, UserMistake
from gencode.core.events import MessageAdded, TaskCreated, TaskEnded, TaskStarted
from gencode.core.ids import new_id
from gencode.core.messages import AssistantMessage, UserMessage
from gencode.core.rules import Mode, Policy
from gencode.core.status import EndReason, Status
from gencode.core.task import replay
from gencode.journal.store import Store, TaskQuery
from gencode.stores import group_commit
from gencode.stores.sqlite import ASKED, MESSAGES, SqliteStore
from gencode.stores.sqlite_schema import VERSION, Durability
from gencode.stores.sqlite_writes import SNAPSHOT_EVERY
from tests.contracts.changes import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.changes_of_others import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.changes_of_others import OpenTwice
from tests.contracts.global_log import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.ledger import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.letters import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.schedule import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.store import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.store import OpenStore, everything, said
from tests.contracts.unknown_kind import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.unknown_kind import WriteFact
from tests.contracts.wishes import *  # noqa: F403  (the contract's tests run here)
from tests.stores.other_program import ended_task, rows


@pytest.fixture(params=["normal", "power"])
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[OpenStore]:
    durability: Durability = request.param
    numbers = itertools.count()
    stores: list[SqliteStore] = []

    async def opened(*, lease_seconds: float = 15.0, draw: Callable[[], str] = new_id) -> Store:
        path = tmp_path / f"{next(numbers)}" / "gen.db"
        store = await SqliteStore.open(path, durability=durability, lease_seconds=lease_seconds, draw=draw)
        stores.append(store)
        return store

    yield opened
    for store in stores:
        await store.close()


@pytest.fixture
def write_fact() -> WriteFact:
    async def written(store: Store, task: str, seq: int, body: str) -> None:
        assert isinstance(store, SqliteStore)
        assert store.storms is not None
        path = store.storms.with_name("gen.db")
        rows(path, "UPDATE gen_journal SET body = ? WHERE task = ? AND seq = ?", body, task, seq)

    return written


@pytest.fixture
async def open_twice(tmp_path: Path) -> AsyncGenerator[OpenTwice]:
    stores: list[SqliteStore] = []

    async def opened() -> tuple[Store, Store]:
        for _ in range(2):
            stores.append(await SqliteStore.open(tmp_path / "twice" / "gen.db"))
        return stores[0], stores[1]

    yield opened
    for store in stores:
        await store.close()


def permissions(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_the_file_is_private_and_in_wal_mode(store: SqliteStore, path: Path) -> None:
    await store.create(TaskCreated(), "me")
    assert (permissions(path), permissions(path.parent)) == (0o600, 0o700)
    assert rows(path, "PRAGMA journal_mode") == [("wal",)]
    assert rows(path, "PRAGMA user_version") == [(VERSION,)]


async def test_facts_outlive_the_store(path: Path) -> None:
    store = await SqliteStore.open(path)
    lease = await ended_task(store, "remember")
    events = await store.events(lease.task)
    await store.close()
    again = await SqliteStore.open(path)
    assert await everything(again, lease.task) == (events, lease.state)
    await again.close()


async def test_subsessions_rows_tell_what_openfork_tells(store: SqliteStore, path: Path) -> None:
    talk = await store.create(TaskCreated(conversation=True), "me")
    policies = (Policy(Mode.PLAN),)
    fact = TaskCreated(agent="Explore", prompt="p", parent=talk.task, call="call-7", policies=policies)
    child = await store.create(fact, "me")
    lone = await store.create(TaskCreated(parent="0badcafe"), "me")
    await store.append(
        child, [TaskStarted(), TaskEnded(Status.FAILED, "half", "broke", reason=EndReason.FAILED)]
    )
    every = "SELECT * FROM SubSessions ORDER BY CreatedAt"
    permissions = '[{"mode":"plan","rules":[],"owner":"session"}]'
    created, ended = child.state.created_at, child.state.end.at
    assert rows(path, every) == [
        (
            child.task,
            talk.task,
            "call-7",
            "Explore",
            "failed",
            "p",
            "half",
            "broke",
            permissions,
            created,
            ended,
        ),
        (
            lone.task,
            None,
            None,
            "general-purpose",
            "pending",
            "",
            None,
            None,
            "[]",
            lone.state.created_at,
            None,
        ),
    ]
    await store.append(child, [TaskStarted()])
    status = "SELECT Status, Result, Error, CompletedAt FROM SubSessions WHERE Id = ?"
    assert rows(path, status, child.task) == [("running", None, None, None)]


async def test_deleting_a_conversation_deletes_everything_below_it(store: SqliteStore, path: Path) -> None:
    talk = await store.create(TaskCreated(conversation=True), "me")
    child = await store.create(TaskCreated(parent=talk.task), "me")
    below = await store.create(TaskCreated(parent=child.task), "me")
    other = await store.create(TaskCreated(), "me")
    for lease in (talk, child, below, other):
        await store.append(lease, [TaskStarted(), TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)])
    rows(path, "DELETE FROM gen_task WHERE id = ?", talk.task)
    assert await store.tasks(TaskQuery()) == [other.state]
    for table in ("DISTINCT task FROM gen_journal", "task FROM gen_snapshot", "Id FROM SubSessions"):
        assert rows(path, f"SELECT {table}") == [(other.task,)]


async def test_a_parent_that_is_imported_later_finds_its_children(store: SqliteStore, path: Path) -> None:
    child = await store.create(TaskCreated(parent="0badcafe"), "me")
    elsewhere = await SqliteStore.open(path.with_name("elsewhere.db"), draw=lambda: "0badcafe")
    parent = await elsewhere.create(TaskCreated(conversation=True), "me")
    await store.adopt(await elsewhere.events(parent.task))
    await elsewhere.close()
    assert rows(path, "SELECT ParentSessionId FROM SubSessions WHERE Id = ?", child.task) == [("0badcafe",)]


async def test_an_append_does_not_rewrite_the_long_texts(store: SqliteStore, path: Path) -> None:
    lease = await store.create(TaskCreated(prompt="p" * 1_000_000), "me")
    await store.append(lease, [TaskStarted(system="s" * 1_000_000)])
    rows(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    for n in range(20):
        await store.append(lease, [said(f"{n}")])
    log = path.with_name(f"{path.name}-wal")
    assert log.stat().st_size < 1_000_000
    assert await store.task(lease.task) == lease.state


async def test_a_task_is_read_from_its_last_snapshot_on(store: SqliteStore, path: Path) -> None:
    lease = await store.create(TaskCreated(), "me")
    for n in range(SNAPSHOT_EVERY + 5):
        await store.append(lease, [MessageAdded(AssistantMessage(f"{n}"))])
    rows(path, "UPDATE gen_journal SET body = 'gone' WHERE seq < ?", SNAPSHOT_EVERY)
    assert await store.task(lease.task) == lease.state
    assert (await store.take(lease.task, "me")).state == lease.state


@pytest.mark.parametrize("change", ["Body = 'garbage'", "Body = x'FF00'", "Fold = 0"])
async def test_a_snapshot_that_cannot_be_used_is_folded_again(
    store: SqliteStore, path: Path, change: str
) -> None:
    lease = await ended_task(store, "fold me")
    rows(path, f"UPDATE gen_snapshot SET {change}")  # noqa: S608
    assert await store.tasks(TaskQuery()) == [lease.state]


async def test_what_is_new_for_an_owner_is_found_without_looking_at_its_tasks(
    store: SqliteStore, path: Path
) -> None:
    await store.create(TaskCreated(), "me")
    for statement, index in ((ASKED, "asked"), (MESSAGES, "mail")):
        plan = rows(path, f"EXPLAIN QUERY PLAN {statement}", "me")
        assert f"USING INDEX idx_sessions_{index} (owner=?)" in plan[0][3]


async def test_a_letter_that_was_taken_is_kept_in_the_journal_and_only_there(
    store: SqliteStore, path: Path
) -> None:
    lease = await store.create(TaskCreated(), "me")
    for text in ("one", "two"):
        await store.post(lease.task, text, "user")
    await store.append(lease, [MessageAdded(UserMessage("one", mail=1))])
    assert rows(path, "SELECT number, text FROM gen_message") == [(2, "two")]


async def test_a_renewed_lease_is_not_free(store: SqliteStore, path: Path) -> None:
    short = await SqliteStore.open(path, lease_seconds=0)
    mine, other = await short.create(TaskCreated(), "me"), await short.create(TaskCreated(), "other")
    await store.renew("me")
    with pytest.raises(UserMistake):
        await store.take(mine.task, "third")
    assert (await store.take(other.task, "third")).owner == "third"
    await short.close()


async def test_a_lock_of_another_process_never_blocks_the_loop(store: SqliteStore, path: Path) -> None:
    lease = await store.create(TaskCreated(), "me")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(store.append(lease, [said("patient")]))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        assert await store.task(lease.task) == lease.state
        other.execute("ROLLBACK")
    assert [event.seq for event in await waiting] == [2]


async def test_a_lock_that_is_never_given_back_is_told(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "PATIENCE", 0.01)
    lease = await store.create(TaskCreated(), "me")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreTrouble, match="Another program"):
            await store.append(lease, [said("too long")])
    assert len(await store.append(lease, [said("now")])) == 1


async def test_a_hold_that_cannot_be_written_is_not_taken_and_can_be_taken_later(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await store.create(TaskCreated(budget=Budget(tokens=100)), "me")
    call = Hold(lease.task, lease.path, {"turns": 1, "tokens": 60}, "me")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with monkeypatch.context() as short:
            short.setattr(group_commit, "PATIENCE", 0.01)
            with pytest.raises(StoreTrouble, match="Another program"):
                await store.ledger.hold(call)
        waiting = asyncio.create_task(store.ledger.hold(call))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        other.execute("ROLLBACK")
    assert await waiting == Granted(alone=True)
    balance = await store.ledger.balance(lease.task)
    assert balance is not None
    assert (balance.account.calls, balance.account.held["tokens"]) == (1, 60)


async def test_a_cancelled_append_leaves_a_whole_journal(path: Path) -> None:
    store = await SqliteStore.open(path, durability="power")
    lease = await store.create(TaskCreated(), "me")
    for n in range(20):
        appending = asyncio.create_task(store.append(lease, [said(f"{n}"), said(f"{n}")]))
        await asyncio.sleep(0)
        appending.cancel()
        await asyncio.wait([appending])
    await store.append(lease, [said("last")])
    events, task = await everything(store, lease.task)
    assert replay(events) == task == lease.state
    assert (events[-1].fact, len(events) % 2) == (said("last"), 0)
    await store.close()
