"""The view: one state of all agents, folded from events."""

from gencode.core.budget import Budget
from gencode.core.events import (
    AnyFact,
    CallFinished,
    CallStarted,
    Event,
    MessageAdded,
    ProgressMade,
    QueueMoved,
    TaskCreated,
    TaskEnded,
    TaskQueued,
    TaskStalled,
    TaskStarted,
    TextArrived,
    ThinkingArrived,
)
from gencode.core.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult, Usage, UserMessage
from gencode.core.status import EndReason, Status, WaitFor
from gencode.core.structs import replace
from gencode.core.subsession_events import Lineage
from gencode.core.task import Evidence, replay
from gencode.interfaces.render.agent_view import AgentView, RunSummary, View, fold, seen

GLOB = ToolCall("1", "Glob", {"pattern": "*.py"})
GREP = ToolCall("2", "Grep", {"pattern": "def"})


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02d}.000000Z"


def heard(*facts: tuple[str, AnyFact]) -> View:
    view = View()
    for second, (task, fact) in enumerate(facts):
        view = fold(view, Event(task, None, at(second), fact))
    return view


def test_a_fork_says_whose_copy_it_is() -> None:
    created = TaskCreated(agent="Explore", prompt="find it", description="a look", forked="3fe22040")
    task = replay([Event("b", 1, at(0), created)])
    assert task is not None
    assert (
        seen(task)
        == heard(("b", created)).agents["b"]
        == AgentView("b", "Explore", "fork of 3fe22040: a look")
    )


def test_the_time_between_two_runs_is_no_time_of_work() -> None:
    facts = [
        TaskCreated(agent="Explore", prompt="find it"),
        TaskStarted(),
        TaskEnded(Status.COMPLETED, "found", reason=EndReason.FINISHED),
        ProgressMade("nothing"),
        TaskQueued(),
        ProgressMade("nothing"),
        TaskStarted(),
        ProgressMade("nothing"),
        TaskEnded(Status.COMPLETED, "found again", reason=EndReason.FINISHED),
    ]
    elapsed = [
        heard(*(("b", fact) for fact in facts[:end])).agents["b"].elapsed(at(end)) for end in range(1, 10)
    ]
    assert elapsed == [0, 1, 1, 1, 1, 1, 2, 3, 3]
    durable = [(second, fact) for second, fact in enumerate(facts) if not isinstance(fact, ProgressMade)]
    events = [Event("b", seq, at(second), fact) for seq, (second, fact) in enumerate(durable, start=1)]
    told = [seen(task).elapsed(at(9)) for end in range(1, 7) if (task := replay(events[:end]))]
    assert told == [0, 8, 1, 1, 4, 3]


def test_a_whole_life_is_folded_into_one_agent() -> None:
    view = heard(
        ("b", TaskCreated(agent="Explore", prompt="find it", parent="a")),
        ("b", TaskStarted(model="m1")),
        ("b", MessageAdded(AssistantMessage("", (GLOB, GREP), model="m2"))),
        ("b", MessageAdded(ToolMessage(()))),
        ("b", MessageAdded(AssistantMessage("found"))),
        ("b", TaskEnded(Status.COMPLETED, "found", reason=EndReason.FINISHED)),
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
        ends=(RunSummary(at(5), Status.COMPLETED, "found"),),
        worked=4.0,
        saw=Evidence(tool_calls=2),
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
        (MessageAdded(ToolMessage((ToolResult("2", "Grep", "a\nb"),))), "Glob(*.py) → 2 lines"),
        (ThinkingArrived("so "), "Glob(*.py) → 2 lines"),
        (ProgressMade("waits for the limit", waits_for=WaitFor.MODEL), "waits for the limit"),
        (TextArrived("I "), "Glob(*.py) → 2 lines"),
        (TaskEnded(Status.FAILED, error="no", reason=EndReason.FAILED), ""),
    ]
    view = View()
    told: list[str] = []
    for fact, _ in steps:
        view = fold(view, Event("b", None, at(0), fact))
        told.append(view.agents["b"].step)
    assert told == [step for _, step in steps]


