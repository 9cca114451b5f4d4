"""Budgets hold, whoever spends side by side: random trees of purses, random calls, random cuts.

GEN_EXAMPLES sets how many examples each property is tried with.
"""

import asyncio
import os
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from gencode.core.budget import Budget
from gencode.runtime.purse import BudgetSpent, Purse, Spent

EXAMPLES = settings(max_examples=int(os.environ.get("GEN_EXAMPLES", "100")), deadline=None)
LIMITED = ("turns", "tokens", "usd")


class Household:
    """Agents that call models, send agents with or without budgets, and are cut at any point."""

    def __init__(self, random: Random, cuts: float) -> None:
        self.random = random
        self.cuts = cuts
        self.agents = 0
        self.budget = self.some_budget(200)
        self.top = Purse("the session", self.budget)
        self.open: list[tuple[Purse, Budget]] = [(self.top, self.budget)]
        self.costs = Spent()
        self.sent: list[asyncio.Task[None]] = []

    def some_budget(self, most: int) -> Budget:
        def maybe(amount: int) -> int | None:
            return self.random.randrange(1, amount) if self.random.random() < 0.6 else None

        cents = maybe(most)
        usd = None if cents is None else cents / 100
        return Budget(turns=maybe(30), tokens=maybe(most), usd=usd, spawns=maybe(12))

    async def agent(self, purse: Purse, depth: int) -> None:
        children: list[asyncio.Task[None]] = []
        try:
            for _ in range(self.random.randrange(1, 6)):
                await self.call(purse)
                if depth < 4 and self.agents < 25 and self.random.random() < 0.6:
                    children.append(asyncio.create_task(self.child(purse, depth)))
                if children and self.random.random() < self.cuts:
                    self.random.choice(children).cancel()
        except BudgetSpent as refusal:
            assert_nothing_is_left(purse, refusal)
        finally:
            self.sent += children
            await asyncio.gather(*children, return_exceptions=True)

    async def child(self, parent: Purse, depth: int) -> None:
        self.agents += 1
        budget = self.some_budget(60) if self.random.random() < 0.7 else Budget()
        before = parent.left()
        try:
            purse = parent.below(f"agent {self.agents}", budget)
        except BudgetSpent:
            assert parent.left() == before
            return
        self.open.append((purse, budget))
        try:
            await self.agent(purse, depth + 1)
        finally:
            purse.close()

    async def call(self, purse: Purse) -> None:
        tokens, cents = self.random.randrange(40), self.random.randrange(40)
        reservation = await purse.reserve(tokens, cents / 100)
        try:
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            reservation.drop()
            raise
        if self.random.random() < 0.1:
            reservation.drop()
            return
        cost = Spent(1, self.random.randint(0, tokens), self.random.randint(0, cents) / 100)
        before = [(each.spent, budget) for each, budget in self.open if each in purse.upwards]
        reservation.settle(tokens=cost.tokens, usd=cost.usd)
        self.costs = Spent(
            self.costs.turns + 1, self.costs.tokens + cost.tokens, round(self.costs.usd + cost.usd, 2)
        )
        for spent, budget in before:
            assert_no_call_went_beyond(spent, cost, budget)


def assert_nothing_is_left(purse: Purse, refusal: BudgetSpent) -> None:
    """What is spent stays spent; what was set aside may have come back before the refused one heard of it."""
    left = purse.left()
    assert 0 in (left.turns, left.tokens, left.usd) or "set aside" in str(refusal)


def assert_no_call_went_beyond(spent: Spent, cost: Spent, budget: Budget) -> None:
    """Something was left when the call came to its end: so whatever is beyond the limit is of this call."""
    for kind in LIMITED:
        limit = getattr(budget, kind)
        assert limit is None or getattr(cost, kind) == 0 or getattr(spent, kind) < limit


async def live(random: Random, cuts: float) -> None:
    house = Household(random, cuts)
    async with asyncio.timeout(60):
        await house.agent(house.top, 0)
        endings = await asyncio.gather(*house.sent, return_exceptions=True)
    assert [each for each in endings if isinstance(each, Exception)] == []
    spent = house.top.spent
    assert Spent(spent.turns, spent.tokens, round(spent.usd, 2)) == house.costs
    assert [purse.calls for purse, _ in house.open] == [0] * len(house.open)
    assert house.top.left() == rest(house.budget, spent)


def rest(budget: Budget, spent: Spent) -> Budget:
    """What is left when nothing is set aside any more."""
    usd = None if budget.usd is None else max(0, round(budget.usd * 10**9) - round(spent.usd * 10**9)) / 10**9
    return Budget(
        turns=None if budget.turns is None else budget.turns - spent.turns,
        tokens=None if budget.tokens is None else max(0, budget.tokens - spent.tokens),
        usd=usd,
        spawns=None if budget.spawns is None else budget.spawns - spent.spawns,
    )


@EXAMPLES
@given(st.randoms(use_true_random=True))
def test_no_purse_is_exceeded_by_more_than_one_call_and_all_comes_back(random: Random) -> None:
    asyncio.run(live(random, cuts=0.0))


@EXAMPLES
@given(st.randoms(use_true_random=True))
def test_budgets_hold_also_when_agents_are_cut_at_any_point(random: Random) -> None:
    asyncio.run(live(random, cuts=0.5))


@EXAMPLES
@given(st.integers(1, 300), st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=30))
def test_many_who_spend_from_one_purse_exceed_it_by_one_call_at_most(
    limit: int, calls: list[tuple[int, int]]
) -> None:
    async def spend(purse: Purse, estimate: int, cost: int) -> int:
        reservation = await purse.reserve(estimate, None)
        await asyncio.sleep(0)
        reservation.settle(tokens=cost, usd=None)
        return cost

    async def all_at_once() -> tuple[int, list[int]]:
        top = Purse("the session", Budget(tokens=limit))
        each = [spend(top.below("x", Budget()), max(call), min(call)) for call in calls]
        async with asyncio.timeout(60):
            costs = await asyncio.gather(*each, return_exceptions=True)
        return top.spent.tokens, [cost for cost in costs if isinstance(cost, int)]

    spent, costs = asyncio.run(all_at_once())
    wanted = sum(min(call) for call in calls)
    assert spent == sum(costs)
    assert spent == wanted if spent < limit else spent - limit < max(costs)
