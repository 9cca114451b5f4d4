"""Servers that mean harm, or are merely odd: each of these once hung, lied or was told wrongly."""

import asyncio
import json
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError
from gencode.core.messages import Part, UserMessage
from gencode.providers import endpoint
from gencode.providers.endpoint import HttpTimeouts
from gencode.providers.http_connection import MOST_HELD, SLICE, HostAddress, HttpFailure, HttpFault, HttpRoute
from gencode.providers.http_pool import HttpPool
from tests.contracts.provider import Play, parts_of, told
from tests.providers.dialects import DIALECTS, provider_at
from tests.providers.fake_server import Act, Exchange, fake_server, in_json, raw

SAID = b"".join(DIALECTS["chat"](Play(("hi",))))
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SAID_IN_A_CHUNK = b"%x\r\n%b\r\n" % (len(SAID), SAID)
LONG = Request("m", "", [UserMessage("x" * (64 * SLICE))], ())
"""More than the system takes from a sender while nobody reads."""
HEAD = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> Act:
    """One whole answer, then the end of the connection."""
    more = b"".join(b"%b\r\n" % each for each in headers)
    return raw(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(body), more, body))


@asynccontextmanager
async def server_of(serve: Serve) -> AsyncGenerator[str, None]:
    """A server that has the head of a request and nothing of its body yet; its address."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            await serve(reader, writer)
        writer.close()
        gone.set()

    gone = asyncio.Event()
    async with await asyncio.start_server(served, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await endpoint.close_connections()
        await gone.wait()


async def asked_at_length(url: str) -> list[Part]:
    return [part async for part in provider_at("chat", url).stream(LONG)]


@pytest.mark.parametrize("before", [b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED, CHUNKED])
async def test_a_long_request_goes_on_although_its_answer_is_announced_or_begins(before: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(before)
        await writer.drain()
        got = await reader.readuntil(b"xx")
        while not got.endswith(b"]}"):
            got = got[-1:] + await reader.read(SLICE)
        writer.write(SAID_IN_A_CHUNK + b"0\r\n\r\n")

    async with server_of(serve) as url:
        assert told(await asked_at_length(url)) == "hi"


@pytest.mark.parametrize("length", [b"Content-Length: 8\r\n", b""])
async def test_a_refusal_is_told_although_the_server_reads_no_more_of_the_request(length: bytes) -> None:
    told_so = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(1000):  # the client writes once in each turn of the loop that both share
            await asyncio.sleep(0)
        writer.write(b"HTTP/1.1 413 Too Large\r\n%b\r\ntoo much" % length)
        if not length:
            writer.write_eof()
        await told_so.wait()

    async with server_of(serve) as url:
        with pytest.raises(ProviderError, match="HTTP 413: too much"):
            await asked_at_length(url)
        told_so.set()


@pytest.mark.parametrize(
    "flood", [CHUNKED + SAID_IN_A_CHUNK + b"0\r\nX-Trailer: ", CHUNKED + SAID_IN_A_CHUNK + b"5;so="]
)
async def test_what_is_no_part_of_an_answer_is_not_read_without_end(flood: bytes) -> None:
    async def pour(exchange: Exchange) -> None:
        exchange.writer.write(flood)
        while True:
            exchange.writer.write(b"y" * SLICE)
            await exchange.writer.drain()

    async with fake_server(pour) as server:
        assert told(await parts_of(provider_at("chat", server.url))) == "hi"
        await server.hung_up.wait()


def trickling(head: bytes, drop: bytes) -> Act:
    """Drop after drop, until the client has enough."""

    async def act(exchange: Exchange) -> None:
        exchange.writer.write(head)
        while not exchange.reader.at_eof():
            await exchange.send(drop)

    return act


async def test_a_head_that_comes_drop_by_drop_has_to_be_whole_in_time() -> None:
    async with fake_server(trickling(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"y")) as server:
        with pytest.raises(ProviderError, match="did not answer within"):
            await parts_of(provider_at("chat", server.url, HttpTimeouts(first_byte=0.3)))
        await server.hung_up.wait()


async def test_chunks_that_never_begin_are_silence() -> None:
    async with fake_server(trickling(CHUNKED + b"5;so=", b"y")) as server:
        with pytest.raises(ProviderError, match="sent nothing for|did not answer within"):
            await parts_of(provider_at("chat", server.url, HttpTimeouts(first_byte=0.3)))
        await server.hung_up.wait()


@pytest.mark.parametrize("last", [b"data: [DONE]\n\n", b""])
async def test_a_reply_that_is_whole_does_not_wait_for_signs_of_life_without_end(
    last: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "LAST_WAITS", 0.3)
    said = SAID.removesuffix(b"data: [DONE]\n\n") + last
    async with fake_server(trickling(b"HTTP/1.1 200 OK\r\n\r\n" + said, b": still here\n\n")) as server:
        assert told(await parts_of(provider_at("chat", server.url))) == "hi"
        await server.hung_up.wait()


async def test_an_answer_may_be_deflated_without_a_header() -> None:
    press = zlib.compressobj(wbits=-15)
    async with fake_server(
        answer(press.compress(SAID) + press.flush(), b"Content-Encoding: deflate")
    ) as server:
        assert told(await parts_of(provider_at("chat", server.url))) == "hi"


async def test_an_answer_that_is_not_in_chunks_ends_with_its_connection_whatever_it_calls_that() -> None:
    choice = {"message": {"content": "hi"}, "finish_reason": "stop"}
    body = json.dumps({"choices": [choice]}).encode()
    async with fake_server(raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n" + body)) as server:
        assert told(await parts_of(provider_at("chat", server.url))) == "hi"


@pytest.mark.parametrize(
    "act",
    [
        raw(b"HTTP/1.1 401 No\r\nContent-Length: 99\r\n\r\nwrong key"),
        answer(b"\x1f\x8brubbish", b"Content-Encoding: gzip", status=b"401 No"),
        answer(b"rubbish", b"Content-Encoding: br", status=b"401 No"),
    ],
)
async def test_a_refusal_whose_words_cannot_be_read_is_still_that_refusal(act: Act) -> None:
    async with fake_server(act) as server:
        with pytest.raises(ProviderError, match="refused the API key") as raised:
            await parts_of(provider_at("chat", server.url))
        assert not raised.value.retryable


@pytest.mark.parametrize("base", ["http://a b", "http://127.0.0.1:9/\udc80", "http://127.0.0.1:9/?a=\udc80"])
async def test_an_address_that_no_request_can_name_is_told(base: str) -> None:
    with pytest.raises(ProviderError, match="check the base URL and the proxy"):
        await parts_of(provider_at("chat", base))


async def test_a_proxy_may_be_written_in_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_server(answer(SAID)) as server:
        monkeypatch.setenv("http_proxy", server.url.replace("http", "HTTP"))
        monkeypatch.setenv("no_proxy", "")
        assert told(await parts_of(provider_at("chat", "http://model.invalid"))) == "hi"
        assert server.last.path == "http://model.invalid/v1/chat/completions"


async def test_a_proxy_that_consents_and_is_gone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 Yes\r\nContent-Length: 0\r\n\r\n\0rubbish")

    async with server_of(serve) as proxy:
        monkeypatch.setenv("https_proxy", proxy)
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(ProviderError, match="the proxy of the environment does not answer"):
            await parts_of(provider_at("chat", "https://model.invalid"))


def route_to(url: str) -> HttpRoute:
    return HttpRoute(HostAddress("127.0.0.1", int(url.rpartition(":")[2]), tls=False))


async def test_a_connection_that_stopped_to_read_is_not_used_again() -> None:
    pool = HttpPool()
    async with fake_server(in_json("x" * MOST_HELD)) as server:
        route = route_to(server.url)
        for asked in (1, 2):
            line = await pool.post(route, HEAD, b"", connect=30, answer=30)
            async with asyncio.timeout(60):
                while not line.whole:  # noqa: ASYNC110 (nobody tells whoever does not read)
                    await asyncio.sleep(0.005)
            pool.give_back(route, line)
            assert (len(server.asked), server.connections) == (asked, asked)
        await pool.close()


async def test_a_line_that_is_given_back_after_all_were_closed_is_closed() -> None:
    pool = HttpPool()
    await pool.close()
    async with fake_server(in_json("hi")) as server:
        route = route_to(server.url)
        line = await pool.post(route, HEAD, b"", connect=30, answer=30)
        assert await line.piece(30) == b'"hi"'
        pool.give_back(route, line)
        await server.hung_up.wait()


async def test_an_answer_that_we_cut_off_ourselves_is_not_whole() -> None:
    async def begin(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await exchange.until_closed()

    pool = HttpPool()
    async with fake_server(begin) as server:
        line = await pool.post(route_to(server.url), HEAD, b"", connect=30, answer=30)
        assert await line.piece(30) == b"half"
        await pool.close()
        with pytest.raises(HttpFailure) as raised:
            await line.piece(30)
        assert raised.value.fault is HttpFault.BROKEN
