"""What becomes of tasks whose process died."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from gencode import GenCode, UserMistake
from gencode.agent.tool_calls import INTERRUPTED, UNAPPROVED
from gencode.budgets.ledger import Granted, Hold
from gencode.core.budget import Budget
from gencode.core.errors import StoreTrouble
from gencode.core.events import (
    CallDecided,
    CostEstimated,
    DurableFact,
    Event,
    MessageAdded,
    TaskCreated,
    TaskEnded,
    TaskQueued,
    TaskStarted,
)
from gencode.core.messages import AssistantMessage, ToolCall, ToolMessage, Usage, UserMessage
from gencode.core.rules import Action, Decision
from gencode.core.status import EndReason, Status
from gencode.core.task import transcript_of
from gencode.journal.owner import new_owner, owner_state
from gencode.journal.store import Lease
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.tasks.crash_recovery import close_orphans
from gencode.testing import says

DIES = """
    import asyncio, sys
    from gencode import GenCode
    from gencode.providers.scripted import ScriptedProvider
    from gencode.testing import call, says

    async def main():
        slow = [says("half way", call("LS")), says("never", delay_ms=3_600_000)]
        one = says("I send one.", call("Task", subagent_type="Explore", prompt="look"))
        script = {"main": [one], "*": slow}
        async with GenCode.open(model=ScriptedProvider.of(script)) as gen:
            async for event in gen.ask("go"):
                if type(getattr(event.fact, "message", None)).__name__ == "ToolMessage":
                    print("busy", flush=True)

    asyncio.run(main())
"""


async def dead_process(folder: Path) -> None:
    """A real process that is killed in the middle of its child's model call."""
    command = (sys.executable, "-c", textwrap.dedent(DIES))
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 60) == b"busy\n"
    process.send_signal(signal.SIGKILL)
    await process.wait()


async def test_after_a_kill_every_task_is_interrupted_and_the_conversation_goes_on(tmp_path: Path) -> None:
    await dead_process(tmp_path)
    script = ScriptedProvider.of({"main": [says("unused"), says("I go on.")]})
    async with GenCode.open(tmp_path, model=script) as gen:
        (child,) = await gen.tasks()
        parent = await gen.get(child.parent_id or "")
        assert [(each.status, each.result) for each in (parent, child)] == [
            (Status.INTERRUPTED, "I send one."),
            (Status.INTERRUPTED, "half way"),
        ]
        assert parent.error == child.error == "the process that ran it died"
        outcome = await gen.ask("and now?", session=parent.agent_id).outcome()
        told = transcript_of(await gen.history.events(parent.agent_id))
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "I go on.")
    (answers,) = [message for message in told if isinstance(message, ToolMessage)]
    assert [(each.call, each.error) for each in answers.results] == [("call_0_0", True)]
    assert "Interrupted: the process that ran it died" in answers.results[0].text


async def unfinished(store: MemoryStore, owner: str) -> str:
    """A task in the middle of a call."""
    lease = await store.create(TaskCreated(prompt="go"), owner)
    reply = AssistantMessage("I look.", (ToolCall("c1", "Read", {}),))
    await store.append(lease, [TaskStarted(), MessageAdded(reply)])
    return lease.task


@pytest.mark.parametrize(
    ("decisions", "told"),
    [
        ([], INTERRUPTED),
        ([Action.ALLOW], INTERRUPTED),
        ([Action.ASK], UNAPPROVED),
        ([Action.ASK, Action.ALLOW], INTERRUPTED),
    ],
)
async def test_a_call_that_waited_for_approval_when_its_process_died_is_known_not_to_have_begun(
    decisions: list[Action], told: str
) -> None:
    store = MemoryStore(lease_seconds=0)
    lease = await store.create(TaskCreated(prompt="go"), "elsewhere|b|1|1|x")
    reply = AssistantMessage("I look.", (ToolCall("c1", "Read", {}),))
    decided = [CallDecided("c1", "Read", Decision(each, "")) for each in decisions]
    await store.append(lease, [TaskStarted(), MessageAdded(reply), *decided])
    await close_orphans(store, "me")
    (*_, answers) = transcript_of(await store.events(lease.task))
    found = await store.task(lease.task)
    assert found is not None and isinstance(answers, ToolMessage)
    assert [each.text for each in answers.results] == [told.format(why=found.end.error)]


