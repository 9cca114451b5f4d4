"""Pays for the calls of a task's model: holds in the ledger, in the order in which they were asked for."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from gencode.agent.call_cost import at_most, reply_room
from gencode.agent.ports import Request
from gencode.budgets.ledger import BudgetSpent, Granted, Hold, Ledger, Shortage, Verdict, Wait
from gencode.budgets.limits import Amounts, Spent, in_numbers, in_units, known
from gencode.core.errors import UserMistake
from gencode.core.messages import Usage
from gencode.core.prices import Price
from gencode.core.reasons import WaitFor
from gencode.core.reply_parts import WaitPart
from gencode.journal.store_changes import ChangeNotifier

NO_PRICE = (
    "The price of the model is not known, so a budget in USD cannot be kept: give its price under [prices] "
    "in the settings, or limit tokens or turns instead."
)
WAITS = "waits for other calls that spend from the same budget"
SILENT_SECONDS = 3.0
"""For so long nobody is told that a call waits."""
CLOSE_SECONDS = 2.0
"""So often it is looked whether those that a call waits for are still alive."""

Tell = Callable[[WaitPart], None]
"""Tells whom it concerns what is waited for."""
Close = Callable[[str], Awaitable[None]]
"""Ends a task whose process has died, so that it holds nothing any more."""


class UnknownPrice(BudgetSpent):
    """A budget in dollars is to pay for a model whose price nobody knows."""

    def __init__(self) -> None:
        UserMistake.__init__(self, NO_PRICE)

    @property
    def kind(self) -> str:
        """Of what too little is left."""
        return "usd"


class ReservedCall(Struct, frozen=True):
    """A call that may be made; `reply` is how many tokens its reply has to keep to, if that is bounded."""

    hold: Hold | None = None
    reply: int | None = None

    @property
    def bounded(self) -> bool:
        """Whether a budget pays for it, so that what it costs has to be known."""
        return self.hold is not None


class _AccountQueue:
    """Those who wait for one account; only the head of the line asks again."""

    __slots__ = ("head", "length")

    def __init__(self) -> None:
        self.head = asyncio.Lock()  # which is fair
        self.length = 0


class CallQueue:
    """The calls of one process that wait for a budget, for each account in the order they came."""

    def __init__(self, ledger: Ledger, changes: ChangeNotifier, close: Close) -> None:
        self._ledger = ledger
        self._changes = changes
        self._close = close
        self._lines: dict[str, _AccountQueue] = {}

    async def take(self, hold: Hold, tell: Tell) -> Granted:
        """Take a hold, once it fits or nothing else is held; BudgetSpent when nothing is left."""
        blocked = next((each for each in reversed(hold.path) if each in self._lines), "")
        while True:
            verdict = await self._tried(hold, blocked, tell)
            if isinstance(verdict, Granted):
                return verdict
            if isinstance(verdict, Shortage):
                raise BudgetSpent(verdict)
            blocked = verdict.account

    async def _tried(self, hold: Hold, account: str, tell: Tell) -> Verdict:
        """What the ledger says once it is the turn of this call; it waits while this account blocks it."""
        if not account:
            return await self._ledger.hold(hold)
        line = self._lines.setdefault(account, _AccountQueue())
        line.length += 1
        try:
            async with line.head:
                return await self._waited(hold, account, tell)
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[account]

    async def _waited(self, hold: Hold, account: str, tell: Tell) -> Verdict:
        clock = asyncio.get_running_loop().time
        silent, look = clock() + SILENT_SECONDS, clock() + CLOSE_SECONDS
        seen, told = self._changes.count, False
        while True:
            verdict = await self._ledger.hold(hold)
            if not isinstance(verdict, Wait) or verdict.account != account:
                return verdict
            if not told and clock() >= silent:
                told = True
                tell(WaitPart(WAITS, waits_for=WaitFor.BUDGET))
            if clock() >= look:
                look = clock() + CLOSE_SECONDS
                for task in verdict.holders:
                    await self._close(task)
            seen = await self._changes.after(seen, CLOSE_SECONDS / 2)


class CallBudget:
    """Pays for the calls of one task from its own account and those above it."""

    def __init__(self, ledger: Ledger, calls: CallQueue, path: Sequence[str], owner: str) -> None:
        self._ledger = ledger
        self._calls = calls
        self._path = tuple(path)
        self._owner = owner

    async def left(self) -> Amounts | None:
        """What is left of each limited kind; None while nothing limits the task."""
        return await self._ledger.left(self._path)

    async def pay(
        self, request: Request, price: Price, left: Amounts, before: Usage, tell: Tell
    ) -> ReservedCall:
        """Hold what a call may cost, with so much left; it may have to wait. BudgetSpent when nothing is.

        `before` is what the calls of the task did cost.
        """
        said = reply_room(request, in_units(left), price)
        tokens, usd = at_most(request, price, said)
        if known(usd) is None and "usd" in left:
            raise UnknownPrice
        need = in_numbers(Spent(1, tokens, known(usd) or 0.0))
        if not need["usd"] and before.usd:  # the price is wrong, so nobody knows what a call costs
            need["usd"] = left.get("usd", 0) + 1
        hold = Hold(self._path[0], self._path, need, self._owner)
        granted = await self._calls.take(hold, tell)
        return ReservedCall(hold if granted.bounded else None, None if granted.alone else said)

    async def again(self, paid: ReservedCall, tell: Tell) -> None:
        """Hold the same for a call that broke off and is made again; BudgetSpent when nothing is left."""
        if paid.hold is not None:
            await self._calls.take(paid.hold, tell)

    async def release(self, paid: ReservedCall) -> None:
        """The call was not made: it cost nothing."""
        if paid.hold is not None:
            await self._ledger.release(paid.hold.task)
