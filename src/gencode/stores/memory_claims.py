"""Claims on budgets in memory (stores rack)."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count

from gencode.runtime.claims import Claim


class MemoryClaims:
    """`Claims` in a dictionary; `owner_of` knows who holds the lease of a task."""

    def __init__(self, owner_of: Callable[[str], str | None]) -> None:
        self._owner_of = owner_of
        self._lying: dict[int, Claim] = {}
        self._numbers = count(1)

    async def put(self, claim: Claim) -> int:
        """Lay a claim down; its number."""
        number = next(self._numbers)
        self._lying[number] = claim
        return number

    async def at(self, owner: str) -> Sequence[tuple[int, Claim]]:
        """The claims on budgets that this owner spends from, in the order they came."""
        waiting = [each for each in self._lying.items() if not each[1].given]
        return [each for each in waiting if self._owner_of(each[1].via) == owner]

    async def waits(self, number: int) -> bool:
        """Whether a claim lies there that has no answer."""
        return number in self._lying and not self._lying[number].given

    async def give(self, number: int, claim: Claim) -> bool:
        """Leave a claim with what is given in its place; False: it is gone."""
        if number in self._lying:
            self._lying[number] = claim
        return number in self._lying

    async def drop(self, number: int) -> Mapping[str, int]:
        """Take a claim away; what was given with it."""
        claim = self._lying.pop(number, None)
        return claim.given if claim is not None else {}
