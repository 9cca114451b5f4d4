"""Slots: who is at work, who waits, and that nothing gets lost."""

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agent.work_queue import QueueEntry, Slot, SlotPool, order_of_starts
from gencode.core.errors import UserMistake

MODEL = "local/small"


async def settled() -> None:
    """Let every task come to its next wait."""
    for _ in range(3):
        await asyncio.sleep(0)


def taking(slot: Slot) -> "asyncio.Task[None]":
    return asyncio.create_task(slot.take())


async def cancelled(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("most", "caps", "sentence"),
    [
        (0, {}, "A limit of 0 agents at once would let none run; use at least 1."),
        (-3, {}, "A limit of -3 agents at once would let none run; use at least 1."),
        (4, {"x/y": 0}, "A limit of 0 agents of x/y at once would let none run; use at least 1."),
    ],
)
def test_a_cap_that_lets_nobody_work_is_a_mistake(most: int, caps: Mapping[str, int], sentence: str) -> None:
    with pytest.raises(UserMistake) as caught:
        SlotPool(most, caps)
    assert str(caught.value) == sentence


async def test_a_free_slot_is_taken_at_once_and_taking_it_twice_takes_one() -> None:
    slots = SlotPool(2)
    first, second, third = (slots.slot(key, "main", MODEL) for key in "abc")
    assert (first.try_acquire(), first.try_acquire()) == (True, True)
    await first.take()
    await second.take()
    assert (third.try_acquire(), first.held, second.held, third.held) == (False, True, True, False)


async def test_a_slot_that_is_given_back_twice_is_free_once() -> None:
    slots = SlotPool(2)
    first, second, third, fourth = (slots.slot(key, "main", MODEL) for key in "abcd")
    await first.take()
    await second.take()
    first.release()
    first.release()
    assert (third.try_acquire(), fourth.try_acquire()) == (True, False)


async def test_over_the_cap_one_waits_with_a_visible_position() -> None:
    slots = SlotPool(1)
    busy, *others = (slots.slot(key, "main", MODEL) for key in "abc")
    await busy.take()
    tasks = [taking(slot) for slot in others]
    await settled()
    assert (slots.waiting(), [slot.waits for slot in (busy, *others)]) == (["b", "c"], [False, True, True])
    busy.release()
    await tasks[0]
    assert (slots.waiting(), [slot.waits for slot in (busy, *others)]) == (["c"], [False, False, True])
    await cancelled(tasks[1])
    assert (slots.waiting(), others[1].waits) == ([], False)


async def test_one_that_waits_cannot_be_waited_for_twice() -> None:
    slots = SlotPool(1)
    busy, other = slots.slot("a", "main", MODEL), slots.slot("b", "main", MODEL)
    await busy.take()
    task = taking(other)
    await settled()
    assert other.try_acquire() is False
    with pytest.raises(RuntimeError, match="waited for already"):
        await other.take()
    busy.release()
    await task
    assert other.held


async def test_nobody_slips_in_between_giving_back_and_waking_up() -> None:
    slots = SlotPool(1)
    busy, first, late = (slots.slot(key, "main", MODEL) for key in "abc")
    await busy.take()
    task = taking(first)
    await settled()
    busy.release()
    assert (late.try_acquire(), busy.try_acquire()) == (False, False)
    await task
    assert first.held


