"""The view: one state of all agents, folded from events."""

from gencode.core.events import (
    AnyFact,
    CallFinished,
    CallStarted,
    Event,
    MessageAdded,
    ProgressMade,
    TaskCreated,
    TaskEnded,
    TaskStarted,
    TextArrived,
)
from gencode.core.messages import AssistantMessage, ToolCall, ToolMessage
from gencode.core.status import Status
from gencode.surfaces.view import AgentView, View, fold

GLOB = ToolCall("1", "Glob", {"pattern": "*.py"})
GREP = ToolCall("2", "Grep", {"pattern": "def"})


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02d}.000000Z"


def heard(*facts: tuple[str, AnyFact]) -> View:
    view = View()
    for second, (task, fact) in enumerate(facts):
        view = fold(view, Event(task, None, at(second), fact))
    return view


def test_a_whole_life_is_folded_into_one_agent() -> None:
    view = heard(
        ("b", TaskCreated(agent="Explore", prompt="find it", parent="a")),
        ("b", TaskStarted(model="m1")),
        ("b", MessageAdded(AssistantMessage("", (GLOB, GREP), model="m2"))),
        ("b", MessageAdded(ToolMessage(()))),
        ("b", MessageAdded(AssistantMessage("found"))),
        ("b", TaskEnded(Status.COMPLETED, "found")),
    )
    expected = AgentView(
        id="b",
        agent="Explore",
        title="find it",
        parent="a",
        model="m2",
        status=Status.COMPLETED,
        turns=2,
        started_at=at(1),
        ended_at=at(5),
        result="found",
    )
    assert view == View({"b": expected})


def test_the_last_step_is_told_in_a_few_words() -> None:
    steps = [
        (TaskStarted(), "thinking"),
        (MessageAdded(AssistantMessage("", (GLOB, GREP))), "Glob(*.py), Grep(def)"),
        (CallStarted("1", "Glob", "Glob(*.py)"), "Glob(*.py)"),
        (CallFinished("1", "Glob", "3 files"), "Glob(*.py)"),
        (CallFinished("2", "Grep", "bad pattern", error=True), "Grep failed: bad pattern"),
        (ProgressMade("half of it"), "half of it"),
        (MessageAdded(ToolMessage(())), "thinking"),
        (TextArrived("I "), "answering"),
        (TaskEnded(Status.FAILED, error="no"), ""),
    ]
    view = View()
    told: list[str] = []
    for fact, _ in steps:
        view = fold(view, Event("b", None, at(0), fact))
        told.append(view.agents["b"].step)
    assert told == [step for _, step in steps]


def test_time_runs_until_the_end() -> None:
    running = AgentView("b", started_at=at(2))
    ended = AgentView("b", started_at=at(2), ended_at=at(5))
    assert (AgentView("b").elapsed(at(9)), running.elapsed(at(9)), ended.elapsed(at(9))) == (0.0, 7.0, 3.0)


def test_what_a_task_launched_is_listed_in_the_order_of_launch() -> None:
    view = heard(
        ("main", TaskCreated(conversation=True)),
        ("d", TaskCreated(parent="main")),
        ("other", TaskCreated()),
        ("c", TaskCreated(parent="main")),
        ("a", TaskCreated(parent="d")),
    )
    assert view.launched("main") == ["d", "c", "a"]
    assert [view.parent(task) for task in ("a", "main", "unknown")] == ["d", None, None]


def test_an_event_that_changes_nothing_gives_the_same_view() -> None:
    view = heard(("b", TextArrived("one")))
    assert fold(view, Event("b", None, at(1), TextArrived("two"))) is view
