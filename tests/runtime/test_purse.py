"""Purses: what is refused, what is set aside, who waits for whom."""

import asyncio

import pytest

from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.runtime.purse import BudgetSpent, Purse, Reservation, Spent

SESSION = "the session"


def session(budget: Budget) -> Purse:
    return Purse(SESSION, budget)


async def spend(purse: Purse, tokens: int, usd: float = 0.0) -> None:
    (await purse.reserve(tokens, usd)).settle(tokens=tokens, usd=usd)


async def settled() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def reserving(purse: Purse, tokens: int) -> "asyncio.Task[Reservation]":
    return asyncio.create_task(purse.reserve(tokens, 0.0))


def refused(purse: Purse, budget: Budget) -> str:
    with pytest.raises(BudgetSpent) as caught:
        purse.below("a child", budget)
    return str(caught.value)


def test_a_purse_is_bounded_by_any_limit_from_itself_up() -> None:
    free = session(Budget())
    limited = session(Budget(turns=1))
    assert [each.bounded for each in (free, free.below("x", Budget(usd=1.0)), limited)] == [False, True, True]
    assert limited.below("x", Budget()).bounded
    assert not session(Budget(seconds=5)).bounded


async def test_what_is_spent_below_is_counted_above() -> None:
    top = session(Budget(tokens=1_000))
    child = top.below("a", Budget())
    grandchild = child.below("b", Budget(tokens=500))
    await spend(grandchild, 100, 0.25)
    await spend(child, 10)
    assert top.spent == Spent(turns=2, tokens=110, usd=0.25, spawns=2)
    assert child.spent == Spent(turns=2, tokens=110, usd=0.25, spawns=1)
    assert grandchild.spent == Spent(turns=1, tokens=100, usd=0.25)


async def test_a_budget_named_for_a_child_is_set_aside_and_comes_back() -> None:
    top = session(Budget(turns=20, tokens=1_000, usd=1.0, spawns=5))
    child = top.below("a", Budget(turns=5, tokens=400, usd=0.4, spawns=2))
    await spend(child, 100, 0.1)
    assert top.left() == Budget(turns=15, tokens=600, usd=0.6, spawns=2)
    assert child.left() == Budget(turns=4, tokens=300, usd=0.3, spawns=2)
    child.close()
    child.close()
    assert top.left() == Budget(turns=19, tokens=900, usd=0.9, spawns=4)


async def test_what_a_purse_sets_aside_is_not_set_aside_twice_above_it() -> None:
    top = session(Budget(tokens=1_000))
    child = top.below("a", Budget(tokens=400))
    grandchild = child.below("b", Budget(tokens=300))
    lefts = [each.left().tokens for each in (top, child, grandchild)]
    assert lefts == [600, 100, 300]
    child.close()
    assert top.left().tokens == 700
    grandchild.close()
    assert top.left() == Budget(tokens=1_000)


async def test_a_child_without_a_limit_spends_what_its_parent_has_left() -> None:
    top = session(Budget(tokens=1_000, turns=9))
    child = top.below("a", Budget(turns=3))
    await spend(child, 250)
    assert (top.left(), child.left()) == (Budget(tokens=750, turns=6), Budget(tokens=750, turns=2))


async def test_more_than_is_left_is_refused_with_both_numbers() -> None:
    top = session(Budget(tokens=10_000, usd=1.0, turns=5, spawns=3))
    await spend(top, 7_000, 0.5)
    assert refused(top, Budget(tokens=5_000)) == (
        "The budget of the session has 3,000 of 10,000 tokens left; 5,000 were asked for. Ask for less."
    )
    assert refused(top, Budget(usd=0.75)) == (
        "The budget of the session has 0.50 of 1.00 USD left; 0.75 were asked for. Ask for less."
    )
    assert refused(top, Budget(turns=5)) == (
        "The budget of the session has 4 of 5 turns left; 5 were asked for. Ask for less."
    )
    assert refused(top, Budget(spawns=3)) == (
        "The budget of the session has 3 of 3 agents left; 3 were asked for, and the agent itself counts as "
        "one. Ask for less."
    )
    assert top.left() == Budget(tokens=3_000, usd=0.5, turns=4, spawns=3)


