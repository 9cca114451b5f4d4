"""What others have of a budget and leave comes back, and calls of this process wait for that (delegation)."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager

from gencode.runtime.amounts import UNITS
from gencode.runtime.news import News
from gencode.runtime.parts import WaitPart
from gencode.runtime.purse import COSTS_OF_A_CALL, Purse, Tell

PATIENCE = 60.0
"""So many seconds a call waits for what others have of a budget while none of them spends anything of it."""
LOOK_SECONDS = 0.2
SILENT_SECONDS = 3.0
"""For so long nobody is told that a call waits."""
MOST_NAMED = 5


class Refunds:
    """Waits until others leave something of one budget; who looks for that does it for all calls here."""

    def __init__(self, look: Callable[[Purse], Awaitable[bool]]) -> None:
        """To `look` is to set aside in the purse what others may still spend; False: nobody has anything."""
        self._look = look
        self._waiting = 0
        self._looking: asyncio.Task[None] | None = None
        self._news = News()

    async def more(self, purse: Purse, kind: str, needs: Mapping[str, int], tell: Tell) -> bool:
        """Whether more of a kind is free by now, or a call need not fit any more; only a call waits for that.

        It does so for as long as anybody spends what is not free.
        """
        free, firm = _free(purse, kind), purse.firm

        def grown() -> bool:
            return _free(purse, kind) > free or (firm and not purse.firm)

        if not needs.keys() >= {*COSTS_OF_A_CALL}:
            await self._look(purse)
            return grown()
        first = not self._waiting
        with self._lookout(purse) as looking:
            if first:
                await self._look(purse)
            await self._waited(purse, kind, grown, looking, tell)
        return grown()

    async def _waited(
        self, purse: Purse, kind: str, grown: Callable[[], bool], looking: "asyncio.Task[None]", tell: Tell
    ) -> None:
        """Wait for that until it is of no use."""
        clock = asyncio.get_running_loop().time
        account, until, silent_until = purse.accounts[kind], clock() + PATIENCE, clock() + SILENT_SECONDS
        has = account.elsewhere
        while account.elsewhere and not grown() and not looking.done() and clock() < until:
            if clock() >= silent_until:
                tell(WaitPart(_words(purse, kind), note=self._news.due()))
                silent_until = math.inf
            # What is given back in this process is known at once, the rest when it was looked for.
            moved = purse.turnstile.next_move()
            seconds = min(until, silent_until) - clock()
            await asyncio.wait((looking, moved), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if account.elsewhere < has:
                until = clock() + PATIENCE
            has = account.elsewhere
        if looking.done():
            looking.result()

    @contextmanager
    def _lookout(self, purse: Purse) -> "Generator[asyncio.Task[None]]":
        """While anybody waits, one looks."""
        looking = self._looking
        if looking is None or not self._waiting:
            looking = self._looking = asyncio.get_running_loop().create_task(self._look_out(purse))
        self._waiting += 1
        try:
            yield looking
        finally:
            self._waiting -= 1
            if not self._waiting:
                looking.cancel()

    async def _look_out(self, purse: Purse) -> None:
        there = True
        while there:
            await asyncio.sleep(LOOK_SECONDS)
            there = await self._look(purse)


def _free(purse: Purse, kind: str) -> float:
    """What is neither spent nor set aside."""
    account = purse.accounts[kind]
    return math.inf if account.limit is None else account.limit - account.kept


def _words(purse: Purse, kind: str) -> str:
    """What is waited for, for a person."""
    account = purse.accounts[kind]
    named, more = purse.holders[:MOST_NAMED], len(purse.holders) - MOST_NAMED
    who = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    budget = f"the budget of {account.number(account.limit or 0)} {UNITS[kind]} of {purse.owner}"
    return (
        f"waits for what other processes may still spend of {budget}: {account.number(account.elsewhere)} "
        f"({who or 'nobody knows who'}). It goes on with what they leave, and ends when none of them spends "
        f"anything for {PATIENCE:.0f} s"
    )
