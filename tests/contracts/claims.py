"""Promises of the `Claims` port: a claim is seen where the budget is spent, until it is answered."""

import asyncio
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.events import TaskCreated, TaskStarted
from gencode.runtime.claims import Claim
from tests.contracts.store import OpenStore
from tests.waiting import until


class Later(Struct):
    """A claim of another version, which says nothing to this one."""

    via: str


async def spending(store: Any, owner: str) -> str:
    return (await store.create(TaskCreated(conversation=True), owner, [TaskStarted()])).task


def claim(via: str, number: int = 1) -> Claim:
    return Claim("top", via, f"asker {number}", ("one", "zwei \u2192"), {"turns": 1, "usd": number})


async def seen(store: Any, owner: str, *numbers: int) -> list[Claim]:
    """The claims of an owner, once they are these."""
    found: list[tuple[int, Claim]] = []

    async def looked() -> bool:
        found[:] = await store.claims.at(owner) or found
        return [number for number, _ in found] == [*numbers]

    await until(looked)
    return [each for _, each in found]


async def test_a_claim_is_seen_by_whoever_has_the_task_at_work_until_it_is_dropped(
    open_store: OpenStore,
) -> None:
    store: Any = await open_store()
    mine, others = await spending(store, "me"), await spending(store, "other")
    first = await store.claims.put(claim(mine))
    second = await store.claims.put(claim(mine, 2))
    elsewhere = await store.claims.put(claim(others, 3))
    assert await seen(store, "me", first, second) == [claim(mine), claim(mine, 2)]
    assert await seen(store, "other", elsewhere) == [claim(others, 3)]
    await store.claims.drop(first)
    assert [await store.claims.waits(each) for each in (first, second, elsewhere)] == [False, True, True]
    await store.claims.put(claim(others, 4))
    await asyncio.gather(*(store.claims.drop(each) for each in (first, second)))
    assert not await store.claims.waits(second)


async def test_what_is_given_with_a_claim_is_had_once_by_who_takes_it_away(open_store: OpenStore) -> None:
    store: Any = await open_store()
    mine = await spending(store, "me")
    first, second = [await store.claims.put(claim(mine, number)) for number in (1, 2)]
    assert await store.claims.give(first, replace(claim(mine), given={"usd": 7}))
    assert await seen(store, "me", second) == [claim(mine, 2)]
    assert [await store.claims.waits(each) for each in (first, second)] == [False, True]
    assert [await store.claims.drop(each) for each in (first, second, first)] == [{"usd": 7}, {}, {}]
    assert not await store.claims.give(first, replace(claim(mine), given={"usd": 7}))
    assert await store.claims.drop(first) == {}


async def test_a_claim_goes_to_who_takes_the_task_over(open_store: OpenStore) -> None:
    store: Any = await open_store()
    task = await spending(store, "dead")
    number = await store.claims.put(claim(task))
    await store.take(task, "heir", "dead")
    assert await seen(store, "heir", number) == [claim(task)]
    assert await store.claims.at("dead") == []


async def test_a_claim_on_a_task_that_is_gone_is_seen_by_nobody(open_store: OpenStore) -> None:
    store: Any = await open_store()
    there = await store.claims.put(claim(await spending(store, "me")))
    gone = await store.claims.put(claim("gone"))
    assert [number for number, _ in await store.claims.at("me")] == [there]
    await store.claims.drop(gone)
    assert not await store.claims.waits(gone)


async def beside_another_version(open_store: OpenStore) -> tuple[list[str], bool]:
    """Who is seen to claim something beside what cannot be read, and whether that still lies there."""
    store: Any = await open_store()
    mine = await spending(store, "me")
    lost = await store.claims.put(Later(mine))
    number = await store.claims.put(claim(mine))
    return [each.owner for each in await seen(store, "me", number)], await store.claims.waits(lost)