@pytest.mark.parametrize(
    ("seconds", "owner", "status"),
    [
        (15, "", Status.RUNNING),
        (0, "", Status.RUNNING),
        (15, "elsewhere|b|1|1|x", Status.RUNNING),
        (0, "elsewhere|b|1|1|x", Status.INTERRUPTED),
        (0, "of an older version", Status.INTERRUPTED),
    ],
)
async def test_only_what_nobody_can_be_working_on_is_closed(
    seconds: float, owner: str, status: Status
) -> None:
    store = MemoryStore(lease_seconds=seconds)
    task = await unfinished(store, owner or new_owner())
    await close_orphans(store, "me")
    found = await store.task(task)
    assert found is not None and found.status is status
    if status.ended:  # it may live and only have been cut off
        assert found.end.error == "the process that ran it died, or could not reach the database"


async def test_a_task_that_could_not_be_closed_is_closed_by_the_next_who_looks() -> None:
    class Disk(MemoryStore):
        """A store on a disk that may have no room."""

        full = True

        async def append(
            self, lease: Lease, facts: Sequence[DurableFact], *, last: bool = False
        ) -> list[Event]:
            if self.full:
                raise StoreTrouble("The disk is full.")
            return await super().append(lease, facts, last=last)

    store = Disk(lease_seconds=0)
    lease = await store.create(TaskCreated(prompt="go"), "elsewhere|b|1|1|x", [TaskStarted()])
    await close_orphans(store, "me")
    store.full = False
    await close_orphans(store, "you")
    found = await store.task(lease.task)
    assert found is not None and found.status is Status.INTERRUPTED


@pytest.mark.parametrize(("goes_on", "costs"), [(TaskStarted(), 1), (TaskQueued(), 0)])
async def test_a_call_counts_only_where_one_may_have_been_made(goes_on: DurableFact, costs: int) -> None:
    store = MemoryStore(lease_seconds=0)
    reply = AssistantMessage("seen", usage=Usage(90, 10))
    before = [
        TaskStarted(),
        MessageAdded(reply),
        TaskEnded(Status.COMPLETED, "seen", reason=EndReason.FINISHED),
    ]
    created = TaskCreated(prompt="go", budget=Budget(tokens=9_000))
    lease = await store.create(created, "elsewhere|b|1|1|x", before)
    await store.append(lease, [goes_on, MessageAdded(UserMessage("more"))])
    if isinstance(goes_on, TaskStarted):
        call = Hold(lease.task, lease.path, {"turns": 1, "tokens": 500}, lease.owner)
        assert isinstance(await store.ledger.hold(call), Granted)
    await close_orphans(store, "me")
    facts = [event.fact for event in await store.events(lease.task)]
    assert sum(isinstance(each, CostEstimated) for each in facts) == costs
    assert isinstance(facts[-1], TaskEnded) and facts[-1].result == "seen"


async def test_closing_is_done_once_and_frees_the_task() -> None:
    store = MemoryStore(lease_seconds=0)
    task = await unfinished(store, "elsewhere|b|1|1|x")
    await close_orphans(store, "me")
    first = await store.events(task)
    await close_orphans(store, "you")
    assert await store.events(task) == first
    assert await store.owned() == []


def test_a_living_process_is_alive_and_a_dead_one_dead() -> None:
    mine = new_owner()
    place, boot, _, began, end = mine.split("|")
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    assert owner_state(mine) == "alive"
    assert owner_state("|".join((place, boot, str(child.pid), began, end))) == "dead"
    assert owner_state("|".join((place, "before the restart", str(os.getpid()), began, end))) == "dead"
    assert owner_state("|".join((place, boot, str(os.getpid()), "earlier", end))) == "dead"
    assert owner_state("|".join(("another machine", boot, "1", began, end))) == "unknown"
    assert owner_state("nonsense") == "unknown"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it cannot be told here")
def test_a_process_that_was_killed_is_dead_before_anybody_has_buried_it() -> None:
    code = (
        "import time; from gencode.journal.owner import new_owner as n; print(n(), flush=True); time.sleep(9)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    owner = process.stdout.readline().strip()
    before = owner_state(owner)
    process.kill()
    until = time.monotonic() + 20
    while owner_state(owner) == "alive" and time.monotonic() < until:
        time.sleep(0.01)
    after = owner_state(owner)
    process.communicate()
    assert (before, after) == ("alive", "dead")


async def test_a_task_that_is_worked_on_cannot_be_continued_by_another(tmp_path: Path) -> None:
    store = MemoryStore()
    script = ScriptedProvider.of({"main": [says("slow", delay_ms=3_600_000)]})
    async with (
        GenCode.open(tmp_path, model=script, store=store) as one,
        GenCode.open(tmp_path, model=script, store=store) as two,
    ):
        job = await one.ask("go").start()
        with pytest.raises(UserMistake, match="is running"):
            await two.ask("me too", session=job.id).start()
        assert one.running.find(job.id) is not None
