"""The wire that the providers of this rack share: one client per event loop, connections that stay open,
limits on waiting, and server-sent events. aiohttp is loaded with the first question, never before.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from gencode.core.errors import ProviderError, UserMistake
from gencode.providers.sse import EventSplitter
from gencode.providers.trouble import Speaker

if TYPE_CHECKING:
    import aiohttp

MOST_BYTES = 128 * 1024 * 1024
"""The longest answer that is read; a longer one is no answer."""
MOST_ERROR_BYTES = 64 * 1024
SLICE = 256 * 1024
IDLE_SECONDS = 60.0
LAST_WAIT = 2.0
"""How long a server may be silent when the reply is whole, before it counts tokens and ends the stream."""


class Patience(Struct, frozen=True):
    """How many seconds to wait for a connection, for the first byte of an answer, and between two bytes."""

    connect: float = 30.0
    first_byte: float = 300.0
    between_bytes: float = 180.0


PATIENCE = Patience()

_on_new_connection: ContextVar[bool] = ContextVar("on_new_connection", default=False)
"""Whether the request that is being sent had a connection made for it."""


class Endpoint:
    """One model at one address: takes a request's bytes, gives the answer."""

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        *,
        secret: str,
        patience: Patience = PATIENCE,
    ) -> None:
        if not (secret.isascii() and secret.isprintable()):
            raise UserMistake(f"The API key for {name} holds characters that no key has; copy it once more.")
        self.speaker = Speaker(name, url.partition("?")[0], secret, *_secrets_of(url))
        self._url = url
        self._headers = {
            **headers,
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "gencode",
        }
        self._patience = patience
        self._options: dict[str, Any] = {}

    async def ask(self, body: bytes, thinking: str | None = None) -> "Answer":
        """Send a request and wait for the first bytes of its answer; whoever gets the answer closes it.

        `thinking` is the parameter of the request that asks for it, for the case that it is refused.
        """
        import aiohttp

        try:
            response = await self._response(body)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._unreached(error) from None
        answer = Answer(response, self.speaker, self._patience)
        begun = False
        try:
            await answer.begin(thinking)
            begun = True
        finally:
            if not begun:
                answer.close()
        return answer

    async def _response(self, body: bytes) -> "aiohttp.ClientResponse":
        """The response. A server lets go of a connection that was kept open when it likes; then the request
        was never looked at, and it goes out once more on a new connection.
        """
        import aiohttp

        session = await _session()
        options = self._options or self._learn_options()
        _on_new_connection.set(False)
        try:
            return await session.post(self._url, **_carried(body, self._headers), **options)
        except (
            aiohttp.ServerDisconnectedError,
            aiohttp.ClientOSError,
            aiohttp.ClientConnectionResetError,
        ) as error:
            # In place of words such an error holds the beginning of an answer, if there was one.
            begun = isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(error.message, str)
            if begun or _on_new_connection.get():
                raise
        session = await _session(lasting=False)
        return await session.post(self._url, **_carried(body, self._headers), **options)

    def _learn_options(self) -> dict[str, Any]:
        import aiohttp

        # aiohttp's own `trust_env` asks the environment and ~/.netrc in a thread for every request.
        self._options = {
            "allow_redirects": False,
            "proxy": self._proxy(),
            "timeout": aiohttp.ClientTimeout(
                total=None, sock_connect=self._patience.connect, sock_read=self._patience.first_byte
            ),
        }
        return self._options

    def _proxy(self) -> str | None:
        """The proxy that the environment names for this address; what is on this machine needs none."""
        from urllib.request import getproxies, proxy_bypass

        parts = urlsplit(self._url)
        host = parts.hostname or ""
        here = host == "localhost" or host.startswith("127.") or host == "::1"
        proxy = None if here or proxy_bypass(host) else getproxies().get(parts.scheme)
        if not proxy or "://" not in proxy:
            return f"http://{proxy}" if proxy else None
        if not proxy.startswith(("http://", "https://")):
            kind = proxy.partition("://")[0]
            raise self.speaker.trouble(
                f"cannot be reached: the environment names a {kind} proxy, and only http works."
            )
        return proxy

    def _unreached(self, error: Exception) -> ProviderError:
        import aiohttp

        say, place = self.speaker.trouble, self.speaker.address
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            seconds = f"{self._patience.connect:g} s"
            return say(f"cannot be reached: no connection to {place} within {seconds}.", retryable=True)
        if isinstance(error, TimeoutError):
            return say(f"did not answer within {self._patience.first_byte:g} s.", retryable=True)
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return say(f"cannot be reached safely: {place} shows no certificate that can be trusted.")
        if isinstance(error, aiohttp.ClientSSLError):
            return say(f"cannot be reached safely: {place} does not speak TLS. Is it an http:// address?")
        if isinstance(error, aiohttp.ClientHttpProxyError):
            return say(f"cannot be reached: the proxy refused to connect (HTTP {error.status}).")
        if isinstance(error, aiohttp.ClientProxyConnectionError):
            return say("cannot be reached: the proxy of the environment does not answer.", retryable=True)
        if isinstance(error, aiohttp.ClientConnectorError):
            refused = isinstance(error.os_error, ConnectionRefusedError)
            why = "nothing listens there" if refused else error.os_error.strerror or "no connection"
            return say(f"cannot be reached at {place}: {why}. Check the base URL.", retryable=not refused)
        if isinstance(error, aiohttp.ClientResponseError) and "encoding" in error.message:
            return say("answered in a compressed form that was not asked for and cannot be read.")
        if isinstance(error, aiohttp.ClientResponseError):
            return say(f"answered with something that is not HTTP; check the base URL, now {place}.")
        if isinstance(error, aiohttp.ClientConnectionError | ConnectionError):
            return self.speaker.nothing()
        return say(f"cannot be asked at {place}: {type(error).__name__}. Check the base URL and the proxy.")


