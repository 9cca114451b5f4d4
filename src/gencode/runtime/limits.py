"""How long a run may go on."""

from msgspec import Struct

GRACE = (
    "You have used {turns} of {turns} turns of this task and no tool can be called any more. "
    "Answer now with what you have found, and say what is still open."
)


class Limits(Struct, frozen=True):
    """Bounds of one run; None means none."""

    turns: int | None = None
    seconds: float | None = None
    until: float | None = None
    """The moment at which all above it have to end, where it ends with them."""

    def reached(self, turns: int) -> bool:
        """Whether no further ordinary turn may start after this many."""
        return self.turns is not None and turns >= self.turns

    def last_word(self) -> str:
        """What the agent is told before its one turn without tools."""
        return GRACE.format(turns=self.turns)

    def reached_words(self) -> str:
        """Why the run ended when no further turn might start."""
        return f"the limit of {self.turns} {'turn' if self.turns == 1 else 'turns'} was reached"
