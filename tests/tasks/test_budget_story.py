"""Budgets through the public door: refused before anything is spent, counted for the whole tree."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.messages import Usage
from gencode.core.status import Status
from gencode.testing import call, says, scripted
from tests.tasks.words import results, said

COSTS = {"inputTokens": 90, "outputTokens": 10}
ROUND = says("", call("LS", path="."), usage=COSTS)


def spent(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens


async def test_a_session_stops_when_its_tokens_are_spent_and_keeps_what_was_said(tmp_path: Path) -> None:
    turns = [says("so far", call("LS", path="."), usage=COSTS), *[ROUND] * 20]
    async with scripted(tmp_path, settings={"max_tokens_total": 250}, main=turns) as gen:
        outcome = await gen.ask("go").outcome()
    assert (outcome.status, outcome.result, outcome.turns) == (Status.LIMIT_REACHED, "so far", 3)
    assert outcome.error == "The budget of 250 tokens of the session is spent."
    assert 250 <= spent(outcome.usage.tree) < 250 + 100


async def test_children_spend_from_one_account_and_do_not_exceed_it_together(tmp_path: Path) -> None:
    sent = [call("Task", subagent_type="Explore", prompt=f"part {number}") for number in range(8)]
    turns = [says("", *sent, usage=COSTS), says("told", usage=COSTS)]
    async with scripted(
        tmp_path, settings={"max_tokens_total": 700}, main=turns, Explore=[*[ROUND] * 10, says("end")]
    ) as gen:
        outcome = await gen.ask("go").outcome()
        tasks = await gen.tasks()
    assert outcome.status is Status.LIMIT_REACHED
    assert 700 <= spent(outcome.usage.tree) < 700 + 100
    assert {task.status for task in tasks} == {Status.LIMIT_REACHED}


async def test_a_budget_on_the_call_is_set_aside_and_what_is_left_comes_back(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = [{"tokens": 800}, {"tokens": 500}]
    sent = [
        call("Task", subagent_type="Explore", prompt="look", budget=each, run_in_background=True)
        for each in asked
    ]
    turns = [says("", sent[0], usage=COSTS), says("", sent[1], usage=COSTS), says("told", usage=COSTS)]
    explore = [says("found", usage=COSTS, delay_ms=100)]
    async with scripted(
        tmp_path,
        settings={"max_tokens_total": 1_200},
        main=[*turns, says("more", usage=COSTS)],
        Explore=explore,
    ) as gen:
        outcome = await gen.ask("go").outcome()
        refused = results(await said(gen, outcome.agent_id))[1]
    assert refused == (
        "The budget of the session has 200 of 1,200 tokens left; 500 were asked for. Ask for less."
    )
    assert outcome.status is Status.COMPLETED


async def test_no_more_agents_are_sent_than_the_budget_says(tmp_path: Path) -> None:
    sent = [call("Task", subagent_type="Explore", prompt=f"part {number}") for number in range(3)]
    async with scripted(
        tmp_path, settings={"max_spawns": 2}, main=[says("", *sent), says("told")], Explore=[says("found")]
    ) as gen:
        outcome = await gen.ask("go").outcome()
        answers = results(await said(gen, outcome.agent_id))
    assert answers == [
        "found",
        "found",
        "The budget of 2 agents of the session is spent.",
    ]


async def test_what_a_conversation_spent_before_counts_when_it_goes_on(tmp_path: Path) -> None:
    turns = [says("one", usage=COSTS), says("two", usage=COSTS), says("three", usage=COSTS)]
    async with scripted(tmp_path, settings={"max_tokens_total": 150}, main=turns) as gen:
        first = await gen.ask("go").outcome()
        second = await gen.ask("go on", session=first.agent_id).outcome()
        with pytest.raises(UserMistake, match="The budget of 150 tokens of the session is spent"):
            await gen.ask("and on", session=first.agent_id).outcome()
    assert [each.status for each in (first, second)] == [Status.COMPLETED] * 2


async def test_a_resumed_agent_has_only_what_is_left_of_its_budget(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("one", usage=COSTS), says("two", usage=COSTS)]) as gen:
        first = await gen.task("Explore", "look", budget=Budget(tokens=100))
        with pytest.raises(UserMistake, match="The budget of 100 tokens of agent Explore is spent"):
            await gen.resume(first.agent_id, "more")
        more = await gen.resume(first.agent_id, "more", budget=Budget(tokens=300))
    assert (first.result, more.result, spent(more.usage.tree)) == ("one", "two", 200)


async def test_money_is_bounded_by_the_price_of_the_model(tmp_path: Path) -> None:
    prices = {"ScriptedProvider": {"input": 1_000.0, "output": 1_000.0}}
    settings = {"max_usd": 0.25, "prices": prices}
    async with scripted(tmp_path, settings=settings, Explore=[ROUND] * 20) as gen:
        outcome = await gen.task("Explore", "look")
    assert (outcome.status, outcome.turns) == (Status.LIMIT_REACHED, 3)
    assert outcome.error == "The budget of 0.25 USD of the session is spent."


async def test_money_cannot_be_bounded_where_no_price_is_known(tmp_path: Path) -> None:
    async with scripted(tmp_path, settings={"max_usd": 1.0}, Explore=[says("never")]) as gen:
        with pytest.raises(UserMistake) as refused:
            await gen.task("Explore", "look")
        assert await gen.tasks() == []
    assert str(refused.value) == (
        "ScriptedProvider: The price of the model is not known, so a budget in USD cannot be kept: give its "
        "price under [prices] in the settings, or limit tokens or turns instead."
    )


async def test_money_may_be_bounded_where_nothing_is_paid(tmp_path: Path) -> None:
    async with GenCode.open(tmp_path, model="offline", settings={"max_usd": 0.01}) as gen:
        assert (await gen.task("Explore", "list the files")).status is Status.COMPLETED


@pytest.mark.parametrize("budget", [Budget(tokens=0), Budget(usd=-1.0), Budget(turns=0), Budget(spawns=-1)])
async def test_a_budget_of_nothing_is_a_clear_mistake(tmp_path: Path, budget: Budget) -> None:
    async with scripted(tmp_path, Explore=[says("never")]) as gen:
        with pytest.raises(UserMistake, match="budget"):
            await gen.task("Explore", "look", budget=budget)
        assert await gen.tasks() == []


async def test_seconds_on_the_call_end_the_agent_and_nobody_else(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("late", delay_ms=600_000)]) as gen:
        async with asyncio.timeout(60):
            outcome = await gen.task("Explore", "look", budget=Budget(seconds=0.2))
    refused = (
        "The budget of 0.2 seconds of agent Explore is spent. To raise it: "
        f"gen task budget {outcome.agent_id} seconds N."
    )
    assert (outcome.status, outcome.error) == (Status.TIMED_OUT, refused)
