"""The promises of the `Changes` of a `Store` that several processes share."""

import asyncio
from collections.abc import Awaitable, Callable

from gencode.core.events import TaskCreated
from gencode.journal.store import Store
from tests.contracts.changes import SOON, writes
from tests.contracts.store import said

OpenTwice = Callable[[], Awaitable[tuple[Store, Store]]]
"""Opens one new store twice, as two processes would."""


async def test_whoever_waits_is_woken_by_whatever_another_process_writes(open_twice: OpenTwice) -> None:
    here, there = await open_twice()
    seen = here.changes.count
    for write in await writes(there):
        while (now := await here.changes.after(seen, 0.0)) != seen:
            seen = now
        await write()
        async with asyncio.timeout(SOON):
            before, seen = seen, await here.changes.after(seen)
        assert seen > before


async def test_nothing_of_another_process_is_missed_between_looking_and_waiting(
    open_twice: OpenTwice,
) -> None:
    here, there = await open_twice()
    lease = await there.create(TaskCreated(), "you")

    async def write() -> None:
        for number in range(50):
            await there.append(lease, [said(f"{number}")])
            await asyncio.sleep(0)

    async def look() -> int:
        seen = here.changes.count
        while len(events := await here.events(lease.task)) < 51:
            seen = await here.changes.after(seen)
        return len(events)

    async with asyncio.timeout(SOON):
        assert (await asyncio.gather(look(), write()))[0] == 51


async def test_two_that_write_to_each_other_hear_each_other(open_twice: OpenTwice) -> None:
    one, two = await open_twice()
    mine, yours = await one.create(TaskCreated(), "one"), await two.create(TaskCreated(), "two")

    async def play(store: Store, owner: str, to: str) -> None:
        seen = store.changes.count
        for number in range(5):
            await store.post(to, f"{number}", owner)
            while len(await store.posted_messages(owner)) <= number:
                seen = await store.changes.after(seen)

    async with asyncio.timeout(SOON):
        await asyncio.gather(play(one, "one", yours.task), play(two, "two", mine.task))
    assert [len(await one.unread_messages(task)) for task in (mine.task, yours.task)] == [5, 5]
