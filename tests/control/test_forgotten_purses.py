"""A long life with many budgets: what nobody can spend from any more is forgotten, and nothing else."""

import asyncio
import gc
from pathlib import Path

import pytest

from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.delegation import work
from gencode.delegation.accounts import spent_by
from gencode.runtime.ports import TaskQuery
from gencode.runtime.purse import Purse
from gencode.runtime.seen import Seen
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says
from tests.control.test_apart_budgets import CALL, COSTS, LOOK
from tests.control.test_queue_story import write_agent
from tests.control.test_resumed_budgets import make_slow
from tests.surfaces.running import script

LEADS = 25
FEW = 12
"""So many may be left of those who ended last, while they are put away."""
SENT = [call("Task", subagent_type="Explore", prompt=f"look {number}") for number in range(2)]
LEAD = [says("", *SENT, usage=COSTS), says("led", usage=COSTS)]
EXPLORE = [says("found", usage=COSTS), *[{**LOOK, "delay_ms": 20}] * 60]
SETTINGS = {"max_depth": 2}


@pytest.fixture(autouse=True)
def only_what_is_made_here_is_counted() -> None:
    """To search all that the tests before have left in this process takes a second each time."""
    gc.collect()
    gc.freeze()


def there_are(kind: type) -> int:
    """How many of a kind the test has made and something still holds."""
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


async def explored(gen: GenCode, sender: str) -> list[str]:
    return [each.id for each in await gen.store.tasks(TaskQuery(parent=sender))]


@pytest.mark.parametrize("budget", [Budget(), Budget(tokens=20 * CALL)])
async def test_after_many_agents_that_led_others_only_a_few_purses_are_left(
    tmp_path: Path, home: Path, budget: Budget
) -> None:
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore), Glob")
    finds = [says(f"found {number}", usage=COSTS) for number in range(9)]
    model = script(tmp_path, main=[], lead=LEAD, Explore=finds)
    async with GenCode.open(tmp_path, model=model, settings=SETTINGS) as gen:
        counts: list[int] = []
        for _ in range(LEADS):
            lead = (await gen.task("lead", "go", budget=budget)).agent_id
            for sent in await explored(gen, lead):
                await gen.resume(sent, "more")
            counts.append(there_are(Purse))
        assert max(counts) <= FEW


async def test_after_many_conversations_only_a_few_purses_are_left(tmp_path: Path) -> None:
    model = script(tmp_path, main=[*LEAD, says("more", usage=COSTS)], Explore=EXPLORE[:1] * 9)
    settings = {"max_tokens_total": 20 * CALL}
    async with GenCode.open(tmp_path, model=model, settings=settings) as gen:
        counts: list[int] = []
        for _ in range(LEADS):
            session = (await gen.ask("go").outcome()).agent_id
            for sent in await explored(gen, session):
                await gen.resume(sent, "more")
            await gen.ask("more", session=session).outcome()
            counts.append(there_are(Purse))
        assert max(counts) <= FEW


async def test_one_that_somebody_is_about_to_spend_from_is_not_forgotten(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore), Glob")
    model, store = script(tmp_path, main=[], lead=LEAD, Explore=EXPLORE), MemoryStore()
    async with GenCode.open(tmp_path, model=model, settings=SETTINGS, store=store) as gen:
        lead = (await gen.task("lead", "go", budget=Budget(tokens=20 * CALL))).agent_id
        make_slow(monkeypatch)
        woken: list[asyncio.Future[Outcome]] = []
        for sent in await explored(gen, lead):
            woken.append(asyncio.ensure_future(gen.resume(sent, "more", max_turns=60)))
            await asyncio.sleep(0.1)
            gc.collect()
        assert [each.status for each in await asyncio.gather(*woken)] == [Status.LIMIT_REACHED] * 2
        assert (await spent_by(store, lead)).tokens == 20 * CALL


async def test_of_many_conversations_only_the_last_are_remembered_beyond_their_journals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "MOST_LED", 2)
    (notes := tmp_path / "notes.txt").write_text("one\n")
    edit = call("Edit", file_path="notes.txt", old_string="one", new_string="two")
    turns = [says("", call("Read", file_path="notes.txt")), says("read"), says("", edit), says("written")]
    model = script(tmp_path, main=turns)
    async with GenCode.open(tmp_path, model=model, settings={"permission_mode": "acceptEdits"}) as gen:
        before = there_are(Seen)
        first = (await gen.ask("go").outcome()).agent_id
        for _ in range(LEADS):
            await gen.ask("go").outcome()
        assert there_are(Seen) - before <= FEW
        await gen.ask("more", session=first).outcome()
        assert notes.read_text() == "two\n"
