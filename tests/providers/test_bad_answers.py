"""Everything a server can do wrong, in every dialect: a clear sentence, and the text before it is kept."""

import json

import pytest

from gencode.core.errors import ProviderError
from gencode.core.messages import Part
from gencode.providers.endpoint import HttpTimeouts
from tests.contracts.provider import KEY, Play, request, told
from tests.providers.dialects import DIALECTS, begun, name_of, provider_at
from tests.providers.fake_server import (
    Act,
    Exchange,
    events,
    fake_server,
    in_json,
    raw,
    reply,
    say_nothing,
    streamed,
)
from tests.providers.fake_server import hang_up as close_at_once

SHORT = HttpTimeouts(first_byte=0.2)
LONG = HttpTimeouts(first_byte=60, between_bytes=60)
SILENCE = HttpTimeouts(first_byte=60, between_bytes=1)
HALF = Play(("half ", "an answer "))
PAGE = b"<!DOCTYPE html>\n<html><title>Welcome to the hotel</title></html>"


@pytest.fixture(params=list(DIALECTS))
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


async def trouble(dialect: str, act: Act, timeouts: HttpTimeouts = LONG) -> tuple[ProviderError, str]:
    """The error that an answer leads to, and the text heard before it."""
    heard: list[Part] = []
    async with fake_server(act) as server:
        with pytest.raises(ProviderError) as raised:
            async for part in provider_at(dialect, server.url, timeouts).stream(request()):
                heard.append(part)
    assert name_of(dialect) in str(raised.value)
    assert KEY not in str(raised.value)
    return raised.value, told(heard)


async def test_garbage_is_an_error_that_shows_it(dialect: str) -> None:
    error, _ = await trouble(dialect, reply(b"hello, I am\x00 a printer", kind="text/plain"))
    assert "not a reply: “hello, I am a printer”" in str(error)
    assert not error.retryable


async def test_an_event_that_is_garbage_ends_the_reply_and_keeps_its_text(dialect: str) -> None:
    error, text = await trouble(dialect, streamed(b"".join(begun(dialect, HALF)) + b"data: {oops\n\n"))
    assert "not a reply: “{oops”" in str(error)
    assert text == "half an answer "


async def test_an_event_of_another_form_is_an_error(dialect: str) -> None:
    error, _ = await trouble(dialect, streamed(b'data: {"choices": 3, "type": []}\n\n'))
    assert "is not a reply" in str(error)


async def test_a_web_page_is_an_error_that_names_the_base_url(dialect: str) -> None:
    error, _ = await trouble(dialect, reply(PAGE, kind="text/html"))
    assert "answered with a web page instead of a reply; check the base URL, now http://127.0.0.1" in str(
        error
    )
    assert not error.retryable


async def test_json_that_is_no_answer_is_an_error(dialect: str) -> None:
    error, _ = await trouble(dialect, in_json({"hello": "world"}))
    assert 'not a reply: “{"hello": "world"}”' in str(error)


async def test_half_a_stream_may_be_retried_and_keeps_its_text(dialect: str) -> None:
    error, text = await trouble(dialect, streamed(*begun(dialect, HALF), then=close_at_once))
    assert "stopped in the middle of its answer" in str(error)
    assert (error.retryable, text) == (True, "half an answer ")


async def test_a_stream_that_ends_well_before_the_reply_does_is_half_a_stream(dialect: str) -> None:
    error, text = await trouble(dialect, streamed(*begun(dialect, HALF), b'data: {"type": "content_bl'))
    assert "stopped in the middle of its answer" in str(error)
    assert (error.retryable, text) == (True, "half an answer ")


async def test_text_that_arrives_together_with_the_break_is_kept(dialect: str) -> None:
    async def act(exchange: Exchange) -> None:
        said = b"".join(begun(dialect, HALF))
        exchange.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + said)

    error, text = await trouble(dialect, act)
    assert (error.retryable, text) == (True, "half an answer ")


