"""What version 0.1 told in sentences is read as the facts of today."""

import pytest
from msgspec.structs import replace

from gencode.core.events import TaskCreated, TaskEnded, TaskStarted, encode_fact
from gencode.core.old_events import stored_fact, translated_task
from gencode.core.reasons import EndReason
from gencode.core.status import Status
from gencode.core.task import replay
from tests.core.test_task_fold import journal


def written(status: str, error: str | None) -> bytes:
    told = "null" if error is None else f'"{error}"'
    return f'{{"kind":"TaskEnded","status":"{status}","result":"half","error":{told}}}'.encode()


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        ("completed", None, EndReason.FINISHED),
        ("empty", None, EndReason.NO_ANSWER),
        ("limit_reached", "the limit of 1 turn was reached", EndReason.TURN_LIMIT),
        ("limit_reached", "The budget of 9 tokens of the session is spent.", EndReason.BUDGET),
        ("limit_reached", "the reply was cut at the model's limit of tokens", EndReason.REPLY_LIMIT),
        ("timed_out", "it took longer than 1 s; max_seconds lets a run take no more", EndReason.TIME_LIMIT),
        ("timed_out", "The budget of 2 seconds of agent Explore is spent.", EndReason.BUDGET),
        ("timed_out", "its process gave no sign of life for 60 s; it was killed", EndReason.SILENT),
        ("failed", "a fault in GenCode: KeyError; the log has the details", EndReason.BUG),
        ("failed", "the model said no", EndReason.FAILED),
        ("failed", None, EndReason.FAILED),
        ("cancelled", "it was sent to the background", EndReason.BACKGROUNDED),
        ("cancelled", "the server was shut down; it goes on when one runs again", EndReason.SHUT_DOWN),
        ("cancelled", "the process that sent it is gone", EndReason.PARENT_GONE),
        ("cancelled", "the agent lead stopped it", EndReason.STOPPED),
        ("interrupted", "the process that sent it is gone", EndReason.PARENT_GONE),
        ("interrupted", "it was stopped, and its process did not answer", EndReason.STOP_UNANSWERED),
        ("interrupted", "the process that ran it died", EndReason.PROCESS_DIED),
    ],
)
def test_an_end_without_a_reason_has_the_one_that_its_sentence_tells(
    status: str, error: str | None, reason: EndReason
) -> None:
    fact = stored_fact(written(status, error))
    assert fact == TaskEnded(Status(status), "half", error, reason=reason)


def test_an_end_that_has_a_reason_is_never_read_for_its_words() -> None:
    ended = TaskEnded(Status.CANCELLED, error="it was sent to the background", reason=EndReason.STOPPED)
    assert stored_fact(encode_fact(ended)) == ended


def test_a_fold_that_was_stored_without_reasons_equals_the_one_of_its_facts() -> None:
    facts = (
        TaskCreated(parent="9f3a1c2e"),
        TaskStarted(),
        TaskEnded(Status.CANCELLED, "half", "the process that sent it is gone", reason=EndReason.PARENT_GONE),
        TaskStarted(),
        TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED),
    )
    now = replay(journal(*facts))
    assert now is not None and now.past
    old = replace(now, reason=None, past=tuple(replace(each, reason=None) for each in now.past))
    assert translated_task(old) == now
