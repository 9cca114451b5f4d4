"""MCP behind an address: the door of `gen serve`, with a token for every request (MCP server)."""

import asyncio
import ipaddress
from contextlib import AsyncExitStack
from typing import Any

import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from msgspec import Struct
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gencode.surfaces.http.guard import LARGEST_BODY, Guard, Refused
from gencode.surfaces.http.protocol import Impatient
from gencode.surfaces.http.serving import EXPOSED, LOOPBACK, listening
from gencode.surfaces.http.serving import Server as Web
from gencode.surfaces.http.tokens import Keys, Right
from gencode.surfaces.mcp_server.life import Ending
from gencode.surfaces.plain import answer, note

PATH = "/mcp"
MOST_SESSIONS = 100
MOST_CONNECTIONS = 1000
KEEP_ALIVE_SECONDS = 15
LARGEST_HEAD = 32_768
FOREIGN = (
    "This server is not asked for under that name; gen mcp --http --allow-host NAME gives it another one."
)
UNKNOWN_PEER = "A token is needed, as Authorization: Bearer; gen mcp --http prints it."


class Wish(Struct, frozen=True):
    """Where to listen, under which other names, and with which token."""

    keys: Keys
    host: str = LOOPBACK
    port: int = 0
    names: tuple[str, ...] = ()


class Door:
    """Leads to MCP what the guard has let through."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or answer it here."""
        if scope["path"] == PATH:
            await self._manager.handle_request(scope, receive, send)
            return
        refused = Refused(404, f"There is nothing here; MCP is at {PATH}.")
        await refused.response()(scope, receive, send)


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
        web = _web(McpGuard(Door(manager), wish.keys, _hosts(wish, port), f"gen_mcp_{port}"))
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


def _web(app: McpGuard) -> Web:
    return Web(
        uvicorn.Config(
            app,
            http=Impatient,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=LARGEST_HEAD,
        )
    )


def _hosts(wish: Wish, port: int) -> list[str]:
    names = [LOOPBACK, "localhost", "[::1]"]
    if not ipaddress.ip_address(wish.host).is_unspecified:
        names.append(_bracketed(wish.host))
    return [*(f"{name}:{port}" for name in (*names, *wish.names)), *wish.names]


def _tell(wish: Wish, port: int) -> None:
    """The address is the first line, what to send along the second, so that programs can read them."""
    host = LOOPBACK if ipaddress.ip_address(wish.host).is_unspecified else wish.host
    answer(f"http://{_bracketed(host)}:{port}{PATH}")
    answer(f"Authorization: Bearer {wish.keys.owner}")
    if not ipaddress.ip_address(wish.host).is_loopback:
        note(EXPOSED.format(host=wish.host))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
