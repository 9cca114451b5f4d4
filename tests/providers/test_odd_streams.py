"""Answers that are odd but can be understood, and some that cannot. Over real HTTP, in every dialect."""

import json
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.errors import ProviderError
from gencode.core.messages import CallPart, EndPart, Part, TextPart, ToolCall, Usage
from gencode.providers.endpoint import EventSplitter
from gencode.providers.reply_stream import DEEPEST, TOO_DEEP
from tests.contracts.provider import Play, parts_of, request, told
from tests.providers.dialects import (
    DIALECTS,
    begun,
    call_block,
    chat_call,
    chat_chunk,
    closing,
    name_of,
    opening,
    provider_at,
)
from tests.providers.fake_server import Act, Exchange, events, fake_server, in_json, reply, streamed

PLAY = Play(("ü ", "hi "), (("lookup", {"key": "a"}),))
BOM = b"\xef\xbb\xbf"


@pytest.fixture(params=list(DIALECTS))
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


async def heard(dialect: str, act: Act) -> list[Part]:
    async with fake_server(act) as server:
        return await parts_of(provider_at(dialect, server.url))


async def trouble(dialect: str, act: Act) -> tuple[ProviderError, str]:
    """The error that an answer leads to, and the text heard before it."""
    parts: list[Part] = []
    async with fake_server(act) as server:
        with pytest.raises(ProviderError) as raised:
            async for part in provider_at(dialect, server.url).stream(request()):
                parts.append(part)
    assert name_of(dialect) in str(raised.value)
    return raised.value, told(parts)


def encoded(kind: str, pieces: Sequence[bytes]) -> Act:
    """A stream that says it is encoded."""
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def act(exchange: Exchange) -> bool:
        chunks = (b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece)
        await exchange.send(head.encode(), *chunks, b"0\r\n\r\n")
        return True

    return act


