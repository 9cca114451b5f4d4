"""Nobody waits for ever: what no worker can take ends when that has lasted as long as it may take."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gencode import GenCode
from gencode.app import components
from gencode.core.events import MessageAdded, TaskEnded, TaskStarted
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.fleet.worker import UnclaimedTasks, Worker, WorkerOptions
from gencode.stores.pg_fleet import FleetStore
from gencode.stores.pg_fleet_status import fleet_status
from gencode.tasks.crash_recovery import close_unclaimed
from tests.fleet.driving import Fleet, ended, submit
from tests.interfaces.cli.running import start
from tests.postgres import Postgres
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.needs("postgres")

SENDS = {"subagent_type": "Explore", "prompt": "look", "isolation": "process"}
NOBODY = "no worker took it within 1 s: no worker is running (to fix this: gen worker"
NOT_TAKEN = (
    "no worker took it within 100 s: no running worker accepts tasks of Explore (to fix this: gen worker"
)

NOT_SHARED = "no worker took it within 100 s: only a worker that shares its folder can run it, because"


@pytest.fixture(scope="module")
def narrow(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet whose only worker takes the tasks of another agent."""
    made = Fleet(postgres, tmp_path_factory.mktemp("narrow"))
    made.write({"*": [{"text": "found it"}]})
    made.start(1, "--agents", "Plan")
    yield made
    made.close()


async def test_whoever_waits_for_an_agent_hears_that_no_worker_took_it(fleet: Fleet) -> None:
    behind = {**SENDS, "run_in_background": True}
    calls = [{"name": "Task", "input": each} for each in (behind, SENDS)]
    fleet.write({"main": [{"calls": calls}, {"text": "done"}], "*": [{"text": "found it"}]})
    model = ("--model", f"scripted:{fleet.folder}/script.json")
    words = ("task", "run", "Explore", "look", "--json", *model)
    environ = {"GEN_DATABASE_URL": fleet.url, "GEN_TASK_SECONDS": "1"}
    sent = start(*words, "--background", cwd=fleet.folder, **environ)
    alone: str = json.loads(sent.communicate(timeout=PATIENCE)[0])["agentId"]
    waiting = [
        start("-p", "go", "--output-format", "json", *model, cwd=fleet.folder, **environ),
        start(*words, "--isolation", "process", cwd=fleet.folder, **environ),
        start("task", "events", alone, "--follow", "--json", cwd=fleet.folder, **environ),
    ]
    (led, _), (run, _), (followed, said) = [each.communicate(timeout=PATIENCE) for each in waiting]
    assert {*json.loads(led)["result"].split()} == {"done"}  # said again where the one behind ended later
    assert (json.loads(run)["status"], json.loads(run)["error"][: len(NOBODY)]) == ("timed_out", NOBODY)
    assert NOBODY in json.loads(followed.splitlines()[-1])["error"]
    assert "if none comes within 1 s, it ends" in said
    ends = fleet.rows("SELECT status, dispatch IS NULL, owner IS NULL FROM gen_task WHERE agent = 'Explore'")
    assert ends == [["timed_out", "t", "t"]] * 4


class Watching:
    """What a worker does for tasks that nobody waits for, with a clock of its own."""

    def __init__(self, store: FleetStore, **least: float) -> None:
        self.clock = 0.0
        self.judges = True
        self.unclaimed = UnclaimedTasks(store, lambda: self.judges, lambda: self.clock, **least)

    async def pass_by(self, seconds: float) -> list[str]:
        """The tasks that end in this time."""
        gone = await self.unclaimed.look()
        until = self.clock + seconds
        while self.clock < until:
            self.clock += min(50.0, until - self.clock)
            gone += await self.unclaimed.look()
        return gone


@pytest.fixture
async def store(narrow: Fleet) -> AsyncIterator[FleetStore]:
    """The database with leases that are over at once: what was sent just now waits for long already."""
    made = await FleetStore.open(narrow.url, lease_seconds=0.0)
    yield made
    await made.close()


