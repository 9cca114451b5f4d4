"""One budget, several processes: who works below a task elsewhere gets parts of what its budget leaves.

An agent that is woken while nobody above it is at work in its process gets a part before it begins: an eighth
of what is left, or two calls where that is more, but no more than half; as much again when a call no longer
fits into that; all that is left where half of it is less than a call may cost (`portions.py`). Only one
process at a time may exceed its part, by one call, and only when nothing is left that a call would fit into.
Parts are written into the journal of the task that has the budget, under its lease, so that nobody gets what
somebody else has. Where the task is at rest, who needs one borrows its lease. Where it is at work, or one
that may spend all of it, who needs one lays a claim down and waits for a while: its process gives a part
(`giving.py`), and stays the one that may exceed the budget. A part counts while an agent that got it is at
work; nobody has to give it back, and a process that dies keeps none.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from weakref import WeakKeyDictionary

from msgspec import Struct

from gencode.core.budget import Budget, Part
from gencode.core.errors import Fenced, StoreTrouble, UserMistake
from gencode.core.events import BudgetSet, BudgetShared
from gencode.core.prices import Price
from gencode.core.task import Task
from gencode.delegation.accounts import tightest
from gencode.delegation.crash_recovery import close_if_orphan
from gencode.delegation.giving import Giving
from gencode.delegation.live import Live
from gencode.delegation.petitions import PATIENCE, answer_to, holder_of, no_answer
from gencode.delegation.portions import (
    Borrow,
    Needs,
    bounds,
    has_to_fit,
    is_enough,
    kept_elsewhere,
    last_elsewhere,
    needed_for,
    rest_of,
    room_of,
    unspent,
)
from gencode.delegation.shortage import asked_in_vain, check, refusal, unheard
from gencode.delegation.slices import Abroad, Slices, part_of, total
from gencode.runtime.amounts import NOTHING, in_numbers, limits_of
from gencode.runtime.claims import Claim, Claimed
from gencode.runtime.ports import Lease, Request, Store
from gencode.runtime.purse import COSTS_OF_A_CALL, BudgetSpent, Purse
from gencode.runtime.spending import needs_of

log = logging.getLogger(__name__)


class Sharing:
    """Hands out parts of budgets to the agents of this process."""

    def __init__(self, store: Store, owner: str, live: Callable[[str], Live | None], borrow: Borrow) -> None:
        self._store = store
        self._claims = store.claims if isinstance(store, Claimed) else None
        self._owner = owner
        self._borrow = borrow
        self._slices = Slices(store, owner, live)
        self._giving = Giving(store, owner, live, borrow, self._slices)
        self.heed = self._giving.heed
        self._tops: WeakKeyDictionary[Purse, Task] = WeakKeyDictionary()
        """Of which task that is not led here a purse has the budget, as it was when that was looked at."""
        self._mute: WeakKeyDictionary[Purse, str] = WeakKeyDictionary()
        """Who was asked for a part last, and gave no answer in time."""
        self._asking: WeakKeyDictionary[Purse, asyncio.Lock] = WeakKeyDictionary()

    async def wake(self, purse: Purse, top: Task, *, sends: bool = False) -> None:
        """Let a purse pay for somebody below a task that is not led here; BudgetSpent when nothing is left.

        Each part of it is got when it is needed. One that `sends` needs room for one agent more.
        """
        abroad = await self._slices.learn(top, purse)
        room = room_of(purse, abroad)
        if abroad.giver and self._claims is not None:  # it is asked for a part
            room = {kind: limit - purse.accounts[kind].spent for kind, limit in bounds(purse)}
        for kind in (*COSTS_OF_A_CALL, "spawns") if sends else COSTS_OF_A_CALL:
            if room.get(kind, 1) < 1:
                raise refusal(purse.accounts[kind], top)
        self._divide(purse, top)

    def _divide(self, purse: Purse, top: Task) -> None:
        """Let only parts of a purse be spent here from now on, each when it is asked for."""
        self._tops[purse] = top
        purse.more = lambda kind, needs, _: self._claim(purse, kind, needs)
        purse.parted = purse.hard = True
        purse.set_aside(unspent(purse))

    async def bind(self, purse: Purse, top: Task, budget: Budget) -> None:
        """Bound all who spend from a purse here by what a task at rest may spend from now on.

        What they have spent so far counts. They get it in parts, as those do who are woken below it.
        """
        await self._slices.learn(top, purse)
        purse.rebind(budget)
        if purse.limited:
            self._divide(purse, top)
        else:
            purse.more, purse.parted, purse.hard = None, False, False

    async def learn(self, purse: Purse, top: Task) -> None:
        """Count in a purse what the journals say was spent of it."""
        await self._slices.learn(top, purse)

    async def check_heard(self, top: Task, purse: Purse, before: Budget, budget: Budget) -> None:
        """UserMistake where others at work below a task could spend more than it may from now on.

        They are in other processes, and know only of what bounded them `before`.
        """
        abroad, were = await self._slices.look(top, purse), limits_of(before)
        spent, besides = in_numbers(abroad.spent), in_numbers(abroad.unwritten)
        may = total((abroad.kept, *abroad.apart.values()))
        for kind, limit in limits_of(budget).items():
            was, more = were[kind], may.get(kind, 0)
            if limit is None or (was is not None and was <= limit):
                continue
            # Who has a part gets another one by the budget that its process knows.
            if abroad.parts or more is None or (more and spent[kind] + besides[kind] + more > limit):
                raise unheard(top, (*abroad.holders, *abroad.apart))

    async def lead(self, purse: Purse, top: Task) -> tuple[BudgetShared, ...]:
        """Let a purse pay for a task whose lease is held here, and for all it sends; what to write of it.

        BudgetSpent when that leaves nothing for a call.
        """
        async with self._giving.alone(purse):
            return await self._led(purse, top)

    async def _led(self, purse: Purse, top: Task) -> tuple[BudgetShared, ...]:
        abroad = await self._slices.learn(top, purse)
        room = room_of(purse, abroad)
        for kind in COSTS_OF_A_CALL:
            if room.get(kind, 1) < 1:
                raise refusal(purse.accounts[kind], top)
        purse.more, purse.parted = None, False
        purse.hard = last_elsewhere(purse, abroad)
        kept = kept_elsewhere(purse, abroad)
        if abroad.parts or any(kept.values()):
            self._giving.watch(purse, top.id)
        purse.set_aside(kept)
        if abroad.woken:  # they go on spending a part when the task is at rest again
            return (self._shared(purse, abroad, kept, abroad.woken),)
        mine = any(part.owner == self._owner for part in top.parts)
        return (BudgetShared(abroad.parts),) if mine else ()

    async def begin(self, purse: Purse, task: Task, needs: Needs) -> None:
        """Get parts for a task that is leased here and about to go on; BudgetSpent when there are none."""
        for each in self._parted(purse):
            async with self._alone(each):
                await self._begun(each, task, needs)

    async def _begun(self, purse: Purse, task: Task, needs: Needs) -> None:
        async def promise(lease: Lease, abroad: Abroad) -> bool:
            await self._promise(purse, lease, abroad, task, needs)
            return True

        if await self._got(purse, (task.id,), needs, promise, lambda: purse.parted) is False:
            raise await self._nothing(purse, self._tops[purse].id, task, needs)

    async def _got(
        self,
        purse: Purse,
        begins: tuple[str, ...],
        needs: Needs,
        take: Callable[[Lease, Abroad], Awaitable[bool]],
        missed: Callable[[], bool],
    ) -> bool | None:
        """Take a part for those at work here and who `begins`, while it is `missed`; False: there is none.

        None: it was asked for, and given.
        """
        top, until = self._tops[purse].id, time.monotonic() + PATIENCE
        while missed():
            async with AsyncExitStack() as stack:
                lease, abroad = await self._entered(stack, purse, top)
                if lease is not None:
                    return await take(lease, abroad)
            if await self._asked(purse, top, abroad, (*abroad.woken, *begins), needs):
                return None
            if await self._in_vain(purse, top, abroad, until):
                return False
        return True  # somebody else in this process got it meanwhile

    async def _in_vain(self, purse: Purse, top: str, abroad: Abroad, until: float) -> bool:
        """Whether it is of no use to ask again: the one to ask is still the same, or the time is up."""
        found = await self._store.task(top)
        now = await self._slices.learn(found, purse) if found else abroad
        return now.giver == abroad.giver or time.monotonic() > until

    async def _nothing(self, purse: Purse, top: str, task: Task, needs: Needs) -> BudgetSpent:
        """Why there is no part for a task."""
        bounded = purse.accounts[bounds(purse)[0][0]]
        if mute := self._mute.pop(purse, ""):
            return BudgetSpent(no_answer(mute), bounded)
        found = await self._store.task(top)
        if found is None:
            return refusal(bounded, None)
        abroad = await self._slices.learn(found, purse)
        needed = {**needed_for(purse, abroad, needs), "spawns": int(task.id in abroad.unborn)}
        return asked_in_vain(purse, found, abroad, needed)

    def _parted(self, purse: Purse) -> list[Purse]:
        """The purses of which only parts may be spent here, from the top down."""
        return [each for each in reversed(purse.upwards) if each.parted and each in self._tops]

    def _alone(self, purse: Purse) -> asyncio.Lock:
        """While nobody else in this process gets a part of the same budget."""
        return self._asking.setdefault(purse, asyncio.Lock())

    async def _entered(self, stack: AsyncExitStack, purse: Purse, top: str) -> tuple[Lease | None, Abroad]:
        """The lease of the task that has the budget, and who spends it; None while one may spend it all."""
        try:
            lease = await self._lent(stack, top)
        except StoreTrouble:
            raise
        except (UserMistake, Fenced) as taken:
            log.info("no part of the budget of task %s can be had: %s", top, taken)
            found = await self._store.task(top)
            if found is None:
                raise
            return None, await self._slices.learn(found, purse)
        if lease.state.budget != self._tops[purse].budget:  # somebody else named another one meanwhile
            self._tops[purse] = lease.state
            purse.rebind(tightest(purse.budget, lease.state.budget))
        abroad = await self._slices.learn(lease.state, purse)
        return None if abroad.giver else lease, abroad

    async def _lent(self, stack: AsyncExitStack, top: str) -> Lease:
        try:
            return await stack.enter_async_context(self._borrow(top))
        except UserMistake:
            if await holder_of(self._store, top):
                raise
            await close_if_orphan(self._store, top, self._owner)  # who led it has died
            return await stack.enter_async_context(self._borrow(top))

    async def announce(self, session: str, budget_of: Callable[[Task], Budget]) -> None:
        """Write down what a conversation may spend by what counts here, for processes that do not know it.

        UserMistake where agents of it at work in others would exceed it. Who is at work with it gives only of
        what it has itself, so then its journal stays as it is.
        """
        async with AsyncExitStack() as stack:
            try:
                lease = await self._lent(stack, session)
            except StoreTrouble:
                raise
            except (UserMistake, Fenced) as taken:
                log.info("the budget of %s stays as it is written: %s", session, taken)
                return
            before = lease.state.budget
            if (budget := budget_of(lease.state)) != before:
                await self.check_heard(lease.state, Purse("the session", before), before, budget)
                await self._store.append(lease, [BudgetSet(budget)])

    async def _asked(
        self, purse: Purse, top: str, abroad: Abroad, tasks: Sequence[str], needs: Needs
    ) -> bool:
        """Whether who is at work with a budget gives a part of it to these tasks here."""
        if self._claims is None or not abroad.giver:
            return False
        own = {kind: account.spent - account.learned for kind, account in purse.accounts.items()}
        found = await self._store.task(top)
        unwritten = in_numbers((await self._slices.learn(found, purse)).unwritten if found else NOTHING)
        before = self._part(found)
        claim = Claim(top, abroad.giver, self._owner, tuple(tasks), needs)
        answer = await answer_to(self._store, self._claims, claim)
        self._mute[purse] = abroad.giver if answer.late else ""
        part = self._part(now := await self._store.task(top))
        if now is None or part is None or part == before or not {*tasks} <= part.before.keys():
            return False
        await self._slices.learn(now, purse)  # who has just begun counts as an agent
        since = {
            kind: unwritten[kind] + account.spent - account.learned - own[kind]
            for kind, account in purse.accounts.items()
        }
        got = {kind: max(0, (limits_of(part.budget)[kind] or 0) - since[kind]) for kind in own}
        purse.set_aside({kind: max(0, left - got[kind]) for kind, left in unspent(purse).items()})
        return True

    def _part(self, top: Task | None) -> Part | None:
        return next((part for part in top.parts if part.owner == self._owner), None) if top else None

    async def _claim(self, purse: Purse, kind: str, needs: Needs) -> bool:
        """Get a part of what is left; False when that has nothing more of a kind."""
        account, hard = purse.accounts[kind], purse.hard
        before = account.elsewhere
        needs = {**needs, kind: max(1, needs.get(kind, 0))}

        def missed() -> bool:
            return purse.parted and account.elsewhere >= before and purse.hard == hard

        async def divide(lease: Lease, abroad: Abroad) -> bool:
            return await self._divided(purse, lease, abroad, kind, needs)

        async with self._alone(purse):
            got = await self._got(purse, (), needs, divide, missed)
        return account.elsewhere < before if got is None else got

    async def _divided(self, purse: Purse, lease: Lease, abroad: Abroad, kind: str, needs: Needs) -> bool:
        needed = needed_for(purse, abroad, needs)
        rest, hard = rest_of(purse, abroad, needed), has_to_fit(purse, abroad, needed)
        if not is_enough(purse, abroad, needed, kind):
            return False
        if rest[kind] >= purse.accounts[kind].elsewhere and hard == purse.hard:
            return False
        purse.hard = hard
        await self._store.append(lease, [self._shared(purse, abroad, rest, abroad.woken)])
        purse.set_aside(rest)
        return True

    async def _promise(self, purse: Purse, lease: Lease, abroad: Abroad, task: Task, needs: Needs) -> None:
        """Write a part down for a task that begins, and all that spend from it here.

        A new one counts as an agent from now on. The purse learns so from the journal, and forgets nothing it
        learned, so until then this is set aside: if it does not begin after all, nobody misses an agent.
        """
        born = int(task.id in abroad.unborn)
        if room_of(purse, abroad).get("spawns", born) < born:
            raise refusal(purse.accounts["spawns"], lease.state)
        needed = needed_for(purse, abroad, needs)
        check(purse, lease.state, abroad, needed)
        rest = rest_of(purse, abroad, needed, born)
        purse.hard = has_to_fit(purse, abroad, needed)
        woken = {**abroad.woken, task.id: abroad.costs_of(task)}
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
            for kind, limit in bounds(purse)
        }
        last = purse.loose > 0 or purse.lent > 0 or not purse.hard
        return BudgetShared((*abroad.parts, part_of(self._owner, amounts, woken, last=last)))


class Woken(Struct, frozen=True, eq=False):
    """How an agent that spends only parts of the budgets above it gets the first of them."""

    sharing: Sharing
    purse: Purse

    async def begin(self, task: Task, request: Request, price: Price) -> None:
        """Before a task goes on that is leased here, with such a call; BudgetSpent when it cannot."""
        await self.sharing.begin(self.purse, task, needs_of(request, price))
