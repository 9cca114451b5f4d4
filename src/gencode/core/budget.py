"""Budgets of turns, tokens, money, seconds and agents, and the price of a model."""

import re
from typing import Annotated

from msgspec import Meta, Struct

from gencode.core.messages import Usage

WHOLE = frozenset({"turns", "tokens", "spawns"})
"""The kinds that are whole numbers; the others are measured."""
MOST_WHOLE = 2**53
"""Whole numbers up to here are the same in JSON, in databases and as floats."""
LEAST, MOST = 1e-9, 1e9
"""For dollars and seconds; money is counted in billionths of a dollar."""
_TYPED = re.compile(r"[-+.0-9eE]+")


class Budget(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Limits of a task with all its subagents, over its whole life; None means no limit.

    `turns` are replies of a model, `spawns` subagents that may be started (0: none). `seconds` are those in
    which the task itself runs, without the wait in the queue; each subagent has its own.
    """

    turns: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None
    spawns: int | None = None


def allowed(kind: str) -> str:
    """Which amounts of a kind can be a budget, as text."""
    if kind in WHOLE:
        return f"a whole number from {_least(kind)} to {MOST_WHOLE:,}"
    return f"a number from {LEAST:.9f} to {MOST:,.0f}"


def amount_of(kind: str, said: object) -> int | float | None:
    """An amount of a kind, from a number or from text; None for what cannot be a budget."""
    whole = kind in WHOLE
    if isinstance(said, str):
        try:
            said = (int if whole else float)(said) if _TYPED.fullmatch(said) else None
        except ValueError:
            return None
    if isinstance(said, bool) or not isinstance(said, int if whole else int | float):
        return None
    return said if _least(kind) <= said <= (MOST_WHOLE if whole else MOST) else None


def _least(kind: str) -> float:
    """The smallest useful amount of a kind; no subagents at all is useful."""
    if kind == "spawns":
        return 0
    return 1 if kind in WHOLE else LEAST


MILLION = 1_000_000
Tokens = Annotated[int, Meta(ge=1)]


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """Dollars for a million tokens; `cached` is for input read from a cache.

    `context` and `reply` are the largest context and reply of the model, in tokens.
    """

    input: float | None = None
    output: float | None = None
    cached: float | None = None
    context: Tokens | None = None
    reply: Tokens | None = None

    def of(self, usage: Usage) -> float | None:
        """The cost of this usage; None when a price that is needed is not known."""
        if self.input is None or self.output is None:
            return None
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input_tokens - usage.cached_tokens
        return (
            fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output
        ) / MILLION
