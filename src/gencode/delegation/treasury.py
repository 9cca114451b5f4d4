"""The budgets of sessions: one purse for each conversation, and one for all work that belongs to none."""

from typing import Protocol
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.task import Task
from gencode.delegation.accounts import (
    NO_BUDGET,
    afforded,
    bounded_above,
    shares,
    spent_by,
    tasks_above,
    tightest,
)
from gencode.delegation.live import Live
from gencode.delegation.sharing import Sharing, Woken
from gencode.runtime.ports import Store
from gencode.runtime.purse import COSTS_OF_A_CALL, BudgetSpent, Purse, check_budget

SESSION = "the session"
MOST_WRITTEN = 1_000
"""Of so many sessions it is known whether another budget was named elsewhere."""
UNKNOWN_THERE = (
    "Task {task} goes on with a worker, which does not know of the budget of this session (an option such as "
    "--max-usd, or the settings), so it was not begun. Give that to the task itself, and then go on: "
    "gen task budget {top} KIND AMOUNT; or leave it out here."
)


class Funds(Struct, frozen=True):
    """What a task that goes on is paid from; `top` is the first above it, where there is no conversation.

    It is `woken` when nobody above it is at work here: it may spend only parts of what their budgets leave.
    `led` says that somebody is.
    """

    purse: Purse | None
    top: str = ""
    woken: Woken | None = None
    led: bool = False


class AtWork(Protocol):
    """Knows what is at work in this process."""

    def live(self, task: str) -> Live | None:
        """A task that is at work."""
        ...

    def purse_of(self, task: str) -> Purse | None:
        """What a task at rest had, while those below it spend from that."""
        ...

    async def settled(self, task: str) -> None:
        """Wait until a task that is about to go on does so, or does not."""
        ...


