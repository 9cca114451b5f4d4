"""The five verbs at each of the three points where work can be cut, through the public door."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gencode.agent.toolbox import ToolContext, tool
from gencode.app import GenCode, components
from gencode.core.errors import ProviderError, UserMistake
from gencode.core.events import TaskStarted
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.tasks.handle import ActionResult, Handle, TaskAction
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import script
from tests.tasks.agent_file import write_agent
from tests.tasks.held_agent import POINTS, Held
from tests.tasks.words import heard, results, said

SLOW = says("late", delay_ms=600_000)


async def at(point: str, folder: Path, verb: str) -> tuple[Outcome, GenCode, Held]:
    """One agent that is held at a point when a verb hits it; how it ended."""
    model = Held(point)

    @tool(effect="read", timeout=None)
    async def hold(ctx: ToolContext) -> str:
        """Wait for a long time."""
        model.there.set()
        await model.free.wait()
        return "held"

    async with GenCode.open(folder, model=model, tools=[hold], store=MemoryStore()) as gen:
        handle = await gen.task("general-purpose", "go", background=True)
        await model.there.wait()
        match verb:
            case "interrupt":
                await gen.interrupt(handle.id)
            case "steer":
                await gen.send(handle.id, "hurry")
                model.free.set()
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
        if verb == "steer":  # which cuts nothing, and is heard before the next reply
            assert [each.text for each in heard(messages)] == ["go", "hurry"]
            assert messages[-2:-1] == heard(messages)[1:]
        if point == "inside a call":
            given = results(messages)
            assert [each.startswith("Interrupted: ") for each in given] == [verb != "steer"]
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
    if (verb, point) == ("steer", "inside the stream"):  # a reply that is not cut counts beside the next one
        kept = "half a went on\n\nwent on"
    assert (outcome.status, outcome.result) == (status, kept)


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        (ProviderError("the model is gone."), "the model is gone"),
        (ValueError("boom"), "the provider Held failed: ValueError: boom"),
    ],
    ids=["the provider fails", "a program's own model fails"],
)
async def test_who_cannot_report_any_more_was_stopped_all_the_same(
    tmp_path: Path, trouble: Exception, why: str
) -> None:
    model = Held("inside the stream")
    model.trouble = trouble
    async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
        handle = await gen.task("general-purpose", "go", background=True)
        await model.there.wait()
        await gen.stop(handle.id, keep=True)
        outcome = await handle.result()
    assert (outcome.status, outcome.result, outcome.error) == (
        Status.CANCELLED,
        "half a ",
        "a program stopped it",
    )
    assert outcome.evidence.warnings == (f"it was stopped and could not report what it had: {why}",)


@asynccontextmanager
async def with_two_below(
    home: Path, after: dict[str, Any]
) -> AsyncGenerator[tuple[GenCode, Handle, list[str]]]:
    """A boss that waits for one agent and has another one in the background; the ids of the three."""
    write_agent(home / ".gen" / "agents", "boss", "Task(Explore, Plan)")
    sent = [
        call("Task", subagent_type="Explore", prompt="in front"),
        call("Task", subagent_type="Plan", prompt="behind", run_in_background=True),
    ]
    model = ScriptedProvider.of({"boss": [says("", *sent), after], "Explore": [SLOW], "Plan": [SLOW]})
    opened = GenCode.open(home, model=model, settings={"max_depth": 2}, store=MemoryStore())
    async with asyncio.timeout(60), opened as gen:
        begun: set[str] = set()
        with gen.listen() as events:
            handle = await gen.task("boss", "go", background=True)
            while len(begun) < 3:
                event = await anext(events)
                begun |= {event.task} if isinstance(event.fact, TaskStarted) else set()
        below = {task.agent: task.agent_id for task in await gen.tasks(handle.id)}
        yield gen, handle, [handle.id, below["Explore"], below["Plan"]]


STRIKES: dict[TaskAction, Callable[[GenCode, Handle], Awaitable[ActionResult]]] = {
    "interrupt": lambda gen, handle: gen.interrupt(handle.id),
    "keep": lambda gen, handle: gen.stop(handle.id, keep=True),
    "stop": lambda gen, handle: gen.stop(handle.id),
    "tree": lambda gen, handle: gen.stop(handle.id, tree=True),
}
BY_HANDLE: dict[TaskAction, Callable[[GenCode, Handle], Awaitable[ActionResult]]] = {
    "interrupt": lambda gen, handle: handle.interrupt(),
    "keep": lambda gen, handle: handle.stop(keep=True),
    "stop": lambda gen, handle: handle.stop(),
    "tree": lambda gen, handle: handle.stop(tree=True),
}


@pytest.mark.parametrize("ways", [STRIKES, BY_HANDLE], ids=["by id", "by handle"])
@pytest.mark.parametrize("verb", STRIKES)
async def test_a_verb_says_before_what_it_will_hit_and_after_what_it_has_hit(
    home: Path, verb: TaskAction, ways: Mapping[TaskAction, Any]
) -> None:
    after = says("what I have") if verb == "keep" else SLOW
    async with with_two_below(home, after) as (gen, handle, family):
        before = await gen.affected(handle.id[:6], verb)
        result = await ways[verb](gen, handle)
        now = [await gen.get(each) for each in family]
        ended = await gen.stop(handle.id, tree=True)
        nothing = [await gen.affected(handle.id, verb), (await handle.stop()).affected]
    reached = family if verb == "tree" else family[:2]
    assert [each.agent_id for each in before] == reached
    assert [each.status for each in before] == [Status.RUNNING] * len(reached)
    assert [each.agent_id for each in result.affected] == reached
    goes_on = verb == "interrupt"
    itself = Status.RUNNING if goes_on else Status.CANCELLED
    assert [each.status for each in result.affected] == [itself, *[Status.CANCELLED] * (len(reached) - 1)]
    assert list(result.affected[1:]) == now[1 : len(reached)]
    assert (result.agent_id, result.status, result.success) == (handle.id, itself, False)
    assert result.result == ("what I have" if verb == "keep" else "")
    left = [*family[:1], *family[2:]] if goes_on else family[len(reached) :]
    assert [each.agent_id for each in ended.affected] == left
    assert nothing == [[], ()]


async def test_who_interrupts_a_conversation_is_told_what_became_of_the_message(tmp_path: Path) -> None:
    model = Held("inside the stream")
    async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
        turn = await gen.start_turn("go")
        await model.there.wait()
        cut = await gen.interrupt(turn.id, "and then?")
        late = await gen.interrupt(turn.id, "and there?")
        silent = await gen.interrupt(turn.id)
        kept = [each.text for each in await gen.history.unread(turn.id)]
    assert (cut.message, late.message, silent.message) == ("kept", "not_sent", "")
    assert kept == ["and then?"]


async def test_who_steers_is_told_whom_and_whether_that_wakes_it(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("first"), says("second")]) as gen:
        ended = await gen.task("Explore", "look")
        before = await gen.affected(ended.agent_id, "steer")
        sent = await gen.send(ended.agent_id, "and there?")
    assert before == [ended]
    assert (sent.outcome.agent_id, sent.resumed) == (ended.agent_id, True)


async def test_a_verb_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("done")]) as gen:
        ended = await gen.task("Explore", "look")
        wrong: Any = "abort"
        with pytest.raises(UserMistake) as refused:
            await gen.affected(ended.agent_id, wrong)
    words = "There is no action 'abort'; the actions are: interrupt, keep, stop, tree, steer."
    assert str(refused.value) == words


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_what_ends_with_the_process_of_an_agent_is_named_before_that_is_stopped(
    tmp_path: Path, home: Path, *, elsewhere: bool
) -> None:
    write_agent(home / ".gen" / "agents", "Lead", "LS, Task(Explore)")
    lead = [says("", call("Task", subagent_type="Explore", prompt="behind", run_in_background=True)), SLOW]
    model, settings = script(tmp_path, Lead=lead, Explore=[SLOW]), {"max_depth": 2}
    async with (
        GenCode.open(tmp_path, model=model, settings=settings) as gen,
        GenCode.open(tmp_path, model="offline") as other,
    ):
        handle = await gen.task("Lead", "go", background=True, isolation="process")
        by = other if elsewhere else gen
        verbs: tuple[TaskAction, ...] = ("interrupt", "keep", "stop", "tree")
        await components(gen).tasks.watcher.until(handle.id, lambda now: bool(now.evidence.children), 60)
        hits = [[each.agent for each in await by.affected(handle.id, verb)] for verb in verbs]
        result = await by.stop(handle.id)
    assert hits == [["Lead"], ["Lead", "Explore"], ["Lead", "Explore"], ["Lead", "Explore"]]
    ended = [(each.agent, each.status) for each in result.affected]
    assert ended == [("Lead", Status.CANCELLED), ("Explore", Status.CANCELLED)]


async def test_an_interrupted_conversation_leaves_what_is_in_the_background(tmp_path: Path) -> None:
    sent = [
        call("Task", subagent_type="Explore", prompt="in front"),
        call("Task", subagent_type="Plan", prompt="behind", run_in_background=True),
    ]
    async with scripted(tmp_path, main=[says("", *sent), says("never")], Explore=[SLOW], Plan=[SLOW]) as gen:
        asking = gen.ask("go")
        begun = gen.listen()
        job = await asking.start()
        started = 0
        async for event in begun:
            started += isinstance(event.fact, TaskStarted) and event.task != job.id
            if started == 2:
                break
        begun.close()
        cut = [each.agent for each in (await gen.interrupt(job.id)).affected]
        turn = await asking.outcome()
        after = {task.agent: task.status for task in await gen.tasks()}
        stopped = [each.agent for each in (await gen.stop(job.id, tree=True)).affected]
        in_the_end = {task.agent: task.status for task in await gen.tasks()}
    assert (cut, stopped) == (["main", "Explore"], ["Plan"])
    assert turn.status is Status.CANCELLED
    assert after == {"Explore": Status.CANCELLED, "Plan": Status.RUNNING}
    assert in_the_end == {"Explore": Status.CANCELLED, "Plan": Status.CANCELLED}
