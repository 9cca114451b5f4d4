"""Work in the background: it goes on beside the conversation, and its result comes back exactly once."""

import asyncio
import itertools
from pathlib import Path

from gencode.core.events import TaskEnded
from gencode.core.messages import Message, ToolMessage, UserMessage
from gencode.core.status import Status
from gencode.core.task import receipt, transcript_of
from gencode.journal.event_bus import EventListener
from gencode.stores.memory import MemoryStore
from gencode.testing import call, reported, says, scripted

SEND = call("Task", subagent_type="Explore", prompt="look", description="a look", run_in_background=True)


def delivered(transcript: list[Message]) -> list[tuple[str, ...]]:
    return [
        message.delivers for message in transcript if isinstance(message, UserMessage) and message.delivers
    ]


def answers(transcript: list[Message]) -> list[str]:
    found = [message for message in transcript if isinstance(message, ToolMessage)]
    return [reported(result.text) for message in found for result in message.results]


async def test_the_id_comes_at_once_and_the_result_by_itself(tmp_path: Path) -> None:
    main = [says("I send one.", SEND), says("Meanwhile I wait."), says("It found the thing.")]
    explore = [says("found the thing", delay_ms=100)]
    async with scripted(tmp_path, main=main, Explore=explore) as gen:
        outcome = await gen.ask("go").outcome()
        (child,) = await gen.tasks(parent=outcome.agent_id)
        told = transcript_of(await gen.history.events(outcome.agent_id))
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "It found the thing.")
    assert (child.background, child.status, child.result) == (True, Status.COMPLETED, "found the thing")
    assert child.agent_id in answers(told)[0] and "found the thing" not in answers(told)[0]
    assert delivered(told) == [(child.agent_id,)]
    (message,) = [each for each in told if isinstance(each, UserMessage) and each.delivers]
    assert message.text == (
        f"[The background task {child.agent_id} of Explore (a look) has finished]\n> found the thing\n"
        f"[Task {child.agent_id} (Explore): 0 tool calls. Warning: no tool was called.]"
    )


async def test_results_that_arrive_together_come_in_one_message(tmp_path: Path) -> None:
    main = [says("", SEND, SEND, SEND), says("waiting", delay_ms=200), says("all three")]
    async with scripted(tmp_path, main=main, Explore=[says("one result", delay_ms=20)]) as gen:
        outcome = await gen.ask("go").outcome()
        children = await gen.tasks(parent=outcome.agent_id)
        told = transcript_of(await gen.history.events(outcome.agent_id))
    assert outcome.result == "all three"
    assert delivered(told) == [tuple(child.agent_id for child in children)]


def text_of(file: str) -> str:
    return Path(file).read_text()


def numbered() -> MemoryStore:
    """A store whose tasks have ids that a script can know: 00000001 is the conversation."""
    numbers = itertools.count(1)
    return MemoryStore(draw=lambda: f"{next(numbers):08x}")


async def test_a_result_read_through_task_output_is_not_announced_again(tmp_path: Path) -> None:
    main = [says("", SEND), says("", call("TaskOutput", task_id="00000002")), says("read")]
    explore = [says("the result", delay_ms=50)]
    async with scripted(tmp_path, store=numbered(), main=main, Explore=explore) as gen:
        outcome = await gen.ask("go").outcome()
        told = transcript_of(await gen.history.events(outcome.agent_id))
        state, child = await gen.find(outcome.agent_id), await gen.find("00000002")
    given = (receipt(child.id, child.end.at),)
    assert (outcome.result, delivered(told), state.delivered.receipts) == ("read", [], given)
    assert answers(told)[1].startswith("Agent: Explore\nStatus: completed\nTurns: 1\n")
    assert answers(told)[1].endswith("Output:\nthe result")


async def test_a_task_that_still_runs_says_what_can_be_done(tmp_path: Path) -> None:
    look = call("TaskOutput", task_id="00000002", timeout=20)
    main = [says("", SEND), says("", look), says("", call("TaskStop", task_id="00000002")), says("enough")]
    explore = [says("never said", delay_ms=60_000)]
    async with scripted(tmp_path, store=numbered(), main=main, Explore=explore) as gen:
        outcome = await gen.ask("go").outcome()
        told = transcript_of(await gen.history.events(outcome.agent_id))
        child = await gen.get("00000002")
    assert answers(told)[1:] == [
        "Agent: Explore\nStatus: still running\nTurns: 0\nTokens: 0\n\nOptions:\n"
        '  - Wait longer: TaskOutput(task_id="00000002", timeout=60000)\n'
        '  - Check status: TaskOutput(task_id="00000002", block=false)\n'
        '  - Stop: TaskStop(task_id="00000002")',
        "Task 00000002 of Explore was stopped after 0 turns and is now cancelled.",
    ]
    assert (child.status, child.error) == (Status.CANCELLED, "the agent main stopped it")


async def test_a_stop_hits_once_and_says_so_afterwards(tmp_path: Path) -> None:
    stop = call("TaskStop", task_id="00000002")
    main = [says("", SEND), says("", call("TaskOutput", task_id="00000002")), says("", stop), says("ok")]
    async with scripted(tmp_path, store=numbered(), main=main, Explore=[says("done")]) as gen:
        outcome = await gen.ask("go").outcome()
        told = transcript_of(await gen.history.events(outcome.agent_id))
    assert answers(told)[-1] == (
        "Task 00000002 of Explore had already finished (completed); nothing was stopped."
    )


