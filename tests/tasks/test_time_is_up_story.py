"""When the time of an agent is up, what had come by then is not lost: only what really was cut is told so."""

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gencode.agent.ports import Request
from gencode.agent.toolbox import ToolContext, tool
from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.messages import (
    AssistantMessage,
    CallPart,
    EndPart,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    Trace,
)
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.tasks import deadline
from gencode.tasks.running_task import LocalTask
from gencode.testing import call, reported, says, scripted
from tests.tasks.agent_file import write_agent
from tests.tasks.isolated_agent import played
from tests.tasks.words import heard, numbered, results, said
from tests.virtual_clock import virtual_time
from tests.waiting import until

SECONDS = 3.0
LONG = 600.0
"""A time that no machine is too slow for."""
GOOD, BAD = (call("Task", subagent_type=name, prompt="look") for name in ("Explore", "Plan"))
NEVER = says("never", delay_ms=600_000)
DEEP: dict[str, Any] = {"max_depth": 2}
CUT = "Interrupted: {why}. It is not known how much of this call was done; it was not repeated."
RUN = "it took longer than 3 s; the limit is max_seconds"
ANY = "it took longer than 3 s; the limit is task_seconds"
SPENT = "The budget of 3 seconds of agent lead is spent. To raise it: gen task budget {task} seconds N."
NOT_BEGUN = "it did not begin in time; its parent has no time left"
NO_MORE = r"it took longer than ([\d.]+) s; its parent has no time left"


