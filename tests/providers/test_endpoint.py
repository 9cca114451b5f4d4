"""The wire: addresses, proxies, connections, event streams. Real HTTP against a fake server."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError, UserMistake
from gencode.core.messages import EndPart, TextPart, UserMessage
from gencode.providers.anthropic import AnthropicProvider
from gencode.providers.endpoint import EventSplitter, api_url, close_connections
from gencode.providers.openai import OpenAIProvider
from tests.contracts.provider import KEY, Play, parts_of, request, told
from tests.providers.dialects import DIALECTS, begun, closing, name_of, provider_at
from tests.providers.fake_server import (
    Exchange,
    events,
    fake_server,
    in_json,
    reply,
    say_nothing,
    streamed,
)
from tests.providers.fake_server import hang_up as close_at_once

HALF = Play(("half ", "an answer "))


@pytest.fixture(params=list(DIALECTS))
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


async def test_a_port_where_nothing_listens_is_told(dialect: str) -> None:
    async with fake_server(close_at_once) as server:
        url = server.url
    with pytest.raises(ProviderError, match="nothing listens there. Check the base URL") as raised:
        await parts_of(provider_at(dialect, url))
    assert name_of(dialect) in str(raised.value)
    assert not raised.value.retryable


async def test_an_https_address_where_plain_http_is_spoken_is_told() -> None:
    async def speak_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(speak_plainly, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ProviderError, match=r"does not speak TLS\. Is it an http:// address\?"):
            await parts_of(provider_at("chat", f"https://127.0.0.1:{port}"))


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
    assert api_url(base, "/chat/completions") == url


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
    with pytest.raises(UserMistake, match="contains characters that no key has") as raised:
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


async def test_what_is_on_this_machine_is_asked_directly(clean_proxies: pytest.MonkeyPatch) -> None:
    async with fake_server(streamed(*DIALECTS["chat"](Play(("hi",))))) as server:
        clean_proxies.setenv("http_proxy", "http://127.0.0.1:9")
        assert told(await parts_of(provider_at("chat", server.url))) == "hi"


@pytest.mark.parametrize("spelled", [str.upper, str.lower])
async def test_hosts_that_need_no_proxy_are_asked_directly(
    clean_proxies: pytest.MonkeyPatch, spelled: Callable[[str], str]
) -> None:
    async with fake_server(streamed(*DIALECTS["chat"](Play(("hi",))))) as proxy:
        clean_proxies.setenv(spelled("http_proxy"), proxy.url)
        assert told(await parts_of(provider_at("chat", "http://model.invalid"))) == "hi"
        clean_proxies.setenv(spelled("no_proxy"), "other.invalid,.model.invalid")
        with pytest.raises(ProviderError, match=r"cannot be reached at http://a\.model\.invalid/"):
            await parts_of(provider_at("chat", "http://a.model.invalid"))
        assert len(proxy.asked) == 1


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("http://me:hunter2@127.0.0.1:9", "the proxy of the environment does not answer"),
        ("127.0.0.1:9", "the proxy of the environment does not answer"),
        ("socks5://me:hunter2@127.0.0.1:9", "names a socks5 proxy, and only http works"),
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
        await close_connections()
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


@pytest.mark.parametrize("module", ["anthropic", "openai", "endpoint"])
def test_nothing_heavy_is_loaded_before_the_first_question(module: str) -> None:
    heavy = ("aiohttp", "yarl", "email", "urllib.request")
    code = f"import sys, gencode.providers.{module}; print([x for x in sys.modules if x in {heavy}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


STREAM = (
    b': note\n\ndata: one\r\n\r\nevent: x\ndata: {"a":\ndata: 1}\n\n\n\n'
    b"data:bare\nid: 1\n\ndata: \xc3\xbc\n\ndata:\n\n"
)
DATA = [b"one", b'{"a":\n1}', b"bare", "ü".encode(), b""]


@given(st.lists(st.integers(0, len(STREAM))))
def test_events_are_the_same_however_the_bytes_are_cut(cuts: list[int]) -> None:
    splitter = EventSplitter()
    places = [0, *sorted(cuts), len(STREAM)]
    found = [each for start, end in pairwise(places) for each in splitter.feed(STREAM[start:end])]
    assert found + splitter.rest() == DATA
