"""Tasks in a process of their own: the same journal, and a crash there ends nothing here."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode, UserMistake
from gencode.app import components
from gencode.core.events import TaskBackgrounded, TaskEnded
from gencode.core.messages import AssistantMessage, ToolMessage, UserMessage
from gencode.core.rules import Mode
from gencode.core.spec import TaskRequest
from gencode.core.status import EndReason, Status, stop_cause
from gencode.core.task import transcript_of
from gencode.journal import change_notifier
from gencode.journal.store import TaskSignal
from gencode.tasks import remote_task, running_task, supervisor
from gencode.testing import call, reported, says, scripted
from tests.suspending import suspend
from tests.tasks.isolated_agent import LOOK, SLOW, child_of, owner_of, played
from tests.waiting import Gate, until

SEND = call("Task", subagent_type="Explore", prompt="look", isolation="process")


async def test_the_outcome_is_the_same_as_in_this_process(tmp_path: Path) -> None:
    model = played(tmp_path, Explore=[LOOK, says("found it")])
    async with GenCode.open(tmp_path, model=model) as gen:
        here = await gen.task("Explore", "look", description="a look")
        apart = await gen.task("Explore", "look", description="a look", isolation="process")
        stored = [await gen.find(each.agent_id) for each in (here, apart)]
        facts = [[type(event.fact) for event in await gen.history.events(each.id)] for each in stored]
        left = await components(gen).store.owned()
    assert (apart.status, apart.result, apart.turns) == (here.status, here.result, here.turns)
    assert (apart.evidence, apart.cwd, apart.model) == (here.evidence, here.cwd, here.model)
    assert [each.created.policies for each in stored] == [stored[0].created.policies] * 2
    assert (facts[0], left) == (facts[1], [])


async def test_an_agent_is_told_the_result_of_one_that_was_sent_apart(tmp_path: Path) -> None:
    main = [says("", SEND, SEND), says("both are back")]
    model = played(tmp_path, main=main, Explore=[LOOK, says("found it")])
    async with GenCode.open(tmp_path, model=model) as gen:
        outcome = await gen.ask("go").outcome()
        told = transcript_of(await gen.history.events(outcome.agent_id))
        sent = await gen.tasks(parent=outcome.agent_id)
    (answers,) = [message for message in told if isinstance(message, ToolMessage)]
    assert [reported(each.text) for each in answers.results] == ["found it", "found it"]
    assert (outcome.result, [child.status for child in sent]) == ("both are back", [Status.COMPLETED] * 2)


async def test_a_result_from_the_background_of_another_process_comes_back_once(tmp_path: Path) -> None:
    send = call("Task", subagent_type="Explore", prompt="x", run_in_background=True, isolation="process")
    model = played(tmp_path, main=[says("", send), says("meanwhile"), says("heard")], Explore=[says("news")])
    async with GenCode.open(tmp_path, model=model) as gen:
        outcome = await gen.ask("go").outcome()
        told = transcript_of(await gen.history.events(outcome.agent_id))
        (child,) = await gen.tasks(parent=outcome.agent_id)
    delivered = [each.delivers for each in told if isinstance(each, UserMessage) and each.delivers]
    assert (outcome.result, delivered) == ("heard", [(child.agent_id,)])


async def test_a_crash_there_ends_that_task_and_nothing_else(tmp_path: Path) -> None:
    main = [says("", SEND), says("I go on without it.")]
    model = played(tmp_path, main=main, Explore=[LOOK, SLOW])
    async with GenCode.open(tmp_path, model=model) as gen:
        job = await gen.start_turn("go")
        child = await child_of(gen, job.id)
        process = await owner_of(gen, child)
        assert process != os.getpid()
        os.kill(process, signal.SIGKILL)
        outcome = await gen.outcome(job)
        lost = await gen.get(child)
        told = transcript_of(await gen.history.events(job.id))
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "I go on without it.")
    assert (lost.status, lost.result) == (Status.INTERRUPTED, "I look around.")
    (answers,) = [message for message in told if isinstance(message, ToolMessage)]
    assert f"task {child}) was interrupted" in answers.results[0].text


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is stopped has all the time it needs to end by itself."""
    for module in (remote_task, running_task, supervisor):
        monkeypatch.setattr(module, "GRACE_SECONDS", 60.0)


