"""The loop, through a seat with a scripted model, a real gate and a real journal."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.agent.loop import EMPTY_REPLY, REPEATED, TURNS_LEFT
from gencode.agent.toolbox import ToolContext, ToolOutput, tool
from gencode.core.events import CallDecided, MessageAdded, TaskCreated, TaskEnded, TaskStarted
from gencode.core.messages import AssistantMessage, Message, ToolMessage, ToolResult, UserMessage
from gencode.core.outcome import Outcome
from gencode.core.status import Status, stop_cause
from gencode.core.task import replay, transcript_of
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, call, says, scripted


async def messages(gen: Any, task: str) -> list[Message]:
    return transcript_of(await gen.history.events(task))


def results(transcript: list[Message]) -> list[ToolResult]:
    return [
        result for message in transcript if isinstance(message, ToolMessage) for result in message.results
    ]


def told(outcome: Outcome) -> tuple[Status, str, str | None, int]:
    return outcome.status, outcome.result, outcome.error, outcome.turns


async def test_a_reply_without_calls_completes_the_task(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("here it is")]) as gen:
        assert told(await gen.task("Explore", "look")) == (Status.COMPLETED, "here it is", None, 1)


async def test_an_empty_reply_is_never_a_success(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("  \n")]) as gen:
        outcome = await gen.task("Explore", "look")
    assert (outcome.success, outcome.status) == (False, Status.EMPTY)


async def test_calls_are_answered_in_order_and_the_loop_goes_on(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"text of {name}\n")
    turns = [says("", call("Read", file_path="b"), call("Read", file_path="a")), says("both read")]
    async with scripted(tmp_path, Explore=turns) as gen:
        outcome = await gen.task("Explore", "look")
        answered = results(await messages(gen, outcome.agent_id))
    assert [result.text.split() for result in answered] == [
        ["1", "text", "of", "b"],
        ["1", "text", "of", "a"],
    ]
    assert outcome.evidence.files_read == ("b", "a")
    assert outcome.evidence.tool_calls == 2


async def test_arguments_that_do_not_fit_are_an_error_the_model_reads_and_the_loop_goes_on(
    tmp_path: Path,
) -> None:
    turns = [says("", call("Read", folder="a")), says("sorry")]
    async with scripted(tmp_path, Explore=turns) as gen:
        outcome = await gen.task("Explore", "look")
        (answered,) = results(await messages(gen, outcome.agent_id))
    assert answered.error
    assert "file_path (string, required)" in answered.text
    assert outcome.status is Status.COMPLETED


async def test_a_tool_that_is_hidden_is_also_refused(tmp_path: Path) -> None:
    turns = [says("", call("Task", subagent_type="Explore", prompt="again")), says("so be it")]
    async with scripted(tmp_path, Explore=turns) as gen:
        outcome = await gen.task("Explore", "look")
        (answered,) = results(await messages(gen, outcome.agent_id))
        assert await gen.tasks(parent=outcome.agent_id) == []
    assert answered.error
    assert "Task" in answered.text
    assert [each.tool for each in outcome.evidence.refused] == ["Task"]


async def test_at_the_limit_there_is_one_turn_without_tools_and_what_it_says_is_kept(tmp_path: Path) -> None:
    looking = says("looking", call("LS", path="."))
    turns = [looking, looking, says("this is what I have", call("LS", path="."))]
    async with scripted(tmp_path, others=turns) as gen:
        outcome = await gen.task("general-purpose", "look", max_turns=2)
        said = await messages(gen, outcome.agent_id)
    assert told(outcome) == (
        Status.LIMIT_REACHED,
        "this is what I have",
        "the limit of 2 turns was reached",
        2,
    )
    assert isinstance(said[-2], UserMessage) and said[-2].sender == "system"
    assert isinstance(said[-1], AssistantMessage) and said[-1].calls == ()


async def test_the_last_turn_has_the_same_tools_and_a_reply_that_only_calls_is_asked_for_again(
    tmp_path: Path,
) -> None:
    look = says("", call("Glob", pattern="*"))
    heard = Overhearing(ScriptedProvider.of({"Explore": [look, look, says("this is what I have")]}))
    async with GenCode.open(tmp_path, model=heard) as gen:
        outcome = await gen.task("Explore", "look", max_turns=1)
        said = await messages(gen, outcome.agent_id)
    first, last, again = heard.requests
    assert (outcome.result, [each.may_call for each in heard.requests]) == (
        "this is what I have",
        [True, False, False],
    )
    assert (last.tools, again.tools) == (first.tools, ())
    replies = [each for each in said if isinstance(each, AssistantMessage)]
    assert [len(each.calls) for each in replies] == [1, 0, 0]


async def test_a_model_that_fails_fails_the_task_and_keeps_the_half_reply(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("I was about to", error="overloaded")]) as gen:
        outcome = await gen.task("Explore", "look")
        said = await messages(gen, outcome.agent_id)
    assert (outcome.status, outcome.result) == (Status.FAILED, "I was about to")
    assert "overloaded" in (outcome.error or "")
    assert said[-1] == AssistantMessage("I was about to", model="ScriptedProvider", partial=True)


async def test_a_tool_with_a_fault_of_its_own_does_not_end_the_task(tmp_path: Path) -> None:
    @tool(effect="read")
    async def stumble(ctx: ToolContext) -> str:
        """Always fails."""
        raise ZeroDivisionError

    from gencode import GenCode
    from gencode.providers.scripted import ScriptedProvider

    provider = ScriptedProvider.of({"*": [says("", call("stumble")), says("never mind")]})
    async with GenCode.open(tmp_path, model=provider, tools=[stumble], store=MemoryStore()) as gen:
        outcome = await gen.task("general-purpose", "try")
        (answered,) = results(await messages(gen, outcome.agent_id))
    assert answered == ToolResult(
        "call_0_0",
        "stumble",
        "stumble failed because of a bug in it; the log of GenCode has the details.",
        error=True,
    )
    assert outcome.status is Status.COMPLETED


async def test_reading_calls_run_side_by_side_and_a_writing_one_waits_and_runs_alone(tmp_path: Path) -> None:
    running: list[str] = []
    seen: list[tuple[str, tuple[str, ...]]] = []

    def busy(name: str, effect: Any) -> Any:
        async def work(ctx: ToolContext) -> ToolOutput:
            """Work for a moment."""
            running.append(name)
            await asyncio.sleep(0.02)
            seen.append((name, tuple(running)))
            running.remove(name)
            return ToolOutput(name)

        return tool(effect=effect, name=name)(work)

    from gencode import GenCode
    from gencode.providers.scripted import ScriptedProvider

    names = ["r1", "r2", "w1", "w2", "r3"]
    tools = [busy(name, "read" if name.startswith("r") else "write") for name in names]
    provider = ScriptedProvider.of({"*": [says("", *(call(name) for name in names)), says("done")]})
    settings = {"permission_mode": "dontAsk"}
    async with GenCode.open(
        tmp_path, model=provider, tools=tools, settings=settings, store=MemoryStore()
    ) as gen:
        outcome = await gen.task("general-purpose", "work")
        answered = results(await messages(gen, outcome.agent_id))
    assert [result.text for result in answered] == names
    assert dict(seen) == {
        "r1": ("r1", "r2"),
        "r2": ("r2",),
        "w1": ("w1",),
        "w2": ("w2",),
        "r3": ("r3",),
    }


async def test_every_call_has_one_result_even_when_the_task_is_stopped_in_a_tool(tmp_path: Path) -> None:
    started = asyncio.Event()

    @tool(effect="read")
    async def wait(ctx: ToolContext) -> str:
        """Wait for ever."""
        started.set()
        await asyncio.sleep(3600)
        return "never"

    from gencode import GenCode
    from gencode.core.spec import TaskRequest
    from gencode.providers.scripted import ScriptedProvider

    provider = ScriptedProvider.of({"*": [says("I wait", call("wait"), call("wait")), says("never said")]})
    async with GenCode.open(tmp_path, model=provider, tools=[wait], store=MemoryStore()) as gen:
        job = await gen.start_task(TaskRequest("general-purpose", "wait"))
        await started.wait()
        job.stop.stop(stop_cause("the user pressed Esc"))
        outcome = await gen.outcome(job)
        answered = results(await messages(gen, outcome.agent_id))
    assert told(outcome) == (Status.CANCELLED, "I wait", "the user pressed Esc", 1)
    assert [(each.call, each.error) for each in answered] == [("call_0_0", True), ("call_0_1", True)]
    assert all("Interrupted: the user pressed Esc" in each.text for each in answered)


async def test_a_stop_inside_the_models_answer_keeps_the_half_reply(tmp_path: Path) -> None:
    from gencode.core.spec import TaskRequest

    turns = [says("first part", call("LS")), says("never said", delay_ms=3_600_000)]
    async with scripted(tmp_path, others=turns) as gen:
        listener = gen.listen()
        job = await gen.start_task(TaskRequest("general-purpose", "wait"))
        async for event in listener:
            if isinstance(event.fact, MessageAdded) and isinstance(event.fact.message, ToolMessage):
                break
        job.stop.stop(stop_cause("enough"))
        outcome = await gen.outcome(job)
    assert told(outcome) == (Status.CANCELLED, "first part", "enough", 1)


async def test_a_time_limit_ends_the_turn_as_timed_out(tmp_path: Path) -> None:
    async with scripted(
        tmp_path, settings={"max_seconds": 0.05}, main=[says("late", delay_ms=60_000)]
    ) as gen:
        outcome = await gen.ask("hurry").outcome()
    assert (outcome.status, outcome.success) == (Status.TIMED_OUT, False)


async def test_the_journal_tells_the_whole_run_and_replays_to_the_same_state(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    store = MemoryStore()
    turns = [says("", call("Read", file_path="a")), says("read")]
    async with scripted(tmp_path, store=store, Explore=turns) as gen:
        outcome = await gen.task("Explore", "look")
        events = await store.events(outcome.agent_id)
        assert [type(event.fact) for event in events] == [
            TaskCreated,
            TaskStarted,
            MessageAdded,
            MessageAdded,
            CallDecided,
            MessageAdded,
            MessageAdded,
            TaskEnded,
        ]
        assert replay(events) == await store.task(outcome.agent_id)


async def test_a_bug_in_one_task_leaves_its_siblings_alone(tmp_path: Path) -> None:
    from collections.abc import AsyncGenerator

    from gencode import GenCode
    from gencode.agent.ports import Request
    from gencode.core.messages import Part
    from gencode.providers.scripted import ScriptedProvider

    class Faulty:
        def __init__(self) -> None:
            self.good = ScriptedProvider.of({"*": [says("fine", delay_ms=20)]})

        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            if request.agent == "Plan":
                raise KeyError("a bug")
            async for part in self.good.stream(request):
                yield part

    async with (
        GenCode.open(tmp_path, model=Faulty(), store=MemoryStore()) as gen,
        asyncio.TaskGroup() as group,
    ):
        bad = group.create_task(gen.task("Plan", "fail"))
        good = group.create_task(gen.task("Explore", "look"))
    assert (bad.result().status, good.result().status) == (Status.FAILED, Status.COMPLETED)
    assert "KeyError" in (bad.result().error or "")


@pytest.mark.parametrize("turns", [0, -3, 2**53 + 1, 10**30])
async def test_a_limit_of_turns_that_can_be_none_is_the_users_mistake(tmp_path: Path, turns: int) -> None:
    from gencode import UserMistake

    why = f"max_turns must be a whole number from 1 to 9,007,199,254,740,992, not {turns}"
    async with scripted(tmp_path, Explore=[says("x")]) as gen:
        done = await gen.task("Explore", "look", max_turns=2**53)
        for again in (
            gen.task("Explore", "look", max_turns=turns),
            gen.resume(done.agent_id, "again", max_turns=turns),
            gen.fork(done.agent_id, "otherwise", max_turns=turns),
        ):
            with pytest.raises(UserMistake, match=why):
                await again


async def test_a_file_swapped_for_a_link_after_it_was_judged_is_not_read(tmp_path: Path) -> None:
    from gencode import GenCode
    from gencode.providers.scripted import ScriptedProvider

    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "note").write_text("harmless")
    (tmp_path / "outside").write_text("CANARY")

    @tool(effect="write")
    async def swap(ctx: ToolContext) -> str:
        """Swap the note for a link that leads out of the workspace."""
        (workspace / "note").unlink()
        (workspace / "note").symlink_to(tmp_path / "outside")
        return "swapped"

    turns = [says("", call("swap"), call("Read", file_path="note")), says("done")]
    provider = ScriptedProvider.of({"*": turns})
    settings = {"allow": ["swap"]}
    async with GenCode.open(
        workspace, model=provider, tools=[swap], settings=settings, store=MemoryStore()
    ) as gen:
        outcome = await gen.task("general-purpose", "try")
        swapped, read = results(await messages(gen, outcome.agent_id))
    assert (swapped.text, read.error) == ("swapped", True)
    assert "CANARY" not in read.text


def notices(transcript: list[Message]) -> list[str]:
    """What GenCode told the agent."""
    return [each.text for each in transcript if isinstance(each, UserMessage) and each.sender == "system"]


async def test_an_empty_reply_is_asked_about_once(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says(" "), says("here it is")]) as gen:
        outcome = await gen.task("Explore", "look")
        said = notices(await messages(gen, outcome.agent_id))
    assert told(outcome) == (Status.COMPLETED, "here it is", None, 2)
    assert said == [EMPTY_REPLY]


async def test_the_third_identical_call_with_the_same_result_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    same, other = call("Grep", pattern="x"), call("Grep", pattern="y")
    turns = [says("", each) for each in (same, same, other, same, same, same, same)]
    async with scripted(tmp_path, Explore=[*turns, says("done")]) as gen:
        outcome = await gen.task("Explore", "look")
        said = notices(await messages(gen, outcome.agent_id))
    assert (outcome.status, said) == (Status.COMPLETED, [REPEATED.format(tool="Grep")])


async def test_the_last_turns_are_announced_once(tmp_path: Path) -> None:
    turns = [says("", call("Glob", pattern=f"*{number}")) for number in range(12)]
    async with scripted(tmp_path, settings={"max_turns": 12}, main=[*turns, says("done")]) as gen:
        outcome = await gen.ask("look").outcome()
        transcript = await messages(gen, outcome.agent_id)
    said = notices(transcript)
    assert said[0] == TURNS_LEFT.format(turns=5) and said.count(said[0]) == 1
    place = next(
        at for at, each in enumerate(transcript) if isinstance(each, UserMessage) and each.text == said[0]
    )
    assert sum(isinstance(each, AssistantMessage) for each in transcript[:place]) == 7
