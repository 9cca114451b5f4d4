"""One HTTP/1.1 connection and the response on it: asyncio's transport, parsed by llhttp (httptools)."""

import asyncio
import socket
import ssl
from enum import Enum
from typing import cast

import httptools
from msgspec import Struct

SLICE = 256 * 1024
"""A longer body goes out in slices, so that the loop stays free."""
MOST_HEAD = 64 * 1024
"""So much may come at one stretch that is no part of a body: a head, trailers, announcements."""
MOST_HELD = 1024 * 1024
"""So much of an answer waits to be taken before the server has to wait."""
MOST_HEARD = 512 * 1024 * 1024
"""So much may come for one request, whatever it is: chunks of one byte have no end of headers."""


class HttpFault(Enum):
    """What can go wrong in an HTTP exchange."""

    UNREACHED = "no connection"
    REFUSED = "nothing listens there"
    SLOW = "no connection in time"
    UNTRUSTED = "a certificate that cannot be trusted"
    NO_TLS = "it does not speak TLS"
    PROXY_SILENT = "the proxy does not answer"
    PROXY_REFUSED = "the proxy refused"
    NOT_HTTP = "it does not speak HTTP"
    CLOSED = "closed before an answer began"
    BROKEN = "closed or garbled inside an answer"
    SILENT = "nothing came for too long"


class HttpFailure(Exception):
    """A failed HTTP exchange; `words` are the system's own."""

    def __init__(self, fault: HttpFault, words: str = "", status: int = 0) -> None:
        super().__init__(fault.value)
        self.fault = fault
        self.words = words
        self.status = status


