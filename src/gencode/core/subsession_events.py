"""Events as other programs see them: the six SubSession names of OpenFork, with its fields and states.

Facts that OpenFork does not know keep our names. Every object has `type`, `task`, `seq` and `at`.
"""

from typing import Any

import msgspec

from gencode.core.changes import told
from gencode.core.events import (
    CallFinished,
    CallStarted,
    ChangesMoved,
    Event,
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

_SPELLED = {
    Status.PENDING: "Pending",
    Status.RUNNING: "Running",
    Status.COMPLETED: "Completed",
    Status.CANCELLED: "Cancelled",
}


def spelled(status: Status) -> str:
    """A status in OpenFork's five words: every end that is neither a success nor a stop is `Failed`."""
    return _SPELLED.get(status, "Failed")


def wire(event: Event, parent: str | None = None) -> dict[str, Any]:
    """One event as one JSON-ready object. `parent` is the task that asked for this one."""
    head = {"task": event.task, "seq": event.seq, "at": event.at}
    ids = {"subSessionId": event.task, "parentSessionId": parent}
    match event.fact:
        case TaskCreated() as fact:
            more = {"agentType": fact.agent, "description": fact.description, "prompt": fact.prompt}
            ids["parentSessionId"] = fact.parent
            return {"type": "SubSessionCreated", **head, **ids, **more}
        case TaskStarted() as fact:
            states = {"oldStatus": spelled(fact.was), "newStatus": "Running", "model": fact.model}
            return {"type": "SubSessionStatusChanged", **head, **ids, **states}
        case TaskEnded() as fact:
            return {"type": f"SubSession{spelled(fact.status)}", **head, **ids, **_end(fact)}
        case ChangesMoved(change) as fact:
            return {"type": "ChangesMoved", **head, "text": told(change), "supersedes": fact.supersedes}
        case _ if (progress := _progress(event)) is not None:
            part, content = progress
            return {"type": "SubSessionProgress", **head, **ids, "partType": part, "content": content}
        case _:
            body = plain(event)
            return {"type": body.pop("kind"), **body}


def _end(fact: TaskEnded) -> dict[str, Any]:
    return {"result": fact.told, "error": fact.error, "status": fact.status.value}


def _progress(event: Event) -> tuple[str, str] | None:
    match event.fact:
        case TextArrived(text):
            return "text", text
        case ThinkingArrived(text):
            return "thinking", text
        case ProgressMade(text, note):
            return ("note" if note else "progress"), text
        case ReplyRestarted(why):
            return "restart", why
        case CallStarted() as fact:
            return "tool", fact.summary
        case CallFinished() as fact:
            return ("error" if fact.error else "result"), fact.summary
        case _:
            return None


def wire_line(event: Event, parent: str | None = None) -> str:
    """One event as one line of JSON."""
    return msgspec.json.encode(wire(event, parent)).decode()
