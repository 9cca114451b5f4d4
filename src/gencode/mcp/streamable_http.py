"""The streamable HTTP transport of MCP.

Every message is a request of its own; the server answers with JSON or a stream of events. Redirects are not
followed, because they would send the user's headers to another server.
"""

import asyncio
import base64
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from gencode.core.errors import GenCodeError
from gencode.mcp.definition import ServerDefinition
from gencode.mcp.transport import (
    BUG,
    LARGEST_MESSAGE,
    STATELESS_VERSION,
    ConnectionLost,
    Message,
    RequestRefused,
    TransportListener,
    bug_in,
    decoded,
    encoded,
)

if TYPE_CHECKING:
    import aiohttp

_CONNECT_SECONDS = 15.0
_CLOSE_SECONDS = 1.0
_RETRY_SECONDS = 5.0
_PROBE_SECONDS = 5.0
_CHUNK = 64 * 1024
_SESSION = "Mcp-Session-Id"
_SESSION_VALUE = re.compile(r"[\x21-\x7e]{1,1024}")
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_BOTH = "application/json, text/event-stream"
_EVENTS = "text/event-stream"
_HERE = ("localhost", "::1")
_ONLY_SSE = (
    "it supports only the older HTTP+SSE transport, which GenCode does not; use the URL of its streamable "
    "HTTP endpoint (often /mcp), or a bridge as its command, such as npx mcp-remote URL"
)


