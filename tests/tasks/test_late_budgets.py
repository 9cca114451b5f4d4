"""A budget that is named while agents below are at work: all that they spend from then on counts in it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gencode.app import GenCode, components
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.journal.store import TaskQuery
from gencode.stores.memory import MemoryStore
from gencode.tasks.queries import spent_by
from gencode.testing import call, says
from tests.interfaces.cli.running import gen as command
from tests.interfaces.cli.running import script
from tests.tasks.agent_file import write_agent
from tests.tasks.call_costs import CALL, COSTS, LOOK
from tests.tasks.task_ends import all_have_ended
from tests.waiting import Gate, until

BUDGET = Budget(tokens=12 * CALL)
DEEP = {"max_depth": 3}
MUCH = 20
"""So many calls more an agent makes that nobody bounds."""


def played(tmp_path: Path, home: Path, gate: Gate, **words: Any) -> str:
    """A model that leads an agent in the background, perhaps another one in between; that waits at the gate.

    The conversation does the same. All have much to do afterwards.
    """
    agents = home / ".gen" / "agents"
    write_agent(agents, "lead", "Task(Bash, chief), Glob")
    write_agent(agents, "chief", "Task(Bash), Glob")
    sends = call("Task", **{"subagent_type": "Bash", "prompt": "much", "run_in_background": True, **words})
    behind = call("Task", subagent_type="Bash", prompt="much", run_in_background=True)
    first = [says("", sends, usage=COSTS), says("it works", usage=COSTS), *[LOOK] * 90]
    chief = [says("", behind, usage=COSTS), says("it works", usage=COSTS), *[LOOK] * 90]
    below = [says("", gate.call, usage=COSTS), *[LOOK] * MUCH, says("done", usage=COSTS)]
    return script(tmp_path, main=first, lead=first, chief=chief, Bash=below)


@asynccontextmanager
async def led_before(tmp_path: Path, home: Path, **words: Any) -> AsyncGenerator[tuple[GenCode, Gate, str]]:
    """An agent without a budget that was stopped while one it sent waits at the gate."""
    gate = Gate(tmp_path)
    model = played(tmp_path, home, gate, **words)
    async with GenCode.open(tmp_path, model=model, settings=DEEP) as gen:
        yield gen, gate, await stopped_before_those_it_sent(gen)


async def until_so(gen: GenCode, **turns: int) -> None:
    """Wait until the agents have had so many turns."""

    async def so() -> bool:
        tasks = await gen.history.tasks(TaskQuery())
        return {each.agent: each.totals.turns for each in tasks} == turns

    await until(so, f"they have had {turns} turns")


async def stopped_before_those_it_sent(gen: GenCode, **turns: int) -> str:
    """The id of an agent without a budget that was stopped while others below it go on."""
    handle = await gen.task("lead", "go", background=True)
    await until_so(gen, **(turns or {"lead": 2, "Bash": 1}))
    await gen.stop(handle.id)
    return handle.id


async def task_of(gen: GenCode, agent: str) -> str:
    [found] = [each.id for each in await gen.history.tasks(TaskQuery()) if each.agent == agent]
    return found


async def resumed(gen: GenCode, lead: str) -> None:
    """It goes on with a budget."""
    await gen.resume(lead, "more", budget=BUDGET)


async def bounded(gen: GenCode, lead: str) -> None:
    """It gets a budget and stays at rest."""
    await gen.set_budget(lead, BUDGET)


CHIEF = {"subagent_type": "chief", "run_in_background": False}


@pytest.mark.parametrize(
    ("words", "turns"),
    [
        ({}, {"lead": 2, "Bash": 1}),
        ({"budget": {"tokens": 5 * CALL}}, {"lead": 2, "Bash": 1}),
        ({"budget": {"turns": 80}}, {"lead": 2, "Bash": 1}),
        (CHIEF, {"lead": 1, "chief": 2, "Bash": 1}),
    ],
)
@pytest.mark.parametrize("total", [None, 100 * CALL])
@pytest.mark.parametrize("name", [resumed, bounded])
async def test_a_budget_that_is_named_for_an_agent_later_bounds_those_it_sent_before(
    tmp_path: Path,
    home: Path,
    words: dict[str, Any],
    turns: dict[str, int],
    total: int | None,
    name: Callable[[GenCode, str], Awaitable[None]],
) -> None:
    gate = Gate(tmp_path)
    model = played(tmp_path, home, gate, **words)
    settings = DEEP | ({"max_tokens_total": total} if total else {})
    async with GenCode.open(tmp_path, model=model, settings=settings) as gen:
        lead = await stopped_before_those_it_sent(gen, **turns)
        named = asyncio.ensure_future(name(gen, lead))
        if name is bounded:
            await named
        await until(gate.opened, "the agent that was sent before goes on")
        await named
        await until(lambda: all_have_ended(components(gen).store), "all have ended")
        assert 7 * CALL <= (await gen.history.spent(lead)).tokens < 13 * CALL


async def test_a_resume_that_is_refused_leaves_those_below_without_a_budget(
    tmp_path: Path, home: Path
) -> None:
    async with led_before(tmp_path, home) as (gen, gate, lead):
        with pytest.raises(UserMistake, match="The prompt is empty"):
            await gen.start_resume(lead, TaskRequest("", " ", budget=BUDGET))
        await until(gate.opened, "the agent that was sent before goes on")
        await until(lambda: all_have_ended(components(gen).store), "all have ended")
        assert (await gen.history.spent(lead)).tokens == (2 + 1 + MUCH + 1) * CALL


@pytest.mark.parametrize("total", [None, 100 * CALL])
async def test_one_that_was_woken_below_an_agent_at_rest_spends_from_the_budget_that_one_gets_later(
    tmp_path: Path, home: Path, total: int | None
) -> None:
    gate = Gate(tmp_path)
    write_agent(home / ".gen" / "agents", "lead", "Task(Bash), Glob")
    sends = says("", call("Task", subagent_type="Bash", prompt="little"), usage=COSTS)
    first = [sends, says("led", usage=COSTS), *[LOOK] * 90]
    below = [says("found", usage=COSTS), says("", gate.call, usage=COSTS), *[LOOK] * 90]
    lead_below = call("Task", subagent_type="lead", prompt="go")
    main = [says("", lead_below, usage=COSTS), says("told", usage=COSTS)]
    model = script(tmp_path, main=main, lead=first, Bash=below)
    settings = DEEP | ({"max_tokens_total": total} if total else {})
    async with GenCode.open(tmp_path, model=model, settings=settings) as gen:
        await gen.ask("go").outcome()
        lead, sent = await task_of(gen, "lead"), await task_of(gen, "Bash")
        woken = await gen.resume(sent, "more", background=True)
        await until_so(gen, main=2, lead=2, Bash=2)
        going_on = asyncio.ensure_future(gen.resume(lead, "more", budget=BUDGET))
        await until(gate.opened, "the one that was woken goes on")
        assert [(await each).status for each in (going_on, woken.result())] == [Status.LIMIT_REACHED] * 2
        assert 12 * CALL <= (await gen.history.spent(lead)).tokens < 13 * CALL


async def talked(gen: GenCode) -> str:
    """The id of a conversation at rest whose agent in the background waits at the gate."""
    turn = await gen.start_turn("go")
    await until_so(gen, main=2, Bash=1)
    await gen.stop(turn.id)
    return turn.id


async def said(gen: GenCode, session: str) -> None:
    """A person says /budget there."""
    await gen.budgets.set_all(BUDGET, session)


@pytest.mark.parametrize("name", [said, bounded])
@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_budget_that_a_conversation_gets_later_bounds_what_it_has_in_the_background(
    tmp_path: Path, home: Path, name: Callable[[GenCode, str], Awaitable[None]], goes_on: bool
) -> None:
    gate = Gate(tmp_path)
    model = played(tmp_path, home, gate)
    async with GenCode.open(tmp_path, model=model) as gen:
        session = await talked(gen)
        await name(gen, session)
        talking = asyncio.ensure_future(gen.ask("more", session=session).outcome()) if goes_on else None
        await until(gate.opened, "the agent in the background goes on")
        await until(lambda: all_have_ended(components(gen).store), "all have ended")
        assert talking is None or (await talking).status is Status.LIMIT_REACHED
        assert 12 * CALL <= (await gen.history.spent(session)).tokens < 13 * CALL


async def test_a_budget_that_is_named_in_the_middle_of_a_turn_counts_at_once_with_all_turns_before(
    tmp_path: Path, home: Path
) -> None:
    gate, store = Gate(tmp_path), MemoryStore()
    model = script(tmp_path, main=[*[says(f"{n}", usage=COSTS) for n in range(4)], *[LOOK] * 90])
    async with GenCode.open(tmp_path, model=model, store=store) as gen:
        session = (await gen.ask("go").outcome()).agent_id
        for _ in range(3):
            await gen.ask("more", session=session).outcome()
    waits = says("", gate.call, usage=COSTS)
    model = script(tmp_path, main=[*[says("")] * 4, waits, *[LOOK] * 90])
    async with GenCode.open(tmp_path, model=model, store=store) as gen:
        talking = asyncio.ensure_future(gen.ask("more", session=session).outcome())
        await until_so(gen, main=5)
        await gen.budgets.set_all(BUDGET, session)
        await until(gate.opened, "the turn goes on")
        assert (await talking).status is Status.LIMIT_REACHED
        assert (await spent_by(store, session)).tokens == 12 * CALL


APART = {"isolation": "process"}


@pytest.mark.parametrize("name", [resumed, bounded])
async def test_a_budget_is_named_beside_an_agent_in_a_process_of_its_own_which_it_bounds(
    tmp_path: Path, home: Path, name: Callable[[GenCode, str], Awaitable[None]]
) -> None:
    async with led_before(tmp_path, home, **APART) as (gen, gate, lead):
        named = asyncio.ensure_future(name(gen, lead))
        await until(gate.opened, "the agent in its process goes on")
        await named
        assert (await gen.find(lead)).terms.budget == BUDGET
        await until(lambda: all_have_ended(components(gen).store), "all have ended")
        assert (await gen.history.spent(lead)).tokens < 13 * CALL


@pytest.mark.parametrize("at_work", [True, False])
async def test_a_conversation_that_has_such_an_agent_is_bounded_with_it(
    tmp_path: Path, home: Path, at_work: bool
) -> None:
    gate = Gate(tmp_path)
    model = played(tmp_path, home, gate, **APART)
    async with GenCode.open(tmp_path, model=model) as gen:
        turn = await gen.start_turn("go")
        await until_so(gen, main=2, Bash=1)
        if not at_work:
            await gen.stop(turn.id)
        await gen.budgets.set_all(BUDGET, turn.id)
        assert (gen.budgets.default, (await gen.find(turn.id)).terms.budget) == (BUDGET, BUDGET)
        await until(gate.opened, "the agent in its process goes on")
        await until(lambda: all_have_ended(components(gen).store), "all have ended")
        assert 12 * CALL <= (await gen.history.spent(turn.id)).tokens < 13 * CALL


async def test_an_agent_with_a_budget_of_its_own_spends_from_the_new_one_as_well(
    tmp_path: Path, home: Path
) -> None:
    async with led_before(tmp_path, home, **APART, budget={"tokens": 5 * CALL}) as (gen, gate, lead):
        await gen.set_budget(lead, BUDGET)
        going_on = asyncio.ensure_future(gen.resume(lead, "more"))
        await until(gate.opened, "the agent in its process goes on")
        assert (await going_on).status is Status.LIMIT_REACHED
        await until(lambda: all_have_ended(components(gen).store), "all have ended")
        assert 8 * CALL <= (await gen.history.spent(lead)).tokens < 13 * CALL


async def test_another_process_names_a_budget_for_those_at_work_below(tmp_path: Path, home: Path) -> None:
    async with led_before(tmp_path, home) as (gen, gate, lead):
        words = ("task", "budget", lead, "tokens", str(BUDGET.tokens))
        assert (await asyncio.to_thread(command, *words, cwd=tmp_path)).code == 0
        assert (await gen.find(lead)).terms.budget == BUDGET
        await until(gate.opened, "the agent goes on")
        await until(lambda: all_have_ended(components(gen).store), "all have ended")
        assert 12 * CALL <= (await gen.history.spent(lead)).tokens < 13 * CALL


async def test_a_budget_is_lowered_while_somebody_elsewhere_spends_from_it(
    tmp_path: Path, home: Path
) -> None:
    gate, store = Gate(tmp_path), MemoryStore()
    write_agent(home / ".gen" / "agents", "lead", "Task(Bash), Glob")
    sends = says("", call("Task", subagent_type="Bash", prompt="little"), usage=COSTS)
    below = [says("found", usage=COSTS), says("", gate.call, usage=COSTS), *[LOOK] * 90]
    model = script(tmp_path, main=[], lead=[sends, says("led", usage=COSTS)], Bash=below)
    async with (
        GenCode.open(tmp_path, model=model, settings=DEEP, store=store) as gen,
        GenCode.open(tmp_path, model=model, settings=DEEP, store=store) as other,
    ):
        lead = (await gen.task("lead", "go", budget=Budget(tokens=20 * CALL))).agent_id
        sent = await task_of(gen, "Bash")
        woken = await other.resume(sent, "more", background=True)
        await until_so(gen, lead=2, Bash=2)
        await gen.set_budget(lead, BUDGET)
        await until(gate.opened, "the one that was woken goes on")
        assert (await woken.result()).status is Status.LIMIT_REACHED
        assert (await spent_by(store, lead)).tokens == 12 * CALL


async def test_one_at_work_in_another_process_is_bounded_by_what_the_next_turn_names(
    tmp_path: Path, home: Path
) -> None:
    gate, store = Gate(tmp_path), MemoryStore()
    sends = says("", call("Task", subagent_type="Bash", prompt="little"), usage=COSTS)
    main = [sends, says("led", usage=COSTS), says("more", usage=COSTS)]
    below = [says("found", usage=COSTS), says("", gate.call, usage=COSTS), *[LOOK] * 90]
    model = script(tmp_path, main=main, Bash=below)
    much, less = ({"max_tokens_total": calls * CALL} for calls in (40, 12))
    async with (
        GenCode.open(tmp_path, model=model, settings=much, store=store) as gen,
        GenCode.open(tmp_path, model=model, settings=less, store=store) as other,
    ):
        session = (await gen.ask("go").outcome()).agent_id
        woken = await gen.resume(await task_of(gen, "Bash"), "more", background=True)
        await until_so(gen, main=2, Bash=2)
        assert (await other.ask("more", session=session).outcome()).result == "more"
        await until(gate.opened, "the one that was woken goes on")
        assert (await woken.result()).status is Status.LIMIT_REACHED
        assert 12 * CALL <= (await spent_by(store, session)).tokens < 13 * CALL


async def test_so_is_one_by_what_a_command_names_that_goes_on_with_another_agent_below(
    tmp_path: Path, home: Path
) -> None:
    gate = Gate(tmp_path)
    both = [call("Task", subagent_type=agent, prompt="little") for agent in ("Bash", "Explore")]
    below = [says("found", usage=COSTS), says("", gate.call, usage=COSTS), *[LOOK] * 90]
    main = [says("", *both, usage=COSTS), says("led", usage=COSTS)]
    model = script(tmp_path, main=main, Bash=below, Explore=[says("found", usage=COSTS)])
    async with GenCode.open(tmp_path, model=model, settings={"max_tokens_total": 40 * CALL}) as gen:
        session = (await gen.ask("go").outcome()).agent_id
        woken = await gen.resume(await task_of(gen, "Bash"), "more", background=True)
        await until_so(gen, main=2, Bash=2, Explore=1)
        less = ("--max-tokens-total", str(20 * CALL), "--model", model)
        words = ("task", "resume", await task_of(gen, "Explore"), "more", "--background", *less)
        assert (await asyncio.to_thread(command, *words, cwd=tmp_path)).code == 0
        assert (await gen.find(session)).terms.budget == Budget(tokens=20 * CALL)
        await until(gate.opened, "the one that was woken goes on")
        assert (await woken.result()).status is Status.LIMIT_REACHED
        assert 20 * CALL <= (await gen.history.spent(session)).tokens < 21 * CALL


@pytest.mark.parametrize("named", ["when it was opened", "since then"])
async def test_a_budget_that_is_named_elsewhere_counts_before_what_was_named_here_earlier(
    tmp_path: Path, home: Path, named: str
) -> None:
    model, store = script(tmp_path, main=[says("a", usage=COSTS)] * 9), MemoryStore()
    settings = {"max_tokens_total": 40 * CALL} if named == "when it was opened" else {}
    async with (
        GenCode.open(tmp_path, model=model, settings=settings, store=store) as gen,
        GenCode.open(tmp_path, model=model, store=store) as other,
    ):
        session = (await gen.ask("go").outcome()).agent_id
        if named == "since then":
            await gen.budgets.set_all(Budget(tokens=40 * CALL), session)
        await other.set_budget(session, Budget(tokens=2 * CALL))
        await gen.ask("more", session=session).outcome()
        with pytest.raises(UserMistake, match="The budget of 20,000 tokens of the session is spent"):
            await gen.ask("more", session=session).outcome()
        await other.set_budget(session, Budget(tokens=50 * CALL))
        await gen.ask("more", session=session).outcome()
        assert await gen.budgets.of_conversation(session) == Budget(tokens=50 * CALL)
        await gen.budgets.set_all(Budget(tokens=30 * CALL), session)
        await gen.ask("more", session=session).outcome()
        assert (await gen.find(session)).terms.budget == Budget(tokens=30 * CALL)


async def test_so_does_one_that_is_named_for_an_earlier_conversation_here(tmp_path: Path, home: Path) -> None:
    model, store = script(tmp_path, main=[says("a", usage=COSTS)] * 3), MemoryStore()
    async with GenCode.open(tmp_path, model=model, store=store) as gen:
        session = (await gen.ask("go").outcome()).agent_id
    async with GenCode.open(
        tmp_path, model=model, settings={"max_tokens_total": 40 * CALL}, store=store
    ) as gen:
        await gen.set_budget(session, Budget(tokens=2 * CALL))
        await gen.ask("more", session=session).outcome()
        with pytest.raises(UserMistake, match="The budget of 20,000 tokens of the session is spent"):
            await gen.ask("more", session=session).outcome()
