"""runtime: that too little is left of a budget, and how more of it is got where others have it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from gencode.core.errors import UserMistake
from gencode.runtime.parts import WaitPart

if TYPE_CHECKING:
    from gencode.runtime.account import Account

Tell = Callable[[WaitPart], None]
"""Tells whom it concerns what is waited for."""
More = Callable[[str, Mapping[str, int], Tell], Awaitable[bool]]
"""Gets more of one kind, for what needs so much of each, where others spend from the same budget elsewhere;
False: there is none."""


class BudgetSpent(UserMistake):
    """Nothing, or too little, is left of a budget: in the account that is `short` of what is needed."""

    def __init__(self, message: str, short: "Account", needs: Mapping[str, int] = {}) -> None:
        super().__init__(message)
        self._short = short
        self._needs = needs

    @property
    def kind(self) -> str:
        """Of what too little is left."""
        return self._short.kind

    async def more(self, tell: Tell = lambda _: None) -> bool:
        """Whether there is more by now of what was short; it may have to be waited for."""
        more = self._short.purse.more
        return more is not None and await more(self._short.kind, self._needs, tell)
