"""A reply may send hundreds of agents: none of them costs more because of the others."""

from pathlib import Path

from tests.counting import counting

from gencode.delegation import desk
from gencode.testing import call, says, scripted


async def calls_for_one_of(agents: int, folder: Path) -> float:
    """How many calls the desk makes for each of so many agents that one reply sends."""
    sent = [call("Task", subagent_type="Explore", prompt="look") for _ in range(agents)]
    async with scripted(folder, main=[says("", *sent), says("Done.")], Explore=[says("Found.")]) as gen:
        with counting(desk) as count:
            outcome = await gen.ask("look everywhere").outcome()
    assert (outcome.status, outcome.result) == ("completed", "Done.")
    return count.calls / agents


async def test_an_agent_costs_the_same_however_many_are_sent_with_it(tmp_path: Path):
    assert await calls_for_one_of(40, tmp_path) <= 1.2 * await calls_for_one_of(4, tmp_path)
