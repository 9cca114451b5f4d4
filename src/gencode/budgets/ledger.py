"""The ledger: accounts with limits, holds for model calls, and the check that allows a call.

A budget is an account. A task spends from its own account and from all on its path: those of its ancestors,
and above a task without a conversation that of its session. Before a call that any of them limits, one
transaction checks each and inserts a hold; the append of the reply removes the hold and adds the cost.
Everything here is pure: the stores load accounts, call `decide`, and write.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from gencode.budgets.limits import COSTS_OF_A_CALL, UNITS, Amounts, cost_of, costs, in_units, limited, read
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.structs import replace
from gencode.core.task import Task


class Account(Struct, frozen=True):
    """The budget of one task with its subagents, or of a session.

    `path` are the ids above it, nearest first; `agent` is its owner (empty: a session or a conversation).
    `limits` has only the limited kinds. `held` is what `calls` in flight may cost, of this task and its
    subagents. While it is `open`, its task has not ended, and its unspent amount is set aside above.
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
    """The seconds that `limit` last set for the task, 0 for no limit; None: those in its journal."""

    def unspent(self, kind: str) -> int:
        """The amount set aside above for this limit: what is neither spent nor held of it."""
        return max(0, self.limits[kind] - self.spent.get(kind, 0) - self.held.get(kind, 0))


class Hold(Struct, frozen=True):
    """The most one model call of a task may cost. A new hold of a task replaces its old one."""

    task: str
    path: tuple[str, ...]
    """The task itself, then the ids above it, nearest first: the path of its lease."""
    need: Amounts
    owner: str = ""


class Granted(Struct, frozen=True):
    """The call may be made. Nothing was written if nothing on its path is `bounded`.

    A call that is `alone` has no other in any account that limits it. So it may cost more than its hold: no
    limit is exceeded by more than this one call.
    """

    bounded: bool = True
    alone: bool = False


class Wait(Struct, frozen=True):
    """The call does not fit into an account beside those in flight: ask again when one of them has ended.

    `holders` are the tasks of those calls; the hold of a process that died stays until its task is closed.
    """

    account: str
    holders: frozenset[str] = frozenset()


class Shortage(Struct, frozen=True):
    """Too little is left of one kind in an account: `spent` and set `aside` of its `limit`.

    `asked` is the amount to be set aside (0: any call); starting a subagent itself costs one agent.
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
        """The kind of budget that is too small."""
        return self.shortage.kind


Verdict = Granted | Wait | Shortage


class Balance(Struct, frozen=True):
    """An account as it is now; `left` is what a call may use, considering the limits above it, too."""

    account: Account
    aside: Amounts
    left: Amounts

    @property
    def budget(self) -> Budget:
        """Its limits, without seconds: these are a deadline of the task and limit no call."""
        return in_units(self.account.limits)

    def seconds(self, journal: float | None) -> float | None:
        """The seconds of its task, given those in its journal."""
        known = self.account.seconds
        return journal if known is None else known or None


class Ledger(Protocol):
    """The port for accounts and holds; every store implements it.

    Appends update it: events with a cost settle the hold of their task and are added on its whole path, a new
    task counts as one agent in all accounts above it, its end closes its account, and a resume opens it
    again. `create` and such an append raise BudgetSpent, and write nothing, if too little is left.
    """

    async def left(self, path: Sequence[str]) -> Amounts | None:
        """What is left of each limited kind for a call of the first task on a path; None: no limits."""
        ...

    async def hold(self, hold: Hold) -> Verdict:
        """Insert a hold if the call may be made now. It is one transaction, and none for an unbounded call.

        Fenced if another owner or nobody has the lease of the task: no append would settle the hold, or it
        would replace theirs.
        """
        ...

    async def holds(self, task: str) -> bool:
        """Whether a task has a hold: its call is in flight, or was when its process died."""
        ...

    async def release(self, hold: Hold) -> None:
        """Remove the hold of a call that was not made, if its owner has one for the task."""
        ...

    async def limit(self, account: str, budget: Budget) -> None:
        """Set, raise or lower the budget of a task or a session, at any time and from any process.

        It may be less than is spent. BudgetSpent if more would be set aside than is left above. For a task
        without an account the amount spent is read from the journals of the task and its subagents.
        """
        ...

    async def balance(self, account: str) -> Balance | None:
        """An account as it is now; None if the task has none."""
        ...

    async def recount(self) -> Sequence[str]:
        """Recompute from the journals what was spent from every account; the accounts that were wrong.

        Deleted tasks are no longer in the journals.
        """
        ...


def account_of(task: Task, above: Sequence[str], spent: Amounts | None = None) -> Account:
    """The account of a task with these ids above it, with the budget and the cost in its journal."""
    return Account(
        task.id,
        tuple(above),
        "" if task.conversation else task.agent,
        limited(task.terms.budget),
        cost_of(task) if spent is None else spent,
        open=not task.status.ended,
    )


def again(known: Account | None, before: Task, after: Task, above: Sequence[str]) -> Account:
    """The account of a task that is resumed: the known one, with a new budget if one was set."""
    account = account_of(after, above)
    if known is None:
        return account
    if after.terms.budget != before.terms.budget:
        return replace(known, path=account.path, limits=account.limits, seconds=None, open=True)
    return replace(known, path=account.path, open=True)


def goes_on(before: Task, after: Task) -> bool:
    """Whether some events resume a task that had ended."""
    return before.status.ended and not after.status.ended


def settles(before: Task, after: Task) -> bool:
    """Whether some events settle the hold of a task: they have a cost, or end the run of the call.

    A process that takes over may write the end of that run together with a new start.
    """
    return after.status.ended or costs(before, after) or before.run.since != after.run.since


def decide(accounts: Mapping[str, Account], hold: Hold) -> Verdict:
    """Whether a call may be made, given the accounts on its path and every open one below those.

    `spent + held + set_aside + need <= limit`, or nothing is held and something is left: the last call may
    exceed a limit, once, alone. What is set aside for an open account on the path may be used by the call; if
    more is set aside than there is (a limit was lowered, or a call exceeded one), it is first come, first
    served. The earlier hold of the same task does not count as held.
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
    """What is left of each limited kind for a call of the first task on a path, by the tightest account."""
    left: dict[str, int] = {}
    for account, kind, own, others in _bounds(accounts, path, (*COSTS_OF_A_CALL, "spawns")):
        there = account.limits[kind] - account.spent.get(kind, 0)
        room = max(0, there - others, min(own, there))
        left[kind] = min(room, left.get(kind, room))
    return left


