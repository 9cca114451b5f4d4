"""The ledger: accounts with limits, holds for calls of a model, and the one inequality that decides.

A budget is an account. A task spends from its own account and from all on its path: those of the tasks above
it, and above a task of no conversation that of the session it runs in. Before a call that any of them limits,
one transaction checks each and takes a hold; the append of the reply removes the hold and adds what it cost.
Everything here is pure: the stores load accounts, ask `decide`, and write.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from gencode.budgets.limits import COSTS_OF_A_CALL, UNITS, Amounts, cost_of, in_units, limited, read
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.task import Task


class Account(Struct, frozen=True):
    """The budget of one task and everything below it, or of a session.

    `path` are the ids above it, nearest first; `agent` is whose it is (empty: a session or a conversation).
    `limits` has only the kinds that are limited. `held` is what `calls` in flight may cost, from here and
    from below. While it is `open`, its task has not ended, and what it has not spent is set aside above.
    """

    id: str
    path: tuple[str, ...] = ()
    agent: str = ""
    limits: Amounts = {}
    spent: Amounts = {}
    held: Amounts = {}
    calls: int = 0
    open: bool = True
    seconds: float | None = None
    """The seconds that `limit` last set for the task, 0 for no limit; None: its journal has them."""

    def unspent(self, kind: str) -> int:
        """What is set aside above for what this limits: what is neither spent nor held of it."""
        return max(0, self.limits[kind] - self.spent.get(kind, 0) - self.held.get(kind, 0))


class Hold(Struct, frozen=True):
    """What one call of a task's model may cost. A task makes one call at a time: a new one replaces it."""

    task: str
    path: tuple[str, ...]
    """The task itself, then the ids above it, nearest first: the path of its lease."""
    need: Amounts
    owner: str = ""


class Granted(Struct, frozen=True):
    """The call may be made. Nothing was written where nothing on its path is `bounded`.

    One that is `alone` has no other call beside it in any account that limits it. So it may cost more than
    its hold: no limit is exceeded by more than this one call.
    """

    bounded: bool = True
    alone: bool = False


class Wait(Struct, frozen=True):
    """The call does not fit into an account beside those in flight: ask again when one of them has ended.

    `holders` are the tasks whose calls they are; one of a process that died holds until it is closed.
    """

    account: str
    holders: tuple[str, ...] = ()


class Shortage(Struct, frozen=True):
    """Of one kind, too little is left in an account: `spent` and set `aside` of its `limit`.

    `asked` is what was to be set aside (0: any call); an agent that is sent counts as one itself.
    """

    account: str
    kind: str
    limit: int
    spent: int
    aside: int
    asked: int = 0
    itself: int = 0
    agent: str = ""

    @property
    def left(self) -> int:
        """What is neither spent nor set aside."""
        return max(0, self.limit - self.spent - self.aside)

    def __str__(self) -> str:
        owner = f"agent {self.agent}" if self.agent else "the session"
        number, unit = read(self.kind, self.limit), UNITS[self.kind]
        if self.asked <= self.itself:
            unit = unit.removesuffix("s") if self.limit == 1 else unit
            aside = " or set aside for agents at work" if self.spent < self.limit else ""
            return f"The budget of {number} {unit} of {owner} is spent{aside}."
        asked = self.asked - self.itself
        more = ", and the agent itself counts as one" if self.itself else ""
        were = f"{read(self.kind, asked)} {'was' if asked == 1 else 'were'} asked for{more}"
        less = " Ask for less." if self.left else ""
        return (
            f"The budget of {owner} has {read(self.kind, self.left)} of {number} {unit} left; {were}.{less}"
        )


class BudgetSpent(UserMistake):
    """Nothing, or too little, is left of a budget: `shortage` says of which and how much."""

    def __init__(self, shortage: Shortage, way_out: str = "") -> None:
        super().__init__(f"{shortage} {way_out}".rstrip())
        self.shortage = shortage

    @property
    def kind(self) -> str:
        """Of what too little is left."""
        return self.shortage.kind


Verdict = Granted | Wait | Shortage


class Balance(Struct, frozen=True):
    """An account as it is now; `left` is what a call from it finds, by the tightest limit above it, too."""

    account: Account
    aside: Amounts
    left: Amounts

    @property
    def budget(self) -> Budget:
        """Its limits, without seconds: these are a deadline of the task and bound no call."""
        return in_units(self.account.limits)

    def seconds(self, journal: float | None) -> float | None:
        """The seconds of its task, given those of its journal."""
        known = self.account.seconds
        return journal if known is None else known or None


