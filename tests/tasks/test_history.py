"""Earlier runs from Python: played again without a model, and the difference of two of them."""

from pathlib import Path
from typing import cast

import pytest

from gencode.app import components
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.events import Event, TaskCreated
from gencode.core.task import Task
from gencode.stores.memory import MemoryStore
from gencode.tasks.history import Comparison, Difference, Replay
from gencode.testing import call, says, scripted

SENDS = says("", call("Task", subagent_type="Explore", prompt="look"))


async def _always(task: Task) -> Task:
    return task


def _when(event: Event) -> tuple[str, str, int]:
    return event.at, event.task, event.seq or 0


async def test_a_run_is_played_again_with_all_below_it_and_without_a_model(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scripted(tmp_path, store=store, main=[SENDS, says("done")], Explore=[says("found")]) as gen:
        asked = await gen.ask("go").outcome()
    async with scripted(tmp_path, store=store) as gen:
        found = await gen.replay(asked.agent_id[:6])
        born = [each.task for each in found.events if isinstance(each.fact, TaskCreated)]
        facts = [fact for task in born for fact in await store.events(task)]
        assert sorted(facts, key=_when) == list(found.events)
        assert found == Replay(found.events, task=await gen.get(asked.agent_id))
        assert (found.same, len(born), found.task.result) == (True, 2, "done")


async def test_what_the_journal_does_not_tell_is_named(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("one"), says("two")]) as gen:
        task = await gen.task("Explore", "look")
        stored = await gen.find(task.agent_id)
        await gen.resume(task.agent_id, "again")
        components(gen).store.task = lambda _: _always(stored)  # pyright: ignore[reportAttributeAccessIssue]
        found = await gen.history.replayed([stored])
    assert (found.same, found.different, found.problems) == (False, (task.agent_id,), ())


async def test_the_difference_of_two_runs(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("found")]) as gen:
        prompts = ("look", "look", "look there")
        one, same, other = [(await gen.task("Explore", each)).agent_id for each in prompts]
        assert (await gen.difference(one, same)).same
        found = await gen.difference(one[:7], other)
        apart = Difference(1, ("user: look",), ("user: look there",))
        assert (found.same, found) == (False, Comparison(1, (apart,), ()))
        with pytest.raises(UnknownName, match="There is no task 'ffffffff'"):
            await gen.difference(one, "ffffffff")
        with pytest.raises(UserMistake, match=r"^The id of a task must be a string, not 5\.$"):
            await gen.replay(cast("str", 5))
