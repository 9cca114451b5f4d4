"""Servers as tests use them: real programs, asked the way the loop asks tools."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gencode.agent.toolbox import Tool, ToolOutput
from gencode.core.messages import ToolCall
from gencode.core.spec import AgentSpec
from gencode.mcp.definition import ServerDefinition, servers_from_settings
from gencode.mcp.server_tool import ServerTool
from gencode.mcp.servers import McpServers
from gencode.permissions.calls import Approval
from tests.tools.desk import Desk

ODD_SERVER = Path(__file__).with_name("odd_server.py")
PLENTY = 60.0
"""Seconds nobody waits for unless something is wrong."""


def offer(*names: str, **more: Any) -> list[dict[str, Any]]:
    """Tools as a server lists them."""
    schema = {"type": "object", "properties": {"message": {"type": "string"}}}
    return [{"name": name, "description": f"Do {name}.", "inputSchema": schema, **more} for name in names]


class Fleet:
    """A session's servers, their files, and the folder all of it is in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "gen-home"
        self.home.mkdir()
        self.desk = Desk(folder)
        self.answered: set[Approval] = set()
        self._open: list[McpServers] = []
        self._calls = 0

    def odd(self, name: str = "odd", **told: Any) -> dict[str, Any]:
        """The definition of an odd server that is told to behave like this."""
        self.tell(name, **told)
        return {"command": sys.executable, "args": ["-S", "-E", str(ODD_SERVER), str(self.file(name))]}

    def tell(self, name: str = "odd", **told: Any) -> None:
        """How an odd server behaves from now on."""
        file = self.file(name)
        file.with_suffix(".new").write_text(json.dumps({"log": str(self.log(name)), **told}))
        file.with_suffix(".new").replace(file)

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def log(self, name: str = "odd") -> Path:
        return self.folder / f"{name}.log"

    def heard(self, name: str = "odd") -> list[dict[str, Any]]:
        """Every message an odd server has heard."""
        log = self.log(name)
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    async def open(self, environ: dict[str, str] | None = None, **table: dict[str, Any]) -> McpServers:
        """A session with these servers, each tried once."""
        return await self.opened(servers_from_settings(table, "settings.toml", users=True), environ)

    async def opened(
        self, definitions: Iterable[ServerDefinition], environ: dict[str, str] | None = None
    ) -> McpServers:
        servers = McpServers(self.home, self.folder, definitions, answered=self.answered, environ=environ)
        self._open.append(servers)
        servers.start()
        await servers.ready(PLENTY)
        return servers

    async def use(self, tool: Tool, **arguments: Any) -> ToolOutput:
        """Call a tool without asking anybody."""
        return await tool.run(self.desk.ctx, tool.parse(ToolCall("c1", tool.name, arguments)))

    async def after_a_question(self, tool: Tool, **arguments: Any) -> ToolOutput:
        """Call a tool after a person was shown what it would do, and said yes."""
        parsed = tool.parse(ToolCall("c1", tool.name, arguments))
        await tool.shown(self.desk.ctx, parsed)
        return await tool.run(self.desk.ctx, parsed)

    async def close(self) -> None:
        for servers in self._open:
            await servers.close()


def box(servers: McpServers, spec: AgentSpec | None = None) -> dict[str, ServerTool]:
    """The tools there are, by name."""
    found = servers.tools(spec)
    return {tool.name: tool for tool in found if isinstance(tool, ServerTool)}
