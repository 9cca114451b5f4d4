"""What a person reads where there is nothing to take over, and where a task begins behind its own work."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from gencode.core.events import MessageAdded, TaskCreated, TaskEnded, TaskStarted
from gencode.core.messages import place_message
from gencode.core.place import WorkerCopy
from gencode.core.status import EndReason, Status
from gencode.fleet.worker_workspace import HERE, NAMES, told_copies
from gencode.fleet.workspace_transfer import read_order
from gencode.journal.folder_snapshot import FolderSnapshot, MissingChanges, ReturnedChanges
from gencode.stores.pg_fleet import FleetStore
from gencode.workspaces.transfer.snapshot_builder import SnapshotBuilder
from gencode.workspaces.transfer.worker_copy import IncomingTask, open_task_worktree
from tests.interfaces.cli.running import gen as typed
from tests.postgres import Postgres
from tests.workspaces.worktrees.yard import repository

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.needs("git")]

PARCEL = FolderSnapshot(key="a" * 40, tip="1" * 40)
FIELDS = {"there": "/p", "here": "/own/c p", "worker": "w-1-ab"}
HEARD = place_message(HERE.format(**FIELDS, names=NAMES.format(tops="/p")), WorkerCopy("/own/c p", "w-1-ab"))


async def ended(store: FleetStore, cwd: str, told: ReturnedChanges | None) -> str:
    """A task that has ended, with what was told of its work."""
    begun = (TaskStarted(), MessageAdded(HEARD))
    lease = await store.create(TaskCreated(agent="Explore", prompt="look", cwd=cwd), "me", begun)
    if told is not None:
        assert await store.snapshots.hand_in(replace(told, task=lease.task), b"", "me")
    await store.append(lease, [TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)], last=True)
    return lease.task


async def test_merge_says_where_the_work_is_that_did_not_come(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.new_schema()
    here = repository(tmp_path / "repo")
    store = await FleetStore.open(url)
    nothing = ReturnedChanges("", PARCEL, PARCEL.tip, str(here), "w-2")
    kept = replace(nothing, kept="/own/copy", why="it is larger than 32 MiB")
    elsewhere = replace(nothing, commit="2" * 40)
    tasks = [await ended(store, str(here), told) for told in (nothing, kept, None, elsewhere)]
    await store.close()
    said = [
        typed("task", "merge", task, cwd=here, GEN_DATABASE_URL=url).err.removeprefix("gen: ").strip()
        for task in tasks[:3]
    ]
    assert said == [
        f"Task {tasks[0]} changed nothing on another machine, so there is nothing to take over.",
        f"What task {tasks[1]} changed could not be copied back, because it is larger than 32 MiB. It is on "
        "the worker w-2, in /own/copy.",
        f"What task {tasks[2]} changed was not copied back. It worked in the copy /own/c p on w-1-ab; if "
        "that worker died, what was done is still there, and gen doctor lists it there.",
    ]
    clone = repository(tmp_path / "clone")
    refused = typed("task", "merge", tasks[3], cwd=clone, GEN_DATABASE_URL=url)
    assert (refused.code, f"belongs to the folder {here}; take it over there" in refused.err) == (2, True)


async def test_merge_names_what_was_too_large_to_come_along(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.new_schema()
    repo = repository(tmp_path / "repo")
    store = await FleetStore.open(url)
    snapshots = store.snapshots
    snapshot = await SnapshotBuilder(repo, tmp_path / "own", snapshots).build()
    created = TaskCreated(agent="Explore", prompt="look", cwd=str(repo))
    lease = await store.create(created, "me", (TaskStarted(), MessageAdded(HEARD)))
    lodging = await open_task_worktree(
        IncomingTask(lease.task, str(repo), snapshot), snapshots, tmp_path / "home"
    )
    (lodging.cwd / "small.txt").write_text("small\n")
    await lodging.hand_in(snapshots, "me", "w-1-ab")
    lodging.release(tmp_path / "home")
    found = await snapshots.returned(lease.task)
    assert found and await snapshots.hand_in(replace(found[0], left="made.bin"), found[1], "me")
    await store.append(lease, [TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)], last=True)
    await store.close()
    words = ("task", "merge", lease.task)
    seen = typed(*words, "--preview", cwd=repo, GEN_DATABASE_URL=url)
    taken = typed(*words, cwd=repo, GEN_DATABASE_URL=url)
    stays = "Too large to travel, and only in the copy /own/c p on w-1-ab: made.bin."
    assert seen.out.splitlines()[:2] == ["added small.txt +1 -0", stays], seen.err
    now = f"[Its changes are in the files of {repo} now.]"
    assert taken.out.splitlines() == ["added small.txt +1 -0", stays, now], taken.err


async def test_whoever_wakes_a_task_behind_its_own_work_is_told_so(
    postgres: Postgres, tmp_path: Path
) -> None:
    url = postgres.new_schema()
    store = await FleetStore.open(url)
    task = await ended(store, "/nowhere", ReturnedChanges("", PARCEL, "2" * 40, "/nowhere", "w-2"))
    await store.snapshots.taken(task, "2" * 40)
    sent = typed("task", "send", task, "more", cwd=tmp_path, GEN_DATABASE_URL=url)
    found = await store.dispatched(task)
    await store.close()
    snapshot = read_order(found.order).snapshot if found is not None and found.order is not None else None
    assert (
        sent.code,
        "/nowhere" in sent.err,
        snapshot is not None and snapshot.missing,
    ) == (0, True, (MissingChanges("taken_over", "/nowhere"),))


def test_only_what_says_that_it_is_a_copy_is_one() -> None:
    assert told_copies([replace(HEARD, notice=None), HEARD]) == [WorkerCopy("/own/c p", "w-1-ab")]
