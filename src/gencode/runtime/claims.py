"""runtime: claims on a budget that somebody at work elsewhere spends from, and where they lie."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct


class Claim(Struct, frozen=True):
    """Somebody needs a part of the budget of `task`; `via` is a task at work whose process may give one.

    `owner` is the process that asks, `tasks` are its agents that spend the part, `needs` what their next call
    may cost. An agent that has spent its own budget, which it took along, claims a bigger one: `needs` is
    what it misses, and what it gets is `given` with the claim.
    """

    task: str
    via: str
    owner: str
    tasks: tuple[str, ...]
    needs: Mapping[str, int]
    given: Mapping[str, int] = {}

    @property
    def widens(self) -> bool:
        """Whether a task needs more to what it took along."""
        return self.tasks == (self.task,)


class Claims(Protocol):
    """Where claims lie. An answer is a fact in the journal of the task, or what is given with the claim."""

    async def put(self, claim: Claim) -> int:
        """Lay a claim down for whoever holds the lease of its `via`; its number."""
        ...

    async def at(self, owner: str) -> Sequence[tuple[int, Claim]]:
        """The claims on budgets that this owner spends from, in the order they came."""
        ...

    async def waits(self, number: int) -> bool:
        """Whether a claim lies there that has no answer."""
        ...

    async def give(self, number: int, claim: Claim) -> bool:
        """Leave a claim with what is given in its place; False: it is gone, and nothing was given."""
        ...

    async def drop(self, number: int) -> Mapping[str, int]:
        """Take a claim away: it was answered, or is made no more. What was given with it."""
        ...


@runtime_checkable
class Claimed(Protocol):
    """A journal through which claims travel; with any other, what is spent elsewhere cannot be shared."""

    @property
    def claims(self) -> Claims:
        """Where they lie."""
        ...
