"""More for an agent that runs out, while its sender rests and begins again: nobody else has the same."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from gencode.core.budget import Budget
from gencode.core.events import (
    BudgetSet,
    DurableFact,
    Event,
    TaskCreated,
    TaskEnded,
    TaskStarted,
)
from gencode.core.reasons import EndReason
from gencode.core.status import Status
from gencode.delegation.live import Live
from gencode.delegation.refills import Refills
from gencode.delegation.remote import Remote
from gencode.delegation.sharing import Sharing
from gencode.delegation.slices import set_aside_below
from gencode.runtime.bus import Bus
from gencode.runtime.ports import Lease
from gencode.runtime.purse import Purse, Spent
from gencode.runtime.recorder import Recorder
from gencode.runtime.stop import Stop
from gencode.stores.sqlite import SqliteStore
from tests.control.test_apart_budgets import over
from tests.control.test_refills import apart
from tests.waiting import until

ALL = 900
TOOK = 300
"""What each of two agents, and their sender, have of it."""
CALL = {"turns": 1, "tokens": 50, "usd": 0}
DEAR = {"turns": 1, "tokens": 400, "usd": 0}
Step = Callable[[], Awaitable[None]]
ENDED = TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)


class Halting(SqliteStore):
    """A journal of which one write waits until something else has happened."""

    before: Step | None = None

    async def append(self, lease: Lease, facts: Sequence[DurableFact], *, last: bool = False) -> list[Event]:
        """Write, after that."""
        if step := self.before:
            self.before = None
            await step()
        return await super().append(lease, facts, last=last)


@asynccontextmanager
async def borrowed(store: SqliteStore, owner: str, task: str) -> AsyncGenerator[Lease]:
    """The lease of a task at rest."""
    lease = await store.take(task, owner)
    try:
        yield lease
    finally:
        await store.release(lease)


class Sender:
    """A conversation that sent two agents, of which one is at work in a process of its own."""

    def __init__(self, store: SqliteStore, lease: Lease) -> None:
        self.store, self.lease = store, lease
        self.purse = Purse("the session", Budget(tokens=ALL))
        self.live: dict[str, Live] = {}
        borrow = partial(borrowed, store, "sender")
        self.sharing = Sharing(store, "sender", self.live.get, borrow)

    async def sends(self, elsewhere: SqliteStore) -> Lease:
        """The lease of the agent that is at work, in its own process; the other one has ended."""
        first, second = apart(self.purse, 2), apart(self.purse, 1)
        first.close()
        created = TaskCreated(agent="Explore", parent=self.lease.task, budget=second.budget)
        task = await elsewhere.create(created, "agent", [TaskStarted()])
        remote = Remote(task.state, Stop(), over, self.store, Bus(self.store.events))
        remote.spend_from(second)
        self.sent = second
        self.live[task.task] = remote
        return task

    async def rests(self) -> None:
        """Its turn is over; what it sent goes on in the background."""
        await self.store.append(self.lease, [ENDED], last=True)

    async def is_taken_up(self) -> None:
        """The same process takes it up for another turn, and has not looked yet what is left for that.

        It may find that nothing is.
        """
        self.lease = await self.store.take(self.lease.task, "sender")

    async def begins_again(self) -> None:
        """It goes on in the same process."""
        await self.is_taken_up()
        led = await self.sharing.lead(self.purse, self.lease.state)
        await self.store.append(self.lease, [*led, TaskStarted()])


class Room:
    """Three processes with one database: a sender, its agent, and one that wakes another agent."""

    def __init__(self, here: SqliteStore, there: Halting, third: SqliteStore) -> None:
        self.here, self.there, self.third = here, there, third

    async def opened(self) -> "Room":
        """With the conversation at work, and its agent, which has spent what it took along."""
        top = await self.here.create(TaskCreated(agent="main", conversation=True), "sender", [TaskStarted()])
        earlier = TaskCreated(agent="Explore", parent=top.task)
        other = await self.here.create(earlier, "sender", [TaskStarted(), ENDED])
        await self.here.release(other)
        self.other = other.task
        self.sender = Sender(self.here, top)
        self.agent = await self.sender.sends(self.there)
        self.purse = Purse("agent Explore", Budget(tokens=TOOK), None, Spent(tokens=TOOK))
        record = Recorder(self.there, Bus(self.there.events), self.agent)
        self.asks = Refills(self.there, self.there.claims, record, top.task)
        return self

    async def another_takes_a_part(self, needs: Mapping[str, int]) -> None:
        """A process wakes the other agent: for a dear call it gets all that is left."""
        session, lease = Purse("the session", Budget(tokens=ALL)), await self.third.take(self.other, "third")
        top = await self.third.task(self.sender.lease.task)
        assert top is not None
        sharing = Sharing(self.third, "third", dict[str, Live]().get, partial(borrowed, self.third, "third"))
        await sharing.wake(session, top)
        await sharing.begin(session, lease.state, needs)
        await self.third.append(lease, [TaskStarted(woken=True)])

    async def more(self) -> bool:
        """Whether the agent gets more, while its sender answers claims."""
        asked = asyncio.ensure_future(self.asks.more(self.purse, "tokens", CALL, lambda _: None))

        async def answered() -> bool:
            if not asked.done():
                await self.sender.sharing.heed()
            return asked.done()

        await until(answered, "the agent has an answer")
        return asked.result()

    async def given_out(self) -> int:
        """What all others than the conversation may spend, as the journals say."""
        top = await self.third.task(self.sender.lease.task)
        assert top is not None
        return (await set_aside_below(self.third, top))["tokens"]


@pytest.fixture
async def room(tmp_path: Path) -> AsyncGenerator[Room]:
    path = tmp_path / "gencode.db"
    here, there, third = await SqliteStore.open(path), await Halting.open(path), await SqliteStore.open(path)
    assert isinstance(there, Halting)
    try:
        yield await Room(here, there, third).opened()
    finally:
        for store in (here, there, third):
            await store.close()


async def test_what_is_given_counts_where_its_sender_is_at_work_all_the_time(room: Room) -> None:
    assert await room.more()
    assert (room.purse.budget.tokens, await room.given_out()) == (TOOK + 100, TOOK + 100)


async def test_what_another_process_took_while_its_sender_rested_is_not_given_as_well(room: Room) -> None:
    """After its answer the sender rests, and is taken up again there, before the agent wrote it down."""

    async def meanwhile() -> None:
        await room.sender.rests()
        await room.another_takes_a_part(DEAR)
        await room.sender.is_taken_up()

    room.there.before = meanwhile
    assert not await room.more()
    assert room.purse.budget.tokens == TOOK
    assert await room.given_out() <= ALL


async def test_what_is_given_counts_where_its_sender_has_begun_again_with_what_both_left(room: Room) -> None:
    async def meanwhile() -> None:
        await room.sender.rests()
        await room.another_takes_a_part(CALL)
        await room.sender.begins_again()

    room.there.before = meanwhile
    assert await room.more()
    assert await room.given_out() == TOOK + 100 + 100
    assert room.sender.purse.left().tokens == ALL - TOOK - 100 - 100


async def test_nothing_is_given_before_a_sender_that_begins_again_has_looked_what_is_left(room: Room) -> None:
    await room.sender.rests()
    await room.another_takes_a_part(DEAR)
    await room.sender.is_taken_up()
    assert not await room.more()
    assert room.purse.budget.tokens == TOOK
    assert await room.given_out() <= ALL


async def test_what_an_agent_was_cut_before_it_had_for_sure_is_not_set_aside_for_ever(room: Room) -> None:
    """Its call is cut after it wrote down what it was given, and it goes on and asks again."""
    for _ in range(3):
        await room.there.append(room.agent, [BudgetSet(Budget(tokens=TOOK + 100))])
        room.sender.sent.widen({"tokens": 100})  # as when it was given
    assert await room.more()
    assert (room.purse.budget.tokens, room.sender.purse.left().tokens) == (TOOK + 100, ALL - TOOK - 100)
