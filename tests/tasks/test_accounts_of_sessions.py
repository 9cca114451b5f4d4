"""One session, one account: whatever belongs to it is paid from it, whoever wakes it and wherever."""

import re
from pathlib import Path

import pytest

from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.status import Status
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import gen as command
from tests.interfaces.cli.running import script
from tests.tasks.agent_file import write_agent
from tests.waiting import Gate, until

COSTS = {"inputTokens": 90, "outputTokens": 10}
SENT = call("Task", subagent_type="Explore", prompt="look")
MAIN = [says("", SENT, usage=COSTS), says("told", usage=COSTS), says("more", usage=COSTS)]
EXPLORE = [says(f"found {number}", usage=COSTS) for number in range(9)]


async def total(gen: GenCode) -> int:
    """What everything in the journal has cost."""
    return sum(each.usage.input_tokens + each.usage.output_tokens for each in await gen.tasks())


async def test_tasks_that_are_woken_again_and_again_are_paid_from_the_one_account_of_the_session(
    tmp_path: Path,
) -> None:
    async with scripted(tmp_path, settings={"max_tokens_total": 350}, Explore=EXPLORE) as gen:
        first = await gen.task("Explore", "look")
        second = await gen.task("Explore", "look too")
        assert (await gen.resume(first.agent_id, "more")).result == "found 1"
        assert (await gen.resume(second.agent_id, "more")).result == "found 1"
        for task in (first, second):
            with pytest.raises(UserMistake, match="The budget of 350 tokens of the session is spent"):
                await gen.resume(task.agent_id, "more")
        assert await total(gen) == 400