class HttpTransport:
    """MCP over streamable HTTP to the URL of a definition with its variables filled in."""

    def __init__(self, definition: ServerDefinition) -> None:
        self.version = ""
        self._definition = definition
        self._session_id = ""
        self._client: aiohttp.ClientSession | None = None
        self._listener: TransportListener | None = None
        self._posts: dict[int, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()

    async def open(self, listener: TransportListener) -> None:
        """Open the HTTP client; nothing is sent yet."""
        import aiohttp

        self._listener = listener
        self._client = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        )

    def send(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message, in parallel with others."""
        work = asyncio.create_task(self._deliver(message, {**self._headers(message), **headers}))
        number = message.get("id")
        if "method" in message and isinstance(number, int):
            self._posts[number] = work
            work.add_done_callback(lambda _: self._sent(number, work))
        else:
            self._others.add(work)
            work.add_done_callback(self._ended)

    def cancel_request(self, request: int) -> bool:
        """Close its connection, which cancels it in the newest version; older ones need a notification."""
        work = self._posts.get(request)
        if work is not None:
            work.cancel()
        return self.version == STATELESS_VERSION

    def listen(self) -> None:
        """Receive the server's own notifications, over a GET request."""
        work = asyncio.create_task(self._listen())
        self._others.add(work)
        work.add_done_callback(self._ended)

    async def close(self) -> None:
        """Cancel all requests, and delete the session if there is one."""
        works = [*self._posts.values(), *self._others]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        if self._client is None:
            return
        import aiohttp

        if self._session_id:
            with suppress(aiohttp.ClientError, TimeoutError, OSError):
                async with asyncio.timeout(_CLOSE_SECONDS), self._request("DELETE", self._headers({})):
                    pass
        await self._client.close()

    def _sent(self, number: int, work: "asyncio.Task[None]") -> None:
        self._posts.pop(number, None)
        if bug_in(work) and self._listener is not None:
            self._listener.failed(number, ConnectionLost(BUG))

    def _ended(self, work: "asyncio.Task[None]") -> None:
        self._others.discard(work)
        bug_in(work)

    def _request(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> "aiohttp.client._RequestContextManager":  # pyright: ignore[reportPrivateUsage]
        assert self._client is not None  # noqa: S101 – open() comes first
        whole = {**self._definition.headers, **headers}
        url = self._definition.url
        return self._client.request(
            method, url, data=body, headers=whole, allow_redirects=False, proxy=_proxy(url)
        )

    def _headers(self, message: Message) -> dict[str, str]:
        headers = {"Accept": _BOTH, "Content-Type": "application/json", "Accept-Encoding": "identity"}
        if self.version:
            headers["Mcp-Protocol-Version"] = self.version
        if self._session_id:
            headers[_SESSION] = self._session_id
        method = message.get("method")
        if self.version == STATELESS_VERSION and isinstance(method, str):
            headers["Mcp-Method"] = method
            if method == "tools/call":
                headers["Mcp-Name"] = header_value(str(message["params"].get("name")))
        return headers

    async def _deliver(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message, and pass on everything in the response."""
        import aiohttp

        number = message["id"] if "method" in message and "id" in message else None
        trouble: GenCodeError | None = None
        try:
            async with self._request("POST", headers, encoded(message)) as answer:
                await self._pass_on(answer, message)
        except GenCodeError as error:
            trouble = error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            trouble = ConnectionLost(f"it cannot be reached at {_shown_url(self._definition.url)} ({why})")
        if number is not None and self._listener is not None:
            self._listener.failed(number, trouble or ConnectionLost("its response was incomplete"))

    async def _pass_on(self, answer: "aiohttp.ClientResponse", message: Message) -> None:
        """Pass on the messages of a response; RequestRefused or ConnectionLost for an error."""
        session = answer.headers.get(_SESSION, "")
        if message.get("method") == "initialize" and _SESSION_VALUE.fullmatch(session):
            self._session_id = session
        if answer.status >= 300:
            await self._refuse(answer, message)
            return
        if answer.content_type == _EVENTS:
            async for event in events(answer.content):
                self._receive(event)
        elif answer.status != 202:
            self._receive(await _whole(answer))

    async def _refuse(self, answer: "aiohttp.ClientResponse", message: Message) -> None:
        """Raise the error of a response: one of the protocol, or its HTTP status."""
        if answer.content_type == "application/json":
            for said in decoded(await _whole(answer)):
                error = said.get("error")
                if isinstance(error, dict):
                    found = cast("Message", error)
                    raise RequestRefused(str(found.get("message"))[:2_000], _number(found.get("code")))
        if answer.status == 404 and self._session_id and self._listener is not None:
            self._listener.lost("its session has expired")
        if answer.status in (401, 403, 407):
            raise ConnectionLost(
                f"it needs authentication (HTTP {answer.status}); check its headers", hopeless=True
            )
        if 300 <= answer.status < 400:
            place = _shown_url(answer.headers.get("Location", ""))
            raise ConnectionLost(f"it redirects to {place}; use that URL if you trust it", hopeless=True)
        if answer.status >= 500:
            raise ConnectionLost(f"it failed with a server error (HTTP {answer.status})")
        if answer.status in (404, 405) and message.get("method") == "initialize":
            if await self._only_sse():
                raise ConnectionLost(_ONLY_SSE, hopeless=True)
            place = _shown_url(self._definition.url)
            raise ConnectionLost(
                f"{place} does not accept MCP messages (HTTP {answer.status}); check the URL"
            )
        raise RequestRefused(f"HTTP {answer.status}")

    async def _only_sse(self) -> bool:
        """Whether a GET request returns a stream of events: the HTTP+SSE transport from before 2025."""
        import aiohttp

        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with (
                asyncio.timeout(_PROBE_SECONDS),
                self._request("GET", {"Accept": _EVENTS, "Accept-Encoding": "identity"}) as answer,
            ):
                return answer.status == 200 and answer.content_type == _EVENTS
        return False

    async def _listen(self) -> None:
        import aiohttp

        while True:
            with suppress(aiohttp.ClientError, TimeoutError, OSError, ConnectionLost):
                async with self._request("GET", {**self._headers({}), "Accept": _EVENTS}) as answer:
                    if answer.status != 200 or answer.content_type != _EVENTS:
                        return  # it sends no notifications of its own
                    async for event in events(answer.content):
                        self._receive(event)
            await asyncio.sleep(_RETRY_SECONDS)

    def _receive(self, content: bytes) -> None:
        for message in decoded(content):
            if self._listener is not None:
                self._listener.receive(message)


async def events(stream: "aiohttp.StreamReader") -> AsyncGenerator[bytes, None]:
    """The data of every server-sent event; ConnectionLost when one is too large."""
    lines: list[bytes] = []
    rest, size = bytearray(), 0
    async for chunk in stream.iter_chunked(_CHUNK):
        first, *others = chunk.split(b"\n")
        rest += first
        for piece in others:
            line, rest = bytes(rest).removesuffix(b"\r"), bytearray(piece)
            if line.startswith(b"data:"):
                lines.append(line[5:].removeprefix(b" "))
                size += len(line)
            elif not line and lines:
                yield b"\n".join(lines)
                lines, size = [], 0
        if size + len(rest) > LARGEST_MESSAGE:
            raise ConnectionLost(f"it sent a message of more than {LARGEST_MESSAGE:,} bytes")


def header_value(text: str) -> str:
    """A text as the value of a header, encoded if necessary."""
    if _PLAIN.fullmatch(text) and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


async def _whole(answer: "aiohttp.ClientResponse") -> bytes:
    content = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK):
        content += chunk
        if len(content) > LARGEST_MESSAGE:
            raise ConnectionLost(f"it sent a message of more than {LARGEST_MESSAGE:,} bytes")
    return bytes(content)


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for this URL; none for this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in _HERE or host.startswith("127.") or proxy_bypass(host):
        return None
    proxy = getproxies().get(parts.scheme)
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def _shown_url(url: str) -> str:
    """A URL without its user, password and query, which may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200]


def _number(code: object) -> int:
    return code if isinstance(code, int) else 0
