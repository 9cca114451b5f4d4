"""The transcript of one agent as screens show it, folded from events."""

from hypothesis import given
from hypothesis import strategies as st

from gencode.core.events import (
    AnyFact,
    CallDecided,
    CallFinished,
    CallStarted,
    Event,
    MessageAdded,
    ProgressMade,
    ReplyRestarted,
    TaskCreated,
    TaskEnded,
    TextArrived,
    ThinkingArrived,
)
from gencode.core.messages import (
    AssistantMessage,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    Trace,
    UserMessage,
)
from gencode.core.rules import Action, Decision
from gencode.core.status import EndReason, Status
from gencode.interfaces.render.transcript import (
    Call,
    IncomingMessage,
    Remark,
    Reply,
    Thought,
    Transcript,
    adopt,
    hear,
    retold,
)

READ = ToolCall("c1", "Read", {"file_path": "a.py"})
SEND = ToolCall("c2", "Task", {"subagent_type": "Explore", "prompt": "look"})


def event(fact: AnyFact, seq: int | None = None, task: str = "a") -> Event:
    return Event(task, seq, "2026-01-01T00:00:00.000000Z", fact)


def told(*facts: AnyFact) -> Transcript:
    return retold("a", [event(fact, seq) for seq, fact in enumerate(facts, start=1)])


def test_what_is_said_thought_called_and_answered_is_kept_in_order() -> None:
    transcript = told(
        MessageAdded(UserMessage("where?")),
        MessageAdded(AssistantMessage("I look.", (READ,), (Thinking("hm"),))),
        MessageAdded(ToolMessage((ToolResult("c1", "Read", "line 1"),))),
        MessageAdded(AssistantMessage("here")),
    )
    read = Call("c1", "Read", "Read(a.py)", {"file_path": "a.py"}, "done", "line 1", about="a.py")
    assert transcript.entries == (
        IncomingMessage("where?"),
        Thought("hm"),
        Reply("I look."),
        read,
        Reply("here"),
    )


def test_what_is_arriving_is_there_until_it_is_said() -> None:
    transcript = Transcript("a")
    for fact in (ThinkingArrived("hm "), ThinkingArrived("so"), TextArrived("I "), TextArrived("see")):
        transcript = hear(transcript, event(fact))
    assert (transcript.thinking, transcript.text) == ("hm so", "I see")
    transcript = hear(transcript, event(MessageAdded(AssistantMessage("I see")), 1))
    assert (transcript.thinking, transcript.text, transcript.entries) == ("", "", (Reply("I see"),))


def test_a_reply_that_is_asked_for_anew_is_void() -> None:
    transcript = hear(Transcript("a"), event(TextArrived("half")))
    transcript = hear(transcript, event(ReplyRestarted("overloaded")))
    assert (transcript.text, transcript.entries) == ("", (Remark("Reply restarted: overloaded"),))


def test_a_call_goes_through_its_states() -> None:
    transcript = told(MessageAdded(AssistantMessage("", (READ,))))
    states: list[str] = []
    for number, fact in enumerate(
        (
            CallDecided("c1", "Read", Decision(Action.ASK, "outside")),
            CallDecided("c1", "Read", Decision(Action.ALLOW, "a person said yes")),
            CallStarted("c1", "Read", "Read(a.py)"),
            ProgressMade("half of it"),
            CallFinished("c1", "Read", "gone", error=True),
        ),
        start=2,
    ):
        transcript = hear(transcript, event(fact, number))
        call = transcript.entries[0]
        assert isinstance(call, Call)
        states.append(call.state)
    assert states == ["asked", "waiting", "running", "running", "failed"]


def test_a_call_that_was_not_allowed_stays_so() -> None:
    transcript = told(
        MessageAdded(AssistantMessage("", (READ,))),
        CallDecided("c1", "Read", Decision(Action.DENY, "secret")),
        MessageAdded(ToolMessage((ToolResult("c1", "Read", "no", error=True),))),
    )
    expected = Call("c1", "Read", "Read(a.py)", {"file_path": "a.py"}, "denied", "no", "secret", about="a.py")
    assert transcript.entries == (expected,)


def test_an_agent_belongs_to_the_call_that_sent_it() -> None:
    transcript = told(MessageAdded(AssistantMessage("", (SEND,))))
    born = hear(transcript, event(TaskCreated(parent="a", call="c2"), 1, task="b"))
    later = hear(
        transcript,
        event(MessageAdded(ToolMessage((ToolResult("c2", "Task", "ok", trace=Trace(children=("b",))),))), 9),
    )
    children = [
        entry.child
        for each in (born, later, adopt(transcript, "b", "c2"))
        for entry in each.entries
        if isinstance(entry, Call)
    ]
    assert children == ["b", "b", "b"]


def test_calls_of_one_reply_that_send_agents_know_of_each_other() -> None:
    other = ToolCall("c3", "Task", {"subagent_type": "Plan", "prompt": "plan"})
    transcript = told(MessageAdded(AssistantMessage("", (SEND, READ, other))))
    assert [entry.group for entry in transcript.entries if isinstance(entry, Call)] == [2, 1, 2]


def test_a_bad_end_is_remarked_and_a_good_one_is_not() -> None:
    good = told(TaskEnded(Status.COMPLETED, "x", reason=EndReason.FINISHED))
    bad = told(TaskEnded(Status.FAILED, error="the model is gone.", reason=EndReason.FAILED))
    assert good.entries == ()
    assert bad.entries == (Remark("Failed: the model is gone.", bad=True),)


def test_a_fact_that_comes_twice_counts_once() -> None:
    said = event(MessageAdded(UserMessage("once")), 1)
    transcript = hear(hear(Transcript("a"), said), said)
    assert transcript.entries == (IncomingMessage("once"),)


def test_events_of_others_change_nothing() -> None:
    transcript = told(MessageAdded(UserMessage("mine")))
    assert hear(transcript, event(TextArrived("theirs"), task="b")) is transcript


@given(st.integers(1, 120), st.integers(4, 20))
def test_only_the_last_entries_are_kept_and_the_others_counted(said: int, most: int) -> None:
    events = [event(MessageAdded(UserMessage(str(number))), number) for number in range(1, said + 1)]
    transcript = retold("a", events, most)
    assert len(transcript.entries) + transcript.dropped == said
    assert len(transcript.entries) <= most + most // 4
    assert transcript.entries[-1] == IncomingMessage(str(said))
