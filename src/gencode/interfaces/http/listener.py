"""Where and how the server listens: its socket, the names it goes by, and HTTP/1.1 with timeouts.

A peer that does not finish its request head, or takes nothing for long, is disconnected. What is sent to
hundreds of streams at once is framed once and written to their sockets, past the parser of each connection.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import h11
import uvicorn
from msgspec import Struct
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from gencode.core.errors import UserMistake
from gencode.interfaces.http.guard import Guard, Keys
from gencode.interfaces.render.plain_text import note

HEAD_SECONDS = 10.0
STUCK_SECONDS = 60.0
"""So long a peer may take nothing of what waits for it."""
MOST_AT_ONCE = 65_536
"""So many bytes are handed to a connection before it is asked whether its peer takes more."""
WIRE = "wire"
"""Under this name the state of a request holds the way to its peer."""


class Framed(NamedTuple):
    """Some frames as they are, and as one chunk of an answer."""

    plain: bytes
    chunk: bytes


def framed(frames: bytes) -> Framed:
    """Frames that are sent to many."""
    return Framed(frames, b"%x\r\n%b\r\n" % (len(frames), frames))


class Wire:
    """The way to one peer; only who has begun an answer without a length may use it, between its pieces."""

    def __init__(self, transport: asyncio.WriteTransport, flow: FlowControl) -> None:
        self._transport = transport
        self._flow = flow
        self.chunked = True
        """Whether the answer is sent in chunks; an old peer is sent bytes until the end."""

    def write(self, news: Framed) -> bool:
        """Send at once; False when that is too much, the peer does not take any more now, or is gone."""
        if len(news.chunk) > MOST_AT_ONCE or self._flow.write_paused or self._transport.is_closing():
            return False
        self._transport.write(news.chunk if self.chunked else news.plain)
        return True

    def cut(self) -> None:
        """Let go of a peer at once, with whatever waits for it."""
        self._transport.abort()


class Impatient(H11Protocol):
    """uvicorn's protocol, which itself only bounds the time between requests."""

    _late: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect the head of a request from now on."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, WIRE: Wire(transport, self.flow)}
        self._expect()

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
KEEP_ALIVE_SECONDS = 15
SEND_ROOM = 262_144
"""So many bytes the machine keeps for a peer that does not read."""
EXPOSED = (
    "This listens on {host}: everybody who can reach this machine there and has a token can see what your "
    "agents see, and act as that token says. Nothing is encrypted on the way, not even the token; where "
    "others share the network, put a proxy with TLS before it. It is asked for under an address of this "
    "machine in numbers; for a name add --allow-host NAME."
)


class Wish(Struct, frozen=True):
    """Where to listen, under which other names, and with which tokens."""

    keys: Keys
    host: str = LOOPBACK
    port: int = 0
    names: tuple[str, ...] = ()

    def hosts(self, port: int) -> list[str]:
        """What a peer may call the server that got this port."""
        own = [LOOPBACK, "localhost", "[::1]"]
        if not ipaddress.ip_address(self.host).is_unspecified:
            own.append(_bracketed(self.host))
        at_port = [f"{name}:{port}" for name in (*own, *self.names)]
        return [*at_port, *self.names]  # a proxy may stand before it, at the usual port

    def url(self, port: int) -> str:
        """Where somebody on this machine finds it."""
        host = LOOPBACK if ipaddress.ip_address(self.host).is_unspecified else self.host
        return f"http://{_bracketed(host)}:{port}"

    def warn(self) -> None:
        """Say what it means that others can reach it, if they can."""
        if not ipaddress.ip_address(self.host).is_loopback:
            note(EXPOSED.format(host=self.host))


class Server(uvicorn.Server):
    """uvicorn without its own idea of signals."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave the signals to us."""
        yield


def server_of(app: Guard, goodbye_seconds: int) -> Server:
    """A server that lets nobody have more than their share; `goodbye_seconds` its peers get at its end."""
    return Server(
        uvicorn.Config(
            app,
            http=Impatient,
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
    """A socket that listens; UserMistake when the address cannot be had."""
    try:
        kind = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
    except ValueError:
        raise UserMistake(f"{host!r} is no address; write it as numbers, such as 127.0.0.1.") from None
    with socket.socket(kind, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_ROOM)
        try:
            sock.bind((host, port))
            sock.listen(256)
        except OSError as error:
            raise UserMistake(
                f"Port {port} of {host} cannot be had: {error.strerror}; choose another with --port."
            ) from None
        sock.setblocking(False)
        yield sock


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