class Treasury:
    """Finds the purse of whatever is asked for; everything that ever was spent counts in it."""

    def __init__(
        self,
        store: Store,
        sharing: Sharing,
        budget: Budget,
        named: Budget,
        at_work: AtWork,
    ) -> None:
        """`budget` bounds all sessions here; of it, what was `named` counts before what a session had."""
        self._store = store
        self._at_work = at_work
        self._live = at_work.live
        self.budget = budget
        self._named = named
        self._usual = _without(budget, named)
        self._set = False
        self._written: dict[str, Budget] = {}
        """With what the journals of sessions were written when what is named here began to count for them."""
        self.own = Purse(SESSION, budget)
        """What work without a conversation is paid from."""
        self._paid: set[str] = set()
        """The tasks without a conversation whose earlier lives were paid from it."""
        self._purses: WeakValueDictionary[str, Purse] = WeakValueDictionary()
        """Those of tasks at rest, for as long as anybody spends from them, or is about to.

        The journals know all that was spent from the others.
        """
        self._sharing = sharing

    def bound(self, budget: Budget) -> None:
        """Bound sessions by another budget, also those at work; what they spent counts."""
        check_budget(budget)
        self.budget = budget
        self._set, self._usual = True, NO_BUDGET
        self._written.clear()
        for purse in (*self._purses.values(), self.own):
            if purse.owner == SESSION:  # what is at work spends from it by now
                purse.rebind(budget)

    def budget_of(self, session: Task | None) -> Budget:
        """What a conversation may spend: of each kind what is named now, else what it had, or the usual.

        What was named elsewhere after that counts before it.
        """
        if session is not None and self._written.get(session.id, session.budget) != session.budget:
            return tightest(session.budget, self._usual)
        if self._set or session is None:
            return self.budget
        kept = tightest(session.budget, self.budget)
        kinds = ((name, getattr(self._named, name)) for name in kept.__struct_fields__)
        return replace(kept, **{name: amount for name, amount in kinds if amount is not None})

    def of_conversation(self, session: Task | None) -> Purse:
        """The purse of a conversation; `lead` and `above` count in it what it cost."""
        budget = self.budget_of(session)
        return Purse(SESSION, budget) if session is None else self._kept(session.id, SESSION, budget, None)

    def keep(self, session: str, purse: Purse) -> None:
        """The purse of a conversation that has just begun, or gone on."""
        self._purses[session] = purse
        self._write(session, purse.budget)

    def _write(self, session: str, budget: Budget) -> None:
        self._written.setdefault(session, budget)
        if len(self._written) > MOST_WRITTEN:
            del self._written[next(iter(self._written))]

    async def bind(self, task: Task, budget: Budget) -> None:
        """Bound those at work here below a task at rest by the budget that it has from now on."""
        if task.conversation:
            self._write(task.id, self.budget_of(task))
        if purse := self._known(task.id):
            now = self.budget_of(replace(task, budget=budget)) if task.conversation else budget
            await self._sharing.bind(purse, task, now)

    async def learn(self) -> None:
        """Count what the sessions that are spent from here have cost in all."""
        for session, purse in [*self._purses.items()]:
            found = await self._store.task(session) if purse.owner == SESSION else None
            if found is not None:
                await self._sharing.learn(purse, found)

    async def check_heard(self, task: Task, budget: Budget) -> None:
        """UserMistake where those below a task who are at work elsewhere would exceed its new budget."""
        before = self.budget_of(task) if task.conversation else task.budget
        purse = self._known(task.id) or Purse(SESSION, before)
        await self._sharing.check_heard(task, purse, before, budget)

    def begun(self, task: str) -> None:
        """A task was begun here, so all it ever spent is paid from here."""
        self._paid.add(task)

    async def above(self, task: str | None, *, sends: bool = False, passed: tuple[str, ...] = ()) -> Funds:
        """What pays for work below a task: the purse of whoever lives, else those of who is at rest.

        BudgetSpent when these leave nothing, or no agent to one that `sends`. Those `passed` are below.
        """
        if task is not None:
            await self._at_work.settled(task)
        found = await self._store.task(task) if task is not None and not self._spent_by(task) else None
        if task is not None and (purse := self._spent_by(task)):
            return Funds(purse, led=True)
        if found is None or found.id in passed:  # what was imported may go round in circles
            return Funds(self.own, passed[-1] if passed else "")
        if found.conversation:
            funds = Funds(self.of_conversation(found))
        else:
            funds = await self.above(found.parent, sends=sends, passed=(*passed, found.id))
        return await self._woken(found, funds, sends=sends)

    async def _woken(self, top: Task, funds: Funds, *, sends: bool) -> Funds:
        """What pays for work below a task at rest, whose own funds these are, or those of who is above it."""
        own = funds.purse
        if not top.conversation:
            own = self._kept(top.id, f"agent {top.agent}", top.budget, funds.purse)
            own.close()  # it bounds, and sets nothing aside
            own.passes = not shares(top.budget)
        if own is None or not shares(own.budget):
            return replace(funds, purse=own)
        await self._sharing.wake(own, top, sends=sends)
        paid = funds.led and funds.purse is not None and funds.purse.bounded
        woken = funds.woken is not None or not paid
        return replace(funds, purse=own, woken=Woken(self._sharing, own) if woken else None)

    def _spent_by(self, task: str) -> Purse | None:
        """The purse of a task at work here."""
        live = self._live(task)
        return live.purse if live is not None else None

    async def of_task(self, task: Task) -> Funds:
        """What pays for a task that goes on; one without a conversation joins with all it cost."""
        funds = await self.above(task.parent)
        top = funds.top or task.id
        if not funds.led and top not in self._paid and self.own in _upwards(funds.purse):
            self._paid.add(top)
            spent = await spent_by(self._store, top)
            self.own.pay(replace(spent, spawns=spent.spawns + 1))  # it was sent itself
        return funds

    async def taken_along(self, task: Task, asked: Budget) -> tuple[Budget, bool]:
        """What a fork of a task may spend in another process, and whether it gets parts of budgets there.

        It counts as an agent itself, so that 0 may be left for it to send. BudgetSpent when there is nothing.
        """
        funds = await self.above(task.parent, sends=True)
        purse = funds.purse
        if purse is not None and funds.woken is None:
            await afforded(lambda: _check(purse))
        await self.announce(task)
        if purse is None:
            return asked, False
        if self.own in purse.upwards:  # of which no other process knows
            _check(self.own)
            asked = tightest(asked, _without_itself(self.own.left()))
        if funds.woken is not None or await bounded_above(self._store, task.parent):
            return asked, True  # who is at work with it gives a part of it
        return tightest(asked, _without_itself(purse.left())), False

    async def announce(self, task: Task) -> None:
        """Let other processes know what the conversation above a task may spend, as it counts here."""
        async for above in tasks_above(self._store, task):
            if above.conversation and self.budget_of(above) != above.budget:
                await self._sharing.announce(above.id, self.budget_of)

    async def check_known(self, task: Task) -> None:
        """UserMistake where only this session bounds a task without a conversation: no worker knows of that.

        Its time is told to them in any case.
        """
        top = task
        async for above in tasks_above(self._store, task):
            top = above
        here = replace(self.budget, seconds=None)
        if not top.conversation and tightest(top.budget, here) != top.budget:
            raise UserMistake(UNKNOWN_THERE.format(task=task.id, top=top.id))

    def _kept(self, task: str, owner: str, budget: Budget, parent: Purse | None) -> Purse:
        """The one purse of a task that is at rest, for as long as those above are the same."""
        known = self._known(task)
        if known is None or known.upwards[1:] != _upwards(parent):
            known = self._purses[task] = Purse(owner, budget, parent)
        elif known.budget != budget:  # who is at work in the background spends from the same one
            known.rebind(budget)
        known.task = task
        return known

    def _known(self, task: str) -> Purse | None:
        """The purse of a task that is spent from here, or about to be."""
        return self._at_work.purse_of(task) or self._purses.get(task)


def _without(budget: Budget, named: Budget) -> Budget:
    """What a budget has of kinds that are not named."""
    kinds = {name: None for name in named.__struct_fields__ if getattr(named, name) is not None}
    return replace(budget, **kinds)


def _check(purse: Purse) -> None:
    """BudgetSpent when a budget leaves no agent more, or nothing for a call."""
    for kind in (*COSTS_OF_A_CALL, "spawns"):
        if short := purse.accounts[kind].short_of(1):
            raise BudgetSpent(short.spent_words(), short, {kind: 1})


def _without_itself(left: Budget) -> Budget:
    """What is left for an agent that counts as one."""
    return left if left.spawns is None else replace(left, spawns=left.spawns - 1)


def _upwards(purse: Purse | None) -> tuple[Purse, ...]:
    return purse.upwards if purse is not None else ()