async def test_a_grandchild_cannot_get_more_than_its_parent_has() -> None:
    top = session(Budget(tokens=10_000))
    child = top.below("task 1", Budget(tokens=400))
    assert refused(child, Budget(tokens=500)) == (
        "The budget of task 1 has 400 of 400 tokens left; 500 were asked for. Ask for less."
    )
    unlimited = top.below("task 2", Budget())
    assert refused(unlimited, Budget(tokens=9_700)) == (
        "The budget of the session has 9,600 of 10,000 tokens left; 9,700 were asked for. Ask for less."
    )


async def test_nobody_is_sent_when_nothing_is_left_of_something() -> None:
    tokens = session(Budget(tokens=100))
    await spend(tokens, 100)
    turns = session(Budget(turns=1))
    await spend(turns, 5)
    spawns = session(Budget(spawns=1))
    middle = spawns.below("a", Budget())
    money = Purse("task 1", Budget(usd=0.0125), spent=Spent(usd=0.5))
    aside = session(Budget(tokens=1_000))
    aside.below("a", Budget(tokens=1_000))
    assert [refused(each, Budget()) for each in (tokens, turns, middle, money, aside)] == [
        "The budget of 100 tokens of the session is spent.",
        "The budget of 1 turn of the session is spent.",
        "The budget of 1 agent of the session is spent.",
        "The budget of 0.0125 USD of task 1 is spent.",
        "The budget of 1,000 tokens of the session is spent or set aside for agents at work.",
    ]
    assert middle.spent == Spent()


async def test_one_that_goes_on_asks_only_for_what_it_has_not_spent() -> None:
    top = session(Budget(tokens=1_000, spawns=1))
    child = top.below("a", Budget(tokens=600))
    await spend(child, 500)
    child.close()
    later = top.below("a", Budget(tokens=600), child.spent, again=True)
    assert (top.left(), later.left()) == (Budget(tokens=400, spawns=0), Budget(tokens=100, spawns=0))
    await spend(later, 50)
    later.close()
    assert (top.spent, later.spent) == (Spent(2, 550, 0.0, 1), Spent(2, 550, 0.0))


async def test_a_spent_limit_stops_the_next_call_and_names_its_owner() -> None:
    top = session(Budget(tokens=10_000))
    child = top.below("task 1", Budget(tokens=50))
    await spend(child, 60)
    with pytest.raises(BudgetSpent) as caught:
        await child.reserve(1, 0.0)
    assert str(caught.value) == "The budget of 50 tokens of task 1 is spent."
    await spend(top, 9_940)
    with pytest.raises(BudgetSpent) as caught:
        await top.reserve(0, 0.0)
    assert str(caught.value) == "The budget of 10,000 tokens of the session is spent."


async def test_what_is_set_aside_for_one_is_spent_by_nobody_else() -> None:
    top = session(Budget(tokens=1_000))
    child = top.below("a", Budget(tokens=1_000))
    with pytest.raises(BudgetSpent) as caught:
        await top.reserve(1, 0.0)
    assert str(caught.value) == (
        "The budget of 1,000 tokens of the session is spent or set aside for agents at work."
    )
    await spend(child, 1_000)
    assert child.spent.tokens == 1_000


async def test_an_overdrawn_sibling_does_not_take_what_is_set_aside_for_another() -> None:
    top = session(Budget(tokens=1_000))
    first, second = top.below("a", Budget(tokens=500)), top.below("b", Budget(tokens=500))
    await spend(first, 499)
    await spend(first, 300)
    assert second.left() == Budget(tokens=201)
    await spend(second, 200)
    await spend(second, 200)
    with pytest.raises(BudgetSpent):
        await second.reserve(1, 0.0)
    assert top.spent.tokens == 1_199


async def test_an_unknown_price_cannot_keep_a_budget_of_money() -> None:
    top = session(Budget(usd=1.0))
    for price in (None, float("nan"), float("inf")):
        with pytest.raises(UserMistake) as caught:
            await top.below("a", Budget()).reserve(5, price)
        assert str(caught.value) == (
            "The price of the model is not known, so a budget in USD cannot be kept: give its price under "
            "[prices] in the settings, or limit tokens or turns instead."
        )
    assert top.calls == 0
    (await session(Budget(tokens=5)).reserve(5, None)).settle(tokens=5, usd=None)


async def test_a_price_that_is_not_known_afterwards_counts_as_estimated() -> None:
    top = session(Budget(usd=1.0))
    (await top.reserve(5, 0.3)).settle(tokens=5, usd=None)
    (await top.reserve(5, 0.3)).settle(tokens=-5, usd=-7.0)
    assert top.spent == Spent(2, 5, 0.3)