OUTBURSTS = [
    ({"type": "overloaded_error", "message": "Overloaded"}, True, "overloaded_error: Overloaded"),
    ({"type": "rate_limit_error", "message": "Slow"}, True, "rate_limit_error: Slow"),
    ({"code": "server_error", "message": "Oops"}, True, "server_error: Oops"),
    ({"code": 502, "message": "Bad upstream"}, True, "502: Bad upstream"),
    ({"code": "insufficient_quota", "message": "Pay"}, False, "insufficient_quota: Pay"),
    ({"type": "invalid_request_error", "message": "No"}, False, "invalid_request_error: No"),
    ("plain words", False, "plain words"),
    ({"message": f"your key {KEY} is odd"}, False, "your key [key] is odd"),
]


@pytest.mark.parametrize(("error", "retryable", "said"), OUTBURSTS)
async def test_an_error_inside_the_stream_is_told_and_keeps_the_text(
    dialect: str, error: object, retryable: bool, said: str
) -> None:
    burst = b"".join((*begun(dialect, HALF), *events({"type": "error", "error": error}, named=True)))
    raised, text = await trouble(dialect, streamed(burst))
    assert f"broke off with an error ({said})" in str(raised)
    assert (raised.retryable, text) == (retryable, "half an answer ")


async def test_an_error_with_status_200_is_an_error(dialect: str) -> None:
    error, _ = await trouble(
        dialect, in_json({"type": "error", "error": {"type": "api_error", "message": "Oops"}})
    )
    assert "broke off with an error (api_error: Oops)" in str(error)
    assert error.retryable


async def test_failed_responses_and_bare_errors_of_the_responses_api_are_told() -> None:
    failed = {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "Oops"}}}
    bare = {"type": "error", "code": "rate_limit_exceeded", "message": "Slow"}
    for event, said in ((failed, "server_error: Oops"), (bare, "rate_limit_exceeded: Slow")):
        error, _ = await trouble("responses", streamed(*events(event)))
        assert f"({said})" in str(error)
        assert error.retryable


async def test_a_choice_that_ends_in_an_error_is_an_error() -> None:
    chunk = {"choices": [{"delta": {"content": ""}, "finish_reason": "error"}]}
    assert (await trouble("chat", streamed(*events(chunk))))[0].retryable


async def test_a_server_that_never_answers_is_given_up(dialect: str) -> None:
    error, _ = await trouble(dialect, say_nothing, SHORT)
    assert "did not answer within 0.2 s" in str(error)
    assert error.retryable


async def test_a_server_that_accepts_and_says_nothing_is_given_up(dialect: str) -> None:
    error, _ = await trouble(dialect, streamed(then=say_nothing), HttpTimeouts(first_byte=1))
    assert "accepted the request, then sent nothing for 1 s" in str(error)
    assert error.retryable


async def test_a_server_that_falls_silent_is_given_up_and_the_text_is_kept(dialect: str) -> None:
    error, text = await trouble(dialect, streamed(*begun(dialect, HALF), then=say_nothing), SILENCE)
    assert "fell silent for 1 s in the middle" in str(error)
    assert (error.retryable, text) == (True, "half an answer ")


async def test_a_server_that_closes_at_once_may_be_asked_again(dialect: str) -> None:
    for act in (close_at_once, streamed(), streamed(then=close_at_once)):
        error, _ = await trouble(dialect, act)
        assert "without an answer" in str(error) or "in the middle" in str(error)
        assert error.retryable


