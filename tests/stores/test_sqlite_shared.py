"""Several real processes on one database."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from gencode.core.events import TaskCreated
from gencode.core.task import replay
from gencode.journal.store import TaskQuery, TaskSignal
from gencode.stores.sqlite import SqliteStore
from gencode.stores.sqlite_schema import VERSION
from tests.contracts.store import everything
from tests.stores.process_outcomes import ROOT, outcomes, start


async def test_two_processes_append_to_their_own_tasks_at_once(store: SqliteStore, path: Path) -> None:
    processes = [await start("append", path, "200") for _ in range(2)]
    tasks = await outcomes(*processes)
    assert len(set(tasks)) == 2
    for task in tasks:
        events, state = await everything(store, task)
        assert [event.seq for event in events] == list(range(1, 202))
        assert replay(events) == state


async def test_of_two_processes_that_want_one_task_exactly_one_gets_it(
    store: SqliteStore, path: Path
) -> None:
    leases = [await store.create(TaskCreated(), "me") for _ in range(50)]
    for lease in leases:
        await store.release(lease)
    wanted = json.dumps([lease.task for lease in leases])
    processes = [await start("take", path, wanted, f"owner {n}") for n in range(2)]
    won = [json.loads(each) for each in await outcomes(*processes)]
    assert sorted([*won[0], *won[1]]) == sorted(lease.task for lease in leases)


async def test_processes_that_make_the_same_new_database_at_once_all_succeed(path: Path) -> None:
    processes = [await start("open", path) for _ in range(4)]
    tasks = await outcomes(*processes)
    store = await SqliteStore.open(path)
    assert sorted(task.id for task in await store.tasks(TaskQuery())) == sorted(tasks)
    await store.close()


async def test_of_processes_that_migrate_at_once_one_does_it(path: Path) -> None:
    processes = [await start("migrate", path) for _ in range(4)]
    moves = sorted(json.loads(each) for each in await outcomes(*processes))
    assert moves == [[0, VERSION], [VERSION, VERSION], [VERSION, VERSION], [VERSION, VERSION]]


async def test_two_processes_write_to_a_task_that_a_third_one_owns(store: SqliteStore, path: Path) -> None:
    reader = await start("read-letters", path, "80")
    assert reader.stdin and reader.stdout
    reader.stdin.write(b"go\n")
    task = (await reader.stdout.readline()).decode().strip()
    writers = [await start("post", path, task, name, "40") for name in ("left", "right")]
    posted = [json.loads(each) for each in await outcomes(*writers)]
    out, err = await reader.communicate()
    heard = [tuple(each) for each in json.loads(out)]
    assert (reader.returncode, err) == (0, b"")
    assert sorted([*posted[0], *posted[1]]) == list(range(1, 81))
    written = {
        number: (name, f"{n}")
        for name, numbers in zip(("left", "right"), posted, strict=True)
        for n, number in enumerate(numbers)
    }
    assert heard == [written[number] for number in range(1, 81)]
    events, state = await everything(store, task)
    assert state and (state.delivered.mailed, await store.unread_messages(task), replay(events)) == (
        80,
        [],
        state,
    )


async def test_an_interrupt_from_another_process_is_heard_and_then_gone(
    store: SqliteStore, path: Path
) -> None:
    lease = await store.create(TaskCreated(), "me")
    process = await start("interrupt", path, lease.task, "1")
    assert await outcomes(process) == ["[true]"]
    heard = [await store.signals("me"), await store.signals("me")]
    assert heard == [[(lease.task, TaskSignal.INTERRUPT)], []]


async def test_a_killed_process_loses_nothing_that_it_reported(store: SqliteStore, path: Path) -> None:
    process = await start("append-for-ever", path)
    assert process.stdin and process.stdout
    process.stdin.write(b"go\n")
    task = (await process.stdout.readline()).decode().strip()
    for _ in range(20):
        await process.stdout.readline()
    process.kill()
    rest, _ = await process.communicate()
    reported = [int(line) for line in rest.decode().split("\n")[:-1]]
    events, state = await everything(store, task)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert len(events) % 2 == 1
    assert len(events) >= max([41, *reported])
    assert replay(events) == state


async def test_a_disk_that_gives_no_more_is_told_and_work_goes_on_later(
    store: SqliteStore, path: Path
) -> None:
    program = [sys.executable, "-m", "tests.stores.other_process", "fill", str(path), "300000"]
    process = await asyncio.create_subprocess_exec(*program, cwd=ROOT, stdout=PIPE, stderr=PIPE)
    out, err = await process.communicate()
    assert err.decode() == ""
    told = json.loads(out)
    assert (
        f"nothing more was written to the database {path}; what was written before is kept." in told["said"]
    )
    assert (told["readable"], told["last"]) == (told["full"], told["full"] + 1)
    events, state = await everything(store, told["task"])
    assert [event.seq for event in events] == list(range(1, told["last"] + 1))
    assert replay(events) == state