async def test_a_task_of_an_earlier_process_joins_the_session_with_all_it_cost(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scripted(tmp_path, store=store, Explore=EXPLORE) as gen:
        first = await gen.task("Explore", "look")
        second = await gen.task("Explore", "look too")
    async with scripted(tmp_path, store=store, settings={"max_tokens_total": 250}, Explore=EXPLORE) as gen:
        assert (await gen.resume(first.agent_id, "more")).status is Status.COMPLETED
        with pytest.raises(UserMistake, match="The budget of 250 tokens of the session is spent"):
            await gen.resume(second.agent_id, "more")


async def test_a_child_that_is_woken_elsewhere_is_paid_from_what_its_conversation_may_spend(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    async with scripted(
        tmp_path, store=store, settings={"max_tokens_total": 400}, main=MAIN, Explore=EXPLORE
    ) as gen:
        outcome = await gen.ask("go").outcome()
        [child] = await gen.tasks(outcome.agent_id)
    async with scripted(tmp_path, store=store, main=MAIN, Explore=EXPLORE) as gen:
        assert (await gen.resume(child.agent_id, "more")).result == "found 1"
        with pytest.raises(UserMistake, match="The budget of 400 tokens of the session is spent"):
            await gen.resume(child.agent_id, "and more")
        with pytest.raises(UserMistake, match="The budget of 400 tokens of the session is spent"):
            await gen.ask("go on", session=outcome.agent_id).outcome()


async def test_a_conversation_keeps_its_budget_until_another_one_is_named_or_it_is_taken_away(
    tmp_path: Path,
) -> None:
    store = MemoryStore()

    async def goes_on(gen: GenCode, session: str) -> bool:
        try:
            return (await gen.ask("go on", session=session).outcome()).status is Status.COMPLETED
        except UserMistake:
            return False

    turns = [says(f"{number}", usage=COSTS) for number in range(9)]
    async with scripted(tmp_path, store=store, settings={"max_tokens_total": 100}, main=turns) as gen:
        session = (await gen.ask("go").outcome()).agent_id
    async with scripted(tmp_path, store=store, main=turns) as gen:
        assert not await goes_on(gen, session)
        await gen.budgets.set_all(Budget(tokens=200))
        assert await goes_on(gen, session)
    async with scripted(tmp_path, store=store, main=turns) as gen:
        assert not await goes_on(gen, session)
        await gen.budgets.set_all(Budget())
        assert await goes_on(gen, session)
    async with scripted(tmp_path, store=store, main=turns) as gen:
        assert await goes_on(gen, session)


async def test_a_child_that_goes_on_alone_has_what_the_budget_of_its_ended_parent_leaves(
    tmp_path: Path, home: Path
) -> None:
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore), LS")
    lead = [says("", SENT, usage=COSTS), says("led", usage=COSTS)]
    async with scripted(tmp_path, settings={"max_depth": 2}, lead=lead, Explore=EXPLORE) as gen:
        led = await gen.task("lead", "go", budget=Budget(tokens=400))
        [child] = await gen.tasks(led.agent_id)
        assert (await gen.resume(child.agent_id, "more")).result == "found 1"
        with pytest.raises(UserMistake, match="The budget of 400 tokens of agent lead is spent"):
            await gen.resume(child.agent_id, "and more")


async def test_naming_one_kind_of_budget_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    store = MemoryStore()
    turns = [says(f"{number}", usage=COSTS) for number in range(9)]
    async with scripted(tmp_path, store=store, settings={"max_tokens_total": 100}, main=turns) as gen:
        session = (await gen.ask("go").outcome()).agent_id
    async with scripted(tmp_path, store=store, settings={"max_spawns": 9}, main=turns) as gen:
        assert await gen.budgets.of_conversation(session) == Budget(tokens=100, spawns=9)
        with pytest.raises(UserMistake, match="The budget of 100 tokens of the session is spent"):
            await gen.ask("on", session=session).outcome()


async def test_what_is_set_for_all_sessions_does_not_lift_what_was_named_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    turns = [says(f"{number}", usage=COSTS) for number in range(9)]
    async with scripted(tmp_path, store=store, settings={"max_tokens_total": 100}, main=turns) as gen:
        session = (await gen.ask("go").outcome()).agent_id
    monkeypatch.setenv("GEN_MAX_TOKENS_TOTAL", "100000")
    async with scripted(tmp_path, store=store, main=turns) as gen:
        assert await gen.budgets.of_conversation(session) == Budget(tokens=100)
    monkeypatch.setenv("GEN_MAX_TOKENS_TOTAL", "50")
    async with scripted(tmp_path, store=store, main=turns) as gen:
        assert await gen.budgets.of_conversation(session) == Budget(tokens=50)
    async with scripted(tmp_path, store=store, settings={"max_tokens_total": 300}, main=turns) as gen:
        assert await gen.budgets.of_conversation(session) == Budget(tokens=300)


async def test_a_fork_of_an_agent_of_a_conversation_is_paid_by_it_in_any_process(tmp_path: Path) -> None:
    store = MemoryStore()
    given = {"max_tokens_total": 450}
    async with scripted(tmp_path, store=store, settings=given, main=MAIN, Explore=EXPLORE) as gen:
        outcome = await gen.ask("go").outcome()
        [child] = await gen.tasks(outcome.agent_id)
    async with scripted(tmp_path, store=store, main=MAIN, Explore=EXPLORE) as gen:
        fork = await gen.fork(child.agent_id, "again")
        assert (fork.status, fork.parent_id) == (Status.COMPLETED, outcome.agent_id)
    async with scripted(tmp_path, store=store, main=MAIN, Explore=EXPLORE) as gen:
        assert (await gen.fork(child.agent_id, "again")).status is Status.COMPLETED
        with pytest.raises(UserMistake, match="The budget of 450 tokens of the session is spent"):
            await gen.fork(child.agent_id, "once more")


def test_a_session_whose_budget_is_spent_says_so_and_gives_no_earlier_answer(tmp_path: Path) -> None:
    model = script(tmp_path, main=[says("the answer", usage=COSTS), says("never")])
    words = ("-p", "more", "--model", model)
    bounded = command(*words, "--max-tokens-total", "50", "--json", cwd=tmp_path).json
    assert (bounded["result"], bounded["error"]) == ("the answer", None)
    words = (*words, "--session", bounded["sessionId"])
    shown, told = command(*words, cwd=tmp_path), command(*words, "--json", cwd=tmp_path)
    spent = "The budget of 50 tokens of the session is spent"
    assert (shown.code, shown.out, told.code, told.out) == (2, "", 2, "")
    assert spent in shown.err and spent in told.err


async def test_another_budget_counts_at_once_for_what_is_at_work_in_the_background(tmp_path: Path) -> None:
    behind = call("Task", subagent_type="Explore", prompt="look", run_in_background=True)
    look = says("", call("Glob", pattern="*"), usage={"inputTokens": 90, "outputTokens": 10}, delay_ms=20)
    main = [says("", behind), says("told"), says("again")]
    async with scripted(tmp_path, store=MemoryStore(), main=main, Explore=[look] * 300) as gen:
        await gen.budgets.set_all(Budget(tokens=1_000_000))
        turn = await gen.start_turn("go")
        await until(lambda: any(live.task.totals.turns > 2 for live in gen.running), "the agent has begun")
        await gen.budgets.set_all(Budget(tokens=200), turn.id)
        await gen.outcome(turn)
        [agent] = await gen.tasks(turn.id)
    assert (agent.status, agent.error) == (
        Status.LIMIT_REACHED,
        "The budget of 200 tokens of the session is spent.",
    )


async def test_the_seconds_of_an_agent_bound_what_it_has_in_the_background(
    tmp_path: Path, home: Path
) -> None:
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore), Glob")
    behind = call("Task", subagent_type="Explore", prompt="look", run_in_background=True)
    lead, never = [says("", behind), says("sent")], [says("never", delay_ms=600_000)]
    deep = {"max_depth": 2}
    async with scripted(tmp_path, store=MemoryStore(), settings=deep, lead=lead, Explore=never) as gen:
        led = await gen.task("lead", "go", budget=Budget(seconds=1.5))
        await until(lambda: not [*gen.running], "all have ended")
        [agent] = await gen.tasks(led.agent_id)
    assert agent.status is Status.TIMED_OUT
    why = r"it took longer than 1\.\d+ s; the tasks above it have no time left"
    assert re.fullmatch(why, agent.error or "")


