"""Tasks of other processes: followed, stopped and asked for a report, whoever runs them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.app import components
from gencode.core.events import Event, TaskEnded
from gencode.core.messages import AssistantMessage, ToolMessage, UserMessage
from gencode.core.spec import TaskRequest
from gencode.core.status import Status, stop_cause
from gencode.core.task import transcript_of
from gencode.journal.store import TaskSignal
from gencode.stores.memory import MemoryStore
from gencode.tasks.supervisor import ELSEWHERE
from gencode.testing import call, says, scripted
from tests.suspending import suspend
from tests.virtual_clock import virtual_time
from tests.waiting import Gate, until

ENOUGH = stop_cause("enough")
LOOK = says("I look around.", call("Glob", pattern="*"))
SLOW = says("never said", delay_ms=600_000)
SEND = call("Task", subagent_type="Explore", prompt="look")
BEHIND = call("Task", subagent_type="Plan", prompt="plan", run_in_background=True)


async def reached(gen: GenCode, task: str, turns: int) -> None:
    """Wait until a task has had so many turns."""
    await components(gen).tasks.watcher.until(task, lambda now: now.totals.turns >= turns, 20)


async def children(gen: GenCode, parent: str, count: int) -> dict[str, str]:
    """The tasks of a parent by their agent, once there are so many and each has had a turn."""
    async with asyncio.timeout(60):
        while True:
            found = await gen.tasks(parent=parent)
            if len(found) == count and all(child.turns for child in found):
                return {child.agent: child.agent_id for child in found}
            await asyncio.sleep(0.02)


async def test_a_stop_hits_the_work_that_is_waited_for_and_says_so(tmp_path: Path) -> None:
    store = MemoryStore()
    main = [says("", BEHIND, SEND), says("never")]
    async with (
        scripted(tmp_path, store=store, main=main, Explore=[LOOK, SLOW], Plan=[LOOK, SLOW]) as one,
        scripted(tmp_path, store=store) as two,
    ):
        job = await one.start_turn("go")
        sent = await children(one, job.id, 2)
        first = await components(two).tasks.control.stop(job.id, ENOUGH)
        plan = await two.get(sent["Plan"])
        second = await components(two).tasks.control.stop(job.id, ENOUGH, tree=True)
        third = await components(two).tasks.control.stop(job.id, ENOUGH, tree=True)
    assert {task.id for task in first.affected} == {job.id, sent["Explore"]}
    assert (first.task.status, plan.status) == (Status.CANCELLED, Status.RUNNING)
    assert [(task.id, task.status) for task in second.affected] == [(sent["Plan"], Status.CANCELLED)]
    assert (third.task.status, third.affected) == (Status.CANCELLED, ())


@virtual_time
async def test_one_that_is_stopped_may_say_what_it_has_found(tmp_path: Path) -> None:
    for elsewhere in (False, True):
        store = MemoryStore()
        turns = [LOOK, says("half of it is done", delay_ms=1_500)]
        async with (
            scripted(tmp_path, store=store, Explore=turns) as one,
            scripted(tmp_path, store=store) as two,
        ):
            handle = await one.task("Explore", "look", background=True)
            await reached(one, handle.id, 1)
            stopper = two if elsewhere else one
            stops = await components(stopper).tasks.control.stop(handle.id, ENOUGH, report=True)
            told = transcript_of(await store.events(handle.id))
        why = "another process stopped it" if elsewhere else str(ENOUGH)
        assert (stops.task.status, stops.task.end.error) == (Status.CANCELLED, why)
        assert [task.id for task in stops.affected] == [handle.id]
        notes = [each.text for each in told if isinstance(each, UserMessage) and each.sender == "system"]
        assert notes == [
            f"[Your task was stopped: {why}. No tool can be called any more. Report now what you have found "
            "and done, and what is still open.]"
        ]
        assert isinstance(told[-1], AssistantMessage)
        assert stops.task.result == told[-1].text == "half of it is done"


@pytest.mark.parametrize("report", [False, True])
@pytest.mark.parametrize("elsewhere", [False, True])
@virtual_time
async def test_a_job_knows_whether_another_process_stopped_it_whatever_the_reason_says(
    tmp_path: Path, elsewhere: bool, report: bool
) -> None:
    store = MemoryStore()
    turns = [LOOK, says("half of it", delay_ms=1_500)]
    async with scripted(tmp_path, store=store, Explore=turns) as one, scripted(tmp_path, store=store) as two:
        job = await one.start_task(TaskRequest("Explore", "look"))
        await reached(one, job.id, 1)
        before = job.stopped_elsewhere
        stopper = two if elsewhere else one
        stops = await components(stopper).tasks.control.stop(job.id, ELSEWHERE, report=report)
    assert (stops.task.status, stops.task.end.error) == (Status.CANCELLED, str(ELSEWHERE))
    assert (before, job.stopped_elsewhere) == (False, elsewhere)


@virtual_time
async def test_facts_are_followed_from_any_number_until_the_end(tmp_path: Path) -> None:
    store = MemoryStore()
    turns = [LOOK, says("one", delay_ms=300), says("two")]
    async with scripted(tmp_path, store=store, Explore=turns) as one, scripted(tmp_path, store=store) as two:
        handle = await one.task("Explore", "look", background=True)
        all_of_it = [event async for event in components(two).tasks.watcher.events(handle.id)]
        late = [event async for event in components(two).tasks.watcher.events(handle.id, after=4)]
        again = await one.resume(handle.id, "go on", background=True)
        more = [event async for event in components(two).tasks.watcher.events(again.id, after=len(all_of_it))]
        stored = await store.events(handle.id)
    assert (all_of_it + more, late) == (stored, all_of_it[4:])
    assert [isinstance(events[-1].fact, TaskEnded) for events in (all_of_it, more)] == [True, True]


async def test_a_handle_hears_everything_and_ends_with_its_task(tmp_path: Path) -> None:
    turns = [LOOK, says("one", delay_ms=100), says("two")]
    async with scripted(tmp_path, Explore=turns) as gen:
        handle = await gen.task("Explore", "look", background=True)
        early = [event async for event in handle.events()]
        outcome = await handle.result()
        late = [event async for event in handle.events()]
        other = await gen.resume(handle.id, "go on", background=True)
        rest = [event async for event in other.events(after=len(durable(early)))]
        stored = await gen.history.events(handle.id)
    assert (outcome.status, outcome.result, other.id) == (Status.COMPLETED, "one", handle.id)
    assert durable(early) == late
    assert durable(early) + durable(rest) == stored
    assert len(early) > len(late)


def durable(events: list[Event]) -> list[Event]:
    return [event for event in events if event.seq is not None]


async def test_giving_up_waiting_for_a_handle_does_not_stop_it(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("done", delay_ms=300)]) as gen:
        handle = await gen.task("Explore", "look", background=True)
        waiting = asyncio.create_task(handle.result())
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert (waiting.cancelled(), (await handle.result()).status) == (True, Status.COMPLETED)


async def test_closing_the_session_stops_what_runs_in_its_background(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scripted(tmp_path, store=store, Explore=[LOOK, SLOW]) as gen:
        handle = await gen.task("Explore", "look", background=True)
        await reached(gen, handle.id, 1)
    ended = await store.task(handle.id)
    assert ended and (ended.status, ended.end.error) == (Status.CANCELLED, "the program is closing")
    assert await store.owned() == []


HANGS = """
import asyncio, sys
from gencode import GenCode

