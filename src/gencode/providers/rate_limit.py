"""The rate limit of one model, learned from its refusals: when the next request may leave, and how many.

After "too many requests" nobody asks until the pause is over. The provider says how long it is, or else the
`RefusalBudget`: the more requests wait and the fewer were answered, the longer. Then one request leaves, and
each answer lets one more leave at the same time, at a `RequestPace` that is learned on the way. The state is
nothing but numbers, so that processes can share it.
"""

from msgspec import Struct, field

from gencode.core.errors import ProviderError
from gencode.providers.request_pacing import LONGEST_GAP, MARGIN, MINUTE, RequestPace

SMALL = 32
"""A crowd that is smaller may be refused more often, by as many as it is smaller: others come after it."""
LAST = 165.0
"""If a minute does not help, one tries once more after so many seconds: soon after it one gives up."""
IN_VAIN = -2
"""If so few are left, to be careful was of no use."""


class RefusalBudget(Struct):
    """How many more refusals one model may give: in the end never more than answers.

    Whoever waits will be answered once, so that counts already. What is left decides how long one waits
    before the first answer, and whether it is tried to ask faster than what is known to be right.
    """

    fine: int = 0
    """So many were answered without having to wait, from a minute before the first refusal on."""
    sent: bool = False
    """Whether one of them was sent by an agent, which asks again when it has its result."""
    spent: int = 0
    crowd: int = 0

    def begin(self) -> None:
        """Something is refused for the first time, or whatever was tried did not help."""
        self.fine = 0
        self.sent = False
        self.spent = 1
        self.crowd = 0

    def left(self, waiting: int) -> int:
        """So many more may be refused after the next one, while so many wait for an answer.

        Who sent them is answered twice at least, before and after, if perhaps by another model.
        """
        self.crowd = max(self.crowd, waiting)
        before = max(1, self.fine - 1) if self.sent else self.fine - 1
        return before + waiting - self.spent + max(0, SMALL - self.crowd)

    def pause(self, left: int, silent: float) -> float:
        """How long to wait after so many seconds without an answer.

        If each wait is twice as long as the one before, what is left lasts until a minute is over.
        """
        until = MARGIN * MINUTE if silent < MINUTE else LAST
        return (until - silent) / (2 ** (min(max(left, 0), 60) + 1) - 1)


CALM = MINUTE
"""So many seconds after a refusal it is forgotten."""
LONGEST_APART = 15.0
"""Nobody waits longer for another one's refusal."""
LIE = 3.0
SLACK = 3
"""One is more patient by so many gaps between requests: some of them may fail for other reasons."""
ABSENT = 15.0
"""Those who wait in a process that gives no sign for so many seconds do not count: it hangs, or is gone."""
SLOW = 60.0
"""Nor do those who ask there, after so many: while nobody waits, a process has no reason for a sign."""


COMPANY = 4
"""Where several programs ask, so many more may be refused: none knows how many the others send at first.

Without them a limit that refuses all but one of those would be met as slowly as is safe until the end.
"""


class ProcessLoad(Struct):
    """The load of one process: how many requests wait, and how many it sent since which pause."""

    waiting: int = 0
    asking: int = 0
    since: int = 0
    seen_at: float = 0.0


