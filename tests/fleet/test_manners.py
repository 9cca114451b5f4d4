"""How workers begin and end, what they refuse, and what can be seen of them."""

import asyncio
import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from gencode.core.events import TaskCreated
from gencode.core.status import Status
from tests.fleet.driving import Fleet, check_journal, ended, runs, submit
from tests.interfaces.cli.running import gen as typed
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.needs("postgres")


async def test_a_worker_that_is_told_to_end_finishes_what_it_has_and_takes_nothing_more(fleet: Fleet) -> None:
    [worker] = fleet.start(1)
    async with fleet.open() as gen:
        tasks = await submit(gen, 2)
        await until(lambda: len(fleet.owners()) == 2, "it is at both")
        worker.send(signal.SIGTERM)
        assert worker.process.wait(PATIENCE) == 0
        late = await submit(gen, 1)
        found = [await gen.find(task) for task in (*tasks, *late)]
        assert [task.status for task in found] == [Status.COMPLETED, Status.COMPLETED, Status.PENDING]
        assert [runs(await check_journal(gen, task)) for task in tasks] == [1, 1]
        assert fleet.rows("SELECT count(*) FROM gen_worker") == [["0"]]


async def test_a_worker_that_is_told_twice_leaves_its_tasks_to_another(fleet: Fleet) -> None:
    first, _ = fleet.start(2, "--concurrency", "4")
    async with fleet.open() as gen:
        tasks = await submit(gen, 4)
        first, _ = await fleet.busy()
        first.send(signal.SIGTERM)
        first.send(signal.SIGINT)
        assert first.process.wait(PATIENCE) == 0
        assert {task.status for task in await ended(gen, tasks)} == {Status.COMPLETED}
        for task in tasks:
            runs(await check_journal(gen, task))


async def test_a_task_is_stopped_from_another_process_wherever_it_is(fleet: Fleet) -> None:
    fleet.write({"*": [{"text": "slow", "delay_ms": 60_000}]})
    async with fleet.open() as gen:
        [waiting] = await submit(gen, 1)
        assert (await gen.stop(waiting)).status is Status.CANCELLED
        fleet.start(1)
        [running] = await submit(gen, 1)
        await until(lambda: running in fleet.owners(), "a worker is at it")
        assert (await gen.stop(running)).status is Status.CANCELLED
        assert fleet.rows("SELECT count(*) FROM gen_task WHERE dispatch IS NOT NULL") == [["0"]]


async def test_a_letter_reaches_a_task_on_a_worker_and_an_ended_one_goes_on_there(fleet: Fleet) -> None:
    fleet.start(1)
    async with fleet.open() as gen:
        [task] = await submit(gen, 1)
        await until(lambda: task in fleet.owners(), "a worker is at it")
        await gen.send(task, "hello out there")
        [found] = await ended(gen, [task])
        assert (found.result, found.delivered.mailed) == ("done", 1)
        woken = (await gen.send(task, "and again")).resumed

        async def heard() -> bool:
            return (await gen.find(task)).delivered.mailed == 2

        await until(heard, "the second letter is heard")
        [again] = await ended(gen, [task])
        assert (woken, again.delivered.mailed, again.status) == (True, 2, Status.COMPLETED)


async def test_what_a_worker_cannot_or_must_not_run_is_ended_with_a_sentence(fleet: Fleet) -> None:
    from gencode.stores.pg_fleet import FleetStore

    store = await FleetStore.open(fleet.url)

    async def nowhere(_connection: object, _task: str) -> None:
        """Only the worker's own look at what is overdue finds it."""

    created = TaskCreated(agent="Explore", prompt="look", cwd=str(fleet.folder))
    handover = {"model": "offline", "created": {"agent": "nobody", "cwd": created.cwd}}
    orders = [
        {"handover": handover, "cwd": created.cwd},
        {"handover": handover, "cwd": created.cwd, "flags": {"hooks": {"x": "y"}}},
        "nonsense",
    ]
    tasks = [await store.submit(created, json.dumps(order).encode(), nowhere) for order in orders]
    elsewhere = await store.submit(created, json.dumps({"handover": handover, "cwd": "/"}).encode(), nowhere)
    await store.link.fetch("UPDATE gen_task SET dispatched_at = now() - interval '1 hour'")
    fleet.start(1)
    async with fleet.open() as gen:
        found = await ended(gen, tasks)
        assert [task.status for task in found] == [Status.FAILED] * 3
        said = [task.end.error or "" for task in found]
        assert "There is no agent 'nobody'" in said[0]
        assert said[1] == "its order sets what only a worker's own user may set: hooks"
        assert "its order cannot be read" in said[2]
        assert (await gen.find(elsewhere)).status is Status.PENDING
    await store.close()


