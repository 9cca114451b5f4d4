"""The concurrency limit of agents: slots, and a fair queue of agents that wait for one.

An agent that waits for a child or an answer holds no slot, so a tree of agents never waits for itself.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from operator import itemgetter
from types import MappingProxyType
from typing import Generic, TypeVar

from gencode.core.errors import UserMistake
from gencode.core.ids import stamp

Caps = tuple[str, ...]
"""The names of the caps that an agent counts for."""
NO_CAPS: Mapping[str, int] = MappingProxyType({})
SPARE = 64
"""How many outdated entries a heap may have before it is rebuilt."""


class QueueEntry:
    """An entry of the queue; `number` is the order of arrival."""

    __slots__ = ("caps", "number", "parent", "task")

    def __init__(self, task: str, parent: str, caps: Caps, number: int) -> None:
        self.task = task
        self.parent = parent
        self.caps = caps
        self.number = number


One = TypeVar("One", bound=QueueEntry)


def caps_of(model: str, caps: Collection[str]) -> Caps:
    """The caps that an agent on `provider/model` counts for."""
    return tuple(name for name in dict.fromkeys((model.partition("/")[0], model)) if name in caps)


def order_of_starts(
    lines: Sequence[Iterable[One]], at_work: Iterable[Caps] = (), caps: Mapping[str, int] = NO_CAPS
) -> list[One]:
    """The waiting agents in the order in which they would start if the running ones ended one after the
    other.

    An earlier queue has priority over a later one; within a queue parents take turns. `at_work` are the caps
    of the running agents, in the order in which they began.
    """
    if not caps:
        return [one for line in lines for one in _in_rounds(line)]
    load, working = CapUsage(caps), deque(at_work)
    for each in working:
        load.count(each, 1)
    left, order = [FairQueue(line) for line in lines], list[One]()
    while any(left):
        if working:
            load.count(working.popleft(), -1)
        for line in left:
            if (one := line.first(load.is_open)) is not None:
                line.serve(one)
                order.append(one)
                working.append(one.caps)
                load.count(one.caps, 1)
                break
    return order


def _in_rounds(line: Iterable[One]) -> list[One]:
    """The same without caps: one of each parent in turn, without a simulation."""
    seen: Counter[str] = Counter()
    rounds: list[tuple[int, int, One]] = []
    turns: dict[str, int] = {}
    for one in line:
        rounds.append((seen[one.parent], turns.setdefault(one.parent, len(turns)), one))
        seen[one.parent] += 1
    return [one for _, _, one in sorted(rounds, key=itemgetter(0, 1))]


class CapUsage:
    """Counts the running agents for each cap."""

    def __init__(self, caps: Mapping[str, int]) -> None:
        self._caps = dict(caps)
        self._of = dict.fromkeys(caps, 0)

    def is_open(self, caps: Caps) -> bool:
        """Whether one more agent with these caps may run."""
        return all(self._of[name] < self._caps[name] for name in caps)

    def count(self, caps: Caps, by: int) -> None:
        """Count one more, or one less."""
        for name in caps:
            self._of[name] += by


class SlotPool:
    """At most `most` running agents, and for a provider or a model at most as many as `caps` says.

    A cap is named `provider` or `provider/model`. Agents that return from a wait have priority over new ones,
    and parents take turns; an agent that waits for a capped model does not block others.
    """

    def __init__(self, most: int, caps: Mapping[str, int] = NO_CAPS) -> None:
        for whose, cap in (("", most), *((f" of {name}", cap) for name, cap in caps.items())):
            if cap < 1:
                raise UserMistake(
                    f"A limit of {cap} agents{whose} at once would let none run; use at least 1."
                )
        self._most = most
        self.caps = dict(caps)
        self._load = CapUsage(caps)
        self._at_work: dict[Slot, None] = {}
        """In the order in which they began."""
        self._returning = FairQueue[SlotWaiter]()
        self._new = FairQueue[SlotWaiter]()
        self._came = 0

    def slot(self, task_key: str, parent: str, model: str) -> "Slot":
        """A slot for an agent on `provider/model`, not yet acquired."""
        return Slot(self, task_key, parent, caps_of(model, self.caps))

    def waiting(self) -> list[str]:
        """The keys of the waiting tasks, in the order in which they will start."""
        at_work = [slot.caps for slot in self._at_work] if self.caps else ()
        return [each.task for each in order_of_starts((self._returning, self._new), at_work, self.caps)]

    def occupy(self, slot: "Slot") -> bool:
        """Acquire a slot if one is free; no waiting agent can use it then, or it would not be free."""
        free = len(self._at_work) < self._most and self._load.is_open(slot.caps)
        if free:
            self._begin(slot)
        return free

    def free(self, slot: "Slot") -> None:
        """Release a slot, and give it to the next in the queue."""
        del self._at_work[slot]
        self._load.count(slot.caps, -1)
        while len(self._at_work) < self._most:
            line, waiter = self._returning, self._returning.first(self._load.is_open)
            if waiter is None:
                line, waiter = self._new, self._new.first(self._load.is_open)
            if waiter is None:
                return
            if waiter.turn.cancelled():
                line.remove(waiter)
            else:
                line.serve(waiter)
                self._begin(waiter.slot)
                waiter.handed = True
                waiter.slot.handed = stamp()
                waiter.turn.set_result(None)

    def enqueue(self, slot: "Slot", *, returning: bool) -> "SlotWaiter":
        """Wait for a slot, behind those that came before."""
        self._came += 1
        waiter = SlotWaiter(slot, self._came)
        (self._returning if returning else self._new).add(waiter)
        return waiter

    def withdraw(self, waiter: "SlotWaiter") -> None:
        """Stop waiting; a slot that was assigned meanwhile goes to the next."""
        if waiter.handed:
            self.free(waiter.slot)
        else:
            self._returning.remove(waiter)
            self._new.remove(waiter)

    def _begin(self, slot: "Slot") -> None:
        self._at_work[slot] = None
        self._load.count(slot.caps, 1)


class Slot:
    """One agent's right to run. Only the asyncio task of the agent acquires it."""

    __slots__ = ("_slots", "_waiter", "_worked", "caps", "handed", "held", "parent", "task")

    def __init__(self, slots: SlotPool, task: str, parent: str, caps: Caps) -> None:
        self._slots = slots
        self.task = task
        self.parent = parent
        self.caps = caps
        self._waiter: SlotWaiter | None = None
        self._worked = False
        self.held = False
        self.handed = ""
        """When its last wait for the slot ended."""

    def assign(self, task: str) -> None:
        """Set the task that has it: its id may be known only after the slot was requested."""
        self.task = task

    @property
    def waits(self) -> bool:
        """Whether it is in the queue."""
        return self._waiter is not None

    def try_acquire(self) -> bool:
        """Acquire the slot if that needs no waiting; whether it is held now."""
        if not self.held and self._waiter is None:
            self.held = self._slots.occupy(self)
            self._worked = self._worked or self.held
        return self.held

    async def take(self) -> None:
        """Wait until the slot is held."""
        if self.try_acquire():
            return
        if self._waiter is not None:
            raise RuntimeError("this slot is being waited for already")
        waiter = self._waiter = self._slots.enqueue(self, returning=self._worked)
        try:
            await waiter.turn
        except asyncio.CancelledError:
            self._slots.withdraw(waiter)
            raise
        finally:
            self._waiter = None
        self.held = self._worked = True

    def release(self) -> None:
        """Release the slot, if it is held."""
        if self.held:
            self.held = False
            self._slots.free(self)


