"""What an earlier task brings along when it goes on: why it had ended, and which tools it had."""

from collections.abc import Sequence

from gencode.core.events import Event, TaskStarted
from gencode.core.messages import UserMessage
from gencode.core.status import Status
from gencode.core.task import Task

_CUT = {
    Status.CANCELLED: "You were stopped",
    Status.INTERRUPTED: "You were cut off",
    Status.TIMED_OUT: "You were stopped, because your time was up",
    Status.FAILED: "Your last run failed",
}


def told_first(task: Task) -> list[UserMessage]:
    """What an agent hears before anything else when its last run did not end by itself."""
    if task.status not in _CUT:
        return []
    why = f": {task.error.rstrip('.').replace('that ran it', 'that ran you')}" if task.error else ""
    text = f"{_CUT[task.status]}{why}. Go on from there; calls that were cut are marked as interrupted."
    return [UserMessage(text, sender="system")]


def tools_of(events: Sequence[Event]) -> tuple[str, ...]:
    """The tools an agent had when it last began to work."""
    started = (event.fact for event in reversed(events) if isinstance(event.fact, TaskStarted))
    last = next(started, None)
    return last.tools if last else ()
