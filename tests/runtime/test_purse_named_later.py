"""Purses without a budget until one is named: what was spent and is in flight counts in it."""

import asyncio
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencode.core.budget import Budget
from gencode.runtime.purse import NO_PRICE, BudgetSpent, Purse, Spent

EXAMPLES = settings(max_examples=int(os.environ.get("GEN_EXAMPLES", "100")), deadline=None)
FREE = Budget()
REPLY = 50


async def test_a_call_in_flight_counts_in_a_budget_that_is_named_meanwhile() -> None:
    session = Purse("the session", FREE)
    agent = session.below("agent one", FREE)
    flies = await agent.reserve(80, 0.0)
    session.rebind(Budget(tokens=100))
    waits = asyncio.create_task(agent.reserve(30, 0.0))
    await asyncio.sleep(0)
    assert not waits.done()
    flies.settle(tokens=60, usd=0.0)
    (await waits).settle(tokens=30, usd=0.0)
    assert (session.spent, session.left()) == (Spent(2, 90, 0.0, 1), Budget(tokens=10))


async def test_what_was_spent_before_a_budget_is_named_counts_in_it_and_it_may_be_gone_at_once() -> None:
    session = Purse("the session", FREE)
    agent = session.below("agent one", FREE)
    (await agent.reserve(80, 0.0)).settle(tokens=80, usd=0.0)
    session.rebind(Budget(tokens=70))
    assert agent.bounded
    with pytest.raises(BudgetSpent) as spent:
        await agent.reserve(1, 0.0)
    assert str(spent.value) == "The budget of 70 tokens of the session is spent."


async def test_dollars_that_are_named_for_a_model_without_a_price_end_its_next_call() -> None:
    session = Purse("the session", FREE)
    (await session.reserve(10, None)).settle(tokens=10, usd=None)
    session.rebind(Budget(usd=1.0))
    with pytest.raises(BudgetSpent) as spent:
        await session.reserve(10, None)
    assert str(spent.value) == NO_PRICE


async def test_calls_of_others_where_nothing_is_bounded_make_no_reply_shorter() -> None:
    session = Purse("the session", FREE)
    one, other = session.below("agent one", Budget(tokens=900)), session.below("agent other", FREE)
    beside = await other.reserve(80, 0.0, REPLY)
    alone = await one.reserve(80, 0.0, REPLY)
    second = await one.reserve(80, 0.0, REPLY)
    assert [each.reply for each in (beside, alone, second)] == [None, None, REPLY]


async def test_who_may_exceed_a_budget_elsewhere_hinders_nobody_where_nothing_is_bounded() -> None:
    session = Purse("the session", FREE)
    one, other = session.below("agent one", Budget(tokens=900)), session.below("agent other", FREE)
    assert one.lend()
    loose = await other.reserve(80, 0.0, REPLY)
    session.rebind(Budget(tokens=2000))
    assert (session.firm, loose.reply, session.loose) == (False, None, 1)
    one.close()
    assert session.lent == 0


class Crowd:
    """Agents without a budget that call models side by side, until one is named for all of them."""

    def __init__(self) -> None:
        self.top = Purse("the session", FREE)
        self.flying: dict[object, int] = {}

    async def spends(self, calls: list[tuple[int, int, int]]) -> None:
        """One agent makes these calls: what each may cost at most, does cost, and how long it takes."""
        purse = self.top.below("agent", FREE)
        for most, least, pause in calls:
            reservation = await purse.reserve(max(most, least), 0.0)
            self.flying[reservation] = min(most, least)
            for _ in range(pause):
                await asyncio.sleep(0)
            reservation.settle(tokens=self.flying.pop(reservation), usd=0.0)

    async def is_bounded(self, limit: int, after: int) -> int:
        """How much is spent or under way when the budget is named."""
        for _ in range(after):
            await asyncio.sleep(0)
        self.top.rebind(Budget(tokens=limit))
        return self.top.spent.tokens + sum(self.flying.values())


CALLS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 3)), max_size=6)


@EXAMPLES
@given(st.integers(1, 300), st.integers(0, 12), st.lists(CALLS, max_size=8))
def test_whenever_it_is_named_what_comes_after_exceeds_it_by_one_call_at_most(
    limit: int, after: int, agents: list[list[tuple[int, int, int]]]
) -> None:
    async def lives() -> tuple[int, int]:
        crowd = Crowd()
        async with asyncio.timeout(60):
            named, *ended = await asyncio.gather(
                crowd.is_bounded(limit, after), *map(crowd.spends, agents), return_exceptions=True
            )
        assert isinstance(named, int)
        assert all(each is None or isinstance(each, BudgetSpent) for each in ended)
        return named, crowd.top.spent.tokens

    named, spent = asyncio.run(lives())
    costs = [min(most, least) for calls in agents for most, least, _ in calls]
    wanted = sum(costs)
    assert spent == wanted if wanted < limit else spent <= max(named, limit - 1 + max(costs))
