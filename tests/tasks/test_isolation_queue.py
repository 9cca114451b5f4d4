"""Tasks in processes of their own wait for their turn like all others: written down, and with a place."""

import asyncio
from pathlib import Path

from gencode import GenCode
from gencode.app import components
from gencode.core.events import QueueMoved
from gencode.core.status import Status
from gencode.testing import says
from tests.tasks.isolated_agent import played

ONE = {"max_agents": 1}
SLOW = says("never said", delay_ms=600_000)


async def places(gen: GenCode, task: str) -> int:
    """The first place in the line that is heard of a task."""
    listener = gen.listen()
    try:
        async with asyncio.timeout(60):
            async for event in listener:
                if event.task == task and isinstance(event.fact, QueueMoved):
                    return event.fact.position
    finally:
        listener.close()
    raise AssertionError("nothing more was heard")


async def test_over_the_cap_it_is_pending_with_a_place_and_runs_when_its_turn_comes(tmp_path: Path) -> None:
    model = played(tmp_path, Explore=[SLOW], Plan=[says("planned")])
    async with GenCode.open(tmp_path, model=model, settings=ONE) as gen:
        first = await gen.task("Explore", "look", background=True, isolation="process")
        second = await gen.task("Plan", "plan", background=True, isolation="process")
        assert (await gen.get(second.id)).status is Status.PENDING
        assert await places(gen, second.id) == 1
        await gen.stop(first.id)
        outcome = await second.result()
        assert (outcome.status, outcome.result) == (Status.COMPLETED, "planned")
        assert await components(gen).store.owned() == []


async def test_one_that_waits_can_be_stopped_here_and_from_another_process(tmp_path: Path) -> None:
    model = played(tmp_path, Explore=[SLOW])
    async with GenCode.open(tmp_path, model=model, settings=ONE) as gen:
        await gen.task("Explore", "look", background=True, isolation="process")
        here = await gen.task("Explore", "look", background=True, isolation="process")
        elsewhere = await gen.task("Explore", "look", background=True, isolation="process")
        stopped = [await gen.stop(here.id)]
        async with GenCode.open(tmp_path, model=model) as other:
            stopped.append(await other.stop(elsewhere.id))
        assert [each.status for each in stopped] == [Status.CANCELLED] * 2
        assert [each.turns for each in stopped] == [0, 0]


async def test_one_that_waits_ends_with_the_session(tmp_path: Path) -> None:
    model = played(tmp_path, Explore=[SLOW])
    async with GenCode.open(tmp_path, model=model, settings=ONE) as gen:
        await gen.task("Explore", "look", background=True, isolation="process")
        waiting = await gen.task("Explore", "look", background=True, isolation="process")
    async with GenCode.open(tmp_path, model=model) as gen:
        assert (await gen.get(waiting.id)).status is Status.CANCELLED
        assert await components(gen).store.owned() == []
