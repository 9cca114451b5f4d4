"""A budget as a person types it: `tokens 50000 turns none`, or `none` (surfaces)."""

from collections.abc import Sequence

from msgspec.structs import replace

from gencode.budgets.limits import Spent, no_budget
from gencode.core.budget import Budget, amount_of
from gencode.core.errors import UserMistake
from gencode.core.messages import Usage
from gencode.interfaces.render.number_format import Bar, bar_text, bars

KINDS = Budget.__struct_fields__


def bounded(now: Budget, words: Sequence[str]) -> Budget:
    """A budget with these kinds set and the others as they are; UserMistake for anything else."""
    if [*words] == ["none"]:
        return Budget()
    amounts: dict[str, float | None] = {}
    for kind, amount in zip(words[::2], words[1::2], strict=False):
        if kind not in KINDS:
            raise UserMistake(f"A budget has no {kind!r}; it bounds {', '.join(KINDS)}.")
        if kind in amounts:
            raise UserMistake(f"{kind} is named twice; say once how much it should be.")
        amounts[kind] = None if amount == "none" else amount_of(kind, amount)
        if amounts[kind] is None and amount != "none":
            raise no_budget(kind, amount)
    if len(words) % 2:
        raise UserMistake(f"Say how much after {words[-1]!r}, for example tokens 50000, or only none.")
    return replace(now, **amounts)


def bounds_page(budget: Budget, spent: Spent) -> str:
    """What a task may spend, and what of it is spent."""
    used = bars(budget, Usage(spent.tokens, usd=spent.usd), spent.turns, spent.spawns)
    if budget.seconds is not None:
        used.append(Bar("seconds", spent.seconds, budget.seconds))
    return "\n".join(bar_text(bar, 20) for bar in used) or "It has no budget of its own."