class Ledger(Protocol):
    """Where accounts and holds are; every store has one.

    Appends keep it: facts that cost anything settle the hold of their task and count in its whole path, a
    task that is created counts as one agent in all above it, its end closes its account, and going on opens
    that again. `create` and such an append raise BudgetSpent, and write nothing, where too little is left.
    """

    async def left(self, path: Sequence[str]) -> Amounts | None:
        """What is left for a call of the first on a path, of each limited kind; None: nothing limits it."""
        ...

    async def hold(self, hold: Hold) -> Verdict:
        """Take a hold if the call may be made now. It is one transaction, and none for an unbounded call."""
        ...

    async def release(self, task: str) -> None:
        """Drop the hold of a task whose call was not made; it is no harm if there is none."""
        ...

    async def limit(self, account: str, budget: Budget) -> None:
        """Set, raise or lower the budget of a task, or of a session, at any time and from any process.

        It may be less than is spent. BudgetSpent when more is to be set aside than is left above. What a
        task without an account has spent is read from its journal and those below it.
        """
        ...

    async def balance(self, account: str) -> Balance | None:
        """An account as it is now; None when the task has none."""
        ...

    async def recount(self) -> Sequence[str]:
        """Read from the journals what was spent from every account; those that had it wrong.

        What was deleted since then is not in the journals any more.
        """
        ...


def account_of(task: Task, above: Sequence[str], spent: Amounts | None = None) -> Account:
    """The account of a task with these ids above it, by what its journal says of its budget and its cost."""
    return Account(
        task.id,
        tuple(above),
        "" if task.conversation else task.agent,
        limited(task.terms.budget),
        cost_of(task) if spent is None else spent,
        open=not task.status.ended,
    )


def again(known: Account | None, before: Task, after: Task, above: Sequence[str]) -> Account:
    """The account of a task that goes on: as it is known, with the budget that was said anew, if any was."""
    account = account_of(after, above)
    if known is None:
        return account
    if after.terms.budget != before.terms.budget:
        return replace(known, path=account.path, limits=account.limits, seconds=None, open=True)
    return replace(known, path=account.path, open=True)


def goes_on(before: Task, after: Task) -> bool:
    """Whether some facts let a task go on that had ended."""
    return before.status.ended and not after.status.ended


def decide(accounts: Mapping[str, Account], hold: Hold) -> Verdict:
    """Whether a call may be made, given the accounts on its path and every open one below those.

    `spent + held + set_aside + need <= limit`, or nothing is held and something is left: the last call may
    exceed a limit, once, alone. What an open account on the path has set aside above is there for the call;
    where more is set aside than there is (a limit was lowered, or a call exceeded one), first come, first
    served. The earlier hold of the same task is not among what is held.
    """
    bounds = _bounds(accounts, hold.path)
    if not bounds:
        return Granted(bounded=False)
    alone, waits = True, ""
    for account, kind, own, others in bounds:
        limit, spent, held = account.limits[kind], account.spent.get(kind, 0), account.held.get(kind, 0)
        need = hold.need.get(kind, 0)
        alone = alone and not account.calls
        fits = spent + held + others + max(need, own) <= limit
        fits = fits or (need <= own and spent + held + need <= limit)
        if fits and spent < limit:
            continue
        if not account.calls:
            if spent < limit and (own or spent + others < limit):
                continue
            return Shortage(account.id, kind, limit, spent, others, agent=account.agent)
        waits = waits or account.id
    return Wait(waits) if waits else Granted(alone=alone)


def left_for(accounts: Mapping[str, Account], path: Sequence[str]) -> dict[str, int]:
    """What is left of each limited kind for a call of the first on a path, by the tightest account."""
    left: dict[str, int] = {}
    for account, kind, own, others in _bounds(accounts, path, (*COSTS_OF_A_CALL, "spawns")):
        there = account.limits[kind] - account.spent.get(kind, 0)
        room = max(0, there - others, min(own, there))
        left[kind] = min(room, left.get(kind, room))
    return left


