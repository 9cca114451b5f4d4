"""Slots against a plain list, under cancellation, and under whole trees of agents.

GEN_EXAMPLES sets how many examples each property is tried with, GEN_SEEDS how many trees are grown.
"""

import asyncio
import os
from copy import deepcopy
from random import Random
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agent.work_queue import Slot, SlotPool

SEEDS = range(int(os.environ.get("GEN_SEEDS", "5")))
CAPS = {"big": 2, "big/slow": 1, "mid/x": 1}
MODELS = ("big/slow", "big/fast", "mid/x", "small/y")

What = Literal["come", "give", "again", "cancel", "give and cancel", "cancel and give"]
STEPS = st.tuples(
    st.sampled_from(["come", "come", "give", "again", "cancel", "give and cancel", "cancel and give"]),
    st.integers(0, 30),
    st.sampled_from("abc"),
    st.sampled_from(MODELS),
)


class Plain:
    """The same rules, as slow and as short as they can be written."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.about: dict[str, tuple[str, str]] = {}
        self.worked: set[str] = set()
        self.held: list[str] = []
        self.lines: tuple[list[str], list[str]] = ([], [])
        self.rings: tuple[list[str], list[str]] = ([], [])

    def take(self, key: str) -> None:
        if self.fits(key):
            self.held.append(key)
            return
        line = 0 if key in self.worked else 1
        self.lines[line].append(key)
        if self.about[key][0] not in self.rings[line]:
            self.rings[line].append(self.about[key][0])

    def release(self, key: str) -> None:
        self.held.remove(key)
        self.serve()

    def cancel(self, key: str) -> None:
        if key in self.held:
            self.release(key)
        for line in (0, 1):
            if key in self.lines[line]:
                self.leave(line, key)

    def leave(self, line: int, key: str) -> None:
        parent = self.about[key][0]
        self.lines[line].remove(key)
        if parent not in {self.about[each][0] for each in self.lines[line]}:
            self.rings[line].remove(parent)

    def serve(self) -> None:
        while following := self.following():
            line, key = following
            parent = self.about[key][0]
            self.leave(line, key)
            if parent in self.rings[line]:
                self.rings[line].remove(parent)
                self.rings[line].append(parent)
            self.held.append(key)

    def following(self) -> tuple[int, str] | None:
        for line in (0, 1):
            for parent in self.rings[line]:
                for key in self.lines[line]:
                    if self.about[key][0] == parent and self.fits(key):
                        return line, key
        return None

    def fits(self, key: str) -> bool:
        model = self.about[key][1]
        at_work = [self.about[each][1] for each in self.held]
        provider = [each.partition("/")[0] for each in at_work].count(model.partition("/")[0])
        return (
            len(at_work) < self.most
            and provider < CAPS.get(model.partition("/")[0], 99)
            and at_work.count(model) < CAPS.get(model, 99)
        )

    def waiting(self) -> list[str]:
        """In the order in which they begin if those at work end one after the other."""
        rest, order = deepcopy(self), list[str]()
        while any(rest.lines):
            before = {*rest.held}
            rest.release(rest.held[0])
            order += [key for key in rest.held if key not in before]
        return order


class Real:
    """The real slots, each taken by a task of its own."""

    def __init__(self, most: int) -> None:
        self.slots = SlotPool(most, CAPS)
        self.of: dict[str, Slot] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def take(self, key: str) -> None:
        self.tasks[key] = asyncio.create_task(self.of[key].take())

    async def settle(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)

    def seen(self) -> tuple[set[str], list[str]]:
        return {key for key, slot in self.of.items() if slot.held}, self.slots.waiting()


async def play(most: int, steps: list[tuple[What, int, str, str]]) -> None:
    plain, real = Plain(most), Real(most)
    for what, pick, parent, model in steps:
        key = f"{parent}{len(real.of)}"
        if what == "come":
            plain.about[key] = (parent, model)
            real.of[key] = real.slots.slot(key, parent, model)
            real.take(key)
            await real.settle()
            plain.take(key)
        else:
            move(what, pick, plain, real)
            await real.settle()
        plain.worked |= set(plain.held)
        assert real.seen() == (set(plain.held), plain.waiting())
    for task in real.tasks.values():
        task.cancel()
    await asyncio.gather(*real.tasks.values(), return_exceptions=True)


def move(what: What, pick: int, plain: Plain, real: Real) -> None:
    """Let one that works give back, one that gave back take again, or one that waits be cancelled."""
    waiting = plain.waiting()
    free = [key for key in plain.worked if key not in plain.held and key not in waiting]
    if what == "again" and free:
        key = sorted(free)[pick % len(free)]
        real.take(key)
        plain.take(key)
    if what == "cancel and give" and waiting:
        key = waiting[pick % len(waiting)]
        real.tasks[key].cancel()
        plain.cancel(key)
    if what in ("give", "give and cancel", "cancel and give") and plain.held:
        key = plain.held[pick % len(plain.held)]
        real.of[key].release()
        plain.release(key)
    still = [key for key in waiting if not real.tasks[key].done()]
    if what in ("cancel", "give and cancel") and still:
        key = still[0]
        real.tasks[key].cancel()
        plain.cancel(key)


@given(st.integers(1, 4), st.lists(STEPS, min_size=20, max_size=60))
def test_slots_do_what_the_plain_list_does(most: int, steps: list[tuple[What, int, str, str]]) -> None:
    asyncio.run(play(most, steps))


async def storm(random: Random, most: int) -> None:
    """Many take, work and give back, and many of them are cut at any point."""
    slots = SlotPool(most, CAPS)
    at_work: set[str] = set()

    async def agent(key: str) -> None:
        slot = slots.slot(key, random.choice("abc"), random.choice(MODELS))
        try:
            for _ in range(random.randrange(1, 5)):
                await slot.take()
                at_work.add(key)
                assert len(at_work) <= most
                for _ in range(random.randrange(3)):
                    await asyncio.sleep(0)
                at_work.discard(key)
                slot.release()
        finally:
            at_work.discard(key)
            slot.release()

    tasks = [asyncio.create_task(agent(f"t{number}")) for number in range(40)]
    while unfinished := [task for task in tasks if not task.done()]:
        if random.random() < 0.3:
            random.choice(unfinished).cancel()
        await asyncio.sleep(0)
    endings = await asyncio.gather(*tasks, return_exceptions=True)
    assert [each for each in endings if each and not isinstance(each, asyncio.CancelledError)] == []
    everyone = [slots.slot(f"n{number}", "z", "small/y") for number in range(most)]
    assert (slots.waiting(), [slot.try_acquire() for slot in everyone]) == ([], [True] * most)
    assert slots.slot("one more", "z", "small/y").try_acquire() is False


@given(st.randoms(use_true_random=True), st.integers(1, 6))
def test_no_slot_is_lost_whenever_somebody_is_cancelled(random: Random, most: int) -> None:
    asyncio.run(storm(random, most))


class Tree:
    """A thousand agents that send each other, at most four deep, and wait for those they sent."""

    def __init__(self, seed: int, most: int) -> None:
        self.random = Random(seed)
        self.slots = SlotPool(most, {"big": 3, "big/slow": 1})
        self.children: dict[int, list[int]] = {0: []}
        self.at_work = self.most_at_work = self.ended = 0
        depth = [0]
        senders = [0]
        for number in range(1, 1_000):
            parent = self.random.choice(senders)
            depth.append(depth[parent] + 1)
            senders += [number] if depth[number] < 4 else []
            self.children[number] = []
            self.children[parent].append(number)

    async def run(self, number: int, parent: int) -> None:
        slot = self.slots.slot(str(number), str(parent), self.random.choice(MODELS))
        children = list(self.children[number])
        out: list[asyncio.Task[None]] = []
        while True:
            await self.turn(slot)
            sent = [children.pop() for _ in range(min(len(children), self.random.randrange(1, 6)))]
            out += [asyncio.create_task(self.run(child, number)) for child in sent]
            if not children and not out:
                break
            if out and self.random.random() < 0.7:
                self.work(slot, -1)
                await asyncio.gather(*out)
                out = []
        self.work(slot, -1)
        self.ended += 1

    async def turn(self, slot: Slot) -> None:
        if not slot.held:
            await slot.take()
            self.work(slot, 1)
        for _ in range(self.random.randrange(3)):
            await asyncio.sleep(0)

    def work(self, slot: Slot, by: int) -> None:
        self.at_work += by
        self.most_at_work = max(self.most_at_work, self.at_work)
        if by < 0:
            slot.release()


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_tree_of_a_thousand_agents_ends_under_a_cap_of_eight(seed: int) -> None:
    tree = Tree(seed, 8)
    async with asyncio.timeout(60):
        await tree.run(0, -1)
    assert (tree.ended, tree.most_at_work, tree.at_work, tree.slots.waiting()) == (1_000, 8, 0, [])


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_tree_ends_even_when_only_one_works_at_a_time(seed: int) -> None:
    tree = Tree(seed, 1)
    async with asyncio.timeout(60):
        await tree.run(0, -1)
    assert (tree.ended, tree.most_at_work, tree.at_work, tree.slots.waiting()) == (1_000, 1, 0, [])


async def test_ten_thousand_who_wait_are_all_served_in_the_promised_order() -> None:
    slots = SlotPool(1, {"big": 1})
    random = Random(1)
    served: list[str] = []
    busy = slots.slot("busy", "main", "small/y")
    await busy.take()

    async def agent(number: int) -> None:
        slot = slots.slot(str(number), str(random.randrange(3_000)), random.choice(MODELS))
        await slot.take()
        served.append(str(number))
        slot.release()

    tasks = [asyncio.create_task(agent(number)) for number in range(10_000)]
    await asyncio.sleep(0)
    promised = slots.waiting()
    busy.release()
    await asyncio.gather(*tasks)
    assert (len(served), served) == (10_000, promised)
