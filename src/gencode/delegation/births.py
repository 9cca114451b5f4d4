"""How a task is born (delegation): its first facts, and what it has to get before it begins."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.events import DurableFact, Event, TaskCreated, settle
from gencode.core.task import Task
from gencode.runtime.fleet import Dispatching
from gencode.runtime.ports import Handover, Lease, Store

Begins = Callable[[Task], Awaitable[None]]
"""Gets what a task spends that is leased here; BudgetSpent when it cannot begin."""


class Birth(Struct, frozen=True):
    """The first fact of a task and what is written `then`; by a `handover` it may be written down already.

    The id it is `named` by counts where it is not.
    """

    created: TaskCreated
    then: Sequence[DurableFact]
    handover: Handover | None = None
    named: str = ""

    async def written(self, store: Store, owner: str, begins: Begins | None) -> tuple[Lease, list[Event]]:
        """The lease of the task, and its facts; one that `begins` is not born when it does not."""
        if begins is None:
            return await self._written(store, owner, self.then)
        first = replace(self, created=replace(self.created, woken=True))
        lease, events = await first._written(store, owner, ())
        begun = False
        try:
            await begins(lease.state)
            events += await store.append(lease, self.then)
            begun = True
        finally:
            if not begun:
                await store.release(lease)
                if not self._is_known:
                    await store.delete(lease.task)
        return lease, events

    @property
    def _is_known(self) -> bool:
        """Whether somebody else has written it down, for whoever takes it first."""
        return self.handover is not None and bool(self.handover.task)

    async def _written(
        self, store: Store, owner: str, then: Sequence[DurableFact]
    ) -> tuple[Lease, list[Event]]:
        handover = self.handover
        if handover is not None and handover.task:
            instead = handover.keeper or None
            if handover.seen is not None and then and isinstance(store, Dispatching):
                return await store.begin(handover.seen, owner, then, instead)
            lease = await store.take(handover.task, owner, instead)
            return lease, await store.append(lease, then)
        lease = await store.create(self.created, owner, then, self.named)
        facts, at = enumerate((self.created, *then), start=1), lease.state.created_at
        return lease, [Event(lease.task, seq, at, settle(fact)[0]) for seq, fact in facts]