class SlotWaiter(QueueEntry):
    """An entry of the queue that waits in this process."""

    __slots__ = ("handed", "slot", "turn")

    def __init__(self, slot: Slot, number: int) -> None:
        super().__init__(slot.task, slot.parent, slot.caps, number)
        self.slot = slot
        self.handed = False
        self.turn = asyncio.get_running_loop().create_future()


class ParentQueue(Generic[One]):
    """The waiting entries of one parent, by their caps; `turn` is the parent's place."""

    __slots__ = ("by_caps", "turn")

    def __init__(self, turn: int) -> None:
        self.turn = turn
        self.by_caps: dict[Caps, OrderedDict[int, One]] = {}


class FairQueue(Generic[One]):
    """The waiting entries of many parents, who take turns.

    For each set of caps a heap has the next parent. Entries for turns that are over, or for parents without
    waiting entries, are dropped when they come up.
    """

    def __init__(self, those: Iterable[One] = ()) -> None:
        self._parents: OrderedDict[str, ParentQueue[One]] = OrderedDict()
        """In the order of their turns."""
        self._heaps: dict[Caps, list[tuple[int, str]]] = {}
        self._turns = 0
        for one in those:
            self.add(one)

    def __bool__(self) -> bool:
        return bool(self._parents)

    def __iter__(self) -> Iterator[One]:
        for siblings in self._parents.values():
            everyone = [waiter for line in siblings.by_caps.values() for waiter in line.values()]
            yield from sorted(everyone, key=_number)

    def add(self, waiter: One) -> None:
        """Add an entry behind its siblings; a new parent comes after all others."""
        siblings = self._parents.get(waiter.parent)
        if siblings is None:
            siblings = self._parents[waiter.parent] = ParentQueue(self._next_turn())
        line = siblings.by_caps.setdefault(waiter.caps, OrderedDict())
        line[waiter.number] = waiter
        if len(line) == 1:
            self._remember(waiter.caps, siblings.turn, waiter.parent)

    def remove(self, waiter: One) -> None:
        """Remove an entry, wherever it is; it may be missing."""
        siblings = self._parents.get(waiter.parent)
        line = siblings and siblings.by_caps.get(waiter.caps)
        if not siblings or not line or line.pop(waiter.number, None) is None:
            return
        if not line:
            del siblings.by_caps[waiter.caps]
        if not siblings.by_caps:
            del self._parents[waiter.parent]

    def first(self, is_open: Callable[[Caps], bool]) -> One | None:
        """The next entry among those whose caps allow one more."""
        heads = [head for caps in self._heaps if is_open(caps) and (head := self._head(caps))]
        if not heads:
            return None
        lines = self._parents[min(heads)[1]].by_caps
        return min((next(iter(line.values())) for caps, line in lines.items() if is_open(caps)), key=_number)

    def serve(self, waiter: One) -> None:
        """Remove an entry that starts; its siblings wait until all other parents had a turn."""
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


def _number(waiter: QueueEntry) -> int:
    return waiter.number
