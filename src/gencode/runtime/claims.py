"""runtime: claims on a budget that somebody at work elsewhere spends from, and where they lie."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct


class Claim(Struct, frozen=True):
    """Somebody needs a part of the budget of `task`; `via` is a task at work whose process may give one.

    `owner` is the process that asks, `tasks` are its agents that spend the part, `needs` what their next call
    may cost.
    """

    task: str
    via: str
    owner: str
    tasks: tuple[str, ...]
    needs: Mapping[str, int]


class Claims(Protocol):
    """Where claims lie. An answer is a fact in the journal of the task; after it the claim is gone."""

    async def put(self, claim: Claim) -> int:
        """Lay a claim down for whoever holds the lease of its `via`; its number."""
        ...

    async def at(self, owner: str) -> Sequence[tuple[int, Claim]]:
        """The claims on budgets that this owner spends from, in the order they came."""
        ...

    async def waits(self, number: int) -> bool:
        """Whether a claim lies there."""
        ...

    async def drop(self, number: int) -> None:
        """Take a claim away: it was answered, or is made no more."""
        ...


@runtime_checkable
class Claimed(Protocol):
    """A journal through which claims travel; with any other, what is spent elsewhere cannot be shared."""

    @property
    def claims(self) -> Claims:
        """Where they lie."""
        ...
