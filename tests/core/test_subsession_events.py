"""Events as other programs see them."""

import pytest

from gencode.core.events import AnyFact, Event, MessageAdded, TaskCreated, TaskEnded, TaskStarted, TextArrived
from gencode.core.messages import UserMessage
from gencode.core.status import EndReason, Status
from gencode.core.subsession_events import Lineage, wire

AT = "2026-11-15T02:32:00.123456Z"
HEAD = {"task": "c0ffee00", "seq": 4, "at": AT}
IDS = {"subSessionId": "c0ffee00", "parentSessionId": "beef0000"}


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (
            TaskCreated("Explore", "look", "a look", parent="beef0000"),
            {"type": "SubSessionCreated", "agentType": "Explore", "description": "a look", "prompt": "look"},
        ),
        (
            TaskStarted("offline-search"),
            {
                "type": "SubSessionStatusChanged",
                "oldStatus": "Pending",
                "newStatus": "Running",
                "model": "offline-search",
            },
        ),
        (TextArrived("hm"), {"type": "SubSessionProgress", "partType": "text", "content": "hm"}),
        (
            TaskEnded(Status.COMPLETED, "found", reason=EndReason.FINISHED),
            {"type": "SubSessionCompleted", "result": "found", "error": None, "status": "completed"},
        ),
        (
            TaskEnded(Status.LIMIT_REACHED, "half", "too long", reason=EndReason.TURN_LIMIT),
            {"type": "SubSessionFailed", "result": "half", "error": "too long", "status": "limit_reached"},
        ),
        (
            TaskEnded(Status.CANCELLED, "half", "stopped", reason=EndReason.STOPPED),
            {"type": "SubSessionCancelled", "result": "half", "error": "stopped", "status": "cancelled"},
        ),
    ],
)
def test_openforks_events_have_its_names_and_fields(fact: AnyFact, expected: dict[str, object]) -> None:
    assert wire(Event("c0ffee00", 4, AT, fact), Lineage("beef0000")) == {**HEAD, **IDS, **expected}


@pytest.mark.parametrize(
    ("fact", "name"),
    [
        (TaskCreated("main", "hi", conversation=True), "SessionCreated"),
        (TaskStarted("offline-search"), "SessionStatusChanged"),
        (TextArrived("hm"), "SessionProgress"),
        (TaskEnded(Status.COMPLETED, "found", reason=EndReason.FINISHED), "SessionCompleted"),
    ],
)
def test_a_conversation_is_the_session_and_no_sub_session(fact: AnyFact, name: str) -> None:
    told = wire(Event("c0ffee00", 4, AT, fact), Lineage(conversation=True))
    assert (told["type"], told["sessionId"]) == (name, "c0ffee00")
    assert "subSessionId" not in told


def test_other_facts_keep_our_names() -> None:
    fact = MessageAdded(UserMessage("hello"))
    assert wire(Event("c0ffee00", 4, AT, fact)) == {
        **HEAD,
        "type": "MessageAdded",
        "message": {"role": "user", "text": "hello"},
    }
