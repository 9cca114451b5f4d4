"""The pace of requests after a refusal, learned from what is answered and what is refused.

The first guess is that as many as were answered in the last minute fit into every minute. A pace is kept for
a while, and then requests leave closer and closer until one is refused: the limit lies between the pace at
which answers came and the one at which that happened. What proved right is kept three times as long the next
time. Where going slower does not help, the refusals are not about the pace, and it is forgotten.

The fewer refusals are left that a crowd can afford (`RefusalBudget`), the more carefully this is done: the
last one is risked after two minutes that went well, and after it requests leave as slowly as is safe.
"""

from math import ceil

from msgspec import Struct, field

MINUTE = 60.0
"""Most limits count by the minute."""
SHORTEST = 0.1
LONGEST_GAP = 90.0
SILENT = 75.0
"""If one was refused after so many seconds without an answer, it is no limit by the minute."""
FASTER = 10
"""A pace that was seen in one go is kept for so many answers at most."""
GUESSED = 5
"""One that was only guessed, for so many."""
SURER = 3
MOST_SURE = 640
MARGIN = 1.02
"""A minute is as much longer, because not every request takes the same time to arrive."""
SLOWER = 1.1
"""So much slower than answers came requests leave, if they left too fast before."""
SAFE = 1.5
"""So much slower they leave if none may be refused: three minutes of a limit may begin in two."""
VAIN = 2
"""If a slower pace is refused as soon so many times in a row, pace is not what it is about."""
STEP = 4
"""So many times longer than anything that was waited for a gap may become at once.

More than that is no limit, but a machine that stood still for a moment.
"""
FEW = 4
"""If fewer refusals are left, the pace is guessed even where nothing is known."""
REMEMBERED = 1000
"""So many answers are remembered: more are no slow limit."""


class RequestPace(Struct):
    """The pace of requests to one provider and model."""

    gap: float = 0.0
    """So many seconds lie between two requests."""
    limited: bool = False
    """Whether it could be a limit by the minute: nothing else was refused for as long as that."""
    began: float = 0.0
    _counted: bool = False
    _refused_at: float = 0.0
    _waited: float = 0.0
    _good: float = 0.0
    _vain: int = 0
    _wild: bool = False
    """Whether the pace is guessed although nothing speaks for it."""
    _pace: float = 0.0
    _sure: int = 1
    _kept: int = 0
    _measured_from: float = 0.0
    _answers: int = 0
    _last: list[float] = field(default_factory=list[float])

    @property
    def blind(self) -> bool:
        """Whether nobody was answered since the first refusal."""
        return not self._waited

    def begin(self, now: float, *, counted: bool) -> None:
        """Something was refused for the first time: our requests are `counted`, or it has another reason."""
        self._counted = self.limited = counted
        self.began = self._refused_at = now
        self._waited = self._good = 0.0
        self._vain = 0
        self._wild = False
        self._keep(0.0, 1)
        self.measure(now)

    def measure(self, now: float) -> None:
        """How fast answers came is counted anew: it says nothing where nobody waits for one."""
        self._measured_from, self._answers = now, 0

    def answered(self, now: float, fine: int, left: int) -> None:
        """Somebody was answered who had waited, after so many who had not; so many refusals are left."""
        self._answers += 1
        self._last = [*self._last[-REMEMBERED:], now]
        self._good = self.gap  # with this one somebody was answered
        if self.blind:
            self._waited = now - self.began
            self.limited = self._refused_at - self.began <= MINUTE
            if self._counted and self.limited:
                self._guess(fine, left)
        elif self._wild and left >= FEW:
            self._keep(0.0, 1)
        elif left >= 0 or self._wild:
            self._kept += 1
            bold = 1 if left > 0 else 2
            self.gap = self._pace * min(1.0, self._sure / self._kept) ** bold

    def refused(self, now: float, pause: float, left: int, told: float) -> None:
        """A request at this pace was too much, everybody pauses for so many seconds, and so many are left.

        The server has `told` how many seconds to wait, or 0.
        """
        self._refused_at = now
        if self.blind:
            return
        if now - self._last[-1] > SILENT:
            self._keep(0.0, 1)
        elif left < 1:
            self._be_careful(now, left, told)
        elif self._answers:
            self._learn(now, pause)
        self._wild = False

    def _learn(self, now: float, pause: float) -> None:
        """Look for the pace between that of the answers and the one that was refused."""
        took = (now - self._measured_from) / self._answers
        most = STEP * max(pause, self._pace or self._waited)
        if self._kept >= self._sure:
            self._vain = 0
            sure = min(MOST_SURE, max(SURER * self._sure, min(FASTER, self._answers)))
            pace = (took + (self.gap or took)) / 2
        else:
            self._vain += 1
            sure, pace = self._sure, SLOWER * took
        if self._vain == VAIN:
            self._vain, sure, pace = 0, 1, 0.0
        self._keep(min(pace, most, LONGEST_GAP), sure)
        self.measure(now)

    def _be_careful(self, now: float, left: int, told: float) -> None:
        """Take the pace that is likely right if one more may be refused, and a safe one if none may be."""
        since = min(max(now - self.began - self._waited, MINUTE), 2 * MINUTE)
        seen = SAFE * since / max(1, sum(at > now - since for at in self._last))
        if told:
            seen = min(seen, (SAFE if left < 0 else MARGIN) * (self.gap + told))
        if left == 0:
            pace = max(2 * MARGIN * self.gap, MARGIN * self._good) or seen
            pace = min(pace, seen) if told else pace
        elif self._kept * self._pace >= 2 * MINUTE and not self._wild:
            pace = max(SLOWER, MARGIN * (1 + 1 / self._kept)) * self._pace
        else:
            pace = max(seen, 2 * MARGIN * self.gap, SLOWER * (self._good if self._wild else self._pace))
        self._keep(min(pace, LONGEST_GAP), min(MOST_SURE, ceil(2 * MINUTE / max(pace, SHORTEST))))
        self.measure(now)

    def _guess(self, fine: int, left: int) -> None:
        """The pace after the first answer: what the minute says, if it was seen to be as slow as that."""
        if fine < 2 and left >= FEW:
            return
        self._wild = fine < 2
        minute = MARGIN * MINUTE / max(fine, 1)
        if fine > 1 and self._refused_at - self.began >= minute / 2:
            self._keep(minute, min(fine, GUESSED))
        else:
            self._keep(min(self._waited, minute) / 2, 1)

    def _keep(self, pace: float, sure: int) -> None:
        """Let requests leave at this pace for so many answers, and then closer and closer."""
        self.gap = self._pace = pace
        self._sure = sure
        self._kept = 0
