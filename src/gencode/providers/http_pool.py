"""HTTP/1.1 as the providers of this rack need it: one POST after another on connections that stay open.

A general client costs more than all the rest of a turn. This one sends a request in one write and hands out
the body of the answer as it comes. It follows no redirect and keeps no cookie.
"""

import asyncio
import errno
import ssl
from collections.abc import AsyncGenerator
from functools import cache

from gencode.providers.http_connection import Fault, Line, Route, WireTrouble

IDLE_SECONDS = 60.0
ROOM = 64 * 1024
"""So many bytes are read at once."""
EYEBALLS_SECONDS = 0.25
"""So much later the next address of a host is tried beside the one before."""


class Wire:
    """The connections of one event loop."""

    def __init__(self) -> None:
        self._room = memoryview(bytearray(ROOM))
        self._idle: dict[Route, list[Line]] = {}
        self._at_work: set[Line] = set()
        self._closed = False
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
        return await self._asked(await _connected(route, connect, self._room), head, body, answer)

    def give_back(self, route: Route, line: Line) -> None:
        """Keep a line whose answer was heard to its end; any other one is closed."""
        if line not in self._at_work:
            return
        self._at_work.discard(line)
        if not line.rest() or self._closed:
            line.abort()
            return
        self._idle.setdefault(route, []).append(line)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._sweep)

    async def close(self) -> None:
        """Close every connection, and keep none that is given back later."""
        self._closed = True
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
            kept: list[Line] = []
            for line in lines:
                if line.over or line.since + IDLE_SECONDS <= loop.time():
                    line.abort()
                else:
                    kept.append(line)
            self._idle[route] = kept
            if not kept:
                del self._idle[route]
        self._sweeping = loop.call_later(IDLE_SECONDS, self._sweep) if self._idle else None


@cache
def trusted() -> ssl.SSLContext:
    """The certificates that this machine trusts; they take some milliseconds to load."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


async def _connected(route: Route, seconds: float, room: memoryview) -> Line:
    loop = asyncio.get_running_loop()
    door = route.proxy or route.server
    is_number = ":" in door.host or door.host[-1:].isdigit()
    try:
        async with asyncio.timeout(seconds):
            _, line = await loop.create_connection(
                lambda: Line(room),
                door.host,
                door.port,
                ssl=trusted() if door.tls else None,
                happy_eyeballs_delay=None if is_number else EYEBALLS_SECONDS,
            )
            if route.proxy is not None and route.server.tls:
                tunnelled = False
                try:
                    await line.tunnel(route, trusted())
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
