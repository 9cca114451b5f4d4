"""Fetches URLs for tools; it connects only to addresses whose permission was checked.

Each step of a fetch is judged, looked up once, and asked over a connection of its own that can reach nothing
but the judged addresses. Redirects are followed here, one by one; no proxy, no cookie and no open connection
can lead past the judgement. Bytes and seconds are counted while the page arrives. aiohttp is loaded with the
first fetch, never before.
"""

import asyncio
import re
import socket
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from msgspec import Struct

from gencode.core.errors import ToolError
from gencode.core.text import word_set
from gencode.permissions.urls import Hop, Target, judge_addresses, judge_redirect, judge_url

if TYPE_CHECKING:
    import ssl

    import aiohttp
    from aiohttp.abc import AbstractResolver

REDIRECTS = frozenset({301, 302, 303, 307, 308})
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_REPEATABLE = frozenset({"GET", "HEAD"})
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# These describe the connection or the body, which are ours.
_OUR_HEADERS = word_set(
    "accept-encoding connection content-length expect host keep-alive te trailer transfer-encoding upgrade"
)
_HARMLESS_HEADERS = frozenset({"accept", "accept-language", "user-agent"})
_PACKED_EXTRA = 64 * 1024
_MOST_MEMBERS = 1_000
# Characters that may stay unquoted in a path or query, and the percent sign of quoted ones.
_UNQUOTED = "%/?:@!$&'()*+,;=[]"

Cut = Literal["", "bytes", "seconds"]
"""Why a page is not whole: it was longer than wanted, or the time was over."""
Follow = Callable[[Target], Awaitable[None]]
"""Called before a redirect is followed; raises when it must not be. The clock is paused meanwhile."""


class WebLimits(Struct, frozen=True):
    """How much of a page is kept, unpacked, and how long everything may take."""

    most_bytes: int = 5 * 1024 * 1024
    seconds: float = 30.0


class WebRequest(Struct, frozen=True):
    """What to ask for."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes | None = None


class WebResponse(Struct, frozen=True):
    """The answer of the last hop; the names of its headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
    cut: Cut
    hops: tuple[Hop, ...]

    @property
    def url(self) -> str:
        """Where the page was found in the end."""
        return self.hops[-1].target.url


class WebResolver:
    """How names become addresses, and where an address is. Tests pass a small one of their own, as an object:
    no setting, file or variable can do that.
    """

    async def lookup(self, host: str) -> Sequence[str]:
        """Every address of a name; none when it is not known."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)):
                return ()
            raise ToolError(f"{host} cannot be looked up ({error.strerror}); is there a network?") from None
        return [str(address[0]) for *_, address in found]

    def place(self, address: str, port: int) -> tuple[str, int]:
        """Where the connection to a judged address goes: to that address."""
        return address, port

    def trust(self) -> "ssl.SSLContext | bool":
        """The trusted certificate authorities; True stands for the system's."""
        return True


LIMITS = WebLimits()
INTERNET = WebResolver()


async def fetch(
    request: WebRequest,
    limits: WebLimits = LIMITS,
    *,
    follow: Follow | None = None,
    internet: WebResolver = INTERNET,
) -> WebResponse:
    """Fetch a page from the public web; ToolError says why that failed."""
    _check(request)
    # Loading the client for the first time is not the server's time, so it comes before the clock.
    journey = _RequestChain(request, limits, internet, _breaks())
    clock = asyncio.timeout(limits.seconds)
    try:
        async with clock:
            await journey.travel(clock, follow)
    except TimeoutError:
        if not clock.expired():
            raise
        journey.out_of_time()
    return journey.arrived()


