"""What a person should hear of although they look elsewhere."""

from gencode.core.events import (
    AnyFact,
    Event,
    ProgressMade,
    TaskBackgrounded,
    TaskCreated,
    TaskEnded,
    TaskStalled,
    TaskStarted,
)
from gencode.core.status import EndReason, Status
from gencode.core.task import DeliveredResults, Task, TaskTerms
from gencode.interfaces.chat.notices import Notice, full_task_list, notice_of, results_while_closed, task_list
from gencode.interfaces.render.agent_view import View, fold

AT = "2026-01-01T00:00:00.000000Z"
BORN = TaskCreated(agent="Explore", description="find it", parent="m")


def last(*facts: AnyFact) -> Notice | None:
    view, notice = View(), None
    for fact in facts:
        event = Event("9f3a1c2e", None, AT, fact)
        view = fold(view, event)
        notice = notice_of(view, event)
    return notice


def test_a_launch_in_the_background_tells_its_id() -> None:
    said = (
        "[Task running in background: agent-9f3a1c2e] You can continue working. "
        "Use /task-status 9f3a1c2e to check progress."
    )
    assert last(TaskCreated(agent="Explore", background=True, parent="m")) == Notice(
        said, task="9f3a1c2e", started=True
    )


def test_what_somebody_waits_for_needs_no_word() -> None:
    assert [
        last(BORN),
        last(BORN, TaskStarted()),
        last(BORN, TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)),
    ] == [None] * 3


def test_the_end_of_background_work_is_told() -> None:
    well = last(
        BORN, TaskStarted(), TaskBackgrounded(), TaskEnded(Status.COMPLETED, "ok", reason=EndReason.FINISHED)
    )
    badly = last(BORN, TaskBackgrounded(), TaskEnded(Status.FAILED, error="gone", reason=EndReason.FAILED))
    assert well == Notice("Explore: find it (9f3a1c2e) completed · 0 turns · 0.0 s", "result", "9f3a1c2e")
    assert badly == Notice("Explore: find it (9f3a1c2e) failed · 0 turns · 0.0 s: gone", "error", "9f3a1c2e")


def test_silence_and_notes_are_warnings() -> None:
    stalled, note = last(BORN, TaskStalled(120.0)), last(BORN, ProgressMade("look\x1b[2J", note=True))
    assert stalled is not None and "120 s" in stalled.text
    assert (stalled.kind, stalled.task) == ("warning", "9f3a1c2e")
    assert note == Notice("[Explore] look\\x1b[2J", "warning", "9f3a1c2e")


def test_notes_of_the_conversation_itself_are_told_and_its_steps_are_not() -> None:
    begun = TaskCreated(agent="main", conversation=True)
    assert last(begun, ProgressMade("waits", note=True)) == Notice("[main] waits", "warning", "9f3a1c2e")
    assert last(begun, ProgressMade("a step")) is None


def task(name: str, status: Status, *, background: bool = False) -> Task:
    created, terms = TaskCreated("Explore", "look", parent="m"), TaskTerms(background=background)
    return Task(name, created, AT, status, 1, terms=terms)


def test_what_ended_while_a_conversation_was_closed_is_told_once() -> None:
    session = Task(
        "m",
        TaskCreated("main", "go", conversation=True),
        AT,
        Status.COMPLETED,
        9,
        delivered=DeliveredResults(("told",)),
    )
    children = [
        task("told", Status.COMPLETED, background=True),
        task("front", Status.COMPLETED),
        task("runs", Status.RUNNING, background=True),
        task("come", Status.COMPLETED, background=True),
    ]
    notices = results_while_closed(session, children)
    assert [(notice.task, notice.kind) for notice in notices] == [("come", "result")]
    assert "completed" in notices[0].text


def test_many_tasks_are_named_by_the_first_few() -> None:
    several = [task(f"{number:08x}", Status.RUNNING) for number in range(12)]
    assert task_list(several[:2]) == "00000000 (Explore), 00000001 (Explore)"
    assert task_list(several).endswith("and 2 more")
    assert full_task_list(several) == ", ".join(f"{each.id} (Explore)" for each in several)
