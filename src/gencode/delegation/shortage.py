"""Why somebody gets no part of a budget, and what can be done about it (delegation)."""

from collections.abc import Sequence

from gencode.core.errors import UserMistake
from gencode.core.task import Task
from gencode.delegation.accounts import tightest
from gencode.delegation.portions import Needs, bounds, is_enough, room_of
from gencode.delegation.slices import Abroad
from gencode.runtime.account import Account
from gencode.runtime.purse import COSTS_OF_A_CALL, BudgetSpent, Purse

OPTIONS = {"tokens": "--max-tokens-total", "usd": "--max-usd", "spawns": "--max-spawns"}
"""By which a session gets more of a kind."""


def refusal(account: Account, top: Task | None, free: str = "nothing is free") -> BudgetSpent:
    """Why nobody below a task can go on, with how much of its budget is `free`, and what can be done."""
    words = [account.spent_words()]
    if account.limit is not None and account.spent < account.limit:
        words.append(f"{_spent(account)}, {free}.")
    return BudgetSpent(" ".join((*words, _way_out(account, top))).rstrip(), account)


def check(purse: Purse, top: Task, abroad: Abroad, needed: Needs) -> None:
    """BudgetSpent when a task at rest has no part for a call."""
    for kind in COSTS_OF_A_CALL:
        if not is_enough(purse, abroad, needed, kind):
            account, room = purse.accounts[kind], room_of(purse, abroad)[kind]
            free = f"{account.number(room)} are free" if room > 0 else "nothing is free"
            raise refusal(account, top, f"{free}, and a call may need {account.number(needed[kind])}")


def asked_in_vain(purse: Purse, top: Task, abroad: Abroad, needed: Needs) -> BudgetSpent:
    """Why somebody at work gave no part: of one kind too little is left, so far as the journal tells.

    What was named here for a task is not what the one at work with it may spend.
    """
    there = Purse(purse.owner, tightest(top.budget, purse.budget), spent=abroad.spent)
    there.holders = purse.holders
    given = {kind: sum(part.get(kind, 0) for part in abroad.holds.values()) for kind in there.accounts}
    left = {kind: max(0, limit - there.accounts[kind].spent - given[kind]) for kind, limit in bounds(there)}
    # Whoever gives a part keeps a call, and no agent.
    calls = {
        kind: left[kind] / needed[kind] / (1 if kind == "spawns" else 2) for kind in left if needed[kind]
    }
    kind = min(calls or left, key=lambda each: calls.get(each, 0.0))
    account = there.accounts[kind]
    if kind == "spawns" or not left[kind]:
        return refusal(account, top)
    free = f"{account.number(left[kind])} are left for calls under way there, one more of these and one here"
    return refusal(account, top, f"{free}, which may need {account.number(needed[kind])}")


def unheard(top: Task, holders: Sequence[str]) -> UserMistake:
    """Why a task does not get a budget while others spend what is below it."""
    who = ", ".join(dict.fromkeys(holders))
    return UserMistake(
        f"Agents below {top.id} are at work in other processes, and may spend more than that: {who}. Wait "
        "until they have ended, or stop one (gen task stop ID), and then name the budget."
    )


def _spent(account: Account) -> str:
    return f"{account.number(account.spent)} {'is' if account.number(account.spent) == '1' else 'are'} spent"


def _way_out(account: Account, top: Task | None) -> str:
    if account.limit is not None and account.spent >= account.limit:
        return f"{_spent(account)}; {_bigger(account, top)}." if top is not None else f"{_spent(account)}."
    if top is not None and not top.status.ended:
        return (
            f"{top.id} itself is at work in another process and may spend it all: wait until it is at "
            f"rest, stop it (gen task stop {top.id}), or say there what the agent should do."
        )
    return "Wait until they have ended, or stop one (gen task stop ID)." if account.purse.holders else ""


def _bigger(account: Account, top: Task) -> str:
    own = f"gen task budget {top.id} {account.kind} N"
    if not top.status.ended:
        there = "where it is led in the app (/budget), or once it" if top.conversation else "once it"
        return (
            f"{top.id} is at work, and gets a bigger budget {there} is at rest: wait for that or stop it "
            f"(gen task stop {top.id}), then {own}"
        )
    if top.conversation and account.kind in OPTIONS:
        return f"a bigger budget lets it go on: {OPTIONS[account.kind]} N, /budget, or {own}"
    return f"a bigger budget lets it go on: {own}"
