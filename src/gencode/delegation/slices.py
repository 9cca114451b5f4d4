"""What the agents of a session have spent and may still spend in other processes, as the journals tell.

An agent that is sent to another process takes a budget of its own along, which is written down with its task.
One that is woken there gets parts of the budgets above it, which are written down with those (`sharing.py`).
Whatever else is at work elsewhere may spend all that is left.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from gencode.core.budget import Budget, Part
from gencode.core.task import Task
from gencode.delegation.accounts import NO_BUDGET, costs_of, total_of
from gencode.delegation.live import Job, Live
from gencode.delegation.orphans import given_up
from gencode.runtime.amounts import Spent, in_numbers, in_units, limits_of
from gencode.runtime.ports import Store, TaskQuery

Kept = Mapping[str, int | None]
"""So much of each kind; None: all that is left."""


class Abroad(Struct, frozen=True):
    """A budget as it is looked at from one process."""

    spent: Spent
    kept: Kept = {}
    """What others may still spend."""
    parts: tuple[Part, ...] = ()
    """Those of others who are still at work."""
    woken: Mapping[str, Budget] = {}
    """What the agents cost themselves that spend a part here."""
    alone: bool = True
    """Whether nobody is at work here who may spend all that is left."""
    beginning: bool = False
    """Whether somebody elsewhere is about to go on, and nobody can know yet from what it is paid."""


class Slices:
    """Looks at everything below a task that has a budget."""

    def __init__(self, store: Store, owner: str, live: Callable[[str], Live | None]) -> None:
        self._store = store
        self._owner = owner
        self._live = live

    async def look(self, top: Task) -> Abroad:
        """What was spent of the budget of a task, and who else may spend from it."""
        family = await below(self._store, top)
        spent = total_of([top, *family])
        if not family and (top.status.ended or self._live(top.id) is not None):
            return Abroad(spent)
        held = {each.task: each.owner for each in await self._store.owned() if not given_up(each)}
        return _Family(top, family, held, self._owner, self._live).abroad(spent)


class _Family:
    """All tasks below one that has a budget, each after the one that sent it."""

    def __init__(
        self,
        top: Task,
        family: Sequence[Task],
        held: Mapping[str, str],
        owner: str,
        live: Callable[[str], Live | None],
    ) -> None:
        self._top = top
        self._family = family
        self._held = held
        self._owner = owner
        self._live = live
        self._parents = {each.id: each.parent for each in family}
        self._covers: dict[str, str] = {}
        """By which task above it, or itself, a task is paid that does not spend what is left of all."""
        for task in family:
            self._cover(task)

    def _cover(self, task: Task) -> None:
        above = self._covers.get(task.parent or "")
        # What one may spend that was sent to a process of its own is set aside in this one.
        if task.woken or (above is None and not isinstance(self._live(task.id), Job | None)):
            self._covers[task.id] = task.id
        elif above is not None:
            self._covers[task.id] = above

    def abroad(self, spent: Spent) -> Abroad:
        """Who else spends from the budget."""
        here = [each for each in (self._top, *self._family) if self._live(each.id) is not None]
        elsewhere = [each for each in (self._top, *self._family) if self._at_work(each)]
        woken = {each.id for each in self._family if each.woken}
        at_work = {self._covers.get(each.id, each.id) for each in elsewhere}
        parts = [part for part in self._others() if not at_work.isdisjoint(part.before)]
        kept: dict[str, int | None] = dict.fromkeys(limits_of(NO_BUDGET), 0)
        for amounts in (*(self._of_part(part) for part in parts), *self._of_slices(elsewhere)):
            for kind, amount in amounts.items():
                before = kept[kind]
                kept[kind] = None if before is None or amount is None else before + amount
        return Abroad(
            spent,
            kept,
            tuple(parts),
            {each.id: costs_of(each) for each in here if self._covers.get(each.id) in woken},
            not any(each.id not in self._covers for each in here),
            any(self._begins(each) for each in self._family),
        )

    def _at_work(self, task: Task) -> bool:
        return task.id in self._held and not task.status.ended and self._live(task.id) is None

    def _begins(self, task: Task) -> bool:
        owner = self._held.get(task.id)
        return task.status.ended and owner not in (None, self._owner) and self._live(task.id) is None

    def _others(self) -> list[Part]:
        """The parts of others, without tasks that went on here."""
        parts = [each for each in self._top.parts if each.owner != self._owner]
        return [
            Part(
                each.owner,
                each.budget,
                {task: cost for task, cost in each.before.items() if self._live(task) is None},
            )
            for each in parts
        ]

    def _of_part(self, part: Part) -> Kept:
        """What is left of a part: what its tasks at work spent themselves since they got it is gone."""
        left = limits_of(part.budget)
        for task in self._family:
            if task.id not in part.before or not self._at_work(task):
                continue
            now, before = limits_of(costs_of(task)), limits_of(part.before[task.id])
            for kind, amount in left.items():
                since = (now[kind] or 0) - (before[kind] or 0)
                left[kind] = None if amount is None else max(0, amount - max(0, since))
        return {kind: amount or 0 for kind, amount in left.items()}

    def _of_slices(self, elsewhere: Sequence[Task]) -> list[Kept]:
        """What those at work elsewhere may spend who were not woken: what they were sent with, or all."""
        found: list[Kept] = []
        sliced: set[str] = set()
        for task in elsewhere:
            if task.id in self._covers or self._below(task, sliced):
                continue
            sliced.add(task.id)
            under = [each for each in self._family if self._below(each, {task.id})]
            cost = in_numbers(total_of([task, *under]))
            limits = limits_of(task.budget if task.id != self._top.id else NO_BUDGET)
            found.append(
                {
                    kind: None if limit is None else max(0, limit - cost[kind])
                    for kind, limit in limits.items()
                }
            )
        return found

    def _below(self, task: Task, tops: set[str]) -> bool:
        parent = task.parent
        while parent is not None and parent not in tops:
            parent = self._parents.get(parent)
        return parent is not None


async def below(store: Store, top: Task) -> list[Task]:
    """Everything below a task, each after the one that sent it."""
    family: dict[str, Task] = {top.id: top}
    above = [top.id]
    while above:
        found = await store.tasks(TaskQuery(parents=tuple(above)))
        fresh = {each.id: each for each in found if each.id not in family}
        family |= fresh
        above = [*fresh]
    return [*family.values()][1:]


def part_of(owner: str, amounts: Mapping[str, int], before: Mapping[str, Budget]) -> Part:
    """A part of a budget for the agents of a process."""
    return Part(owner, in_units({kind: amounts.get(kind) for kind in limits_of(NO_BUDGET)}), dict(before))
