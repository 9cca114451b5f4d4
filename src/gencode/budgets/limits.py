"""Limits and amounts of budgets as whole numbers, so that they add up exactly."""

import math
from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct

from gencode.core.budget import Budget, allowed, amount_of
from gencode.core.errors import UserMistake
from gencode.core.task import Task

Number = TypeVar("Number", int, float)

UNITS = {"turns": "turns", "tokens": "tokens", "usd": "USD", "spawns": "agents"}
COSTS_OF_A_CALL = ("turns", "tokens", "usd")
NANO = 1_000_000_000
"""Money is counted in billionths of a dollar: whole numbers, so that sums are exact."""

Amounts = Mapping[str, int]
"""Amounts by kind; a missing kind is 0, and as a limit there is none."""


class Spent(Struct, frozen=True):
    """The cost of a task with its subagents so far; `seconds` are those of the task alone."""

    turns: int = 0
    tokens: int = 0
    usd: float = 0.0
    spawns: int = 0
    seconds: float = 0.0


NO_BUDGET = Budget()


def check_budget(budget: Budget) -> None:
    """UserMistake for a budget that allows nothing, or more than can be counted."""
    if budget == NO_BUDGET:
        return
    for kind in budget.__struct_fields__:
        amount: float | None = getattr(budget, kind)
        if amount is not None and amount_of(kind, amount) != amount:  # text is none either
            raise no_budget(kind, amount)


def no_budget(kind: str, said: object) -> UserMistake:
    """Why an amount of a kind cannot be a budget."""
    unit = UNITS.get(kind, kind)
    return UserMistake(f"A budget of {unit} is {allowed(kind)}, not {said!r}; leave it out for no limit.")


def limits_of(budget: Budget) -> dict[str, int | None]:
    """A budget in whole numbers."""
    usd = None if budget.usd is None else round(budget.usd * NANO)
    return {"turns": budget.turns, "tokens": budget.tokens, "usd": usd, "spawns": budget.spawns}


def lasting_seconds(budget: Budget) -> float:
    """The seconds of a budget as an account keeps them: 0 for no limit."""
    return budget.seconds or 0.0


def limited(budget: Budget) -> dict[str, int]:
    """The kinds that a budget limits, in whole numbers."""
    if budget == NO_BUDGET:
        return {}
    return {kind: limit for kind, limit in limits_of(budget).items() if limit is not None}


def shares(budget: Budget) -> bool:
    """Whether subagents spend from it, too; each has its own seconds."""
    return bool(limited(budget))


def tightest(one: Budget, other: Budget) -> Budget:
    """The tighter limit of each kind of two budgets."""
    if one == NO_BUDGET or other == NO_BUDGET:
        return one if other == NO_BUDGET else other
    return Budget(
        turns=_least(one.turns, other.turns),
        tokens=_least(one.tokens, other.tokens),
        usd=_least(one.usd, other.usd),
        seconds=_least(one.seconds, other.seconds),
        spawns=_least(one.spawns, other.spawns),
    )


def _least(one: Number | None, other: Number | None) -> Number | None:
    return min((each for each in (one, other) if each is not None), default=None)


def in_units(amounts: Mapping[str, int | None]) -> Budget:
    """Whole numbers as a budget."""
    usd = amounts.get("usd")
    return Budget(
        turns=amounts.get("turns"),
        tokens=amounts.get("tokens"),
        usd=None if usd is None else usd / NANO,
        spawns=amounts.get("spawns"),
    )


def in_numbers(spent: Spent) -> dict[str, int]:
    """Amounts as whole numbers; negative amounts, of a model or an imported journal, count as 0."""
    return {
        "turns": max(0, spent.turns),
        "tokens": max(0, spent.tokens),
        "usd": max(0, round((known(spent.usd) or 0.0) * NANO)),
        "spawns": max(0, spent.spawns),
    }


def known(usd: float | None) -> float | None:
    """An amount of money, if it is a finite number."""
    return usd if usd is not None and math.isfinite(usd) else None


def cost_of(task: Task) -> dict[str, int]:
    """The cost of a task itself, without its subagents, from its state."""
    usage = task.totals.usage
    return {
        "turns": max(0, task.totals.turns),
        "tokens": max(0, usage.input_tokens + usage.output_tokens),
        "usd": max(0, round((known(usage.usd) or 0.0) * NANO)),
    }


def costs(before: Task, after: Task) -> bool:
    """Whether the events between two states of a task have a cost."""
    return before.totals.usage is not after.totals.usage or before.totals.turns != after.totals.turns


def cost_between(before: Task, after: Task) -> dict[str, int]:
    """The cost of the events between two states of a task; empty for none."""
    if not costs(before, after):
        return {}
    old, new = cost_of(before), cost_of(after)
    return {kind: new[kind] - old[kind] for kind in new if new[kind] != old[kind]}


def read(kind: str, amount: int) -> str:
    """A whole number of one kind, formatted for a person."""
    if kind != "usd":
        return f"{amount:,}"
    digits = 6 if amount >= NANO // 10**6 else 9
    whole, _, cents = f"{amount / NANO:,.{digits}f}".partition(".")
    return f"{whole}.{cents.rstrip('0'):0<2}"