def leave(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Of a `LONG` time, end those that are waited for after so many seconds: all the rest is left then."""
    monkeypatch.setattr(deadline, "SHARE_LEFT", 1 - seconds / LONG)
    monkeypatch.setattr(deadline, "MOST_LEFT_SECONDS", LONG)


@tool(effect="read", name="Forever", timeout=None)
async def FOREVER(ctx: ToolContext) -> str:
    """Wait for ever."""
    await asyncio.sleep(600)
    return ""


async def cut_beside_others(folder: Path, limit: str) -> tuple[Outcome, Outcome, list[str], list[str]]:
    """An agent whose time ends while one of its calls never does, and the same after it went on."""
    model = ScriptedProvider.of(
        {
            "lead": [says("I look.", call("LS", path="."), GOOD, call("Forever")), says("both")],
            "Explore": [says("found it")],
        }
    )
    settings = {**DEEP, "task_seconds": SECONDS} if limit == "any may take" else DEEP
    budget = Budget() if limit == "any may take" else Budget(seconds=SECONDS)
    async with GenCode.open(
        folder, model=model, settings=settings, store=MemoryStore(), tools=[FOREVER]
    ) as gen:
        first = await gen.task("lead", "go", budget=budget)
        before = results(await said(gen, first.agent_id))
        await gen.set_budget(first.agent_id, Budget(seconds=600))
        again = await gen.resume(first.agent_id, "Go on.")
        return first, again, before, results(await said(gen, first.agent_id))


@pytest.mark.parametrize("limit", ["any may take", "of its budget"])
@virtual_time
async def test_what_its_other_calls_gave_is_kept(tmp_path: Path, home: Path, limit: str) -> None:
    write_agent(home / ".gen" / "agents", "lead", "LS, Forever, Task(Explore)")
    (tmp_path / "notes.txt").write_text("hello")
    first, again, before, after = await cut_beside_others(tmp_path, limit)
    why = ANY if limit == "any may take" else SPENT.format(task=first.agent_id)
    assert (first.status, first.error, first.result) == (Status.TIMED_OUT, why, "I look.")
    cut = CUT.format(why=why.rstrip("."))
    assert ("notes.txt" in before[0], before[1:]) == (True, ["found it", cut])
    assert (again.status, again.result, after) == (Status.COMPLETED, "both", before)


@virtual_time
async def test_the_agents_of_calls_that_were_answered_are_named_with_them(tmp_path: Path) -> None:
    main = [says("", GOOD, BAD), says("both")]
    limit = {"max_seconds": SECONDS}
    async with scripted(
        tmp_path, settings=limit, store=numbered(), main=main, Explore=[says("found it")], Plan=[NEVER]
    ) as gen:
        outcome = await gen.ask("go").outcome()
        [_, _, answers] = await said(gen, outcome.agent_id)
        assert isinstance(answers, ToolMessage)
        kids = {task.agent: (task.status, task.error) for task in await gen.tasks()}
        found, at = ("00000002",), (await gen.find("00000002")).end.at or ""
    named = "\nTask 00000003 (Plan) was stopped as well."
    assert [replace(each, text=reported(each.text).partition(named)[0]) for each in answers.results] == [
        ToolResult("call_0_0", "Task", "found it", trace=Trace(children=found, delivered=found, ends=(at,))),
        ToolResult("call_0_1", "Task", CUT.format(why=RUN), error=True),
    ]
    assert named in answers.results[1].text
    assert (outcome.status, kids) == (
        Status.TIMED_OUT,
        {
            "Explore": (Status.COMPLETED, None),
            "Plan": (Status.CANCELLED, "its parent was stopped"),
        },
    )


@virtual_time
async def test_so_it_is_when_a_call_does_not_even_heed_a_stop(tmp_path: Path) -> None:
    @tool(effect="read", name="Stubborn", timeout=None)
    async def stubborn(ctx: ToolContext) -> str:
        """Wait for ever, and do not hear that it is over."""
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await asyncio.sleep(600)
        return ""

    calls = (call("LS", path="."), call("Stubborn"))
    model = ScriptedProvider.of({"general-purpose": [says("", *calls)]})
    (tmp_path / "notes.txt").write_text("hello")
    async with GenCode.open(tmp_path, model=model, store=MemoryStore(), tools=[stubborn]) as gen:
        handle = await gen.task("general-purpose", "go", background=True)
        [job] = [live for live in gen.running if isinstance(live, LocalTask)]
        await until(lambda: len(job.record.answers) == 1, "one call has come to its end")
        outcome = await handle.stop()
        [listed, cut] = results(await said(gen, handle.id))
    assert (outcome.status, "notes.txt" in listed, cut.startswith("Interrupted: ")) == (
        *(Status.CANCELLED, True),
        True,
    )


async def test_so_it_is_when_only_a_hook_behind_a_call_never_ends(tmp_path: Path, home: Path) -> None:
    agents = home / ".gen" / "agents"
    agents.mkdir(parents=True)
    hook = "hooks: {PostToolUse: [{hooks: [{type: command, command: sleep 60, timeout: 60}]}]}"
    (agents / "lead.md").write_text(f"---\nname: lead\ndescription: d\ntools: LS\n{hook}\n---\nDo it.\n")
    (tmp_path / "notes.txt").write_text("hello")
    async with scripted(tmp_path, lead=[says("", call("LS", path="."))]) as gen:
        outcome = await gen.task("lead", "go", budget=Budget(seconds=2))
        [listed] = results(await said(gen, outcome.agent_id))
    assert (outcome.status, "notes.txt" in listed) == (Status.TIMED_OUT, True)


class Dragging:
    """A model that calls a tool, and then never comes to the end of what it says."""

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        if len(request.messages) == 1:
            yield CallPart(ToolCall("c1", "LS", {"path": "."}))
        else:
            yield TextPart("It begins with")
            await asyncio.sleep(600)
        yield EndPart("dragging")


@virtual_time
async def test_half_a_reply_is_kept(tmp_path: Path) -> None:
    limit = {"max_seconds": SECONDS}
    async with GenCode.open(tmp_path, model=Dragging(), settings=limit, store=MemoryStore()) as gen:
        outcome = await gen.ask("go").outcome()
        *_, answers, last = await said(gen, outcome.agent_id)
    assert isinstance(last, AssistantMessage)
    assert (results([answers]), last) == (
        ["the working directory is empty."],
        AssistantMessage("It begins with", model=last.model, partial=True),
    )
    assert (outcome.status, outcome.result) == (Status.TIMED_OUT, "It begins with")


def late_by(outcome: Outcome) -> float:
    """After how many seconds an agent was ended because the one that waits for it has no more."""
    found = re.fullmatch(NO_MORE, outcome.error or "")
    return float(found[1]) if found else 0.0


@pytest.mark.parametrize("limit", ["of who waits", "of the conversation", "any may take"])
@virtual_time
async def test_an_agent_ends_a_while_before_the_one_that_waits_for_it(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    leave(monkeypatch, SECONDS)
    write_agent(home / ".gen" / "agents", "lead", "LS, Task(Explore, Plan)")
    budget = {"budget": {"seconds": LONG}} if limit == "of who waits" else {}
    sends = call("Task", subagent_type="lead", prompt="go", **budget)
    name = {"of the conversation": "max_seconds", "any may take": "task_seconds"}.get(limit)
    async with scripted(
        tmp_path,
        settings={**DEEP, name: LONG} if name else DEEP,
        main=[says("", sends), says("told")],
        lead=[says("", GOOD, BAD), says("one of two")],
        Explore=[says("found it")],
        Plan=[says("I begin.", call("LS", path=".")), NEVER],
    ) as gen:
        outcome = await gen.ask("go").outcome()
        tasks = {task.agent: task for task in await gen.tasks()}
        given = results(await said(gen, tasks["lead"].agent_id))
    late = tasks["Plan"]
    assert (late.status, 0 < late_by(late) <= SECONDS) == (Status.TIMED_OUT, True)
    told = f"The agent Plan (task {late.agent_id}) timed out: {late.error}."
    assert given == ["found it", f"{told}\n\nIts last message:\nI begin."]
    assert (tasks["lead"].result, outcome.result, outcome.status) == ("one of two", "told", Status.COMPLETED)


async def test_so_does_one_in_a_process_of_its_own(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(monkeypatch, SECONDS)
    write_agent(home / ".gen" / "agents", "lead", "LS, Task(Explore, Plan)")
    apart = call("Task", subagent_type="Plan", prompt="look", isolation="process")
    lead = [says("", GOOD, apart), says("one of two")]
    model = played(tmp_path, lead=lead, Explore=[says("found it")], Plan=[NEVER])
    async with asyncio.timeout(60), GenCode.open(tmp_path, model=model, settings=DEEP) as gen:
        led = await gen.task("lead", "go", budget=Budget(seconds=LONG))
        tasks = {task.agent: task for task in await gen.tasks()}
    assert tasks["Plan"].status is Status.TIMED_OUT
    assert (led.status, led.result) == (Status.COMPLETED, "one of two")


async def test_one_that_waits_in_line_for_its_process_still_ends_before_the_one_that_waits_for_it(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(monkeypatch, 2 * SECONDS)
    write_agent(home / ".gen" / "agents", "lead", "LS, Task(Explore, Plan)")
    apart = call("Task", subagent_type="Plan", prompt="look", isolation="process")
    lead = [says("", GOOD, apart, apart), says("one of three")]
    model = played(tmp_path, lead=lead, Explore=[says("found it", delay_ms=2_000)], Plan=[NEVER])
    one_by_one = {**DEEP, "max_agents": 1}
    async with asyncio.timeout(60), GenCode.open(tmp_path, model=model, settings=one_by_one) as gen:
        led = await gen.task("lead", "go", budget=Budget(seconds=LONG))
        plans = [each for each in await gen.tasks(led.agent_id) if each.agent == "Plan"]
    # Which of the two waits, and whether its turn still comes when the other's time is up, is not said.
    assert [each.status for each in plans] == [Status.TIMED_OUT] * 2
    assert (led.status, led.result) == (Status.COMPLETED, "one of three")


@virtual_time
async def test_so_does_one_that_was_in_the_background_and_is_waited_for_now(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(monkeypatch, SECONDS)
    write_agent(home / ".gen" / "agents", "lead", "LS, Task(Plan)")
    behind = call("Task", subagent_type="Plan", prompt="look", run_in_background=True)
    again = call("Task", subagent_type="Plan", prompt="more", resume="00000002")
    lead = [says("", behind), says("I wait."), says("", again), says("summed up")]
    async with scripted(
        tmp_path, settings=DEEP, store=numbered(), lead=lead, Plan=[says("a first look"), NEVER]
    ) as gen:
        led = await gen.task("lead", "go", budget=Budget(seconds=LONG))
        [plan] = await gen.tasks(led.agent_id)
    assert (plan.status, 0 < late_by(plan) <= SECONDS) == (Status.TIMED_OUT, True)
    assert (led.status, led.result) == (Status.COMPLETED, "summed up")


@virtual_time
async def test_those_that_still_wait_in_line_then_do_not_take_the_rest_of_its_time(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(monkeypatch, SECONDS)
    write_agent(home / ".gen" / "agents", "lead", "LS, Task(Explore, Plan)")
    async with scripted(
        tmp_path,
        settings={**DEEP, "max_agents": 1},
        lead=[says("", GOOD, BAD, BAD, BAD), says("one of four", delay_ms=100)],
        Explore=[says("found it")],
        Plan=[NEVER],
    ) as gen:
        led = await gen.task("lead", "go", budget=Budget(seconds=LONG))
        given = results(await said(gen, led.agent_id))
        ends = [
            (task.status, (task.error or "").partition("; ")[2]) for task in await gen.tasks(led.agent_id)
        ]
    assert (led.status, led.result, given[0]) == (Status.COMPLETED, "one of four", "found it")
    assert ends[1:] == [(Status.TIMED_OUT, NOT_BEGUN.partition("; ")[2])] * 3


@virtual_time
async def test_the_time_in_line_is_not_taken_from_who_it_sends_to_the_background(
    tmp_path: Path, home: Path
) -> None:
    write_agent(home / ".gen" / "agents", "lead", "LS, Task(Explore)")
    behind = call("Task", subagent_type="Explore", prompt="look", run_in_background=True)
    async with scripted(
        tmp_path,
        settings={**DEEP, "max_agents": 1},
        lead=[says("", behind), says("sent"), says("told")],
        Explore=[says("found it")],
        Plan=[says("planned", delay_ms=4_500)],
    ) as gen:
        first = await gen.task("Plan", "go", background=True)
        second = await gen.task("lead", "go", background=True, budget=Budget(seconds=4))
        await first.result()
        led = await second.result()
        [sent] = await gen.tasks(second.id)
    assert (led.status, led.result, sent.status) == (Status.COMPLETED, "told", Status.COMPLETED)


def ends_of(gen: GenCode) -> list[float]:
    """When the time of each agent at work is up."""
    return [live.deadline.at for live in gen.running if live.deadline.at]


@virtual_time
async def test_that_while_is_short_however_long_it_may_take(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "MOST_LEFT_SECONDS", 0.5)
    write_agent(home / ".gen" / "agents", "lead", "Task(Plan)")
    async with scripted(
        tmp_path,
        settings={**DEEP, "task_seconds": 100},
        lead=[says("", BAD), says("told")],
        Plan=[NEVER],
    ) as gen:
        handle = await gen.task("lead", "go", background=True)
        await until(lambda: len(ends_of(gen)) == 2, "both are at work")
        first, second = ends_of(gen)
        await handle.stop()
    assert first - second == pytest.approx(0.5, abs=0.05)


@virtual_time
async def test_who_is_waited_for_by_nobody_has_all_its_time(tmp_path: Path) -> None:
    behind = call("Task", subagent_type="Plan", prompt="look", run_in_background=True)
    async with scripted(
        tmp_path, settings={"max_seconds": SECONDS}, main=[says("", behind), says("sent")], Plan=[NEVER]
    ) as gen:
        turn = await gen.start_turn("go")
        outcome = await gen.outcome(turn)
        await until(lambda: not [*gen.running], "the agent has ended")
        [agent] = await gen.tasks(turn.id)
        told = heard(await said(gen, turn.id))
    assert (outcome.status, outcome.result, len(told)) == (Status.TIMED_OUT, "sent", 1)
    assert agent.status is Status.TIMED_OUT


@virtual_time
async def test_who_was_sent_to_the_background_without_a_conversation_ends_with_the_run_as_well(
    tmp_path: Path, home: Path
) -> None:
    write_agent(home / ".gen" / "agents", "lead", "LS, Task(Plan)")
    behind = call("Task", subagent_type="Plan", prompt="look", run_in_background=True)
    async with (
        asyncio.timeout(30),
        scripted(
            tmp_path,
            settings={**DEEP, "max_seconds": SECONDS},
            lead=[says("", behind), says("sent")],
            Plan=[NEVER],
        ) as gen,
    ):
        led = await gen.task("lead", "go")
        await until(lambda: not [*gen.running], "the agent has ended")
        [plan] = await gen.tasks(led.agent_id)
    assert (led.status, led.error, led.result) == (Status.TIMED_OUT, RUN, "sent")
    why = "it took longer than 3 s; the tasks above it have no time left"
    assert (plan.status, plan.error) == (Status.TIMED_OUT, why)
