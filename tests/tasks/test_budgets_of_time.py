"""A budget of seconds counts for the whole life of a task: all its runs, in whatever process they were."""

import re
import time
from pathlib import Path

import pytest

from gencode.app import components
from gencode.budgets.limits import Spent
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.status import Status
from gencode.interfaces.chat.task_controls import budget_usage_page
from gencode.stores.memory import MemoryStore
from gencode.tasks.service import MessageKept
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import gen, script
from tests.tasks.words import results, said
from tests.virtual_clock import virtual_time

SLOW = says("done", delay_ms=600)
BUDGET = Budget(seconds=1.0)


def refusal(task: str, owner: str = "agent Explore") -> str:
    return f"The budget of 1 second of {owner} is spent. To raise it: gen task budget {task} seconds N."


async def test_a_resumed_agent_has_only_the_seconds_that_its_earlier_runs_left(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[SLOW]) as opened:
        first = await opened.task("Explore", "look", budget=BUDGET)
        began = time.monotonic()
        again = await opened.resume(first.agent_id, "more")
        assert time.monotonic() - began < 0.6
        assert (first.status, again.status) == (Status.COMPLETED, Status.TIMED_OUT)
        assert again.error == refusal(first.agent_id)
        assert 1_000 <= (again.duration_ms or 0) < 1_500
        with pytest.raises(UserMistake) as refused:
            await opened.resume(first.agent_id, "more")
        assert str(refused.value) == refusal(first.agent_id)
        assert (await opened.get(first.agent_id)).turns == 1
        await opened.set_budget(first.agent_id, Budget(seconds=30.0))
        last = await opened.resume(first.agent_id, "more")
        assert (last.status, last.turns) == (Status.COMPLETED, 2)


async def test_a_budget_that_is_named_with_the_wish_counts_what_was_worked_before(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[SLOW]) as opened:
        first = await opened.task("Explore", "look")
        with pytest.raises(UserMistake) as refused:
            await opened.resume(first.agent_id, "more", budget=Budget(seconds=0.5))
        assert str(refused.value).startswith("The budget of 0.5 seconds of agent Explore is spent.")
        again = await opened.resume(first.agent_id, "more", budget=BUDGET)
        assert again.status is Status.TIMED_OUT


async def test_an_agent_that_a_model_goes_on_with_has_no_other_seconds_either(tmp_path: Path) -> None:
    sent = call("Task", subagent_type="Explore", prompt="look", budget={"seconds": 0.5})
    async with scripted(tmp_path, main=[says("", sent), says("told")], Explore=[SLOW]) as opened:
        session = (await opened.ask("go").outcome()).agent_id
        [child] = await opened.tasks(session)
    again = call("Task", subagent_type="Explore", prompt="more", resume=child.agent_id)
    word = call("SendMessage", task_id=child.agent_id, message="and?")
    turns = [says(""), says(""), says("", again), says("", word), says("told")]
    assert child.status is Status.TIMED_OUT
    store = components(opened).store
    async with scripted(tmp_path, store=store, main=turns, Explore=[SLOW]) as opened:
        await opened.ask("go on", session=session).outcome()
        spent = refusal(child.agent_id).replace("of 1 second", "of 0.5 seconds")
        assert results(await said(opened, session))[1:] == [
            spent,
            f"{spent} The message is kept and delivered when the task is resumed.",
        ]


async def test_the_turns_of_a_conversation_share_its_seconds(tmp_path: Path) -> None:
    async with scripted(tmp_path, store=MemoryStore(), main=[SLOW]) as opened:
        session = (await opened.ask("go").outcome()).agent_id
        await opened.set_budget(session, BUDGET)
        cut = await opened.ask("more", session=session).outcome()
        assert (cut.status, cut.error) == (Status.TIMED_OUT, refusal(session, "the session"))
        with pytest.raises(UserMistake) as refused:
            await opened.ask("more", session=session).outcome()
        assert str(refused.value) == refusal(session, "the session")
        await components(opened).store.post(session, "are you there?", "system")
        with pytest.raises(MessageKept, match="Results that were not delivered yet are kept"):
            await components(opened).tasks.service.hear(opened.agents.main(), session)


@pytest.mark.parametrize(
    ("before", "after", "status"), [(None, 1.0, Status.TIMED_OUT), (1.0, 60.0, Status.COMPLETED)]
)
@virtual_time
async def test_a_turn_at_work_has_the_seconds_that_its_session_is_given_meanwhile(
    tmp_path: Path, before: float | None, after: float, status: Status
) -> None:
    slow = says("done", delay_ms=1_500)
    async with scripted(tmp_path, main=[slow]) as opened:
        await opened.budgets.set_all(Budget(seconds=before))
        job = await opened.start_turn("go")
        await opened.budgets.set_all(Budget(seconds=after), job.id)
        outcome = await opened.outcome(job)
    told = None if status is Status.COMPLETED else refusal(job.id, "the session")
    assert (outcome.status, outcome.error) == (status, told)


def test_other_processes_count_the_same_seconds_and_say_how_many_are_spent(
    tmp_path: Path, home: Path
) -> None:
    words = ("--model", script(tmp_path, Explore=[SLOW]), "--json")
    task = gen("task", "run", "Explore", "look", *words, cwd=tmp_path).json["agentId"]
    found = gen("task", "budget", task, "seconds", "1", "--json", cwd=tmp_path).json
    seconds = found["spent"].pop("seconds")
    assert (found["budget"], found["spent"]) == (
        {"seconds": 1.0},
        {"turns": 1, "tokens": 0, "usd": 0.0, "spawns": 0},
    )
    assert 0.6 <= seconds < 1.0
    assert gen("task", "resume", task, "more", *words, cwd=tmp_path).json["status"] == "timed_out"
    for way in ((), ("--background",)):
        refused = gen("task", "resume", task, "more", *words, *way, cwd=tmp_path)
        assert (refused.code, refused.err) == (2, f"gen: {refusal(task)}\n")
    shown = gen("task", "budget", task, cwd=tmp_path).out.splitlines()[1]
    assert re.fullmatch("█{20} 1(\\.\\d+)?/1 seconds", shown)


def test_the_page_of_a_budget_has_a_bar_for_its_seconds() -> None:
    page = budget_usage_page(Budget(turns=4, seconds=3_600.0), Spent(turns=1, seconds=900.5))
    assert page == f"{'█' * 5}{'░' * 15} 1/4 turns\n{'█' * 5}{'░' * 15} 900.5/3,600 seconds"
