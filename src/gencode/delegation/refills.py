"""What agents in processes of their own left of what they took along, for those that run out (delegation).

Each took a part of what its sender had left. One that has spent it lays a claim down for its sender, which
gives it more while it has more left itself than that part was: so what others gave back goes to those who
need it, and not what is the sender's. It is set aside there and left with the claim. The one that asked
writes it down as a bigger budget, so that whoever looks into the journals after that knows of it. Somebody
may have looked before that while the sender was at rest, and have taken the same. So it is spent only if the
sender is at work in the same process once it is written: that has counted both when it began.
"""

import asyncio
from collections.abc import Mapping
from functools import partial

from gencode.core.events import BudgetSet
from gencode.delegation.live import Job
from gencode.delegation.petitions import answer_to, holder_of
from gencode.delegation.portions import CALLS, SHARE, bounds
from gencode.runtime.amounts import raised
from gencode.runtime.claims import Claim, Claimed, Claims
from gencode.runtime.ports import Store
from gencode.runtime.purse import Purse, Tell
from gencode.runtime.recorder import Recorder


def let_ask(store: Store, job: Job) -> None:
    """Let an agent that another process sent here get more from there, once what it took along is spent."""
    if isinstance(store, Claimed) and job.purse is not None and job.task.parent is not None:
        refills = Refills(store, store.claims, job.record, job.task.parent)
        job.purse.more = partial(refills.more, job.purse)


class Refills:
    """Gets more for one agent from its sender."""

    def __init__(self, store: Store, claims: Claims, record: Recorder, sender: str) -> None:
        self._store = store
        self._claims = claims
        self._record = record
        self._sender = sender
        self._alone = asyncio.Lock()

    async def more(self, purse: Purse, kind: str, needs: Mapping[str, int], _: Tell) -> bool:
        """Whether its sender gave more, or did so meanwhile for another call."""
        before = purse.budget
        async with self._alone:
            if purse.budget != before:
                return True
            if self._record.task.budget != before:  # it was cut before it knew whether that counts
                await self._write(BudgetSet(before))
            holder = await holder_of(self._store, self._sender)
            given = await self._given(_missing(purse, {**needs, kind: max(1, needs.get(kind, 0))}))
            if not given:
                return False
            await self._write(BudgetSet(raised(before, given)))
            if not await self._counted_by(holder):
                await self._write(BudgetSet(before))
                return False
            purse.widen(given)
            return True

    async def _counted_by(self, holder: str) -> bool:
        """Whether the sender is at work in the process that gave something.

        One that is only taken up again has not looked yet whether others took the same while it was at rest.
        """
        # In this order: whoever leads it after the first look has seen what is written.
        same = bool(holder) and await holder_of(self._store, self._sender) == holder
        found = await self._store.task(self._sender)
        return same and found is not None and not found.status.ended

    async def _given(self, missing: Mapping[str, int]) -> dict[str, int]:
        task = self._record.task.id
        claim = Claim(task, self._sender, self._record.lease.owner, (task,), missing)
        given = (await answer_to(self._store, self._claims, claim)).given
        return {kind: given[kind] for kind in missing if given.get(kind, 0) > 0}

    async def _write(self, fact: BudgetSet) -> None:
        self._record.publish(await self._store.append(self._record.lease, [fact]))


def _missing(purse: Purse, needs: Mapping[str, int]) -> dict[str, int]:
    """What would have to be more of each kind."""
    short = {kind: needs.get(kind, 0) - (limit - purse.accounts[kind].kept) for kind, limit in bounds(purse)}
    return {kind: amount for kind, amount in short.items() if amount > 0}


def refill(purse: Purse, missing: Mapping[str, int]) -> dict[str, int]:
    """So much more is set aside for an agent that misses so much; nothing when that is not left over."""
    given: dict[str, int] = {}
    for kind, amount in missing.items():
        above = purse.accounts[kind].above if kind in purse.took else None
        if above is None or amount < 1:
            return {}
        over = above.room() - purse.took[kind]
        given[kind] = min(over, max(over // SHARE, CALLS * amount))
        if given[kind] < amount or any(above.tight_for(given[kind])):
            return {}
    purse.widen(given)
    return given
