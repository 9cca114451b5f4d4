"""The HTTP endpoint of a model: sends a request, and reads its answer as server-sent events or whole."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

import msgspec
from msgspec import Struct

from gencode.core.errors import ProviderError, UserMistake
from gencode.providers.http_connection import HostAddress, HttpConnection, HttpFailure, HttpFault, HttpRoute
from gencode.providers.http_pool import HttpPool, pool_of_loop
from gencode.providers.provider_errors import ModelErrors

MOST_BYTES = 128 * 1024 * 1024
"""The longest answer that is read; a longer one is no answer."""
MOST_ERROR_BYTES = 64 * 1024
LAST_WAIT = 2.0
"""How long a server may be silent after a whole reply, before it reports usage and ends the stream."""
LAST_WAITS = 10.0
"""How long all of that may take, however busy the server is."""
_NO_HEADER = -15
_EITHER_HEADER = 47
"""zlib's own way to say: with the header of gzip or of deflate."""
_AS_IT_IS = "/%:@!$&'()*+,;=?~-._"
"""Characters that may stand unescaped in the path and query of a request."""


_CR, _LF = b"\r\n"  # as numbers: looking for one is several times as quick as for a text of one byte


class HttpTimeouts(Struct, frozen=True):
    """Timeouts in seconds: for a connection, for the first byte of a response, and between two bytes."""

    connect: float = 30.0
    first_byte: float = 300.0
    between_bytes: float = 180.0


DEFAULT_TIMEOUTS = HttpTimeouts()