class Answer:
    """The answer to one request: events as they come, or `whole` when the server does not stream."""

    __slots__ = (
        *("_begun", "_broken", "_events", "_first", "_limit", "_patience", "_response", "_size", "_speaker"),
        "whole",
    )

    def __init__(self, response: "aiohttp.ClientResponse", speaker: Speaker, patience: Patience) -> None:
        self.whole: bytes | None = None
        self._response = response
        self._speaker = speaker
        self._patience = patience
        self._limit = patience.first_byte
        self._events = EventSplitter()
        self._first = b""
        self._begun = False
        self._size = 0
        self._broken: ProviderError | None = None

    async def begin(self, thinking: str | None = None) -> None:
        """Read the first bytes and see what kind of answer this is."""
        self._watch_it_ourselves()
        if self._response.status != 200:
            body = await self._all(MOST_ERROR_BYTES)
            raise self._speaker.refusal(self._response.status, self._response.headers, body, thinking)
        while not self._first and (piece := await self._read()):
            self._first = piece.lstrip(b"\xef\xbb\xbf \t\r\n")
        # No event stream starts with one of these, whatever the content type says.
        if self._first[:1] in (b"{", b"[", b"<"):
            self.whole = self._first + await self._all(MOST_BYTES)

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
            raise self._speaker.babble(self._first) if self._first else self._speaker.nothing()
        return found

    async def finish(self) -> None:
        """Read a stream whose reply is whole to its end, so that its connection can be used again."""
        self.hurry()
        try:
            while not self._response.content.at_eof() and await self._read():
                pass
        except ProviderError:
            self.close()

    def hurry(self) -> None:
        """The reply is whole; wait only for what may still follow it."""
        self._limit = LAST_WAIT

    def close(self) -> None:
        """Let go; an answer that was not read to its end takes its connection with it."""
        self._response.close()

    async def _all(self, most: int) -> bytes:
        pieces: list[bytes] = []
        while self._size <= most and (piece := await self._read()):
            pieces.append(piece)
        return b"".join(pieces)[:most]

    async def _read(self) -> bytes:
        """Some more bytes; none at the end."""
        if self._broken is not None:
            raise self._broken
        content = self._response.content
        try:
            if content.is_eof():
                piece = await content.readany()
            else:
                piece = await self._wait(content)
        except _breaks() as error:
            self._broken = self._silence() if isinstance(error, TimeoutError) else self._speaker.half()
            # What had arrived before the break is still in the reader, but it gives only the error.
            piece = b"".join(getattr(content, "_buffer", ()))
            if not piece:
                raise self._broken from None
        if not self._size:
            self._limit = self._patience.between_bytes
        self._size += len(piece)
        if self._size > MOST_BYTES:
            raise self._speaker.trouble(f"sent an answer of more than {MOST_BYTES} bytes.")
        return piece

    async def _wait(self, content: "aiohttp.StreamReader") -> bytes:
        def give_up() -> None:
            # In a busy loop the bytes may be here and only not read yet.
            if content.total_bytes == before and not content.is_eof():
                content.set_exception(TimeoutError())

        before = content.total_bytes
        watchdog = asyncio.get_running_loop().call_later(self._limit, give_up)
        try:
            return await content.readany()
        finally:
            watchdog.cancel()

    def _watch_it_ourselves(self) -> None:
        """Switch off the client's own limit on silence: it forgets a stream whose framing is broken."""
        connection = self._response.connection
        # The connection is given back as soon as the last byte is here.
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = None
            connection.protocol.start_timeout()

    def _silence(self) -> ProviderError:
        if not self._size:
            seconds = f"{self._patience.first_byte:g} s"
            return self._speaker.trouble(
                f"accepted the request, then sent nothing for {seconds}.", retryable=True
            )
        return self._speaker.trouble(
            f"fell silent for {self._patience.between_bytes:g} s in the middle of its answer.", retryable=True
        )