def gzipped(pieces: Sequence[bytes]) -> list[bytes]:
    squeezer = zlib.compressobj(wbits=31)
    squeezed = [squeezer.compress(piece) + squeezer.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    return [*squeezed, squeezer.flush()]


async def test_every_kind_of_line_end_is_understood_wherever_it_is_cut(dialect: str) -> None:
    plain = DIALECTS[dialect](PLAY)
    whole = await heard(dialect, streamed(*plain))
    for end in (b"\r", b"\r\n"):
        said = [event.replace(b"\n", end) for event in plain]
        assert await heard(dialect, streamed(*said)) == whole
        cut = [piece for event in said for piece in (event[:-1], event[-1:])]
        assert await heard(dialect, streamed(*cut)) == whole


async def test_a_byte_order_mark_is_passed_over_even_in_pieces(dialect: str) -> None:
    plain = DIALECTS[dialect](PLAY)
    whole = await heard(dialect, streamed(*plain))
    assert await heard(dialect, streamed(BOM + plain[0], *plain[1:])) == whole
    assert await heard(dialect, streamed(BOM[:1], BOM[1:], *plain)) == whole


async def test_data_on_several_lines_is_one_event(dialect: str) -> None:
    plain = DIALECTS[dialect](PLAY)
    spread = [event.replace(b", ", b",\ndata: ") for event in plain]
    assert spread != plain
    assert await heard(dialect, streamed(*spread)) == await heard(dialect, streamed(*plain))


async def test_a_compressed_stream_is_read_though_nobody_asked_for_it(dialect: str) -> None:
    plain = DIALECTS[dialect](PLAY)
    squeezed = await heard(dialect, encoded("gzip", gzipped(plain)))
    assert squeezed == await heard(dialect, streamed(*plain))


async def test_a_compressed_stream_that_breaks_keeps_its_text(dialect: str) -> None:
    error, text = await trouble(dialect, encoded("gzip", gzipped(begun(dialect, PLAY))[:-1]))
    assert (error.retryable, text) == (True, "ü hi ")
    error, text = await trouble(dialect, encoded("gzip", [b"this is not compressed"]))
    assert "in the middle of its answer" in str(error)


async def test_a_line_of_ten_megabytes_is_read() -> None:
    text = "ü" * 5_000_000
    event = events(chat_chunk({"content": text}, "stop"))[0]
    pieces = [event[start : start + 1_000_003] for start in range(0, len(event), 1_000_003)]
    assert (await heard("chat", streamed(*pieces)))[0] == TextPart(text)


async def test_bytes_that_are_no_text_end_the_reply_and_keep_what_came_before(dialect: str) -> None:
    said = b"".join(begun(dialect, PLAY)) + b'data: {"type": "\xff", "model": "\xfe"}\n\n'
    error, text = await trouble(dialect, streamed(said))
    assert "is not a reply" in str(error)
    assert (error.retryable, text) == (False, "ü hi ")


async def test_half_a_character_is_lost_and_nothing_else() -> None:
    halves = [
        b'data: {"choices":[{"delta":{"content":"a\\%b"}}]}\n\n' % half for half in (b"ud83d", b"ude00")
    ]
    parts = await heard("chat", streamed(*halves, *events(chat_chunk({}, "stop"))))
    assert parts == [TextPart("a?"), TextPart("a?"), EndPart("openai/mock-1", "end_turn")]


def wish(dialect: str, arguments: str) -> Act:
    """A reply that is one call with these arguments."""
    if dialect == "anthropic":
        said = events(opening(), *call_block(0, "c1", "lookup", [arguments]), *closing("tool_use"))
    elif dialect == "chat":
        said = events(chat_chunk(chat_call(0, arguments, "c1", "lookup"), "tool_calls"), b"[DONE]")
    else:
        item = {"type": "function_call", "call_id": "c1", "name": "lookup", "arguments": arguments}
        done = {"type": "response.completed", "response": {"model": "mock-1"}}
        said = events({"type": "response.output_item.done", "item": item}, done)
    return streamed(*said)


def nested(depth: int, open_with: str = "[", close_with: str = "]") -> str:
    return '{"a":' + open_with * (depth - 1) + "1" + close_with * (depth - 1) + "}"


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a": 1e999}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1',
        "[1]",
        "a=1",
        "null",
        '"a"',
        '{"a": "\\ud83d"}',
        "{'a': 1}",
        '{"a": 1}{"a": 2}',
        '{"a": 1,}',
        nested(DEEPEST + 1),
        nested(950),
        nested(5000),
        nested(DEEPEST + 1, '{"b":', "}"),
    ],
    ids=lambda text: text[:20],
)
async def test_arguments_that_cannot_be_used_are_kept_for_the_model_to_see(
    dialect: str, arguments: str
) -> None:
    assert (await heard(dialect, wish(dialect, arguments)))[0] == CallPart(
        ToolCall("c1", "lookup", {}, broken=arguments)
    )


@pytest.mark.parametrize(
    "arguments",
    [
        nested(DEEPEST),
        json.dumps({"a": [[{"b": []}]] * DEEPEST}),
        '{"a": 1e308, "b": 123456789012345678901}',
        '{"a": "\\ud83d\\ude00"}',
        '{"a": 1, "a": 2}',
        ' \n{"a":\t1}\n',
    ],
    ids=lambda text: text[:20],
)
async def test_odd_arguments_that_can_be_used_are(dialect: str, arguments: str) -> None:
    assert (await heard(dialect, wish(dialect, arguments)))[0] == CallPart(
        ToolCall("c1", "lookup", json.loads(arguments))
    )


async def test_arguments_that_come_as_an_object_may_not_be_too_deep_either() -> None:
    deep: dict[str, Any] = json.loads(nested(DEEPEST + 1))
    call = ToolCall("c1", "lookup", {}, broken=TOO_DEEP)
    piece = {"index": 0, "id": "c1", "function": {"name": "lookup", "arguments": deep}}
    assert (await heard("chat", streamed(*events(chat_chunk({"tool_calls": [piece]}, "stop")))))[
        0
    ] == CallPart(call)
    start = {"type": "tool_use", "id": "c1", "name": "lookup", "input": deep}
    whole = {"content": [start], "stop_reason": "tool_use"}
    assert (await heard("anthropic", in_json(whole)))[0] == CallPart(call)


