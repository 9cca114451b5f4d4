"""What a task and everything below it may spend: turns, tokens, money and agents that are sent."""

import asyncio
from collections.abc import Mapping

from gencode.core.budget import Budget
from gencode.runtime.account import Account
from gencode.runtime.amounts import NANO, UNITS, in_numbers, in_units, known, limits_of, raised
from gencode.runtime.amounts import NOTHING as NOTHING
from gencode.runtime.amounts import Spent as Spent
from gencode.runtime.amounts import check_budget as check_budget
from gencode.runtime.short import BudgetSpent as BudgetSpent
from gencode.runtime.short import More as More
from gencode.runtime.short import Tell as Tell
from gencode.runtime.turnstile import AtMost, Turnstile

WEIGHTLESS = dict.fromkeys(UNITS, 0)
COSTS_OF_A_CALL = ("turns", "tokens", "usd")
NO_PRICE = (
    "The price of the model is not known, so a budget in USD cannot be kept: give its price under [prices] "
    "in the settings, or limit tokens or turns instead."
)


class Purse:
    """The budget of one task, inside those of the tasks above it; one may be named while it is spent from.

    A call goes at once when it fits into every purse from here up. Where it might not, it goes only when no
    other call is in flight, and only while something is left. So no limit is exceeded by more than one call.
    Where a purse is `hard` it does not go: somebody elsewhere may exceed the same budget by a call.
    """

    def __init__(
        self, owner: str, budget: Budget, parent: "Purse | None" = None, spent: Spent = NOTHING
    ) -> None:
        """Sets the budget aside above without asking whether it is there; `below` asks.

        `spent` was spent in an earlier life, and the purses above have counted it already.
        """
        check_budget(budget)
        self.owner = owner
        self.budget = budget
        self.task = ""
        """The task that has the budget, once it is at work here."""
        self.more: More | None = None
        self.parted = False
        """Whether only a part of the budget may be spent here."""
        self.hard = False
        self.passes = False
        """Whether it only stands between others: its task is at rest, and has no budget."""
        self.lent = 0
        """How many below it in other processes may exceed it by a call: one, or none."""
        self._lenders: tuple[Purse, ...] = ()
        self.took: Mapping[str, int] = {}
        """What of it nobody asked for its agent, but was its part of all that was left when it was sent."""
        self._counted: Purse | None = None
        """The one above it in which its agent was counted as one that is sent."""
        self._before: Budget | None = None
        """What bounded it until its agent went on."""
        self.holders: tuple[str, ...] = ()
        """The tasks for which something is set aside that spend elsewhere, so far as they are known."""
        self.calls = 0
        """How many calls are in flight from here and from below, but for those that nothing bounds."""
        self.loose = 0
        """How many of them may cost more than is kept for them: one, or none."""
        self.upwards: tuple[Purse, ...] = (self, *(parent.upwards if parent else ()))
        self.turnstile = parent.turnstile if parent else Turnstile()
        self.accounts = {
            kind: Account(self, kind, limit, before, parent.accounts[kind] if parent else None)
            for (kind, limit), before in zip(
                limits_of(budget).items(), in_numbers(spent).values(), strict=True
            )
        }
        self._limit()

    def _limit(self) -> None:
        self.limited = any(each.limit is not None for each in self.accounts.values())
        self.turnstile.bounds |= self.limited

    @property
    def bounded(self) -> bool:
        """Whether it, or one above it, bounds anything."""
        if not self.turnstile.bounds:
            return False
        for purse in self.upwards:  # noqa: SIM110 (asked before each call, and a loop is the fastest)
            if purse.limited:
                return True
        return False

    def bounding(self, kind: str) -> Account | None:
        """The nearest account from here up that bounds a kind, if any does."""
        accounts = (purse.accounts[kind] for purse in self.upwards if purse.limited)
        return next((account for account in accounts if account.limit is not None), None)

    @property
    def payer(self) -> "Purse":
        """The nearest one from here up that does not only stand between others."""
        return next((purse for purse in self.upwards if not purse.passes), self)

    @property
    def spent(self) -> Spent:
        """What was spent from here and from below, over the whole life."""
        amounts = {kind: account.spent for kind, account in self.accounts.items()}
        return Spent(amounts["turns"], amounts["tokens"], amounts["usd"] / NANO, amounts["spawns"])

    @property
    def paid(self) -> dict[str, int]:
        """What calls cost that were paid from here and not from below."""
        return {kind: account.paid for kind, account in self.accounts.items()}

    def left(self) -> Budget:
        """What is left after what is spent and set aside, by the tightest purse from here up."""
        return in_units({kind: account.left() for kind, account in self.accounts.items()})

    def lend(self) -> bool:
        """Let who takes it along to another process be the one to exceed those above by a call, if one may.

        Until it is closed all other calls have to fit.
        """
        above = tuple(purse for purse in self.upwards[1:] if purse.limited)
        if any(purse.firm or purse.loose or purse._is_tight() for purse in above):
            return False
        self._lenders = above
        for purse in above:
            purse.lent += 1
        return True

    @property
    def firm(self) -> bool:
        """Whether a call has to fit, because somebody else may exceed the same budget."""
        return self.hard or self.lent > 0

    def _is_tight(self) -> bool:
        """Whether calls in flight might exceed it."""
        return any(each.limit is not None and each.load > each.limit for each in self.accounts.values())

    def rebind(self, budget: Budget) -> None:
        """Bound all who spend from it by another budget from now on; it may weigh on no purse above."""
        self.budget = budget
        for kind, limit in limits_of(budget).items():
            account = self.accounts[kind]
            room = 0 if account.limit is None else max(0, account.limit - account.kept)
            account.limit = limit
            if self.parted:  # what is more than before has to be asked for as well
                own = account.kept - account.elsewhere
                account.set_aside(0 if limit is None else max(0, limit - own - room))
        self._limit()
        for flight in self.turnstile.flights(self) if self.limited else ():
            flight.weigh()
        self.turnstile.admit()

    def widen(self, more: Mapping[str, int]) -> None:
        """Bound it by so much more, and set that aside in those above; less than nothing takes it back."""
        self.budget = raised(self.budget, more)
        for kind, amount in more.items():
            self.accounts[kind].widen(amount)
        self.turnstile.admit()

    def set_aside(self, amounts: Mapping[str, int]) -> None:
        """Set so much aside for those who spend elsewhere, in the place of what was."""
        for kind, amount in amounts.items():
            self.accounts[kind].set_aside(amount)
        self.turnstile.admit()

    def learn(self, spent: Spent) -> None:
        """Count what the journals say was spent, here only: those above learn of it by themselves."""
        for kind, amount in in_numbers(spent).items():
            self.accounts[kind].learn(amount)

    def below(self, owner: str, budget: Budget, spent: Spent = NOTHING, *, again: bool = False) -> "Purse":
        """The purse of an agent that is sent, with its budget set aside; BudgetSpent when less is left.

        One that goes on `again` counts as no further agent; `spent` is what it cost before.
        """
        check_budget(budget)
        before = in_numbers(spent)
        for kind, limit in limits_of(budget).items() if self.bounded else ():
            itself = 1 if kind == "spawns" and not again else 0
            asked = max(0, limit - before[kind]) if limit is not None else 0
            self._refuse(kind, asked, itself)
        purse = Purse(owner, budget, self, spent)
        if not again:
            purse.count_in(self)
        return purse

    def begin_again(self, budget: Budget, spent: Spent, *, aside: bool) -> None:
        """Let its agent go on beside those below it who spend from it; BudgetSpent when less is left above.

        The journals say what was `spent` of it. What is left is set `aside` above, if it has to be.
        """
        check_budget(budget)
        self.learn(spent)
        for kind, limit in limits_of(budget).items() if aside else ():
            own = self.accounts[kind].kept - self.accounts[kind].elsewhere
            asked = 0 if limit is None else max(0, limit - own)
            self.upwards[1]._refuse(kind, asked, 0)
        self._counted = None  # it was sent long ago, whatever becomes of it now
        self._before = self.budget
        self.rebind(budget)
        for account in self.accounts.values() if aside else ():
            account.reopen()

    def count_in(self, above: "Purse") -> None:
        """Count its agent as one that is sent, in a purse above and those above that."""
        above.accounts["spawns"].add(1, 1, 1)
        self._counted = above

    def take_back(self) -> None:
        """Close it for an agent that was not sent after all, or does not go on, and does not count."""
        if self._counted is not None:
            self._counted.accounts["spawns"].add(-1, -1, -1)
            self._counted = None
        self.close()
        if self._before is not None:
            self.rebind(self._before)

    def _refuse(self, kind: str, asked: int, itself: int) -> None:
        account = self.accounts[kind]
        short = account.short_of(1) if itself or kind in COSTS_OF_A_CALL else None
        if short is not None:
            raise BudgetSpent(short.spent_words(), short)
        short = account.short_of(asked + itself) if asked else None
        if short is not None:
            needs = {kind: asked + itself}
            raise BudgetSpent(short.too_little_words(asked, itself), short, needs)

    def close(self) -> None:
        """Give back what was set aside for this purse and is not spent."""
        for account in self.accounts.values():
            account.close()
        for purse in self._lenders:
            purse.lent -= 1
        self._lenders = ()
        self.turnstile.admit()

    def check(self) -> None:
        """Raise BudgetSpent when not even one call could be paid."""
        for kind in COSTS_OF_A_CALL if self.bounded else ():
            self._refuse(kind, 0, 0)

    def pay(self, spent: Spent) -> None:
        """Count what was spent where nobody could ask before: in another process."""
        for kind, amount in in_numbers(spent).items():
            self.accounts[kind].add(amount, amount, amount)
        self.turnstile.admit()

    def pay_up_to(self, spent: Spent) -> None:
        """Count so much as is not counted of what was spent from here and from below over the whole life."""
        for kind, amount in in_numbers(spent).items():
            more = max(0, amount - self.accounts[kind].spent)
            self.accounts[kind].add(more, more, more)
        self.turnstile.admit()

    def fly(self, at_most: AtMost) -> "Reservation":
        """Let a call go that nothing bounds.

        What it costs `at_most` is worked out only if a budget is named while it is in flight.
        """
        flight = Reservation(self, WEIGHTLESS)
        flight.flying = True
        self.turnstile.free[flight] = at_most
        return flight

    async def reserve(
        self, tokens: int, usd: float | None, reply: int | None = None, tell: Tell = lambda _: None
    ) -> "Reservation":
        """Wait until a call that costs at most so much may go; BudgetSpent when nothing is left for it.

        That is what it costs if its `reply` keeps to so many tokens.
        """
        usd = known(usd)
        if usd is None and (account := self.bounding("usd")):
            raise BudgetSpent(NO_PRICE, account)  # it may have been named after its agent began
        while True:
            reservation = Reservation(self, self.estimate(tokens, usd))
            reservation.answer = asyncio.get_running_loop().create_future()
            self.turnstile.join(reservation)
            try:
                refusal = await reservation.answer
            except asyncio.CancelledError:
                self.turnstile.leave(reservation)
                raise
            if refusal is None:
                if reply is not None or not self.bounded:  # a budget may be named while it is in flight
                    reservation.keep_to(reply)
                return reservation
            if not await refusal.more(tell):
                raise reservation.refusal() or refusal

    def estimate(self, tokens: int, usd: float | None) -> dict[str, int]:
        """What a call may cost; where only a part may be spent, no less than others did cost."""
        amounts = in_numbers(Spent(1, tokens, usd or 0.0))
        for purse in self.upwards:
            if purse.parted:
                amounts = {
                    kind: max(amount, purse.accounts[kind].dearest) for kind, amount in amounts.items()
                }
        return amounts


