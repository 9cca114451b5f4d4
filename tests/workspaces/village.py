"""A small internet on 127.0.0.1: names with public addresses, and real servers that stand behind them.

Everything is judged as on the large one; only the last step, where a judged address really is, differs.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gencode.core.errors import ToolError
from gencode.web.http_fetch import WebLimits, WebRequest, WebResolver, WebResponse, fetch

MIB = 1024 * 1024
SMALL = WebLimits(most_bytes=MIB)

# For tests only: *.example.net, until 2120.
KEY = """-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgm7pUUwb7jnK2sjTU
ce3mSe6Uk0/84HHUUM9/vlRFQa+hRANCAATxHEM4er3ZJfEk4jojq4rQ7m7sb3pT
7CaiuQuyoRvS0VdLlgUcIEkRc4hBJ8OAHcSCvoL1oRA/v3PgpHXkrdRG
-----END PRIVATE KEY-----
"""
CERTIFICATE = """-----BEGIN CERTIFICATE-----
MIIBcjCCARegAwIBAgIBATAKBggqhkjOPQQDAjASMRAwDgYDVQQDDAd2aWxsYWdl
MCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjASMRAwDgYDVQQDDAd2
aWxsYWdlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8RxDOHq92SXxJOI6I6uK
0O5u7G96U+wmorkLsqEb0tFXS5YFHCBJEXOIQSfDgB3Egr6C9aEQP79z4KR15K3U
RqNcMFowDwYDVR0TAQH/BAUwAwEB/zAOBgNVHQ8BAf8EBAMCAoQwGAYDVR0RBBEw
D4INKi5leGFtcGxlLm5ldDAdBgNVHQ4EFgQUqawKDBqepd6APWfAllSbaGe55Dww
CgYIKoZIzj0EAwIDSQAwRgIhAJKov5+3JIdh8k22o/QzYlG4nrqr1byfYQI15jfg
RFj7AiEA6ozBHOar8IDfgZV+ljZAFTeNd+pcbCAcMj2nGRKSsV8=
-----END CERTIFICATE-----
"""


@dataclass
class Visit:
    """One request, with the way to answer it."""

    head: str
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def path(self) -> str:
        """What was asked for."""
        return self.head.split(" ")[1]

    def header(self, name: str) -> str | None:
        """A header of the request."""
        lines = [line.partition(": ") for line in self.head.split("\r\n")[1:]]
        return next((value for each, _, value in lines if each.lower() == name), None)

    async def send(self, *pieces: bytes) -> None:
        """Write some bytes of the answer."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()


Act = Callable[[Visit], Awaitable[None]]


@dataclass
class House:
    """A server; it answers every request with its act and keeps what it was asked."""

    act: Act
    connections: int = 0
    visits: list[Visit] = field(default_factory=list[Visit])
    server_names: list[str | None] = field(default_factory=list[str | None])
    _serving: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            first = await reader.readexactly(1)
            if first == b"\x16":
                writer.write(b"HTTP/1.1 400 This is not TLS\r\n\r\n")
                return
            head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")[:-4]
            visit = Visit(head, b"", reader, writer)
            visit.body = await reader.readexactly(int(visit.header("content-length") or 0))
            self.visits.append(visit)
            await self.act(visit)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            return
        finally:
            self._serving.discard(task)
            writer.close()

    async def shut(self) -> None:
        """End every connection that is still open."""
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)


class Village(WebResolver):
    """`names` holds the answers to the first, second … look-up of a name; the last one stays."""

    def __init__(self, folder: Path) -> None:
        self.names: dict[str, list[Sequence[str]]] = {}
        self.looked_up: list[str] = []
        self.placed: list[str] = []
        self.dead: set[str] = set()
        self.trap = House(closing)
        self.houses: list[House] = []
        self._servers: list[asyncio.Server] = []
        self._doors: dict[tuple[str, int], int] = {}
        self._pair = folder / "village.pem"
        self._pair.write_text(KEY + CERTIFICATE)

    async def build(
        self, name: str, act: Act, *, address: str = "", port: int = 80, tls: bool = False
    ) -> House:
        """A house at an address, and a name for it."""
        address = address or f"151.101.1.{len(self._servers)}"
        house = House(act)
        self.houses.append(house)
        self._doors[address, port] = await self._open(house, self._keys(house) if tls else None)
        self.names.setdefault(name, [[address]])
        return house

    async def lookup(self, host: str) -> Sequence[str]:
        """The next answer for a name."""
        self.looked_up.append(host)
        answers = self.names.get(host, [[]])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def place(self, address: str, port: int) -> tuple[str, int]:
        """The real door of a house; at a dead address nothing listens, and what is not built is the trap."""
        self.placed.append(address)
        if address in self.dead:
            return "127.0.0.1", 1
        return "127.0.0.1", self._doors.get((address, port), self._doors["", 0])

    def trust(self) -> ssl.SSLContext:
        """The certificate of the village."""
        return ssl.create_default_context(cadata=CERTIFICATE)

    async def open(self) -> None:
        """Open the trap."""
        self._doors["", 0] = await self._open(self.trap, None)

    async def close(self) -> None:
        """Close every server."""
        for server in self._servers:
            server.close()
        for house in (self.trap, *self.houses):
            await house.shut()
        for server in self._servers:
            await server.wait_closed()

    def _keys(self, house: House) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._pair)

        def remember(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> None:
            house.server_names.append(name)

        context.sni_callback = remember
        return context

    async def _open(self, house: House, keys: ssl.SSLContext | None) -> int:
        server = await asyncio.start_server(house.serve, "127.0.0.1", 0, ssl=keys)
        self._servers.append(server)
        return server.sockets[0].getsockname()[1]


@asynccontextmanager
async def village_in(folder: Path) -> AsyncGenerator[Village, None]:
    """A village that is gone at the end of the block."""
    village = Village(folder)
    await village.open()
    try:
        yield village
    finally:
        await village.close()


async def fetched(village: Village, url: str, limits: WebLimits = SMALL) -> WebResponse:
    """A page of the village."""
    return await fetch(WebRequest(url), limits, internet=village)


async def trouble(village: Village, url: str, limits: WebLimits = SMALL) -> str:
    """What is said about a page that cannot be fetched."""
    with pytest.raises(ToolError) as raised:
        await fetched(village, url, limits)
    return str(raised.value)


def page(text: bytes, *headers: str, status: str = "200 OK") -> Act:
    """Answers with a page."""
    lines = (f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(text)}", "", "")
    return raw("\r\n".join(lines).encode() + text)


def redirect(location: str, status: int = 302) -> Act:
    """Sends the visitor elsewhere."""
    return page(b"", f"Location: {location}", "Set-Cookie: a=b", status=f"{status} Elsewhere")


def raw(*pieces: bytes) -> Act:
    """Answers with exactly these bytes, then hangs up."""

    async def act(visit: Visit) -> None:
        await visit.send(*pieces)

    return act


def endless(start: bytes, piece: bytes, pause: float = 0) -> Act:
    """Answers with a beginning and then the same again and again."""

    async def act(visit: Visit) -> None:
        await visit.send(start)
        while True:
            await visit.send(piece)
            await asyncio.sleep(pause)

    return act


async def closing(_: Visit) -> None:
    """Hangs up without a word."""
