"""Where and how the server listens: its socket, the names it goes by, and HTTP/1.1 with timeouts.

A peer that does not finish its request head, or takes nothing for long, is disconnected. What is sent to
hundreds of streams at once is framed once and written to their sockets, past the parser of each connection.
"""

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Generator
from contextlib import contextmanager
from math import inf
from typing import Any, NamedTuple, cast

import h11
import uvicorn
from msgspec import Struct
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from gencode.core.errors import UserMistake
from gencode.interfaces.http.guard import AccessTokens, Guard
from gencode.interfaces.render.plain_text import note

HEAD_SECONDS = 10.0
STUCK_SECONDS = 60.0
"""A client that reads nothing for so long is disconnected."""
MOST_AT_ONCE = 65_536
"""The bytes that are written before it is checked whether the client reads them."""
WIRE = "wire"
"""The key of the connection in the state of a request."""


class Framed(NamedTuple):
    """Some frames as they are, and as one chunk of an answer."""

    plain: bytes
    chunk: bytes


def framed(frames: bytes) -> Framed:
    """Frames that are sent to many."""
    return Framed(frames, b"%x\r\n%b\r\n" % (len(frames), frames))


class PeerConnection:
    """Writes straight to one client; only for an answer without a length, between its chunks."""

    def __init__(self, transport: asyncio.WriteTransport, flow: FlowControl) -> None:
        self._transport = transport
        self._flow = flow
        self._chunked = True

    def use_chunks(self, chunked: bool) -> None:
        """Whether the answer has chunked encoding; an HTTP/1.0 client is sent bytes until the end."""
        self._chunked = chunked

    def write(self, news: Framed) -> bool:
        """Send at once; False when that is too much, or the client does not read now or is gone."""
        if len(news.chunk) > MOST_AT_ONCE or self._flow.write_paused or self._transport.is_closing():
            return False
        self._transport.write(news.chunk if self._chunked else news.plain)
        return True

    def cut(self) -> None:
        """Disconnect a client at once, with whatever waits for it."""
        self._transport.abort()


class TimeoutProtocol(H11Protocol):
    """uvicorn's HTTP protocol with timeouts for request heads and for clients that do not read."""

    _late: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect the head of a request from now on."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, WIRE: PeerConnection(transport, self.flow)}
        self._expect()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Take in some bytes; only a whole head ends the waiting for it."""
        self._expect()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._relax()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._relax()
        self._unstuck()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The peer takes less than it is sent."""
        super().pause_writing()
        self._unstuck()
        self._look_later()

    def resume_writing(self) -> None:
        """It has taken what waited."""
        super().resume_writing()
        self._unstuck()

    def _make_room(self) -> None:
        """Close the client that has waited longest without a request, where there are many."""
        if len(self.connections) <= MOST_IDLE:
            return
        oldest, until = None, inf
        for each in cast("set[object]", self.connections):
            if isinstance(each, TimeoutProtocol) and each.waits_until() < until:
                oldest, until = each, each.waits_until()
        if oldest is not None:
            oldest.transport.close()

    def waits_until(self) -> float:
        """Until when a request is waited for; endless where none is."""
        return inf if self._late is None else self._late.when()

    def _expect(self) -> None:
        if self._late is None and self.conn.their_state is h11.IDLE:
            self._late = asyncio.get_running_loop().call_later(HEAD_SECONDS, self.transport.close)

    def _look_later(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        loop = asyncio.get_running_loop()
        self._stuck = loop.call_later(STUCK_SECONDS, self._look_whether_stuck, waiting)

    def _look_whether_stuck(self, waiting: int) -> None:
        if self.transport.get_write_buffer_size() >= waiting:
            self.transport.abort()
        else:
            self._look_later()

    def _unstuck(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _relax(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


LOOPBACK = "127.0.0.1"
LARGEST_HEAD = 32_768
MOST_CONNECTIONS = 1000
MOST_IDLE = 800
"""With more connections than that, those without a request give way to new ones."""
KEEP_ALIVE_SECONDS = 15
SEND_ROOM = 262_144
"""The send buffer of the kernel for each client, in bytes."""
EXPOSED = (
    "Listening on {host}: anybody who can reach this address and has a token can see what your agents see "
    "and use the rights of that token. Traffic, including the token, is not encrypted: on a shared network "
    "put a TLS proxy in front. Clients use a numeric address of this machine; allow a host name with "
    "--allow-host NAME."
)


class ListenOptions(Struct, frozen=True):
    """Address, port, further host names, and tokens of a server."""

    keys: AccessTokens
    host: str = LOOPBACK
    port: int = 0
    names: tuple[str, ...] = ()

    def hosts(self, port: int) -> list[str]:
        """The hosts that clients may name, with the port that the server got."""
        own = [LOOPBACK, "localhost", "[::1]"]
        if not ipaddress.ip_address(self.host).is_unspecified:
            own.append(_bracketed(self.host))
        at_port = [f"{name}:{port}" for name in (*own, *self.names)]
        return [*at_port, *self.names]  # a proxy may stand before it, at the usual port

    def url(self, port: int) -> str:
        """The URL on this machine."""
        host = LOOPBACK if ipaddress.ip_address(self.host).is_unspecified else self.host
        return f"http://{_bracketed(host)}:{port}"

    def warn(self) -> None:
        """Print a warning if other machines can reach the server."""
        if not ipaddress.ip_address(self.host).is_loopback:
            note(EXPOSED.format(host=self.host))


class UvicornServer(uvicorn.Server):
    """uvicorn without its signal handlers."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Do not capture signals."""
        yield


def server_of(app: Guard, goodbye_seconds: int) -> UvicornServer:
    """A uvicorn server with limits; its clients get `goodbye_seconds` when it shuts down."""
    return UvicornServer(
        uvicorn.Config(
            app,
            http=TimeoutProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=goodbye_seconds,
            h11_max_incomplete_event_size=LARGEST_HEAD,
        )
    )


@contextmanager
def listening(host: str, port: int) -> Generator[socket.socket, None, None]:
    """A listening socket; UserMistake when that is not possible."""
    try:
        kind = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
    except ValueError:
        raise UserMistake(f"{host!r} is not an IP address. Use numbers, such as 127.0.0.1.") from None
    with socket.socket(kind, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_ROOM)
        try:
            sock.bind((host, port))
            sock.listen(256)
        except OSError as error:
            raise UserMistake(_not_listening(host, port, error)) from None
        sock.setblocking(False)
        yield sock


def _not_listening(host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"Port {port} is already in use. Choose another with --port."
        case errno.EACCES:
            return f"Port {port} needs administrator rights. Choose one above 1023 with --port."
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine."
        case _:
            return f"Cannot listen on port {port} of {host}: {error.strerror}. Choose another with --port."


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