@pytest.mark.parametrize("budget", [Budget(tokens=1.5), Budget(turns=True), Budget(spawns="3")])  # pyright: ignore[reportArgumentType]
async def test_a_budget_that_is_no_whole_number_is_refused(tmp_path: Path, budget: Budget) -> None:
    async with scripted(tmp_path, Explore=[says("never")]) as gen:
        with pytest.raises(UserMistake, match="is a whole number from"):
            await gen.task("Explore", "look", budget=budget)


async def test_an_agent_that_is_woken_while_its_sender_is_at_work_is_paid_only_once(
    tmp_path: Path, home: Path
) -> None:
    gate = Gate(tmp_path)
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore), Bash")
    lead = [says("", SENT, usage=COSTS), says("", gate.call, usage=COSTS), says("led", usage=COSTS)]
    settings = {"max_depth": 2, "max_tokens_total": 450}
    async with scripted(tmp_path, settings=settings, lead=lead, Explore=EXPLORE) as gen:
        handle = await gen.task("lead", "go", background=True)
        await until(lambda: any(live.task.totals.turns == 2 for live in gen.running), "it waits at the gate")
        [child] = await gen.tasks(handle.id)
        assert [(await gen.resume(child.agent_id, "more")).result for _ in range(2)] == ["found 1", "found 2"]
        await until(gate.opened, "it goes on")
        assert (await handle.result()).status is Status.LIMIT_REACHED
        assert await total(gen) == 500
