"""An agent with a budget goes on while agents that it sent are still at work: all have the one budget."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gencode.app import GenCode, components
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.outcome import Outcome
from gencode.core.spec import AgentSpec, TaskRequest
from gencode.core.status import Status
from gencode.journal.store import TaskQuery
from gencode.stores.memory import MemoryStore
from gencode.tasks.queries import spent_by
from gencode.tasks.setup_builder import RunSetupBuilder
from gencode.testing import call, says
from tests.interfaces.cli.running import script
from tests.tasks.agent_file import write_agent
from tests.tasks.budget_tree import so
from tests.tasks.call_costs import CALL, COSTS, LOOK
from tests.tasks.task_ends import all_have_ended
from tests.waiting import Gate, until

BUDGET = Budget(tokens=12 * CALL)


def played(tmp_path: Path, home: Path, gate: Gate, **words: Any) -> str:
    """A model that leads an agent in the background, which waits at the gate; then both have much to do."""
    write_agent(home / ".gen" / "agents", "lead", "Task(Bash), Glob")
    sends = call("Task", subagent_type="Bash", prompt="much", run_in_background=True, **words)
    lead = [says("", sends, usage=COSTS), says("it works", usage=COSTS), *[LOOK] * 30]
    return script(tmp_path, main=[], lead=lead, Bash=[says("", gate.call, usage=COSTS), *[LOOK] * 30])


async def stopped_before_its_agent(gen: GenCode, **turns: int) -> str:
    """The id of an agent that was stopped while one that it sent goes on."""
    handle = await gen.task("lead", "go", background=True, budget=BUDGET)

    async def both_wait() -> bool:
        tasks = await gen.history.tasks(TaskQuery())
        return {each.agent: each.totals.turns for each in tasks} == (turns or {"lead": 2, "Bash": 1})

    await until(both_wait, "one agent waits for the other, and that at the gate")
    await gen.stop(handle.id)
    return handle.id


@pytest.mark.parametrize("words", [{}, {"budget": {"tokens": 5 * CALL}}, {"isolation": "process"}])
@pytest.mark.parametrize("total", [None, 100 * CALL])
async def test_an_agent_that_goes_on_and_those_it_sent_before_do_not_spend_its_budget_twice(
    tmp_path: Path, home: Path, words: dict[str, Any], total: int | None
) -> None:
    gate = Gate(tmp_path)
    model = played(tmp_path, home, gate, **words)
    settings = {"max_depth": 2} | ({"max_tokens_total": total} if total else {})
    async with GenCode.open(tmp_path, model=model, settings=settings) as gen:
        lead = await stopped_before_its_agent(gen)
        going_on = asyncio.ensure_future(gen.resume(lead, "more"))
        await until(gate.opened, "the agent that was sent before goes on")
        assert (await going_on).status is Status.LIMIT_REACHED
        await until(lambda: all_have_ended(components(gen).store), "all have ended")
        assert 8 * CALL <= (await gen.history.spent(lead)).tokens < 13 * CALL


@pytest.mark.parametrize("total", [None, 100 * CALL])
async def test_in_another_process_it_leaves_to_those_below_it_what_they_have_of_its_budget(
    tmp_path: Path, home: Path, total: int | None
) -> None:
    gate, store = Gate(tmp_path), MemoryStore()
    model = played(tmp_path, home, gate, budget={"tokens": 5 * CALL})
    settings = {"max_depth": 2} | ({"max_tokens_total": total} if total else {})
    async with (
        GenCode.open(tmp_path, model=model, settings=settings, store=store) as gen,
        GenCode.open(tmp_path, model=model, settings=settings, store=store) as other,
    ):
        lead = await stopped_before_its_agent(gen)
        ended = asyncio.ensure_future(other.resume(lead, "more"))
        await so(store, lead, lambda task: task.totals.turns > 2)
        await until(gate.opened, "the agent that was sent before goes on")
        assert (await ended).status is Status.LIMIT_REACHED
        await until(lambda: all_have_ended(store), "all have ended")
        assert 8 * CALL <= (await spent_by(store, lead)).tokens < 13 * CALL


async def test_it_goes_on_elsewhere_beside_one_that_spends_from_its_budget(
    tmp_path: Path, home: Path
) -> None:
    gate, store = Gate(tmp_path), MemoryStore()
    model = played(tmp_path, home, gate)
    settings = {"max_depth": 2}
    async with (
        GenCode.open(tmp_path, model=model, settings=settings, store=store) as gen,
        GenCode.open(tmp_path, model=model, settings=settings, store=store) as other,
    ):
        lead = await stopped_before_its_agent(gen)
        assert (await other.resume(lead, "more")).status is Status.LIMIT_REACHED
        await until(gate.opened, "the agent that was sent before goes on")
        await until(lambda: all_have_ended(store), "all have ended")
        assert 12 * CALL <= (await spent_by(store, lead)).tokens < 13 * CALL


async def test_another_agent_below_it_that_is_woken_while_it_rests_does_not_spend_its_budget_again(
    tmp_path: Path, home: Path
) -> None:
    gate = Gate(tmp_path)
    write_agent(home / ".gen" / "agents", "lead", "Task(Bash, Explore), Glob")
    little = call("Task", subagent_type="Explore", prompt="little")
    much = call("Task", subagent_type="Bash", prompt="much", run_in_background=True)
    main = [says("", little, usage=COSTS), says("", much, usage=COSTS), says("it works", usage=COSTS)]
    behind = [says("", gate.call, usage=COSTS), *[LOOK] * 30]
    first = [says("found", usage=COSTS), *[LOOK] * 30]
    model = script(tmp_path, main=[], lead=main, Bash=behind, Explore=first)
    async with GenCode.open(tmp_path, model=model, settings={"max_depth": 2}) as gen:
        lead = await stopped_before_its_agent(gen, lead=3, Explore=1, Bash=1)
        [other] = [each.id for each in await gen.history.tasks(TaskQuery()) if each.agent == "Explore"]
        woken = asyncio.ensure_future(gen.resume(other, "more"))
        await until(gate.opened, "the agent in the background goes on")
        assert (await woken).status is Status.LIMIT_REACHED
        await until(lambda: all_have_ended(components(gen).store), "all have ended")
        assert 8 * CALL <= (await gen.history.spent(lead)).tokens < 13 * CALL


def make_slow(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """From now on agents are slow to begin, as with servers that have to be started first.

    The first event is set when one is about to begin, and all of them wait for the second.
    """
    ready, waits, may_begin = RunSetupBuilder.ready, asyncio.Event(), asyncio.Event()

    async def slowly(setups: RunSetupBuilder, spec: AgentSpec) -> None:
        waits.set()
        await may_begin.wait()
        await ready(setups, spec)

    monkeypatch.setattr(RunSetupBuilder, "ready", slowly)
    return waits, may_begin


@pytest.mark.parametrize("tokens", [4 * CALL, 25 * CALL])
async def test_a_resume_that_is_refused_leaves_those_below_the_budget_they_had(
    tmp_path: Path, home: Path, tokens: int
) -> None:
    gate = Gate(tmp_path)
    model = played(tmp_path, home, gate)
    async with GenCode.open(tmp_path, model=model, settings={"max_depth": 2}) as gen:
        lead = await stopped_before_its_agent(gen)
        with pytest.raises(UserMistake, match="The prompt is empty"):
            await gen.start_resume(lead, TaskRequest("", " ", budget=Budget(tokens=tokens)))
        await until(gate.opened, "the agent that was sent before goes on")
        await until(lambda: all_have_ended(components(gen).store), "all have ended")
        assert (await gen.history.spent(lead)).tokens == BUDGET.tokens


async def test_a_second_resume_while_one_is_slow_to_begin_changes_nothing_of_its_budget(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(tmp_path)
    model = played(tmp_path, home, gate)
    settings = {"max_depth": 2, "max_tokens_total": 100 * CALL}
    async with GenCode.open(tmp_path, model=model, settings=settings) as gen:
        lead = await stopped_before_its_agent(gen)
        waits, may_begin = make_slow(monkeypatch)
        first = asyncio.ensure_future(gen.start_resume(lead, TaskRequest("", "more")))
        await waits.wait()
        with pytest.raises(UserMistake, match="is running"):
            await gen.start_resume(lead, TaskRequest("", "more", budget=Budget(tokens=30 * CALL)))
        may_begin.set()
        await first
        await until(gate.opened, "the agent that was sent before goes on")
        await until(lambda: all_have_ended(components(gen).store), "all have ended")
        assert (await gen.history.spent(lead)).tokens == BUDGET.tokens


@pytest.mark.parametrize("lead_first", [True, False])
async def test_one_that_was_woken_and_its_sender_that_goes_on_after_it_spend_one_budget(
    tmp_path: Path, home: Path, lead_first: bool
) -> None:
    gate = Gate(tmp_path)
    write_agent(home / ".gen" / "agents", "lead", "Task(Bash), Glob")
    sends = says("", call("Task", subagent_type="Bash", prompt="little"), usage=COSTS)
    lead_says = [sends, says("done", usage=COSTS), *[LOOK] * 200]
    sent_says = [says("ok", usage=COSTS), says("", gate.call, usage=COSTS), *[LOOK] * 200]
    model = script(tmp_path, main=[], lead=lead_says, Bash=sent_says)
    async with GenCode.open(tmp_path, model=model, settings={"max_depth": 2}) as gen:
        lead = (await gen.task("lead", "go", budget=Budget(tokens=80 * CALL))).agent_id
        [sent] = [each.id for each in await gen.history.tasks(TaskQuery()) if each.agent == "Bash"]
        woken = asyncio.ensure_future(gen.resume(sent, "more"))

        async def waits() -> bool:
            found = await gen.history.task(sent)
            return found is not None and found.totals.turns == 2

        await until(waits, "the one that was woken waits at the gate")
        goes_on = asyncio.ensure_future(gen.resume(lead, "more", max_turns=200))
        if lead_first:
            await goes_on
        await until(gate.opened, "the one that was woken goes on")
        await asyncio.gather(woken, goes_on)
        assert (await gen.history.spent(lead)).tokens == 80 * CALL


async def test_one_that_is_woken_while_its_sender_is_slow_to_go_on_takes_nothing_from_it(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(tmp_path)
    write_agent(home / ".gen" / "agents", "lead", "Task(Bash, Explore), Glob")
    little = says("", call("Task", subagent_type="Explore", prompt="little"), usage=COSTS)
    much = says("", call("Task", subagent_type="Bash", prompt="much", run_in_background=True), usage=COSTS)
    model = script(
        tmp_path,
        main=[],
        lead=[little, much, says("it works", usage=COSTS), *[LOOK] * 30],
        Bash=[says("", gate.call, usage=COSTS), *[LOOK] * 30],
        Explore=[says("found", usage=COSTS), *[LOOK] * 30],
    )
    async with GenCode.open(tmp_path, model=model, settings={"max_depth": 2}) as gen:
        lead = await stopped_before_its_agent(gen, lead=3, Explore=1, Bash=1)
        [other] = [each.id for each in await gen.history.tasks(TaskQuery()) if each.agent == "Explore"]
        waits, may_begin = make_slow(monkeypatch)
        goes_on = asyncio.ensure_future(gen.resume(lead, "more"))
        await waits.wait()
        woken = asyncio.ensure_future(gen.resume(other, "more"))
        await asyncio.wait([woken], timeout=0.3)
        may_begin.set()
        went_on, _ = await asyncio.gather(goes_on, woken, return_exceptions=True)
        assert isinstance(went_on, Outcome) and went_on.turns > 3
        await until(gate.opened, "the agent that was sent before goes on")
        await until(lambda: all_have_ended(components(gen).store), "all have ended")
        assert (await gen.history.spent(lead)).tokens == BUDGET.tokens