class ModelEndpoint:
    """One model at one address: sends the bytes of a request, returns the response."""

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        *,
        secret: str,
        timeouts: HttpTimeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        if not (secret.isascii() and secret.isprintable()):
            raise UserMistake(f"The API key for {name} contains characters that no key has; copy it again.")
        self.errors = ModelErrors(name, url.partition("?")[0], secret, *_secrets_of(url))
        self._url = url
        self._headers = {
            **headers,
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "gencode",
        }
        self._timeouts = timeouts
        self._route: HttpRoute | None = None
        self._head = b""

    async def ask(self, body: bytes, thinking: str | None = None) -> "HttpResponse":
        """Send a request and wait for the first bytes of its answer; the caller closes the answer.

        `thinking` is the parameter of the request that asks for reasoning, for the case that it is refused.
        """
        route = self._route or self._learn_route()
        pool = await _pool_of_loop()
        head = b"%b%d\r\n\r\n" % (self._head, len(body))
        limits = self._timeouts
        try:
            connection = await pool.post(route, head, body, connect=limits.connect, answer=limits.first_byte)
        except (HttpFailure, TimeoutError) as error:
            raise self._unreached(error) from None
        answer = HttpResponse(connection, lambda: pool.give_back(route, connection), self.errors, limits)
        begun = False
        try:
            await answer.begin(thinking)
            begun = True
        finally:
            if not begun:
                answer.close()
        return answer

    def _learn_route(self) -> HttpRoute:
        """The way to the server, and the head of every request but for the length of its body."""
        parts = urlsplit(self._url)
        try:
            server, host = _host_address(parts)
            proxy = self._proxy()
            way = urlsplit(proxy) if proxy else None
            door = _host_address(way)[0] if way else None
            named = _proxy_authorization(way)
            path = quote(parts.path, safe=_AS_IT_IS)
            path += f"?{quote(parts.query, safe=_AS_IT_IS)}" if parts.query else ""
        except ValueError:  # an address that no URL can have
            raise self.errors.error("cannot be asked: check the base URL and the proxy.") from None
        through = door is not None and not server.tls
        headers = [f"{name}: {value}\r\n" for name, value in ({"Host": host} | self._headers).items()]
        target = f"{parts.scheme}://{host}{path}" if through else path
        lines = "".join((f"POST {target} HTTP/1.1\r\n", *headers, named if through else ""))
        self._head = f"{lines}Content-Length: ".encode()
        self._route = HttpRoute(server, door, named)
        return self._route

    def _proxy(self) -> str | None:
        """The proxy that the environment names for this address; what is on this machine needs none."""
        parts = urlsplit(self._url)
        host = parts.hostname or ""
        if host == "localhost" or host.startswith("127.") or host == "::1":
            return None
        from urllib.request import getproxies, proxy_bypass  # it loads a whole HTTP client

        proxy = None if proxy_bypass(host) else getproxies().get(parts.scheme)
        if not proxy or "://" not in proxy:
            return f"http://{proxy}" if proxy else None
        if not proxy.lower().startswith(("http://", "https://")):
            kind = proxy.partition("://")[0]
            raise self.errors.error(
                f"cannot be reached: the environment names a {kind} proxy, and only http works."
            )
        return proxy

    def _unreached(self, error: HttpFailure | TimeoutError) -> ProviderError:
        say, place = self.errors.error, self.errors.address
        match error.fault if isinstance(error, HttpFailure) else HttpFault.SILENT:
            case HttpFault.SLOW:
                seconds = f"{self._timeouts.connect:g} s"
                return say(f"cannot be reached: no connection to {place} within {seconds}.", retryable=True)
            case HttpFault.SILENT:
                return say(f"did not answer within {self._timeouts.first_byte:g} s.", retryable=True)
            case HttpFault.UNTRUSTED:
                return say(f"cannot be reached safely: {place} shows no certificate that can be trusted.")
            case HttpFault.NO_TLS:
                return say(f"cannot be reached safely: {place} does not speak TLS. Is it an http:// address?")
            case HttpFault.PROXY_REFUSED:
                status = error.status if isinstance(error, HttpFailure) else 0
                return say(f"cannot be reached: the proxy refused to connect (HTTP {status}).")
            case HttpFault.PROXY_SILENT:
                return say("cannot be reached: the proxy of the environment does not answer.", retryable=True)
            case HttpFault.REFUSED | HttpFault.UNREACHED as fault:
                why = (error.words if isinstance(error, HttpFailure) else "") or fault.value
                retryable = fault is HttpFault.UNREACHED
                return say(f"cannot be reached at {place}: {why}. Check the base URL.", retryable=retryable)
            case HttpFault.NOT_HTTP:
                return say(f"answered with something that is not HTTP; check the base URL, now {place}.")
            case HttpFault.CLOSED | HttpFault.BROKEN:
                return self.errors.no_answer()


