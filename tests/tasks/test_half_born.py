"""Forks that were cut before they began: they are tried again, or say what to do instead."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gencode.app import GenCode, components
from gencode.core.budget import Budget
from gencode.core.errors import StoreUnavailable
from gencode.core.events import DurableFact, Event, TaskCreated, TaskStarted
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.journal.dispatch import Handover
from gencode.journal.store import Lease, TaskQuery
from gencode.stores.memory import MemoryStore
from gencode.tasks.crash_recovery import close_task
from gencode.testing import call, says, scripted
from tests.tasks.budget_tree import COSTS, begun, woken
from tests.tasks.forks import forks
from tests.waiting import until

FOUND = says("found", usage=COSTS)
SENT = 4
"""So many agents the conversation has sent at first."""
LEADS = "---\nname: lead\ndescription: Leads.\ntools: Task(Explore)\n---\nLead.\n"


class Cut(MemoryStore):
    """A journal that is away when a task is about to begin."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False

    async def append(self, lease: Lease, facts: Sequence[DurableFact], *, last: bool = False) -> list[Event]:
        """Write, unless it is away."""
        if self.away and any(isinstance(fact, TaskStarted) for fact in facts):
            raise StoreUnavailable("away for a moment")
        return await super().append(lease, facts, last=last)

    async def create(
        self,
        fact: TaskCreated,
        owner: str,
        then: Sequence[DurableFact] = (),
        named: str = "",
        session: str = "",
    ) -> Lease:
        """Write, unless it is away."""
        if self.away:
            raise StoreUnavailable("away for a moment")
        return await super().create(fact, owner, then, named, session)


def fork_of(task: str, session: str, folder: Path) -> TaskCreated:
    """The first fact of a fork."""
    return TaskCreated(
        agent="Explore",
        prompt="again",
        parent=session,
        forked=task,
        background=True,
        cwd=str(folder),
    )


async def handed_over(store: MemoryStore, created: TaskCreated) -> Handover:
    """A task that a worker is to begin with."""
    lease = await store.create(created, "sender")
    await store.release(lease)
    return Handover(model="scripted", created=created, task=lease.task)


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_fork_that_is_cut_between_its_birth_and_its_start_begins_the_next_time(
    tmp_path: Path, *, elsewhere: bool
) -> None:
    store = Cut()
    session, tasks = await begun(store, tmp_path, Budget(spawns=SENT + 1))
    handover = await handed_over(store, fork_of(tasks[0], session, tmp_path))
    async with (
        scripted(tmp_path, store=store, Explore=[FOUND]) as first,
        scripted(tmp_path, store=store, Explore=[FOUND]) as second,
    ):
        store.away = True
        with pytest.raises(StoreUnavailable):
            await components(first).tasks.service.take_on(handover)
        store.away = False
        job = await (second if elsewhere else first).take_on(handover)
        assert (await job.ended()).status is Status.COMPLETED
        refused = await forks(second, tasks[0])
    assert isinstance(refused, str) and refused.startswith("The budget of 5 agents of the session is spent.")


async def test_a_fork_that_is_not_born_after_all_leaves_its_place_to_the_next_one(tmp_path: Path) -> None:
    store = Cut()
    _, tasks = await begun(store, tmp_path, Budget(spawns=SENT + 1))
    async with scripted(tmp_path, store=store, Explore=[FOUND] * 3) as gen:
        for away in (True, True, False):
            store.away = away
            with suppress(StoreUnavailable):
                await forks(gen, tasks[0])
        refused = await forks(gen, tasks[0])
    assert isinstance(refused, str) and refused.startswith("The budget of 5 agents of the session is spent.")
    assert len(await store.tasks(TaskQuery())) == 1 + SENT + 1


async def test_a_fork_whose_process_died_before_it_began_says_what_to_do(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    session, tasks = await begun(store, tmp_path, Budget(spawns=SENT + 2))
    lost = (await store.create(fork_of(tasks[0], session, tmp_path), "died")).task
    await close_task(store, lost, "sweeper", "died")
    async with scripted(tmp_path, store=store, Explore=[FOUND] * 3) as gen:
        words = await woken(gen, lost)
        made = await forks(gen, tasks[0])
    found = await store.task(lost)
    assert found is not None
    assert (found.status, found.end.error) == (Status.INTERRUPTED, "the process that ran it died")
    assert words == (
        f"Task {lost} is a fork of {tasks[0]} that ended before it began, so it cannot be resumed. "
        f"Fork again: gen task fork {tasks[0]}"
    )
    assert isinstance(made, Outcome) and made.status is Status.COMPLETED


@pytest.mark.parametrize("how", [forks, woken])
async def test_seconds_are_no_budget_of_those_below(
    tmp_path: Path, home: Path, how: Callable[[GenCode, str], Awaitable[Outcome | str]]
) -> None:
    agents = home / ".gen" / "agents"
    agents.mkdir(parents=True)
    (agents / "lead.md").write_text(LEADS)
    store = MemoryStore()
    sends = call("Task", subagent_type="lead", prompt="go", budget={"seconds": 1_000})
    leads = [
        says("", call("Task", subagent_type="Explore", prompt="look")),
        {**says("slow"), "delay_ms": 600_000},
    ]
    script: dict[str, Any] = {
        "main": [says("", sends), says("told")],
        "lead": leads,
        "Explore": [says("found")] * 3,
    }

    async def found() -> list[Task]:
        below = await store.tasks(TaskQuery())
        return [each for each in below if each.agent == "Explore" and each.status.ended]

    async with (
        scripted(tmp_path, store=store, settings={"max_depth": 3}, **script) as leader,
        scripted(tmp_path, store=store, settings={"max_depth": 3}, **script) as other,
    ):
        turn = asyncio.ensure_future(leader.ask("go").outcome())
        await until(found, "an agent below one at work has ended")
        [first] = await found()
        made = await how(other, first.id)
        await leader.stop(first.parent or "")
        await turn
    assert isinstance(made, Outcome) and (made.status, made.error) == (Status.COMPLETED, None)
