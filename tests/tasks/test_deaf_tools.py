"""Tools of programs that do not heed a stop: nobody waits for them for ever, and what others gave is kept."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from gencode.agent import plugin_calls
from gencode.agent.toolbox import Tool, ToolContext, tool
from gencode.app import GenCode
from gencode.core.questions import Answer, Question
from gencode.core.status import Status, stop_cause
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.tasks.running_task import LocalTask
from gencode.testing import call, says
from tests.tasks.words import results, said
from tests.waiting import until

LOOK = call("LS", path=".")
NOTHING_THERE = "the working directory is empty."


@pytest.fixture
async def wake() -> asyncio.Event:
    """Lets the tools of a test end at last; by itself, where a test would hang for it."""
    wake = asyncio.Event()
    asyncio.get_running_loop().call_later(20, wake.set)
    return wake


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_calls, "HEED_SECONDS", 0.1)


def stubborn(wake: asyncio.Event, timeout: float | None = None) -> Tool:
    @tool(effect="read", name="Stubborn", timeout=timeout)
    async def STUBBORN(ctx: ToolContext) -> str:
        """Wait for ever, whoever wants it to stop."""
        while not wake.is_set():
            try:
                await wake.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    return STUBBORN


def opened(
    folder: Path,
    brought: Tool,
    seconds: float | None = None,
    calls: Sequence[dict[str, Any]] = (LOOK, call("Stubborn")),
) -> AbstractAsyncContextManager[GenCode]:
    model = ScriptedProvider.of({"main": [says("I look.", *calls), says("I go on.")]})
    limit = {} if seconds is None else {"max_seconds": seconds}
    return GenCode.open(folder, model=model, settings=limit, store=MemoryStore(), tools=[brought])


async def test_one_that_takes_too_long_is_left_alone_and_its_agent_goes_on(
    tmp_path: Path, wake: asyncio.Event
) -> None:
    async with asyncio.timeout(30), opened(tmp_path, stubborn(wake, 0.2)) as gen:
        outcome = await gen.ask("go").outcome()
        given = results(await said(gen, outcome.agent_id))
        wake.set()
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "I go on.")
    assert given == [
        NOTHING_THERE,
        "Stubborn did not finish in time and was stopped. It ignores that and may still be running.",
    ]


async def test_an_agent_whose_time_is_up_does_not_wait_for_one(tmp_path: Path, wake: asyncio.Event) -> None:
    async with asyncio.timeout(30), opened(tmp_path, stubborn(wake), seconds=1.0) as gen:
        outcome = await gen.ask("go").outcome()
        given = results(await said(gen, outcome.agent_id))
        wake.set()
    assert (outcome.status, outcome.result) == (Status.TIMED_OUT, "I look.")
    assert (given[0], given[1].startswith("Interrupted: it took longer than 1 s")) == (NOTHING_THERE, True)


async def test_one_that_answers_a_stop_with_a_result_does_not_lift_the_limit_of_its_agent(
    tmp_path: Path, wake: asyncio.Event
) -> None:
    @tool(effect="read", name="Hasty", timeout=None)
    async def hasty(ctx: ToolContext) -> str:
        """Take a stop for a wish to hurry."""
        try:
            await wake.wait()
        except asyncio.CancelledError:
            return "in a hurry"
        return "at last"

    async with asyncio.timeout(30), opened(tmp_path, hasty, seconds=1.0, calls=[call("Hasty")]) as gen:
        outcome = await gen.ask("go").outcome()
    assert (outcome.status, outcome.result) == (Status.TIMED_OUT, "I look.")


@pytest.mark.parametrize("heeds", [True, False])
async def test_one_that_cannot_show_in_time_what_it_would_change_is_asked_about_without_that(
    tmp_path: Path, wake: asyncio.Event, *, heeds: bool
) -> None:
    async def forever(ctx: ToolContext) -> str:
        while not wake.is_set():
            try:
                await wake.wait()
            except asyncio.CancelledError:
                if heeds:
                    raise
        return "at last"

    @tool(effect="write", name="Change", timeout=0.2, preview=forever)
    async def change(ctx: ToolContext) -> str:
        """Change something."""
        return "changed"

    class Yes:
        def __init__(self) -> None:
            self.asked = list[str]()

        async def ask(self, question: Question) -> Answer:
            self.asked.append(question.preview)
            return Answer(True)

    model, asker = ScriptedProvider.of({"main": [says("", call("Change")), says("I go on.")]}), Yes()
    async with (
        asyncio.timeout(30),
        GenCode.open(tmp_path, model=model, store=MemoryStore(), tools=[change], asker=asker) as gen,
    ):
        outcome = await gen.ask("go").outcome()
        given = results(await said(gen, outcome.agent_id))
        wake.set()
    assert (given, asker.asked) == (
        ["changed"],
        ["(it could not be shown beforehand: it took longer than 0.2 s)"],
    )


async def test_whoever_stops_an_agent_and_leaves_does_not_wait_for_one(
    tmp_path: Path, wake: asyncio.Event
) -> None:
    async with asyncio.timeout(30):
        async with opened(tmp_path, stubborn(wake)) as gen:
            turn = await gen.start_turn("go")
            [job] = [live for live in gen.running if isinstance(live, LocalTask)]
            await until(lambda: len(job.record.answers) == 1, "the other call has come to its end")
            await turn.halt(stop_cause("enough"))
        wake.set()
    assert turn.task.status is Status.CANCELLED