async def test_calls_that_fit_go_side_by_side_and_the_one_that_might_not_waits_for_them() -> None:
    top = session(Budget(tokens=100))
    first, second = await top.reserve(40, 0.0), await top.below("a", Budget()).reserve(40, 0.0)
    waiting = reserving(top, 40)
    await settled()
    first.settle(tokens=5, usd=0.0)
    assert await waiting
    assert top.left().tokens == 95
    second.drop()
    assert top.spent == Spent(1, 5, spawns=1)


async def test_a_call_that_might_not_fit_goes_alone_while_something_is_left() -> None:
    top = session(Budget(tokens=100))
    small = await top.reserve(40, 0.0)
    big, later = reserving(top, 900), reserving(top, 1)
    await settled()
    assert (big.done(), later.done()) == (False, False)
    small.settle(tokens=40, usd=0.0)
    await settled()
    assert (big.done(), later.done()) == (True, False)
    (await big).settle(tokens=60, usd=0.0)
    with pytest.raises(BudgetSpent):
        await later
    assert top.spent == Spent(2, 100)


async def test_nobody_passes_one_that_waits_for_the_same_purse() -> None:
    child = session(Budget()).below("a", Budget(tokens=100))
    flying = await child.reserve(50, 0.0)
    big, small = reserving(child, 90), reserving(child.below("b", Budget()), 10)
    await settled()
    assert (big.done(), small.done()) == (False, False)
    flying.settle(tokens=0, usd=0.0)
    assert [(await each).flying for each in (big, small)] == [True, True]


async def test_one_that_waits_for_its_own_purse_lets_calls_of_other_purses_pass() -> None:
    top = session(Budget(tokens=10_000))
    narrow, wide = top.below("a", Budget(tokens=100)), top.below("b", Budget())
    flying = await narrow.reserve(80, 0.0)
    waiting = reserving(narrow, 80)
    await settled()
    await spend(wide, 500)
    assert not waiting.done()
    flying.drop()
    (await waiting).drop()
    assert top.spent == Spent(1, 500, spawns=2)


async def test_a_closed_purse_lets_those_go_who_now_fit() -> None:
    top = session(Budget(tokens=100))
    child = top.below("a", Budget(tokens=50))
    flying = await top.reserve(10, 0.0)
    waiting = reserving(top, 60)
    await settled()
    assert not waiting.done()
    child.close()
    (await waiting).drop()
    flying.drop()
    assert top.left() == Budget(tokens=100)


async def test_one_that_is_cancelled_while_it_waits_lets_those_behind_it_go() -> None:
    top = session(Budget(tokens=100))
    flying = await top.reserve(50, 0.0)
    big, small = reserving(top, 90), reserving(top, 30)
    await settled()
    big.cancel()
    (await small).settle(tokens=30, usd=0.0)
    flying.settle(tokens=50, usd=0.0)
    assert (big.cancelled(), top.spent, top.calls) == (True, Spent(2, 80), 0)


async def test_a_cancel_in_the_tick_of_the_answer_keeps_nothing() -> None:
    top = session(Budget(tokens=100))
    flying = await top.reserve(50, 0.0)
    unlucky, following = reserving(top, 100), reserving(top, 100)
    await settled()
    flying.settle(tokens=1, usd=0.0)
    unlucky.cancel()
    (await following).settle(tokens=99, usd=0.0)
    assert (unlucky.cancelled(), top.spent, top.calls) == (True, Spent(2, 100), 0)


async def test_a_reservation_ends_once() -> None:
    top = session(Budget(tokens=100))
    reservation = await top.reserve(50, 0.0)
    reservation.settle(tokens=10, usd=0.0)
    reservation.settle(tokens=10, usd=0.0)
    reservation.drop()
    assert (top.spent, top.calls, top.left()) == (Spent(1, 10), 0, Budget(tokens=90))


async def test_an_estimate_that_was_too_low_is_counted_as_it_came() -> None:
    top = session(Budget(tokens=100, turns=9))
    first, second = await top.reserve(50, 0.0), await top.reserve(50, 0.0)
    first.settle(tokens=500, usd=0.0, turns=2)
    second.settle(tokens=1, usd=0.0)
    assert (top.spent, top.left()) == (Spent(3, 501), Budget(tokens=0, turns=6))