@pytest.mark.usefixtures("patient")
async def test_a_stop_reaches_the_other_process(tmp_path: Path) -> None:
    model = played(tmp_path, main=[says("", SEND), says("never")], Explore=[LOOK, SLOW])
    async with GenCode.open(tmp_path, model=model) as gen:
        job = await gen.start_turn("go")
        child = await child_of(gen, job.id)
        process = await owner_of(gen, child)
        await job.halt(stop_cause("enough"))
        outcome, stopped = await gen.get(job.id), await gen.history.ended(child, 60)
    assert (outcome.status, stopped.status) == (Status.CANCELLED, Status.CANCELLED)
    assert stopped.result == "I look around."
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


async def test_a_process_that_does_not_answer_a_stop_is_killed_and_told_as_that(tmp_path: Path) -> None:
    model = played(tmp_path, main=[says("", SEND), says("never")], Explore=[LOOK, SLOW])
    async with GenCode.open(tmp_path, model=model) as gen:
        job = await gen.start_turn("go")
        child = await child_of(gen, job.id)
        process = await owner_of(gen, child)
        suspend(process)
        await job.halt(stop_cause("enough"))
        stopped = await gen.history.ended(child, 60)
        left = await components(gen).store.owned()
    # Once it is killed, whoever looks first writes its end: who stopped it, or who finds it dead.
    assert stopped.end.reason in (EndReason.STOP_UNANSWERED, EndReason.PROCESS_DIED)
    assert stopped.status is Status.INTERRUPTED
    assert (stopped.result, left) == ("I look around.", [])
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.usefixtures("patient")
async def test_closing_the_session_ends_it(tmp_path: Path) -> None:
    model = played(tmp_path, Explore=[LOOK, SLOW])
    async with GenCode.open(tmp_path, model=model) as gen:
        handle = await gen.task("Explore", "look", background=True, isolation="process")
    async with GenCode.open(tmp_path, model=model) as gen:
        assert (await gen.get(handle.id)).status is Status.CANCELLED
        assert await components(gen).store.owned() == []


DIES = """
    import asyncio, os, sys
    from gencode import GenCode

    async def main():
        async with GenCode.open(model=sys.argv[1]) as gen:
            handle = await gen.task("Explore", "look", background=True, isolation="process")
            print(handle.id, flush=True)
            await asyncio.sleep(600)

    asyncio.run(main())
"""


async def test_it_does_not_outlive_a_sender_that_is_killed(tmp_path: Path) -> None:
    model = played(tmp_path, Explore=[SLOW])
    command = (sys.executable, "-c", textwrap.dedent(DIES), model)
    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stdout=subprocess.PIPE)
    assert process.stdout is not None
    task = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
    process.kill()
    await process.wait()
    async with GenCode.open(tmp_path, model=model) as gen:
        ended = await gen.history.ended(task, 20)
    assert (ended.status, ended.end.error) == (Status.CANCELLED, "the process that started it is gone")


