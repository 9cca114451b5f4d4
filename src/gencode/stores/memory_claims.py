"""Claims on budgets in memory (stores rack)."""

from collections.abc import Callable, Sequence
from itertools import count

from gencode.runtime.claims import Claim


class MemoryClaims:
    """`Claims` in a dictionary; `owner_of` knows who holds the lease of a task."""

    def __init__(self, owner_of: Callable[[str], str | None]) -> None:
        self._owner_of = owner_of
        self._waiting: dict[int, Claim] = {}
        self._numbers = count(1)

    async def put(self, claim: Claim) -> int:
        """Lay a claim down; its number."""
        number = next(self._numbers)
        self._waiting[number] = claim
        return number

    async def at(self, owner: str) -> Sequence[tuple[int, Claim]]:
        """The claims on budgets that this owner spends from, in the order they came."""
        return [each for each in self._waiting.items() if self._owner_of(each[1].via) == owner]

    async def waits(self, number: int) -> bool:
        """Whether a claim lies there."""
        return number in self._waiting

    async def drop(self, number: int) -> None:
        """Take a claim away."""
        self._waiting.pop(number, None)
