"""Places in the queue of another process, by what its journals tell."""

from collections.abc import Sequence

from gencode.core.events import DurableFact, TaskBackgrounded, TaskCreated, TaskEnded, TaskQueued, TaskStarted
from gencode.core.status import EndReason, Status
from gencode.journal.owner import QUEUE
from gencode.stores.memory import MemoryStore
from gencode.tasks.queries import queue_positions

CAPS = {"big/capped": 1}
FREE, CAPPED = "small/free", "big/capped"


async def born(
    store: MemoryStore, parent: str, model: str = FREE, facts: Sequence[DurableFact] = (), owner: str = "them"
) -> str:
    """A task of another process, with what happened to it since."""
    lease = await store.create(TaskCreated(agent="Explore", prompt="look", parent=parent, model=model), owner)
    if facts:
        await store.append(lease, facts, last=any(isinstance(each, TaskEnded) for each in facts))
    return lease.task


async def test_a_parent_whose_agent_began_last_has_its_next_turn_after_the_others() -> None:
    store = MemoryStore()
    a1 = [await born(store, "a") for _ in range(2)]
    b1 = [await born(store, "b") for _ in range(2)]
    assert await queue_positions(store, a1, {}) == {a1[0]: 1, b1[0]: 2, a1[1]: 3, b1[1]: 4}
    await born(store, "a", facts=[TaskStarted(), TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)])
    assert await queue_positions(store, a1, {}) == {b1[0]: 1, a1[0]: 2, b1[1]: 3, a1[1]: 4}


async def test_a_turn_counts_from_when_it_came_and_not_from_when_that_was_written() -> None:
    store = MemoryStore()
    waits = await born(store, "a")
    came = await born(store, "b")
    await born(store, "a", facts=[TaskStarted(handed="2000-01-01T00:00:00.000000Z")])
    assert await queue_positions(store, [waits], {}) == {waits: 1, came: 2}


async def test_what_is_capped_stands_behind_what_begins_before_it() -> None:
    store = MemoryStore()
    for model in (CAPPED, FREE, FREE):
        await born(store, "a", model, [TaskStarted()])
    first, second, free = [await born(store, "a", model) for model in (CAPPED, CAPPED, FREE)]
    assert await queue_positions(store, [free], CAPS) == {first: 1, free: 2, second: 3}
    assert await queue_positions(store, [free], {}) == {first: 1, second: 2, free: 3}


async def test_who_waits_for_an_agent_takes_nobodys_place() -> None:
    store = MemoryStore()
    leader = await born(store, "main", CAPPED, [TaskStarted()])
    await born(store, leader, facts=[TaskStarted()])
    capped, free = [await born(store, leader, model) for model in (CAPPED, FREE)]
    assert await queue_positions(store, [free], CAPS) == {capped: 1, free: 2}


async def test_who_has_an_agent_in_the_background_is_at_work() -> None:
    store = MemoryStore()
    await born(store, "x", FREE, [TaskStarted()])
    leader = await born(store, "main", CAPPED, [TaskStarted()])
    await born(store, leader, facts=[TaskStarted(), TaskBackgrounded()])
    capped, free = [await born(store, "main", model) for model in (CAPPED, FREE)]
    assert await queue_positions(store, [free], CAPS) == {free: 1, capped: 2}


async def test_who_goes_on_stands_behind_those_who_waited_before_it() -> None:
    store = MemoryStore()
    ended = [TaskStarted(), TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)]
    early = await store.create(TaskCreated(parent="a"), "them", ended)
    first = await born(store, "a")
    await store.append(early, [TaskQueued()])
    last = await born(store, "a")
    assert await queue_positions(store, [last], {}) == {first: 1, early.task: 2, last: 3}


async def test_every_process_has_a_queue_of_its_own_and_the_fleet_has_none() -> None:
    store = MemoryStore()
    mine = await born(store, "a", owner="me")
    theirs = await born(store, "b")
    anybodys = await born(store, "c", owner=QUEUE)
    assert await queue_positions(store, [mine, theirs, anybodys], {}) == {mine: 1, theirs: 1}
    assert await queue_positions(store, [anybodys], {}) == {}
