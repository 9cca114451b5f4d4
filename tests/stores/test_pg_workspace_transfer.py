"""What travels through Postgres: kept, handed in only by who has the task, and never dropped too early."""

from collections.abc import AsyncIterator

import pytest

from gencode.core.changes import CopyChanges, MergedChanges
from gencode.core.events import ChangesMoved, TaskCreated, TaskEnded, TaskStarted
from gencode.core.status import EndReason, Status
from gencode.journal.dispatch import MissingPart
from gencode.journal.folder_snapshot import FolderSnapshot, ReturnedChanges
from gencode.stores.pg_fleet import FleetStore
from gencode.workspaces.transfer.apply_changes import ApplyResult, record_result
from tests.postgres import Postgres

pytestmark = pytest.mark.needs("postgres")

PARCEL = FolderSnapshot(key="a" * 40, tip="b" * 40, packs=("one",), notes=("a note",))


@pytest.fixture
async def store(postgres: Postgres) -> AsyncIterator[FleetStore]:
    made = await FleetStore.open(postgres.new_schema())
    yield made
    await made.close()


async def test_packs_are_kept_once_and_given_back(store: FleetStore) -> None:
    snapshots = store.snapshots
    assert await snapshots.lacking(["one", "two"]) == ["one", "two"]
    await snapshots.keep("one", b"\0 first")
    await snapshots.keep("one", b"\0 first")
    assert (await snapshots.lacking(["one", "two"]), await snapshots.lacking([])) == (["two"], [])
    assert (await snapshots.pack("one"), await snapshots.pack("two")) == (b"\0 first", None)


async def test_only_who_has_a_task_says_what_came_of_it(store: FleetStore) -> None:
    snapshots = store.snapshots
    first = await store.create(TaskCreated(agent="x", prompt="y"), "first")
    work = ReturnedChanges(first.task, PARCEL, "c" * 40, "/there", "worker", 2)
    assert await snapshots.hand_in(work, b"body", "first")
    assert await snapshots.returned(first.task) == (work, b"body")
    await store.release(first)
    await store.take(first.task, "second")
    late = ReturnedChanges(first.task, PARCEL, "d" * 40)
    assert not await snapshots.hand_in(late, b"late", "first")
    assert (await snapshots.waiting(), await snapshots.returned("none")) == ([work], None)
    assert not await snapshots.taken(first.task, "d" * 40)
    assert await snapshots.waiting() == [work]
    assert [await snapshots.taken(first.task, "c" * 40) for _ in range(2)] == [True, False]
    found = await snapshots.returned(first.task)
    assert found is not None and (await snapshots.waiting(), found[0].taken) == ([], True)
    assert await snapshots.hand_in(late, b"again", "second")
    assert await snapshots.waiting() == [late]


async def test_why_a_worker_cannot_run_a_task_is_written_again_when_it_is_new_or_grows_old(
    store: FleetStore,
) -> None:
    async def nowhere(_connection: object, _task: str) -> None:
        """No queue is needed."""

    snapshots = store.snapshots
    task = await store.submit(TaskCreated(agent="x"), b"{}", nowhere)

    async def written(why: str) -> bool:
        """Whether it is written when a worker says this."""
        asked = "SELECT xmin::text FROM gen_worker_problem"
        before = await store.link.fetch(asked)
        await snapshots.report_problem(task, "worker", why, MissingPart.OTHER)
        [told] = (await snapshots.hindrances([task]))[task]
        assert told.why == why
        return await store.link.fetch(asked) != before

    told = [await written(why) for why in ("no key", "no key", "no git", "no git")]
    await store.link.fetch("UPDATE gen_task SET dispatched_at = clock_timestamp()")
    told += [await written("no git"), await written("no git")]
    await store.link.fetch("UPDATE gen_task SET dispatched_at = now() - interval '1 hour'")
    await store.link.fetch("UPDATE gen_worker_problem SET at = now() - interval '61 seconds'")
    told += [await written("no git"), await written("no git")]
    assert told == [True, False] * 4


async def test_what_nobody_has_taken_over_is_never_forgotten(store: FleetStore) -> None:
    snapshots = store.snapshots
    lease = await store.create(TaskCreated(agent="x", prompt="y"), "me")
    for pack in ("one", "two"):
        await snapshots.keep(pack, b"body")
    await snapshots.hand_in(ReturnedChanges(lease.task, PARCEL, "c" * 40), b"body", "me")
    await snapshots.report_problem(lease.task, "worker", "no git", MissingPart.OTHER)
    assert await snapshots.hindrances([lease.task]) == {}
    await store.link.fetch("UPDATE gen_task SET lease_until = now() - interval '2 years'")
    [told] = (await snapshots.hindrances([lease.task]))[lease.task]
    assert (told.worker, told.why, told.lacks) == ("worker", "no git", MissingPart.OTHER)
    for table, column in (("gen_pack", "used_at"), ("gen_returned", "at"), ("gen_worker_problem", "at")):
        await store.link.fetch(f"UPDATE {table} SET {column} = now() - interval '1 year'")  # noqa: S608
    await snapshots.forget()
    assert (await snapshots.lacking(["one", "two"]), await snapshots.hindrances([lease.task])) == (
        ["two"],
        {},
    )
    await snapshots.taken(lease.task, "c" * 40)
    await store.link.fetch("UPDATE gen_returned SET taken_at = now() - interval '1 year'")
    await store.link.fetch("UPDATE gen_pack SET used_at = now() - interval '1 year'")
    await snapshots.forget()
    assert (await snapshots.lacking(["one"]), await snapshots.returned(lease.task)) == (["one"], None)


async def test_what_became_of_it_is_written_to_the_end_of_the_result_and_offers_are_withdrawn(
    store: FleetStore,
) -> None:
    lease = await store.create(TaskCreated(agent="x", prompt="y"), "me")
    offer = f"To take it over, if that was not done yet: gen task merge {lease.task}"
    away = CopyChanges("handed_in", lease.task, "/there", "worker", diff="+ a")
    branch = f"gencode/{lease.task}"
    how = (f"git -C /there merge {branch}", f"git -C /there diff --binary 1 {branch} | git -C /there apply")
    offered = ApplyResult("offered", "/there", branch=branch, why="it would conflict", how=how)
    ending = TaskEnded(Status.COMPLETED, "done", changes=(away,), reason=EndReason.FINISHED)
    await record_result(store, lease.task, offered)
    await store.append(lease, [TaskStarted(), ending], last=True)
    await record_result(store, lease.task, offered)
    between = await store.task(lease.task)
    assert between is not None and (offer in between.result, how[1] in between.result) == (True, True)
    await record_result(store, lease.task, ApplyResult("applied", "/there"))
    task = await store.task(lease.task)
    events = await store.events(lease.task)
    now = "[Its changes are in the files of /there now.]"
    assert task is not None and task.status is Status.COMPLETED
    work = "[It worked in a copy of /there on worker. What it changed there:]\n```diff\n+ a\n```"
    assert task.result == f"done\n\n{work}\n\n{now}"
    assert events[-1].fact == ChangesMoved(MergedChanges("applied", "/there"), "offers")
    assert await store.owned() == []
