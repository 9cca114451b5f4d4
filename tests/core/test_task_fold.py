"""A task is the fold of its facts."""

from functools import reduce

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core import task as core_task
from gencode.core.budget import Budget
from gencode.core.errors import CorruptFact
from gencode.core.events import (
    AnyFact,
    CallDecided,
    CostEstimated,
    DurableFact,
    Event,
    MessageAdded,
    TaskCreated,
    TaskEnded,
    TaskQueued,
    TaskStarted,
    TextArrived,
    TranscriptCompacted,
)
from gencode.core.messages import (
    AssistantMessage,
    CommandRun,
    FileChange,
    ToolCall,
    ToolMessage,
    ToolResult,
    Trace,
    Usage,
    UserMessage,
)
from gencode.core.rules import Action, DecidedBy, Decision
from gencode.core.status import EndReason, Status
from gencode.core.task import (
    RECORDS,
    Evidence,
    RefusedToolCall,
    RunEnd,
    RunState,
    Task,
    TaskReport,
    TaskTerms,
    TaskTotals,
    as_rewound,
    fold,
    replay,
    whole_transcript,
)
from gencode.tasks.deadline import worked_seconds
from tests.contracts.facts import lives
from tests.core.journal import at, journal


def test_no_facts_are_no_task() -> None:
    assert replay([]) is None


def test_a_whole_life_is_told_exactly() -> None:
    calls = (ToolCall("1", "Read", {}), ToolCall("2", "Bash", {}))
    traces = (Trace(read=("a", "b", "a")), Trace(commands=(CommandRun("ls", 0),), children=("aaaaaaaa",)))
    results = tuple(
        ToolResult(call.id, call.name, "ok", trace=trace) for call, trace in zip(calls, traces, strict=True)
    )
    refused = Decision(Action.DENY, "not here", by=DecidedBy.USER)
    created = TaskCreated(
        agent="Explore", prompt="p", parent="bbbbbbbb", call="c", cwd="/w", max_turns=3, depth=1
    )
    events = journal(
        created,
        TaskStarted(model="m", system="s", warnings=("old model",)),
        MessageAdded(UserMessage("p")),
        MessageAdded(AssistantMessage("looking", calls, usage=Usage(10, 5, 2, 0.5), model="m-real")),
        CallDecided("1", "Read", Decision(Action.ALLOW, "reads")),
        CallDecided("2", "Bash", refused, target="rm x"),
        CallDecided("2", "Bash", refused, target="rm x"),
        MessageAdded(ToolMessage(results)),
        MessageAdded(AssistantMessage(" ", usage=Usage(1, 1))),
        TaskEnded(Status.COMPLETED, result="found", warnings=("cut",), reason=EndReason.FINISHED),
    )
    assert replay(events) == Task(
        id="9f3a1c2e",
        created=created,
        created_at=at(1),
        status=Status.COMPLETED,
        seq=10,
        touched_at=at(10),
        terms=TaskTerms(model="m", system="s"),
        run=RunState(started_at=at(2), model="m-real"),
        totals=TaskTotals(turns=2, usage=Usage(11, 6, 2, 0.5)),
        report=TaskReport("found"),
        end=RunEnd(at(10), EndReason.FINISHED, warnings=("cut",)),
        evidence=Evidence(
            tool_calls=2,
            files_read=("a", "b"),
            commands=(CommandRun("ls", 0),),
            children=("aaaaaaaa",),
            warnings=("old model", "cut"),
            refused=(RefusedToolCall("Bash", "rm x", DecidedBy.USER, "not here", "2"),),
        ),
    )


def test_every_record_that_a_task_is_made_of_belongs_to_the_shape_of_its_snapshots() -> None:
    own = {each for each in vars(core_task).values() if getattr(each, "__module__", "") == core_task.__name__}
    assert {each for each in own if isinstance(each, type)} == {
        each for each in RECORDS if each.__module__ == core_task.__name__
    }