class HostAddress(Struct, frozen=True):
    """A host and port that connections are made to."""

    host: str
    port: int
    tls: bool

    @property
    def named(self) -> str:
        """Host and port as a request names them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class HttpRoute(Struct, frozen=True):
    """The route to a server: direct, or through a proxy that may need authentication."""

    server: HostAddress
    proxy: HostAddress | None = None
    pass_: str = ""


class HttpConnection(asyncio.BufferedProtocol):
    """One HTTP connection, and the response that arrives on it.

    What comes is read into `room`, which the connections of a loop share: it is taken out of there before the
    loop reads from the next one. Room of its own for each piece would cost more than all else in reading it.
    """

    __slots__ = (
        "_bare",
        "_busy",
        "_end",
        "_fault",
        "_head",
        "_headed",
        "_heard",
        "_held",
        "_loop",
        "_parser",
        "_pieces",
        "_room",
        "_spoilt",
        "_timer",
        "_transport",
        "_waiter",
        "_writable",
        "over",
        "since",
        "status",
        "whole",
    )

    def __init__(self, room: memoryview) -> None:
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._parser = self._new_parser()
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._busy = self._spoilt = self.over = False
        self._end = self.since = 0.0
        self._transport = cast("asyncio.Transport", None)
        self.begin()

    def begin(self) -> None:
        """Forget the answer before; the next one is awaited."""
        self._head: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._headed = self.whole = False
        self._fault: HttpFault | None = HttpFault.CLOSED if self.over else None
        self._bare = self._heard = self._held = self.status = 0
        self._busy = True

    def rest(self) -> bool:
        """Whether another request can be sent on it; from here on nothing is expected."""
        self._busy = False
        self.since = self._loop.time()
        # One that still holds so much has stopped to read.
        heard = self.whole and self._held <= MOST_HELD
        return heard and not self._spoilt and not self._transport.is_closing()

    def abort(self) -> None:
        """Close it at once; an answer that ends with its connection is not whole thereby."""
        self._fail(HttpFault.BROKEN if self._heard else HttpFault.CLOSED)
        self._transport.abort()

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer, with lower-case names."""
        return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._head}

    def says(self, name: bytes) -> bool:
        """Whether the head of the answer has such a header."""
        return name in [each.lower() for each, _ in self._head]

    async def send(self, head: bytes, body: bytes, seconds: float) -> None:
        """Send a request; the rest of it is kept back once it is of no use."""
        if len(body) <= SLICE:
            self._transport.write(head + body)
            return
        self._transport.write(head)
        for start in range(0, len(body), SLICE):
            if self._settled():
                self._spoilt = True
                return
            self._transport.write(body[start : start + SLICE])
            if self._writable is not None:
                async with asyncio.timeout(seconds):
                    await self._writable
            await asyncio.sleep(0)

    async def headed(self, seconds: float) -> None:
        """Wait for the head of the answer."""
        end = self._loop.time() + seconds
        while not self._headed:
            await self._news(end)

    async def piece(self, seconds: float) -> bytes:
        """What has come of the body, also before a fault, at least a byte; nothing at its end."""
        end = 0.0
        while not self._pieces:
            if self.whole:
                return b""
            end = end or self._loop.time() + seconds
            await self._news(end)
        taken = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        if self._held > MOST_HELD:
            self._transport.resume_reading()
        self._held = 0
        return taken

    async def tunnel(self, route: HttpRoute, context: ssl.SSLContext) -> None:
        """Let the proxy at the other end connect, and begin TLS with the server behind it."""
        place = route.server.named
        self._transport.write(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{route.pass_}\r\n".encode())
        await self.headed(3600.0)  # the caller limits the time of the whole connection
        if self.status != 200:
            raise HttpFailure(HttpFault.PROXY_REFUSED, status=self.status)
        self._parser = self._new_parser()
        begun = await self._loop.start_tls(self._transport, self, context, server_hostname=route.server.host)
        if begun is None:  # it was closed meanwhile, and asyncio does not say so
            raise HttpFailure(HttpFault.CLOSED)
        self._transport = cast("asyncio.Transport", begun)
        self._spoilt = False  # whatever the proxy sent with its own answer
        self.begin()

    def _settled(self) -> bool:
        """Whether sending the rest of a request is useless: it was refused, answered, or cut off."""
        return self.status not in (0, 200) or self.whole or self._fault is not None

    async def _news(self, end: float) -> None:
        """Wait until something more is known of the answer, up to a moment of the loop's clock."""
        if self._fault is not None:
            raise HttpFailure(self._fault)
        self._waiter = self._loop.create_future()
        self._end = end
        if self._timer is None or self._timer.when() > end:
            self._wind(end)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wind(self, end: float) -> None:
        """Set the one timer of the connection: most waits are short, and one for each would cost more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(end, self._ring)

    def _ring(self) -> None:
        self._timer = None
        # In a busy loop bytes may have arrived that were not read yet.
        if self._waiter is None or self._waiter.done():
            return
        if self._loop.time() < self._end:
            self._wind(self._end)
        else:
            self._fail(HttpFault.SILENT)

    def _fail(self, fault: HttpFault) -> None:
        if not self.whole:
            self._fault = self._fault or fault
        self._spoilt = True
        self._wake()

    def _garbled(self) -> None:
        """What comes is no answer, or has no end: nothing more of it is read."""
        self._fail(HttpFault.BROKEN if self._headed else HttpFault.NOT_HTTP)
        self.abort()

    def _wake(self) -> None:
        if self._writable is not None and self._settled():
            self.resume_writing()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _new_parser(self) -> httptools.HttpResponseParser:
        parser = httptools.HttpResponseParser(self)
        parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        return parser

    # What the connection tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It can be written to."""
        self._transport = cast("asyncio.Transport", transport)
        if (made := transport.get_extra_info("socket")) is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes are read into."""
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        """Feed bytes of an answer to the parser; unrequested bytes end the connection."""
        if not self._busy:
            self.abort()
            return
        held = self._held
        self._heard += nbytes
        try:
            self._parser.feed_data(self._room[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._garbled()
        self._bare = self._bare + nbytes if self._held == held else 0
        if self._bare > MOST_HEAD or self._heard > MOST_HEARD:
            self._garbled()
        if self._held > MOST_HELD:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """The server closed its side, so nothing that is still to be sent can be answered."""
        if self._transport.get_write_buffer_size():
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over; an answer without a length ends with its connection."""
        self.over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._headed and exc is None and self._fault is None:
            said = self.headers
            chunked = "chunked" in said.get("transfer-encoding", "").lower()
            self.whole = self.whole or not (chunked or "content-length" in said)
        self._fail(HttpFault.BROKEN if self._heard else HttpFault.CLOSED)

    def pause_writing(self) -> None:
        """The other side does not read as fast as we write."""
        self._writable = self._writable or self._loop.create_future()

    def resume_writing(self) -> None:
        """It has caught up."""
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # What the parser tells.

    def on_message_begin(self) -> None:
        """An answer begins; a second one to the same request is none."""
        if self.whole:
            self._spoilt = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        if not self._headed:
            self._head.append((name, value))

    def on_headers_complete(self) -> None:
        """The headers are complete; those of an informational (1xx) answer are not the final ones."""
        if self.whole:
            return
        status = self._parser.get_status_code()
        if 100 <= status < 200:
            self._head.clear()
        else:
            self.status = status
            self._headed = True

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._headed and not self.whole:
            self._pieces.append(body)
            self._held += len(body)

    def on_message_complete(self) -> None:
        """The answer is whole."""
        if self._headed and not self.whole:
            self.whole = True
            self._spoilt = self._spoilt or not self._parser.should_keep_alive()
