"""The client under the providers: TLS, proxies, odd answers of HTTP, and servers that mean harm."""

import asyncio
import base64
import datetime
import ipaddress
import ssl
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError
from gencode.core.messages import UserMessage
from gencode.providers import http_pool
from gencode.providers.endpoint import HttpTimeouts, close_connections
from gencode.providers.http_connection import MOST_HEAD, MOST_HELD, SLICE
from tests.contracts.provider import Play, parts_of, request, told
from tests.providers.dialects import DIALECTS, provider_at
from tests.providers.fake_server import Act, Exchange, FakeServer, fake_server, raw, streamed

SAID = b"".join(DIALECTS["chat"](Play(("hi",))))
GOOD = streamed(SAID)
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(SAID), SAID)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The key and certificate of a server that is called model.invalid and lives on this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "model.invalid")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("model.invalid"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(secret + made.public_bytes(encoding))
    return path


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The machine trusts that server."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    http_pool.trusted.cache_clear()
    yield monkeypatch
    http_pool.trusted.cache_clear()


@asynccontextmanager
async def tls_server(certificate: Path, *acts: Act) -> AsyncGenerator[tuple[FakeServer, int], None]:
    """A server that speaks TLS, and its port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    fake = FakeServer(acts or [GOOD])
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0, ssl=context)
    try:
        yield fake, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await fake.close()


@asynccontextmanager
async def tunnelling(
    port: int, granted: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n"
) -> AsyncGenerator[tuple[str, list[str]], None]:
    """A proxy that leads to one port whatever it is asked for; its address, and what it was told."""
    heads: list[str] = []
    writers: list[asyncio.StreamWriter] = []

    async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(65536):
                writer.write(piece)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        there, back = await asyncio.open_connection("127.0.0.1", port)
        writers.extend((writer, back))
        writer.write(granted)
        await asyncio.gather(copied(reader, back), copied(there, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://me:hunt%20er2@127.0.0.1:{server.sockets[0].getsockname()[1]}", heads
        await close_connections()
        for writer in writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def test_a_server_that_speaks_tls_is_asked_on_one_connection(
    certificate: Path, trusted: pytest.MonkeyPatch
) -> None:
    async with tls_server(certificate) as (server, port):
        for _ in range(3):
            assert told(await parts_of(provider_at("chat", f"https://127.0.0.1:{port}"))) == "hi"
        assert (len(server.asked), server.connections) == (3, 1)


@pytest.mark.parametrize("tls", [False, True])
async def test_answers_that_come_piece_by_piece_on_several_connections_do_not_mix(
    tls: bool, certificate: Path, trusted: pytest.MonkeyPatch
) -> None:
    said = [f"{letter * 50} " for letter in "abcde"]
    acts = [streamed(*DIALECTS["chat"](Play((words,) * 20))) for words in said]
    async with fake_server(*acts) as plain, tls_server(certificate, *acts) as (safe, port):
        url, server = (f"https://127.0.0.1:{port}", safe) if tls else (plain.url, plain)
        answers = await asyncio.gather(*(parts_of(provider_at("chat", url)) for _ in said))
        assert sorted(map(told, answers)) == [words * 20 for words in said]
        assert server.connections == len(said)


async def test_a_certificate_that_nobody_vouches_for_is_told_and_nothing_is_sent(certificate: Path) -> None:
    async with tls_server(certificate) as (server, port):
        with pytest.raises(ProviderError, match="shows no certificate that can be trusted"):
            await parts_of(provider_at("chat", f"https://127.0.0.1:{port}"))
        assert server.asked == []


async def test_a_server_behind_a_proxy_is_asked_through_a_tunnel(
    certificate: Path, trusted: pytest.MonkeyPatch
) -> None:
    async with tls_server(certificate) as (server, port), tunnelling(port) as (proxy, heads):
        trusted.setenv("https_proxy", proxy)
        trusted.setenv("no_proxy", "")
        for _ in range(2):
            assert told(await parts_of(provider_at("chat", "https://model.invalid"))) == "hi"
        who = base64.b64encode(b"me:hunt er2").decode()
        assert heads == [
            "CONNECT model.invalid:443 HTTP/1.1\r\nHost: model.invalid:443\r\n"
            f"Proxy-Authorization: Basic {who}\r\n\r\n"
        ]
        assert [asked.path for asked in server.asked] == ["/v1/chat/completions"] * 2
        assert {name for name in server.last.headers if "proxy" in name} == set()
        assert server.last.headers["host"] == "model.invalid"


async def test_a_tunnel_is_kept_however_the_proxy_speaks_of_its_own_connection(
    certificate: Path, trusted: pytest.MonkeyPatch
) -> None:
    granted = b"HTTP/1.0 200 Yes\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    async with tls_server(certificate) as (server, port), tunnelling(port, granted) as (proxy, heads):
        trusted.setenv("https_proxy", proxy)
        trusted.setenv("no_proxy", "")
        for _ in range(2):
            assert told(await parts_of(provider_at("chat", "https://model.invalid"))) == "hi"
        assert (len(server.asked), len(heads)) == (2, 1)


async def test_what_a_proxy_adds_to_its_consent_is_no_answer(
    certificate: Path, trusted: pytest.MonkeyPatch
) -> None:
    granted = b"HTTP/1.1 200 Yes\r\nContent-Length: 0\r\n\r\n" + WHOLE.replace(b"hi", b"no")
    async with tls_server(certificate) as (server, port), tunnelling(port, granted) as (proxy, _):
        trusted.setenv("https_proxy", proxy)
        trusted.setenv("no_proxy", "")
        assert told(await parts_of(provider_at("chat", "https://model.invalid"))) == "hi"
        assert len(server.asked) == 1


async def test_a_tunnel_to_another_server_than_was_asked_for_is_told(
    certificate: Path, trusted: pytest.MonkeyPatch
) -> None:
    async with tls_server(certificate) as (server, port), tunnelling(port) as (proxy, _):
        trusted.setenv("https_proxy", proxy)
        trusted.setenv("no_proxy", "")
        with pytest.raises(ProviderError, match="shows no certificate that can be trusted"):
            await parts_of(provider_at("chat", "https://other.invalid"))
        assert server.asked == []


async def test_an_answer_may_be_announced_before_it_comes() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    async with fake_server(raw(b"HTTP/1.1 100 Continue\r\n\r\n" + early + WHOLE)) as server:
        assert told(await parts_of(provider_at("chat", server.url))) == "hi"


async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    async with fake_server(raw(b"HTTP/1.1 200 OK\r\n\r\n" + SAID)) as server:
        for _ in range(2):
            assert told(await parts_of(provider_at("chat", server.url))) == "hi"
        assert server.connections == 2


async def test_a_server_that_wants_to_close_is_asked_on_another_connection() -> None:
    closing = raw(WHOLE.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))
    async with fake_server(closing) as server:
        for _ in range(2):
            assert told(await parts_of(provider_at("chat", server.url))) == "hi"
        assert server.connections == 2


async def test_lines_that_end_without_a_carriage_return_are_read() -> None:
    async with fake_server(raw(WHOLE.replace(b"\r\n", b"\n"))) as server:
        assert told(await parts_of(provider_at("chat", server.url))) == "hi"


@pytest.mark.parametrize("pause", [0.0, 0.05])
async def test_what_nobody_asked_for_is_never_the_answer_to_the_next_request(pause: float) -> None:
    forged = WHOLE.replace(b"hi", b"no")

    async def answer_twice(exchange: Exchange) -> bool:
        await exchange.send(WHOLE + (b"" if pause else forged))
        if pause:
            await asyncio.sleep(pause)
            await exchange.send(forged)
        return True

    async with fake_server(answer_twice) as server:
        for _ in range(3):
            assert told(await parts_of(provider_at("chat", server.url))) == "hi"
            await asyncio.sleep(2 * pause)
        assert server.connections == 3


async def test_a_head_without_end_is_not_read_to_its_end() -> None:
    async def flood(exchange: Exchange) -> None:
        exchange.writer.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(100_000):
            exchange.writer.write(b"X-%d: %b\r\n" % (number, b"y" * 1000))
            await exchange.writer.drain()

    async with fake_server(flood) as server:
        with pytest.raises(ProviderError, match="something that is not HTTP"):
            await parts_of(provider_at("chat", server.url))


async def test_announcements_without_end_are_no_answer() -> None:
    async with fake_server(raw(b"HTTP/1.1 100 Continue\r\n\r\n" * (MOST_HEAD // 20))) as server:
        with pytest.raises(ProviderError, match="something that is not HTTP"):
            await parts_of(provider_at("chat", server.url))


async def test_a_long_request_that_is_refused_before_it_was_heard_is_told() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 8\r\n\r\ntoo much")
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        gone.set()

    gone = asyncio.Event()
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        question = Request("m", "", [UserMessage("x" * (64 * SLICE))], ())
        with pytest.raises(ProviderError, match="HTTP 413: too much"):
            async for _ in provider_at("chat", url).stream(question):
                pass
        await gone.wait()


async def test_a_server_waits_for_whoever_does_not_listen() -> None:
    sent = 0
    text = b'data: {"choices": [{"delta": {"content": "%b"}}]}\n\n' % (b"x" * 60_000)
    chunk = b"%x\r\n%b\r\n" % (len(text), text)

    async def pour(exchange: Exchange) -> None:
        nonlocal sent
        exchange.writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while sent < 64 * MOST_HELD:
            exchange.writer.write(chunk)
            await exchange.writer.drain()
            sent += len(chunk)

    async with fake_server(pour) as server:
        async with aclosing(provider_at("chat", server.url).stream(request())) as parts:
            await anext(parts)
            before = -1
            while sent > before:
                before = sent
                await asyncio.sleep(0.3)
            assert sent < 32 * MOST_HELD  # what the system holds for both sides is in it
        assert await server.hung_up.wait()


async def test_a_path_is_sent_as_an_address_may_be_written() -> None:
    async with fake_server(GOOD) as server:
        assert told(await parts_of(provider_at("chat", f"{server.url}/ü b/v1?a=ö c&key=d%20e"))) == "hi"
        assert server.last.path == "/%C3%BC%20b/v1/chat/completions?a=%C3%B6%20c&key=d%20e"


CUTS = st.lists(
    st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 12), st.binary(max_size=12)), min_size=1, max_size=4
)


@given(CUTS)
def test_whatever_bytes_come_they_are_an_answer_or_a_clear_error(cuts: list[tuple[int, int, bytes]]) -> None:
    answer = WHOLE
    for at, away, instead in cuts:
        answer = answer[:at] + instead + answer[at + away :]

    async def ask() -> None:
        timeouts = HttpTimeouts(5.0, 5.0, 5.0)
        async with fake_server(raw(answer)) as server:
            provider = provider_at("chat", server.url, timeouts)
            try:
                await parts_of(provider)
            except ProviderError as error:
                assert "openai/some-model" in str(error)
            await server.hung_up.wait()

    asyncio.run(ask())
