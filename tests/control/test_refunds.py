"""Calls that wait for what others have of a budget: they say so, and one looks for all of them."""

import asyncio
from pathlib import Path

import pytest

from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.errors import StoreTrouble
from gencode.core.events import Event, ProgressMade
from gencode.delegation import refunds
from gencode.delegation.refunds import Refunds
from gencode.runtime.parts import WaitPart
from gencode.runtime.purse import BudgetSpent, Purse
from gencode.stores.memory import MemoryStore
from gencode.testing import says
from tests.control.test_shared_budgets import BEFORE, EXPLORE, MAIN, WAIT, Gate, begun, so, turns, woken
from tests.surfaces.running import SECONDS
from tests.waiting import until

CALLS = 4
LOOKS = 3


async def test_a_conversation_tells_whom_it_waits_for_and_goes_on_with_what_that_one_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refunds, "SILENT_SECONDS", 0.0)
    store = MemoryStore()
    session, tasks = await begun(store, tmp_path, Budget(turns=BEFORE + 9))
    there, here = Gate(main=[*MAIN[:2], *[MAIN[-1]] * 30]), Gate(Explore=[EXPLORE[0], says("found more")])
    heard: list[Event] = []

    async def lead(leader: GenCode) -> None:
        async for event in leader.ask(WAIT, session=session):
            heard.append(event)

    def told() -> list[ProgressMade]:
        return [each.fact for each in heard if isinstance(each.fact, ProgressMade)]

    async with (
        GenCode.open(tmp_path, model=there, store=store) as leader,
        GenCode.open(tmp_path, model=here, store=store) as other,
    ):
        led = asyncio.ensure_future(lead(leader))
        await so(store, session, lambda task: not task.status.ended)
        work = asyncio.ensure_future(woken(other, tasks[0], WAIT))
        await so(store, session, lambda task: bool(task.parts))
        there.open.set()
        await until(told, "the conversation says that it waits")
        here.open.set()
        await asyncio.gather(led, work)
    words = (
        "waits for what other processes may still spend of the budget of 15 turns of the session: 2 "
        f"({tasks[0]}). It goes on with what they leave, and ends when none of them spends anything for 60 s"
    )
    assert told() == [ProgressMade(words, note=True)]
    assert await turns(store) == BEFORE + 9


def lent(aside: int, waits: Refunds) -> Purse:
    """A purse of ten turns of which others have so many; calls wait for these."""
    purse = Purse("the session", Budget(turns=10))
    purse.set_aside({"turns": aside})
    purse.holders = tuple(f"task{number}" for number in range(7))
    purse.more = lambda kind, needs, tell: waits.more(purse, kind, needs, tell)
    return purse


async def test_one_looks_for_all_calls_that_wait_and_one_of_them_tells_a_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refunds, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(refunds, "LOOK_SECONDS", 0.01)
    looks, told = 0, list[WaitPart]()

    async def look(purse: Purse) -> bool:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0)
        purse.set_aside({"turns": 10 if looks < LOOKS else 10 - CALLS})
        return True

    purse = lent(10, Refunds(look))

    async def calls() -> None:
        (await purse.reserve(1, 0.0, tell=told.append)).settle(tokens=1, usd=0.0)

    await asyncio.gather(*(calls() for _ in range(CALLS)))
    assert looks < LOOKS + CALLS
    assert sorted(part.note for part in told) == [False] * (CALLS - 1) + [True]
    assert "(task0, task1, task2, task3, task4 and 2 more)" in told[0].why


async def test_what_is_given_back_in_the_same_process_is_known_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refunds, "LOOK_SECONDS", 1_000.0)
    looked = asyncio.Event()

    async def look(_: Purse) -> bool:
        looked.set()
        return True

    purse = lent(6, Refunds(look))
    agent = purse.below("agent Explore", Budget(turns=4))
    call = asyncio.ensure_future(purse.reserve(1, 0.0))
    await looked.wait()
    agent.close()
    async with asyncio.timeout(SECONDS / 2):
        assert (await call).flying


async def test_a_call_is_refused_when_nobody_spends_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refunds, "PATIENCE", 0.1)

    async def look(_: Purse) -> bool:
        return True

    with pytest.raises(BudgetSpent, match="spent or set aside for agents at work: task0"):
        await lent(10, Refunds(look)).reserve(1, 0.0)


async def test_who_waits_hears_that_it_cannot_be_looked_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refunds, "LOOK_SECONDS", 0.01)
    looks = 0

    async def look(_: Purse) -> bool:
        nonlocal looks
        looks += 1
        if looks == LOOKS:
            raise StoreTrouble("the journal is gone")
        return True

    purse = lent(10, Refunds(look))
    calls = (purse.reserve(1, 0.0) for _ in range(CALLS))
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(each) for each in ends] == ["the journal is gone"] * CALLS
