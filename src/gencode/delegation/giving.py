"""Parts of a budget for others, given by who is at work with it (delegation).

Whoever leads a task holds its lease, and may spend all that its budget leaves; so does an agent that it sent.
Somebody who wakes another agent below it in another process lays a claim down (`sharing.py`). It is answered
here, between two calls: half of what is neither spent nor set aside is written down as a part and set aside
in the purse, where a call fits into that. So the leader always keeps a call. What was given comes back when
nobody spends it any more.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from weakref import WeakKeyDictionary

from gencode.core.budget import Budget, Part
from gencode.core.errors import Fenced, StoreTrouble, UserMistake
from gencode.core.events import BudgetShared, Event
from gencode.core.task import Task
from gencode.delegation.live import Job, Live
from gencode.delegation.portions import Borrow, bounds, kept_elsewhere, needed_for
from gencode.delegation.slices import Abroad, Slices, part_of
from gencode.runtime.claims import Claim, Claimed
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

    def alone(self, purse: Purse) -> asyncio.Lock:
        """While nobody else here looks at what others have of a budget, and sets that aside."""
        return self._looking.setdefault(purse, asyncio.Lock())

    async def heed(self) -> None:
        """Answer every claim that lies there: with a part in the journal, or without one."""
        if self._claims is None:
            return
        for number, claim in await self._claims.at(self._owner):
            try:
                await self._answer(claim)
            except StoreTrouble:
                raise
            except (UserMistake, Fenced) as taken:
                log.info("no part of the budget of task %s can be given: %s", claim.task, taken)
            await self._claims.drop(number)

    def watch(self, purse: Purse, task: str) -> None:
        """Let a purse of which others have parts get back what these do not spend, once it is short."""
        purse.more = partial(self._come_back, purse, task)

    async def _come_back(self, purse: Purse, task: str, kind: str, _needs: Mapping[str, int]) -> bool:
        before = purse.elsewhere[kind]
        found = await self._store.task(task) if before else None
        if found is None:
            return False
        await self._look(found, purse)
        return purse.elsewhere[kind] < before

    async def _look(self, task: Task, purse: Purse) -> None:
        async with self.alone(purse):
            abroad = await self._slices.learn(task, purse)
            purse.set_aside(kept_elsewhere(purse, abroad))

    async def _answer(self, claim: Claim) -> None:
        leader = self._live(claim.task)
        if isinstance(leader, Job):
            if leader.purse is not None:
                async with self.alone(leader.purse):
                    given = await self._give(claim, leader.purse, leader.record.lease)
                leader.record.publish(given)
            return
        spender = self._live(claim.via)
        async with self._borrow(claim.task) as lease:
            if lease.state.conversation and isinstance(spender, Job) and spender.purse is not None:
                purse = spender.purse.upwards[-1]
                async with self.alone(purse):
                    await self._give(claim, purse, lease)

    async def _give(self, claim: Claim, purse: Purse, lease: Lease) -> list[Event]:
        """Write a part down for who claims it, and keep it from everybody here; nothing where it is short."""
        abroad = await self._slices.learn(lease.state, purse)
        spenders = [await self._store.task(task) for task in claim.tasks]
        before = {task.id: abroad.costs_of(task) for task in spenders if task is not None}
        promised = {task for part in lease.state.parts for task in part.before}
        born = sum(each.started_at is None and each.id not in promised for each in spenders if each)
        # From here on nothing else happens in this process until the part is set aside.
        kept = kept_elsewhere(purse, abroad)
        purse.set_aside(kept)
        given = _half(purse, abroad, claim, born)
        if given is None:
            return []
        counted = {"spawns": born}  # who begins with it is one agent more, as the journal tells from now on
        purse.set_aside({kind: kept[kind] + given[kind] + counted.get(kind, 0) for kind in kept})
        written = False
        try:
            events = await self._store.append(lease, [self._shared(claim, abroad, given, before, lease)])
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
        given: Mapping[str, int],
        before: Mapping[str, Budget],
        lease: Lease,
    ) -> BudgetShared:
        """All parts of a budget, with what is given now added to what the claimant has."""
        has = abroad.holds.get(claim.owner, {})
        last = any(part.last for part in abroad.parts if part.owner == claim.owner)
        amounts = {kind: has.get(kind, 0) + amount for kind, amount in given.items()}
        others = [part for part in abroad.parts if part.owner != claim.owner]
        own: list[Part] = [part for part in lease.state.parts if part.owner == self._owner]
        return BudgetShared((*others, *own, part_of(claim.owner, amounts, before, last=last)))


def _half(purse: Purse, abroad: Abroad, claim: Claim, born: int) -> dict[str, int] | None:
    """Half of what is left of each kind that is needed; None when a call does not fit into that.

    There have to be as many agents as are `born`. Of what is left then one that is needed is given, too.
    """
    needed = needed_for(purse, abroad, claim.needs)
    kinds = COSTS_OF_A_CALL if "turns" in claim.needs else tuple(claim.needs)
    has = abroad.holds.get(claim.owner, {})
    room = {kind: max(0, limit - purse.accounts[kind].load) for kind, limit in bounds(purse)}
    if room.get("spawns", born) < born:
        return None
    given = dict.fromkeys(room, 0)
    for kind in (each for each in room if each in kinds):
        missing = needed[kind] - has.get(kind, 0)
        given[kind] = room[kind] // 2
        if kind == "spawns":  # a leader needs a call to go on, and no agent
            given[kind] = max(given[kind], min(missing, room[kind]))
        if given[kind] < missing:
            return None
    return given