class RateLimitState(Struct):
    """The rate limit state of one provider and model: refusals, and what was learned from them."""

    boot: str = ""
    """In which run of the machine its times count."""
    cold: bool = False
    began: float = 0.0
    pauses: int = 0
    refusals: int = 0
    """How many pauses there were in a row without an answer in between."""
    answered_at: float = 0.0
    why: str = ""
    told: float = 0.0
    """So many seconds the provider asked to wait, or 0."""
    _lies: int = 0
    places: dict[str, ProcessLoad] = field(default_factory=dict[str, ProcessLoad])
    _request_pace: RequestPace = field(default_factory=RequestPace)
    _refusal_budget: RefusalBudget = field(default_factory=RefusalBudget)
    calm: float = CALM
    _forgotten_at: float = 0.0
    _paused_at: float = 0.0
    _pause: float = 0.0
    _left_at: float = 0.0
    _apart: float = 0.0
    """Seconds in which a refusal would be known: if two cannot be afforded, the second waits for them."""
    _most: int = 1

    def place(self, name: str, now: float, waiting: int, asking: int) -> ProcessLoad:
        """That of one process, in which so many wait now and so many have asked since the last pause."""
        self.places[name] = place = ProcessLoad(waiting, asking, self.pauses, now)
        return place

    def fade(self, now: float) -> None:
        """Forget this where nothing was refused for a while and nobody waits."""
        if self.cold and now > max(self._forgotten_at, self.next_at(now)):
            self.cold = self.waiting(now) > 0

    def fine(self, many: int) -> None:
        """So many were answered who did not have to wait."""
        self._refusal_budget.fine += many

    def sent(self) -> None:
        """Some of those who ask were sent by an agent."""
        self._refusal_budget.sent = True

    def refuse(self, before: int, pause: float, trouble: ProviderError, took: float, now: float) -> bool:
        """A request with so many pauses before it was too much: nobody asks for so many seconds.

        It says nothing new if a pause began while it was on its way. Whether a storm begins with it.
        """
        self._refusal_budget.spent += 1
        self._apart = min(self._apart, 2 * took)
        if before != self.pauses:
            return False
        anew = not self.cold or self._spare(now) < IN_VAIN
        if anew:
            self._refusal_budget.begin()
            self._request_pace.begin(now, counted=not (self.cold or trouble.overloaded))
            self.cold, self.refusals, self._apart = True, 0, min(2 * took, LONGEST_APART)
            self.began, self._lies = now, 0
        self._lies += self.refusals > 0 and self.told > 0  # one asked when it was told to
        self.why, self.told = str(trouble), trouble.retry_after or 0.0
        if not anew:
            spare = self._spare(now)
            self._request_pace.refused(
                now, pause, spare, self.told * LIE**self._lies if spare < 0 else self.told
            )
        self.pauses += 1
        self.refusals += 1
        self._most = 1
        longer = min(self._request_pace.gap * 2 ** min(self.refusals - 1, 60), LONGEST_GAP)
        self._paused_at, self._pause = now, max(pause, longer)
        self._forgotten_at = self.next_at(now) + self.calm
        return anew

    def go(self, place: ProcessLoad, now: float) -> int | None:
        """Let one of a process ask, if it may: the number of pauses before it."""
        if self.asking(now) >= self._together(now) or self.next_at(now) > now:
            return None
        place.asking += 1
        self._left_at = now
        return self.pauses

    def answer(self, before: int, now: float) -> None:
        """A request from the line, with so many pauses before it, is being answered."""
        self.answered_at = now
        if before == self.pauses:
            self.refusals = 0
            self._most += 1
        self._refusal_budget.spent -= 1
        self._request_pace.answered(now, self._refusal_budget.fine, self._spare(now))

    def give_up(self) -> None:
        """Somebody in line waits no more."""
        self._refusal_budget.spent -= 1

    def rest(self, now: float) -> None:
        """Nobody waits: how fast answers come says nothing."""
        if not self.waiting(now):
            self._request_pace.measure(now)

    def waiting(self, now: float) -> int:
        """How many wait in line, in all processes."""
        return sum(each.waiting for each in self.places.values() if each.seen_at > now - ABSENT)

    def asking(self, now: float) -> int:
        """How many of the line ask since the last pause."""
        here = (each for each in self.places.values() if each.seen_at > now - SLOW)
        return sum(each.asking for each in here if each.since == self.pauses)

    @property
    def slack(self) -> float:
        """So many seconds one is more patient, because requests leave slowly."""
        return SLACK * self._request_pace.gap

    def next_at(self, now: float) -> float:
        """When the next one may ask: after the pause, and not too soon after the last one."""
        pause, spare = self._pause, self._spare(now)
        told = self.told and self.refusals < 2 and spare >= 0
        silent = self._paused_at - max(self._request_pace.began, self.answered_at)
        in_a_row = self.refusals > (spare >= 0) and silent < MINUTE
        if (self._request_pace.blind or in_a_row) and not told:
            crowded = 2 * pause * max(self.waiting(now), 1)
            pause = max(pause, min(crowded, self._refusal_budget.pause(spare, silent)))
        gap = max(self._request_pace.gap, self._apart if 0 < self.asking(now) >= spare else 0.0)
        return max(self._paused_at + pause, self._left_at + gap)

    def _together(self, now: float) -> int:
        """So many may ask at the same time: one, if none may be refused any more."""
        return 1 if self._spare(now) < 0 and self._request_pace.limited else self._most

    def _spare(self, now: float) -> int:
        """So many more may be refused, without more refusals than answers in the end."""
        company = COMPANY if len(self.places) > 1 and not self._refusal_budget.sent else 0
        return self._refusal_budget.left(self.waiting(now) + self.asking(now)) + company