class HttpResponse:
    """The response to one request: events as they come, or `whole` when the server does not stream."""

    __slots__ = (
        "_begun",
        "_connection",
        "_end",
        "_errors",
        "_events",
        "_first",
        "_limit",
        "_size",
        "_timeouts",
        "_unpack",
        "close",
        "whole",
    )

    def __init__(
        self,
        connection: HttpConnection,
        close: Callable[[], None],
        errors: ModelErrors,
        timeouts: HttpTimeouts,
    ) -> None:
        self.whole: bytes | None = None
        self.close = close
        """Let go; an answer that was not read to its end takes its connection with it."""
        self._connection = connection
        self._errors = errors
        self._timeouts = timeouts
        self._limit = timeouts.first_byte
        self._events = EventSplitter()
        self._first = b""
        self._begun = False
        self._size = 0
        self._end = 0.0
        self._unpack: Callable[[bytes], bytes] | None = None

    async def begin(self, thinking: str | None = None) -> None:
        """Read the first bytes and see what kind of answer this is."""
        if self._connection.status != 200:
            body = await self._complaint()
            raise self._errors.http_error(self._connection.status, self._connection.headers, body, thinking)
        self._learn_coding()
        while not self._first and (piece := await self._read()):
            self._first = piece.lstrip(b"\xef\xbb\xbf \t\r\n")
        # No event stream starts with one of these, whatever its content type.
        if self._first[:1] in (b"{", b"[", b"<"):
            pieces = [self._first]
            while piece := await self._read():
                pieces.append(piece)
            self.whole = b"".join(pieces)

    async def events(self) -> list[bytes]:
        """The next events' data, at least one; an empty list at the end of the stream."""
        piece = b"" if self._begun else self._first
        while piece := piece or await self._read():
            if found := self._events.feed(piece):
                self._begun = True
                return found
            piece = b""
        found = self._events.rest()
        if not (found or self._begun):
            raise self._errors.not_a_reply(self._first) if self._first else self._errors.no_answer()
        return found

    async def finish(self) -> None:
        """Read a stream whose reply is whole to its end, so that its connection can be used again."""
        self.hurry()
        try:
            while not self._connection.whole and await self._read():
                pass
        except ProviderError:
            self.close()

    def hurry(self) -> None:
        """The reply is whole; wait only for what may still follow it."""
        self._limit = LAST_WAIT
        self._end = self._end or time.monotonic() + LAST_WAITS

    async def _complaint(self) -> bytes:
        """The text of a refusal; one that breaks off or cannot be read is a refusal all the same."""
        pieces: list[bytes] = []
        with suppress(ProviderError):
            self._learn_coding()
            while self._size <= MOST_ERROR_BYTES and (piece := await self._read()):
                pieces.append(piece)
        return b"".join(pieces)[:MOST_ERROR_BYTES]

    async def _read(self) -> bytes:
        """Some more bytes; none at the end."""
        piece = b""
        while not piece:
            try:
                piece = await self._connection.piece(self._limit)
            except HttpFailure as trouble:
                silent = trouble.fault is HttpFault.SILENT
                raise self._silence() if silent else self._errors.cut_off() from None
            if not piece:
                return b""
            if self._unpack is not None:
                piece = self._unpack(piece)
        if not self._size:
            self._limit = self._timeouts.between_bytes
        self._size += len(piece)
        if self._size > MOST_BYTES:
            raise self._errors.error(f"sent an answer of more than {MOST_BYTES // 1024**2} MiB.")
        if self._end and time.monotonic() > self._end:
            raise self._silence()
        return piece

    def _learn_coding(self) -> None:
        """Set up decompression of an answer that is compressed although that was not requested."""
        if not self._connection.says(b"content-encoding"):
            return
        name = self._connection.headers["content-encoding"].strip().lower()
        if name in ("", "identity"):
            return
        if name not in ("gzip", "x-gzip", "deflate"):
            raise self._errors.error(
                "answered in a compressed form that was not asked for and cannot be read."
            )
        self._unpack = self._unpacking()

    def _unpacking(self) -> Callable[[bytes], bytes]:
        import zlib

        press = zlib.decompressobj(_EITHER_HEADER)
        begun = False

        def unpacked(piece: bytes) -> bytes:
            nonlocal press, begun
            # Some servers leave out the header, whose first byte ends in eight or is that of gzip.
            if not begun and piece[0] & 15 != 8 and piece[0] != 0x1F:
                press = zlib.decompressobj(_NO_HEADER)
            begun = True
            try:
                # What comes after the end would be copied again with every piece.
                return b"" if press.eof else press.decompress(piece, MOST_BYTES + 1)
            except zlib.error:
                raise self._errors.cut_off() from None

        return unpacked

    def _silence(self) -> ProviderError:
        if not self._size:
            seconds = f"{self._timeouts.first_byte:g} s"
            return self._errors.error(
                f"accepted the request, then sent nothing for {seconds}.", retryable=True
            )
        return self._errors.error(
            f"fell silent for {self._timeouts.between_bytes:g} s in the middle of its answer.", retryable=True
        )


