"""Budgets in a family of tasks: which of two counts, what was spent so far, and what is set aside."""

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from msgspec.structs import replace

from gencode.core.budget import Budget
from gencode.core.messages import Usage
from gencode.core.task import Task
from gencode.delegation.deadline import worked_seconds
from gencode.runtime.amounts import NO_BUDGET, limits_of
from gencode.runtime.ports import Store, TaskQuery
from gencode.runtime.purse import COSTS_OF_A_CALL, NOTHING, BudgetSpent, Purse, Spent

T = TypeVar("T")
Number = TypeVar("Number", int, float)


def tightest(one: Budget, other: Budget) -> Budget:
    """Both budgets at once."""
    if one == NO_BUDGET or other == NO_BUDGET:
        return one if other == NO_BUDGET else other
    return Budget(
        turns=_least(one.turns, other.turns),
        tokens=_least(one.tokens, other.tokens),
        usd=_least(one.usd, other.usd),
        seconds=_least(one.seconds, other.seconds),
        spawns=_least(one.spawns, other.spawns),
    )


def share(purse: Purse, asked: Budget, agents: int, *, sends: bool = True) -> Budget:
    """What an agent gets whose spending nobody here can watch call by call: what is asked for it.

    Where nothing is asked but something is bounded: as much of what is left as each of so many `agents` that
    are sent at once, and their sender. All of it where nobody sends them. One that `sends` nobody gets no
    agents.
    """
    left, parts = purse.left(), _parts(purse, agents)
    return Budget(
        turns=asked.turns or _part(left.turns, parts),
        tokens=asked.tokens or _part(left.tokens, parts),
        usd=asked.usd or (None if left.usd is None else left.usd / parts),
        seconds=asked.seconds,
        spawns=_spawns(left.spawns, agents, parts, sends=sends) if asked.spawns is None else asked.spawns,
    )


def _spawns(left: int | None, agents: int, parts: int, *, sends: bool) -> int | None:
    """How many agents one of so many may send itself: they are agents as well, and come first."""
    if left is None:
        return None
    return max(0, left - max(1, agents)) // parts if sends else 0


def _parts(purse: Purse, agents: int) -> int:
    """How many parts what is left is divided into: in each should be a call, as far as half is enough."""
    left, accounts = limits_of(purse.left()), purse.upwards[-1].accounts
    known = [(kind, amount) for kind in COSTS_OF_A_CALL if (amount := left[kind]) is not None]
    calls = [amount // max(1, accounts[kind].dearest) for kind, amount in known]
    return max(min(2, agents + 1), min((agents + 1, *calls)))


def bound(
    above: Purse | None,
    owner: str,
    budget: Budget,
    spent: Spent = NOTHING,
    *,
    sent: bool = True,
    apart: int | None = None,
    sends: bool = True,
) -> Purse:
    """The purse of an agent below another one; where nothing is bounded, a budget may be named later.

    BudgetSpent says what is missing. Only an agent that is `sent` now counts as one. Where only parts of the
    budget above may be spent here, nothing is set aside: they are asked for call by call. An agent in a
    process `apart` takes its own along, one of so many that are sent at once; agents only if it `sends` any.
    """
    asked = budget
    if above is not None and apart is not None:
        budget = share(above, asked, apart, sends=sends)
    if above is not None and above.payer.parted and apart is None:
        Purse(f"agent {owner}", budget, None, spent).check()
        whole = next((each for each in above.payer.upwards if not each.parted), None)
        purse = Purse(f"agent {owner}", budget, above, spent)
        if sent and whole is not None:  # of those of which parts are spent, it takes its own when it is born
            purse.count_in(whole)
        purse.close()
        return purse
    if above is not None:
        purse = above.below(f"agent {owner}", budget, spent, again=not sent)
        try:
            purse.check()
        except BudgetSpent:
            purse.take_back()
            raise
        purse.took = _besides(asked, budget) if apart is not None else {}
        return purse
    purse = Purse(f"agent {owner}", budget, None, spent)
    purse.check()
    return purse


def bound_again(
    earlier: Purse | None, above: Purse | None, owner: str, budget: Budget, spent: Spent
) -> Purse:
    """The purse of an agent that goes on: its `earlier` one, where agents below it still spend from that.

    They and it have one budget. BudgetSpent says what is missing.
    """
    if earlier is None or earlier.upwards[1:] != (above.upwards if above is not None else ()):
        return bound(above, owner, budget, spent, sent=False)
    Purse(f"agent {owner}", budget, None, spent).check()
    earlier.begin_again(budget, spent, aside=above is not None and not above.payer.parted)
    return earlier


def _besides(asked: Budget, budget: Budget) -> dict[str, int]:
    """What a budget bounds that was not asked for."""
    limits, named = limits_of(budget), limits_of(asked)
    return {kind: limit for kind, limit in limits.items() if limit is not None and named[kind] is None}


@contextmanager
def counted_if_begun(purse: Purse | None) -> Generator[None]:
    """What `bound` counted and set aside for an agent is taken back where it does not begin in this block."""
    begun = False
    try:
        yield
        begun = True
    finally:
        if not begun and purse is not None:
            purse.take_back()


async def spent_by(store: Store, task: str) -> Spent:
    """What a task and everything below it have cost so far."""
    found = await store.task(task)
    if found is None:
        return total_of(await below(store, task))
    return replace(total_of([found, *await below(store, task)]), seconds=worked_seconds(found))


async def bounded_above(store: Store, parent: str | None) -> bool:
    """Whether somebody from this task up has a budget."""
    found = await store.task(parent) if parent is not None else None
    if found is None:
        return False
    return shares(found.budget) or any([shares(each.budget) async for each in tasks_above(store, found)])


def shares(budget: Budget) -> bool:
    """Whether those below spend from it, too; of seconds each has its own."""
    return any(limit is not None for limit in limits_of(budget).values())


async def tasks_above(store: Store, task: Task) -> AsyncGenerator[Task, None]:
    """The tasks above one, the nearest first; what was imported may go round in circles."""
    passed = {task.id}
    parent = task.parent
    while parent is not None and parent not in passed:
        passed.add(parent)
        found = await store.task(parent)
        if found is None:
            return
        yield found
        parent = found.parent


async def below(store: Store, task: str) -> list[Task]:
    """Everything below a task, each after the one that sent it."""
    family: dict[str, Task] = {}
    above = [task]
    while above:
        found = await store.tasks(TaskQuery(parents=tuple(above)))
        fresh = {each.id: each for each in found if each.id not in family and each.id != task}
        family |= fresh
        above = [*fresh]
    return [*family.values()]


def costs_of(task: Task) -> Budget:
    """What a task cost itself, without those it sent."""
    tokens = task.usage.input_tokens + task.usage.output_tokens
    return Budget(turns=task.turns, tokens=tokens, usd=task.usage.usd or 0.0)


def total_of(family: Sequence[Task]) -> Spent:
    """What a task and those below it have cost, of which it is one."""
    usage = sum((each.usage for each in family), start=Usage())
    return Spent(
        turns=sum(each.turns for each in family),
        tokens=usage.input_tokens + usage.output_tokens,
        usd=usage.usd or 0.0,
        spawns=max(len(family) - 1, 0),
    )


def _least(one: Number | None, other: Number | None) -> Number | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _part(value: int | None, parts: int) -> int | None:
    return None if value is None else max(value // parts, 1)


async def afforded(step: Callable[[], T]) -> T:
    """What a step gives that may need more of a budget than was got of it so far."""
    while True:
        try:
            return step()
        except BudgetSpent as short:
            if not await short.more():
                raise