async def test_what_another_process_spent_is_paid_afterwards_and_wakes_those_who_wait() -> None:
    top = session(Budget(tokens=100))
    child = top.below("a", Budget(tokens=40))
    flying = await top.reserve(40, 0.0)
    waiting = reserving(top, 40)
    await settled()
    child.pay(Spent(3, 60, float("inf")))
    assert (child.spent, top.left()) == (Spent(3, 60), Budget(tokens=40))
    flying.settle(tokens=40, usd=0.0)
    with pytest.raises(BudgetSpent):
        await waiting
    assert top.spent == Spent(4, 100, spawns=1)


async def test_what_a_bigger_budget_gives_has_to_be_asked_for_where_only_a_part_may_be_spent() -> None:
    purse = session(Budget(tokens=100, turns=5))
    await spend(purse, 10)
    purse.parted = True
    purse.set_aside({"tokens": 60, "turns": 2})
    before = purse.left()
    purse.rebind(Budget(tokens=300, turns=9, usd=1.0))
    assert purse.left() == Budget(tokens=before.tokens, turns=before.turns, usd=0.0)
    purse.rebind(Budget(tokens=50))
    assert (purse.left(), purse.accounts["tokens"].elsewhere) == (Budget(tokens=30), 10)


async def test_another_budget_counts_for_all_who_are_at_work() -> None:
    purse = session(Budget(tokens=100))
    child = purse.below("a child", Budget())
    held = await child.reserve(90, 0.0)
    waiting = reserving(child, 50)
    await settled()
    assert not waiting.done()
    purse.rebind(Budget(tokens=200))
    (await waiting).drop()
    held.settle(tokens=90, usd=0.0)
    purse.rebind(Budget(tokens=80))
    with pytest.raises(BudgetSpent, match="The budget of 80 tokens of the session is spent"):
        await child.reserve(1, 0.0)


async def test_while_one_elsewhere_may_exceed_a_budget_the_calls_of_all_others_have_to_fit() -> None:
    purse = session(Budget(tokens=100))
    one, other = purse.below("one", Budget(tokens=40)), purse.below("other", Budget(tokens=20))
    assert (one.lend(), other.lend()) == (True, False)
    await spend(purse, 40)
    with pytest.raises(BudgetSpent) as refused:
        await purse.reserve(1, 0.0)
    assert str(refused.value) == (
        "The budget of 100 tokens of the session is spent or set aside for agents at work."
    )
    one.close()
    one.close()
    assert other.lend()
    other.take_back()
    call = await purse.reserve(90, 0.0)
    assert not purse.below("a third", Budget(tokens=10)).lend()
    call.settle(tokens=60, usd=0.0)


async def test_an_agent_that_is_not_sent_after_all_does_not_count() -> None:
    purse = session(Budget(tokens=100, spawns=2))
    for _ in range(3):
        purse.below("a child", Budget(tokens=60)).take_back()
    assert (purse.left(), purse.spent) == (Budget(tokens=100, spawns=2), Spent())


async def test_what_is_in_flight_when_a_budget_is_named_is_kept_for_it_from_then_on() -> None:
    top = session(Budget())
    child = top.below("a", Budget())
    flights = [child.fly(lambda: (60, 0.0)), top.fly(lambda: (30, 0.0))]
    top.rebind(Budget(tokens=100))
    assert (top.calls, child.calls, top.loose, top.accounts["tokens"].load) == (2, 1, 2, 90)
    assert top.turnstile.free == {}
    waits = reserving(child, 50)
    await asyncio.sleep(0)
    assert not waits.done()
    flights[0].settle(tokens=10, usd=0.0)
    flights[1].settle(tokens=20, usd=0.0)
    (await waits).settle(tokens=50, usd=0.0)
    assert (top.spent, top.accounts["tokens"].load) == (Spent(turns=3, tokens=80, spawns=1), 80)
    assert (top.calls, top.loose) == (0, 0)


async def test_a_call_that_nothing_bounds_is_counted_when_it_lands() -> None:
    top = session(Budget())
    top.fly(lambda: (60, 0.0)).settle(tokens=10, usd=0.5)
    top.fly(lambda: (60, 0.0)).drop()
    assert (top.spent, top.calls, top.turnstile.free) == (Spent(turns=1, tokens=10, usd=0.5), 0, {})
