"""How much work may cost: turns, tokens, money, seconds and agents."""

from msgspec import Struct


class Budget(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Bounds of a task and everything below it, over its whole life; None means none.

    `turns` are replies of a model, `spawns` agents that are sent; `seconds` bound each run.
    """

    turns: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None
    spawns: int | None = None


class Part(Struct, frozen=True):
    """What agents in one process may spend of a budget while others spend from it elsewhere.

    `before` is what each of these tasks had cost itself when they got it. Who has the `last` part may exceed
    it by one call; in all others a call has to fit.
    """

    owner: str
    budget: Budget
    before: dict[str, Budget]
    last: bool = False