async def test_something_that_is_not_http_is_an_error(dialect: str) -> None:
    error, _ = await trouble(dialect, raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"))
    assert "is not HTTP" in str(error)
    assert not error.retryable


async def test_a_stream_whose_framing_breaks_is_given_up(dialect: str) -> None:
    """aiohttp itself waits for ever here."""
    broken = streamed(*begun(dialect, HALF), then=raw(b"zz\r\nnot a chunk\r\n"))
    error, text = await trouble(dialect, broken, SILENCE)
    assert "in the middle of its answer" in str(error)
    assert (error.retryable, text) == (True, "half an answer ")


REFUSALS = [
    ("401 Unauthorized", "refused the API key (HTTP 401: no)", False),
    ("403 Forbidden", "refused the API key (HTTP 403: no)", False),
    ("400 Bad Request", "refused the request (HTTP 400: no)", False),
    ("413 Too Large", "refused the request (HTTP 413: no)", False),
    ("429 Too Many", "too many requests (HTTP 429: no)", True),
    ("500 Oops", "is temporarily unavailable (HTTP 500: no)", True),
    ("503 Busy", "is temporarily unavailable (HTTP 503: no)", True),
    ("529 Overloaded", "is temporarily unavailable (HTTP 529: no)", True),
]


@pytest.mark.parametrize(("status", "said", "retryable"), REFUSALS)
async def test_a_refusal_is_told_in_a_sentence(dialect: str, status: str, said: str, retryable: bool) -> None:
    error, _ = await trouble(dialect, in_json({"error": {"type": "x", "message": "no"}}, status))
    assert said in str(error)
    assert (error.retryable, error.retry_after) == (retryable, None)


async def test_a_model_that_does_not_exist_is_told_with_the_address(dialect: str) -> None:
    error, _ = await trouble(dialect, in_json({"error": {"message": "model: some-model"}}, "404 Not Found"))
    assert "was not found at http://127.0.0.1:" in str(error)
    assert "(HTTP 404: model: some-model). Check the model's name and the base URL." in str(error)


async def test_a_quota_that_is_used_up_is_not_worth_waiting_for(dialect: str) -> None:
    complaint = {"error": {"code": "insufficient_quota", "message": "Pay first"}}
    assert not (await trouble(dialect, in_json(complaint, "429 Too Many")))[0].retryable


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after_ms": "1500", "retry_after": "2"}, 1.5),
        ({"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-3"}, None),
        ({"retry_after": "inf"}, None),
    ],
)
async def test_the_wait_a_server_asks_for_is_passed_on(
    headers: dict[str, str], seconds: float | None
) -> None:
    error, _ = await trouble("anthropic", in_json({"error": "slow"}, "429 Too Many", **headers))
    assert (error.retryable, error.retry_after) == (True, seconds)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (json.dumps({"error": {"message": f"Incorrect API key: {KEY}"}}), "Incorrect API key: [key]"),
        (json.dumps({"detail": [{"msg": "field required", "type": "missing"}]}), "field required"),
        (json.dumps([{"error": {"message": "in a list"}}]), "in a list"),
        (json.dumps({"object": "error", "message": "flat"}), "flat"),
        (json.dumps({"error": "a word"}), "a word"),
        (PAGE.decode(), "a web page"),
        ("not json", "not json"),
        ("x" * 9000, "x" * 300 + "…"),
        ("[" * 9000, "[" * 300 + "…"),
    ],
)
async def test_errors_are_understood_in_every_form(body: str, said: str) -> None:
    error, _ = await trouble("chat", reply(body.encode(), "400 Bad Request", "text/plain"))
    assert str(error) == f"openai/some-model refused the request (HTTP 400: {said})."


async def test_an_error_without_words_is_told_by_its_status() -> None:
    error, _ = await trouble("chat", reply(b"", "502 Bad Gateway"))
    assert str(error) == "openai/some-model is temporarily unavailable (HTTP 502)."


async def test_a_redirect_is_never_followed_because_the_key_would_go_with_it() -> None:
    async with fake_server(in_json({})) as other:
        place = f"{other.url}/v1/messages?secret=1"
        error, _ = await trouble("anthropic", reply(b"", "307 Moved", location=place))
        assert other.asked == []
    assert f"redirects to {other.url}/v1/messages; change its base URL" in str(error)
