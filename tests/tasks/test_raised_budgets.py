"""An agent whose own budget is spent gets another one, and never more than is left above it."""

import asyncio
from pathlib import Path

import pytest

from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.status import Status
from gencode.interfaces.chat.task_controls import changed_budget
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted
from tests.contracts.provider import Play
from tests.interfaces.cli.running import gen, script
from tests.tasks.budget_tree import BEFORE, WAIT, Gate, begun, so
from tests.tasks.minds import MODEL, Told, say, thinking

LOOK = says("", call("LS", path="."))
SENT = call("Task", subagent_type="Explore", prompt="look", budget={"turns": 2})
MAIN = [says("", SENT), says("told")]
EXPLORE = [LOOK, LOOK, LOOK, says("found")]


def test_a_spent_budget_of_an_agent_is_raised_by_a_command_and_the_agent_goes_on(
    tmp_path: Path, home: Path
) -> None:
    model = script(tmp_path, main=MAIN, Explore=EXPLORE)
    words = ("-p", "go", "--model", model, "--max-spawns", "3", "--json")
    session = gen(*words, cwd=tmp_path).json["sessionId"]
    [task] = [each["agentId"] for each in gen("task", "list", "--json", cwd=tmp_path).json["tasks"]]
    refused = gen("task", "resume", task, "go on", cwd=tmp_path)
    assert (refused.code, refused.err) == (
        2,
        "gen: The budget of 2 turns of agent Explore is spent. To raise it: "
        f"gen task budget {task} turns N.\n",
    )
    raised = gen("task", "budget", task[:6], "turns", "4", "spawns", "2", "--json", cwd=tmp_path)
    assert raised.json == {
        "agentId": task,
        "agent": "Explore",
        "budget": {"turns": 4, "spawns": 2},
        "spent": {
            "turns": 2,
            "tokens": 0,
            "usd": 0.0,
            "spawns": 0,
            "seconds": raised.json["spent"]["seconds"],
        },
    }
    too_much = gen("task", "budget", task, "spawns", "3", cwd=tmp_path)
    assert (too_much.code, too_much.err) == (
        2,
        "gen: The budget of the session has 2 of 3 agents left; 3 were asked for. Ask for less. "
        f"To raise that one: gen task budget {session} spawns N.\n",
    )
    ended = gen("task", "resume", task, "go on", "--model", model, "--json", cwd=tmp_path).json
    assert (ended["status"], ended["turns"]) == ("completed", 4)
    shown = gen("task", "budget", task, cwd=tmp_path).out
    assert shown == (
        f"Task {task} of Explore and its subagents:\n{'█' * 20} 4/4 turns\n{'░' * 20} 0/2 agents\n"
    )
    without = gen("task", "budget", task, "spawns", "none", "--json", cwd=tmp_path).json
    assert without["budget"] == {"turns": 4}
    gone = gen("task", "budget", task, "none", cwd=tmp_path).out
    assert gone.endswith("\nNo budget of its own.\n")


