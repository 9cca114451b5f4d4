"""The promises of the `Changes` of a `Store`: who waits hears of whatever is written, and misses nothing."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gencode.core.errors import StoreTrouble
from gencode.core.events import TaskCreated
from gencode.journal.store import Store, TaskSignal
from tests.contracts.store import OpenStore, said

SOON = 30.0
"""So long a test waits for what comes at once, however slow the machine is."""

Write = Callable[[], Awaitable[object]]


async def writes(store: Store) -> list[Write]:
    """One write of each kind that somebody may wait for."""
    lease, other = await store.create(TaskCreated(), "me"), await store.create(TaskCreated(), "me")
    held = await store.create(TaskCreated(), "you")
    return [
        lambda: store.create(TaskCreated(), "me"),
        lambda: store.append(lease, [said("something")]),
        lambda: store.send_signal(lease.task, TaskSignal.STOP),
        lambda: store.post(lease.task, "hello", "user"),
        lambda: store.release(held),
        lambda: store.take(held.task, "me"),
        lambda: store.append(other, [said("the last")], last=True),
        lambda: store.delete(other.task),
    ]


async def test_what_is_written_between_looking_and_waiting_is_not_missed(open_store: OpenStore) -> None:
    store = await open_store()
    for write in await writes(store):
        seen = store.changes.count
        await write()
        async with asyncio.timeout(SOON):
            assert await store.changes.after(seen) > seen


async def test_whoever_waits_is_woken_by_whatever_is_written_here(open_store: OpenStore) -> None:
    store = await open_store()
    for write in await writes(store):
        seen = store.changes.count
        waiting = asyncio.ensure_future(store.changes.after(seen))
        await asyncio.sleep(0)
        await write()
        async with asyncio.timeout(SOON):
            assert await waiting > seen


async def test_who_has_seen_all_waits_until_the_time_is_over(open_store: OpenStore) -> None:
    store = await open_store()
    await store.create(TaskCreated(), "me")
    seen = store.changes.count
    while (now := await store.changes.after(seen, 0.0)) != seen:  # what was written before may still be told
        seen = now
    assert await store.changes.after(seen, 0.0) == seen


async def test_a_thousand_are_woken_by_one_change(open_store: OpenStore) -> None:
    store = await open_store()
    seen = store.changes.count
    waiting = [asyncio.ensure_future(store.changes.after(seen)) for _ in range(1000)]
    await asyncio.sleep(0)
    await store.create(TaskCreated(), "me")
    async with asyncio.timeout(SOON):
        assert all(count > seen for count in await asyncio.gather(*waiting))


async def test_many_changes_in_a_row_are_all_heard_of_by_who_looks_after_each_wake(
    open_store: OpenStore,
) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")

    async def write() -> None:
        for number in range(50):
            await store.append(lease, [said(f"{number}")])

    async def look() -> int:
        seen, looks = store.changes.count, 0
        while len(await store.events(lease.task)) < 51:
            seen, looks = await store.changes.after(seen), looks + 1
        return looks

    async with asyncio.timeout(SOON):
        looks, _ = await asyncio.gather(look(), write())
    assert looks <= 51


async def test_who_waits_no_more_leaves_nothing_behind(open_store: OpenStore) -> None:
    store = await open_store()
    waiting = asyncio.ensure_future(store.changes.after(store.changes.count))
    await asyncio.sleep(0)
    assert store.changes.awaited
    waiting.cancel()
    await asyncio.wait([waiting])
    assert (waiting.cancelled(), store.changes.awaited) == (True, False)


async def test_a_store_that_is_closed_keeps_nobody_waiting(open_store: OpenStore) -> None:
    store = await open_store()
    seen = store.changes.count
    waiting = asyncio.ensure_future(store.changes.after(seen))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StoreTrouble, match="was closed"):
        await waiting
    with pytest.raises(StoreTrouble, match="was closed"):
        await store.changes.after(seen)
