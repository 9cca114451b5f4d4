"""The budgets of sessions: one purse for each conversation, and one for all work that belongs to none."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.budget import Budget
from gencode.core.task import Task
from gencode.delegation.accounts import NO_BUDGET, leftover, spent_by, tightest
from gencode.delegation.live import Live
from gencode.delegation.slices import Slices
from gencode.runtime.ports import Store
from gencode.runtime.purse import Purse, check_budget

SESSION = "the session"


class Funds(Struct, frozen=True):
    """What a task that goes on is paid from, and what the agents above it, who have ended, leave it.

    `top` is the first of them, where there is no conversation.
    """

    purse: Purse | None
    left: Budget = NO_BUDGET
    top: str = ""


class Treasury:
    """Finds the purse of whatever is asked for; everything that ever was spent counts in it."""

    def __init__(
        self, store: Store, budget: Budget, named: Budget, live: Callable[[str], Live | None]
    ) -> None:
        """`budget` bounds all sessions here; of it, what was `named` counts before what a session had."""
        self._store = store
        self._live = live
        self.budget = budget
        self._named = named
        self._set = False
        self.own = Purse(SESSION, budget) if budget != NO_BUDGET else None
        """What work without a conversation is paid from."""
        self._paid: set[str] = set()
        """The tasks without a conversation whose earlier lives were paid from it."""
        self._purses: dict[str, Purse] = {}
        self._led: set[str] = set()
        """The conversations that are led here; of others, what happens elsewhere is looked up each time."""
        self._slices = Slices(store, live)

    def bound(self, budget: Budget) -> None:
        """Bound sessions by another budget from their next turn on; what they spent before counts."""
        check_budget(budget)
        self.budget = budget
        self._set = True
        spent = [self.own.spent] if self.own else []
        self.own = Purse(SESSION, budget, None, *spent) if budget != NO_BUDGET else None
        self._purses.clear()
        self._led.clear()

    def budget_of(self, session: Task | None) -> Budget:
        """What a conversation may spend: of each kind what is named now, else what it had, or the usual."""
        if self._set or session is None:
            return self.budget
        kept = tightest(session.budget, self.budget)
        kinds = ((name, getattr(self._named, name)) for name in kept.__struct_fields__)
        return replace(kept, **{name: amount for name, amount in kinds if amount is not None})

    async def of_conversation(self, session: Task | None, but: str = "") -> Purse | None:
        """The purse of a conversation; all it cost counts.

        `but` is a task of it that is about to go on here.
        """
        budget = self.budget_of(session)
        if budget == NO_BUDGET:
            return None
        if session is None:
            return Purse(SESSION, budget)
        purse = self._purses.setdefault(session.id, Purse(SESSION, budget))
        if session.id in self._led:
            await self._slices.follow(session.id, but)
        else:
            await self._slices.look(purse, session.id, but)
        return purse

    def keep(self, session: str, purse: Purse | None) -> None:
        """The purse of a conversation that has just begun."""
        if purse is not None:
            self._purses[session] = purse
            self._led.add(session)

    def begun(self, task: str) -> None:
        """A task was begun here, so all it ever spent is paid from here."""
        self._paid.add(task)

    async def above(self, task: str | None, but: str = "") -> Funds:
        """What pays for work below a task: the purse of whoever lives, else that of the session."""
        left = NO_BUDGET
        passed: list[str] = []
        while task is not None and task not in passed:  # what was imported may go round in circles
            passed.append(task)
            if job := self._live(task):
                return Funds(job.purse, left)
            found = await self._store.task(task)
            if found is None:
                break
            if found.conversation:
                return Funds(await self.of_conversation(found, but), left)
            if found.budget != NO_BUDGET:
                left = tightest(left, leftover(found, await spent_by(self._store, found.id)))
            task = found.parent
        return Funds(self.own, left, passed[-1] if passed else "")

    async def of_task(self, task: Task) -> Funds:
        """What pays for a task that goes on; one without a conversation joins with all it cost."""
        funds = await self.above(task.parent, task.id)
        top = funds.top or task.id
        if self.own is not None and funds.purse is self.own and top not in self._paid:
            self._paid.add(top)
            self.own.pay(await spent_by(self._store, top))
        return funds