async def test_a_worker_ends_what_no_worker_takes_and_nobody_waits_for(
    narrow: Fleet, store: FleetStore, tmp_path: Path
) -> None:
    settings = {"database_url": narrow.url, "task_seconds": 1}
    watching = Watching(store, least=100.0)
    async with narrow.open(task_seconds=1) as gen, GenCode.open(tmp_path, settings=settings) as other:
        [new, late] = [*await submit(gen, 1, "Explore"), *await submit(other, 1, "Plan")]

        async def put_back() -> bool:
            seen = await store.missing_worker(late)
            return seen is not None and seen.most is not None

        await until(put_back, "the worker has put back what it does not share")
        assert await watching.pass_by(99) == []
        assert {*await watching.pass_by(1)} == {new, late}
        [found, distant] = await ended(gen, [new, late])
        assert (distant.status, (distant.end.error or "")[: len(NOT_SHARED)]) == (
            Status.TIMED_OUT,
            NOT_SHARED,
        )
        assert (found.status, (found.end.error or "")[: len(NOT_TAKEN)]) == (Status.TIMED_OUT, NOT_TAKEN)
        await gen.detach(TaskRequest("Explore", "go on", resume=new))
        assert await watching.pass_by(99) == []
        assert await watching.pass_by(1) == [new]
        facts = [type(event.fact) for event in await store.events(new)]
        assert facts[1:] == [TaskEnded, TaskStarted, MessageAdded, MessageAdded, TaskEnded]
        assert (await gen.history.current(new)).end.error == found.end.error


async def test_what_nobody_waits_for_is_left_to_workers_that_come_by_day_and_is_stuck_meanwhile(
    narrow: Fleet, store: FleetStore
) -> None:
    watching = Watching(store)
    async with narrow.open(task_seconds=1) as gen:
        [task] = await submit(gen, 1, "Explore")
    assert await watching.pass_by(1_000) == []
    [stuck] = [each for each in (await fleet_status(narrow.url)).stuck if each.task == task]
    assert stuck.missing_worker.why == "no running worker accepts tasks of Explore"
    assert await close_unclaimed(store, task, "it is in the way of other tests")


async def test_a_worker_that_drains_or_was_cut_off_ends_nothing_and_goes_on_to_count_later(
    narrow: Fleet, store: FleetStore
) -> None:
    watching = Watching(store, least=100.0)
    async with narrow.open(task_seconds=1) as gen:
        [task] = await submit(gen, 1, "Explore")
    assert await watching.pass_by(60) == []
    watching.judges = False
    assert await watching.pass_by(1_000) == []
    watching.judges = True
    assert await watching.pass_by(39) == []
    assert await watching.pass_by(1) == [task]


async def test_a_worker_that_drains_does_not_judge_what_others_could_take(
    narrow: Fleet, tmp_path: Path
) -> None:
    store = await FleetStore.open(narrow.url)
    worker = Worker(store, WorkerOptions(1, tmp_path, tmp_path / "home", agents=("Nobody",)))
    working = asyncio.ensure_future(worker.work())
    await until(lambda: worker.can_judge, "it has reported")
    worker.drain()
    assert not worker.can_judge
    await working
    await store.close()


async def test_a_task_that_cannot_be_read_is_not_taken_again_and_again_to_be_ended(
    narrow: Fleet, store: FleetStore
) -> None:
    async with narrow.open() as gen:
        [task] = await submit(gen, 1, "Explore")
    lease = await store.take(task, "a worker")
    await store.append(lease, [TaskStarted()])
    await store.release(lease)
    await store.link.fetch("UPDATE gen_journal SET body = '{' WHERE task = $1 AND seq = 2", task)
    before = await store.dispatched(task)
    assert not await close_unclaimed(store, task, "no worker took it")
    assert before is not None and (await store.dispatched(task), before.free) == (before, True)


async def test_what_a_worker_has_or_has_done_is_not_ended_for_it(narrow: Fleet) -> None:
    async with narrow.open() as gen:
        [done] = await ended(gen, await submit(gen, 1, "Plan"))
        assert not await close_unclaimed(components(gen).store, done.id, "no worker took it")
        [held] = await submit(gen, 1, "Explore")
        lease = await components(gen).store.take(held, "a worker")
        assert not await close_unclaimed(components(gen).store, held, "no worker took it")
        await components(gen).store.append(lease, [TaskStarted()])
        await components(gen).store.release(lease)
        assert await close_unclaimed(components(gen).store, held, "no worker took it")
        assert not await close_unclaimed(components(gen).store, held, "no worker took it")
        now = await gen.history.current(held)
        assert await gen.history.current(done.id) == done
    why = f"no worker took it. To resume it later: gen task resume {held} 'go on'"
    assert (now.status, now.end.error) == (Status.TIMED_OUT, why)