async def test_somebody_elses_task_is_not_shown(tmp_path: Path) -> None:
    store = numbered()
    async with scripted(
        tmp_path, store=store, main=[says("", SEND), says("x"), says("y")], Explore=[says("s")]
    ) as gen:
        await gen.ask("go").outcome()
    asks = [
        says("", call("TaskOutput", task_id="00000002"), call("TaskStop", task_id="0badcafe")),
        says("ok"),
    ]
    async with scripted(tmp_path, store=store, main=asks) as gen:
        outcome = await gen.ask("spy").outcome()
        told = transcript_of(await gen.history.events(outcome.agent_id))
    assert not any("completed" in text for text in answers(told))
    assert len(answers(told)) == 2


async def test_an_agent_goes_on_where_it_ended(tmp_path: Path) -> None:
    again = call("Task", subagent_type="Explore", prompt="and the rest?", resume="00000002")
    first = call("Task", subagent_type="Explore", prompt="the first half")
    main = [says("", first), says("", again), says("both")]
    async with scripted(
        tmp_path, store=numbered(), main=main, Explore=[says("half"), says("the other half")]
    ) as gen:
        outcome = await gen.ask("go").outcome()
        told = transcript_of(await gen.history.events(outcome.agent_id))
        of_child = transcript_of(await gen.history.events("00000002"))
    assert answers(told) == ["half", "the other half"]
    assert [message.text for message in of_child if isinstance(message, UserMessage)] == [
        "the first half",
        "and the rest?",
    ]


async def ended_child(listener: EventListener, parent: str) -> None:
    async with asyncio.timeout(60):
        async for event in listener:
            if event.task != parent and isinstance(event.fact, TaskEnded):
                listener.close()
                return


async def test_a_parent_that_was_cut_hears_of_the_result_when_it_goes_on(tmp_path: Path) -> None:
    store = MemoryStore()
    main = [says("", SEND), says("never said", delay_ms=60_000)]
    async with scripted(tmp_path, store=store, main=main, Explore=[says("late result", delay_ms=30)]) as gen:
        job = await gen.start_turn("go")
        await ended_child(gen.listen(), job.id)
    async with scripted(tmp_path, store=store, main=[says("I heard.")]) as again:
        outcome = await again.ask("go on", session=job.id).outcome()
        told = transcript_of(await store.events(job.id))
        once_more = await again.ask("and now?", session=job.id).outcome()
        after = transcript_of(await store.events(job.id))
    (child,) = outcome.evidence.children
    assert (outcome.result, once_more.result) == ("I heard.", "I heard.")
    assert delivered(told) == delivered(after) == [(child,)]


async def test_what_is_read_in_the_same_reply_that_sends_another_again_is_not_announced(
    tmp_path: Path,
) -> None:
    again = call("Task", subagent_type="Explore", prompt="more", resume="00000002", run_in_background=True)
    both = says("", again, call("TaskOutput", task_id="00000003"))
    main = [says("", SEND), says("", call("TaskOutput", task_id="00000002")), says("", SEND), both]
    explore = [says("first"), says("second", delay_ms=100)]
    async with scripted(
        tmp_path, store=numbered(), main=[*main, says("waiting"), says("heard")], Explore=explore
    ) as gen:
        outcome = await gen.ask("go").outcome()
        told = transcript_of(await gen.history.events(outcome.agent_id))
        child = await gen.find("00000002")
    assert (outcome.result, delivered(told), child.result) == ("heard", [("00000002",)], "second")


async def test_who_goes_on_in_the_foreground_is_not_announced_again_in_a_later_turn(tmp_path: Path) -> None:
    again = call("Task", subagent_type="Explore", prompt="more", resume="00000002")
    look = call("TaskOutput", task_id="00000002")
    main = [says("", SEND), says("", look), says("", again), says("done"), says("nothing new")]
    async with scripted(
        tmp_path, store=numbered(), main=main, Explore=[says("first"), says("second")]
    ) as gen:
        outcome = await gen.ask("go").outcome()
        later = await gen.ask("and now?", session=outcome.agent_id).outcome()
        told = transcript_of(await gen.history.events(outcome.agent_id))
    assert (later.result, delivered(told), answers(told)[-1]) == ("nothing new", [], "second")


async def test_who_goes_on_in_the_background_is_in_the_background_for_everybody(tmp_path: Path) -> None:
    first = call("Task", subagent_type="Explore", prompt="first")
    again = call("Task", subagent_type="Explore", prompt="more", resume="00000002", run_in_background=True)
    look = says("", call("TaskOutput", task_id="00000002"))
    async with scripted(
        tmp_path,
        store=numbered(),
        main=[says("", first), says("", again), look, says("done")],
        Explore=[says("one"), says("two", delay_ms=100)],
    ) as gen:
        outcome = await gen.ask("go").outcome()
        told = transcript_of(await gen.history.events(outcome.agent_id))
        child = await gen.get("00000002")
    assert answers(told)[2].endswith("Output:\ntwo")
    assert child.background and child.output_file is not None
    assert text_of(child.output_file).endswith(
        f"two\n\n[task 00000002 has finished (completed) at {child.ended_at}]\n"
    )
