"""Servers behind an address, in the older way with sessions and in the newest without."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from gencode.core.errors import ToolError
from gencode.mcp import server
from gencode.mcp.definition import servers_from_settings
from gencode.mcp.servers import McpServers
from gencode.mcp.streamable_http import header_value
from tests.mcp.fleet import Fleet, box, offer
from tests.sandbox.processes.living import eventually

Message = dict[str, Any]


class Site:
    """A web server that speaks MCP as it is told to."""

    def __init__(self) -> None:
        self.modern = False
        self.manner = ""
        self.tools: list[Message] = offer("echo", "sleep")
        self.asked: list[tuple[str, dict[str, str], Message]] = []
        self.session = "s-1"
        self.cut = asyncio.Event()
        self.news: asyncio.Queue[Message] = asyncio.Queue()
        self.url = ""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        body: Message = json.loads(await request.text() or "{}")
        self.asked.append((request.method, dict(request.headers), body))
        odd = self._odd(request)
        if odd is not None:
            return odd
        if request.method == "GET":
            return await self._stream(request)
        if "id" not in body:
            return web.Response(status=202)
        method = body.get("method")
        if method == "subscriptions/listen":
            return await self._stream(request)
        if method == "tools/call" and body["params"]["name"] == "sleep":
            try:
                await asyncio.sleep(600)
            finally:
                self.cut.set()
        return self._answer(method, body)

    def _odd(self, request: web.Request) -> web.StreamResponse | None:
        match self.manner:
            case "redirect":
                return web.Response(status=307, headers={"Location": "https://elsewhere.example/mcp?t=1"})
            case "login":
                return web.Response(status=401)
            case "broken":
                return web.Response(status=503)
            case "large":
                return web.Response(body=b"x" * (17 * 1024 * 1024), content_type="application/json")
            case "new session" if request.headers.get("Mcp-Session-Id") not in (None, self.session):
                return web.Response(status=404)
            case _:
                return None

    def _answer(self, method: Any, body: Message) -> web.Response:
        result: Message = {"tools": self.tools}
        capabilities = {"tools": {"listChanged": True}}
        headers: dict[str, str] = {}
        if method == "server/discover" and not self.modern:
            return web.Response(status=400, text="Bad Request: no session")
        if method == "server/discover":
            result = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        if method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": capabilities}
            headers = {"Mcp-Session-Id": self.session}
        if method == "tools/call":
            result = {"content": [{"type": "text", "text": json.dumps(body["params"]["arguments"])}]}
        whole = json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": result})
        if method == "tools/call":
            event = f": hello\r\nevent: message\r\nid: 1\r\ndata: {whole}\r\n\r\n"
            return web.Response(text=event, content_type="text/event-stream", headers=headers)
        return web.json_response(text=whole, headers=headers)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            message = await self.news.get()
            await response.write(f"data: {json.dumps(message)}\n\n".encode())

    def methods(self) -> list[str]:
        return [body.get("method", kind) for kind, _, body in self.asked]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/mcp", site.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    yield site
    await runner.cleanup()


async def opened(fleet: Fleet, site: Site, **more: Any) -> McpServers:
    return await fleet.open({"T": "t0k3n"}, web={"url": site.url, **more})


@pytest.mark.parametrize(("modern", "version"), [(False, "2025-06-18"), (True, "2026-07-28")])
async def test_a_tool_is_used(fleet: Fleet, site: Site, modern: bool, version: str) -> None:
    site.modern = modern
    servers = await opened(fleet, site, headers={"Authorization": "Bearer ${T}"})
    assert [(each.state, each.version) for each in servers.status()] == [("ready", version)]
    assert (await fleet.use(box(servers)["mcp__web__echo"], message="hi")).text == '{"message": "hi"}'
    _, headers, body = next(each for each in site.asked if each[2].get("method") == "tools/call")
    assert headers["Authorization"] == "Bearer t0k3n"
    assert headers["Mcp-Protocol-Version"] == version
    if modern:
        assert (headers["Mcp-Method"], headers["Mcp-Name"]) == ("tools/call", "echo")
        assert body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == version
        assert "Mcp-Session-Id" not in headers
    else:
        assert headers["Mcp-Session-Id"] == "s-1"
    await servers.close()
    assert site.methods().count("DELETE") == (0 if modern else 1)


@pytest.mark.parametrize("modern", [False, True])
async def test_a_cancelled_call_is_cancelled_there_too(fleet: Fleet, site: Site, modern: bool) -> None:
    site.modern = modern
    servers = await opened(fleet, site)
    asking = asyncio.create_task(fleet.use(box(servers)["mcp__web__sleep"]))
    await eventually(lambda: "tools/call" in site.methods())
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await eventually(lambda: "notifications/cancelled" in site.methods() or modern)
    assert "notifications/cancelled" not in site.methods() or not modern


@pytest.mark.parametrize("modern", [False, True])
async def test_changes_are_heard_of(fleet: Fleet, site: Site, modern: bool) -> None:
    site.modern = modern
    servers = await opened(fleet, site)
    site.tools = offer("another")
    await site.news.put({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    assert await eventually(lambda: list(box(servers)) == ["mcp__web__another"])


async def test_a_session_that_is_over_is_begun_anew(
    fleet: Fleet, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "FIRST_PAUSE", 0.01)
    servers = await opened(fleet, site)
    site.manner, site.session = "new session", "s-2"
    with pytest.raises(ToolError, match="its session has expired"):
        await fleet.use(box(servers)["mcp__web__echo"])
    assert await eventually(lambda: servers.status()[0].state == "ready")
    assert not (await fleet.use(box(servers)["mcp__web__echo"])).error


@pytest.mark.parametrize(
    ("manner", "state", "why"),
    [
        (
            "redirect",
            "failed",
            "it redirects to https://elsewhere.example/mcp; use that URL if you trust it",
        ),
        ("login", "failed", "it needs authentication (HTTP 401); check its headers"),
        ("broken", "down", "it failed with a server error (HTTP 503)"),
        ("large", "down", "it sent a message of more than 16,777,216 bytes"),
    ],
)
async def test_what_is_no_answer_is_told_plainly(
    fleet: Fleet, site: Site, manner: str, state: str, why: str
) -> None:
    site.manner = manner
    servers = await opened(fleet, site)
    assert [(each.state, each.why) for each in servers.status()] == [(state, why)]


@pytest.mark.parametrize(("status", "gives"), [(404, True), (405, True), (404, False)])
async def test_a_server_that_only_speaks_sse_is_told_apart_from_a_wrong_address(
    fleet: Fleet, status: int, gives: bool
) -> None:
    async def serve(request: web.Request) -> web.StreamResponse:
        if request.method == "POST" or not gives:
            return web.Response(status=status, text="no")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"event: endpoint\ndata: /messages\n\n")
        await asyncio.Event().wait()
        return response

    app = web.Application()
    app.router.add_route("*", "/sse", serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    servers = await fleet.open(web={"url": f"http://127.0.0.1:{runner.addresses[0][1]}/sse"})
    (found,) = servers.status()
    assert (found.state, "HTTP+SSE" in found.why) == (("failed", True) if gives else ("down", False))
    assert gives or f"(HTTP {status}); check the URL" in found.why
    await servers.close()
    await runner.cleanup()


async def test_an_address_where_nobody_listens(fleet: Fleet, site: Site) -> None:
    servers = await fleet.open(web={"url": "http://127.0.0.1:1/mcp"})
    assert servers.status()[0].state == "down"
    assert servers.status()[0].why.startswith("it cannot be reached at http://127.0.0.1:1/mcp")


async def test_arguments_are_mirrored_where_a_server_wants_them_as_headers(fleet: Fleet, site: Site) -> None:
    site.modern = True
    properties = {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "bad": {"type": "string", "x-mcp-header": "A: b"},
        "in": {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}},
    }
    site.tools = [{"name": "echo", "inputSchema": {"type": "object", "properties": properties}}]
    servers = await opened(fleet, site)
    await fleet.use(box(servers)["mcp__web__echo"], region="Zürich", bad="x", **{"in": {"flag": True}})
    _, headers, _ = next(each for each in site.asked if each[2].get("method") == "tools/call")
    mirrored = {name: value for name, value in headers.items() if name.startswith("Mcp-Param")}
    assert mirrored == {"Mcp-Param-Region": header_value("Zürich"), "Mcp-Param-Flag": "true"}
    assert header_value("Zürich") == "=?base64?WsO8cmljaA==?="


def test_an_address_shows_no_secret_when_it_is_told() -> None:
    (one,) = servers_from_settings(
        {"s": {"url": "https://x.example", "headers": {"Key": "s3cr3t"}}}, "f", users=True
    )
    assert "s3cr3t" not in one.describe()
