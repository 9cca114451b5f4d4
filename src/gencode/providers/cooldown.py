"""One pause per provider and model, and one way back from it, shared by all agents of the process.

After "too many requests" nobody asks until the pause is over. The provider says how long it is, or else the
`Allowance`: the more wait and the fewer were answered, the longer. Then they stand in line: one asks, and
each answer lets one more ask at the same time, so that a hundred agents that hit a limit together do not hit
it a hundred times again. They leave at a `Tempo` that is learned on the way. When nothing was refused for a
while and nobody waits, all of this is forgotten; until something is refused it costs nothing, but that of a
crowd which a program sends to a model that has not answered lately only some go first.
"""

import asyncio
from collections import deque
from math import ceil

from gencode.core.errors import ProviderError
from gencode.providers.allowance import IN_VAIN, Allowance
from gencode.providers.tempo import LONGEST_GAP, MINUTE, Tempo
from gencode.runtime.news import News

FIRST = 24
"""So many ask at the same time before two were answered: the others would be refused with them.

Those do not wait that an agent sent. It was answered, and it will be when they are, so that one refusal for
each of them is not too many; and it waits for them.
"""
CALM = MINUTE
"""So many seconds after a refusal it is forgotten."""
STUBBORN = 4
"""After so many refusals one lets all others ask first: it may be the only one that is too much."""
LONGEST_APART = 10.0
"""Nobody waits longer for another one's refusal."""
SLACK = 3
"""One is more patient by so many gaps between requests: some of them may fail for other reasons."""


