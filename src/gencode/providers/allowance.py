"""How many more refusals a crowd can afford: in the end there are to be no more of them than answers.

Everybody who waits will be answered once, and so that counts already. What is left decides how long one waits
before the first answer, and whether it is tried to ask faster than what is known to be right.
"""

from msgspec import Struct

from gencode.providers.request_pacing import MARGIN, MINUTE

SMALL = 32
"""A crowd that is smaller may be refused more often, by as many as it is smaller: others come after it."""
LAST = 165.0
"""If a minute does not help, one tries once more after so many seconds: soon after it one gives up."""
IN_VAIN = -2
"""If so few are left, to be careful was of no use."""


class RefusalBudget(Struct):
    """What is left of it, for one provider and model."""

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
