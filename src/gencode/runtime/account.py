"""runtime: one kind of cost in the purse of one task, and all that weighs on it from below."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gencode.runtime.amounts import UNITS, read

if TYPE_CHECKING:
    from gencode.runtime.purse import Purse


class Account:
    """One kind of cost in one purse.

    `kept` is what is spent or set aside for purses below, `load` that and what calls in flight may cost. A
    purse with a limit weighs on the one above with this limit from the start: so it is set aside.
    """

    __slots__ = (
        "above",
        "dearest",
        "elsewhere",
        "kept",
        "kind",
        "learned",
        "limit",
        "load",
        "open",
        "paid",
        "purse",
        "spent",
    )

    def __init__(
        self, purse: "Purse", kind: str, limit: int | None, spent: int, above: "Account | None"
    ) -> None:
        self.purse = purse
        self.kind = kind
        self.limit = limit
        self.above = above
        self.spent = self.kept = self.load = spent
        self.elsewhere = 0
        """What is set aside here, and not above, for those who spend from the same budget elsewhere."""
        self.dearest = 0
        """What a call cost at most so far."""
        self.paid = 0
        """What calls cost that were paid from here and not from below."""
        self.learned = 0
        """What of it was spent elsewhere, as the journals say."""
        self.open = True
        if above is not None and limit is not None:
            above.add(0, self.weight(spent) - spent, self.weight(spent) - spent)

    def weight(self, amount: int) -> int:
        """How much the account above has to keep for this one when it has this amount."""
        return max(amount, self.limit) if self.open and self.limit is not None else amount

    def add(self, spent: int, kept: int, load: int) -> None:
        """Count in all accounts from here up."""
        account: Account | None = self
        while account is not None:
            kept_before, load_before = account.kept, account.load
            account.spent += spent
            account.kept += kept
            account.load += load
            if account.limit is not None:
                kept = account.weight(account.kept) - account.weight(kept_before)
                load = account.weight(account.load) - account.weight(load_before)
            account = account.above

    def land(self, amount: int, estimate: int) -> None:
        """Count what a call cost for which so much was kept."""
        self.paid += amount
        self.add(amount, amount, amount - estimate)
        account: Account | None = self
        while account is not None:
            if amount > account.dearest:
                account.dearest = amount
            account = account.above

    def close(self) -> None:
        """Weigh no more than what is in here, without what is set aside for others elsewhere."""
        if self.above is not None and self.limit is not None and self.open:
            kept, load = self.weight(self.kept), self.weight(self.load)
            self.above.add(0, self.kept - self.elsewhere - kept, self.load - self.elsewhere - load)
        self.open = False

    def reopen(self) -> None:
        """Weigh with its limit again."""
        was, self.open = self.open, True
        if self.above is not None and self.limit is not None and not was:
            kept, load = self.weight(self.kept), self.weight(self.load)
            self.above.add(0, kept - self.kept + self.elsewhere, load - self.load + self.elsewhere)

    def set_aside(self, amount: int) -> None:
        """Keep so much for others elsewhere, here only, in the place of what was."""
        self._keep(amount - self.elsewhere)
        self.elsewhere = amount

    def learn(self, spent: int) -> None:
        """Count so much as is not counted of what was spent, here only."""
        more = max(0, spent - self.spent)
        self.spent += more
        self.learned += more
        self._keep(more)

    def _keep(self, more: int) -> None:
        self.kept += more
        self.load += more

    def left(self) -> int | None:
        """What is left by the tightest limit from here up; what is set aside for this account is its own."""
        limited = [(each, each.limit) for each in self._upwards() if each.limit is not None]
        if not limited:
            return None
        nearest, limit = limited[0]
        return max(0, min(limit - nearest.kept, *(most - each.spent for each, most in limited)))

    def room(self) -> int:
        """What no call in flight may spend either, by the nearest limit from here up; 0 where none is."""
        limited = (each.limit - each.load for each in self._upwards() if each.limit is not None)
        return max(0, next(limited, 0))

    def widen(self, more: int) -> None:
        """Bound by so much more, and set that aside above; less than nothing takes it back."""
        if self.limit is None:
            return
        kept, load = self.weight(self.kept), self.weight(self.load)
        self.limit += more
        if self.above is not None:
            self.above.add(0, self.weight(self.kept) - kept, self.weight(self.load) - load)

    def short_of(self, amount: int) -> "Account | None":
        """The first account from here up that has less than this amount, or nothing at all."""
        for each in self._upwards():
            if each.limit is not None and each.spent >= each.limit:
                return each
            if each.limit is not None and amount and each.kept + amount > each.limit:
                return each
            amount = each.weight(each.kept + amount) - each.weight(each.kept)
        return None

    def tight_for(self, amount: int) -> "Iterator[Account]":
        """The accounts from here up that this amount might exceed, by what calls in flight may cost."""
        for each in self._upwards():
            if each.limit is not None and each.load + amount > each.limit:
                yield each
            amount = each.weight(each.load + amount) - each.weight(each.load)

    def too_small_for(self, amount: int) -> "Account | None":
        """The first account from here up that may not be exceeded and is, when all calls have landed."""
        tight = (each for each in self.tight_for(amount) if each.purse.firm and not each.purse.calls)
        return next(tight, None)

    def spent_words(self) -> str:
        """That nothing is left here."""
        limit = self.limit or 0
        unit = UNITS[self.kind]
        unit = unit.removesuffix("s") if limit == 1 else unit
        if self.purse.hard and not self.purse.parted and not self.purse.holders and self.spent < limit:
            left = f"{self.number(limit - self.spent)} of {self.number(limit)} {unit}"
            return f"The budget of {self.purse.owner} has {left} left, and a call may cost more than that."
        aside = " or set aside for agents at work" if self.spent < limit else ""
        aside += f": {', '.join(self.purse.holders)}" if aside and self.purse.holders else ""
        return f"The budget of {self.number(limit)} {unit} of {self.purse.owner} is spent{aside}."

    def too_little_words(self, asked: int, itself: int) -> str:
        """That less is left here than was asked for."""
        limit = self.limit or 0
        left = f"{self.number(max(0, limit - self.kept))} of {self.number(limit)} {UNITS[self.kind]} left"
        more = ", and the agent itself counts as one" if itself else ""
        asked_for = f"{self.number(asked)} {'was' if asked == 1 else 'were'} asked for{more}"
        less = " Ask for less." if limit > self.kept else ""
        return f"The budget of {self.purse.owner} has {left}; {asked_for}.{less}"

    def number(self, amount: int) -> str:
        """An amount of this kind as it is read."""
        return read(self.kind, amount)

    def _upwards(self) -> "Iterator[Account]":
        account: Account | None = self
        while account is not None:
            yield account
            account = account.above
