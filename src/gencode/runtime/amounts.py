"""runtime: budgets and what was spent, in whole numbers that can be added up without a rest."""

import math
from collections.abc import Mapping

from msgspec import Struct

from gencode.core.budget import Budget
from gencode.core.errors import UserMistake

UNITS = {"turns": "turns", "tokens": "tokens", "usd": "USD", "spawns": "agents"}
NANO = 1_000_000_000
"""Money is counted in billionths of a dollar: whole numbers, so that all that is set aside comes back."""


class Spent(Struct, frozen=True):
    """What a task and everything below it have cost so far."""

    turns: int = 0
    tokens: int = 0
    usd: float = 0.0
    spawns: int = 0


NOTHING = Spent()


def check_budget(budget: Budget) -> None:
    """UserMistake for a budget that allows nothing."""
    for name in budget.__struct_fields__:
        amount: float | None = getattr(budget, name)
        whole = name in UNITS and name != "usd"
        if isinstance(amount, bool) or (whole and not isinstance(amount, int | None)):
            raise UserMistake(f"A budget of {UNITS.get(name, name)} is a whole number, not {amount!r}.")
        if amount is not None and not 0 < amount < math.inf:
            unit = UNITS.get(name, name)
            raise UserMistake(
                f"A budget has to be more than 0 {unit}, not {amount}; leave it out for no limit."
            )
        if name == "usd" and amount is not None and round(amount * NANO) < 1:
            raise UserMistake(f"A budget has to be at least a billionth of a USD, not {amount:g}.")


def limits_of(budget: Budget) -> dict[str, int | None]:
    """A budget in whole numbers."""
    usd = None if budget.usd is None else round(budget.usd * NANO)
    return {"turns": budget.turns, "tokens": budget.tokens, "usd": usd, "spawns": budget.spawns}


def in_units(amounts: Mapping[str, int | None]) -> Budget:
    """Whole numbers as a budget."""
    usd = amounts["usd"]
    return Budget(
        turns=amounts["turns"],
        tokens=amounts["tokens"],
        usd=None if usd is None else usd / NANO,
        spawns=amounts["spawns"],
    )


def in_numbers(spent: Spent) -> dict[str, int]:
    """In whole numbers; a model or a journal that says less than nothing says nothing."""
    usd = (known(spent.usd) or 0.0) * NANO
    amounts = {"turns": spent.turns, "tokens": spent.tokens, "usd": usd, "spawns": spent.spawns}
    return {kind: max(0, round(amount)) for kind, amount in amounts.items()}


def known(usd: float | None) -> float | None:
    """An amount of money that is a number."""
    return usd if usd is not None and math.isfinite(usd) else None


def read(kind: str, amount: int) -> str:
    """A whole number of one kind as a person reads it."""
    if kind != "usd":
        return f"{amount:,}"
    digits = 6 if amount >= NANO // 10**6 else 9
    whole, _, cents = f"{amount / NANO:,.{digits}f}".partition(".")
    return f"{whole}.{cents.rstrip('0'):0<2}"
