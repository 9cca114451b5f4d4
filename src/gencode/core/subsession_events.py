"""Events as other programs see them: the six SubSession names of OpenFork, with its fields and states.

A conversation is the session itself: its events have the same names without `Sub`. Events that OpenFork does
not know keep our names. Every object has `type`, `task`, `seq` and `at`.
"""

from typing import Any

import msgspec
from msgspec import Struct

from gencode.core.changes import describe_changes
from gencode.core.events import (
    CallFinished,
    CallStarted,
    ChangesMoved,
    Event,
    OutputArrived,
    ProgressMade,
    ReplyRestarted,
    TaskCreated,
    TaskEnded,
    TaskStarted,
    TextArrived,
    ThinkingArrived,
    plain,
)
from gencode.core.status import Status
from gencode.core.task import Task

_SPELLED = {
    Status.PENDING: "Pending",
    Status.RUNNING: "Running",
    Status.COMPLETED: "Completed",
    Status.CANCELLED: "Cancelled",
}


class Lineage(Struct, frozen=True):
    """The parent of the task an event belongs to, and whether that is a conversation."""

    parent: str | None = None
    conversation: bool = False


ALONE = Lineage()
"""A task that a person or a program started."""


def lineage_of(task: TaskCreated | Task) -> Lineage:
    """The parent of a task, and whether it is a conversation."""
    return Lineage(task.parent, task.conversation)


def spelled(status: Status) -> str:
    """A status in OpenFork's five words: every end that is neither a success nor a stop is `Failed`."""
    return _SPELLED.get(status, "Failed")


def wire(event: Event, of: Lineage = ALONE) -> dict[str, Any]:
    """One event as one JSON-ready object."""
    if isinstance(event.fact, TaskCreated):
        of = lineage_of(event.fact)
    kind = "Session" if of.conversation else "SubSession"
    head = {"task": event.task, "seq": event.seq, "at": event.at}
    sub = {"subSessionId": event.task, "parentSessionId": of.parent}
    ids = {"sessionId": event.task} if of.conversation else sub
    match event.fact:
        case TaskCreated() as fact:
            more = {"agentType": fact.agent, "description": fact.description, "prompt": fact.prompt}
            return {"type": f"{kind}Created", **head, **ids, **more}
        case TaskStarted() as fact:
            states = {"oldStatus": spelled(fact.was), "newStatus": "Running", "model": fact.model}
            return {"type": f"{kind}StatusChanged", **head, **ids, **states}
        case TaskEnded() as fact:
            return {"type": f"{kind}{spelled(fact.status)}", **head, **ids, **_end(fact)}
        case ChangesMoved(change) as fact:
            return {
                "type": "ChangesMoved",
                **head,
                "text": describe_changes(change),
                "supersedes": fact.supersedes,
            }
        case _ if (progress := _progress(event)) is not None:
            part, content = progress
            return {"type": f"{kind}Progress", **head, **ids, "partType": part, "content": content}
        case _:
            body = plain(event)
            return {"type": body.pop("kind"), **body}


def _end(fact: TaskEnded) -> dict[str, Any]:
    return {"result": fact.full_text, "error": fact.error, "status": fact.status.value}


def _progress(event: Event) -> tuple[str, str] | None:
    match event.fact:
        case TextArrived(text):
            return "text", text
        case ThinkingArrived(text):
            return "thinking", text
        case ProgressMade(text, note):
            return ("note" if note else "progress"), text
        case OutputArrived(text=text):
            return "output", text
        case ReplyRestarted(why):
            return "restart", why
        case CallStarted() as fact:
            return "tool", fact.summary
        case CallFinished() as fact:
            return ("error" if fact.error else "result"), fact.summary
        case _:
            return None


def wire_line(event: Event, of: Lineage = ALONE) -> str:
    """One event as one line of JSON."""
    return msgspec.json.encode(wire(event, of)).decode()