class Cooldown:
    """The shared pause of one provider and model."""

    def __init__(self, calm: float = CALM) -> None:
        self.cold = False
        self.pauses: int = 0
        self.refusals: int = 0
        """How many pauses there were in a row without an answer in between."""
        self.answered_at = 0.0
        self._calm = calm
        self._forgotten_at = 0.0
        self.news = News()
        """When a person is to hear that agents wait."""
        self._trouble = ProviderError("")
        self._tempo = Tempo()
        self._allowance = Allowance()
        self._paused_at = self._pause = self._left_at = 0.0
        self._apart = 0.0
        """Seconds in which a refusal would be known: if two cannot be afforded, the second waits for them."""
        self._most = 1
        self._asking = 0
        self._unhindered = 0
        """So many are on their way who did not have to wait."""
        self._line: deque[asyncio.Future[int | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def words(self) -> str:
        """What is waited for, for a person."""
        others = "it is the next" if len(self._line) < 2 else f"{len(self._line)} wait for their turn"
        if not self.cold:
            return f"waits until the model has answered others: {others}"
        left = ceil(max(0.0, self._next - asyncio.get_running_loop().time()))
        soon = f"in {left} s" if left else "when one of them is answered"
        why = str(self._trouble).removesuffix(".")
        return f"waits for the model ({why}): {others}, and the next asks {soon}"

    @property
    def slack(self) -> float:
        """So many seconds one is more patient, because requests leave slowly."""
        return SLACK * self._tempo.gap

    def holds(self, *, sent: bool = False) -> bool:
        """Whether the next one has to wait, if it was sent by an agent or not."""
        now = asyncio.get_running_loop().time()
        if sent:
            self._allowance.sent(now)
        return self.cold or (self._unhindered >= FIRST and not sent and self._allowance.unknown(now))

    @property
    def crowded(self) -> bool:
        """Whether somebody waits in line."""
        return bool(self._line)

    def turn(self, patience: float, refused: int = 0, *, sent: bool = False) -> "Turn":
        """One's turn to ask; one gives up waiting for it when nobody was answered for so many seconds.

        One that was refused so often in its turn is mostly the next, so that nobody is always too late.
        """
        return Turn(self, patience, first=refused % STUBBORN > 0, held=self.holds(sent=sent))

    async def wait(self, patience: float, *, first: bool) -> int | None:
        """Wait in line; the number of pauses before this request, or None where it is unhindered."""
        loop = asyncio.get_running_loop()
        came = loop.time()
        if self.cold and came > max(self._forgotten_at, self._next) and not self._line:
            self.cold = False
        if not self.holds():
            self.begin()
            return None
        place: asyncio.Future[int | None] = loop.create_future()
        if first:
            self._line.appendleft(place)
        else:
            self._line.append(place)
        self._move()
        try:
            while not place.done():
                left = max(came, self.answered_at) + patience + self.slack - loop.time()
                if left <= 0 and self.cold and not self._asking:
                    raise self._given_up()
                await asyncio.wait((place,), timeout=max(left, 1.0))
        except (asyncio.CancelledError, ProviderError):
            if place.done():
                self.leave(place.result())
            else:
                self._line.remove(place)
                self._allowance.returned()
                self._move()
            raise
        return place.result()

    def refuse(self, before: int, pause: float, trouble: ProviderError, took: float) -> None:
        """A request with so many pauses before it was too much: nobody asks for so many seconds.

        It says nothing new if a pause began while it was on its way.
        """
        self._allowance.refused()
        self._apart = min(self._apart, 2 * took)
        if before != self.pauses:
            return
        now = asyncio.get_running_loop().time()
        if not self.cold or self._spare < IN_VAIN:
            self._allowance.begin(now)
            self._tempo.begin(now, counted=not (self.cold or trouble.overloaded))
            self.cold, self.refusals, self._apart = True, 0, min(2 * took, LONGEST_APART)
        else:
            self._tempo.refused(now, pause, self._spare, trouble.retry_after or 0.0)
        self.pauses += 1
        self.refusals += 1
        self._trouble = trouble
        self._most, self._asking = 1, 0
        longer = min(self._tempo.gap * 2 ** min(self.refusals - 1, 60), LONGEST_GAP)
        self._paused_at, self._pause = now, max(pause, longer)
        self._forgotten_at = self._next + self._calm
        self._move()

    def answer(self, before: int) -> None:
        """A request from the line, with so many pauses before it, is being answered."""
        self.answered_at = asyncio.get_running_loop().time()
        if before == self.pauses:
            self.refusals = 0
            self._most += 1
            self._asking -= 1
        self._allowance.returned()
        self._tempo.answered(self.answered_at, self._allowance.fine, self._spare)
        self._move()

    def fine(self) -> None:
        """An unhindered request is being answered."""
        self._unhindered -= 1
        self._allowance.unhindered(asyncio.get_running_loop().time())
        if self._line:
            self._move()

    def begin(self) -> None:
        """An unhindered request leaves."""
        self._unhindered += 1

    def leave(self, before: int | None) -> None:
        """A request with so many pauses before it, or an unhindered one, makes room for another."""
        if before is None:
            self._unhindered -= 1
        elif before == self.pauses:
            self._asking -= 1
        if self._line:
            self._move()

    def _move(self) -> None:
        """Let those go whose turn it is."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        while self._line and not self.holds():
            self._line.popleft().set_result(None)
            self.begin()
        while self._line and self.cold and self._asking < self._together:
            if self._next > loop.time():
                self._timer = loop.call_at(self._next, self._move)
                break
            self._line.popleft().set_result(self.pauses)
            self._asking += 1
            self._left_at = loop.time()
        if not self._line:
            self._tempo.measure(loop.time())

    @property
    def _next(self) -> float:
        """When the next one may ask: after the pause, and not too soon after the last one."""
        pause, spare = self._pause, self._spare
        told = self._trouble.retry_after and self.refusals < 2 and spare >= 0
        silent = self._paused_at - max(self._tempo.began, self.answered_at)
        in_a_row = self.refusals > (spare >= 0) and silent < MINUTE
        if (self._tempo.blind or in_a_row) and not told:
            crowded = 2 * pause * max(len(self._line), 1)
            pause = max(pause, min(crowded, self._allowance.pause(spare, silent)))
        gap = max(self._tempo.gap, self._apart if 0 < self._asking >= spare else 0.0)
        return max(self._paused_at + pause, self._left_at + gap)

    @property
    def _together(self) -> int:
        """So many may ask at the same time: one, if none may be refused any more."""
        return 1 if self._spare < 0 and self._tempo.limited else self._most

    @property
    def _spare(self) -> int:
        """So many more may be refused, without more refusals than answers in the end."""
        return self._allowance.left(len(self._line) + self._asking)

    def _given_up(self) -> ProviderError:
        last = self._trouble
        return ProviderError(str(last), retryable=True, retry_after=last.retry_after, limited=True)


class Turn:
    """One's turn to ask; every request takes one, so it is a class and no generator."""

    __slots__ = ("_before", "_cooldown", "_first", "_left_at", "_on_its_way", "_patience", "_place", "held")

    def __init__(self, cooldown: Cooldown, patience: float, *, first: bool, held: bool) -> None:
        self._cooldown = cooldown
        self._patience = patience
        self._first = first
        self._place: int | None = None
        self._on_its_way = False
        self.held = held
        """Whether one has to wait for it."""

    async def __aenter__(self) -> "Turn":
        if not self.held:
            self._cooldown.begin()
            self._leave(None)
        return self

    async def wait(self) -> None:
        """Wait for it, where there is a line."""
        self._leave(await self._cooldown.wait(self._patience, first=self._first))

    def _leave(self, place: int | None) -> None:
        self._place = place
        self._on_its_way = True
        self._before = self._cooldown.pauses if place is None else place
        self._left_at = asyncio.get_running_loop().time()

    async def __aexit__(self, *_: object) -> None:
        if self._on_its_way:
            self._on_its_way = False
            self._cooldown.leave(self._place)

    @property
    def in_line(self) -> bool:
        """Whether it waited for this."""
        return self._on_its_way and self._place is not None

    @property
    def shared(self) -> bool:
        """Whether a refusal of this would be everybody's and not its own.

        A pause began while it was on its way, or nobody was answered since the last one and others wait too.
        """
        stale = self._before != self._cooldown.pauses
        return stale or (self._cooldown.refusals > 0 and self._cooldown.crowded)

    def answered(self) -> None:
        """An answer has begun."""
        self._on_its_way = False
        if self._place is None:
            self._cooldown.fine()
        else:
            self._cooldown.answer(self._place)

    def refused(self, pause: float, trouble: ProviderError) -> None:
        """It was asked too much: everybody waits so long, unless they have done so since this was asked."""
        took = asyncio.get_running_loop().time() - self._left_at
        self._cooldown.refuse(self._before, pause, trouble, took)
