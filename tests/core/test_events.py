"""Facts are written as JSON and read back as they were."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.errors import CorruptFact
from gencode.core.events import (
    DurableFact,
    Event,
    MessageAdded,
    ProgressMade,
    TaskCreated,
    decode_fact,
    encode_fact,
    kind_of,
    plain,
    settle,
    unicode_text,
)
from gencode.core.messages import AssistantMessage, ToolCall, UserMessage
from tests.contracts.facts import durable, messages

anything = st.text(st.characters(codec=None), max_size=10)  # halves of surrogate pairs too


@given(durable)
def test_every_durable_fact_is_read_back_as_it_was(fact: DurableFact) -> None:
    assert decode_fact(encode_fact(fact)) == fact


@given(durable)
def test_a_fact_of_proper_text_is_settled_as_it_is(fact: DurableFact) -> None:
    assert settle(fact) == (fact, encode_fact(fact))


@given(anything, anything, st.dictionaries(anything, st.lists(anything, max_size=2), max_size=2))
def test_a_fact_of_any_text_is_settled_as_it_will_be_read(
    text: str, name: str, given_input: dict[str, object]
) -> None:
    fact = MessageAdded(AssistantMessage(text, (ToolCall("1", name, given_input),)))
    settled, body = settle(fact)
    assert decode_fact(body) == settled
    assert isinstance(settled, MessageAdded) and isinstance(settled.message, AssistantMessage)
    assert (settled.message.text, settled.message.calls[0].name) == (unicode_text(text), unicode_text(name))


def test_a_fact_that_is_no_json_is_refused_in_a_sentence() -> None:
    fact = MessageAdded(AssistantMessage("", (ToolCall("1", "t", {"deep": nested(100_000)}),)))
    with pytest.raises(CorruptFact, match="MessageAdded cannot be written as JSON"):
        settle(fact)


def nested(depth: int) -> list[object]:
    inner: list[object] = []
    for _ in range(depth):
        inner = [inner]
    return inner


@given(st.binary())
def test_bytes_that_are_no_fact_are_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptFact):
        decode_fact(body)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "null",
        "{}",
        '{"kind": "TaskCreated", "prompt": 7}',
        '{"kind": "MessageAdded"}',
        '{"kind": "ProgressMade", "text": "passing"}',
        '{"kind": "TaskCreated"',
        "[" * 100_000,
        "\udc80",
    ],
)
def test_text_that_is_no_durable_fact_is_corrupt(body: str) -> None:
    with pytest.raises(CorruptFact, match="cannot be read"):
        decode_fact(body)


def test_a_fact_of_an_unknown_kind_may_be_of_a_newer_version() -> None:
    with pytest.raises(CorruptFact, match="is of the kind 'Unheard', which this GenCode does not know"):
        decode_fact('{"kind": "Unheard", "why": "later"}')


def test_a_fact_from_a_newer_version_with_more_fields_is_read() -> None:
    assert decode_fact('{"kind": "TaskCreated", "prompt": "p", "mood": "sunny"}') == TaskCreated(prompt="p")


def test_an_event_is_one_flat_object() -> None:
    event = Event("9f3a1c2e", 2, "2026-11-15T02:32:00.123456Z", MessageAdded(UserMessage("hi")))
    assert plain(event) == {
        "task": "9f3a1c2e",
        "seq": 2,
        "at": "2026-11-15T02:32:00.123456Z",
        "kind": "MessageAdded",
        "message": {"role": "user", "text": "hi"},
    }


@given(durable)
def test_a_flat_event_is_json_and_keeps_every_field(fact: DurableFact) -> None:
    flat = json.loads(json.dumps(plain(Event("9f3a1c2e", 1, "now", fact))))
    assert (flat.pop("task"), flat.pop("seq"), flat.pop("at")) == ("9f3a1c2e", 1, "now")
    assert flat["kind"] == kind_of(fact)
    assert msgspec.convert(flat, type=DurableFact) == fact


def test_a_passing_fact_is_written_for_listeners_and_never_read_as_durable() -> None:
    body = encode_fact(ProgressMade("half way"))
    assert body == b'{"kind":"ProgressMade","text":"half way"}'
    with pytest.raises(CorruptFact):
        decode_fact(body)


@given(messages)
def test_messages_survive_the_wire(message: object) -> None:
    assert msgspec.json.decode(msgspec.json.encode(message), type=type(message)) == message