async def test_parents_take_turns_however_many_one_of_them_sends() -> None:
    slots = SlotPool(1)
    keys = ("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    busy = slots.slot("busy", "main", MODEL)
    await busy.take()
    waiting = {key: slots.slot(key, key[0], MODEL) for key in keys}
    tasks = [taking(slot) for slot in waiting.values()]
    await settled()
    promised = slots.waiting()
    served: list[str] = []
    for _ in keys:
        busy.release()
        await settled()
        key, busy = next((key, slot) for key, slot in waiting.items() if slot.held)
        served.append(key)
    assert (promised, served) == (["a1", "b1", "c1", "a2", "b2", "a3", "a4"], promised)
    await asyncio.gather(*tasks)


async def test_one_that_was_at_work_before_goes_before_new_ones() -> None:
    slots = SlotPool(1)
    old, busy, new = (slots.slot(key, key, MODEL) for key in ("old", "busy", "new"))
    await old.take()
    old.release()
    await busy.take()
    tasks = [taking(new), taking(old)]
    await settled()
    assert slots.waiting() == ["old", "new"]
    busy.release()
    await settled()
    assert (old.held, new.held) == (True, False)
    await cancelled(*tasks)


async def test_a_provider_and_a_model_have_caps_of_their_own() -> None:
    slots = SlotPool(9, {"big": 2, "big/slow": 1})
    slow, slower, fast, faster, other = (
        slots.slot(key, "main", model)
        for key, model in zip(
            "abcde", ("big/slow", "big/slow", "big/fast", "big/fast", "small/x"), strict=True
        )
    )
    assert [each.try_acquire() for each in (slow, slower, fast, faster, other)] == [
        True,
        False,
        True,
        False,
        True,
    ]
    fast.release()
    assert (slower.try_acquire(), faster.try_acquire()) == (False, True)
    slow.release()
    assert slower.try_acquire()


async def test_a_name_without_a_provider_counts_once() -> None:
    slots = SlotPool(9, {"offline": 2})
    assert [slots.slot(key, "main", "offline").try_acquire() for key in "abc"] == [True, True, False]


async def test_one_that_waits_for_a_capped_model_blocks_nobody_behind_it() -> None:
    slots = SlotPool(2, {"big": 1})
    big, small = slots.slot("big", "main", "big/x"), slots.slot("small", "main", MODEL)
    await big.take()
    await small.take()
    blocked, behind = slots.slot("blocked", "main", "big/x"), slots.slot("behind", "main", MODEL)
    tasks = [taking(blocked), taking(behind)]
    await settled()
    small.release()
    await settled()
    assert (blocked.held, behind.held, slots.waiting()) == (False, True, ["blocked"])
    big.release()
    await asyncio.gather(*tasks)
    assert blocked.held


async def test_a_cancel_in_the_tick_of_the_hand_over_loses_no_slot() -> None:
    slots = SlotPool(1)
    busy, unlucky, following = (slots.slot(key, "main", MODEL) for key in "abc")
    await busy.take()
    tasks = [taking(unlucky), taking(following)]
    await settled()
    busy.release()
    await cancelled(tasks[0])
    await tasks[1]
    assert (unlucky.held, following.held, slots.waiting()) == (False, True, [])


async def test_a_hand_over_in_the_tick_of_the_cancel_loses_no_slot() -> None:
    slots = SlotPool(1)
    busy, unlucky, following = (slots.slot(key, "main", MODEL) for key in "abc")
    await busy.take()
    tasks = [taking(unlucky), taking(following)]
    await settled()
    tasks[0].cancel()
    busy.release()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (unlucky.held, following.held, slots.waiting()) == (False, True, [])


async def test_one_that_gives_up_hundreds_of_times_leaves_the_order_as_it_was() -> None:
    slots = SlotPool(1)
    busy = slots.slot("busy", "main", MODEL)
    await busy.take()
    waiting = {key: slots.slot(key, key, MODEL) for key in "cab"}
    tasks = [taking(slot) for slot in waiting.values()]
    for _ in range(300):
        impatient = taking(slots.slot("x", "x", MODEL))
        await settled()
        await cancelled(impatient)
        assert impatient.cancelled()
    served: list[str] = []
    for _ in waiting:
        busy.release()
        await settled()
        key, busy = next((key, slot) for key, slot in waiting.items() if slot.held)
        served.append(key)
    assert served == ["c", "a", "b"]
    await asyncio.gather(*tasks)


async def test_the_order_goes_on_from_whose_turn_it_is() -> None:
    slots = SlotPool(1)
    busy = slots.slot("busy", "main", MODEL)
    await busy.take()
    waiting = {key: slots.slot(key, key[0], MODEL) for key in ("a1", "a2", "a3", "b1", "b2")}
    tasks = [taking(slot) for slot in waiting.values()]
    await settled()
    busy.release()
    await settled()
    assert (waiting["a1"].held, slots.waiting()) == (True, ["b1", "a2", "b2", "a3"])
    await cancelled(*tasks)


async def test_who_waits_for_a_capped_model_stands_behind_those_who_begin_before() -> None:
    slots = SlotPool(3, {"big": 1})
    models = {"c": "big/x", "f": MODEL}
    working = [slots.slot(key, "main", models[key[0]]) for key in ("c0", "f0", "f1")]
    for slot in working:
        await slot.take()
    tasks = [taking(slots.slot(key, "main", models[key[0]])) for key in ("c1", "c2", "f2")]
    await settled()
    promised = slots.waiting()
    served: list[str] = []
    for slot in working:
        slot.release()
        await settled()
        served += [key for key in promised if key not in (*slots.waiting(), *served)]
    assert (promised, served) == (["c1", "f2", "c2"], ["c1", "f2"])
    await cancelled(*tasks)


@given(st.lists(st.sampled_from("abcd")))
def test_without_caps_the_order_is_by_round_then_by_who_came_first(parents: list[str]) -> None:
    seen: Counter[str] = Counter()
    rounds: list[tuple[int, int, int]] = []
    turns = list(dict.fromkeys(parents))
    line = [QueueEntry(str(number), parent, (), number) for number, parent in enumerate(parents)]
    for number, parent in enumerate(parents):
        rounds.append((seen[parent], turns.index(parent), number))
        seen[parent] += 1
    line.sort(key=lambda each: turns.index(each.parent))
    order = [number for _, _, number in sorted(rounds)]
    assert [each.number for each in order_of_starts([line])] == order
    assert [each.number for each in order_of_starts([line], (), {"some/model": 1})] == order
