"""The queue of requests to one provider and model, for all agents of a process.

Until something is refused it costs nothing, with one exception: of a crowd at a model that has not answered
lately only some ask first, so that not all are refused together. After a refusal, requests wait in the queue
and are sent when the rate limit, which all processes share, allows it.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from math import ceil, inf

from gencode.core.errors import ProviderError
from gencode.providers.rate_limit import RateLimit
from gencode.providers.shared_limit_file import LimitStorage

FIRST = 24
"""How many requests are sent at once where fewer than two were answered in the last minute."""
MORE = 2
"""How many of the waiting requests are then sent for each answer."""
REFUSAL_SECONDS = 0.15
"""After this time without an answer no request is held back: refusals come faster than answers."""
LONGEST_HOLD = 15.0
"""The same where some requests were answered."""
KNOWN_SECONDS = 60.0
MOST_REMEMBERED = 1_000
STUBBORN = 4
"""After this many refusals a request lets all others go first: only this one may be too large."""
SLACK = 3
"""Waiting is allowed for longer by this many times the pause between two requests."""
LOOK_SECONDS = 0.5
"""How often a waiting request checks what other processes have done."""
PATIENT = 4
"""A pause lasts at least this many times as long as the refusal took: another would take as long."""
LONGEST_PATIENCE = 75.0
NOTICE_SECONDS = 60.0


class RequestQueue:
    """The queue of requests to one provider and model."""

    def __init__(self, storage: LimitStorage | None = None) -> None:
        self._storage = storage or LimitStorage()
        self.news = NoticeThrottle()
        self._answered_at: deque[float] = deque((-inf, -inf), MOST_REMEMBERED)
        """When requests were answered; two in the last minute show that the model answers."""
        self._asking = 0
        """How many requests are in flight that did not have to wait for a refusal."""
        self._room = 0
        self._began = 0.0
        """When the first of the requests in flight was sent."""
        self._line: deque[asyncio.Future[int | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def state(self) -> RateLimit:
        """What is known about the rate limit here."""
        return self._storage.state

    @property
    def words(self) -> str:
        """What is waited for, for a person."""
        waiting = len(self._line)
        others = "this request is next" if waiting < 2 else f"{waiting} requests in the queue"
        if not self.state.active:
            return f"waits for the model to answer others first: {others}"
        left = ceil(max(0.0, self.state.next_at() - _now()))
        soon = f"the next is sent in {left} s" if left else "the next is sent when one is answered"
        return f"waits for the model ({self.state.why.removesuffix('.')}): {others}, {soon}"

    @property
    def crowded(self) -> bool:
        """Whether any request waits in the queue."""
        return bool(self._line)

    def holds(self) -> bool:
        """Whether the next request has to wait."""
        if self._storage.stirred():
            self._tell()
        return self.state.active or self._full()

    def turn(self, longest_wait: float, refused: int = 0) -> "RequestSlot":
        """A slot for one request; waiting for it ends when nothing was answered for this many seconds.

        A request that was refused in its slot mostly goes next, so that none is always too late.
        """
        return RequestSlot(self, longest_wait, first=refused % STUBBORN > 0)

    async def wait(self, longest_wait: float, *, first: bool) -> int | None:
        """Wait in the queue; the number of pauses before this request, or None where nothing limits it."""
        came = _now()
        place: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        if first:
            self._line.appendleft(place)
        else:
            self._line.append(place)
        self._tell(lambda state: state.fade(came))
        try:
            while not place.done() and (left := self._wait_left(came, longest_wait)):
                await asyncio.wait((place,), timeout=left)
        except (asyncio.CancelledError, ProviderError):
            if place.done():
                self.leave(place.result())
            else:
                self._line.remove(place)
            raise
        if place.done():
            return place.result()
        self._line.remove(place)
        self.begin()
        return None

    def _wait_left(self, came: float, longest_wait: float) -> float:
        """How long a request that came then waits before it checks again; 0 if it goes without a slot."""
        state, now = self.state, _now()
        if not state.active:
            return max(0.0, (came + LONGEST_HOLD if self._some_answered() else self._sure_at()) - now)
        left = max(came, state.answered_at) + longest_wait + SLACK * state.gap - now
        if left <= 0:
            raise ProviderError(state.why, retryable=True, retry_after=state.told or None, limited=True)
        return max(left, 1.0)

    def refuse(self, before: int, pause: float, trouble: ProviderError, took: float) -> None:
        """A request was refused as one too many: all pause for this many seconds."""
        now = _now()
        pause = max(pause, min(PATIENT * took, LONGEST_PATIENCE))
        recent = [at for at in self._answered_at if at > now - KNOWN_SECONDS]
        self._tell(lambda state: state.refuse(before, pause, trouble, now, recent))

    def answer(self, before: int | None) -> None:
        """A request is being answered; `before` is the number of pauses before it if it was queued."""
        now = _now()
        self._answered_at.append(now)
        if before is not None:
            self._tell(lambda state: state.answer(before, now))
            return
        self._room += MORE - 1
        self.leave(None)

    def begin(self) -> None:
        """A request that did not have to wait is sent."""
        if not self._asking:
            self._began = _now()
        self._asking += 1

    def leave(self, before: int | None) -> None:
        """A request is no longer in flight; `before` is the number of pauses before it if it was queued."""
        if before is not None:
            now = _now()
            self._tell(lambda state: state.give_back(before, now))
            return
        self._asking -= 1
        if self._line:
            self._tell()

    def _full(self) -> bool:
        """Whether so many requests are in flight that the next one waits for their answers."""
        if self._asking < FIRST or (not self._some_answered() and _now() >= self._sure_at()):
            return False
        if not self._line:
            self._room = FIRST
            return self._answered_at[-2] < _now() - KNOWN_SECONDS
        return self._asking >= self._room

    def _some_answered(self) -> bool:
        """Whether anything was answered since the first request in flight was sent."""
        return self._answered_at[-1] >= self._began

    def _sure_at(self) -> float:
        """By when a request in flight would have been refused."""
        return self._began + REFUSAL_SECONDS

    def _tell(self, *facts: Callable[[RateLimit], object]) -> None:
        """Report what happened to the rate limit, and send the requests that may go now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = _now()
        with self._storage as state:
            for fact in facts:
                fact(state)
            if state.active and (self._storage.open or self._storage.alone):
                self._take(state, now)
        while self._line and not state.active and self._asking < max(self._room, 1):
            self._line.popleft().set_result(None)
            self.begin()
        if self._line:
            self._look_again(state, now)

    def _take(self, state: RateLimit, now: float) -> None:
        """Send the requests that may go now."""
        while self._line and (before := state.take(now, len(self._line))) is not None:
            self._line.popleft().set_result(before)

    def _look_again(self, state: RateLimit, now: float) -> None:
        """Schedule the next check: when the next request may go, and regularly for other processes."""
        wakes = [at] if state.active and (at := state.next_at()) > now else []
        if self._storage.shared:
            wakes.append(now + LOOK_SECONDS * random.uniform(0.5, 1.0))  # noqa: S311 (jitter, no secret)
        if wakes:
            self._timer = asyncio.get_running_loop().call_at(min(wakes), self._tell)