@pytest.mark.parametrize("tokens", [-100, 1e300, 10**30])
async def test_tokens_that_no_reply_can_have_taken_are_unknown(dialect: str, tokens: float) -> None:
    wrong = str(int(tokens) if dialect != "chat" else tokens).encode()
    said = [event.replace(b": 10,", b": %b," % wrong) for event in DIALECTS[dialect](PLAY)]
    end = (await heard(dialect, streamed(*said)))[-1]
    assert isinstance(end, EndPart)
    assert end.usage is None


async def test_no_more_tokens_can_come_from_the_cache_than_there_are() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}}
    parts = await heard("chat", streamed(*events(chat_chunk({"content": "hi"}, "stop", usage=usage))))
    assert parts[-1] == EndPart("openai/mock-1", "end_turn", Usage(5, 1, 5))


ODD_ERRORS = [
    (b'{"error":' * 900 + b"1" + b"}" * 900, "no reason given"),
    (b'{"message":' + b"[" * 900 + b"]" * 900 + b"}", "no reason given"),
    (b'{"code": "%b"}' % (b"9" * 9000), "9" * 60 + "…"),
    (b'[{"error": [{"message": "deep"}]}]', "deep"),
    (b"17", "17"),
]


@pytest.mark.parametrize(("error", "said"), ODD_ERRORS, ids=lambda each: str(each[:12]))
async def test_an_error_in_an_odd_form_is_still_one(dialect: str, error: bytes, said: str) -> None:
    burst = b"".join(begun(dialect, PLAY)) + b'data: {"type": "error", "error": %b}\n\n' % error
    raised, text = await trouble(dialect, streamed(burst))
    assert f"broke off with an error ({said})" in str(raised)
    assert text == "ü hi "


async def test_a_compression_that_nobody_knows_here_is_told() -> None:
    error, _ = await trouble("chat", encoded("br", [b"anything"]))
    assert "answered in a compressed form" in str(error) or "in the middle of its answer" in str(error)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(dialect: str, status: int) -> None:
    async with fake_server(in_json({})) as other:
        error, _ = await trouble(dialect, reply(b"", f"{status} Moved", location=f"{other.url}/v1"))
        assert other.asked == []
    assert f"redirects to {other.url}/v1; change its base URL" in str(error)
    assert not error.retryable


async def test_a_redirect_to_nowhere_is_told() -> None:
    error, _ = await trouble("chat", reply(b"", "308 Moved"))
    assert "but redirects to nowhere; change its base URL" in str(error)


async def test_a_page_in_place_of_the_api_is_told(dialect: str) -> None:
    error, _ = await trouble(dialect, reply(b"<html>no such page</html>", "404 Not Found", "text/html"))
    assert "(HTTP 404: a web page). Check the model's name and the base URL." in str(error)
    assert not error.retryable


STREAM = (
    b': note\n\ndata: one\n\nevent: x\ndata: {"a":\ndata: 1}\n\n\n\n'
    b"data:bare\nid: 1\n\ndata: \xc3\xbc\n\ndata:\n\n"
)
DATA = [b"one", b'{"a":\n1}', b"bare", "ü".encode(), b""]


@given(st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 2 * len(STREAM))))
def test_events_are_the_same_whatever_ends_their_lines_and_wherever_they_are_cut(
    end: bytes, cuts: list[int]
) -> None:
    stream = STREAM.replace(b"\n", end)
    splitter = EventSplitter()
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    found = [each for start, end in pairwise(places) for each in splitter.feed(stream[start:end])]
    assert found + splitter.rest() == DATA