class Reservation:
    """What one call may cost, kept for it until it has ended: `settle` or `drop` it whatever happens."""

    __slots__ = ("answer", "estimate", "flying", "loose", "purse", "reply")

    def __init__(self, purse: Purse, estimate: Mapping[str, int]) -> None:
        self.purse = purse
        self.estimate = estimate
        self.flying = False
        self.reply: int | None = None
        """So many tokens its reply has to keep to, if any."""
        self.loose = False
        self.answer: asyncio.Future[BudgetSpent | None]
        """Done when it may go, or why it may not; there is none for one that went at once."""

    def keep_to(self, reply: int | None) -> None:
        """Let it cost no more than is kept for it, unless it is the one call that may exceed a budget."""
        limited = (purse for purse in self.purse.upwards if purse.limited)
        self.loose = not any(purse.firm or purse.calls > 1 for purse in limited)
        self.reply = None if self.loose else reply
        self.count(0, self.loose)

    def settle(self, *, tokens: int, usd: float | None, turns: int = 1) -> None:
        """Count what the call did cost; a price that is not known counts as it was estimated."""
        usd = known(usd)
        cost = in_numbers(Spent(turns, tokens, usd or 0.0))
        self._land(cost if usd is not None else {**cost, "usd": self.estimate["usd"]})

    def lose(self, *, tokens: int, usd: float | None) -> None:
        """Count what it cost until it broke off; BudgetSpent when nothing is left to make it again."""
        for kind, amount in in_numbers(Spent(0, tokens, known(usd) or 0.0)).items():
            self.purse.accounts[kind].add(amount, amount, amount)
            self.purse.accounts[kind].paid += amount
        self.purse.check()

    def drop(self) -> None:
        """The call was not made: it cost nothing."""
        self._land(in_numbers(NOTHING))

    def take_off(self) -> None:
        """The call goes: what it may cost is kept for it from here up."""
        self.flying = True
        self.count(1, 0)
        for kind, amount in self.estimate.items():
            self.purse.accounts[kind].add(0, 0, amount)

    def weigh(self) -> None:
        """Keep what it may cost, from now on: it went when nothing was bounded, and may cost more."""
        at_most = self.purse.turnstile.free.pop(self)
        self.estimate = self.purse.estimate(*at_most())
        self.take_off()
        self.loose = True
        self.count(0, 1)

    def refusal(self) -> BudgetSpent | None:
        """Why the call cannot go, now or later."""
        for kind in COSTS_OF_A_CALL:
            account = self.purse.accounts[kind]
            short = account.short_of(1) or account.too_small_for(self.estimate[kind])
            if short is not None:
                return BudgetSpent(short.spent_words(), short, self.estimate)
        return None

    def hindrances(self) -> set[Purse]:
        """The purses in which the call might not fit, and other calls are in flight."""
        tight = (self.purse.accounts[kind].tight_for(self.estimate[kind]) for kind in COSTS_OF_A_CALL)
        return {account.purse for accounts in tight for account in accounts if account.purse.calls}

    def _land(self, cost: Mapping[str, int]) -> None:
        if not self.flying:
            return
        self.flying = False
        if self in self.purse.turnstile.free:
            del self.purse.turnstile.free[self]
        else:
            self.count(-1, -self.loose)
        for kind, amount in cost.items():
            if amount or self.estimate[kind]:
                self.purse.accounts[kind].land(amount, self.estimate[kind])
        self.purse.turnstile.admit()

    def count(self, calls: int, loose: int) -> None:
        """So many more are in flight from here up, and so many of them may cost more than is kept."""
        for purse in self.purse.upwards:
            purse.calls += calls
            purse.loose += loose
