"""How many more refusals a crowd can afford: in the end there are to be no more of them than answers.

Everybody who waits will be answered once, and so that counts already. What is left decides how long one waits
before the first answer, and whether it is tried to ask faster than what is known to be right.
"""

from collections import deque

from gencode.providers.tempo import MARGIN, MINUTE, REMEMBERED

SMALL = 32
"""A crowd that is smaller may be refused more often, by as many as it is smaller: others come after it."""
LAST = 165.0
"""If a minute does not help, one tries once more after so many seconds: soon after it one gives up."""
IN_VAIN = -2
"""If so few are left, to be careful was of no use."""


class Allowance:
    """What is left of it, for one provider and model."""

    def __init__(self) -> None:
        self.fine = 0
        """So many were answered without having to wait, from a minute before the first refusal on."""
        self._last: deque[float] = deque(maxlen=REMEMBERED)
        self._spent = self._crowd = 0
        self._since = self._sent_at = 0.0

    def begin(self, now: float) -> None:
        """Something is refused for the first time, or whatever was tried did not help."""
        self.fine = sum(at > now - MINUTE for at in self._last)
        self._since = now - MINUTE
        self._spent = 1
        self._crowd = 0

    def unhindered(self, now: float) -> None:
        """Somebody was answered who did not have to wait."""
        self.fine += 1
        self._last.append(now)

    def unknown(self, now: float) -> bool:
        """Whether fewer than two were answered lately."""
        return len(self._last) < 2 or self._last[-2] <= now - MINUTE

    def sent(self, now: float) -> None:
        """One asks who was sent by an agent: that asks again when it has its result."""
        self._sent_at = now

    def refused(self) -> None:
        """Somebody was refused."""
        self._spent += 1

    def returned(self) -> None:
        """Somebody who was refused is answered, or waits no more."""
        self._spent -= 1

    def left(self, waiting: int) -> int:
        """So many more may be refused after the next one, while so many wait for an answer.

        Who sent them is answered twice at least, before and after, if perhaps by another model.
        """
        self._crowd = max(self._crowd, waiting)
        before = max(1, self.fine - 1) if self._sent_at > self._since else self.fine - 1
        return before + waiting - self._spent + max(0, SMALL - self._crowd)

    def pause(self, left: int, silent: float) -> float:
        """How long to wait after so many seconds without an answer.

        If each wait is twice as long as the one before, what is left lasts until a minute is over.
        """
        until = MARGIN * MINUTE if silent < MINUTE else LAST
        return (until - silent) / (2 ** (min(max(left, 0), 60) + 1) - 1)
