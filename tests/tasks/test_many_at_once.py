"""A reply may send hundreds of agents: none of them costs more because of the others."""

import asyncio
from pathlib import Path

import gencode
from gencode.agents import file_watcher
from gencode.stores.sqlite import SqliteStore
from gencode.tasks import delegate
from gencode.testing import call, says, scripted
from tests.counting import counting

CALLS_OF_AN_AGENT = 870
"""About so often what is ours is called for one agent with two turns; `bench/run.py` (W3) has its time."""


async def calls_for_one_of(agents: int, folder: Path) -> float:
    """how many calls a delegate makes for each of so many agents that one reply sends."""
    sent = [call("Task", subagent_type="Explore", prompt="look") for _ in range(agents)]
    async with scripted(folder, main=[says("", *sent), says("Done.")], Explore=[says("Found.")]) as gen:
        with counting(delegate) as count:
            outcome = await gen.ask("look everywhere").outcome()
    assert (outcome.status, outcome.result) == ("completed", "Done.")
    return count.calls / agents


async def test_an_agent_costs_the_same_however_many_are_sent_with_it(tmp_path: Path):
    assert await calls_for_one_of(40, tmp_path) <= 1.2 * await calls_for_one_of(4, tmp_path)


async def test_an_agent_that_a_program_sends_costs_no_more_than_it_did(tmp_path: Path):
    store = await SqliteStore.open(tmp_path / "gen.db")
    turns = [says("", call("LS", path=".")), says("Found.")]
    async with scripted(tmp_path, store=store, settings={"max_agents": 100}, Explore=turns) as gen:
        await gen.task("Explore", "look")  # whatever is loaded only once
        with counting(gencode, without=file_watcher) as count:
            ended = await asyncio.gather(*(gen.task("Explore", "look") for _ in range(50)))
    assert {each.result for each in ended} == {"Found."}
    assert count.calls / 50 <= 1.03 * CALLS_OF_AN_AGENT
