"""Connections that are kept open, and servers that let go of them: asked once more at once, and only then."""

import asyncio
import socket
import threading

import pytest

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError
from gencode.core.messages import UserMessage
from gencode.providers.http_connection import SLICE
from tests.contracts.provider import Play, parts_of, request, told
from tests.providers.dialects import DIALECTS, begun, provider_at
from tests.providers.fake_server import Act, Exchange, fake_server, raw, streamed
from tests.providers.fake_server import hang_up as close_at_once

HI = Play(("hi",))


@pytest.fixture(params=list(DIALECTS))
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


async def reset(exchange: Exchange) -> None:
    """Close so that the other side is told of an error."""
    sock: socket.socket = exchange.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    exchange.writer.transport.abort()


@pytest.mark.parametrize("act", [close_at_once, reset])
async def test_a_kept_connection_that_was_let_go_is_replaced_at_once(dialect: str, act: Act) -> None:
    good = streamed(*DIALECTS[dialect](HI))
    async with fake_server(good, act, good) as server:
        provider = provider_at(dialect, server.url)
        for _ in range(2):
            assert told(await parts_of(provider)) == "hi"
        assert (len(server.asked), server.connections) == (3, 2)
        assert server.asked[0].body == server.asked[1].body == server.asked[2].body


async def test_a_long_request_goes_out_whole_once_more() -> None:
    good = streamed(*DIALECTS["chat"](HI))
    async with fake_server(good, close_at_once, good) as server:
        provider = provider_at("chat", server.url)
        question = Request("m", "", [UserMessage("ü" * SLICE)], ())
        for _ in range(2):
            assert len([part async for part in provider.stream(question)]) == 2
        assert [len(asked.body["messages"][0]["content"]) for asked in server.asked] == [SLICE] * 3


@pytest.mark.parametrize("act", [close_at_once, reset])
async def test_a_new_connection_that_is_closed_is_a_failure(dialect: str, act: Act) -> None:
    async with fake_server(act) as server:
        with pytest.raises(ProviderError, match="closed the connection without an answer") as raised:
            await parts_of(provider_at(dialect, server.url))
        assert (len(server.asked), raised.value.retryable) == (1, True)


async def test_it_is_done_once_and_not_again(dialect: str) -> None:
    async with fake_server(streamed(*DIALECTS[dialect](HI)), close_at_once) as server:
        provider = provider_at(dialect, server.url)
        await parts_of(provider)
        with pytest.raises(ProviderError, match="closed the connection without an answer"):
            await parts_of(provider)
        assert (len(server.asked), server.connections) == (3, 2)


async def test_an_answer_that_has_begun_is_never_asked_for_again_by_itself(dialect: str) -> None:
    good = streamed(*DIALECTS[dialect](HI))
    halves = (
        raw(b"HTTP/1.1 200 OK\r\nContent-Ty"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
        streamed(*begun(dialect, HI), then=close_at_once),
    )
    for half in halves:
        async with fake_server(good, half, good) as server:
            provider = provider_at(dialect, server.url)
            await parts_of(provider)
            with pytest.raises(ProviderError):
                await parts_of(provider)
            assert len(server.asked) == 2


async def test_a_cancelled_request_is_not_sent_again() -> None:
    heard = asyncio.Event()

    async def listen(exchange: Exchange) -> None:
        heard.set()
        await exchange.until_closed()

    async with fake_server(streamed(*DIALECTS["chat"](HI)), listen) as server:
        provider = provider_at("chat", server.url)
        await parts_of(provider)
        asking = asyncio.ensure_future(anext(provider.stream(request())))
        await heard.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert len(server.asked) == 2


class Impatient:
    """A server in a thread of its own: it answers once on each connection, and closes it when told to."""

    def __init__(self) -> None:
        self.answered = 0
        self._idle = threading.Event()
        self._closed = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> "Impatient":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._idle.set()
        socket.create_connection(self._listening.getsockname()).close()
        self._thread.join()
        self._listening.close()

    def let_go(self) -> None:
        """Close the connection; it is closed when this returns."""
        self._closed.clear()
        self._idle.set()
        assert self._closed.wait(60)

    def _serve(self) -> None:
        said = b"".join(DIALECTS["chat"](HI))
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(said)
        while True:
            connection, _ = self._listening.accept()
            with connection:
                if not (got := connection.recv(65536)):
                    return
                while not got.endswith(b"]}"):
                    got += connection.recv(65536)
                self.answered += 1
                self._idle.clear()
                connection.sendall(head + said)
                self._idle.wait()
            self._closed.set()


async def test_a_server_that_closes_idle_connections_costs_no_failure() -> None:
    with Impatient() as server:
        provider = provider_at("chat", server.url)
        for turn in range(1, 4):
            assert told(await parts_of(provider)) == "hi"
            assert server.answered == turn
            # The loop stands still meanwhile: it cannot see that its connection is closed before it uses it.
            server.let_go()