def check_begins(accounts: Mapping[str, Account], account: Account, *, spawned: bool) -> None:
    """BudgetSpent when too little is left for a task that begins or goes on, with limits or without.

    What its account limits is to be set aside above; one that is `spawned` now is an agent more there. Calls
    in flight do not count: nobody waits for them here.
    """
    for kind in COSTS_OF_A_CALL:
        limit, spent = account.limits.get(kind), account.spent.get(kind, 0)
        if limit is not None and spent >= limit:
            raise BudgetSpent(Shortage(account.id, kind, limit, spent, 0, agent=account.agent))
    asked = {kind: max(0, limit - account.spent.get(kind, 0)) for kind, limit in account.limits.items()}
    one = {"spawns": 1} if spawned else {}
    _check_above(accounts, account, plus(asked, one), one, dict.fromkeys(COSTS_OF_A_CALL, 1))


def check_limits(accounts: Mapping[str, Account], account: Account, limits: Amounts) -> None:
    """BudgetSpent when an account is to have more than before, and that is not left above it."""
    asked = {
        kind: limit - account.spent.get(kind, 0)
        for kind, limit in limits.items()
        if limit > max(account.spent.get(kind, 0), account.limits.get(kind, 0))
    }
    if asked:
        _check_above(accounts, replace(account, limits=limits), asked, {}, {})


def _check_above(
    accounts: Mapping[str, Account], account: Account, asked: Amounts, itself: Amounts, least: Amounts
) -> None:
    # In its place stands one that has nothing aside, but whose own accounts below are no matter above it.
    shield = replace(account, limits=dict.fromkeys(account.limits, 0), open=True)
    accounts = {each.id: replace(each, held={}) for each in accounts.values()} | {account.id: shield}
    for above, kind, own, others in _bounds(accounts, account.path, (*COSTS_OF_A_CALL, "spawns")):
        limit, spent, amount = above.limits[kind], above.spent.get(kind, 0), asked.get(kind, 0)
        needed = max(amount, least.get(kind, 0))
        there = max(limit - spent - others, min(own, limit - spent))
        if needed and needed > there:
            one = itself.get(kind, 0)
            told = (amount, one) if there > 0 or (kind not in COSTS_OF_A_CALL and not one) else (0, 0)
            raise BudgetSpent(Shortage(above.id, kind, limit, spent, others, *told, agent=above.agent))


def set_aside(accounts: Mapping[str, Account], account: str, kind: str) -> int:
    """What open accounts below one have not spent, so far as it is not inside of another open one's."""
    return sum(each.unspent(kind) for each in _below(accounts, account, kind))


def balance_of(accounts: Mapping[str, Account], account: Account) -> Balance:
    """An account with what is set aside in it and what is left."""
    aside = {kind: set_aside(accounts, account.id, kind) for kind in account.limits}
    return Balance(account, aside, left_for(accounts, (account.id, *account.path)))


def plus(amounts: Amounts, more: Amounts, sign: int = 1) -> dict[str, int]:
    """Two amounts added up, or one taken from the other."""
    return {kind: amounts.get(kind, 0) + sign * more.get(kind, 0) for kind in {**amounts, **more}}


def with_hold(account: Account, need: Amounts, calls: int = 1) -> Account:
    """An account with one hold more, or (`calls` is -1) without one that it had."""
    return replace(account, held=plus(account.held, need, calls), calls=account.calls + calls)


def _bounds(
    accounts: Mapping[str, Account], path: Sequence[str], kinds: Collection[str] = COSTS_OF_A_CALL
) -> list[tuple[Account, str, int, int]]:
    """Each limit on a path, with what is set aside in its account for this path, and for others."""
    found: list[tuple[Account, str, int, int]] = []
    nearest: dict[str, str] = {}
    for account in (accounts[each] for each in path if each in accounts):
        for kind in kinds:
            if kind in account.limits:
                aside = {each.id: each.unspent(kind) for each in _below(accounts, account.id, kind)}
                own = aside.get(nearest.get(kind, ""), 0)
                found.append((account, kind, own, sum(aside.values()) - own))
                if account.open:
                    nearest[kind] = account.id
    return found


def _below(accounts: Mapping[str, Account], account: str, kind: str) -> Iterator[Account]:
    """The open accounts below one that limit a kind, but for those inside of another one of them."""
    for each in accounts.values():
        if each.open and kind in each.limits and account in each.path:
            between = (accounts.get(above) for above in each.path[: each.path.index(account)])
            if not any(above is not None and above.open and kind in above.limits for above in between):
                yield each
