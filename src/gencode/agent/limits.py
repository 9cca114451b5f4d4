"""How many turns a run may take; its time is a deadline (delegation)."""

from msgspec import Struct

GRACE = (
    "You have used {turns} of {turns} turns of this task and no tool can be called any more. "
    "Answer now with what you have found, and say what is still open."
)


class RunLimits(Struct, frozen=True, gc=False):
    """Bounds of one run; None means none."""

    turns: int | None = None
    commands: float | None = None
    """So long it waits for its background commands when it has answered; None: as the settings say."""

    def reached(self, turns: int) -> bool:
        """Whether no further ordinary turn may start after this many."""
        return self.turns is not None and turns >= self.turns

    def last_word(self) -> str:
        """What the agent is told before its one turn without tools."""
        return GRACE.format(turns=self.turns)

    def reached_words(self) -> str:
        """Why the run ended when no further turn might start."""
        return f"the limit of {self.turns} {'turn' if self.turns == 1 else 'turns'} was reached"
