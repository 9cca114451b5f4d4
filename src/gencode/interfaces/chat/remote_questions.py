"""Questions that agents of other processes ask: a screen says that one waits, and where it is answered."""

from gencode.core.events import CallDecided, Event, MessageAdded, TaskEnded
from gencode.core.messages import ToolMessage
from gencode.core.rules import Action


class AskedElsewhere:
    """The calls for which an answer is awaited, by task and by call, as the journal tells it."""

    def __init__(self) -> None:
        self._waits: dict[str, dict[str, str]] = {}
        self._told: set[tuple[str, str]] = set()

    def hear(self, event: Event) -> None:
        """Take in one fact of a task of another process."""
        match event.fact:
            case CallDecided(call=call, tool=tool, decision=decision) if decision.action is Action.ASK:
                self._waits.setdefault(event.task, {})[call] = tool
            case CallDecided(call=call):
                self._waits.get(event.task, {}).pop(call, None)
            case TaskEnded() | MessageAdded(ToolMessage()):
                self._waits.pop(event.task, None)
            case _:
                pass

    def news(self) -> list[tuple[str, str]]:
        """The tasks that ask and the tools they ask about; each is told once."""
        waits = [(task, call, tool) for task, calls in self._waits.items() for call, tool in calls.items()]
        new = [(task, tool) for task, call, tool in waits if (task, call) not in self._told]
        self._told = {(task, call) for task, call, _ in waits}
        return new

    def forget(self) -> None:
        """Another conversation is looked at."""
        self._waits = {}

    @property
    def first(self) -> tuple[str, str] | None:
        """The task that waits longest, and the tool it asks about."""
        found = ((task, tool) for task, calls in self._waits.items() for tool in calls.values())
        return next(found, None)