async def test_a_program_raises_the_budget_of_a_task_also_while_that_is_at_work(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scripted(tmp_path, store=store, Explore=EXPLORE) as opened:
        first = await opened.task("Explore", "look", budget=Budget(turns=1))
        assert first.status is Status.LIMIT_REACHED
        with pytest.raises(
            UserMistake, match="A budget of turns is a whole number from 1 to 9,007,199,254,740,992, not 0"
        ):
            await opened.set_budget(first.agent_id, Budget(turns=0))
        assert await opened.set_budget(first.agent_id, Budget(turns=9)) == Budget(turns=9)
        running = await opened.resume(first.agent_id, "go on", background=True)
        assert await opened.set_budget(first.agent_id, Budget(turns=10)) == Budget(turns=10)
        assert (await running.result()).result == "found"
        assert (await opened.find(first.agent_id)).terms.budget == Budget(turns=10)


async def test_a_task_that_another_process_runs_is_bounded_from_here_at_once(tmp_path: Path) -> None:
    store, gate = MemoryStore(), Gate(Explore=[LOOK] * 30)
    async with (
        GenCode.open(tmp_path, model=gate, store=store) as runs,
        scripted(tmp_path, store=store) as other,
    ):
        task = await runs.task("Explore", WAIT, background=True)
        await other.set_budget(task.id, Budget(turns=4))
        gate.open.set()
        ended = await task.result()
        assert (ended.status, ended.turns) == (Status.LIMIT_REACHED, 4)
        assert ended.error == "The budget of 4 turns of agent Explore is spent."
        await other.set_budget(task.id, Budget(turns=6))
        assert (await runs.resume(task.id, "go on")).turns == 6


async def test_the_seconds_of_a_task_that_another_process_runs_are_set_from_here(tmp_path: Path) -> None:
    store, gate = MemoryStore(), Gate(Explore=[LOOK] * 30)
    async with (
        GenCode.open(tmp_path, model=gate, store=store) as runs,
        scripted(tmp_path, store=store) as other,
    ):
        task = await runs.task("Explore", WAIT, background=True, budget=Budget(seconds=60))
        await other.set_budget(task.id, Budget(seconds=0.1))
        ended = await task.result()
        found = await other.find(task.id)
    assert (ended.status, found.terms.budget) == (Status.TIMED_OUT, Budget(seconds=0.1))


async def test_more_seconds_from_another_process_reach_a_task_before_its_time_is_up(tmp_path: Path) -> None:
    store, gate = MemoryStore(), Gate(Explore=[says("found")])
    async with (
        GenCode.open(tmp_path, model=gate, store=store) as runs,
        scripted(tmp_path, store=store) as other,
    ):
        task = await runs.task("Explore", WAIT, background=True, budget=Budget(seconds=1.0))
        await other.set_budget(task.id, Budget())
        await asyncio.sleep(1.2)
        gate.open.set()
        assert (await task.result()).status is Status.COMPLETED


def test_the_seconds_of_a_task_in_the_background_are_set_from_another_terminal(
    tmp_path: Path, home: Path
) -> None:
    words = ("--background", "--model", script(tmp_path, Explore=[says("found", delay_ms=60_000)]), "--json")
    task = gen("task", "run", "Explore", "look", *words, cwd=tmp_path).json["agentId"]
    assert gen("task", "budget", task, "seconds", "0.5", cwd=tmp_path).code == 0
    assert gen("task", "output", task, "--json", cwd=tmp_path).json["status"] == "timed_out"
    assert gen("task", "budget", task, "--json", cwd=tmp_path).json["budget"] == {"seconds": 0.5}


async def test_what_agents_at_work_have_of_the_budget_above_is_not_left(tmp_path: Path) -> None:
    store = MemoryStore()
    session, tasks = await begun(store, tmp_path, Budget(turns=BEFORE + 9))
    budget = {"turns": 5}
    behind = call("Task", subagent_type="Explore", prompt=WAIT, run_in_background=True, budget=budget)
    gate = Gate(main=[*MAIN[:2], says("", behind), says("out"), says("heard")], Explore=[says("done")])
    async with (
        GenCode.open(tmp_path, model=gate, store=store) as leader,
        scripted(tmp_path, store=store) as other,
    ):
        led = asyncio.ensure_future(leader.ask("send one", session=session).outcome())
        await so(store, session, lambda task: task.totals.turns == 4)
        for opened in (leader, other):  # nine turns less two, and five for the agent
            with pytest.raises(UserMistake) as refused:
                await opened.set_budget(tasks[0], Budget(turns=1 + 3))
            assert str(refused.value) == (
                "The budget of the session has 2 of 15 turns left; 3 were asked for. Ask for less. "
                f"To raise that one: gen task budget {session} turns N."
            )
            await opened.set_budget(tasks[0], Budget(turns=1 + 2))
        gate.open.set()
        await led
        await other.set_budget(tasks[0], Budget(turns=1 + 3))


async def test_dollars_for_a_model_without_a_price_are_refused_at_once_and_nothing_is_less_than_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = ("Task", {"subagent_type": "Explore", "prompt": "look"})

    def think(told: Told) -> Play:
        return say("Found.") if told.turns or told.prompt == "look" else say("I send.", sent)

    async with thinking(think, monkeypatch), GenCode.open(tmp_path, model=MODEL) as opened:
        session = (await opened.ask("go").outcome()).agent_id
        [task] = [each.agent_id for each in await opened.tasks(session)]
        for each in (task, session):
            with pytest.raises(UserMistake, match="The price of the model is not known") as refused:
                await opened.set_budget(each, Budget(usd=1.0))
            assert str(refused.value).endswith("or limit tokens or turns instead.")
        with pytest.raises(UserMistake, match="The price of the model is not known"):
            await opened.budgets.set_all(Budget(usd=1.0), session)
        assert ((await opened.find(task)).terms.budget, opened.budgets.default) == (Budget(), Budget())
        await opened.set_budget(session, Budget(turns=3))
        with pytest.raises(UserMistake) as refused:
            await opened.set_budget(task, Budget(turns=9))
        assert str(refused.value) == (
            "The budget of 3 turns of the session is spent. "
            f"To raise that one: gen task budget {session} turns N."
        )


def test_words_that_are_no_budget_are_refused_with_what_would_be_one() -> None:
    now = Budget(tokens=5, usd=1.0)
    assert changed_budget(now, ["usd", "2.5", "turns", "3"]) == Budget(tokens=5, usd=2.5, turns=3)
    assert changed_budget(now, ["none"]) == Budget()
    assert changed_budget(now, ["tokens", "none", "turns", "3"]) == Budget(usd=1.0, turns=3)
    whole = "a whole number from 1 to 9,007,199,254,740,992"
    for words, why in (
        (["token", "5"], "Unknown budget kind 'token'. Use one of: turns, tokens, usd, seconds, spawns."),
        (["tokens", "many"], f"A budget of tokens is {whole}, not 'many'; leave it out for no limit."),
        (["tokens", "1e30"], f"A budget of tokens is {whole}, not '1e30'; leave it out for no limit."),
        (["none", "tokens"], "Unknown budget kind 'none'. Use one of: turns, tokens, usd, seconds, spawns."),
        (["tokens"], "No amount after 'tokens'. Example: tokens 50000, or just none."),
        (["tokens", "30000", "tokens", "20000"], "tokens is given twice. Give it once."),
        (
            ["usd", "nan"],
            "A budget of USD is a number from 0.000000001 to 1,000,000,000, not 'nan'; "
            "leave it out for no limit.",
        ),
    ):
        with pytest.raises(UserMistake) as refused:
            changed_budget(now, words)
        assert str(refused.value) == why
