"""How many agents are at work at once, and in which order the others wait for their turn.

Whoever waits for a child or an answer holds no slot, so a tree of agents never waits for itself.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from types import MappingProxyType
from typing import TypeVar

from gencode.core.errors import UserMistake

Caps = tuple[str, ...]
"""The names of the caps that an agent counts for."""
NO_CAPS: Mapping[str, int] = MappingProxyType({})
SPARE = 64
"""So many outdated entries a heap may hold before it is made anew."""

Waiting = TypeVar("Waiting")


def fair_order(waiting: Sequence[tuple[Waiting, str]]) -> list[Waiting]:
    """Who waits, in the order of their turns: one of each parent in turn, inside a parent as they came.

    `waiting` are pairs of a task and its parent, in the order in which they came.
    """
    lines: dict[str, list[Waiting]] = {}
    for task, parent in waiting:
        lines.setdefault(parent, []).append(task)
    order: list[Waiting] = []
    going, turn = list(lines.values()), 0
    while going:
        order += [line[turn] for line in going]
        turn += 1
        going = [line for line in going if turn < len(line)]
    return order


class Slots:
    """At most `most` agents at work at once, and of a provider or a model at most as many as `caps` says.

    A cap is named `provider` or `provider/model`. Agents that were at work before go before new ones, and
    parents take turns; one that waits for a capped model lets others pass.
    """

    def __init__(self, most: int, caps: Mapping[str, int] = NO_CAPS) -> None:
        for whose, cap in (("", most), *((f" of {name}", cap) for name, cap in caps.items())):
            if cap < 1:
                raise UserMistake(f"A cap of {cap} agents{whose} at once lets nobody work; name at least 1.")
        self._most = most
        self._caps = dict(caps)
        self._at_work = 0
        self._of = dict.fromkeys(caps, 0)
        self._returning = Line()
        self._new = Line()
        self._came = 0

    def slot(self, task_key: str, parent: str, model: str) -> "Slot":
        """A slot for an agent on `provider/model`; it is not taken yet."""
        names = dict.fromkeys((model.partition("/")[0], model))
        return Slot(self, task_key, parent, tuple(name for name in names if name in self._caps))

    def waiting(self) -> list[str]:
        """The keys of the tasks that wait, in the order of their turns."""
        return [each.task for each in self._in_order()]

    def position(self, waiter: "Waiter") -> int:
        """The place of one that waits, from 1; 0 when it waits no more."""
        order = self._in_order()
        return order.index(waiter) + 1 if waiter in order else 0

    def occupy(self, caps: Caps) -> bool:
        """Take a slot if one is free; whoever waits then cannot use it, or it would not be free."""
        free = self._at_work < self._most and self._is_open(caps)
        if free:
            self._count(caps, 1)
        return free

    def free(self, caps: Caps) -> None:
        """Give a slot back, to those whose turn it is."""
        self._count(caps, -1)
        while self._at_work < self._most:
            line, waiter = self._returning, self._returning.first(self._is_open)
            if waiter is None:
                line, waiter = self._new, self._new.first(self._is_open)
            if waiter is None:
                return
            if waiter.turn.cancelled():
                line.remove(waiter)
            else:
                line.serve(waiter)
                self._count(waiter.caps, 1)
                waiter.handed = True
                waiter.turn.set_result(None)

    def line_up(self, task: str, parent: str, caps: Caps, returning: bool) -> "Waiter":
        """Wait for a slot, behind those who came before."""
        self._came += 1
        waiter = Waiter(task, parent, caps, self._came)
        (self._returning if returning else self._new).add(waiter)
        return waiter

    def withdraw(self, waiter: "Waiter") -> None:
        """Wait no more; a slot that was handed over meanwhile goes to the next."""
        if waiter.handed:
            self.free(waiter.caps)
        else:
            self._returning.remove(waiter)
            self._new.remove(waiter)

    def _in_order(self) -> "list[Waiter]":
        lines = (self._returning, self._new)
        return [each for line in lines for each in fair_order([(one, one.parent) for one in line])]

    def _is_open(self, caps: Caps) -> bool:
        return all(self._of[name] < self._caps[name] for name in caps)

    def _count(self, caps: Caps, by: int) -> None:
        self._at_work += by
        for name in caps:
            self._of[name] += by


class Slot:
    """One agent's right to be at work. Only the task that runs the agent takes it."""

    __slots__ = ("_caps", "_parent", "_slots", "_waiter", "_worked", "held", "task")

    def __init__(self, slots: Slots, task: str, parent: str, caps: Caps) -> None:
        self._slots = slots
        self.task = task
        self._parent = parent
        self._caps = caps
        self._waiter: Waiter | None = None
        self._worked = False
        self.held = False

    @property
    def position(self) -> int:
        """The place in the order of those who wait, from 1; 0 for one that does not wait."""
        return self._slots.position(self._waiter) if self._waiter else 0

    def try_take(self) -> bool:
        """Take the slot if that needs no waiting; whether it is held now."""
        if not self.held and self._waiter is None:
            self.held = self._slots.occupy(self._caps)
            self._worked = self._worked or self.held
        return self.held

    async def take(self) -> None:
        """Wait until the slot is held."""
        if self.try_take():
            return
        if self._waiter is not None:
            raise RuntimeError("this slot is being waited for already")
        waiter = self._waiter = self._slots.line_up(self.task, self._parent, self._caps, self._worked)
        try:
            await waiter.turn
        except asyncio.CancelledError:
            self._slots.withdraw(waiter)
            raise
        finally:
            self._waiter = None
        self.held = self._worked = True

    def give_back(self) -> None:
        """Let the next one work; nothing happens when the slot is not held."""
        if self.held:
            self.held = False
            self._slots.free(self._caps)