async def test_the_password_and_the_address_stay_out_of_what_commands_see(fleet: Fleet) -> None:
    call = {"name": "Bash", "input": {"command": "env > seen.txt"}}
    fleet.write({"*": [{"text": "", "calls": [call]}, {"text": "done"}]})
    fleet.start(1)
    async with fleet.open(permission_mode="dontAsk") as gen:
        [found] = await ended(gen, await submit(gen, 1))
        assert found.status is Status.COMPLETED
    seen = (fleet.folder / "seen.txt").read_text()
    assert "HOME=" in seen and "GEN_DATABASE_URL" not in seen and "postgresql://" not in seen


async def test_doctor_and_the_health_address_tell_about_workers(fleet: Fleet) -> None:
    [worker] = fleet.start(1, "--concurrency", "3", "--agents", "Explore,Plan")
    async with fleet.open() as gen:
        await submit(gen, 2)
    told = await asyncio.to_thread(health, worker.told["health"])
    assert (told["healthy"], told["most"], told["draining"]) == (True, 3, False)
    assert "password" not in worker.told["database"]
    done = typed("doctor", "--json", cwd=fleet.folder, GEN_DATABASE_URL=fleet.url)
    checks = {check["name"]: check["detail"] for check in done.json["checks"]}
    assert checks["queue"] == "2 tasks wait for a worker, 0 run"
    assert "0 of 3 tasks, agents Explore, Plan" in checks["worker"]
    assert "shared" in checks["database"]


def health(address: str) -> Any:
    with urllib.request.urlopen(address) as answer:  # noqa: S310 (it is one of http)
        return json.load(answer)


def test_a_worker_needs_a_shared_database(tmp_path: Path) -> None:
    done = typed("worker", cwd=tmp_path)
    assert (done.code, done.err.startswith("gen: No shared database")) == (2, True)


def test_migrate_makes_the_shared_database_and_copies_the_one_of_this_machine(fleet: Fleet) -> None:
    folder, url = fleet.folder, fleet.url
    asked = typed("-p", "hello", "--model", f"scripted:{folder}/script.json", "--json", cwd=folder)
    assert asked.code == 0
    first = typed("migrate", "--json", cwd=folder, GEN_DATABASE_URL=url)
    assert (first.code, first.json["before"], first.json["after"] > 0) == (0, 0, True)
    again = typed("migrate", cwd=folder, GEN_DATABASE_URL=url)
    assert (again.code, "is up to date" in again.out) == (0, True)
    copied = typed("migrate", "--to", "-", "--json", cwd=folder, piped=url)
    assert (copied.code, copied.json["tasks"], copied.json["problems"]) == (0, 1, [])
    shown = typed("sessions", "show", asked.json["sessionId"], "--json", cwd=folder, GEN_DATABASE_URL=url)
    assert (shown.code, asked.json["sessionId"] in shown.out) == (0, True)
    wrong = typed("migrate", "--to", "postgresql://me:s3cret@127.0.0.1:1/gen", cwd=folder)
    assert (wrong.code, "cannot be reached" in wrong.err, "s3cret" in wrong.err) == (2, True, False)


async def test_a_task_that_somebody_waits_for_runs_on_a_worker_too(fleet: Fleet) -> None:
    fleet.start(1)
    async with fleet.open() as gen:
        outcome = await gen.task("general-purpose", "look", isolation="process")
        assert (outcome.status, outcome.result) == (Status.COMPLETED, "done")
        events = await check_journal(gen, outcome.agent_id)
        assert runs(events) == 1
    written = fleet.rows("SELECT DISTINCT epoch FROM gen_journal ORDER BY 1")
    assert written == [["0"], ["1"]]  # born here, run by whoever took it
