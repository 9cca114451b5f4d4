"""`gen mcp --http`: the SDK's client with the token, and a closed door for everybody else."""

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from gencode.testing import call, says
from mcp import Client
from tests.interfaces.cli.running import script
from tests.interfaces.mcp_server.offices import ERAS, report, text
from tests.interfaces.mcp_server.person import YES, Person
from tests.interfaces.mcp_server.roots import rooted

SECONDS = 120
NO_ID = "The id of a request must be a string or an integer."
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
SPEAKS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[tuple[str, dict[str, str]], None]:
    """A server behind an address: where, and the header that opens it."""
    writes = [says("", call("Write", file_path="made.txt", content="made\n")), says("Done.")]
    model = script(folder, others=writes, Plan=[says("…", delay_ms=60_000)])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gencode", "mcp", "--http", "--model", model),
        cwd=folder,
        env={"PYTHONWARNINGS": "error", **os.environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        where, header = [
            (await asyncio.wait_for(process.stdout.readline(), SECONDS)).decode().strip() for _ in range(2)
        ]
        name, _, value = header.partition(": ")
        yield where, {name: value}
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 128 + signal.SIGTERM


@asynccontextmanager
async def client_of(where: str, token: dict[str, str], era: str, **more: Any) -> AsyncGenerator[Client, None]:
    async with httpx2.AsyncClient(headers=token, timeout=SECONDS) as http:
        transport = streamable_http_client(where, http_client=http)
        async with Client(transport, mode=era, **more) as client:
            yield client


async def test_clients_with_the_token_send_agents_and_all_others_are_refused(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    async with served(tmp_path) as (where, token):
        await refuses_everybody_else(where, token)
        for number, era in enumerate(ERAS):
            folder = tmp_path if number else tmp_path / "inner"
            await sends_agents(folder, where, token, era)


async def sends_agents(folder: Path, where: str, token: dict[str, str], era: str) -> None:
    person = Person({"answer": YES})
    told: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    wish = {"subagent_type": "general-purpose", "prompt": "Write"}
    more = {"elicitation_callback": person, "list_roots_callback": rooted(folder)}
    async with client_of(where, token, era, **more) as client:
        result = await client.call_tool("Task", wish, progress_callback=hear)
        assert (report(result), (folder / "made.txt").exists(), len(person.shown)) == ("Done.", True, 1)
        assert told[0].startswith("general-purpose (task ")
        begun = await client.call_tool(
            "Task", {"subagent_type": "Plan", "prompt": "x", "run_in_background": True}
        )
        stopped = await client.call_tool("TaskStop", {"task_id": (begun.meta or {})["gencode/taskId"]})
        assert "was stopped" in text(stopped)


async def refuses_everybody_else(where: str, token: dict[str, str]) -> None:
    async with httpx2.AsyncClient(timeout=SECONDS) as http:

        async def status(path: str = "", **headers: str) -> int:
            return (await http.post(where + path, json=PING, headers={**SPEAKS, **headers})).status_code

        assert await status() == 401
        told = (await http.post(where, json=PING, headers=SPEAKS)).json()["error"]
        assert told == "A token is needed, as Authorization: Bearer; gen mcp --http prints it."
        assert await status(Authorization="Bearer wrong") == 401
        assert await status(Cookie=f"gen_mcp={token['Authorization'].split()[1]}") == 401
        assert await status(**token, Host="evil.example") == 421
        assert await status(**token, Origin="https://evil.example") == 403
        assert await status("/more", **token) == 404
        assert await status(f"?token={token['Authorization'].split()[1]}") == 400
        for content, number, code, why in (
            (b"garbage", None, -32700, "This body is not valid JSON."),
            (b'{"id": 7, "method": 1}', 7, -32600, "This body is not a JSON-RPC message."),
            (b"[]", None, -32600, "This body is not a JSON-RPC message."),
            (b"", None, -32700, "This body is not valid JSON."),
            (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None, -32600, NO_ID),
        ):
            odd = await http.post(where, content=content, headers={**SPEAKS, **token})
            told = {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": why}}
            assert (odd.status_code, odd.json()) == (400, told)


async def test_a_body_that_does_not_say_how_long_it_is_is_read_up_to_a_limit(tmp_path: Path) -> None:
    from gencode.interfaces.mcp_server.http_transport import PATH, McpEndpoint
    from tests.interfaces.mcp_server.offices import office

    asked = itertools.count()
    answered: list[Any] = []

    async def receive() -> dict[str, Any]:
        next(asked)
        return {"type": "http.request", "body": b" " * 100_000, "more_body": True}

    async def send(message: Any) -> None:
        answered.append(message.get("status", message.get("body")))

    async with office(tmp_path, {}) as here:
        door = McpEndpoint(StreamableHTTPSessionManager(here.server))
        await door({"type": "http", "method": "POST", "path": PATH, "headers": []}, receive, send)
    assert answered[0] == 413 and b"1,000,000 bytes" in answered[1]
    assert next(asked) == 11


@pytest.mark.parametrize("bind", ["nowhere", "300.1.1.1"])
async def test_an_address_that_is_none_is_a_mistake(tmp_path: Path, bind: str) -> None:
    from gencode.core.errors import UserMistake
    from gencode.interfaces.http.guard import AccessTokens
    from gencode.interfaces.http.listener import ListenOptions
    from gencode.interfaces.mcp_server.http_transport import serve_http
    from gencode.interfaces.mcp_server.transport import Shutdown
    from tests.interfaces.mcp_server.offices import office

    async with office(tmp_path, {}) as here:
        with pytest.raises(UserMistake, match="is not an IP address"):
            await serve_http(here.server, ListenOptions(AccessTokens(), bind), Shutdown(here.rooms))
