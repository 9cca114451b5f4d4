"""The most that a call can cost: known before it is made, and true where the model keeps to its limit."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agent.call_budget import (
    HIDDEN,
    LARGEST_PICTURE,
    LONG_REPLY,
    LONGEST_REPLY,
    PICTURE,
    at_most,
    reply_room,
    weight,
)
from gencode.agent.ports import Request
from gencode.core.budget import Budget, Price
from gencode.core.messages import (
    AssistantMessage,
    Image,
    Message,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)

MODEL = "vendor/model-2"
PRICE = Price(input=1.0, output=5.0, reply=64_000)
REPLY = AssistantMessage("said", usage=Usage(1_000, 50), model="model-2-20260101")


def request(*messages: Message, system: str = "", model: str = MODEL, most: int | None = None) -> Request:
    return Request(model, system, messages, (), max_tokens=most)


@given(
    before=st.lists(st.text(max_size=200), max_size=4),
    known=st.none() | st.tuples(st.integers(1, 10_000), st.integers(0, 1_000)),
    after=st.lists(st.text(max_size=200), max_size=4),
    most=st.integers(1, 20_000),
)
def test_where_every_byte_is_a_token_a_call_costs_no_more_than_was_said_before(
    before: list[str], known: tuple[int, int] | None, after: list[str], most: int
) -> None:
    """The worst that a text can be; a reply told how much the model had heard and said up to then."""
    reply = AssistantMessage("ok", usage=Usage(*known) if known else None, model="model-2")
    told = (*map(UserMessage, before), reply, *map(UserMessage, after))
    since = sum(len(each.encode("utf-8", "surrogatepass")) for each in (*(() if known else before), *after))
    heard = since + (sum(known) if known else 2)
    tokens, usd = at_most(request(*told, most=most), PRICE)
    assert heard + most <= tokens
    assert usd is not None
    assert (heard * 1.0 + most * 5.0) / 1e6 <= usd


def test_what_another_model_counted_says_nothing() -> None:
    told = (UserMessage("x" * 400), REPLY, UserMessage("y"))
    assert at_most(request(*told), PRICE)[0] < 1_050 + 200 + LONGEST_REPLY
    other = at_most(request(*told, model="vendor/other"), PRICE)[0]
    assert other == len(msgspec.json.encode(told)) + 3 * 8 + HIDDEN + 1 + LONGEST_REPLY


def test_a_picture_may_cost_more_than_its_bytes() -> None:
    shown = ToolMessage((ToolResult("c", "Read", "", images=(Image("image/png", "MQ=="),)),))
    assert at_most(request(REPLY, shown), PRICE)[0] > 1_050 + LARGEST_PICTURE + LONGEST_REPLY


def test_a_large_picture_of_a_person_costs_no_more_than_a_picture_can() -> None:
    shown = UserMessage("what is it?", images=(Image("image/png", "A" * 1_000_000),))
    most = at_most(request(REPLY, shown), PRICE)[0] - LONGEST_REPLY
    assert 1_050 + LARGEST_PICTURE < most < 1_050 + LARGEST_PICTURE + 500
    assert PICTURE < weight(shown) < PICTURE + 100


def test_instructions_count_until_a_reply_has_told_how_many_tokens_they_have() -> None:
    told = request(UserMessage("go"), system="é" * 4_000)
    assert at_most(told, PRICE)[0] >= 4_000 + HIDDEN + LONGEST_REPLY
    assert at_most(request(REPLY, system="é" * 4_000), Price())[0] < 1_100 + LONGEST_REPLY


@pytest.mark.parametrize(
    ("left", "most", "room"),
    [
        (Budget(turns=3), None, None),
        (Budget(turns=3), 100, 100),
        (Budget(tokens=10), None, LONGEST_REPLY),
        (Budget(tokens=160_000), None, 20_000),
        (Budget(tokens=200_000), 100_000, 25_000),
        (Budget(tokens=160_000), 100, 100),
        (Budget(tokens=9_000_000), None, LONG_REPLY),
        (Budget(tokens=9_000_000, usd=0.8), None, 20_000),
        (Budget(usd=0.001), None, LONGEST_REPLY),
    ],
)
def test_a_reply_beside_others_gets_an_eighth_of_what_is_left(
    left: Budget, most: int | None, room: int | None
) -> None:
    assert reply_room(request(most=most), left, PRICE) == room


@pytest.mark.parametrize(
    ("price", "room"),
    [
        (Price(), LONGEST_REPLY),
        (Price(reply=4_096), 4_096),
        (Price(reply=16_384), 16_384),
        (Price(reply=128_000), LONG_REPLY),
        (Price(context=1_000_000), LONGEST_REPLY),
        (Price(context=16_000), LONGEST_REPLY),
        (Price(context=8_000), 8_000 - 1_050 - len('[{"type":"user","text":"go"}]') - 8),
    ],
)
def test_no_reply_is_asked_for_that_is_longer_than_the_model_can_give(price: Price, room: int) -> None:
    asked = request(REPLY, UserMessage("go"))
    assert reply_room(asked, Budget(tokens=9_000_000), price) == room


def test_a_reply_always_gets_the_fifth_that_a_conversation_leaves_free() -> None:
    full = request(REPLY, UserMessage("x" * 50_000))
    assert reply_room(full, Budget(tokens=9_000_000), Price(context=16_000)) == 3_200


def test_what_is_free_bounds_no_reply() -> None:
    assert reply_room(request(), Budget(usd=1.0), Price(input=0.0, output=0.0)) is None
