"""Whether an agent in another process waits for an answer, as its facts tell."""

from gencode.core.events import AnyFact, CallDecided, MessageAdded, TaskEnded
from gencode.core.messages import AssistantMessage, ToolCall, ToolMessage
from gencode.core.rules import Action, Decision
from gencode.core.status import EndReason, Status
from gencode.tasks.remote_task import PendingCalls

ASKS, RUNS = ToolCall("a", "AskUserQuestion", {}), ToolCall("b", "Bash", {"command": "make"})
SPEAKS = MessageAdded(AssistantMessage("", (ASKS, RUNS)))
ANSWERED = MessageAdded(ToolMessage(()))


def decided(call: ToolCall, action: Action) -> CallDecided:
    return CallDecided(call.id, call.name, Decision(action, "because"))


def waits(*facts: AnyFact) -> list[bool]:
    """Whether it waits after each of these facts."""
    unanswered, found = PendingCalls(), list[bool]()
    for fact in facts:
        unanswered.hear(fact)
        found.append(bool(unanswered))
    return found


def test_it_waits_from_a_question_to_the_answer() -> None:
    assert waits(SPEAKS, decided(ASKS, Action.ALLOW), ANSWERED) == [True, True, False]


def test_a_question_that_it_may_not_ask_is_none() -> None:
    assert waits(SPEAKS, decided(ASKS, Action.DENY)) == [True, False]


def test_it_waits_while_somebody_is_asked_what_it_may_do() -> None:
    runs = MessageAdded(AssistantMessage("", (RUNS,)))
    facts = (runs, decided(RUNS, Action.ASK), decided(RUNS, Action.ALLOW), ANSWERED)
    assert waits(*facts) == [False, True, False, False]


def test_it_waits_no_more_when_it_has_ended() -> None:
    assert waits(SPEAKS, TaskEnded(Status.CANCELLED, reason=EndReason.STOPPED)) == [True, False]
