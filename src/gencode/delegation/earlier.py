"""What an earlier task brings along when it goes on: why it had ended, and which tools it had."""

from collections.abc import Sequence
from pathlib import Path

from gencode.core.events import Event, TaskStarted
from gencode.core.messages import Message, UserMessage
from gencode.core.status import Status
from gencode.core.task import Task

COPY = "You work in a copy of"
MOVE = "You go on on another machine."
BACK = "You are back in the folder itself,"
"""How an agent is told where it is."""

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


def told_place(earlier: Sequence[Message], cwd: Path) -> list[UserMessage]:
    """What an agent hears that last worked in a copy on another machine and goes on in the folder itself."""
    said = [each.text for each in earlier if isinstance(each, UserMessage) and each.sender == "system"]
    places = [text for text in said if text.startswith((COPY, MOVE, BACK))]
    if not places or places[-1].startswith(BACK):
        return []
    text = f"{BACK} {cwd}. What you changed in your copy is in it only if somebody took it over, so look."
    return [UserMessage(text, sender="system")]


def tools_of(events: Sequence[Event]) -> tuple[str, ...]:
    """The tools an agent had when it last began to work."""
    started = (event.fact for event in reversed(events) if isinstance(event.fact, TaskStarted))
    last = next(started, None)
    return last.tools if last else ()