class _RequestChain:
    """One fetch on its way: the hops so far, and the page of the last one."""

    def __init__(
        self,
        request: WebRequest,
        limits: WebLimits,
        internet: WebResolver,
        breaks: tuple[type[Exception], ...],
    ) -> None:
        self._limits = limits
        self._internet = internet
        self._breaks = breaks
        self._method = request.method
        self._headers = {"User-Agent": "gencode", **request.headers, "Accept-Encoding": "gzip"}
        self._body = request.body
        self._next = judge_url(request.url)
        self._known: dict[str, tuple[str, ...]] = {}
        self._hops: list[Hop] = []
        self._status = 0
        self._answer: dict[str, str] = {}
        self._page: _BodyReader | None = None
        self._cut: Cut = ""

    async def travel(self, clock: asyncio.Timeout, follow: Follow | None) -> None:
        """Go from hop to hop until a page that is no redirect has been read."""
        while (location := await self._ask(await self._hop())) is not None:
            before = self._hops[-1].target
            self._next = judge_redirect(before, location, len(self._hops))
            self._change_request(before)
            if follow is not None:
                await _unhurried(clock, follow(self._next))

    def out_of_time(self) -> None:
        """Keep what has arrived, if anything has."""
        if self._page is None or not self._page.size:
            seconds = f"{self._limits.seconds:g} s"
            raise ToolError(f"{self._next.host} did not answer within {seconds}; try again or another page.")
        self._cut = "seconds"

    def arrived(self) -> WebResponse:
        """The answer as the caller gets it."""
        body = b"".join(self._page.pieces) if self._page else b""
        return WebResponse(self._status, self._answer, body, self._cut, tuple(self._hops))

    async def _hop(self) -> Hop:
        target = self._next
        if target.host not in self._known:
            found = (target.address,) if target.address else await self._internet.lookup(target.host)
            self._known[target.host] = judge_addresses(target, found)
        hop = Hop(target, self._known[target.host])
        self._hops.append(hop)
        return hop

    async def _ask(self, hop: Hop) -> str | None:
        """Ask one hop; the `Location` it sends us to, or None when its page was read."""
        try:
            async with (
                _client(hop, self._internet) as client,
                client.request(
                    self._method,
                    _spelled(hop.target),
                    headers=self._headers,
                    data=self._body,
                    allow_redirects=False,
                ) as response,
            ):
                self._status = response.status
                if response.status in REDIRECTS:
                    return response.headers.get("Location", "")
                self._answer = {name.lower(): value for name, value in response.headers.items()}
                await self._read(response)
        except self._breaks as error:
            raise _trouble(error, hop.target, begun=self._page is not None) from None
        return None

    async def _read(self, response: "aiohttp.ClientResponse") -> None:
        host, packing = self._next.host, response.headers.get("Content-Encoding", "identity").strip().lower()
        if packing not in ("identity", "gzip", "x-gzip") and self._method != "HEAD":
            raise ToolError(f"{host} packed its page in a way that was not asked for; try another page.")
        self._page = page = _BodyReader(self._limits.most_bytes, packed=packing != "identity")
        try:
            while not page.full and (piece := await response.content.readany()):
                page.take(piece)
        except zlib.error:
            raise ToolError(f"{host} sent a page that cannot be unpacked; try another page.") from None
        finally:
            response.close()
        self._cut = "bytes" if page.full else ""
        if page.half and self._method != "HEAD":
            raise ToolError(f"{host} sent only a part of its page; try again or another page.")

    def _change_request(self, before: Target) -> None:
        """What a redirect makes of the request; nothing of the caller goes to another machine unasked."""
        if self._method not in _REPEATABLE:
            if self._status != 303 and not (self._method == "POST" and self._status in (301, 302)):
                raise ToolError(
                    f"{before.host} redirects the {self._method} to {self._next.url}, "
                    "and it is not sent there unasked; ask that address if it is meant."
                )
            self._method, self._body = "GET", None
        if before.origin != self._next.origin:
            kept = {*_HARMLESS_HEADERS, "accept-encoding"}
            self._headers = {name: value for name, value in self._headers.items() if name.lower() in kept}


