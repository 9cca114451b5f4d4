"""What a session's agents in other processes have spent and may still spend, as their journals tell.

An agent that is sent to another process or machine takes a part of its session's budget along, which is
written down with its task. So whoever looks at the session from somewhere else knows what is out.
"""

from collections.abc import Callable

from gencode.core.task import Task
from gencode.delegation.accounts import NO_BUDGET, spent_by
from gencode.delegation.live import Live
from gencode.runtime.ports import Store, TaskQuery
from gencode.runtime.purse import Purse, Spent


class Slices:
    """Keeps the purses of sessions that are led elsewhere in step with what happens there."""

    def __init__(self, store: Store, live: Callable[[str], Live | None]) -> None:
        self._store = store
        self._live = live
        self._aside: dict[str, dict[str, Purse]] = {}
        """Of each session, the purses that stand for agents elsewhere."""

    async def look(self, purse: Purse, session: str, but: str = "") -> None:
        """Count in a purse what the session spent since, and set aside what its agents elsewhere may spend.

        `but` is a task that is about to go on here.
        """
        await self.follow(session, but)
        purse.pay(_beyond(await spent_by(self._store, session), purse.spent))
        aside = self._aside.setdefault(session, {})
        for task in await self._out(session):
            spent = await spent_by(self._store, task.id)
            if task.id not in aside and task.id != but:
                aside[task.id] = Purse(f"agent {task.agent}", task.budget, purse, spent)

    async def follow(self, session: str, but: str = "") -> None:
        """Count what those spent for whom something is set aside, and give back what the ended ones left."""
        aside = self._aside.get(session, {})
        for task, purse in list(aside.items()):
            found = await self._store.task(task)
            purse.pay(_beyond(await spent_by(self._store, task), purse.spent))
            if found is None or found.status.ended or task == but or self._live(task) is not None:
                purse.close()
                del aside[task]

    async def _out(self, session: str) -> list[Task]:
        """The unfinished tasks of other processes that have a part of their own, nearest to the session."""
        found: list[Task] = []
        above, seen = [session], {session}
        while above:
            below = [each for parent in above for each in await self._store.tasks(TaskQuery(parent=parent))]
            fresh = [each for each in below if each.id not in seen and self._live(each.id) is None]
            seen |= {each.id for each in fresh}
            out = [each for each in fresh if not each.status.ended and each.budget != NO_BUDGET]
            found += out
            above = [each.id for each in fresh if each not in out]
        return found


def _beyond(now: Spent, known: Spent) -> Spent:
    """What was spent besides what is known."""
    return Spent(
        turns=max(0, now.turns - known.turns),
        tokens=max(0, now.tokens - known.tokens),
        usd=max(0.0, now.usd - known.usd),
        spawns=max(0, now.spawns - known.spawns),
    )
