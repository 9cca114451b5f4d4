"""The request queue of one provider and model, for all agents of a process once the model refuses requests.

Once something is refused they stand in line, so that a hundred agents that hit a limit together do not hit it
a hundred times again. When nothing was refused for a while and nobody waits, all of this is forgotten; until
something is refused it costs nothing, but that of a crowd which a program sends to a model that has not
answered lately only some go first.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable
from math import ceil, inf

from gencode.core.errors import ProviderError
from gencode.providers.rate_limit import ProcessLoad, RateLimitState
from gencode.providers.request_pacing import MINUTE, REMEMBERED
from gencode.providers.shared_limit_file import LimitStorage

FIRST = 24
"""So many ask at the same time where nobody was answered lately: the others would be refused with them.

Those do not wait that an agent sent. It was answered, and it will be when they are, so that one refusal for
each of them is not too many; and it waits for them.
"""
MORE = 4
"""So many of the others ask for each one that is answered then."""
LONGEST_HOLD = 15.0
"""Nobody is held back for longer before something is refused: answers may be slow."""
STUBBORN = 4
"""After so many refusals one lets all others ask first: it may be the only one that is too much."""
LOOK_SECONDS = 0.5
"""Whoever waits looks so often what others have done, where there are others."""
MISSED_SECONDS = 0.1
"""So soon it looks again where another process was just writing."""
SPREAD = 0.003
"""So many seconds for each process lie between the first that looks and the last."""


class RequestQueue:
    """The queue of requests to one provider and model."""

    def __init__(self, storage: LimitStorage | None = None) -> None:
        self._storage = storage or LimitStorage()
        self.news = NoticeThrottle()
        self._sent_at = -MINUTE
        self._joined = 0.0
        self._fine_at: deque[float] = deque(maxlen=REMEMBERED)
        """When somebody was answered who had not waited."""
        self._known_until = -MINUTE
        """Until then it is known that the model answers: two were answered in a minute."""
        self._answered_until = -MINUTE
        self._unsent = self._room = 0
        """So many are on their way who did not have to wait and whom no agent sent, and so many may be."""
        self._asking: Counter[int] = Counter()
        """So many of the line are on their way, by the number of pauses before them."""
        self._owed: tuple[Callable[[RateLimitState], object], ...] = ()
        """What others have not heard of yet."""
        self._line: deque[tuple[asyncio.Future[int | None], bool]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def state(self) -> RateLimitState:
        """What is known here."""
        return self._storage.state

    @property
    def words(self) -> str:
        """What is waited for, for a person."""
        now = asyncio.get_running_loop().time()
        waiting = self.state.waiting(now)
        others = "this request is next" if waiting < 2 else f"{waiting} requests in the queue"
        if not self.state.cold:
            return f"waits for the model to answer others first: {others}"
        left = ceil(max(0.0, self.state.next_at(now) - now))
        soon = f"the next is sent in {left} s" if left else "the next is sent when one is answered"
        why = self.state.why.removesuffix(".")
        return f"waits for the model ({why}): {others}, {soon}"

    @property
    def crowded(self) -> bool:
        """Whether somebody waits in line."""
        return self.state.waiting(asyncio.get_running_loop().time()) > 0

    def holds(self, *, sent: bool = False) -> bool:
        """Whether the next one has to wait, if it was sent by an agent or not."""
        now = asyncio.get_running_loop().time()
        if sent:
            self._sent_at = now
        if self._storage.stirred():
            self._tell()
        return self.state.cold or (not sent and self._full(now))

    def turn(self, longest_wait: float, refused: int = 0, *, sent: bool = False) -> "RequestSlot":
        """One's turn to ask; one gives up waiting for it when nobody was answered for so many seconds.

        One that was refused so often in its turn is mostly the next, so that nobody is always too late.
        """
        return RequestSlot(self, longest_wait, first=refused % STUBBORN > 0, sent=sent)

    async def wait(self, longest_wait: float, *, first: bool, sent: bool) -> int | None:
        """Wait in line; the number of pauses before this request, or None where it is unhindered."""
        loop = asyncio.get_running_loop()
        came = loop.time()
        self._tell(lambda state: state.fade(came))
        if not self.holds(sent=sent):
            self.begin(sent=sent)
            return None
        place: asyncio.Future[int | None] = loop.create_future()
        waits = place, sent
        if first:
            self._line.appendleft(waits)
        else:
            self._line.append(waits)
        self._tell()
        try:
            while not place.done() and (left := self._wait_left(came, longest_wait)):
                await asyncio.wait((place,), timeout=left)
        except (asyncio.CancelledError, ProviderError):
            if place.done():
                self.leave(place.result(), sent=sent)
            else:
                self._line.remove(waits)
                self._tell(RateLimitState.give_up)
            raise
        if place.done():
            return place.result()
        self._line.remove(waits)
        self.begin(sent=sent)
        return None

    def _wait_left(self, came: float, longest_wait: float) -> float:
        """How long one that came then goes on waiting, before it looks again; 0 if it goes without a turn."""
        state, now = self.state, asyncio.get_running_loop().time()
        if not state.cold:
            return max(0.0, came + LONGEST_HOLD - now)
        self._sign(state, now)
        left = max(came, state.answered_at) + longest_wait + state.slack - now
        if left <= 0 and not state.asking(now):
            raise ProviderError(state.why, retryable=True, retry_after=state.told or None, limited=True)
        return max(left, 1.0)

    def refuse(self, before: int, pause: float, trouble: ProviderError, took: float) -> None:
        """A request with so many pauses before it was too much: nobody asks for so many seconds."""
        now = asyncio.get_running_loop().time()
        self._tell(lambda state: state.refuse(before, pause, trouble, took, now))

    def answer(self, before: int) -> None:
        """A request from the line, with so many pauses before it, is being answered."""
        now = asyncio.get_running_loop().time()
        self._note(now)
        self._back(before)
        self._tell(lambda state: state.answer(before, now))

    def fine(self, *, sent: bool) -> None:
        """An unhindered request is being answered."""
        now = asyncio.get_running_loop().time()
        self._unsent -= not sent
        self._room += MORE - 1
        self._fine_at.append(now)
        self._note(now)
        if self.state.cold or self._line:
            self._tell(lambda state: state.fine(1))

    def begin(self, *, sent: bool) -> None:
        """An unhindered request leaves."""
        self._unsent += not sent

    def leave(self, before: int | None, *, sent: bool = False) -> None:
        """A request with so many pauses before it, or an unhindered one, makes room for another."""
        if before is not None:
            self._back(before)
        else:
            self._unsent -= not sent
        if before is not None or self._line:
            self._tell()

    def _tell(self, *facts: Callable[[RateLimitState], object]) -> None:
        """Tell the storm what has happened, and let those go whose turn it is.

        What cannot be written down at once is told again when that is possible.
        """
        now = asyncio.get_running_loop().time()
        with self._storage as state:
            owed, self._owed = (
                ((*self._owed, *facts), ()) if self._storage.open else (facts, self._owed + facts)
            )
            self._sign(state, now)
            for fact in owed:
                fact(state)
            self._join(state, now)
            if self._timer is not None:
                self._timer.cancel()
            if self._storage.open or self._storage.alone:
                self._let_go(state, now)
            if self._line or not self._storage.open:
                self._look_again(state, now)

    def _back(self, before: int) -> None:
        """One of the line is no longer on its way."""
        self._asking[before] -= 1
        if not self._asking[before]:
            del self._asking[before]

    def _sign(self, state: RateLimitState, now: float) -> ProcessLoad:
        """Write down who waits and asks here: whatever stood there, this is so."""
        return state.place(self._storage.name, now, len(self._line), self._asking[state.pauses])

    def _let_go(self, state: RateLimitState, now: float) -> None:
        """Let those go whose turn it is."""
        place = self._sign(state, now)
        if self._line and not (state.cold or self._unsent):  # it ended elsewhere while they waited
            self._room = FIRST
        while self._line and not state.cold and self._unsent < self._room:
            first, sent = self._line.popleft()
            first.set_result(None)
            self.begin(sent=sent)
        while self._line and state.cold and (before := state.go(place, now)) is not None:
            self._line.popleft()[0].set_result(before)
            self._asking[before] += 1
            place.waiting = len(self._line)
        place.waiting = len(self._line)
        if not self._line:
            state.rest(now)

    def _look_again(self, state: RateLimitState, now: float) -> None:
        """Have it looked again when the next one may go, and now and then what others have done."""
        wakes = [at] if state.cold and (at := state.next_at(now)) > now else []
        if self._storage.shared:
            apart = SPREAD * len(state.places)
            soon = LOOK_SECONDS if self._storage.open or self._storage.alone else MISSED_SECONDS
            wakes = [at + random.uniform(0.0, apart) for at in wakes]  # noqa: S311 (jitter, no secret)
            wakes.append(now + soon * random.uniform(0.5, 1.0))  # noqa: S311 (jitter, no secret)
        if wakes:
            self._timer = asyncio.get_running_loop().call_at(min(wakes), self._tell)

    def _join(self, state: RateLimitState, now: float) -> None:
        """Tell a storm that is new here how many were answered before it, and whether an agent sent them."""
        if not state.cold:
            return
        if self._sent_at > state.began - MINUTE:
            state.sent()
        if self._joined != state.began:
            self._joined = state.began
            state.fine(sum(at > now - MINUTE for at in self._fine_at))

    def _note(self, now: float) -> None:
        """Somebody is answered: after the second one the model is known to answer for a while."""
        if now < self._answered_until:
            self._known_until = now + MINUTE
        self._answered_until = now + MINUTE

    def _full(self, now: float) -> bool:
        """Whether so many are on their way that the next one waits for what becomes of them."""
        if self._unsent < FIRST:
            return False
        if not self._line:
            self._room = FIRST
            return now > self._known_until
        return self._unsent >= self._room


class RequestSlot:
    """The permission to send one request; every request takes one, so it is a class and no generator."""

    __slots__ = (
        "_before",
        "_first",
        "_left_at",
        "_longest_wait",
        "_on_its_way",
        "_place",
        "_queue",
        "_sent",
        "held",
    )

    def __init__(self, queue: RequestQueue, longest_wait: float, *, first: bool, sent: bool) -> None:
        self._queue = queue
        self._longest_wait = longest_wait
        self._first = first
        self._sent = sent
        self._place: int | None = None
        self._on_its_way = False
        self.held = queue.holds(sent=sent)
        """Whether one has to wait for it."""

    async def __aenter__(self) -> "RequestSlot":
        if not self.held:
            self._queue.begin(sent=self._sent)
            self._leave(None)
        return self

    async def wait(self) -> None:
        """Wait for it, where there is a line."""
        self._leave(await self._queue.wait(self._longest_wait, first=self._first, sent=self._sent))

    def _leave(self, place: int | None) -> None:
        self._place = place
        self._on_its_way = True
        self._before = self._queue.state.pauses if place is None else place
        self._left_at = asyncio.get_running_loop().time()

    async def __aexit__(self, *_: object) -> None:
        if self._on_its_way:
            self._on_its_way = False
            self._queue.leave(self._place, sent=self._sent)

    @property
    def in_line(self) -> bool:
        """Whether it waited for this."""
        return self._on_its_way and self._place is not None

    @property
    def shared(self) -> bool:
        """Whether a refusal of this would be everybody's and not its own.

        A pause began while it was on its way, or nobody was answered since the last one and others wait too.
        """
        state = self._queue.state
        return self._before != state.pauses or (state.refusals > 0 and self._queue.crowded)

    def answered(self) -> None:
        """An answer has begun."""
        self._on_its_way = False
        if self._place is None:
            self._queue.fine(sent=self._sent)
        else:
            self._queue.answer(self._place)

    def refused(self, pause: float, trouble: ProviderError) -> None:
        """It was asked too much: everybody waits so long, unless they have done so since this was asked."""
        took = asyncio.get_running_loop().time() - self._left_at
        self._queue.refuse(self._before, pause, trouble, took)


EVERY_SECONDS = 60.0


class NoticeThrottle:
    """Something that many agents may have to say, such as that they wait: told once in so many seconds."""

    def __init__(self, seconds: float = EVERY_SECONDS) -> None:
        self._seconds = seconds
        self._said_at = -inf

    def due(self) -> bool:
        """Whether a person is to hear it now; then not again for a while."""
        now = asyncio.get_running_loop().time()
        if now < self._said_at + self._seconds:
            return False
        self._said_at = now
        return True