def test_time_runs_until_the_end() -> None:
    running = AgentView("b", started_at=at(2), since=at(2))
    ended = AgentView("b", started_at=at(2), ended_at=at(5), worked=3.0)
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
    assert [view.lineage(task) for task in ("a", "main", "unknown")] == [
        Lineage("d"),
        Lineage(conversation=True),
        Lineage(),
    ]


def test_an_event_that_changes_nothing_gives_the_same_view() -> None:
    view = heard(("b", ThinkingArrived("one")))
    assert fold(view, Event("b", None, at(1), ThinkingArrived("two"))) is view


def test_what_a_subagent_writes_is_known_by_its_last_line() -> None:
    view = heard(("b", TextArrived("First.\nSec")), ("b", TextArrived("ond")))
    assert view.agents["b"].doing == "Second"


def test_usage_budget_queue_and_silence_are_known() -> None:
    view = heard(
        ("b", TaskCreated(agent="Explore", parent="a", background=True, budget=Budget(tokens=9))),
        ("b", QueueMoved(2)),
    )
    assert (view.agents["b"].place, view.agents["b"].background) == (2, True)
    for fact in (
        TaskStarted(),
        MessageAdded(AssistantMessage("", (GLOB,), usage=Usage(3, 1))),
        TaskStalled(60.0),
    ):
        view = fold(view, Event("b", None, at(3), fact))
    agent = view.agents["b"]
    assert (agent.place, agent.usage, agent.budget, agent.stalled) == (0, Usage(3, 1), Budget(tokens=9), 60.0)
    assert fold(view, Event("b", None, at(4), MessageAdded(ToolMessage(())))).agents["b"].stalled == 0.0


def test_who_had_ended_and_waits_to_go_on_is_in_line() -> None:
    ended = (
        TaskCreated(agent="Explore"),
        TaskStarted(),
        TaskEnded(Status.FAILED, "half", "broke", reason=EndReason.FAILED),
    )
    view = heard(*(("b", fact) for fact in (*ended, TaskQueued(budget=Budget(tokens=9)), QueueMoved(1))))
    agent = view.agents["b"]
    assert (agent.status, agent.place, agent.error, agent.ended_at) == (Status.PENDING, 1, None, None)
    assert (agent.working, agent.budget) == (True, Budget(tokens=9))


def test_who_has_answered_and_waits_for_more_is_resting() -> None:
    facts = [
        TaskCreated(conversation=True),
        TaskStarted(),
        MessageAdded(AssistantMessage("sent", (GLOB,))),
        MessageAdded(AssistantMessage("it runs")),
        MessageAdded(UserMessage("and?")),
        MessageAdded(AssistantMessage("soon")),
        TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED),
    ]
    view = View()
    working: list[tuple[bool, bool]] = []
    for fact in facts:
        view = fold(view, Event("m", None, at(0), fact))
        working.append((view.agents["m"].resting, view.agents["m"].working))
    rests, works, ended = (True, False), (False, True), (False, False)
    assert working == [works, works, works, rests, works, rests, ended]


def test_a_task_that_was_only_read_looks_like_one_that_was_heard() -> None:
    events = [
        Event("b", 1, at(0), TaskCreated(agent="Explore", prompt="find it", parent="a")),
        Event("b", 2, at(1), TaskStarted(model="m1")),
        Event("b", 3, at(2), MessageAdded(AssistantMessage("found", usage=Usage(2, 1)))),
        Event("b", 4, at(3), TaskEnded(Status.COMPLETED, "found", reason=EndReason.FINISHED)),
    ]
    view = View()
    for event in events:
        view = fold(view, event)
    task = replay(events)
    assert task is not None
    assert seen(task) == replace(view.agents["b"], context=0)  # which only who heard the reply knows