def test_what_a_report_was_warned_of_is_taken_back_when_the_task_goes_on() -> None:
    first = (
        TaskCreated(),
        TaskStarted(warnings=("old model",)),
        TaskEnded(
            Status.COMPLETED, "a", warnings=("no tool was called", "old model"), reason=EndReason.FINISHED
        ),
    )
    then = (TaskStarted(), TaskEnded(Status.COMPLETED, "b", warnings=("cut",), reason=EndReason.FINISHED))
    warned = [
        task.evidence.warnings for task in (replay(journal(*first)), replay(journal(*first, *then))) if task
    ]
    assert warned == [("old model", "no tool was called"), ("old model", "cut")]


def test_a_file_that_is_changed_twice_is_listed_once_as_it_was_left() -> None:
    changes = [FileChange("a", "old"), FileChange("b", "only"), FileChange("a", "new")]
    messages = [
        ToolMessage((ToolResult("1", "Edit", "ok", trace=Trace(changed=(each,))),)) for each in changes
    ]
    task = replay(journal(TaskCreated(), *(MessageAdded(message) for message in messages)))
    assert task and task.evidence.files_changed == (FileChange("a", "new"), FileChange("b", "only"))


def test_a_task_that_is_started_again_keeps_its_beginning_and_forgets_its_end() -> None:
    task = replay(
        journal(
            TaskCreated(),
            TaskStarted(model="m", system="s"),
            TaskEnded(Status.FAILED, "half", "broke", reason=EndReason.FAILED),
            TaskStarted(),
        )
    )
    assert task and (task.status, task.run.model, task.terms.system) == (Status.RUNNING, "m", "s")
    assert (task.run.started_at, task.end.at, task.result, task.end.error) == (at(2), None, "half", None)


def test_a_task_that_has_to_wait_to_go_on_is_pending_and_keeps_what_it_said_before() -> None:
    first = (
        TaskCreated(),
        TaskStarted(model="m"),
        TaskEnded(Status.COMPLETED, "a", warnings=("cut",), reason=EndReason.FINISHED),
    )
    queued = TaskQueued("n", Budget(tokens=9), output_schema={"type": "object"})
    waits = replay(journal(*first, queued, MessageAdded(UserMessage("more", mail=3))))
    assert waits and (waits.status, waits.result, waits.end.error) == (Status.PENDING, "a", None)
    assert (waits.end.at, waits.run.queued_at, waits.delivered.mailed) == (None, at(4), 3)
    assert (waits.run.model, waits.terms.model, waits.evidence.warnings) == ("m", "n", ())
    assert (waits.terms.budget, waits.terms.output_schema) == (Budget(tokens=9), {"type": "object"})
    stopped = replay(
        journal(*first, queued, TaskEnded(Status.CANCELLED, "a", "enough", reason=EndReason.STOPPED))
    )
    assert stopped and (stopped.status, stopped.totals.worked_ms, stopped.end.at) == (
        Status.CANCELLED,
        0,
        at(5),
    )


@pytest.mark.parametrize(
    "facts",
    [
        [TaskStarted()],
        [TaskCreated(), TaskQueued()],
        [TaskCreated(), TaskStarted(), TaskQueued()],
        [TaskCreated(), TaskCreated()],
        [TaskCreated(), TaskStarted(), TaskStarted()],
        [
            TaskCreated(),
            TaskEnded(Status.EMPTY, reason=EndReason.NO_ANSWER),
            TaskEnded(Status.EMPTY, reason=EndReason.NO_ANSWER),
        ],
        [TaskCreated(), TextArrived("passing")],
    ],
)
def test_a_fact_that_cannot_follow_is_named(facts: list[AnyFact]) -> None:
    with pytest.raises(CorruptFact, match=f"fact {len(facts)} of task 9f3a1c2e"):
        replay(journal(*facts))


def test_numbers_begin_at_one_and_a_passing_fact_has_none() -> None:
    for seq in (None, 0, 2):
        with pytest.raises(CorruptFact):
            fold(None, Event("9f3a1c2e", seq, at(1), TaskCreated()))