class _BodyReader:
    """The beginning of a page, unpacked as it arrives; never more than wanted is held or unpacked."""

    def __init__(self, most: int, *, packed: bool) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self.full = False
        self._most = most
        self._arrived = 0
        self._members = 0
        self._unpacker = zlib.decompressobj(wbits=31) if packed else None

    @property
    def half(self) -> bool:
        """Whether the page ended in the middle of what was packed."""
        if self._unpacker is None or self.full:
            return False
        return self._arrived > 0 and not self._unpacker.eof

    def take(self, piece: bytes) -> None:
        """Some more bytes as they came over the wire."""
        self._arrived += len(piece)
        if self._unpacker is None:
            self._keep(piece[: self._most - self.size + 1])
            return
        while piece and not self.full:
            if self._unpacker.eof:
                self._count_member()
                self._unpacker = zlib.decompressobj(wbits=31)
            self._keep(self._unpacker.decompress(piece, self._most - self.size + 1))
            piece = self._unpacker.unconsumed_tail or self._unpacker.unused_data
        # Packed bytes that unpack to almost nothing could otherwise come for ever.
        self.full = self.full or self._arrived > self._most + _PACKED_EXTRA

    def _count_member(self) -> None:
        # Every empty member costs a copy of all that follows it.
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise zlib.error("too many members")

    def _keep(self, piece: bytes) -> None:
        room = self._most - self.size
        self.full = len(piece) > room
        self.pieces.append(piece[:room])
        self.size += len(self.pieces[-1])


def _breaks() -> tuple[type[Exception], ...]:
    """What a connection that breaks raises."""
    import aiohttp
    from aiohttp.http_exceptions import HttpProcessingError

    return aiohttp.ClientError, HttpProcessingError, OSError


def _check(request: WebRequest) -> None:
    """Refuse a method or a header that would change what the connection means."""
    if request.method not in METHODS:
        raise ToolError(f"{request.method!r} is no method; use one of {', '.join(sorted(METHODS))}.")
    for name, value in request.headers.items():
        lower = name.lower()
        if lower in _OUR_HEADERS or lower.startswith(("proxy-", "sec-")):
            raise ToolError(f"The header {name!r} cannot be set; leave it out.")
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ToolError(f"The header {name!r} holds characters that no header has.")


async def _unhurried(clock: asyncio.Timeout, asked: Awaitable[None]) -> None:
    """Wait for an approval while the clock is paused."""
    loop, ends = asyncio.get_running_loop(), clock.when()
    began = loop.time()
    clock.reschedule(None)
    await asked
    if ends is not None:
        clock.reschedule(ends + loop.time() - began)


def _spelled(target: Target) -> Any:
    """The judged URL as the client takes it, so that nothing reads its host a second time."""
    from yarl import URL

    return URL(target.origin + quote(target.rest, safe=_UNQUOTED), encoded=True)


def _client(hop: Hop, internet: WebResolver) -> "aiohttp.ClientSession":
    """A client for one request, which knows no address but those of its hop."""
    import aiohttp

    connector = aiohttp.TCPConnector(
        resolver=_pinned(hop, internet), ssl=internet.trust(), use_dns_cache=False, force_close=True
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
    )


def _pinned(hop: Hop, internet: WebResolver) -> "AbstractResolver":
    """A resolver that looks nothing up: it gives the addresses that were judged.

    It is not asked when the host is an address: then the URL itself is what was judged.
    """
    from aiohttp.abc import AbstractResolver, ResolveResult

    class Pinned(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            if (host, port) != (hop.target.host, hop.target.port):
                raise OSError(f"{host}:{port} was not judged")
            places = [internet.place(address, port) for address in hop.addresses]
            return [
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=at,
                    family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                    proto=socket.IPPROTO_TCP,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
                for address, at in places
            ]

        async def close(self) -> None:
            """Nothing is held."""

    return Pinned()


def _trouble(error: Exception, target: Target, *, begun: bool) -> ToolError:
    """An error of the connection, as a sentence a model can act on."""
    import aiohttp

    host = target.host
    if begun:
        return ToolError(f"{host} broke off in the middle of its page; try again or another page.")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return ToolError(f"{host} shows no certificate that can be trusted; try another page.")
    if isinstance(error, aiohttp.ClientSSLError):
        return ToolError(f"{host} does not speak TLS at port {target.port}; is it an http:// address?")
    if isinstance(error, aiohttp.ClientConnectorError):
        refused = isinstance(error.os_error, ConnectionRefusedError)
        why = "nothing listens there" if refused else error.os_error.strerror or "no connection"
        return ToolError(f"{host} cannot be reached at port {target.port}: {why}; try another page.")
    if isinstance(error, aiohttp.ClientResponseError):
        return ToolError(f"{host} answered with something that is not HTTP; try another page.")
    return ToolError(f"{host} closed the connection without an answer; try again or another page.")