async def test_one_that_is_waited_for_apart_can_be_sent_to_the_background(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    send = call("Task", subagent_type="general-purpose", prompt="look", isolation="process")
    agents = {"main": [says("", send), says("meanwhile"), says("heard")]}
    model = played(tmp_path, **agents, **{"general-purpose": [LOOK, says("", gate.call), says("news")]})
    async with GenCode.open(tmp_path, model=model) as gen:
        job = await gen.start_turn("go")
        child = await child_of(gen, job.id)
        moved = await components(gen).tasks.control.move_to_background(child)

        async def spoke() -> bool:
            heard = transcript_of(await gen.history.events(job.id))
            return any(isinstance(each, AssistantMessage) and each.text == "meanwhile" for each in heard)

        await until(spoke, "its sender goes on without it")
        await until(gate.opened)
        outcome = await gen.outcome(job)
        facts = [event.fact for event in await gen.history.events(child)]
        told = transcript_of(await gen.history.events(job.id))
    assert (moved.terms.background, outcome.result) == (True, "heard")
    assert [fact for fact in facts if isinstance(fact, TaskBackgrounded)] == [TaskBackgrounded()]
    assert isinstance(facts[-1], TaskEnded)
    assert [each.delivers for each in told if isinstance(each, UserMessage) and each.delivers] == [(child,)]


async def test_where_nobody_is_there_nobody_is_asked_and_the_policy_is_the_same(tmp_path: Path) -> None:
    write = says("", call("Write", file_path="new.txt", content="x"))
    model = played(tmp_path, **{"general-purpose": [write, says("done")]})
    results: dict[str, list[str]] = {}
    for mode in ("default", "acceptEdits"):
        async with GenCode.open(tmp_path, model=model, settings={"permission_mode": mode}) as gen:
            outcome = await gen.task("general-purpose", "write", isolation="process")
            decisions = (await gen.show(outcome.agent_id)).decisions
            results[mode] = [each["decision"]["action"] for each in decisions or ()]
            stored = await gen.find(outcome.agent_id)
            assert [policy.mode for policy in stored.created.policies] == [Mode(mode), Mode(mode)]
    assert results == {"default": ["ask", "deny"], "acceptEdits": ["allow"]}
    assert (tmp_path / "new.txt").read_text() == "x"


async def test_what_only_this_process_has_cannot_be_handed_over(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("x")]) as gen:
        with pytest.raises(UserMistake, match="A process of its own needs a journal on disk"):
            await gen.task("Explore", "look", isolation="process")
        assert await gen.tasks() == []


async def test_a_wish_for_the_other_process_is_not_taken_by_this_one(tmp_path: Path) -> None:
    model = played(tmp_path, Explore=[LOOK, SLOW])
    async with GenCode.open(tmp_path, model=model) as gen:
        handle = await gen.task("Explore", "look", background=True, isolation="process")
        assert await components(gen).store.send_signal(handle.id, TaskSignal.STOP)
        outcome = await handle.result()
    assert (outcome.status, outcome.error) == (Status.CANCELLED, "another process stopped it")


async def test_an_isolation_that_is_not_there_is_refused(tmp_path: Path) -> None:
    banana: Any = "banana"
    async with scripted(tmp_path, Explore=[says("never said")]) as gen:
        with pytest.raises(UserMistake, match="There is no isolation 'banana'"):
            await gen.task("Explore", "look", isolation=banana)
        assert await gen.tasks() == []


async def test_a_task_does_not_go_on_in_isolation(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("one"), says("two")]) as gen:
        task = (await gen.task("Explore", "look")).agent_id
        with pytest.raises(UserMistake, match=f"{task} .*leave isolation out"):
            await gen.resume(task, "go on", isolation="process")


async def test_one_that_has_ended_goes_on_although_its_sender_has_not_looked_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_notifier, "SPACING_SECONDS", 2.0)
    model = played(tmp_path, Explore=[says("found it"), says("and more")])
    async with GenCode.open(tmp_path, model=model) as gen:
        request = TaskRequest("Explore", "look", background=True, isolation="process")
        job = await gen.start_task(request)

        async def has_ended() -> bool:
            found = await gen.history.task(job.id)
            return found is not None and found.status.ended

        await until(has_ended, "its process has written its end")
        again = await gen.resume(job.id, "more")
    assert (again.status, again.result) == (Status.COMPLETED, "and more")