@given(lives(), st.data())
def test_a_gap_a_repeat_or_a_stranger_is_refused(life: list[DurableFact], data: st.DataObject) -> None:
    events = journal(*life)
    task = replay(events)
    assert task is not None
    seq = data.draw(st.integers(0, len(events) + 3).filter(lambda n: n != len(events) + 1))
    strangers = [
        Event("9f3a1c2e", seq, at(1), MessageAdded(UserMessage(""))),
        Event("aaaaaaaa", len(events) + 1, at(1), MessageAdded(UserMessage(""))),
    ]
    for stranger in strangers:
        with pytest.raises(CorruptFact):
            fold(task, stranger)


@given(lives(), st.data())
def test_folding_on_from_any_point_is_the_same(life: list[DurableFact], data: st.DataObject) -> None:
    events = journal(*life)
    cut = data.draw(st.integers(0, len(events)))
    assert reduce(fold, events[cut:], replay(events[:cut])) == replay(events)


@given(lives(), st.data())
def test_a_task_that_was_stored_on_the_way_ends_the_same(
    life: list[DurableFact], data: st.DataObject
) -> None:
    events = journal(*life)
    cut = data.draw(st.integers(1, len(events)))
    stored = msgspec.json.decode(msgspec.json.encode(replay(events[:cut])), type=Task)
    assert reduce(fold, events[cut:], stored) == replay(events)


@given(lives())
def test_every_life_adds_up(life: list[DurableFact]) -> None:
    events = journal(*life)
    task = replay(events)
    assert task is not None
    messages = [fact.message for fact in life if isinstance(fact, MessageAdded)]
    replies = [message for message in messages if isinstance(message, AssistantMessage)]
    notes = [fact for fact in life if isinstance(fact, TranscriptCompacted)]
    left = [event.fact for event in as_rewound(events)]
    assert whole_transcript(events) == [fact.message for fact in left if isinstance(fact, MessageAdded)]
    assert (task.seq, task.totals.turns) == (len(life), len(replies))
    assert task.evidence.tool_calls == sum(len(reply.calls) for reply in replies)
    costs = [fact.usage for fact in life if isinstance(fact, CostEstimated)]
    assert task.totals.usage == sum(
        costs, sum((each.usage for each in (*replies, *notes) if each.usage), Usage())
    )
    assert task.status.ended == (task.end.at is not None)
    assert task.created_at == at(1)


def test_the_time_worked_is_that_of_the_runs_and_not_of_the_pauses_between() -> None:
    def event(seq: int, clock: str, fact: AnyFact) -> Event:
        return Event("9f3a1c2e", seq, f"2026-11-15T{clock}.000000Z", fact)

    task = replay(
        [
            event(1, "10:00:00", TaskCreated(prompt="p")),
            event(2, "10:00:01", TaskStarted()),
            event(3, "10:00:03", TaskEnded(Status.COMPLETED, "first", reason=EndReason.FINISHED)),
            event(4, "11:00:00", TaskStarted()),
            event(5, "11:00:05", MessageAdded(UserMessage("x"))),
            event(
                6,
                "23:00:00",
                TaskEnded(Status.INTERRUPTED, "second", "it died", reason=EndReason.PROCESS_DIED),
            ),
        ]
    )
    assert task is not None
    assert (task.totals.worked_ms, task.run.since) == (7000, None)


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.INTERRUPTED])
def test_a_clock_that_is_put_back_takes_nothing_from_the_time_of_earlier_runs(status: Status) -> None:
    def event(seq: int, clock: str, fact: DurableFact) -> Event:
        return Event("9f3a1c2e", seq, f"2026-03-14T{clock}Z", fact)

    facts = [
        event(1, "10:00:00", TaskCreated()),
        event(2, "10:00:00", TaskStarted()),
        event(3, "10:00:02", TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)),
        event(4, "11:00:00", TaskStarted()),
        event(5, "09:30:00", MessageAdded(UserMessage("x"))),
    ]
    working = replay(facts)
    ended = replay([*facts, event(6, "09:30:01", TaskEnded(status, reason=EndReason.FINISHED))])
    assert working is not None and ended is not None
    assert (worked_seconds(working), ended.totals.worked_ms, ended.run.since) == (2.0, 2000, None)
