"""Where a server listens: its socket, the names it goes by, how it treats its peers (surfaces, server)."""

import ipaddress
import socket
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.interfaces.http.guard import Guard
from gencode.interfaces.http.protocol import Impatient
from gencode.interfaces.http.tokens import Keys
from gencode.interfaces.render.plain_text import note

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
