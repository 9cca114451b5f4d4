"""Forks and structured results, through the public door."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gencode import GenCode
from gencode.app import components
from gencode.budgets.ledger import BudgetSpent
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.events import MessageAdded, TaskForked
from gencode.core.messages import AssistantMessage
from gencode.core.outcome import Outcome
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.tasks.fork import LATER, Fork
from gencode.testing import call, says, scripted
from tests.tasks.isolated_agent import played
from tests.tasks.words import heard, results, said
from tests.waiting import Gate, until

CALL = 10_000
"""So many tokens a call may cost here at most, about."""
SCHEMA = {
    "type": "object",
    "properties": {"files": {"type": "array", "items": {"type": "string"}}},
    "required": ["files"],
}


async def test_a_fork_begins_with_what_the_other_one_knew_and_goes_its_own_way(tmp_path: Path) -> None:
    turns = [says("", call("LS", path=".")), says("left")]
    async with scripted(tmp_path, Explore=[*turns, says("right")]) as gen:
        first = await gen.task("Explore", "look")
        facts = await gen.history.events(first.agent_id)
        after_listing = [event.seq for event in facts if isinstance(event.fact, MessageAdded)][2]
        forked = await gen.fork(first.agent_id, "now right", at=after_listing)
        facts = await gen.history.events(forked.agent_id)
        told = await said(gen, forked.agent_id)
        again = await gen.get(first.agent_id)
    assert again == first
    assert (forked.status, forked.turns, forked.forked_from) == (Status.COMPLETED, 1, first.agent_id)
    copied = facts[1].fact
    assert isinstance(copied, TaskForked)
    assert (copied.source, copied.upto, len(copied.messages)) == (first.agent_id, after_listing, 3)
    assert [each.text for each in heard(told)] == ["look", "now right"]
    assert [each.text for each in told if isinstance(each, AssistantMessage)] == ["", "left"]


async def test_a_fork_may_work_in_the_background_as_any_task_may(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("left"), says("right", delay_ms=300)]) as gen:
        first = await gen.task("Explore", "look")
        handle = await gen.fork(first.agent_id, "now right", background=True)
        at_work = await gen.get(handle.id)
        forked = await handle.result()
    assert (at_work.status.ended, at_work.background, at_work.forked_from) == (False, True, first.agent_id)
    assert (forked.agent_id, forked.result, forked.background) == (handle.id, "right", True)


async def test_a_fork_in_the_middle_of_calls_answers_them(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("", call("LS", path=".")), says("done")]) as gen:
        first = await gen.task("Explore", "look")
        asked = next(
            event.seq
            for event in await gen.history.events(first.agent_id)
            if getattr(getattr(event.fact, "message", None), "calls", ())
        )
        forked = await gen.fork(first.agent_id, "again", at=asked)
        told = await said(gen, forked.agent_id)
    assert forked.status is Status.COMPLETED
    assert "this fork begins" in results(told)[0]


@pytest.mark.parametrize("at", [0, 999])
async def test_a_fork_at_a_fact_that_is_not_there_is_a_clear_mistake(tmp_path: Path, at: int) -> None:
    async with scripted(tmp_path, Explore=[says("done")]) as gen:
        first = await gen.task("Explore", "look")
        with pytest.raises(UserMistake, match=f"has no event {at}; its events are numbered 1 to"):
            await gen.fork(first.agent_id, "again", at=at)
        assert len(await gen.tasks()) == 1


async def test_a_fork_at_a_fact_that_is_not_there_says_so_also_where_nothing_is_left_to_pay_it(
    tmp_path: Path,
) -> None:
    sent = says("", call("Task", subagent_type="Explore", prompt="look"))
    async with scripted(tmp_path, main=[sent, says("told")], Explore=[says("done")]) as gen:
        session = (await gen.ask("go").outcome()).agent_id
        [task] = [each.agent_id for each in await gen.tasks(session)]
        await gen.set_budget(session, Budget(turns=3))
        with pytest.raises(BudgetSpent):
            await gen.fork(task, "again")
        with pytest.raises(UserMistake, match="has no event 999"):
            await gen.fork(task, "again", at=999)
        with pytest.raises(BudgetSpent):
            await gen.fork(session, "again")


async def test_a_result_that_fits_its_schema_is_given_as_a_value(tmp_path: Path) -> None:
    text = 'Here it is:\n```json\n{"files": ["a.py"]}\n```'
    async with scripted(tmp_path, Explore=[says(text)]) as gen:
        outcome = await gen.task("Explore", "look", output_schema=SCHEMA)
        told = heard(await said(gen, outcome.agent_id))
    assert (outcome.status, outcome.result, outcome.output) == (Status.COMPLETED, text, {"files": ["a.py"]})
    assert "JSON Schema" in told[1].text


async def test_a_result_that_does_not_fit_is_repaired_at_most_twice(tmp_path: Path) -> None:
    wrong = [says('{"files": 1}'), says('{"files": [1]}'), says("I cannot")]
    async with scripted(tmp_path, Explore=[*wrong[:2], says('{"files": []}')]) as gen:
        repaired = await gen.task("Explore", "look", output_schema=SCHEMA)
    async with scripted(tmp_path, Explore=[*wrong, says('{"files": []}')]) as gen:
        given_up = await gen.task("Explore", "look", output_schema=SCHEMA)
    assert (repaired.status, repaired.turns, repaired.output) == (Status.COMPLETED, 3, {"files": []})
    assert (given_up.status, given_up.turns, given_up.output) == (Status.FAILED, 3, None)
    assert (given_up.error or "").startswith("its result does not fit the schema: ")
    assert "Answer again" not in (given_up.error or "")
    assert given_up.result == "I cannot"


async def test_the_model_may_ask_for_a_schema_on_the_call(tmp_path: Path) -> None:
    sent = call("Task", subagent_type="Explore", prompt="look", output_schema=SCHEMA)
    async with scripted(tmp_path, main=[says("", sent), says("ok")], Explore=[says('{"files": []}')]) as gen:
        await gen.ask("go").outcome()
        (child,) = await gen.tasks()
    assert child.output == {"files": []}


@pytest.mark.parametrize("schema", [{"type": "banana"}, {"properties": 3}, {"$ref": "https://example.com/x"}])
async def test_a_schema_that_is_none_is_refused_before_anything_runs(
    tmp_path: Path, schema: dict[str, object]
) -> None:
    async with scripted(tmp_path, Explore=[says("never")]) as gen:
        with pytest.raises(UserMistake, match="(?i)schema"):
            await gen.task("Explore", "look", output_schema=schema)
        assert await gen.tasks() == []


async def test_a_fork_in_a_process_of_its_own_begins_with_what_the_other_one_knew(tmp_path: Path) -> None:
    turns = [says("", call("LS", path=".")), says("left")]
    async with GenCode.open(tmp_path, model=played(tmp_path, Explore=turns)) as gen:
        first = await gen.task("Explore", "look")
        facts = await gen.history.events(first.agent_id)
        asked = next(each.seq for each in facts if getattr(getattr(each.fact, "message", None), "calls", ()))
        task, begins = await gen.detach_fork(first.agent_id, Fork(asked), TaskRequest("", "now right"))
        found = await gen.history.ended(task, 60)
        told = [each.text for each in heard(await said(gen, task))]
    assert (found.status, found.created.forked, found.result, begins) == (
        Status.COMPLETED,
        first.agent_id,
        "left",
        "",
    )
    assert (found.terms.background, found.cwd) == (True, str(tmp_path))
    note = LATER.format(task=first.agent_id, at=asked)
    assert told == [
        "look",
        note,
        "now right",
    ]


async def test_a_fork_elsewhere_counts_in_the_budget_of_its_conversation(tmp_path: Path) -> None:
    send = call("Task", subagent_type="Explore", prompt="look")
    used = {"inputTokens": 10, "outputTokens": 0}
    model = played(tmp_path, main=[says("", send), says("told")], Explore=[says("found", usage=used)])
    bounds = {"max_spawns": 2, "max_tokens_total": 100_000}
    async with GenCode.open(tmp_path, model=model, settings=bounds) as gen:
        talk = await gen.ask("go").outcome()
        [child] = await gen.tasks(parent=talk.agent_id)
        task, _ = await gen.detach_fork(child.agent_id, Fork(), TaskRequest("", "another way"))
        found = await gen.history.ended(task, 60)
        with pytest.raises(UserMistake, match="The budget of 2 agents of the session is spent"):
            await gen.detach_fork(child.agent_id, Fork(), TaskRequest("", "one too many"))
    assert (found.status, found.parent) == (Status.COMPLETED, talk.agent_id)


USED = {"inputTokens": 990, "outputTokens": 10}
AGAIN = TaskRequest("", "another way")


@asynccontextmanager
async def talking(gen: GenCode, gate: Gate) -> AsyncGenerator[tuple[str, str, asyncio.Future[Outcome]], None]:
    """A conversation that waits at a gate, the agent that it had sent before, and its turn."""
    turn = asyncio.ensure_future(gen.ask("go").outcome())
    await until(lambda: any(live.task.totals.turns == 2 for live in gen.running), "it waits at the gate")
    [talk] = [live.id for live in gen.running if live.task.conversation]
    [child] = await gen.tasks(parent=talk)
    yield talk, child.agent_id, turn
    if not turn.done():
        await until(gate.opened, "somebody waits at the gate")
        await turn


async def left(gen: GenCode, talk: str) -> dict[str, int]:
    balance = await components(gen).store.ledger.balance(talk)
    assert balance is not None
    return dict(balance.left)


async def test_a_fork_elsewhere_spends_from_the_budget_of_its_conversation_that_is_at_work(
    tmp_path: Path,
) -> None:
    gate, send = Gate(tmp_path), call("Task", subagent_type="Explore", prompt="look")
    main = [says("", send), says("", gate.call), says("told"), says("", gate.call), says("told")]
    model = played(tmp_path, main=main, Explore=[says("found", usage=USED), says("more", usage=USED)])
    bounds = {"max_spawns": 9, "max_tokens_total": 101_000}
    async with GenCode.open(tmp_path, model=model, settings=bounds) as gen:
        async with talking(gen, gate) as (talk, child, turn):
            nobody = TaskRequest("", "another way", model="nope/none")
            for _ in range(3):
                with pytest.raises(UserMistake, match="nope"):
                    await gen.detach_fork(child, Fork(), nobody)
            assert await left(gen, talk) == {"tokens": 100_000, "spawns": 8}

            task, _ = await gen.detach_fork(child, Fork(), AGAIN)
            found = await gen.history.ended(task, 60)
            assert (found.status, found.result) == (Status.COMPLETED, "more")
            assert await left(gen, talk) == {"tokens": 99_000, "spawns": 7}
            await until(gate.opened, "somebody waits at the gate")
            assert (await turn).status is Status.COMPLETED
        again = asyncio.ensure_future(gen.ask("on", session=talk).outcome())
        await until(lambda: gen.running.find(talk), "it is at its next turn")
        assert await left(gen, talk) == {"tokens": 99_000, "spawns": 7}
        await until(gate.opened, "somebody waits at the gate")
        await again


async def test_no_fork_is_born_elsewhere_when_its_conversation_at_work_has_no_agents_left(
    tmp_path: Path,
) -> None:
    gate, send = Gate(tmp_path), call("Task", subagent_type="Explore", prompt="look")
    main = [says("", send), says("", gate.call), says("told")]
    model = played(tmp_path, main=main, Explore=[says("found", usage=USED)])
    async with (
        GenCode.open(tmp_path, model=model, settings={"max_spawns": 1}) as gen,
        talking(gen, gate) as (_, child, _),
    ):
        with pytest.raises(UserMistake, match="The budget of 1 agent of the session is spent"):
            await gen.detach_fork(child, Fork(), AGAIN)


async def test_work_without_a_conversation_is_given_to_others_where_agents_are_bounded(
    tmp_path: Path,
) -> None:
    model = played(tmp_path, Explore=[says("found", usage=USED), says("more", usage=USED)])
    bounds = {"max_spawns": 3, "max_tokens_total": 100_000}
    async with GenCode.open(tmp_path, model=model, settings=bounds) as gen:
        detached = await gen.history.ended(
            await components(gen).tasks.service.detach(TaskRequest("Explore", "look")), 60
        )
        task, _ = await gen.detach_fork(detached.id, Fork(), AGAIN)
        forked = await gen.history.ended(task, 60)
    assert (detached.status, detached.result) == (Status.COMPLETED, "found")
    assert (forked.status, forked.result, forked.terms.budget.spawns) == (Status.COMPLETED, "more", 2)