def address(base_url: str, method: str) -> str:
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
    """What stands in the query of an address, which may be a key; the version of an API is none."""
    query = urlsplit(url).query
    as_sent = [tuple(each.partition("=")[::2]) for each in query.split("&")]
    return [value for name, value in {*as_sent, *parse_qsl(query)} if not name.endswith("version")]


def _breaks() -> tuple[type[Exception], ...]:
    """What a connection that breaks raises; asked for only when something was raised."""
    import aiohttp
    from aiohttp.http_exceptions import HttpProcessingError

    return aiohttp.ClientError, HttpProcessingError, OSError


def _carried(body: bytes, headers: dict[str, str]) -> dict[str, Any]:
    """How a body is handed to the client: a very long one in slices, so that the loop stays free."""
    if len(body) <= SLICE:
        return {"data": body, "headers": headers}
    return {"data": _slices(body), "headers": {**headers, "Content-Length": str(len(body))}}


async def _slices(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), SLICE):
        yield body[start : start + SLICE]


_Client = tuple["aiohttp.ClientSession", AsyncGenerator[object, None]]
_open: dict[tuple[asyncio.AbstractEventLoop, bool], _Client] = {}


async def _session(lasting: bool = True) -> "aiohttp.ClientSession":
    """The client of this event loop; one that is not lasting makes a new connection for every request."""
    key = asyncio.get_running_loop(), lasting
    known = _open.get(key)
    if known is not None and not known[0].closed:
        return known[0]
    for closed in [each for each in list(_open) if each[0].is_closed()]:
        _open.pop(closed, None)
    held = _hold(lasting)
    session = await anext(held)
    _open[key] = session, held
    return session


async def _hold(lasting: bool) -> AsyncGenerator["aiohttp.ClientSession", None]:
    """Keeps a client open until its loop ends: asyncio closes every generator before it closes the loop."""
    import aiohttp

    class Connector(aiohttp.TCPConnector):
        async def _create_connection(
            self,
            req: aiohttp.ClientRequest,
            traces: list[Any],
            timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 (the signature is aiohttp's)
        ) -> Any:
            _on_new_connection.set(True)
            return await super()._create_connection(req, traces, timeout)

    connector = Connector(
        limit=0, keepalive_timeout=IDLE_SECONDS if lasting else None, force_close=not lasting
    )
    session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
    try:
        yield session
    finally:
        _open.pop((asyncio.get_running_loop(), lasting), None)
        await session.close()


async def hang_up() -> None:
    """Close the connections of this event loop now rather than at its end."""
    for lasting in (True, False):
        known = _open.get((asyncio.get_running_loop(), lasting))
        if known is not None:
            await known[1].aclose()
