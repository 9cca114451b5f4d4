"""What the agents of a session have spent and may still spend in other processes, as the journals tell.

An agent that is sent to another process takes a budget of its own along, which is written down with its task.
One that is woken there gets parts of the budgets above it, which are written down with those (`sharing.py`).
Whatever else is at work elsewhere may spend all that is left.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.budget import Budget, Part
from gencode.core.task import Task
from gencode.delegation.accounts import NO_BUDGET, below, costs_of, total_of
from gencode.delegation.live import Job, Live
from gencode.delegation.liveness import is_abandoned
from gencode.runtime.amounts import NANO, NOTHING, Spent, in_numbers, in_units, limits_of
from gencode.runtime.ports import Store
from gencode.runtime.purse import COSTS_OF_A_CALL, Purse

Kept = Mapping[str, int | None]
"""So much of each kind; None: all that is left."""


class Abroad(Struct, frozen=True):
    """A budget as it is looked at from one process."""

    spent: Spent
    unwritten: Spent = NOTHING
    """What was spent here besides, and is not in the journals yet."""
    dearest: Mapping[str, int] = {}
    """What a call did cost at most, so far as the journals tell that know only what all of a task cost."""
    most: Mapping[str, int] = {}
    """What a task cost at most."""
    kept: Kept = {}
    """What others may still spend."""
    apart: Mapping[str, Kept] = {}
    """What those may still spend who were sent from here to processes of their own; it is set aside here."""
    holders: tuple[str, ...] = ()
    """The tasks of these others."""
    parts: tuple[Part, ...] = ()
    """Those of others who are still at work."""
    holds: Mapping[str, Mapping[str, int]] = {}
    """What is left of each of these parts, by the process that has it."""
    woken: Mapping[str, Budget] = {}
    """What the agents cost themselves that spend a part here."""
    alone: bool = True
    """Whether nobody is at work here who may spend all that is left."""
    giver: str = ""
    """A task at work elsewhere that may spend all that is left, so that its process can give of it."""
    last: bool = False
    """Whether one of the others may exceed the budget by a call."""
    sent: Mapping[str, int] = {}
    """How many agents each task sent itself."""
    unborn: frozenset[str] = frozenset()
    """The forks below that count as no agent: they wait for a part, or never began with one."""

    def costs_of(self, task: Task) -> Budget:
        """What a task cost itself until now, also in agents."""
        return _costs_of(task, self.sent)


class Slices:
    """Looks at everything below a task that has a budget."""

    def __init__(self, store: Store, owner: str, live: Callable[[str], Live | None]) -> None:
        self._store = store
        self._owner = owner
        self._find = live

    def _live(self, task: str) -> Live | None:
        """A task that is at work here, or paid from here; others are only followed."""
        live = self._find(task)
        return live if isinstance(live, Job) or (live is not None and live.purse is not None) else None

    async def look(self, top: Task, purse: Purse) -> Abroad:
        """What was spent of the budget of a task, and who else may spend from it than this purse."""
        family, unborn = await _born_below(self._store, top)
        spent = total_of([top, *family])
        if not family and (top.status.ended or self._live(top.id) is not None):
            return Abroad(spent, unborn=unborn)
        held = {each.task: each.owner for each in await self._store.owned() if not is_abandoned(each)}
        relatives = _Family(top, family, held, self._owner, self._live)
        relatives.count_apart()
        return replace(relatives.abroad(spent, purse), unborn=unborn)

    async def learn(self, top: Task, purse: Purse) -> Abroad:
        """The same; what was spent is counted in the purse."""
        abroad = await self.look(top, purse)
        spent, besides = abroad.spent, abroad.unwritten
        purse.learn(
            Spent(
                spent.turns + besides.turns,
                spent.tokens + besides.tokens,
                spent.usd + besides.usd,
                spent.spawns + besides.spawns,
            )
        )
        purse.holders = abroad.holders
        return abroad


async def set_aside_below(store: Store, top: Task) -> dict[str, int]:
    """What is written down for all who are at work below a task, anywhere: parts, and their own budgets."""
    family, _ = await _born_below(store, top)
    held = {each.task: each.owner for each in await store.owned() if not is_abandoned(each)}
    return _Family(top, family, held, "", lambda _: None).set_aside()


async def _born_below(store: Store, top: Task) -> tuple[list[Task], frozenset[str]]:
    """Everything below a task that counts as an agent, and the forks that do not: none of them has begun.

    One that got a part counts until it begins, or ends after all.
    """
    promised = {task for part in top.parts for task in part.before}
    family = await below(store, top.id)
    new = (each for each in family if each.woken and not each.started_at)
    unborn = frozenset(each.id for each in new if each.status.ended or each.id not in promised)
    return [each for each in family if each.id not in unborn], unborn


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
        # Whoever makes a fork of an agent does not spend what its sender has.
        self._sent = Counter(each.parent for each in family if each.parent and not each.forked)
        self._woken = {each.id for each in family if each.woken}
        self._covers: dict[str, str] = {}
        """By which task above it, or itself, a task is paid that does not spend what is left of all."""
        for task in family:
            self._cover(task)

    def _cover(self, task: Task) -> None:
        above = self._covers.get(task.parent or "")
        # What one may spend that was sent to a process of its own is set aside in this one.
        if task.id in self._woken or (above is None and not isinstance(self._live(task.id), Job | None)):
            self._covers[task.id] = task.id
        elif above is not None:
            self._covers[task.id] = above

    def count_apart(self) -> None:
        """Count what those cost who were sent from here to other processes, so that none learns it again."""
        for task in self._family:
            live = self._live(task.id)
            if live is not None and not isinstance(live, Job) and live.purse is not None:
                live.purse.pay_up_to(self._total(task))

    def abroad(self, spent: Spent, purse: Purse) -> Abroad:
        """Who else spends from the budget."""
        here = [each for each in (self._top, *self._family) if self._live(each.id) is not None]
        elsewhere = [each for each in (self._top, *self._family) if self._at_work(each)]
        parts = self._of_those(elsewhere)
        holds = {part.owner: self._of_part(part) for part in parts}
        apart = self._apart(purse)
        bounded = [kind for kind, account in purse.accounts.items() if account.limit is not None]
        unbound = tuple(task for task, may in apart.items() if any(may[kind] is None for kind in bounded))
        return Abroad(
            spent=spent,
            unwritten=self._unwritten(here, purse),
            dearest=_dearest((self._top, *self._family), one=True),
            most=_dearest((self._top, *self._family), one=False),
            kept=total((*holds.values(), *self._of_slices(elsewhere), *map(_all_or_nothing, apart.values()))),
            apart=apart,
            holders=(*self._holders(parts, elsewhere), *unbound),
            parts=tuple(parts),
            holds=holds,
            woken={each.id: _costs_of(each, self._sent) for each in self._family if self._gets_parts(each)},
            alone=not any(each.id not in self._covers for each in here),
            giver=self._giver(elsewhere, purse),
            last=any(part.last for part in parts) or any(not each.fits for each in self._sliced(elsewhere)),
            sent=self._sent,
        )

    def set_aside(self) -> dict[str, int]:
        """What may be spent of what is written down; who has no budget of its own has none of a kind."""
        at_work = [each for each in self._family if self._at_work(each)]
        found = dict.fromkeys(limits_of(NO_BUDGET), 0)
        for part in self._of_those(at_work):
            for kind, amount in self._of_part(part).items():
                found[kind] += amount
        for kind in found:
            tops: set[str] = set()
            for task in at_work:
                limit = self._own_limits(task)[kind]
                if limit is not None and task.id not in self._covers and not self._below(task, tops):
                    tops.add(task.id)
                    found[kind] += max(0, limit - self._cost(task)[kind])
        return found

    def _total(self, task: Task) -> Spent:
        return total_of([task, *(each for each in self._family if self._below(each, {task.id}))])

    def _cost(self, task: Task) -> dict[str, int]:
        return in_numbers(self._total(task))

    def _of_those(self, elsewhere: Sequence[Task]) -> list[Part]:
        """The parts of which somebody at work spends, or is about to."""
        at_work = {self._covers.get(each.id, each.id) for each in elsewhere}
        return [
            part
            for part in self._others()
            if not at_work.isdisjoint(part.before) or any(self._begins(part, each) for each in self._family)
        ]

    def _holders(self, parts: Sequence[Part], elsewhere: Sequence[Task]) -> tuple[str, ...]:
        named = {task for part in parts for task in part.before}
        begins = [each for each in self._family if any(self._begins(part, each) for part in parts)]
        return tuple(
            each.id
            for each in (*elsewhere, *begins)
            if each.id in named or each.id not in self._covers or self._covers[each.id] == each.id
        )

    def _unwritten(self, here: Sequence[Task], purse: Purse) -> Spent:
        """What those have spent whom the purse pays, and who have not come to write it down yet."""
        found = dict.fromkeys(limits_of(NO_BUDGET), 0)
        for task in here:
            live = self._live(task.id)
            if isinstance(live, Job) and live.purse is purse:
                written, was = in_numbers(total_of([task])), in_numbers(total_of([live.began]))
                for kind, amount in live.paid_itself.items():
                    found[kind] += max(0, amount + was[kind] - written[kind])
            if live is None or live.purse is None or not self._pays(purse, live.purse):
                continue
            written, paid = self._cost(task), in_numbers(live.purse.spent)
            for kind, amount in paid.items():
                found[kind] += max(0, amount - written[kind])
        return Spent(found["turns"], found["tokens"], found["usd"] / NANO, found["spawns"])

    def _pays(self, purse: Purse, below: Purse) -> bool:
        """Whether a purse pays for one below it, but for those of tasks at rest in between."""
        at_work = (each for each in below.upwards[1:] if each is purse or self._live(each.task) is not None)
        return next(at_work, None) is purse

    def _apart(self, top: Purse) -> dict[str, Kept]:
        """What those took along, or all where nothing was bounded then, who were sent to other processes."""
        lives = (self._live(each.id) for each in self._family)
        sent = ((each.id, each.purse) for each in lives if each is not None and not isinstance(each, Job))
        return {
            task: {kind: _left_below(top, purse, kind) for kind in purse.accounts}
            for task, purse in sent
            if purse is not None
        }

    def _at_work(self, task: Task) -> bool:
        """Whether somebody else is at it: not one here, nor this process, which is about to."""
        elsewhere = self._held.get(task.id) not in (None, self._owner) and self._live(task.id) is None
        return elsewhere and not task.status.ended

    def _begins(self, part: Part, task: Task) -> bool:
        """Whether a task has got a part and is about to go on with it."""
        return task.status.ended and task.id in part.before and self._held.get(task.id) == part.owner

    def _gets_parts(self, task: Task) -> bool:
        """Whether a task at work here spends parts, or has got one and is about to go on with it."""
        if self._live(task.id) is not None:
            return self._covers.get(task.id) in self._woken
        own = (part for part in self._top.parts if part.owner == self._owner)
        return self._held.get(task.id) == self._owner and any(task.id in part.before for part in own)

    def _others(self) -> list[Part]:
        """The parts of others, without tasks that went on here."""
        parts = [each for each in self._top.parts if each.owner != self._owner]
        return [
            Part(
                each.owner,
                each.budget,
                {task: cost for task, cost in each.before.items() if self._live(task) is None},
                each.last,
            )
            for each in parts
        ]

    def _of_part(self, part: Part) -> dict[str, int]:
        """What is left of a part: what its tasks at work spent themselves since they got it is gone."""
        left = limits_of(part.budget)
        for task in self._family:
            if task.id not in part.before or not self._at_work(task):
                continue
            now, before = limits_of(_costs_of(task, self._sent)), limits_of(part.before[task.id])
            for kind, amount in left.items():
                since = (now[kind] or 0) - (before[kind] or 0)
                left[kind] = None if amount is None else max(0, amount - max(0, since))
        return {kind: amount or 0 for kind, amount in left.items()}

    def _giver(self, elsewhere: Sequence[Task], purse: Purse) -> str:
        """Who may spend all that is left of a kind, when only one process does."""
        bounded = [kind for kind, account in purse.accounts.items() if account.limit is not None]
        givers = [
            task.id
            for task in self._sliced(elsewhere)
            if any(self._own_limits(task)[kind] is None for kind in bounded)
        ]
        owners = {self._held[task] for task in givers}
        return givers[0] if len(owners) == 1 else ""

    def _sliced(self, elsewhere: Sequence[Task]) -> list[Task]:
        """Those at work elsewhere who were not woken, and below none of these."""
        found: dict[str, Task] = {}
        for task in elsewhere:
            if task.id not in self._covers and not self._below(task, {*found}):
                found[task.id] = task
        return [*found.values()]

    def _own_limits(self, task: Task) -> dict[str, int | None]:
        return limits_of(task.budget if task.id != self._top.id else NO_BUDGET)

    def _of_slices(self, elsewhere: Sequence[Task]) -> list[Kept]:
        """What those at work elsewhere may spend who were not woken: what they were sent with, or all."""
        found: list[Kept] = []
        for task in self._sliced(elsewhere):
            cost = self._cost(task)
            found.append(
                {
                    kind: None if limit is None else max(0, limit - cost[kind])
                    for kind, limit in self._own_limits(task).items()
                }
            )
        return found

    def _below(self, task: Task, tops: set[str]) -> bool:
        parent = task.parent
        while parent is not None and parent not in tops:
            parent = self._parents.get(parent)
        return parent is not None


def total(each_of: Sequence[Kept]) -> Kept:
    """So much of each kind in all."""
    found: dict[str, int | None] = dict.fromkeys(limits_of(NO_BUDGET), 0)
    for kind, amount in ((kind, amount) for amounts in each_of for kind, amount in amounts.items()):
        before = found[kind]
        found[kind] = None if before is None or amount is None else before + amount
    return found


def _all_or_nothing(may: Kept) -> Kept:
    """What is not set aside of that: all, where it has no limit."""
    return {kind: None if amount is None else 0 for kind, amount in may.items()}


def _left_below(top: Purse, purse: Purse, kind: str) -> int | None:
    """What may be spent of a kind from a purse by the limits below another one; None where there is none."""
    between = takewhile(lambda each: each is not top, purse.upwards)
    accounts = (each.accounts[kind] for each in between)
    return min((max(0, each.limit - each.spent) for each in accounts if each.limit is not None), default=None)


def _costs_of(task: Task, sent: Mapping[str, int]) -> Budget:
    return replace(costs_of(task), spawns=sent.get(task.id, 0))


def part_of(owner: str, amounts: Mapping[str, int], before: Mapping[str, Budget], *, last: bool) -> Part:
    """A part of a budget for the agents of a process."""
    budget = in_units({kind: amounts.get(kind) for kind in limits_of(NO_BUDGET)})
    return Part(owner, budget, dict(before), last)


def _dearest(family: Sequence[Task], *, one: bool) -> dict[str, int]:
    """What the calls of a task did cost at most, or `one` of them on the average."""
    costs = [(in_numbers(total_of([each])), each.turns if one else 1) for each in family if each.turns]
    return {
        kind: max((-(-cost[kind] // turns) for cost, turns in costs), default=0) for kind in COSTS_OF_A_CALL
    }