class EventSplitter:
    """Splits a stream of bytes, in chunks of any size, into the data of its server-sent events."""

    __slots__ = ("_cut", "_data", "_tail")

    def __init__(self) -> None:
        self._cut = False
        self._tail: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of every event that is whole now."""
        if self._cut or _CR in piece:
            piece = self._with_plain_ends(piece)
        if _LF not in piece:
            self._tail.append(piece)
            return []
        if self._tail:
            piece = b"".join((*self._tail, piece))
        lines = piece.split(b"\n")
        last = lines.pop()
        self._tail = [last] if last else []
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    events.append(b"\n".join(data))
                    data.clear()
            elif line[:6] == b"data: ":
                data.append(line[6:])
            elif line[:5] == b"data:":
                data.append(line[5:])
        return events

    def _with_plain_ends(self, piece: bytes) -> bytes:
        """The bytes with one kind of line end out of the three there are; one may be split between chunks."""
        if not piece:
            return piece
        if self._cut:
            piece = piece.removeprefix(b"\n")
        self._cut = piece.endswith(b"\r")
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def rest(self) -> list[bytes]:
        """A last event without its line end; half an event is dropped."""
        found = self.feed(b"\n\n") if self._tail or self._data else []
        return [event for event in found if event == b"[DONE]" or _is_json(event)]


def _is_json(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


def api_url(base_url: str, method: str) -> str:
    """The URL of an API method below a base URL, given with or without a version, a slash or the method."""
    try:
        parts = urlsplit(base_url.strip())
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        parts, usable = urlsplit(""), False
    if parts.username is not None or parts.password is not None:
        raise UserMistake("A base URL must not hold a user name or password.")
    if not usable:
        shown = base_url.partition("?")[0].rpartition("@")[2]
        raise UserMistake(f"The base URL {shown!r} is not an address like https://host/v1.")
    path = parts.path.rstrip("/")
    if not path.endswith(method):
        has_version = re.search(r"/v\d\w*(/|$)", path)
        path += method if has_version else f"/v1{method}"
    return parts._replace(path=path, fragment="").geturl()


def _secrets_of(url: str) -> list[str]:
    """The values in the query of an address, which may be keys; the version of an API is none."""
    query = urlsplit(url).query
    as_sent = [tuple(each.partition("=")[::2]) for each in query.split("&")]
    return [value for name, value in {*as_sent, *parse_qsl(query)} if not name.endswith("version")]


def _host_address(parts: SplitResult) -> tuple[HostAddress, str]:
    """Where an address leads, and how a request names its host."""
    if not parts.hostname:
        raise ValueError("an address without a host")
    host = parts.hostname
    if not host.isascii():
        host = host.encode("idna").decode()
    if " " in host or not host.isprintable():
        raise ValueError("an address whose host no server can have")
    usual = 443 if parts.scheme == "https" else 80
    door = HostAddress(host, parts.port or usual, parts.scheme == "https")
    return door, door.named.removesuffix(f":{usual}")


def _proxy_authorization(way: SplitResult | None) -> str:
    """The header that tells a proxy who asks."""
    if way is None or way.username is None:
        return ""
    from base64 import b64encode

    known = f"{unquote(way.username)}:{unquote(way.password or '')}"
    return f"Proxy-Authorization: Basic {b64encode(known.encode()).decode()}\r\n"


_open: dict[asyncio.AbstractEventLoop, HttpPool] = {}
_held: dict[asyncio.AbstractEventLoop, AsyncGenerator[HttpPool, None]] = {}


async def _pool_of_loop() -> HttpPool:
    """The connections of this event loop."""
    loop = asyncio.get_running_loop()
    known = _open.get(loop)
    if known is not None:
        return known
    for closed in [each for each in list(_held) if each.is_closed()]:
        _open.pop(closed, None)
        _held.pop(closed, None)
    _held[loop] = pool_of_loop(_open)
    return await anext(_held[loop])


async def close_connections() -> None:
    """Close the connections of this event loop now rather than at its end."""
    held = _held.pop(asyncio.get_running_loop(), None)
    if held is not None:
        await held.aclose()
