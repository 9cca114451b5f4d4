"""One pause per provider and model, and one way back, shared by all agents of the process.

After "too many requests" nobody asks until the pause is over. Then one asks, and each answer lets one more ask
at the same time, so that a hundred agents that hit a limit together do not hit it a hundred times again. If the
limit is hit once more on the way back, it is known how fast answers came while somebody waited for one, and
from then on requests leave no faster than that, a little faster with every answer. When nothing was refused for
a while and nobody waits, all of this is forgotten, and it costs nothing where nothing was ever refused.
"""

import asyncio
from collections import deque

from gencode.core.errors import ProviderError

CALM = 60.0
"""So many seconds without a refusal and the limit is forgotten; most limits are told per minute."""
FASTER = 15 / 16
"""Each answer shortens the gap between two requests so far."""
LONGEST_GAP = 30.0


class Cooldown:
    """The shared pause of one provider and model."""

    def __init__(self, calm: float = CALM) -> None:
        self.cold = False
        self.pauses = 0
        self.refusals = 0
        """How many pauses there were in a row without an answer in between."""
        self.answered_at = 0.0
        self._calm = calm
        self._trouble = ProviderError("")
        self._next = 0.0
        self._gap = 0.0
        self._most = 1
        self._asking = 0
        self._line: deque[asyncio.Future[int]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._refused_at = 0.0
        self._measured_from = 0.0
        self._answers = 0

    def turn(self, patience: float) -> "Turn":
        """One's turn to ask, for which one waits as long as anybody was answered in so many seconds."""
        return Turn(self, patience)

    async def wait(self, patience: float) -> int | None:
        """Wait in line; the number of the pause that is over, or None when there is no line any more."""
        loop = asyncio.get_running_loop()
        came = loop.time()
        if not self._line and came - max(self._refused_at, self._next) > self._calm:
            self.cold = False
            return None
        place: asyncio.Future[int] = loop.create_future()
        self._line.append(place)
        self._move()
        try:
            while not place.done():
                left = max(came, self.answered_at) + patience - loop.time()
                if left <= 0 and not self._asking:
                    raise self._given_up()
                await asyncio.wait((place,), timeout=max(left, 1.0))
        except (asyncio.CancelledError, ProviderError):
            if place.done():
                self.leave(place.result())
            place.cancel()
            raise
        return place.result()

    def refuse(self, pause: float, trouble: ProviderError) -> None:
        """A request that was sent since the last pause was one too many: nobody asks for so many seconds."""
        now = asyncio.get_running_loop().time()
        if not self.cold:
            self.cold, self.refusals, self._gap, self._answers = True, 0, 0.0, 0
            self._measured_from = now
        if self._answers:
            self._gap = min((now - self._measured_from) / self._answers, LONGEST_GAP)
            self._measured_from, self._answers = now, 0
        self.pauses += 1
        self.refusals += 1
        self._trouble = trouble
        self._refused_at = now
        self._next = now + max(pause, self._gap)
        self._most, self._asking = 1, 0
        self._move()

    def answer(self, pause: int) -> None:
        """A request that was sent after this pause is being answered."""
        self.answered_at = asyncio.get_running_loop().time()
        self._answers += 1
        self._gap *= FASTER
        if pause == self.pauses:
            self.refusals = 0
            self._most += 1
        self.leave(pause)

    def leave(self, pause: int) -> None:
        """A request that was sent after this pause is one no more."""
        if pause == self.pauses:
            self._asking -= 1
            self._move()

    def _move(self) -> None:
        """Let those go whose turn it is."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        while self._line and self._asking < self._most:
            if self._next > loop.time():
                self._timer = loop.call_at(self._next, self._move)
                break
            place = self._line.popleft()
            if not place.done():
                place.set_result(self.pauses)
                self._asking += 1
                self._next = loop.time() + self._gap
        if not self._line:  # how fast answers come says nothing where nobody waits for one
            self._measured_from, self._answers = loop.time(), 0

    def _given_up(self) -> ProviderError:
        last = self._trouble
        return ProviderError(str(last), retryable=True, retry_after=last.retry_after, limited=True)


class Turn:
    """One's turn to ask; every request takes one, so it is a class and no generator."""

    __slots__ = ("_asking", "_cooldown", "_patience", "_pause")

    def __init__(self, cooldown: Cooldown, patience: float) -> None:
        self._cooldown = cooldown
        self._patience = patience
        self._pause = 0
        self._asking = False

    async def __aenter__(self) -> "Turn":
        admitted = await self._cooldown.wait(self._patience) if self._cooldown.cold else None
        self._asking = admitted is not None
        self._pause = self._cooldown.pauses if admitted is None else admitted
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._asking:
            self._asking = False
            self._cooldown.leave(self._pause)

    @property
    def stale(self) -> bool:
        """Whether a pause began since this was asked: what is refused now was too much already then."""
        return self._pause != self._cooldown.pauses

    def answered(self) -> None:
        """An answer has begun."""
        if self._asking:
            self._asking = False
            self._cooldown.answer(self._pause)

    def refused(self, pause: float, trouble: ProviderError) -> None:
        """Too many requests: everybody waits so long, unless they do so already since this was asked."""
        if not self.stale:
            self._asking = False
            self._cooldown.refuse(pause, trouble)
