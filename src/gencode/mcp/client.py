"""The MCP client: requests to one server and their responses, over any transport."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, cast

from gencode import __version__
from gencode.core.errors import GenCodeError
from gencode.mcp.transport import (
    HANDSHAKE_VERSIONS,
    META_CAPABILITIES,
    META_CLIENT,
    META_VERSION,
    METHOD_NOT_FOUND,
    STATELESS_VERSION,
    ConnectionLost,
    Message,
    RequestRefused,
    Transport,
    bug_in,
)

CLIENT = {"name": "gencode", "version": __version__}
SILENCE_SECONDS = 3.0
"""A server without `server/discover` may not answer it at all; then the handshake is tried too."""
_RETRY_SECONDS = 5.0
_LONGEST_ERROR = 2_000

ProgressHandler = Callable[[str], None]


class McpClient:
    """The client of one server. `changed` is called when the server's tools have changed."""

    def __init__(self, transport: Transport, changed: Callable[[], None]) -> None:
        self._transport = transport
        self._changed = changed
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._progress: dict[int, ProgressHandler] = {}
        self._listening: asyncio.Task[None] | None = None
        self.capabilities: Message = {}
        self.answered = False
        """Whether the server has sent any message of the protocol."""
        self.gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when the connection is lost, with the reason."""

    @property
    def version(self) -> str:
        """The negotiated protocol version."""
        return self._transport.version

    async def open(self, *, handshake: bool) -> None:
        """Connect and negotiate a version; with `handshake`, only by `initialize`."""
        await self._transport.open(self)
        if handshake:
            await self._initialize()
        else:
            await self._negotiate()
        tools = self.capabilities.get("tools")
        if isinstance(tools, dict) and cast("Message", tools).get("listChanged") is True:
            self._listening = asyncio.create_task(self._listen())
            self._listening.add_done_callback(bug_in)

    async def close(self) -> None:
        """Disconnect from the server."""
        if self._listening is not None:
            self._listening.cancel()
        await self._transport.close()
        self.lost("it was closed")

    async def request(
        self,
        method: str,
        params: Message | None = None,
        *,
        on_progress: ProgressHandler | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Message:
        """Send a request. RequestRefused for an error response, ConnectionLost when no answer can come.

        If the caller is cancelled, the server is notified. `on_progress` gets progress notifications.
        """
        if self.gone.done():
            raise ConnectionLost(self.gone.result())
        number = next(self._numbers)
        meta = dict(self._envelope())
        if on_progress is not None:
            meta["progressToken"] = number
            self._progress[number] = on_progress
        said = {**(params or {}), **({"_meta": meta} if meta else {})}
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": said}
        self._transport.send(message, headers or {})
        try:
            return await future
        except asyncio.CancelledError:
            if method != "initialize" and not self._transport.cancel_request(number):
                self._notify(
                    "notifications/cancelled", {"requestId": number, "reason": "the call was cancelled"}
                )
            raise
        finally:
            del self._waiting[number]
            self._progress.pop(number, None)

    def receive(self, message: Message) -> None:
        """Handle one message of the server: a response, a request, or a notification."""
        self.answered = True
        method, number = message.get("method"), message.get("id")
        if isinstance(method, str):
            params = message.get("params")
            said = cast("Message", params) if isinstance(params, dict) else {}
            self._handle_notification(method, said) if number is None else self._answer_request(
                method, number
            )
        elif isinstance(number, int) and (future := self._waiting.get(number)) and not future.done():
            error, result = message.get("error"), message.get("result")
            if isinstance(result, dict):
                future.set_result(cast("Message", result))
            else:
                future.set_exception(_refusal(error))

    def failed(self, request: int, error: GenCodeError) -> None:
        """One request will not be answered."""
        future = self._waiting.get(request)
        if future is not None and not future.done():
            future.set_exception(error)

    def lost(self, why: str) -> None:
        """The connection is lost: no request will be answered."""
        if not self.gone.done():
            self.gone.set_result(why)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionLost(why))

    def _envelope(self) -> Message:
        if self.version != STATELESS_VERSION:
            return {}
        return {META_VERSION: STATELESS_VERSION, META_CLIENT: CLIENT, META_CAPABILITIES: {}}

    def _notify(self, method: str, params: Message | None = None) -> None:
        if not self.gone.done():
            self._transport.send({"jsonrpc": "2.0", "method": method, "params": params or {}}, {})

    def _answer_request(self, method: str, number: Any) -> None:
        """Answer a request of the server: only `ping` is supported."""
        answer: Message = {"result": {}}
        if method != "ping":
            answer = {"error": {"code": METHOD_NOT_FOUND, "message": "Not supported by this client."}}
        self._transport.send({"jsonrpc": "2.0", "id": number, **answer}, {})

    def _handle_notification(self, method: str, params: Message) -> None:
        if method == "notifications/tools/list_changed":
            self._changed()
        elif method == "notifications/progress":
            token = params.get("progressToken")
            on_progress = self._progress.get(token) if isinstance(token, int) else None
            if on_progress is not None:
                on_progress(_progress(params))

    async def _negotiate(self) -> None:
        """Try the version without a handshake; for servers that do not support it, the handshake."""
        probe = asyncio.create_task(self._discover())
        greeting: asyncio.Task[None] | None = None
        try:
            await asyncio.wait({probe}, timeout=SILENCE_SECONDS)
            if not probe.done():
                self._transport.version = ""
                greeting = asyncio.create_task(self._initialize())
                await asyncio.wait({probe, greeting}, return_when=asyncio.FIRST_COMPLETED)
            if greeting is not None and greeting.done() and greeting.exception() is None:
                return
            if await probe:
                return
            await (greeting or self._initialize())
        finally:
            for task in (probe, greeting):
                if task is not None and not task.done():
                    task.cancel()
                    with suppress(asyncio.CancelledError, GenCodeError):
                        await task
            if greeting is not None and greeting.done() and not greeting.cancelled():
                greeting.exception()  # retrieved, so that asyncio does not report it

    async def _discover(self) -> bool:
        """Whether the server supports the version without a handshake."""
        self._transport.version = STATELESS_VERSION
        try:
            found = await self.request("server/discover")
        except RequestRefused:
            found = {}
        versions = found.get("supportedVersions")
        modern = isinstance(versions, list) and STATELESS_VERSION in versions
        if modern:
            self._transport.version = STATELESS_VERSION
            self._set_capabilities(found)
        elif self._transport.version == STATELESS_VERSION:
            self._transport.version = ""
        return modern

    async def _initialize(self) -> None:
        """The handshake of the older versions."""
        self._transport.version = ""
        hello = {"protocolVersion": HANDSHAKE_VERSIONS[0], "capabilities": {}, "clientInfo": CLIENT}
        found = await self.request("initialize", hello)
        version = found.get("protocolVersion")
        if version not in HANDSHAKE_VERSIONS:
            known = ", ".join((STATELESS_VERSION, *HANDSHAKE_VERSIONS))
            raise ConnectionLost(
                f"it uses MCP version {str(version)[:40]!r}; supported: {known}", hopeless=True
            )
        self._transport.version = version
        self._set_capabilities(found)
        self._notify("notifications/initialized")

    def _set_capabilities(self, found: Message) -> None:
        capabilities = found.get("capabilities")
        self.capabilities = cast("Message", capabilities) if isinstance(capabilities, dict) else {}

    async def _listen(self) -> None:
        """Receive notifications about changes, while there is a connection."""
        if self.version != STATELESS_VERSION:
            self._transport.listen()
            return
        while not self.gone.done():
            with suppress(RequestRefused, ConnectionLost):
                await self.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            await asyncio.sleep(_RETRY_SECONDS)


def _refusal(error: Any) -> RequestRefused:
    found = cast("Message", error) if isinstance(error, dict) else {}
    code, message = found.get("code"), found.get("message")
    said = message if isinstance(message, str) and message else "a response without a result or an error"
    return RequestRefused(said[:_LONGEST_ERROR], code if isinstance(code, int) else 0)


def _progress(params: Message) -> str:
    """The progress of a call, in one short line."""
    message, done, total = params.get("message"), params.get("progress"), params.get("total")
    if isinstance(message, str) and message:
        return message[:200]
    if isinstance(done, int | float) and isinstance(total, int | float):
        return f"{done:g} of {total:g}"
    return f"{done:g}" if isinstance(done, int | float) else "at work"
