"""The five verbs at each of the three points where work can be cut, through the public door."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from gencode.app import GenCode
from gencode.core.events import TaskStarted
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.runtime.ports import EndPart, Part, Request, TextPart
from gencode.runtime.toolbox import ToolContext, tool
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted
from tests.control.words import heard, results, said

POINTS = ("before the model", "inside the stream", "inside a call")


class Held:
    """A model that reaches one of the three points and waits there; afterwards it answers."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.there = asyncio.Event()
        self.turns = 0

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        from gencode.core.messages import ToolCall
        from gencode.runtime.ports import CallPart

        self.turns += 1
        if self.turns == 1 and self.point == "inside the stream":
            yield TextPart("half a ")
            self.there.set()
            await asyncio.sleep(60)
        if self.turns == 1 and self.point == "inside a call":
            yield CallPart(ToolCall("c1", "hold", {}))
            yield EndPart("held")
            return
        if self.turns == 1 and self.point == "before the model":
            self.there.set()
            await asyncio.sleep(60)
        yield TextPart("this is what I have" if not request.tools else "went on")
        yield EndPart("held")


async def at(point: str, folder: Path, verb: str) -> tuple[Outcome, GenCode, Held]:
    """One agent that is held at a point when a verb hits it; how it ended."""
    model = Held(point)

    @tool(effect="read", timeout=None)
    async def hold(ctx: ToolContext) -> str:
        """Wait for a long time."""
        model.there.set()
        await asyncio.sleep(60)
        return "never"

    async with GenCode.open(folder, model=model, tools=[hold], store=MemoryStore()) as gen:
        handle = await gen.task("general-purpose", "go", background=True)
        await model.there.wait()
        match verb:
            case "interrupt":
                await gen.interrupt(handle.id)
            case "steer":
                await gen.send(handle.id, "hurry")
                await gen.interrupt(handle.id)
            case "keep":
                await gen.stop(handle.id, keep=True)
            case "abort":
                await gen.stop(handle.id)
            case _:
                await gen.stop(handle.id, tree=True)
        async with asyncio.timeout(60):
            outcome = await handle.result()
        messages = await said(gen, handle.id)
        assert [each.text for each in heard(messages)][:1] == ["go"]
        if verb == "steer":
            assert "hurry" in [each.text for each in heard(messages)]
        if point == "inside a call":
            assert len(results(messages)) == 1
    return outcome, gen, model


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    ("verb", "status", "result"),
    [
        ("interrupt", Status.COMPLETED, "went on"),
        ("steer", Status.COMPLETED, "went on"),
        ("keep", Status.CANCELLED, "this is what I have"),
        ("abort", Status.CANCELLED, ""),
        ("abort the tree", Status.CANCELLED, ""),
    ],
)
async def test_every_verb_does_what_it_says_at_every_point(
    tmp_path: Path, point: str, verb: str, status: Status, result: str
) -> None:
    outcome, _, _ = await at(point, tmp_path, verb)
    kept = "half a " if not result and point == "inside the stream" else result
    assert (outcome.status, outcome.result) == (status, kept)


async def test_a_verb_says_what_it_would_hit(tmp_path: Path) -> None:
    slow = says("late", delay_ms=600_000)
    sent = [
        call("Task", subagent_type="Explore", prompt="in front"),
        call("Task", subagent_type="Plan", prompt="behind", run_in_background=True),
    ]
    async with scripted(tmp_path, main=[says("", *sent), says("never")], Explore=[slow], Plan=[slow]) as gen:
        asking = gen.ask("go")
        begun = gen.listen()
        job = await asking.start()
        started = 0
        async for event in begun:
            started += isinstance(event.fact, TaskStarted) and event.task != job.id
            if started == 2:
                break
        begun.close()
        reach = gen.launcher.reach
        hits = {
            verb: sorted(task.agent for task in await reach.hits(job.id, verb))
            for verb in ("interrupt", "stop", "tree")
        }
        await gen.interrupt(job.id)
        turn = await asking.outcome()
        after = {task.agent: task.status for task in await gen.tasks()}
        await gen.stop(job.id, tree=True)
        in_the_end = {task.agent: task.status for task in await gen.tasks()}
    assert hits == {
        "interrupt": ["Explore", "main"],
        "stop": ["Explore", "main"],
        "tree": ["Explore", "Plan", "main"],
    }
    assert turn.status is Status.CANCELLED
    assert after == {"Explore": Status.CANCELLED, "Plan": Status.RUNNING}
    assert in_the_end == {"Explore": Status.CANCELLED, "Plan": Status.CANCELLED}
