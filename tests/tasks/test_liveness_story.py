"""Every wait has an end: a silent agent is noted as stalled, then its time is up."""

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path

from msgspec import UNSET

from gencode.agent.ports import Request
from gencode.agent.toolbox import ToolContext, tool
from gencode.app import GenCode
from gencode.core.events import TaskStalled
from gencode.core.messages import CallPart, EndPart, Part, TextPart, ToolCall, ToolMessage
from gencode.core.status import Status
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import gen as run
from tests.interfaces.cli.running import script
from tests.tasks.words import said
from tests.virtual_clock import virtual_time
from tests.waiting import until

QUICK = {"stall_seconds": 0.2, "silence_seconds": 0.6}
SILENT = r"it gave no sign of life for \d+ s; the limit is silence_seconds"


class Mute:
    """A model that leads well as main, and never says a word as anybody else but Plan."""

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        if request.agent == "main" and len(request.messages) == 1:
            for number, agent in enumerate(("Explore", "Plan")):
                arguments = {"subagent_type": agent, "prompt": "go"}
                yield CallPart(ToolCall(f"c{number}", "Task", arguments))
        elif request.agent == "Explore":
            await asyncio.sleep(600)
        else:
            yield TextPart(f"{request.agent} is done")
        yield EndPart("mute")


async def test_a_silent_agent_is_timed_out_and_its_siblings_are_delivered(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(60),
        GenCode.open(tmp_path, model=Mute(), settings=QUICK, store=MemoryStore()) as gen,
    ):
        outcome = await gen.ask("go").outcome()
        tasks = {task.agent: task for task in await gen.tasks()}
        facts = await gen.history.events(tasks["Explore"].agent_id)
        (answers,) = [each for each in await said(gen, outcome.agent_id) if isinstance(each, ToolMessage)]
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "main is done")
    assert tasks["Plan"].result == "Plan is done"
    assert tasks["Explore"].status is Status.TIMED_OUT
    assert re.fullmatch(SILENT, tasks["Explore"].error or "")
    assert len([event for event in facts if isinstance(event.fact, TaskStalled)]) == 1
    assert [result.error for result in answers.results] == [True, False]


async def test_a_tool_without_a_limit_of_its_own_does_not_hang_an_agent(tmp_path: Path) -> None:
    @tool(effect="read", timeout=None)
    async def forever(ctx: ToolContext) -> str:
        """Wait for ever."""
        await asyncio.sleep(600)
        return ""

    class Calls:
        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            yield CallPart(ToolCall("c1", "forever", {}))
            yield EndPart("calls")

    async with (
        asyncio.timeout(60),
        GenCode.open(tmp_path, model=Calls(), settings=QUICK, store=MemoryStore(), tools=[forever]) as gen,
    ):
        outcome = await gen.task("general-purpose", "go")
    assert outcome.status is Status.TIMED_OUT


@virtual_time
async def test_waiting_for_a_child_or_a_slot_is_no_silence(tmp_path: Path) -> None:
    sent = [call("Task", subagent_type="Explore", prompt=f"part {number}") for number in range(3)]
    explore = [says("", call("LS", path="."), delay_ms=100)] * 4
    settings = {"stall_seconds": 0.3, "silence_seconds": 0.5, "max_agents": 1}
    async with scripted(
        tmp_path, settings=settings, main=[says("", *sent), says("told")], Explore=[*explore, says("found")]
    ) as gen:
        outcome = await gen.ask("go").outcome()
        tasks = await gen.tasks()
        stalled = [
            event
            for task in (*tasks, outcome)
            for event in await gen.history.events(task.agent_id)
            if isinstance(event.fact, TaskStalled)
        ]
    assert ([task.status for task in tasks], outcome.status) == ([Status.COMPLETED] * 3, Status.COMPLETED)
    assert stalled == []


@virtual_time
async def test_an_agent_that_works_longer_than_any_may_is_timed_out(tmp_path: Path) -> None:
    async with scripted(
        tmp_path, settings={"task_seconds": 0.3}, Explore=[says("late", delay_ms=9_000)]
    ) as gen:
        outcome = await gen.task("Explore", "go")
    why = "it took longer than 0.3 s; the limit is task_seconds"
    assert (outcome.status, outcome.error) == (Status.TIMED_OUT, why)


async def test_a_stalled_task_is_shown_as_such_in_every_list(tmp_path: Path) -> None:
    settings = {"stall_seconds": 0.2, "silence_seconds": 600}
    async with GenCode.open(tmp_path, model=Mute(), settings=settings) as gen:
        handle = await gen.task("Explore", "go", background=True)

        async def stalled() -> bool:
            return (await gen.find(handle.id)).run.stalled > 0

        await until(stalled, "it is noted as stalled")
        told = await asyncio.to_thread(run, "task", "list", "--json", cwd=tmp_path)
        shown = await asyncio.to_thread(run, "task", "list", cwd=tmp_path)
        await handle.stop()
        ended = await gen.get(handle.id)
    [task] = told.json["tasks"]
    assert (task["status"], task["stalledSeconds"] > 0) == ("running", True)
    assert re.search(rf"{handle.id} +Explore +running \(stalled, no activity for \d+ s\) ", shown.out)
    assert (ended.status, ended.stalled_seconds) == (Status.CANCELLED, UNSET)


def test_who_waits_without_a_screen_is_told_that_an_agent_is_silent(tmp_path: Path) -> None:
    send = call("Task", subagent_type="Explore", prompt="go")
    model = script(tmp_path, main=[says("", send), says("told")], Explore=[says("late", delay_ms=2_000)])
    ended = run("-p", "go", "--model", model, cwd=tmp_path, GEN_STALL_SECONDS="0.5")
    assert (ended.out, "[Explore] no activity for " in ended.err) == ("told\n", True)
