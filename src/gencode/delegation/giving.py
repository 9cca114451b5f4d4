"""Parts of a budget for others, given by who is at work with it (delegation).

Whoever leads a task holds its lease, and may spend all that its budget leaves; so does an agent that it sent.
Somebody who wakes another agent below it in another process lays a claim down (`sharing.py`). It is answered
here, between two calls: a share of what is neither spent nor set aside is written down as a part and set
aside in the purse, where a call fits into half of it (`portions.py`). So the leader always keeps a call.
What was given comes back when nobody spends it any more. A leader that has nothing else left waits for that
(`refunds.py`) while those who have it spend it: whoever has spent its part then gets no other one, and ends
before it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from gencode.core.budget import Budget, Part
from gencode.core.errors import Fenced, StoreTrouble, UserMistake
from gencode.core.events import BudgetShared, Event
from gencode.delegation.live import Job, Live
from gencode.delegation.portions import Borrow, bounds, kept_elsewhere, needed_for, share_of
from gencode.delegation.refills import refill
from gencode.delegation.refunds import Refunds
from gencode.delegation.slices import Abroad, Slices, part_of
from gencode.runtime.amounts import limits_of
from gencode.runtime.claims import Claim, Claimed, Claims
from gencode.runtime.owner import fate
from gencode.runtime.ports import Lease, Store
from gencode.runtime.purse import COSTS_OF_A_CALL, Purse

log = logging.getLogger(__name__)


class Giving:
    """Answers claims on the budgets that are spent from in this process."""

    def __init__(
        self, store: Store, owner: str, live: Callable[[str], Live | None], borrow: Borrow, slices: Slices
    ) -> None:
        self._store = store
        self._claims = store.claims if isinstance(store, Claimed) else None
        self._owner = owner
        self._live = live
        self._borrow = borrow
        self._slices = slices
        self._looking: WeakKeyDictionary[Purse, asyncio.Lock] = WeakKeyDictionary()
        self._refunds: WeakKeyDictionary[Purse, Refunds] = WeakKeyDictionary()

    def alone(self, purse: Purse) -> asyncio.Lock:
        """While nobody else here looks at what others have of a budget, and sets that aside."""
        return self._looking.setdefault(purse, asyncio.Lock())

    async def heed(self) -> None:
        """Answer every claim that lies there: with a part in the journal, or without one."""
        if self._claims is None:
            return
        for number, claim in await self._claims.at(self._owner):
            if claim.widens and await self._refilled(self._claims, number, claim):
                continue
            try:
                if not claim.widens and fate(claim.owner) != "dead":
                    await self._answer(claim)
            except StoreTrouble:
                raise
            except (UserMistake, Fenced) as taken:
                log.info("no part of the budget of task %s can be given: %s", claim.task, taken)
            await self._claims.drop(number)

    async def _refilled(self, claims: Claims, number: int, claim: Claim) -> bool:
        """Whether an agent gets more to what it took along; it is set aside before anybody else knows it."""
        agent = self._live(claim.task)
        if agent is None or isinstance(agent, Job) or agent.purse is None:
            return False
        found = await self._store.task(claim.task)
        if found is None:
            return False
        agent.purse.widen(_unheard(agent.purse, found.budget))
        given = refill(agent.purse, claim.needs)
        if not given or await claims.give(number, replace(claim, given=given)):
            return bool(given)
        agent.purse.widen({kind: -amount for kind, amount in given.items()})
        return False

    def watch(self, purse: Purse, task: str) -> None:
        """Let a purse of which others have parts get back what these do not spend, once it is short."""
        refunds = self._refunds.setdefault(purse, Refunds(partial(self._look, task)))
        purse.more = partial(refunds.more, purse)

    async def _look(self, task: str, purse: Purse) -> bool:
        """Set aside what others may spend now; False when nobody knows that any more."""
        found = await self._store.task(task)
        if found is not None:
            async with self.alone(purse):
                abroad = await self._slices.learn(found, purse)
                purse.set_aside(kept_elsewhere(purse, abroad))
        return found is not None

    async def _answer(self, claim: Claim) -> None:
        leader = self._live(claim.task)
        if isinstance(leader, Job):
            if leader.purse is not None and leader.purse.limited:
                async with self.alone(leader.purse):
                    given = await self._give(claim, leader.purse, leader.record.lease)
                leader.record.publish(given)
            return
        spender = self._live(claim.via)
        async with self._borrow(claim.task) as lease:
            if lease.state.conversation and isinstance(spender, Job) and spender.purse is not None:
                purse = spender.purse.upwards[-1]
                async with self.alone(purse):
                    if purse.limited:  # there may be a budget that is known only elsewhere
                        await self._give(claim, purse, lease)

    async def _give(self, claim: Claim, purse: Purse, lease: Lease) -> list[Event]:
        """Write a part down for who claims it, and keep it from everybody here; nothing where it is short."""
        abroad = await self._slices.learn(lease.state, purse)
        spenders = [await self._store.task(task) for task in claim.tasks]
        before = {task.id: abroad.costs_of(task) for task in spenders if task is not None}
        born = len(abroad.unborn & before.keys())
        # From here on nothing else happens in this process until the part is set aside.
        kept = kept_elsewhere(purse, abroad)
        purse.set_aside(kept)
        has = _part_left(purse, abroad, claim.owner)
        given = _offer(purse, abroad, claim, has, born)
        if given is None:
            return []
        counted = {"spawns": born}  # who begins with it is one agent more, as the journal tells from now on
        purse.set_aside({kind: kept[kind] + given[kind] + counted.get(kind, 0) for kind in kept})
        amounts = {kind: has[kind] + amount for kind, amount in given.items()}
        written = False
        try:
            events = await self._store.append(lease, [self._shared(claim, abroad, amounts, before, lease)])
            written = True
        finally:
            if not written:
                purse.set_aside(kept)
        purse.holders = (*abroad.holders, *(each for each in before if each not in abroad.holders))
        if not purse.parted:
            self.watch(purse, claim.task)
        return events

    def _shared(
        self,
        claim: Claim,
        abroad: Abroad,
        amounts: Mapping[str, int],
        before: Mapping[str, Budget],
        lease: Lease,
    ) -> BudgetShared:
        """All parts of a budget, with what the claimant has from now on."""
        last = any(part.last for part in abroad.parts if part.owner == claim.owner)
        others = [part for part in abroad.parts if part.owner != claim.owner]
        own: list[Part] = [part for part in lease.state.parts if part.owner == self._owner]
        return BudgetShared((*others, *own, part_of(claim.owner, amounts, before, last=last)))


def _unheard(purse: Purse, written: Budget) -> dict[str, int]:
    """What was set aside for an agent that asks again, and is not in its journal: it never got that."""
    known = limits_of(written)
    more = {kind: amount - limit for kind, limit in bounds(purse) if (amount := known[kind]) is not None}
    return {kind: amount for kind, amount in more.items() if amount < 0}


def _part_left(purse: Purse, abroad: Abroad, owner: str) -> dict[str, int]:
    """What is left of the part of a process, no more than there is beside the parts of all others.

    What those spent of it who have ended is not taken from it: it is in what is spent of the budget.
    """
    part = abroad.holds.get(owner, {})
    found: dict[str, int] = {}
    for kind, limit in bounds(purse):
        own = part.get(kind, 0)
        others = max(0, (abroad.kept.get(kind, 0) or 0) - own)
        here = purse.accounts[kind].load - purse.accounts[kind].elsewhere
        found[kind] = max(0, min(own, limit - here - others))
    return found


def _offer(
    purse: Purse, abroad: Abroad, claim: Claim, has: Mapping[str, int], born: int
) -> dict[str, int] | None:
    """A share of what is left of each kind that is needed; None when a call does not fit into that.

    There have to be as many agents as are `born`. Of what is left then one that is needed is given, too.
    """
    needed = needed_for(purse, abroad, claim.needs)
    kinds = COSTS_OF_A_CALL if "turns" in claim.needs else tuple(claim.needs)
    room = {kind: max(0, limit - purse.accounts[kind].load) for kind, limit in bounds(purse)}
    if room.get("spawns", born) < born:
        return None
    given = dict.fromkeys(room, 0)
    for kind in (each for each in room if each in kinds):
        missing = needed[kind] - has[kind]
        given[kind] = share_of(room[kind], needed[kind])
        if kind == "spawns":  # a leader needs a call to go on, and no agent
            given[kind] = max(given[kind], min(missing, room[kind]))
        if given[kind] < missing:
            return None
    return given
