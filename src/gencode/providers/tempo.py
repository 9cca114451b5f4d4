"""How far apart requests leave after a refusal, learned from what is answered and what is refused.

The first guess is that as many as were answered in the last minute fit into every minute. A pace is kept for
a while, and then requests leave closer and closer until one is refused: the limit lies between the pace at
which answers came and the one at which that happened. What proved right is kept three times as long the next
time. Where going slower does not help, the refusals are not about the pace, and it is forgotten.
"""

MINUTE = 60.0
"""Most limits count by the minute."""
LONGEST_GAP = 60.0
FASTER = 10
"""A pace that was seen in one go is kept for so many answers at most."""
GUESSED = 5
"""One that was only guessed, for so many."""
SURER = 3
MOST_SURE = 640
SLOWER = 1.1
"""So much slower than answers came requests leave, if they left too fast before."""
VAIN = 2
"""If a slower pace is refused as soon so many times in a row, pace is not what it is about."""
STEP = 4
"""So many times longer than anything that was waited for a gap may become at once.

More than that is no limit, but a machine that stood still for a moment.
"""


class Tempo:
    """The pace of one provider and model."""

    def __init__(self) -> None:
        self.gap = 0.0
        """So many seconds lie between two requests."""
        self._fine = 0
        self._fine_from = 0.0
        self.begin(0.0, counted=False)

    @property
    def blind(self) -> bool:
        """Whether nobody was answered since the first refusal."""
        return not self._waited

    def fine(self, now: float) -> None:
        """Somebody was answered who did not have to wait."""
        if now > self._fine_from + MINUTE:
            self._fine, self._fine_from = 0, now
        self._fine += 1

    def begin(self, now: float, *, counted: bool) -> None:
        """Something was refused for the first time: our requests are `counted`, or it has another reason."""
        self._counted = counted
        self._began = self._refused_at = now
        self._waited = 0.0
        self._vain = 0
        self._keep(0.0, 1)
        self.measure(now)

    def measure(self, now: float) -> None:
        """How fast answers came is counted anew: it says nothing where nobody waits for one."""
        self._measured_from, self._answers = now, 0

    def answered(self, now: float) -> None:
        """Somebody was answered who had waited."""
        self._answers += 1
        self._kept += 1
        if self.blind:
            self._waited = now - self._began
            if self._counted and self._fine > 1:
                self._guess(MINUTE / self._fine)
        else:
            self.gap = self._pace * min(1.0, self._sure / self._kept)

    def refused(self, now: float, pause: float) -> None:
        """A request at this pace was too much, and everybody pauses for so many seconds."""
        self._refused_at = now
        if not self._answers:
            return
        took = (now - self._measured_from) / self._answers
        most = STEP * max(pause, self._pace or self._waited)
        if self._kept >= self._sure:
            self._vain = 0
            sure = min(MOST_SURE, max(SURER * self._sure, min(FASTER, self._answers)))
            pace = (took + (self.gap or took)) / 2
        else:
            self._vain += took <= most
            sure, pace = self._sure, SLOWER * took
        if self._vain == VAIN:
            self._vain, sure, pace = 0, 1, 0.0
        self._keep(min(pace, most, LONGEST_GAP), sure)
        self.measure(now)

    def _guess(self, minute: float) -> None:
        """The pace after the first answer: what the minute says, if it was seen to be as slow as that."""
        if self._refused_at - self._began >= minute / 2:
            self._keep(minute, min(self._fine, GUESSED))
        else:
            self._keep(min(self._waited, minute) / 2, 1)

    def _keep(self, pace: float, sure: int) -> None:
        """Let requests leave at this pace for so many answers, and then closer and closer."""
        self.gap = self._pace = pace
        self._sure = sure
        self._kept = 0
