"""A pool of HTTP/1.1 connections for the providers: one POST after another on connections that stay open.

A general client costs more than all the rest of a turn. This one sends a request in one write and hands out
the body of the answer as it comes. It follows no redirect and keeps no cookie.
"""

import asyncio
import errno
import ssl
from collections.abc import AsyncGenerator
from functools import cache

from gencode.providers.http_connection import HttpConnection, HttpFailure, HttpFault, HttpRoute

IDLE_SECONDS = 60.0
ROOM = 64 * 1024
"""So many bytes are read at once."""
EYEBALLS_SECONDS = 0.25
"""So much later the next address of a host is tried beside the one before."""


class HttpPool:
    """The connection pool of one event loop."""

    def __init__(self) -> None:
        self._room = memoryview(bytearray(ROOM))
        self._idle: dict[HttpRoute, list[HttpConnection]] = {}
        self._at_work: set[HttpConnection] = set()
        self._closed = False
        self._sweeping: asyncio.TimerHandle | None = None

    async def post(
        self, route: HttpRoute, head: bytes, body: bytes, *, connect: float, answer: float
    ) -> HttpConnection:
        """Send a request and wait for the headers of its answer; the caller gives the connection back.

        A server may close a kept connection at any time. It has then not seen the request, which is sent once
        more on a new connection.
        """
        connection = self._kept(route)
        if connection is not None:
            try:
                return await self._asked(connection, head, body, answer)
            except HttpFailure as trouble:
                if trouble.fault is not HttpFault.CLOSED:
                    raise
        return await self._asked(await _connected(route, connect, self._room), head, body, answer)

    def give_back(self, route: HttpRoute, connection: HttpConnection) -> None:
        """Keep a connection whose answer was read to its end; any other one is closed."""
        if connection not in self._at_work:
            return
        self._at_work.discard(connection)
        if not connection.rest() or self._closed:
            connection.abort()
            return
        self._idle.setdefault(route, []).append(connection)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._sweep)

    async def close(self) -> None:
        """Close every connection, and keep none that is given back later."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in [
            *self._at_work,
            *(connection for connections in self._idle.values() for connection in connections),
        ]:
            connection.abort()
        self._at_work.clear()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop tells its transports in its next turn

    async def _asked(
        self, connection: HttpConnection, head: bytes, body: bytes, answer: float
    ) -> HttpConnection:
        self._at_work.add(connection)
        answered = False
        try:
            await connection.send(head, body, answer)
            await connection.headed(answer)
            answered = True
        finally:
            if not answered:
                self._at_work.discard(connection)
                connection.abort()
        return connection

    def _kept(self, route: HttpRoute) -> HttpConnection | None:
        connections = self._idle.get(route)
        while connections:
            connection = connections.pop()
            if not connection.over:
                connection.begin()
                return connection
        return None

    def _sweep(self) -> None:
        """Close connections that were unused for long, and forget closed ones."""
        loop = asyncio.get_running_loop()
        for route, connections in list(self._idle.items()):
            kept: list[HttpConnection] = []
            for connection in connections:
                if connection.over or connection.since + IDLE_SECONDS <= loop.time():
                    connection.abort()
                else:
                    kept.append(connection)
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


async def _connected(route: HttpRoute, seconds: float, room: memoryview) -> HttpConnection:
    loop = asyncio.get_running_loop()
    address = route.proxy or route.server
    is_number = ":" in address.host or address.host[-1:].isdigit()
    try:
        async with asyncio.timeout(seconds):
            _, connection = await loop.create_connection(
                lambda: HttpConnection(room),
                address.host,
                address.port,
                ssl=trusted() if address.tls else None,
                happy_eyeballs_delay=None if is_number else EYEBALLS_SECONDS,
            )
            if route.proxy is not None and route.server.tls:
                tunnelled = False
                try:
                    await connection.tunnel(route, trusted())
                    tunnelled = True
                finally:
                    if not tunnelled:
                        connection.abort()
    except (OSError, ValueError, HttpFailure) as error:
        raise _unconnected(error, route) from None
    return connection


def _unconnected(error: Exception, route: HttpRoute) -> HttpFailure:
    """Why there is no connection."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return HttpFailure(HttpFault.UNTRUSTED)
    if isinstance(error, ssl.SSLError):
        return HttpFailure(HttpFault.NO_TLS)
    if isinstance(error, TimeoutError):
        return HttpFailure(HttpFault.SLOW)
    if isinstance(error, HttpFailure) and error.fault is HttpFault.PROXY_REFUSED:
        return error
    if route.proxy is not None:
        return HttpFailure(HttpFault.PROXY_SILENT)
    # Where several addresses were tried, asyncio gives their errors only as text.
    if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return HttpFailure(HttpFault.REFUSED)
    return HttpFailure(
        HttpFault.UNREACHED, (error.strerror if isinstance(error, OSError) else "") or "no connection"
    )


async def pool_of_loop(pools: dict[asyncio.AbstractEventLoop, HttpPool]) -> AsyncGenerator[HttpPool, None]:
    """Keeps the connections of this loop until it ends: asyncio closes every generator before it closes."""
    loop = asyncio.get_running_loop()
    pool = pools[loop] = HttpPool()
    try:
        yield pool
    finally:
        pools.pop(loop, None)
        await pool.close()
