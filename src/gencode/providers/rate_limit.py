"""The rate limit of one model, learned from its refusals: additive increase, multiplicative decrease.

After a refusal all requests pause: as long as the provider asks (Retry-After), or else with exponential
backoff. Then one request probes. Once it is answered, requests are sent in slow start: two answers allow
three more requests, until the next refusal shows how fast answers came. From then on requests are sent a
little slower than that, and after some answers a little faster with each one, until the next refusal. The
state is only numbers, so processes can share it.
"""

from collections.abc import Sequence

from msgspec import Struct

from gencode.core.errors import ProviderError

CALM = 60.0
"""The state is dropped so long after the last pause if no request waits: most limits count by minutes."""
STALL = 30.0
"""In slow start one more request is sent after this time: the process of the last one may have died."""
SLOWER = 1.1
"""After a refusal, requests are sent slower than answers came, by this factor."""
KEPT = 10
"""A pace is kept for as many answers as it was measured over, but for at most this many."""
VAIN = 2
"""If a slower pace is refused just as soon this often in a row, the limit does not depend on the pace."""
SURE = 19
"""A pace that was measured over this many answers is taken as exact."""
SHORTEST = 0.01
LONGEST = 90.0
"""The shortest and the longest time between two requests."""
PROBE = 8
"""The first pause after a refusal is at least the time between two requests divided by this."""


class RateLimit(Struct):
    """What is known of the rate limit of one provider and model."""

    boot: str = ""
    """The boot id of the machine, which its times belong to."""
    active: bool = False
    """Whether a request was refused lately."""
    pauses: int = 0
    refusals: int = 0
    """How many pauses there were in a row without an answer in between."""
    answered_at: float = 0.0
    why: str = ""
    told: float = 0.0
    """How many seconds the provider asked to wait, or 0."""
    gap: float = 0.0
    """The seconds between two requests; 0 in slow start."""
    calm: float = CALM
    _resumes_at: float = 0.0
    _next_at: float = 0.0
    _free: int = 0
    """How many requests may be sent at once in slow start."""
    _forgotten_at: float = 0.0
    _measured_from: float = 0.0
    _answers: int = 0
    _sure: int = 1
    """How many answers the pace was measured over."""
    _step: float = 0.0
    """How many requests a second the pace grows by with each answer."""
    _kept: int = 0
    _vain: int = 0

    def fade(self, now: float) -> None:
        """Drop the state when nothing was refused for a while."""
        if self.active and now > self._forgotten_at:
            self.active = False

    def next_at(self) -> float:
        """When the next request may be sent if no answer comes before."""
        return max(self._resumes_at, self._next_at)

    def take(self, now: float, waiting: int) -> int | None:
        """Send the first of `waiting` requests, if it may go now: the number of pauses before it."""
        if now < self.next_at():
            return None
        self._free = max(0, self._free - 1)
        if self.gap and not self.refusals:
            self._next_at = now + self.gap
        else:
            self._next_at = now if self._free else now + STALL
        if waiting > 1:
            self._forgotten_at = max(self._forgotten_at, self.next_at() + self.calm)
        return self.pauses

    def give_back(self, before: int, now: float) -> None:
        """A request was stopped, or failed for another reason; `before` is the number of pauses before it."""
        if before == self.pauses and (self.refusals or not self.gap):
            self._free += 1
            self._next_at = now

    def answer(self, before: int, now: float) -> None:
        """A request is being answered; `before` is the number of pauses before it."""
        self.answered_at = now
        self._answers += 1
        if before != self.pauses:
            return
        if self.gap:
            self._kept += not self.refusals
            if self._kept > min(self._sure, KEPT):
                self.gap = 1 / (1 / self.gap + self._step)
            if self.gap < SHORTEST:
                self.gap = 0.0
            if self.refusals:
                self._next_at = now + self.gap
        else:
            self._free += 1 + self._answers % 2
            self._next_at = now
        self.refusals = 0

    def refuse(
        self, before: int, pause: float, trouble: ProviderError, now: float, recent: Sequence[float] = ()
    ) -> None:
        """A request was refused as one too many: all pause for this many seconds.

        A refusal tells nothing new if a pause began after the request was sent. `recent` are the times of
        answers in the last minute to requests that did not wait.
        """
        if before != self.pauses:
            return
        if not self.active:
            self.active, self.gap, self.refusals, self._vain = True, 0.0, 0, 0
            self._measured_from, self._answers = min(recent, default=now), len(recent)
        elif not self.refusals and not trouble.overloaded:
            self._slow_down(now)
        self.why, self.told = str(trouble), trouble.retry_after or 0.0
        self.pauses += 1
        self.refusals += 1
        self._free, self._next_at = 1, 0.0
        self._resumes_at = now + max(pause, self.gap / PROBE)
        self._forgotten_at = self._resumes_at + self.calm

    def _slow_down(self, now: float) -> None:
        """Set a pace slower than that of the answers since the last refusals in a row."""
        answers = max(1, self._answers)
        self._vain = self._vain + 1 if self.gap and answers <= self._sure < KEPT else 0
        self.gap = min(SLOWER * (now - self._measured_from) / answers, LONGEST)
        if self._vain == VAIN:
            self.gap, self._vain = 0.0, 0
        self._sure = answers
        self._step = 1 / (min(answers, SURE) * self.gap) if self.gap else 0.0
        self._kept = self._answers = 0
        self._measured_from = now