async def main():
    async with GenCode.open(model=sys.argv[1]) as gen:
        handle = await gen.task("Explore", "look", background=True)
        print(handle.id, flush=True)
        print((await handle.result()).status, flush=True)

asyncio.run(main())
"""


class Late(MemoryStore):
    """Something else happens before what is asked for can be heard."""

    async def before(self) -> None:
        """What happens meanwhile."""

    async def send_signal(self, task: str, signal: TaskSignal) -> bool:
        await self.before()
        return await super().send_signal(task, signal)


async def test_an_interrupt_names_only_what_it_cut(tmp_path: Path) -> None:
    store, gate = Late(), Gate(tmp_path)
    quick = call("Task", subagent_type="general-purpose", prompt="be quick")
    turns: dict[str, Any] = {
        "main": [says("", SEND, quick)],
        "general-purpose": [says("", gate.call), says("done")],
    }
    async with (
        scripted(tmp_path, store=store, Explore=[LOOK, SLOW], **turns) as one,
        scripted(tmp_path, store=store) as two,
    ):
        job = await one.start_turn("go")
        sent = await children(one, job.id, 2)

        async def ends() -> None:
            await until(gate.opened)
            await components(two).tasks.watcher.ended(sent["general-purpose"])

        store.before = ends
        stops = await components(two).tasks.control.interrupt(job.id, ENOUGH)
        done = await two.get(sent["general-purpose"])
    assert (done.status, stops.task.status) == (Status.COMPLETED, Status.CANCELLED)
    assert [each.id for each in stops.affected] == [job.id, sent["Explore"]]


async def test_a_process_that_hangs_is_fenced(tmp_path: Path) -> None:
    """It is stopped by SIGSTOP; when it goes on, it can write nothing more to its task."""
    turns: dict[str, Any] = {"agents": {"Explore": [LOOK, SLOW]}}
    (tmp_path / "script.json").write_text(json.dumps(turns))
    model = f"scripted:{tmp_path}/script.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HANGS, model),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    task = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
    async with GenCode.open(tmp_path, model=model) as gen:

        async def has_looked() -> bool:
            told = transcript_of(await gen.history.events(task))
            return any(isinstance(message, ToolMessage) for message in told)

        await until(has_looked, "it waits for its model")
        suspend(process.pid)
        stops = await components(gen).tasks.control.stop(task, ENOUGH)
        written = await gen.history.events(task)
        os.kill(process.pid, signal.SIGCONT)
        process.terminate()
        await process.wait()
        after = await gen.history.events(task)
    assert (stops.task.status, stops.task.end.error) == (
        Status.INTERRUPTED,
        "it was stopped, and its process did not answer",
    )
    assert after == written
