"""The streamable HTTP transport of MCP, with a token for every request."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from gencode.interfaces.http.guard import LARGEST_BODY, Guard, HttpRefusal, Right
from gencode.interfaces.http.listener import ListenOptions, listening, server_of
from gencode.interfaces.mcp_server.transport import InvalidMessage, Shutdown, parse_message
from gencode.interfaces.render.plain_text import answer

PATH = "/mcp"
MOST_SESSIONS = 100
GOODBYE_SECONDS = 1
UNKNOWN_HOST = "This host name is not allowed. To allow it, start with: gen mcp --http --allow-host NAME"
TOKEN_NEEDED = "A token is needed, as Authorization: Bearer; gen mcp --http prints it."  # noqa: S105 – no token


class McpEndpoint:
    """The ASGI application behind the guard."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the SDK; other paths and invalid messages are answered here."""
        try:
            if scope["path"] != PATH:
                raise HttpRefusal(404, f"Not found; the MCP endpoint is {PATH}.")
            if scope["method"] == "POST":
                body = await _body(receive)
                message = parse_message(body, "body")
                if isinstance(message, InvalidMessage):
                    told = message.error_response().model_dump(mode="json", by_alias=True, exclude_unset=True)
                    await JSONResponse(told, 400)(scope, receive, send)
                    return
                receive = _read_again(body, receive)
        except HttpRefusal as refused:
            await refused.response()(scope, receive, send)
            return
        await self._manager.handle_request(scope, receive, send)


async def _body(receive: Receive) -> bytes:
    """The whole body of a request."""
    pieces: list[bytes] = []
    size = 0
    while True:
        piece = await receive()
        pieces.append(piece.get("body", b""))
        size += len(pieces[-1])
        if size > LARGEST_BODY:
            raise HttpRefusal(413, f"The request is larger than the limit of {LARGEST_BODY:,} bytes.")
        if not piece.get("more_body"):  # also where the client has disconnected
            return b"".join(pieces)


def _read_again(body: bytes, receive: Receive) -> Receive:
    """The same request once more, for the next reader."""
    unread = [body]

    async def receiving() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return receiving


class McpGuard(Guard):
    """The guard of `gen serve` without cookies, and with the options of `gen mcp` in its messages."""

    def _rights(self, scope: Scope, headers: Headers) -> tuple[frozenset[Right], bool]:
        if not headers.get("authorization"):
            raise HttpRefusal(401, TOKEN_NEEDED, {"WWW-Authenticate": "Bearer"})
        return super()._rights(scope, headers)

    def _check_host(self, headers: Headers, here: str) -> None:
        try:
            super()._check_host(headers, here)
        except HttpRefusal as refused:
            raise HttpRefusal(refused.status, UNKNOWN_HOST) from None


async def serve_http(server: Server[Any], wish: ListenOptions, shutdown: Shutdown) -> None:
    """Serve clients that have the token, until the shutdown begins."""
    manager = StreamableHTTPSessionManager(
        server, max_request_body_size=LARGEST_BODY, max_sessions=MOST_SESSIONS
    )
    async with AsyncExitStack() as stack:
        sock = stack.enter_context(listening(wish.host, wish.port))
        port: int = sock.getsockname()[1]
        await stack.enter_async_context(manager.run())
        guard = McpGuard(McpEndpoint(manager), wish.keys, wish.hosts(port), f"gen_mcp_{port}")
        web = server_of(guard, GOODBYE_SECONDS)
        running = asyncio.create_task(web.serve(sockets=[sock]))
        begun = asyncio.create_task(shutdown.begun.wait())
        try:
            _tell(wish, port)
            await asyncio.wait([running, begun], return_when=asyncio.FIRST_COMPLETED)
        finally:
            shutdown.begin()
            begun.cancel()
            web.should_exit = True
            await running


def _tell(wish: ListenOptions, port: int) -> None:
    """Print the URL and the authorization header, a line each, so that programs can read them."""
    answer(f"{wish.url(port)}{PATH}")
    answer(f"Authorization: Bearer {wish.keys.owner}")
    wish.warn()
