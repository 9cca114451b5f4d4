"""What of a long transcript is summed up, and what stays: rules that hold for every transcript."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gencode.agent.call_budget import TokenEstimator, taken, weight
from gencode.agent.compaction import (
    CompactionPlan,
    by_gencode,
    planned,
    summary_message,
    summary_request,
    todos_in,
)
from gencode.core.events import Event, MessageAdded, TranscriptCompacted
from gencode.core.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
    is_summed_up,
)
from gencode.core.task import compacted, transcript_of, whole_transcript

texts = st.integers(0, 4_000).map(lambda size: "x" * size)
asked = st.builds(UserMessage, texts, st.sampled_from(["user", "system", "1a2b3c4d"]))
delivered = st.builds(UserMessage, texts, st.just("system"), st.just(("5e6f7a8b",)))


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """One reply with its results, and what comes after it."""
    names = draw(st.lists(st.sampled_from(["Read", "Bash", "TodoWrite"]), max_size=3))
    calls = tuple(ToolCall(f"c{number}", name, {"x": draw(texts)}) for number, name in enumerate(names))
    reply = AssistantMessage(draw(texts), calls, usage=draw(st.none() | st.just(Usage(9_000_000, 1))))
    results = (
        [ToolMessage(tuple(ToolResult(each.id, each.name, draw(texts)) for each in calls))] if calls else []
    )
    return [reply, *results, *draw(st.lists(asked | delivered, max_size=2))]


@st.composite
def transcripts(draw: st.DrawFn) -> list[Message]:
    """A task with its notes, and then turns."""
    notes = [UserMessage("a note", "system")] * draw(st.integers(0, 2))
    told = draw(st.lists(turns(), max_size=30))
    return [UserMessage(draw(texts)), *notes, *(message for turn in told for message in turn)]


def summed_up(transcript: Sequence[Message], room: int, text: str = "sum") -> list[Message] | None:
    plan = planned(transcript, room)
    if plan is None:
        return None
    note = UserMessage(text, "system", replaces=1)
    return compacted(transcript, TranscriptCompacted(plan.upto, note, plan.keeps))


def bare(messages: Sequence[Message]) -> list[Message]:
    """Without what replies say about tokens, which a summary makes void."""
    return compacted(messages, TranscriptCompacted(0, UserMessage("")))[1:]


@given(transcripts(), st.integers(100, 20_000))
def test_no_call_is_parted_from_its_result(transcript: list[Message], room: int) -> None:
    after = summed_up(transcript, room) or transcript
    for place, message in enumerate(after):
        if isinstance(message, AssistantMessage) and message.calls:
            assert isinstance(after[place + 1], ToolMessage)
        if isinstance(message, ToolMessage):
            before = after[place - 1]
            assert isinstance(before, AssistantMessage)
            assert [call.id for call in before.calls] == [result.call for result in message.results]


@given(transcripts(), st.integers(100, 20_000))
def test_what_was_not_answered_stays_and_so_does_what_was_asked_first_and_last(
    transcript: list[Message], room: int
) -> None:
    after = summed_up(transcript, room)
    if after is None:
        return
    unanswered: list[Message] = []
    for message in reversed(transcript):
        if not isinstance(message, UserMessage):
            break
        unanswered.insert(0, message)
    assert after[len(after) - len(unanswered) :] == unanswered
    said = [each for each in transcript if isinstance(each, UserMessage) and each.sender != "system"]
    for each in (said[0], said[-1]):
        assert each in after or weight(each) > room // 8


@given(transcripts(), st.integers(100, 20_000))
def test_a_summary_makes_room_and_nothing_is_said_twice(transcript: list[Message], room: int) -> None:
    after = summed_up(transcript, room)
    if after is None:
        return
    gone = sum(map(weight, transcript)) - sum(map(weight, after)) + weight(UserMessage("sum"))
    assert gone * 10 >= room
    assert is_summed_up(after) and len(after) <= len(transcript)
    assert taken(after, 0) == sum(map(weight, after))
    rest = iter(bare(transcript))
    assert all(any(each == other for other in rest) for each in after if not is_summed_up([each]))


@given(transcripts(), st.integers(100, 20_000), st.lists(turns(), max_size=5))
def test_the_journal_gives_the_same_transcript_and_keeps_every_message(
    transcript: list[Message], room: int, later: list[list[Message]]
) -> None:
    plan = planned(transcript, room)
    if plan is None:
        return
    note = UserMessage("sum", "system", replaces=1)
    fact = TranscriptCompacted(plan.upto, note, plan.keeps)
    more = [message for turn in later for message in turn]
    facts = [*map(MessageAdded, transcript), fact, *map(MessageAdded, more)]
    events = [Event("9f3a1c2e", seq, "", each) for seq, each in enumerate(facts, 2)]
    assert transcript_of(events) == [*compacted(transcript, fact), *more]
    assert whole_transcript(events) == [*transcript, *more]


@given(st.integers(-9, 99), st.lists(st.integers(-9, 99), max_size=9).map(tuple))
def test_a_fact_that_speaks_of_messages_that_are_not_there_does_no_harm(
    upto: int, keeps: tuple[int, ...]
) -> None:
    said: list[Message] = [UserMessage(str(number)) for number in range(5)]
    after = compacted(said, TranscriptCompacted(upto, UserMessage("sum"), keeps))
    assert UserMessage("sum") in after and len(after) <= 6


@given(transcripts(), st.integers(200, 5_000))
def test_texts_about_what_goes_are_bounded(transcript: list[Message], most: int) -> None:
    assert len(summary_request(transcript, most)) <= most + 200
    assert len(by_gencode(transcript, most)[1]) <= most + 200


def test_who_sums_up_is_shown_what_the_user_asked_although_that_stays() -> None:
    call = ToolCall("c", "Grep", {"pattern": "client", "-i": True})
    gone: list[Message] = [
        AssistantMessage("I look.", (call,)),
        ToolMessage((ToolResult("c", "Grep", "700 lines"),)),
    ]
    plan = CompactionPlan(3, (0,))
    transcript = [UserMessage("Tell me all TODO comments."), *gone, UserMessage("Never line 7.")]
    assert summary_request(plan.gone(transcript), 5_000, plan.requests_kept(transcript)) == (
        "Write the notes for this conversation.\n\n"
        "What was asked of the agent, which it still sees:\n"
        "> [said by user] Tell me all TODO comments.\n> [said by user] Never line 7.\n\n"
        "The conversation to replace:\n"
        '> [the agent] I look.\n> [calls Grep] {"pattern":"client","-i":true}\n> [Grep returned] 700 lines'
    )


def test_a_summary_has_an_end() -> None:
    note = summary_message("you", "one", "", "", count=9, replies=2)
    assert note.text.split("\n")[-1] == "[End of the summary. What follows are the messages after it.]"


def test_the_harness_tells_the_last_calls_and_how_many_lines_it_left_out() -> None:
    said: list[Message] = []
    for number in range(50):
        call = ToolCall(f"c{number}", "Read", {"file_path": f"{number}.py"})
        said += [
            AssistantMessage("", (call,)),
            ToolMessage((ToolResult(call.id, "Read", f"text {number}\nmore"),)),
        ]
    whom, text = by_gencode(said, 200)
    assert whom == "GenCode from the calls"
    assert text.split("\n") == [
        "[… 94 earlier lines left out]",
        *('[calls Read] {"file_path":"47.py"}', "[Read returned] text 47 more"),
        *('[calls Read] {"file_path":"48.py"}', "[Read returned] text 48 more"),
        *('[calls Read] {"file_path":"49.py"}', "[Read returned] text 49 more"),
    ]


def test_open_todos_come_from_the_last_list_that_was_taken_or_from_the_note_before() -> None:
    def wrote(text: str, *, error: bool = False) -> ToolMessage:
        return ToolMessage((ToolResult("1", "TodoWrite", text, error),))

    known = "## Open todos\n[ ] fake"
    earlier = summary_message(
        "a model", f"It said {known}", "[ ] kept\n\n## Notes", known, count=9, replies=2
    )
    assert todos_in([wrote("[ ] one"), wrote("[x] two"), wrote("bad", error=True)]) == "[x] two"
    assert todos_in([earlier, AssistantMessage("hm")]) == "[ ] kept\n\n## Notes"
    assert todos_in([earlier, wrote("[>] new")]) == "[>] new"
    assert todos_in([UserMessage("hi")]) == ""


def test_the_harness_carries_on_the_summary_before_whatever_is_in_its_text() -> None:
    earlier = summary_message("a model", "one\n\n## Open todos\ntwo", "[ ] kept", "", count=9, replies=2)
    assert by_gencode([earlier, AssistantMessage("hm")], 900)[1].split("\n") == [
        *("one", "", "## Open todos", "two"),
        "[the agent] hm",
    ]


@given(transcripts(), st.lists(st.integers(0, 60), max_size=4))
def test_a_transcript_that_is_weighed_as_it_grows_weighs_the_same(
    transcript: list[Message], looks: list[int]
) -> None:
    scale = TokenEstimator()
    for length in [*sorted(looks), len(transcript)]:
        assert scale.taken(transcript[:length], 5) == taken(transcript[:length], 5)


def test_room_is_counted_by_the_last_reply_and_by_size_after_it() -> None:
    reply = AssistantMessage("x" * 4_000, usage=Usage(1_000, 200))
    assert taken([UserMessage("y" * 40_000), reply], 77) == 1_200
    assert taken([UserMessage("y" * 40_000), reply, UserMessage("z" * 400)], 77) == 1_308
    assert taken([UserMessage("z" * 400)], 77) == 185
    assert weight(UserMessage("ü" * 400)) == 208
