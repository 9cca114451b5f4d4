"""An agent whose own budget is spent gets another one, and never more than is left above it."""

from pathlib import Path

import pytest

from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.status import Status
from gencode.stores.memory import MemoryStore
from gencode.surfaces.bounds import bounded
from gencode.testing import call, says, scripted
from tests.surfaces.running import gen, script

LOOK = says("", call("LS", path="."))
SENT = call("Task", subagent_type="Explore", prompt="look", budget={"turns": 2})
MAIN = [says("", SENT), says("told")]
EXPLORE = [LOOK, LOOK, LOOK, says("found")]


def test_a_spent_budget_of_an_agent_is_raised_by_a_command_and_the_agent_goes_on(
    tmp_path: Path, home: Path
) -> None:
    model = script(tmp_path, main=MAIN, Explore=EXPLORE)
    words = ("-p", "go", "--model", model, "--max-spawns", "3", "--json")
    gen(*words, cwd=tmp_path)
    [task] = [each["agentId"] for each in gen("task", "list", "--json", cwd=tmp_path).json["tasks"]]
    refused = gen("task", "resume", task, "go on", cwd=tmp_path)
    assert (refused.code, refused.err) == (
        2,
        "gen: The budget of 2 turns of agent Explore is spent. A bigger one lets it go on: "
        f"gen task budget {task} turns N.\n",
    )
    raised = gen("task", "budget", task[:6], "turns", "4", "spawns", "2", "--json", cwd=tmp_path)
    assert raised.json == {
        "agentId": task,
        "agent": "Explore",
        "budget": {"turns": 4, "spawns": 2},
        "spent": {"turns": 2, "tokens": 0, "usd": 0.0, "spawns": 0},
    }
    too_much = gen("task", "budget", task, "spawns", "3", cwd=tmp_path)
    assert (too_much.code, too_much.err) == (
        2,
        "gen: The budget of the session has 2 of 3 agents left; 3 were asked for. Ask for less.\n",
    )
    ended = gen("task", "resume", task, "go on", "--model", model, "--json", cwd=tmp_path).json
    assert (ended["status"], ended["turns"]) == ("completed", 4)
    shown = gen("task", "budget", task, cwd=tmp_path).out
    assert shown == (
        f"Task {task} of Explore, with everything below it:\n{'█' * 20} 4/4 turns\n{'░' * 20} 0/2 agents\n"
    )
    gone = gen("task", "budget", task, "none", cwd=tmp_path).out
    assert gone.endswith("\nIt has no budget of its own.\n")


async def test_a_program_raises_the_budget_of_a_task_at_rest_only(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scripted(tmp_path, store=store, Explore=EXPLORE) as opened:
        first = await opened.task("Explore", "look", budget=Budget(turns=1))
        assert first.status is Status.LIMIT_REACHED
        with pytest.raises(UserMistake, match="A budget has to be more than 0 turns, not 0"):
            await opened.set_budget(first.agent_id, Budget(turns=0))
        assert await opened.set_budget(first.agent_id, Budget(turns=9)) == Budget(turns=9)
        running = await opened.resume(first.agent_id, "go on", background=True)
        with pytest.raises(UserMistake, match=f"Task {first.agent_id} is running"):
            await opened.set_budget(first.agent_id, Budget(turns=10))
        assert (await running.result()).result == "found"


def test_words_that_are_no_budget_are_refused_with_what_would_be_one() -> None:
    now = Budget(tokens=5, usd=1.0)
    assert bounded(now, ["usd", "2.5", "turns", "3"]) == Budget(tokens=5, usd=2.5, turns=3)
    assert bounded(now, ["none"]) == Budget()
    for words, why in (
        (["token", "5"], "A budget has no 'token'; it bounds turns, tokens, usd, seconds, spawns."),
        (["tokens", "many"], "'many' is no amount of tokens."),
        (["tokens"], "Say how much after 'tokens', for example tokens 50000, or only none."),
        (["usd", "nan"], "A budget has to be more than 0 USD, not nan; leave it out for no limit."),
    ):
        with pytest.raises(UserMistake) as refused:
            bounded(now, words)
        assert str(refused.value) == why
