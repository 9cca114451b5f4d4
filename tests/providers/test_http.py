"""The wire: connections, limits, trouble of every kind. Real HTTP against a fake server, in every dialect."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.errors import ProviderError, UserMistake
from gencode.core.messages import UserMessage
from gencode.providers.anthropic import AnthropicProvider
from gencode.providers.http import EventSplitter, Patience, address, hang_up
from gencode.providers.openai import OpenAIProvider
from gencode.runtime.ports import EndPart, Part, Request, TextPart
from tests.contracts.provider import KEY, Play, parts_of, request, told
from tests.providers.dialects import DIALECTS, begun, closing, name_of, provider_at
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

SHORT = Patience(connect=5, first_byte=0.2, between_bytes=0.2)
HALF = Play(("half ", "an answer "))
PAGE = b"<!DOCTYPE html>\n<html><title>Welcome to the hotel</title></html>"


@pytest.fixture(params=list(DIALECTS))
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


async def trouble(dialect: str, act: Act, patience: Patience = SHORT) -> tuple[ProviderError, str]:
    """The error that an answer leads to, and the text heard before it."""
    heard: list[Part] = []
    async with fake_server(act) as server:
        with pytest.raises(ProviderError) as raised:
            async for part in provider_at(dialect, server.url, patience).stream(request()):
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
    error, _ = await trouble(dialect, say_nothing)
    assert "did not answer within 0.2 s" in str(error)
    assert error.retryable


async def test_a_server_that_accepts_and_says_nothing_is_given_up(dialect: str) -> None:
    error, _ = await trouble(dialect, streamed(then=say_nothing))
    assert "accepted the request, then sent nothing for 0.2 s" in str(error)
    assert error.retryable


async def test_a_server_that_falls_silent_is_given_up_and_the_text_is_kept(dialect: str) -> None:
    patience = Patience(first_byte=60, between_bytes=0.2)
    error, text = await trouble(dialect, streamed(*begun(dialect, HALF), then=say_nothing), patience)
    assert "fell silent for 0.2 s in the middle" in str(error)
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


async def test_a_broken_frame_in_the_stream_is_half_a_stream(dialect: str) -> None:
    error, text = await trouble(dialect, streamed(*begun(dialect, HALF), then=raw(b"zz\r\nnot a chunk\r\n")))
    assert "stopped in the middle" in str(error)
    assert text == "half an answer "


REFUSALS = [
    ("401 Unauthorized", "refused the API key (HTTP 401: no)", False),
    ("403 Forbidden", "refused the API key (HTTP 403: no)", False),
    ("400 Bad Request", "refused the request (HTTP 400: no)", False),
    ("413 Too Large", "refused the request (HTTP 413: no)", False),
    ("429 Too Many", "has had too many requests (HTTP 429: no)", True),
    ("500 Oops", "cannot answer just now (HTTP 500: no)", True),
    ("503 Busy", "cannot answer just now (HTTP 503: no)", True),
    ("529 Overloaded", "cannot answer just now (HTTP 529: no)", True),
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
    assert str(error) == "openai/some-model cannot answer just now (HTTP 502)."


async def test_a_redirect_is_never_followed_because_the_key_would_go_with_it() -> None:
    async with fake_server(in_json({})) as other:
        place = f"{other.url}/v1/messages?secret=1"
        error, _ = await trouble("anthropic", reply(b"", "307 Moved", location=place))
        assert other.asked == []
    assert f"redirects to {other.url}/v1/messages; change its base URL" in str(error)


async def test_a_port_where_nothing_listens_is_told(dialect: str) -> None:
    async with fake_server(close_at_once) as server:
        url = server.url
    with pytest.raises(ProviderError, match="nothing listens there. Check the base URL") as raised:
        await parts_of(provider_at(dialect, url))
    assert name_of(dialect) in str(raised.value)
    assert not raised.value.retryable


async def test_a_host_that_does_not_exist_is_told(dialect: str) -> None:
    with pytest.raises(ProviderError, match=r"cannot be reached at http://nowhere\.invalid/v1/"):
        await parts_of(provider_at(dialect, "http://nowhere.invalid"))


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
async def test_a_base_url_may_have_a_slash_or_a_version(dialect: str, ending: str) -> None:
    async with fake_server(streamed(*DIALECTS[dialect](Play(("hi",))))) as server:
        assert told(await parts_of(provider_at(dialect, server.url + ending))) == "hi"
        method = {"anthropic": "messages", "chat": "chat/completions", "responses": "responses"}[dialect]
        assert server.last.path == f"/v1/{method}"


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://openrouter.ai/api", "https://openrouter.ai/api/v1/chat/completions"),
        ("https://g.example/v1beta/openai/", "https://g.example/v1beta/openai/chat/completions"),
        ("https://z.example/api/paas/v4", "https://z.example/api/paas/v4/chat/completions"),
        ("http://h.example:8/inference/chat/completions/", "http://h.example:8/inference/chat/completions"),
        (
            "https://a.example/openai/v1?api-version=3#x",
            "https://a.example/openai/v1/chat/completions?api-version=3",
        ),
        (" http://[::1]:11434 ", "http://[::1]:11434/v1/chat/completions"),
    ],
)
def test_base_urls_of_known_servers_lead_to_their_method(base: str, url: str) -> None:
    assert address(base, "/chat/completions") == url


@pytest.mark.parametrize("base", ["", "localhost:11434", "ftp://h", "http://", "http://[", "http://h:99999"])
def test_a_base_url_that_is_no_address_is_the_users_mistake(base: str) -> None:
    with pytest.raises(UserMistake, match="is not an address like https://host/v1"):
        AnthropicProvider("m", key=KEY, base_url=base)


def test_a_base_url_never_holds_a_password() -> None:
    with pytest.raises(UserMistake, match="must not hold a user name or password") as raised:
        OpenAIProvider("m", key=KEY, base_url="https://me:hunter2@h/v1")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("key", ["two\nlines", "schlüssel", "a\x00b"])
def test_a_key_that_cannot_be_one_is_the_users_mistake(key: str) -> None:
    with pytest.raises(UserMistake, match="holds characters that no key has") as raised:
        AnthropicProvider("m", key=key)
    assert key not in str(raised.value)


async def test_a_key_may_be_copied_with_its_line_end() -> None:
    async with fake_server(streamed(*DIALECTS["chat"](Play(("hi",))))) as server:
        assert await parts_of(OpenAIProvider("m", key=f" {KEY}\n", base_url=server.url))
        assert server.last.headers["authorization"] == f"Bearer {KEY}"


@pytest.fixture
def clean_proxies(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    yield monkeypatch


async def test_the_proxy_of_the_environment_is_used(dialect: str, clean_proxies: pytest.MonkeyPatch) -> None:
    async with fake_server(streamed(*DIALECTS[dialect](Play(("hi",))))) as proxy:
        clean_proxies.setenv("http_proxy", proxy.url.replace("http://", "http://me:hunter2@"))
        assert told(await parts_of(provider_at(dialect, "http://model.invalid"))) == "hi"
        assert proxy.last.path.startswith("http://model.invalid/v1/")
        assert "proxy-authorization" in proxy.last.headers


async def test_hosts_that_need_no_proxy_are_asked_directly(clean_proxies: pytest.MonkeyPatch) -> None:
    async with fake_server(streamed(*DIALECTS["chat"](Play(("hi",))))) as server:
        clean_proxies.setenv("http_proxy", "http://127.0.0.1:9")
        clean_proxies.setenv("no_proxy", "127.0.0.1")
        assert told(await parts_of(provider_at("chat", server.url))) == "hi"


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("http://me:hunter2@127.0.0.1:9", "the proxy of the environment does not answer"),
        ("127.0.0.1:9", "the proxy of the environment does not answer"),
        ("socks5://me:hunter2@127.0.0.1:9", "Check the base URL and the proxy"),
    ],
)
async def test_a_proxy_that_does_not_work_is_told_without_its_password(
    clean_proxies: pytest.MonkeyPatch, proxy: str, said: str
) -> None:
    clean_proxies.setenv("http_proxy", proxy)
    with pytest.raises(ProviderError, match=said) as raised:
        await parts_of(provider_at("chat", "http://model.invalid"))
    assert "hunter2" not in str(raised.value)
    assert "openai/some-model" in str(raised.value)


async def test_a_proxy_that_wants_a_password_is_told(clean_proxies: pytest.MonkeyPatch) -> None:
    async with fake_server(reply(b"", "407 Proxy Authentication Required")) as proxy:
        clean_proxies.setenv("http_proxy", proxy.url)
        clean_proxies.setenv("https_proxy", proxy.url)
        with pytest.raises(ProviderError, match="the proxy wants a name and password"):
            await parts_of(provider_at("chat", "http://model.invalid"))
        with pytest.raises(ProviderError, match=r"the proxy refused to connect \(HTTP 407\)"):
            await parts_of(provider_at("chat", "https://model.invalid"))


async def test_one_connection_serves_one_request_after_another(dialect: str) -> None:
    async with fake_server(streamed(*DIALECTS[dialect](Play(("hi",))))) as server:
        for _ in range(10):
            assert told(await parts_of(provider_at(dialect, server.url))) == "hi"
        assert (len(server.asked), server.connections) == (10, 1)


async def test_a_connection_outlives_an_error_that_was_read(dialect: str) -> None:
    good = streamed(*DIALECTS[dialect](Play(("hi",))))
    async with fake_server(in_json({"error": "no"}, "500 Oops"), good) as server:
        provider = provider_at(dialect, server.url)
        with pytest.raises(ProviderError, match="HTTP 500"):
            await parts_of(provider)
        assert told(await parts_of(provider)) == "hi"
        assert server.connections == 1


async def test_many_agents_are_asked_for_at_the_same_time() -> None:
    everyone = asyncio.Barrier(150)

    async def act(exchange: Exchange) -> bool:
        await everyone.wait()
        return bool(await streamed(*DIALECTS["chat"](Play(("hi",))))(exchange))

    async with fake_server(act) as server:
        provider = provider_at("chat", server.url)
        answers = await asyncio.gather(*(parts_of(provider) for _ in range(150)))
        assert {told(parts) for parts in answers} == {"hi"}


async def test_a_server_that_never_ends_its_stream_does_not_hold_up_a_whole_reply(dialect: str) -> None:
    async with fake_server(streamed(*DIALECTS[dialect](Play(("hi",))), then=say_nothing)) as server:
        parts = await parts_of(provider_at(dialect, server.url))
        assert (told(parts), type(parts[-1])) == ("hi", EndPart)
        assert await server.hung_up.wait()


async def test_a_reply_that_nobody_hears_to_its_end_lets_go_at_once(dialect: str) -> None:
    async with fake_server(streamed(*begun(dialect, HALF), then=say_nothing)) as server:
        async with aclosing(provider_at(dialect, server.url).stream(request())) as parts:
            assert await anext(parts) == TextPart("half ")
        assert await server.hung_up.wait()


async def test_hanging_up_closes_the_connections_of_this_loop_and_new_ones_can_be_made() -> None:
    async with fake_server(streamed(*DIALECTS["chat"](Play(("hi",))))) as server:
        provider = provider_at("chat", server.url)
        assert told(await parts_of(provider)) == "hi"
        await hang_up()
        await server.hung_up.wait()
        assert told(await parts_of(provider)) == "hi"
        assert server.connections == 2


def test_a_provider_works_in_one_event_loop_after_another() -> None:
    async def ask() -> str:
        async with fake_server(streamed(*DIALECTS["chat"](Play(("hi",))))) as server:
            return told(await parts_of(provider_at("chat", server.url)))

    assert [asyncio.run(ask()) for _ in range(3)] == ["hi", "hi", "hi"]


async def test_a_request_of_many_megabytes_is_sent_whole() -> None:
    async with fake_server(streamed(*DIALECTS["chat"](Play(("hi",))))) as server:
        text = "ü" * 1_500_000
        question = Request("m", "", [UserMessage(text)], ())
        assert len([part async for part in provider_at("chat", server.url).stream(question)]) == 2
        assert server.last.body["messages"] == [{"role": "user", "content": text}]


async def test_an_answer_whose_last_blank_line_is_missing_is_whole() -> None:
    said = b"".join(events(*closing("end_turn"))).rstrip(b"\n")
    async with fake_server(streamed(said)) as server:
        assert len(await parts_of(provider_at("anthropic", server.url))) == 1


@pytest.mark.parametrize("module", ["anthropic", "openai", "http"])
def test_aiohttp_is_not_loaded_before_the_first_question(module: str) -> None:
    code = f"import sys, gencode.providers.{module}; print(sorted({{'aiohttp', 'ssl', 'yarl'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


STREAM = b': note\n\ndata: one\r\n\r\nevent: x\ndata: {"a":\ndata: 1}\n\n\n\ndata:bare\nid: 1\n\ndata: \xc3\xbc\n\ndata:\n\n'
DATA = [b"one", b'{"a":\n1}', b"bare", "ü".encode(), b""]


@given(st.lists(st.integers(0, len(STREAM))))
def test_events_are_the_same_however_the_bytes_are_cut(cuts: list[int]) -> None:
    splitter = EventSplitter()
    places = [0, *sorted(cuts), len(STREAM)]
    found = [
        each
        for start, end in zip(places, places[1:], strict=False)
        for each in splitter.feed(STREAM[start:end])
    ]
    assert found + splitter.rest() == DATA
