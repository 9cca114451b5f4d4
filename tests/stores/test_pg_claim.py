"""A task that waits is taken and begun in one step: by one owner, as it was seen, or not at all."""

import asyncio
import os
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from gencode.core.errors import Fenced, UserMistake
from gencode.core.events import MessageAdded, TaskCreated, TaskEnded, TaskStarted
from gencode.core.messages import UserMessage
from gencode.core.status import EndReason, Status
from gencode.core.task import Task, replay
from gencode.journal.store import Lease, TaskSignal
from tests.postgres import Postgres
from tests.stores.lost_connection import first_replies_lost

pytestmark = pytest.mark.needs("postgres")

ROUNDS = int(os.environ.get("GEN_EXAMPLES", "50")) // 5
FIRST = (TaskStarted(), MessageAdded(UserMessage("look")))


@pytest.fixture
async def opened(postgres: Postgres) -> AsyncGenerator[Any]:
    """Opens stores on one schema."""
    from gencode.stores.pg_fleet import FleetStore

    url = postgres.new_schema()
    stores: list[FleetStore] = []

    async def one(**words: Any) -> FleetStore:
        stores.append(await FleetStore.open(url, **words))
        return stores[-1]

    yield one
    for store in stores:
        await store.close()


async def sent(store: Any) -> Task:
    """A task that waits for a worker, as one of them sees it."""

    async def no_queue(_connection: Any, _task: str) -> None:
        pass

    task = await store.submit(TaskCreated(agent="Explore", prompt="look"), b"{}", no_queue)
    seen: Task = (await store.dispatched(task)).seen
    return seen


async def test_its_first_facts_are_written_and_its_lease_is_good_for_more(opened: Any) -> None:
    store = await opened()
    seen = await sent(store)
    assert seen == await store.task(seen.id)
    lease, events = await store.begin(seen, "me", FIRST)
    assert [event.fact for event in events] == [*FIRST]
    assert (lease.owner, lease.epoch, lease.state) == ("me", 1, await store.task(seen.id))
    assert (await store.dispatched(seen.id)).seen is None
    await store.append(lease, [TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED)], last=True)
    written = await store.events(seen.id)
    assert [event.seq for event in written] == [1, 2, 3, 4]
    assert replay(written) == lease.state


async def test_one_of_two_stores_wins_every_beginning(opened: Any) -> None:
    one, two = await opened(), await opened()
    for _ in range(ROUNDS):
        seen = await sent(one)
        both = (one.begin(seen, "one", FIRST), two.begin(seen, "two", FIRST))
        outcomes = cast("list[object]", await asyncio.gather(*both, return_exceptions=True))
        refused = [each for each in outcomes if isinstance(each, UserMistake | Fenced)]
        assert (len(outcomes), len(refused)) == (2, 1), outcomes
        assert len(await two.events(seen.id)) == 3


async def test_it_is_not_begun_while_somebody_has_it_or_when_it_is_not_as_it_was_seen(opened: Any) -> None:
    store = await opened()
    seen = await sent(store)
    lease = await store.take(seen.id, "other")
    with pytest.raises(UserMistake, match="is running"):
        await store.begin(seen, "me", FIRST)
    await store.append(lease, [TaskEnded(Status.CANCELLED, reason=EndReason.STOPPED)], last=True)
    with pytest.raises(Fenced):
        await store.begin(seen, "me", FIRST)
    await store.delete(seen.id)
    with pytest.raises(UserMistake, match="no task"):
        await store.begin(seen, "me", FIRST)


async def test_it_is_begun_in_the_place_of_its_keeper_and_a_stop_that_was_asked_for_counts(
    opened: Any,
) -> None:
    store = await opened()
    seen = await sent(store)
    await store.take(seen.id, "keeper")
    assert await store.send_signal(seen.id, TaskSignal.STOP)
    lease, _ = await store.begin(seen, "me", FIRST, instead_of="keeper")
    assert (lease.epoch, await store.signals("me")) == (2, [(seen.id, TaskSignal.STOP)])


async def test_an_owner_that_was_given_up_begins_nothing(opened: Any) -> None:
    store = await opened()
    seen = await sent(store)
    store.give_up("me")
    with pytest.raises(Fenced):
        await store.begin(seen, "me", FIRST)
    assert len(await store.events(seen.id)) == 1


async def test_a_reply_that_got_lost_is_not_taken_for_somebody_else(opened: Any) -> None:
    store = await opened()
    seen = await sent(store)
    with first_replies_lost(store):
        lease, events = await store.begin(seen, "me", FIRST)
    assert isinstance(lease, Lease) and lease.epoch == 1
    assert await store.events(seen.id, 1) == events
    await store.append(lease, [TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED)], last=True)
