"""One budget, several processes: who works below a task at rest gets parts of what its budget leaves.

An agent that is woken while nobody above it is at work in its process gets a part before it begins: half of
what is left, and half of the rest when a call no longer fits into that; all of it where half is less than a
call may cost. Only one process at a time may exceed its part, by one call, and only when nothing is left that
a call would fit into. Parts are handed out under the lease of the task that has the budget and written into
its journal, so that nobody gets what somebody else has. A part counts while an agent that got it is at work;
nobody has to give it back, and a process that dies keeps none. Whoever leads the task holds its lease, and
may spend what the parts leave.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from weakref import WeakKeyDictionary

from msgspec import Struct

from gencode.core.budget import Budget
from gencode.core.errors import Fenced, UserMistake
from gencode.core.events import BudgetShared
from gencode.core.prices import Price
from gencode.core.task import Task
from gencode.delegation.accounts import costs_of
from gencode.delegation.live import Live
from gencode.delegation.slices import Abroad, Slices, part_of
from gencode.runtime.amounts import Spent, in_numbers
from gencode.runtime.ports import Lease, Request, Store
from gencode.runtime.purse import COSTS_OF_A_CALL, Account, BudgetSpent, Purse
from gencode.runtime.spending import needs_of

log = logging.getLogger(__name__)

Borrow = Callable[[str], AbstractAsyncContextManager[Lease]]
"""The lease of a task at rest, for a moment."""
Needs = Mapping[str, int]
"""What a call may cost, of each kind."""
Told = Callable[[Task], Awaitable[None]]
OPTIONS = {"tokens": "--max-tokens-total", "usd": "--max-usd", "spawns": "--max-spawns"}
"""By which a session gets more of a kind."""


class Sharing:
    """Hands out parts of budgets to the agents of this process."""

    def __init__(self, store: Store, owner: str, live: Callable[[str], Live | None], borrow: Borrow) -> None:
        self._store = store
        self._owner = owner
        self._borrow = borrow
        self._slices = Slices(store, owner, live)
        self._tops: WeakKeyDictionary[Purse, str] = WeakKeyDictionary()
        """Of which task at rest a purse has the budget."""

    async def wake(self, purse: Purse, top: Task, *, sends: bool = False) -> None:
        """Let a purse pay for somebody below a task at rest; BudgetSpent when nothing is left for that.

        Each part of it is got when it is needed. One that `sends` needs room for one agent more.
        """
        abroad = await self._looked(purse, top)
        room = _room(purse, abroad)
        for kind in (*COSTS_OF_A_CALL, "spawns") if sends else COSTS_OF_A_CALL:
            if room.get(kind, 1) < 1:
                raise _refusal(purse.accounts[kind], top)
        self._tops[purse] = top.id
        purse.more = partial(self._claim, purse, top.id)
        purse.hard = True
        purse.set_aside(_all(purse))

    async def lead(self, purse: Purse, top: Task) -> tuple[BudgetShared, ...]:
        """Let a purse pay for a task whose lease is held here, and for all it sends; what to write of it.

        BudgetSpent when that leaves nothing for a call.
        """
        abroad = await self._looked(purse, top)
        room = _room(purse, abroad)
        for kind in COSTS_OF_A_CALL:
            if room.get(kind, 1) < 1:
                raise _refusal(purse.accounts[kind], top)
        purse.more = None
        purse.hard = _last_elsewhere(purse, abroad)
        kept = _kept(purse, abroad)
        purse.set_aside(kept)
        if abroad.woken:  # they go on spending a part when the task is at rest again
            return (self._shared(purse, abroad, kept, abroad.woken),)
        mine = any(part.owner == self._owner for part in top.parts)
        return (BudgetShared(abroad.parts),) if mine else ()

    async def begin(self, purse: Purse, task: Task, needs: Needs) -> None:
        """Get parts for a task that is leased here and about to go on; BudgetSpent when there are none."""
        for each in self._parted(purse):
            async with AsyncExitStack() as stack:
                lease = await self._borrowed(stack, each)
                await self._promise(each, lease, await self._looked(each, lease.state), task, needs)

    @asynccontextmanager
    async def birth(self, purse: Purse, needs: Needs) -> AsyncGenerator[Told, None]:
        """While nobody else gets a part, so that a task can be born, which this has to be told.

        BudgetSpent when it cannot be.
        """
        async with AsyncExitStack() as stack:
            found: list[tuple[Purse, Lease, Abroad]] = []
            for each in self._parted(purse):
                lease = await self._borrowed(stack, each)
                abroad = await self._looked(each, lease.state)
                if _room(each, abroad).get("spawns", 1) < 1:
                    raise _refusal(each.accounts["spawns"], lease.state)
                _check(each, lease.state, abroad, _needed(each, abroad, needs))
                found.append((each, lease, abroad))

            async def born(task: Task) -> None:
                for each, lease, abroad in found:
                    each.learn(Spent(spawns=each.accounts["spawns"].spent + 1))
                    await self._promise(each, lease, abroad, task, needs)

            yield born

    def _parted(self, purse: Purse) -> list[Purse]:
        """The purses of which only parts may be spent here, from the top down."""
        return [each for each in reversed(purse.upwards) if each.more is not None and each in self._tops]

    async def _borrowed(self, stack: AsyncExitStack, purse: Purse) -> Lease:
        """The lease of the task that has the budget; BudgetSpent while somebody leads it."""
        task = self._tops[purse]
        try:
            return await stack.enter_async_context(self._borrow(task))
        except (UserMistake, Fenced) as taken:
            log.info("no part of the budget of task %s can be had: %s", task, taken)
            purse.holders = (task,)
            top = await self._store.task(task)
            bounded = next(each for each in purse.accounts.values() if each.limit is not None)
            raise _refusal(bounded, top) from None

    async def _looked(self, purse: Purse, top: Task) -> Abroad:
        """Who else spends from the budget of a task; what was spent of it is counted in the purse."""
        abroad = await self._slices.look(top, purse)
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

    async def _claim(self, purse: Purse, task: str, kind: str, needs: Needs) -> bool:
        """Get a part of what is left; False when that has nothing more of a kind."""
        before, hard = purse.elsewhere[kind], purse.hard
        try:
            async with self._borrow(task) as lease:
                if purse.elsewhere[kind] < before or (hard and not purse.hard):
                    return True  # somebody else in this process got it meanwhile
                abroad = await self._looked(purse, lease.state)
                return await self._divided(purse, lease, abroad, kind, needs)
        except (UserMistake, Fenced) as taken:
            log.info("no part of the budget of task %s can be had: %s", task, taken)
            purse.holders = (task,)
            return False

    async def _divided(self, purse: Purse, lease: Lease, abroad: Abroad, kind: str, needs: Needs) -> bool:
        needed = _needed(purse, abroad, {**needs, kind: max(1, needs.get(kind, 0))})
        rest, hard = _rest(purse, abroad, needed), _hard(purse, abroad, needed)
        if not _enough(purse, abroad, needed, kind):
            return False
        if rest[kind] >= purse.elsewhere[kind] and hard == purse.hard:
            return False
        purse.hard = hard
        await self._store.append(lease, [self._shared(purse, abroad, rest, abroad.woken)])
        purse.set_aside(rest)
        return True

    async def _promise(self, purse: Purse, lease: Lease, abroad: Abroad, task: Task, needs: Needs) -> None:
        """Write a part down for a task that begins, and all that spend from it here."""
        needed = _needed(purse, abroad, needs)
        _check(purse, lease.state, abroad, needed)
        rest = _rest(purse, abroad, needed)
        purse.hard = _hard(purse, abroad, needed)
        woken = {**abroad.woken, task.id: costs_of(task)}
        await self._store.append(lease, [self._shared(purse, abroad, rest, woken)])
        purse.set_aside(rest)

    def _shared(
        self, purse: Purse, abroad: Abroad, rest: Mapping[str, int], woken: Mapping[str, Budget]
    ) -> BudgetShared:
        """All parts of a budget when everything but this `rest` may be spent here."""
        # What is not written yet will look as if it had been spent of the part afterwards.
        unwritten = in_numbers(abroad.unwritten)
        amounts = {
            kind: max(0, limit - purse.accounts[kind].spent + unwritten[kind] - rest[kind])
            for kind, limit in _bounds(purse)
        }
        return BudgetShared((*abroad.parts, part_of(self._owner, amounts, woken, last=not purse.hard)))


class Woken(Struct, frozen=True, eq=False):
    """How an agent that spends only parts of the budgets above it gets the first of them."""

    sharing: Sharing
    purse: Purse

    async def begin(self, task: Task, request: Request, price: Price) -> None:
        """Before a task goes on that is leased here, with such a call; BudgetSpent when it cannot."""
        await self.sharing.begin(self.purse, task, needs_of(request, price))


@asynccontextmanager
async def paid(woken: Woken | None, request: Request, price: Price) -> AsyncGenerator[Told, None]:
    """While a task is born that begins with such a call, and that this has to be told."""
    if woken is None:
        yield _untold
        return
    async with woken.sharing.birth(woken.purse, needs_of(request, price)) as told:
        yield told


async def _untold(_: Task) -> None:
    """Nobody has to hear of a task that is paid like any other."""


def _bounds(purse: Purse) -> list[tuple[str, int]]:
    return [(kind, each.limit) for kind, each in purse.accounts.items() if each.limit is not None]


def _all(purse: Purse) -> dict[str, int]:
    """All that is neither spent nor set aside for agents here."""
    own = {kind: purse.accounts[kind].kept - purse.elsewhere[kind] for kind in purse.accounts}
    return {kind: max(0, limit - own[kind]) for kind, limit in _bounds(purse)}


def _kept(purse: Purse, abroad: Abroad) -> dict[str, int]:
    """What others may spend of it, so far as it is there."""
    left = _all(purse)
    known = {kind: abroad.kept.get(kind, 0) for kind in left}
    return {kind: left[kind] if (amount := known[kind]) is None else min(left[kind], amount) for kind in left}


def _room(purse: Purse, abroad: Abroad) -> dict[str, int]:
    """What can be had of it here."""
    left, kept = _all(purse), _kept(purse, abroad)
    return {kind: left[kind] - kept[kind] for kind in left}


def _needed(purse: Purse, abroad: Abroad, needs: Needs) -> dict[str, int]:
    """What one call may cost: no less than calls did cost, which the purse remembers.

    Agents are only got by who sends some.
    """
    for kind in COSTS_OF_A_CALL:
        # Where a price says that calls are free and they are not, only what whole tasks cost is sure.
        seen = abroad.most if needs.get(kind) == 0 else abroad.dearest
        purse.dearest[kind] = max(purse.dearest[kind], seen.get(kind, 0))
    calls = {kind: max(1, needs.get(kind, 0), purse.dearest[kind]) for kind in COSTS_OF_A_CALL}
    return {**calls, "spawns": needs.get("spawns", 0)}


def _rest(purse: Purse, abroad: Abroad, needed: Needs) -> dict[str, int]:
    """What is not got of each kind: what others have, and half of what is left where that is a call."""
    left, room = _all(purse), _room(purse, abroad)
    got = {kind: left[kind] - purse.elsewhere[kind] for kind in room}
    for kind, amount in room.items():
        if not abroad.alone or amount < 2 * needed[kind]:
            got[kind] = amount
        elif needed[kind]:
            got[kind] = max(got[kind], amount // 2)
    return {kind: left[kind] - min(got[kind], room[kind]) for kind in room}


def _last_elsewhere(purse: Purse, abroad: Abroad) -> bool:
    """Whether somebody else may exceed the budget by a call: who has the last part, or all that is left."""
    return abroad.last or any(abroad.kept.get(kind, 0) is None for kind, _ in _bounds(purse))


def _hard(purse: Purse, abroad: Abroad, needed: Needs) -> bool:
    """Whether calls have to fit here: one fits into what is left, or somebody else may exceed it."""
    room = _room(purse, abroad)
    fits = all(room[kind] >= needed[kind] for kind in COSTS_OF_A_CALL if kind in room)
    return fits or _last_elsewhere(purse, abroad)


def _enough(purse: Purse, abroad: Abroad, needed: Needs, kind: str) -> bool:
    """Whether anything can be had of a kind, and a call fits into it where it has to."""
    room = _room(purse, abroad).get(kind)
    if room is None or room < 1:
        return room is None
    return kind == "spawns" or room >= needed[kind] or not _last_elsewhere(purse, abroad)


def _check(purse: Purse, top: Task, abroad: Abroad, needed: Needs) -> None:
    """BudgetSpent when there is no part for a call."""
    for kind in COSTS_OF_A_CALL:
        if not _enough(purse, abroad, needed, kind):
            raise _refusal(purse.accounts[kind], top)


def _refusal(account: Account, top: Task | None) -> BudgetSpent:
    """Why nobody below a task can go on, and what can be done about it."""
    return BudgetSpent(f"{account.spent_words()} {_way_out(account, top)}".rstrip(), account)


def _way_out(account: Account, top: Task | None) -> str:
    if account.limit is not None and account.spent >= account.limit:
        spent = f"{account.number(account.spent)} are spent"
        if top is not None and top.conversation and account.kind in OPTIONS:
            return f"{spent}; a bigger budget lets it go on: {OPTIONS[account.kind]} N, or /budget."
        return f"{spent}; such a budget belongs to its task, and a new task gets a new one."
    if top is not None and not top.status.ended:
        return (
            f"{top.id} itself is at work in another process and may spend it all: wait until it is at "
            f"rest, stop it (gen task stop {top.id}), or say there what the agent should do."
        )
    return "Wait until they have ended, or stop one (gen task stop ID)." if account.purse.holders else ""
