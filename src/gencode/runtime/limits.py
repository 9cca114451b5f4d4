"""How long a run may go on."""

from typing import Literal

from msgspec import Struct

Clock = Literal["budget", "run", "task", "waits", "above"]
"""Whose seconds bound a run: those of its budget, of this run (`max_seconds`), of any run of an agent
(`task_seconds`), of the agent that waits for it, or of those above it that it ends with."""

GRACE = (
    "You have used {turns} of {turns} turns of this task and no tool can be called any more. "
    "Answer now with what you have found, and say what is still open."
)


class Limits(Struct, frozen=True, gc=False):
    """Bounds of one run; None means none."""

    turns: int | None = None
    seconds: float | None = None
    until: float | None = None
    """The moment at which all above it have to end, where it ends with them."""
    by: Clock = "run"
    """Whose the seconds are."""
    own: float | None = None
    """The seconds of its budget and of this run: what it sends to the background ends with them."""
    sender: str | None = None
    """The task that sent it."""
    heard: float | None = None
    """The moment at which that one wants to have heard of it, where it waits for it."""

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
