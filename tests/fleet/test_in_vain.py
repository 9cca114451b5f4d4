"""Nobody waits for ever: what no worker can take ends when that has lasted as long as it may take."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gencode import GenCode
from gencode.core.events import TaskEnded, TaskStarted
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.delegation.withdrawing import give_up
from tests.fleet.driving import Fleet, ended, submit
from tests.postgres import Postgres
from tests.surfaces.running import start
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.needs("postgres")

SENDS = {"subagent_type": "Explore", "prompt": "look", "isolation": "process"}
NOBODY = "no worker took it within 1 s: no worker is there (what helps: gen worker"
NOT_TAKEN = (
    "no worker took it within 1 s: no worker that is there takes tasks of Explore (what helps: gen worker"
)

NOT_SHARED = "no worker took it within 1 s: only a worker that shares its folder can run it, because"


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
    assert json.loads(led)["result"] == "done"
    assert (json.loads(run)["status"], json.loads(run)["error"][: len(NOBODY)]) == ("timed_out", NOBODY)
    assert NOBODY in json.loads(followed.splitlines()[-1])["error"]
    assert "if none comes within 1 s, it ends" in said
    ends = fleet.rows("SELECT status, dispatch IS NULL, owner IS NULL FROM gen_task WHERE agent = 'Explore'")
    assert ends == [["timed_out", "t", "t"]] * 4


async def test_a_worker_ends_what_no_worker_takes_and_nobody_waits_for(narrow: Fleet, tmp_path: Path) -> None:
    settings = {"database_url": narrow.url, "task_seconds": 1}
    async with narrow.open(task_seconds=1) as gen, GenCode.open(tmp_path, settings=settings) as other:
        [new] = await submit(gen, 1, "Explore")
        [far] = await submit(other, 1, "Plan")
        [found, distant] = await ended(gen, [new, far])
        assert (distant.status, (distant.error or "")[: len(NOT_SHARED)]) == (Status.TIMED_OUT, NOT_SHARED)
        assert (found.status, (found.error or "")[: len(NOT_TAKEN)]) == (Status.TIMED_OUT, NOT_TAKEN)
        await gen.detach(TaskRequest("Explore", "go on", resume=new))

        async def ended_again() -> bool:
            facts = [type(event.fact) for event in await gen.store.events(new)]
            return facts[1:] == [TaskEnded, TaskStarted, TaskEnded]

        await until(ended_again, "it was to go on, and has ended again")
        assert (await gen.watch.task(new)).error == found.error


async def test_what_a_worker_has_or_has_done_is_not_ended_for_it(narrow: Fleet) -> None:
    async with narrow.open() as gen:
        [done] = await ended(gen, await submit(gen, 1, "Plan"))
        assert not await give_up(gen.store, done.id, "no worker took it")
        [held] = await submit(gen, 1, "Explore")
        lease = await gen.store.take(held, "a worker")
        assert not await give_up(gen.store, held, "no worker took it")
        await gen.store.append(lease, [TaskStarted()])
        await gen.store.release(lease)
        assert await give_up(gen.store, held, "no worker took it")
        assert not await give_up(gen.store, held, "no worker took it")
        now = await gen.watch.task(held)
        assert await gen.watch.task(done.id) == done
    assert (now.status, now.error) == (Status.TIMED_OUT, "no worker took it")
