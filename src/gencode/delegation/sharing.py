"""One budget, several processes: who works below a task at rest gets parts of what its budget leaves.

An agent that is woken while nobody above it is at work in its process may spend nothing before it has got a
part: half of what is left, and half of the rest when that is spent. Parts are handed out under the lease of
the task that has the budget and written into its journal, so that nobody gets what somebody else has. A part
counts while an agent that got it is at work; nobody has to give it back, and a process that dies keeps none.
Whoever leads the task holds its lease, and may spend what the parts leave.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial

from gencode.core.errors import Fenced, UserMistake
from gencode.core.events import BudgetShared
from gencode.core.task import Task
from gencode.delegation.live import Live
from gencode.delegation.slices import Abroad, Slices, part_of
from gencode.runtime.ports import Lease, Store
from gencode.runtime.purse import COSTS_OF_A_CALL, BudgetSpent, Purse

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""So many seconds a part waits for somebody elsewhere to begin, whom it may have to be shared with."""
LOOK_SECONDS = 0.05

Borrow = Callable[[str], AbstractAsyncContextManager[Lease]]
"""The lease of a task at rest, for a moment."""


class Sharing:
    """Hands out parts of budgets to the agents of this process."""

    def __init__(self, store: Store, owner: str, live: Callable[[str], Live | None], borrow: Borrow) -> None:
        self._store = store
        self._owner = owner
        self._borrow = borrow
        self._slices = Slices(store, owner, live)

    async def wake(self, purse: Purse, top: Task, *, sends: bool = False) -> None:
        """Let a purse pay for somebody below a task at rest; BudgetSpent when nothing is left for that.

        Each part of it is got when it is needed. One that `sends` needs room for one agent more.
        """
        abroad = await self._slices.look(top)
        purse.learn(abroad.spent)
        room = _room(purse, abroad)
        for kind in (*COSTS_OF_A_CALL, "spawns") if sends else COSTS_OF_A_CALL:
            if room.get(kind, 1) < 1:
                account = purse.accounts[kind]
                raise BudgetSpent(account.spent_words(), account)
        purse.more = partial(self._claim, purse, top.id)
        purse.set_aside(_all(purse))

    async def lead(self, purse: Purse, top: Task) -> tuple[BudgetShared, ...]:
        """Let a purse pay for a task whose lease is held here, and for all it sends; what to write of it."""
        abroad = await self._slices.look(top)
        purse.learn(abroad.spent)
        purse.more = None
        kept = _kept(purse, abroad)
        purse.set_aside(kept)
        if abroad.woken:  # they go on spending a part when the task is at rest again
            return (self._shared(purse, abroad, kept),)
        mine = any(part.owner == self._owner for part in top.parts)
        return (BudgetShared(abroad.parts),) if mine else ()

    async def _claim(self, purse: Purse, task: str, kind: str) -> bool:
        """Get a part of what is left; False when that has nothing more of a kind."""
        before = purse.elsewhere[kind]
        until = time.monotonic() + PATIENCE
        while True:
            try:
                async with self._borrow(task) as lease:
                    if purse.elsewhere[kind] < before:
                        return True  # somebody else in this process got it meanwhile
                    abroad = await self._slices.look(lease.state)
                    if not abroad.beginning or time.monotonic() > until:
                        return await self._divided(purse, lease, abroad, kind)
            except (UserMistake, Fenced) as taken:
                log.info("no part of the budget of task %s can be had: %s", task, taken)
                return False
            await asyncio.sleep(LOOK_SECONDS)

    async def _divided(self, purse: Purse, lease: Lease, abroad: Abroad, kind: str) -> bool:
        purse.learn(abroad.spent)
        kept, room = _kept(purse, abroad), _room(purse, abroad)
        rest = {each: kept[each] + (room[each] // 2 if abroad.alone else 0) for each in kept}
        if room[kind] < 1 or rest[kind] >= purse.elsewhere[kind]:
            return False
        await self._store.append(lease, [self._shared(purse, abroad, rest)])
        purse.set_aside(rest)
        return True

    def _shared(self, purse: Purse, abroad: Abroad, rest: Mapping[str, int]) -> BudgetShared:
        """All parts of a budget when everything but this `rest` may be spent here."""
        amounts = {
            kind: max(0, limit - purse.accounts[kind].spent - rest[kind]) for kind, limit in _bounds(purse)
        }
        return BudgetShared((*abroad.parts, part_of(self._owner, amounts, abroad.woken)))


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
