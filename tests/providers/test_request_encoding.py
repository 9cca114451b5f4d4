"""Transcripts as turns: whatever they hold and however they change, what is kept never goes stale."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agent.ports import ToolSchema
from gencode.core.messages import AssistantMessage, Message, ToolMessage, ToolResult, UserMessage
from gencode.providers import request_encoding
from gencode.providers.request_encoding import ApiTurn, ToolEncoder, TranscriptEncoder, api_name

TEXTS = st.sampled_from(["", " ", "one", "two"])
RESULTS = st.builds(ToolResult, st.just("c"), st.just("t"), TEXTS)
MESSAGES = st.one_of(
    st.builds(UserMessage, TEXTS),
    st.builds(AssistantMessage, TEXTS),
    st.builds(ToolMessage, st.tuples(RESULTS)),
)
KINDS = st.sampled_from(["add", "replace", "cut"])
CHANGES = st.lists(st.tuples(KINDS, st.integers(0, 9), MESSAGES), max_size=25)


def role_of(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return "user"
    role = "assistant" if isinstance(message, AssistantMessage) else "user"
    return role if message.text.strip() else ""


def encode(turn: ApiTurn) -> bytes:
    return repr((turn.role, turn.messages)).encode()


def changed(history: list[Message], what: str, place: int, message: Message) -> None:
    if what == "add" or not history:
        history.append(message)
    elif what == "replace":
        history[place % len(history)] = message
    else:
        del history[place % len(history) :]


@given(CHANGES, st.integers(1, 3))
def test_what_is_kept_is_what_would_be_encoded_now(
    changes: list[tuple[str, int, Message]], open_turns: int
) -> None:
    kept = TranscriptEncoder(role_of, encode, open_turns)
    history: list[Message] = []
    for what, place, message in changes:
        changed(history, what, place, message)
        fresh = TranscriptEncoder(role_of, encode, open_turns)
        assert b",".join(kept.encode("task", history)) == b",".join(fresh.encode("", history))


@given(st.lists(MESSAGES, max_size=12))
def test_turns_alternate_and_the_user_has_the_first_and_the_last_word(history: list[Message]) -> None:
    settled, last = TranscriptEncoder(role_of, encode, open_turns=100).settled_and_last("", history)
    expected = ["user", "assistant"] * len(last)
    assert [turn.role for turn in last] == expected[: len(last)]
    assert (settled, last[-1].role) == (b"", "user")
    given = [message for message in history if role_of(message)]
    assert [message for turn in last for message in turn.messages if message in history] == given


def test_conversations_that_were_not_used_for_long_are_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_encoding, "MOST_KEPT", 5)
    encoded: list[ApiTurn] = []

    def watch(turn: ApiTurn) -> bytes:
        encoded.append(turn)
        return b"12"

    conversations = TranscriptEncoder(role_of, watch, open_turns=1)
    history: list[Message] = [UserMessage("one"), AssistantMessage("two"), UserMessage("three")]
    for task in ("a", "b", "a", "b"):
        encoded.clear()
        assert b",".join(conversations.encode(task, history)) == b"12,12,12"
        assert len(encoded) == 3
    encoded.clear()
    assert b",".join(conversations.encode("b", history)) == b"12,12,12"
    assert len(encoded) == 1


def test_tools_are_encoded_once_as_long_as_they_are_the_same() -> None:
    seen: list[str] = []

    def note(tools: tuple[ToolSchema, ...]) -> bytes:
        seen.append(tools[0].name)
        return tools[0].name.encode()

    tool_encoder = ToolEncoder(lambda tools: note(tuple(tools)))
    asked = [tool_encoder.encode((ToolSchema(name, "", {}),)) for name in ("a", "b", "a", "b")]
    assert (asked, seen) == ([b"a", b"b", b"a", b"b"], ["a", "b"])


@pytest.mark.parametrize(
    ("text", "name"), [("Read", "Read"), ("a.b c/ü", "a_b_c__"), ("", "_"), ("x" * 99, "x" * 64)]
)
def test_names_are_made_fit_for_the_wire(text: str, name: str) -> None:
    assert api_name(text) == name
