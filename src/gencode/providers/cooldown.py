"""One pause per provider and model, shared by all agents of the process.

After "too many requests" nobody asks until the pause is over; then one asks, and the others follow only
when it got an answer. So a hundred agents that hit a limit together do not hit it a hundred times again.
"""

import asyncio


class Cooldown:
    """The shared pause of one provider and model."""

    def __init__(self) -> None:
        self._until = 0.0
        self._trying = False
        self._cold = False
        self._news = asyncio.Event()

    @property
    def left(self) -> float:
        """Seconds until somebody may ask again."""
        return max(0.0, self._until - asyncio.get_running_loop().time())

    def hold(self, seconds: float) -> None:
        """Ask everybody to wait this long from now, unless they already wait longer."""
        self._until = max(self._until, asyncio.get_running_loop().time() + seconds)
        self._cold = True
        self._tell()

    def answered(self) -> None:
        """An answer came: the pause is over for everybody."""
        if self._cold:
            self._cold = False
            self._tell()

    def turn(self) -> "Turn":
        """Wait until it is one's turn to ask; while the pause is being tried out only one goes."""
        return Turn(self)

    async def begin(self) -> bool:
        """Wait for the pause; True for whoever tries out whether it is over, and then has to `end`."""
        await self._wait()
        self._trying = self._trying or self._cold
        return self._cold

    def end(self) -> None:
        """The try is over, whatever came of it."""
        self._trying = False
        self._tell()

    async def _wait(self) -> None:
        while self.left or (self._cold and self._trying):
            if self.left:
                await asyncio.sleep(self.left)
            else:
                await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class Turn:
    """One's turn to ask; every request takes one, so it is a class and no generator."""

    __slots__ = ("_cooldown", "_first")

    def __init__(self, cooldown: Cooldown) -> None:
        self._cooldown = cooldown
        self._first = False

    async def __aenter__(self) -> None:
        self._first = await self._cooldown.begin()

    async def __aexit__(self, *_: object) -> None:
        if self._first:
            self._cooldown.end()
