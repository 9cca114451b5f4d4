"""HTTP/1.1 as the providers of this rack need it: one POST after another on connections that stay open.

A general client costs more than all the rest of a turn. This one sends a request in one write, lets llhttp (as
httptools) read the answer, and hands out its body as it comes. It follows no redirect and keeps no cookie.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncGenerator
from enum import Enum
from functools import cache
from typing import cast

import httptools
from msgspec import Struct

SLICE = 256 * 1024
"""A longer body goes out in slices, so that the loop stays free."""
MOST_HEAD = 64 * 1024
MOST_HELD = 1024 * 1024
"""So much of an answer waits to be taken before the server has to wait."""
IDLE_SECONDS = 60.0
EYEBALLS_SECONDS = 0.25
"""So much later the next address of a host is tried beside the one before."""


class Fault(Enum):
    """What can go wrong on the wire."""

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


class WireTrouble(Exception):
    """An exchange that failed; `words` are the system's own."""

    def __init__(self, fault: Fault, words: str = "", status: int = 0) -> None:
        super().__init__(fault.value)
        self.fault = fault
        self.words = words
        self.status = status


class Door(Struct, frozen=True):
    """One address that connections are made to."""

    host: str
    port: int
    tls: bool

    @property
    def named(self) -> str:
        """Host and port as a request names them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Route(Struct, frozen=True):
    """The way to a server: straight, or through a proxy that may want to know who asks."""

    server: Door
    proxy: Door | None = None
    pass_: str = ""


class Line(asyncio.Protocol):
    """One connection, and the answer that arrives on it."""

    __slots__ = (
        *("_busy", "_fault", "_head", "_headed", "_heard", "_held", "_interim", "_loop", "_parser"),
        *("_pieces", "_spoilt", "_transport", "_waiter", "_writable", "over", "since", "status", "whole"),
    )

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = self._new_parser()
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._busy = self._spoilt = self._interim = self.over = False
        self.since = 0.0
        self._transport = cast("asyncio.Transport", None)
        self.begin()

    def begin(self) -> None:
        """Forget the answer before; the next one is awaited."""
        self._head: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._headed = self.whole = False
        self._fault: Fault | None = Fault.CLOSED if self.over else None
        self._heard = self._held = self.status = 0
        self._busy = True

    def rest(self) -> bool:
        """Whether another request can be sent on it; from here on nothing is expected."""
        self._busy = False
        self.since = self._loop.time()
        return self.whole and not self._spoilt and not self._transport.is_closing()

    def abort(self) -> None:
        """Close it at once."""
        self._transport.abort()

    @property
    def headers(self) -> dict[str, str]:
        """What the head of the answer says, in lower case."""
        return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._head}

    def says(self, name: bytes) -> bool:
        """Whether the head of the answer has such a header."""
        return any(len(each) == len(name) and each.lower() == name for each, _ in self._head)

    async def send(self, head: bytes, body: bytes, seconds: float) -> None:
        """Send a request; the rest of it is kept back once an answer comes."""
        if len(body) <= SLICE:
            self._transport.write(head + body)
            return
        self._transport.write(head)
        for start in range(0, len(body), SLICE):
            if self.over or self._heard:
                self._spoilt = True
                return
            self._transport.write(body[start : start + SLICE])
            if self._writable is not None:
                async with asyncio.timeout(seconds):
                    await self._writable
            await asyncio.sleep(0)

    async def headed(self, seconds: float) -> None:
        """Wait for the head of the answer."""
        while not self._headed:
            await self._news(seconds)

    async def piece(self, seconds: float) -> bytes:
        """What has come of the body, at least a byte; nothing at its end. What came before a fault is given."""
        while not self._pieces:
            if self.whole:
                return b""
            await self._news(seconds)
        taken = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        if self._held > MOST_HELD:
            self._transport.resume_reading()
        self._held = 0
        return taken

    async def tunnel(self, route: Route, context: ssl.SSLContext) -> None:
        """Let the proxy at the other end connect, and begin TLS with the server behind it."""
        place = route.server.named
        self._transport.write(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{route.pass_}\r\n".encode())
        await self.headed(3600.0)  # whoever connects has a limit on the whole of it
        if self.status != 200:
            raise WireTrouble(Fault.PROXY_REFUSED, status=self.status)
        self._parser = self._new_parser()
        begun = await self._loop.start_tls(self._transport, self, context, server_hostname=route.server.host)
        self._transport = cast("asyncio.Transport", begun)
        self.begin()

    async def _news(self, seconds: float) -> None:
        """Wait until something more is known of the answer."""
        if self._fault is not None:
            raise WireTrouble(self._fault)
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._give_up)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _give_up(self) -> None:
        # In a busy loop something may have come that nobody has looked at yet.
        if self._waiter is not None and not self._waiter.done():
            self._fail(Fault.SILENT)

    def _fail(self, fault: Fault) -> None:
        if not self.whole:
            self._fault = self._fault or fault
        self._spoilt = True
        self._wake()

    def _wake(self) -> None:
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

    def data_received(self, data: bytes) -> None:
        """Some bytes of an answer; what nobody asked for ends the connection."""
        if not self._busy:
            self.abort()
            return
        self._heard += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(Fault.BROKEN if self._headed else Fault.NOT_HTTP)
        if not self._headed and self._heard > MOST_HEAD:
            self._fail(Fault.NOT_HTTP)
        if self._held > MOST_HELD:
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over; an answer without a length ends with its connection."""
        self.over = True
        framed = self.says(b"content-length") or self.says(b"transfer-encoding")
        if self._headed and exc is None and not framed:
            self.whole = True
        self._fail(Fault.BROKEN if self._heard else Fault.CLOSED)
        self.resume_writing()

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
        """The head is whole; one that only says that the answer is being worked on is not it."""
        if self.whole:
            return
        status = self._parser.get_status_code()
        self._interim = 100 <= status < 200
        if self._interim:
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


