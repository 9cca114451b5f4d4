"""A process that spends from a budget with others: `python -m tests.stores.ledger_process PATH PARENT SEED`.

It sends one agent after the other, each of which makes a few calls, and says what each reply cost, until the
limit is reported.
"""

import asyncio
import random
import sys
from pathlib import Path

from gencode.budgets.ledger import BudgetSpent, Hold, Shortage, Wait
from gencode.core.budget import Budget
from gencode.core.events import MessageAdded, TaskCreated, TaskEnded, TaskStarted
from gencode.core.messages import AssistantMessage, Usage
from gencode.core.status import EndReason, Status
from gencode.journal.store import Lease
from gencode.stores.sqlite import SqliteStore

DEAREST = 50
"""So many tokens a call costs at most, but for one that is alone, which may cost twice as many."""


class Spender:
    """One process at work."""

    def __init__(self, store: SqliteStore, parent: str, seed: int) -> None:
        self._store = store
        self._parent = parent
        self._random = random.Random(seed)
        self._owner = f"spender {seed}"

    async def run(self) -> None:
        """Spend until there is nothing left."""
        print("ready", flush=True)
        sys.stdin.readline()
        while True:
            own = Budget(tokens=self._random.randint(1, 200)) if self._random.random() < 0.3 else Budget()
            fact = TaskCreated(parent=self._parent, budget=own)
            try:
                lease = await self._store.create(fact, self._owner, [TaskStarted()])
            except BudgetSpent as spent:
                if own != Budget():
                    continue  # a smaller one may be there
                return print(f"spent {spent.shortage.account}", flush=True)
            for _ in range(self._random.randint(1, 4)):
                if not await self._asked(lease):
                    break
            ended = TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)
            await self._store.append(lease, [ended], last=True)

    async def _asked(self, lease: Lease) -> bool:
        """Make a call as soon as it fits; False when nothing is left for it."""
        tokens = self._random.randint(1, DEAREST)
        hold = Hold(lease.task, lease.path, {"turns": 1, "tokens": tokens}, self._owner)
        seen = self._store.changes.count
        while isinstance(verdict := await self._store.ledger.hold(hold), Wait):
            seen = await self._store.changes.after(seen, 1.0)
        if isinstance(verdict, Shortage):
            return False
        cost = self._random.randint(1, tokens * (2 if verdict.alone else 1))
        await asyncio.sleep(0)
        reply = AssistantMessage("ok", usage=Usage(cost))
        await self._store.append(lease, [MessageAdded(reply)])
        print(f"reply {cost}", flush=True)
        return True


async def main(path: Path, parent: str, seed: int) -> None:
    """Spend, and close the store."""
    store = await SqliteStore.open(path)
    await Spender(store, parent, seed).run()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
