"""An agent that comes to its end just when its sender is cut: who goes on hears of its result."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from gencode.app import GenCode
from gencode.core.events import DurableFact, Event, TaskEnded
from gencode.core.status import Status, stop_cause
from gencode.interfaces.render.transcript import come_late
from gencode.journal.store import Lease, TaskQuery
from gencode.stores.memory import MemoryStore
from gencode.tasks.running_task import LocalTask
from gencode.tasks.supervisor import INTERRUPTED
from gencode.testing import call, says, scripted
from tests.tasks.agent_file import write_agent
from tests.tasks.words import heard, results, said
from tests.waiting import until

SEND = call("Task", subagent_type="Explore", prompt="look")
CUT = "Interrupted. Task {task} (Explore) has just ended (completed). Its result is delivered separately."
FOUND = "[The background task {task} of Explore has finished]\nfound it"


class Slow(MemoryStore):
    """A journal in which the end of one agent is written when it may be."""

    def __init__(self, agent: str) -> None:
        super().__init__()
        self._agent = agent
        self.comes = asyncio.Event()
        self.may = asyncio.Event()

    async def append(self, lease: Lease, facts: Sequence[DurableFact], *, last: bool = False) -> list[Event]:
        if lease.state.agent == self._agent and any(isinstance(each, TaskEnded) for each in facts):
            self.comes.set()
            while not self.may.is_set():
                try:
                    await self.may.wait()
                except asyncio.CancelledError:  # as with the files of a worktree that are being committed
                    continue
        return await super().append(lease, facts, last=last)


async def while_it_ends(
    gen: GenCode, store: Slow, sender: LocalTask, cut: Callable[[LocalTask], None]
) -> None:
    """Cut a sender while the end of its agent is being written, which then comes to its end."""
    await store.comes.wait()
    cut(sender)
    [agent] = [live for live in gen.running if live.task.agent == "Explore"]
    await until(lambda: agent.stop.stopped, "the agent is stopped, too")
    store.may.set()
    if sender.work is not None:
        await asyncio.wait([sender.work])


async def test_who_goes_on_hears_what_it_came_to(tmp_path: Path) -> None:
    store = Slow("Explore")
    main = [says("I send one.", SEND), says("Now I know.")]
    async with scripted(tmp_path, store=store, main=main, Explore=[says("found it")]) as gen:
        turn = await gen.start_turn("go")
        await while_it_ends(gen, store, turn, lambda job: job.stop.stop(stop_cause("enough")))
        [agent] = await gen.tasks(turn.id)
        [answer] = results(await said(gen, turn.id))
        late = come_late(turn.task, await store.tasks(TaskQuery(parent=turn.id)))
        again = await gen.ask("go on", session=turn.id).outcome()
        told = [each.text for each in heard(await said(gen, turn.id))]
    assert (turn.task.status, agent.status) == (Status.CANCELLED, Status.COMPLETED)
    assert answer == CUT.format(task=agent.agent_id)
    assert [each.id for each in late] == [agent.agent_id]
    assert (again.result, told[-1]) == ("Now I know.", FOUND.format(task=agent.agent_id))


async def test_one_whose_work_was_only_interrupted_goes_on_with_it(tmp_path: Path, home: Path) -> None:
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore)")
    store = Slow("Explore")
    lead = [says("I send one.", SEND), says("Now I know.")]
    deep = {"max_depth": 2}
    async with scripted(tmp_path, settings=deep, store=store, lead=lead, Explore=[says("found it")]) as gen:
        handle = await gen.task("lead", "go", background=True)
        [sender] = [live for live in gen.running if isinstance(live, LocalTask)]
        await while_it_ends(gen, store, sender, lambda job: job.interrupt(INTERRUPTED))
        [agent] = await gen.tasks(handle.id)
        [answer] = results(await said(gen, handle.id))
        told = [each.text for each in heard(await said(gen, handle.id))]
        outcome = await handle.result()
    assert (outcome.status, outcome.result, agent.status) == (
        *(Status.COMPLETED, "Now I know."),
        Status.COMPLETED,
    )
    assert (answer, FOUND.format(task=agent.agent_id) in told) == (CUT.format(task=agent.agent_id), True)
