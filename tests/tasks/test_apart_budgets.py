"""Agents in processes of their own: what they and those they send spend counts, and one may exceed it."""

import asyncio
from pathlib import Path

import pytest

from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import gen, script
from tests.tasks.agent_file import write_agent
from tests.tasks.budget_tree import tokens
from tests.tasks.call_costs import CALL, COSTS, LOOK, sent


@pytest.mark.parametrize(("left", "spends"), [(1, 1), (25_000, 3), (200_000, 11)])
def test_several_of_them_at_once_exceed_the_budget_of_their_session_by_one_call_together(
    tmp_path: Path, home: Path, left: int, spends: int
) -> None:
    main = [says("", *sent(4, isolation="process"), usage=COSTS), says("told", usage=COSTS)]
    model = script(tmp_path, main=main, Explore=[LOOK] * 30)
    budget = CALL + left
    ended = gen("-p", "go", "--model", model, "--max-tokens-total", str(budget), "--json", cwd=tmp_path)
    spent = tokens(home, ended.json["sessionId"])
    assert CALL * (spends + 1) <= spent < budget + CALL


def test_one_that_is_alone_may_spend_all_that_is_left(tmp_path: Path, home: Path) -> None:
    main = [says("", *sent(1, isolation="process"), usage=COSTS), says("told", usage=COSTS)]
    model = script(tmp_path, main=main, Explore=[LOOK] * 30)
    said = gen("-p", "go", "--max-tokens-total", "215000", "--model", model, "--json", cwd=tmp_path).json
    [task] = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
    assert said["status"] == "limit_reached"
    assert tokens(home, task["agentId"]) == 210_000
    assert (task["status"], task["error"]) == (
        "limit_reached",
        "The budget of 215,000 tokens of the session is spent.",
    )


def test_what_those_spend_whom_one_of_them_sends_counts_for_the_session(tmp_path: Path, home: Path) -> None:
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore), Glob")
    lead = [says("", *sent(4), usage=COSTS), says("led", usage=COSTS)]
    one = call("Task", subagent_type="lead", prompt="go", isolation="process")
    main = [says("", one, usage=COSTS), *[LOOK] * 60]
    model = script(tmp_path, main=main, lead=lead, Explore=[says("found", usage=COSTS)])
    words = ("-p", "go", "--model", model, "--max-tokens-total", "250000", "--json")
    ended = gen(*words, cwd=tmp_path, GEN_MAX_DEPTH="2").json
    assert ended["error"] == "The budget of 250,000 tokens of the session is spent."
    assert tokens(home, ended["sessionId"]) == 250_000


def test_what_those_spend_whom_a_woken_agent_sends_to_other_processes_counts_for_the_session(
    tmp_path: Path, home: Path
) -> None:
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore), Glob")
    again = [says("", *sent(3, isolation="process"), usage=COSTS), *[LOOK] * 60]
    main = [says("", call("Task", subagent_type="lead", prompt="go"), usage=COSTS), says("told", usage=COSTS)]
    model = script(tmp_path, main=main, lead=[says("led", usage=COSTS), *again], Explore=[LOOK] * 30)
    words = ("-p", "go", "--model", model, "--max-tokens-total", "230000", "--json")
    session = gen(*words, cwd=tmp_path, GEN_MAX_DEPTH="2").json["sessionId"]
    [task] = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
    more = ("task", "resume", task["agentId"], "more", "--model", model, "--json")
    woken = gen(*more, cwd=tmp_path, GEN_MAX_DEPTH="2").json
    assert woken["error"] == "The budget of 230,000 tokens of the session is spent."
    assert 230_000 <= tokens(home, session) < 230_000 + CALL


def test_one_that_waits_for_its_turn_keeps_nobody_waiting(tmp_path: Path, home: Path) -> None:
    """Whoever has the only place goes on, or is told that the rest is set aside."""
    here = call("Task", subagent_type="Explore", prompt="a", run_in_background=True)
    apart = call("Task", subagent_type="Plan", prompt="b", isolation="process")
    main = [says("", here, usage=COSTS), says("", apart, usage=COSTS), *[says("told", usage=COSTS)] * 4]
    slow = says("", call("Glob", pattern="*"), usage=COSTS, delay_ms=500)
    found = says("found", usage=COSTS)
    model = script(tmp_path, main=main, Explore=[*[slow] * 3, found], Plan=[found])
    words = ("-p", "go", "--model", model, "--max-tokens-total", "85000", "--json")
    ended = gen(*words, cwd=tmp_path, GEN_MAX_AGENTS="1").json
    assert tokens(home, ended["sessionId"]) < 85_000 + CALL
    assert all(each["status"] in ("completed", "limit_reached") for each in ended["tasks"])


async def test_those_without_a_conversation_exceed_the_budget_of_their_process_by_one_call_together(
    tmp_path: Path,
) -> None:
    model = script(tmp_path, Explore=[LOOK] * 9)
    bounds, own = {"max_tokens_total": 46_000}, Budget(tokens=11_000)
    async with GenCode.open(tmp_path, model=model, settings=bounds) as opened:
        sent = [opened.task("Explore", f"{n}", isolation="process", budget=own) for n in range(4)]
        ended = await asyncio.gather(*sent, return_exceptions=True)
        assert {each.status for each in ended if isinstance(each, Outcome)} == {Status.LIMIT_REACHED}
        assert all(isinstance(each, Outcome | UserMistake) for each in ended)
        assert 40_000 <= sum(each.turns for each in await opened.tasks()) * CALL < 46_000 + CALL


async def test_a_fork_that_cannot_begin_costs_nothing(tmp_path: Path) -> None:
    bounds = {"max_tokens_total": 100_000, "max_spawns": 3}
    explore = [says("found")] * 4
    async with scripted(tmp_path, settings=bounds, main=[says("told")], Explore=explore) as opened:
        first = await opened.task("Explore", "look")
        for _ in range(3):
            with pytest.raises(UserMistake, match="is not in a git repository"):
                await opened.fork(first.agent_id, "x", isolation="worktree", budget=Budget(tokens=40_000))
        for _ in range(2):
            await opened.fork(first.agent_id, "x", budget=Budget(tokens=40_000))
        with pytest.raises(UserMistake, match="The budget of 3 agents of the session is spent"):
            await opened.fork(first.agent_id, "x")
