"""Questions that agents of other processes ask: where this screen cannot answer, it says that one waits."""

from gencode.core.events import CallDecided, Event, MessageAdded, TaskEnded
from gencode.core.messages import ToolMessage
from gencode.core.rules import Action


class AskedElsewhere:
    """The calls for which an answer is awaited, by task and by call, as the journal tells it."""

    def __init__(self) -> None:
        self._waits: dict[str, dict[str, str]] = {}

    def hear(self, event: Event) -> str:
        """Take in one fact of a task of another process; the tool that it now asks about, if it does."""
        match event.fact:
            case CallDecided(call=call, tool=tool, decision=decision) if decision.action is Action.ASK:
                self._waits.setdefault(event.task, {})[call] = tool
                return tool
            case CallDecided(call=call):
                self._waits.get(event.task, {}).pop(call, None)
            case TaskEnded() | MessageAdded(ToolMessage()):
                self._waits.pop(event.task, None)
            case _:
                pass
        return ""

    def forget(self) -> None:
        """Another conversation is looked at."""
        self._waits = {}

    @property
    def first(self) -> tuple[str, str] | None:
        """The task that waits longest, and the tool it asks about."""
        found = ((task, tool) for task, calls in self._waits.items() for tool in calls.values())
        return next(found, None)