class Wire:
    """The connections of one event loop."""

    def __init__(self) -> None:
        self._idle: dict[Route, list[Line]] = {}
        self._at_work: set[Line] = set()
        self._sweeping: asyncio.TimerHandle | None = None

    async def post(self, route: Route, head: bytes, body: bytes, *, connect: float, answer: float) -> Line:
        """Send a request and wait for the head of its answer; whoever gets the line gives it back.

        A server lets go of a connection that was kept open when it likes; then the request was never looked
        at, and it goes out once more on a new connection.
        """
        line = self._kept(route)
        if line is not None:
            try:
                return await self._asked(line, head, body, answer)
            except WireTrouble as trouble:
                if trouble.fault is not Fault.CLOSED:
                    raise
        return await self._asked(await _connected(route, connect), head, body, answer)

    def give_back(self, route: Route, line: Line) -> None:
        """Keep a line whose answer was heard to its end; any other one is closed."""
        if line not in self._at_work:
            return
        self._at_work.discard(line)
        if not line.rest():
            line.abort()
            return
        self._idle.setdefault(route, []).append(line)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._sweep)

    async def close(self) -> None:
        """Close every connection."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for line in [*self._at_work, *(line for lines in self._idle.values() for line in lines)]:
            line.abort()
        self._at_work.clear()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop tells its transports in its next turn

    async def _asked(self, line: Line, head: bytes, body: bytes, answer: float) -> Line:
        self._at_work.add(line)
        answered = False
        try:
            await line.send(head, body, answer)
            await line.headed(answer)
            answered = True
        finally:
            if not answered:
                self._at_work.discard(line)
                line.abort()
        return line

    def _kept(self, route: Route) -> Line | None:
        lines = self._idle.get(route)
        while lines:
            line = lines.pop()
            if not line.over:
                line.begin()
                return line
        return None

    def _sweep(self) -> None:
        """Close what nobody has used for long, and forget what is closed."""
        loop = asyncio.get_running_loop()
        for route, lines in list(self._idle.items()):
            old = [line for line in lines if line.over or line.since + IDLE_SECONDS <= loop.time()]
            for line in old:
                line.abort()
            self._idle[route] = [line for line in lines if line not in old]
            if not self._idle[route]:
                del self._idle[route]
        self._sweeping = loop.call_later(IDLE_SECONDS, self._sweep) if self._idle else None


@cache
def _trusted() -> ssl.SSLContext:
    """The certificates that this machine trusts; they take some milliseconds to load."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


async def _connected(route: Route, seconds: float) -> Line:
    loop = asyncio.get_running_loop()
    door = route.proxy or route.server
    is_number = ":" in door.host or door.host[-1:].isdigit()
    try:
        async with asyncio.timeout(seconds):
            _, line = await loop.create_connection(
                Line,
                door.host,
                door.port,
                ssl=_trusted() if door.tls else None,
                happy_eyeballs_delay=None if is_number else EYEBALLS_SECONDS,
            )
            if route.proxy is not None and route.server.tls:
                tunnelled = False
                try:
                    await line.tunnel(route, _trusted())
                    tunnelled = True
                finally:
                    if not tunnelled:
                        line.abort()
    except (OSError, ValueError, WireTrouble) as error:
        raise _unconnected(error, route) from None
    return line


def _unconnected(error: Exception, route: Route) -> WireTrouble:
    """Why there is no connection."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return WireTrouble(Fault.UNTRUSTED)
    if isinstance(error, ssl.SSLError):
        return WireTrouble(Fault.NO_TLS)
    if isinstance(error, TimeoutError):
        return WireTrouble(Fault.SLOW)
    if isinstance(error, WireTrouble) and error.fault is Fault.PROXY_REFUSED:
        return error
    if route.proxy is not None:
        return WireTrouble(Fault.PROXY_SILENT)
    # Of several addresses that were tried, the loop only tells in words what each one said.
    if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return WireTrouble(Fault.REFUSED)
    return WireTrouble(
        Fault.UNREACHED, (error.strerror if isinstance(error, OSError) else "") or "no connection"
    )


async def hold(wires: dict[asyncio.AbstractEventLoop, Wire]) -> AsyncGenerator[Wire, None]:
    """Keeps the connections of this loop until it ends: asyncio closes every generator before it closes."""
    loop = asyncio.get_running_loop()
    wire = wires[loop] = Wire()
    try:
        yield wire
    finally:
        wires.pop(loop, None)
        await wire.close()
