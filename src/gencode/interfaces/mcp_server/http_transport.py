"""MCP behind an address: the door of `gen serve`, with a token for every request (MCP server)."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from gencode.interfaces.http.guard import LARGEST_BODY, Guard, Refused, Right
from gencode.interfaces.http.listener import Wish, listening, server_of
from gencode.interfaces.mcp_server.json_rpc_messages import Wrong, understood
from gencode.interfaces.mcp_server.server import Ending
from gencode.interfaces.render.plain_text import answer

PATH = "/mcp"
MOST_SESSIONS = 100
GOODBYE_SECONDS = 1
FOREIGN = (
    "This server is not asked for under that name; gen mcp --http --allow-host NAME gives it another one."
)
UNKNOWN_PEER = "A token is needed, as Authorization: Bearer; gen mcp --http prints it."


class Door:
    """Leads to MCP what the guard has let through."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or answer it here: what is no message needs no session and no parser of MCP."""
        try:
            if scope["path"] != PATH:
                raise Refused(404, f"There is nothing here; MCP is at {PATH}.")
            if scope["method"] == "POST":
                body = await _body(receive)
                message = understood(body, "body")
                if isinstance(message, Wrong):
                    told = message.answer().model_dump(mode="json", by_alias=True, exclude_unset=True)
                    await JSONResponse(told, 400)(scope, receive, send)
                    return
                receive = _read_again(body, receive)
        except Refused as refused:
            await refused.response()(scope, receive, send)
            return
        await self._manager.handle_request(scope, receive, send)


async def _body(receive: Receive) -> bytes:
    """All that was sent along."""
    pieces: list[bytes] = []
    size = 0
    while True:
        piece = await receive()
        pieces.append(piece.get("body", b""))
        size += len(pieces[-1])
        if size > LARGEST_BODY:
            raise Refused(413, f"A request has at most {LARGEST_BODY:,} bytes.")
        if not piece.get("more_body"):  # nor has one whose sender is gone
            return b"".join(pieces)


def _read_again(body: bytes, receive: Receive) -> Receive:
    """The same request for the next reader."""
    unread = [body]

    async def receiving() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return receiving


class McpGuard(Guard):
    """The guard of `gen serve` with the words of `gen mcp`; cookies count for nothing."""

    def _rights(self, scope: Scope, headers: Headers) -> tuple[frozenset[Right], bool]:
        if not headers.get("authorization"):
            raise Refused(401, UNKNOWN_PEER, {"WWW-Authenticate": "Bearer"})
        return super()._rights(scope, headers)

    def _check_host(self, headers: Headers, here: str) -> None:
        try:
            super()._check_host(headers, here)
        except Refused as refused:
            raise Refused(refused.status, FOREIGN) from None


async def serve_address(server: Server[Any], wish: Wish, ending: Ending) -> None:
    """Serve whoever shows the token until we are told to end."""
    manager = StreamableHTTPSessionManager(
        server, max_request_body_size=LARGEST_BODY, max_sessions=MOST_SESSIONS
    )
    async with AsyncExitStack() as stack:
        sock = stack.enter_context(listening(wish.host, wish.port))
        port: int = sock.getsockname()[1]
        await stack.enter_async_context(manager.run())
        guard = McpGuard(Door(manager), wish.keys, wish.hosts(port), f"gen_mcp_{port}")
        web = server_of(guard, GOODBYE_SECONDS)
        running = asyncio.create_task(web.serve(sockets=[sock]))
        begun = asyncio.create_task(ending.begun.wait())
        try:
            _tell(wish, port)
            await asyncio.wait([running, begun], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.begin()
            begun.cancel()
            web.should_exit = True
            await running


def _tell(wish: Wish, port: int) -> None:
    """The address is the first line, what to send along the second, so that programs can read them."""
    answer(f"{wish.url(port)}{PATH}")
    answer(f"Authorization: Bearer {wish.keys.owner}")
    wish.warn()