class RequestSlot:
    """The permission to send one request; every request takes one, so it is a class and no generator."""

    __slots__ = ("_before", "_first", "_left_at", "_longest_wait", "_on_its_way", "_place", "_queue", "held")

    def __init__(self, queue: RequestQueue, longest_wait: float, *, first: bool) -> None:
        self._queue = queue
        self._longest_wait = longest_wait
        self._first = first
        self._place: int | None = None
        self._on_its_way = False
        self.held = queue.holds()
        """Whether its request has to wait."""

    async def __aenter__(self) -> "RequestSlot":
        if not self.held:
            self._queue.begin()
            self._leave(None)
        return self

    async def wait(self) -> None:
        """Wait until the request may be sent, if there is a queue."""
        self._leave(await self._queue.wait(self._longest_wait, first=self._first))

    def _leave(self, place: int | None) -> None:
        self._place = place
        self._on_its_way = True
        self._before = self._queue.state.pauses if place is None else place
        self._left_at = _now()

    async def __aexit__(self, *_: object) -> None:
        if self._on_its_way:
            self._on_its_way = False
            self._queue.leave(self._place)

    @property
    def in_line(self) -> bool:
        """Whether the request waited in the queue."""
        return self._on_its_way and self._place is not None

    @property
    def shared(self) -> bool:
        """Whether a refusal concerns all requests and not only this one.

        That is so if a pause began while it was in flight, or if nothing was answered since the last pause
        and others wait too.
        """
        state = self._queue.state
        return self._before != state.pauses or (state.refusals > 0 and self._queue.crowded)

    def answered(self) -> None:
        """The first part of the answer has arrived."""
        self._on_its_way = False
        self._queue.answer(self._place)

    def refused(self, pause: float, trouble: ProviderError) -> None:
        """The request was one too many: all pause this long, unless they have done so since it was sent."""
        self._queue.refuse(self._before, pause, trouble, _now() - self._left_at)


class NoticeThrottle:
    """Limits a message that many agents may give, such as that they wait, to one in so many seconds."""

    def __init__(self, seconds: float = NOTICE_SECONDS) -> None:
        self._seconds = seconds
        self._said_at = -inf

    def due(self) -> bool:
        """Whether the message is to be shown now; then not again for a while."""
        now = _now()
        if now < self._said_at + self._seconds:
            return False
        self._said_at = now
        return True


def _now() -> float:
    return asyncio.get_running_loop().time()