class Waiter:
    """One that waits; `number` says who came first."""

    __slots__ = ("caps", "handed", "number", "parent", "task", "turn")

    def __init__(self, task: str, parent: str, caps: Caps, number: int) -> None:
        self.task = task
        self.parent = parent
        self.caps = caps
        self.number = number
        self.handed = False
        self.turn = asyncio.get_running_loop().create_future()


class Siblings:
    """Those of one parent who wait, by the caps they count for; `turn` says when the parent's turn is."""

    __slots__ = ("by_caps", "turn")

    def __init__(self, turn: int) -> None:
        self.turn = turn
        self.by_caps: dict[Caps, OrderedDict[int, Waiter]] = {}


class Line:
    """Waiters of many parents who take turns.

    For each set of caps a heap knows whose turn is next. What it holds of turns that are over, or of
    parents for whom nobody waits any more, is thrown away when it comes up.
    """

    def __init__(self) -> None:
        self._parents: OrderedDict[str, Siblings] = OrderedDict()
        """In the order of their turns."""
        self._heaps: dict[Caps, list[tuple[int, str]]] = {}
        self._turns = 0

    def __iter__(self) -> Iterator[Waiter]:
        for siblings in self._parents.values():
            everyone = [waiter for line in siblings.by_caps.values() for waiter in line.values()]
            yield from sorted(everyone, key=_number)

    def add(self, waiter: Waiter) -> None:
        """Put one behind its siblings; a parent that is new here has its turn after all others."""
        siblings = self._parents.get(waiter.parent)
        if siblings is None:
            siblings = self._parents[waiter.parent] = Siblings(self._next_turn())
        line = siblings.by_caps.setdefault(waiter.caps, OrderedDict())
        line[waiter.number] = waiter
        if len(line) == 1:
            self._remember(waiter.caps, siblings.turn, waiter.parent)

    def remove(self, waiter: Waiter) -> None:
        """Take one out, wherever it stands; it need not be here."""
        siblings = self._parents.get(waiter.parent)
        line = siblings and siblings.by_caps.get(waiter.caps)
        if not siblings or not line or line.pop(waiter.number, None) is None:
            return
        if not line:
            del siblings.by_caps[waiter.caps]
        if not siblings.by_caps:
            del self._parents[waiter.parent]

    def first(self, is_open: Callable[[Caps], bool]) -> Waiter | None:
        """Whose turn it is among those whose caps are open."""
        heads = [head for caps in self._heaps if is_open(caps) and (head := self._head(caps))]
        if not heads:
            return None
        lines = self._parents[min(heads)[1]].by_caps
        return min((next(iter(line.values())) for caps, line in lines.items() if is_open(caps)), key=_number)

    def serve(self, waiter: Waiter) -> None:
        """Take one out because its turn has come; its siblings wait until all other parents had theirs."""
        self.remove(waiter)
        siblings = self._parents.get(waiter.parent)
        if siblings is not None:
            siblings.turn = self._next_turn()
            self._parents.move_to_end(waiter.parent)
            for caps in siblings.by_caps:
                self._remember(caps, siblings.turn, waiter.parent)

    def _next_turn(self) -> int:
        self._turns += 1
        return self._turns

    def _remember(self, caps: Caps, turn: int, parent: str) -> None:
        heap = self._heaps.setdefault(caps, [])
        heappush(heap, (turn, parent))
        if len(heap) > 2 * len(self._parents) + SPARE:
            heap[:] = sorted(
                (each.turn, name) for name, each in self._parents.items() if caps in each.by_caps
            )

    def _head(self, caps: Caps) -> tuple[int, str] | None:
        heap = self._heaps[caps]
        while heap:
            turn, parent = heap[0]
            siblings = self._parents.get(parent)
            if siblings is not None and siblings.turn == turn and caps in siblings.by_caps:
                return heap[0]
            heappop(heap)
        return None


def _number(waiter: Waiter) -> int:
    return waiter.number