def check_begins(accounts: Mapping[str, Account], account: Account, *, spawned: bool) -> None:
    """BudgetSpent if too little is left for a task that begins or is resumed, with limits or without.

    Its own limits are set aside above; a new task (`spawned`) counts as one agent there. Calls in flight do
    not count, since nobody waits for them here.
    """
    for kind in COSTS_OF_A_CALL:
        limit, spent = account.limits.get(kind), account.spent.get(kind, 0)
        if limit is not None and spent >= limit:
            raise BudgetSpent(Shortage(account.id, kind, limit, spent, 0, agent=account.agent))
    asked = {kind: max(0, limit - account.spent.get(kind, 0)) for kind, limit in account.limits.items()}
    one = {"spawns": 1} if spawned else {}
    _check_above(accounts, account, plus(asked, one), one, dict.fromkeys(COSTS_OF_A_CALL, 1))


def check_limits(accounts: Mapping[str, Account], account: Account, limits: Amounts) -> None:
    """BudgetSpent if an account's limits are raised by more than is left above it."""
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
    # It is replaced by one that sets nothing aside, whose own accounts below do not count above it.
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
    """The unspent amounts of open accounts below one, each counted once."""
    inside = [each for each in accounts.values() if each.open and account in each.path]
    return sum(each.unspent(kind) for each in _below(accounts, account, kind, inside))


def balance_of(accounts: Mapping[str, Account], account: Account) -> Balance:
    """An account with what is set aside in it and what is left."""
    aside = {kind: set_aside(accounts, account.id, kind) for kind in account.limits}
    return Balance(account, aside, left_for(accounts, (account.id, *account.path)))


def plus(amounts: Amounts, more: Amounts, sign: int = 1) -> dict[str, int]:
    """The sum of two amounts, or their difference."""
    return {kind: amounts.get(kind, 0) + sign * more.get(kind, 0) for kind in {**amounts, **more}}


def with_hold(account: Account, need: Amounts, calls: int = 1) -> Account:
    """An account with one more hold, or (`calls` is -1) with one less."""
    return replace(account, held=plus(account.held, need, calls), calls=account.calls + calls)


def _bounds(
    accounts: Mapping[str, Account], path: Sequence[str], kinds: Collection[str] = COSTS_OF_A_CALL
) -> list[tuple[Account, str, int, int]]:
    """Each limit on a path, with what is set aside in its account for this path, and for others."""
    found: list[tuple[Account, str, int, int]] = []
    nearest: dict[str, str] = {}
    for account in (accounts[each] for each in path if each in accounts):
        inside = [each for each in accounts.values() if each.open and account.id in each.path]
        for kind in kinds:
            if kind in account.limits:
                below = _below(accounts, account.id, kind, inside) if inside else ()
                aside = {each.id: each.unspent(kind) for each in below}
                own = aside.get(nearest.get(kind, ""), 0)
                found.append((account, kind, own, sum(aside.values()) - own))
                if account.open:
                    nearest[kind] = account.id
    return found


def _below(
    accounts: Mapping[str, Account], account: str, kind: str, inside: Sequence[Account]
) -> Iterator[Account]:
    """The open accounts `inside` one that limit a kind, without those inside of another one of them."""
    for each in inside:
        if kind in each.limits:
            between = (accounts.get(above) for above in each.path[: each.path.index(account)])
            if not any(above is not None and above.open and kind in above.limits for above in between):
                yield each
