"""The MCP servers of a session, loaded only when one is configured: most sessions have none."""

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from gencode.agent.toolbox import MissingTool, Tool
from gencode.core.rules import Rule
from gencode.core.spec import AgentSpec
from gencode.permissions.calls import Approval

if TYPE_CHECKING:
    from gencode.mcp.server import McpServerStatus
    from gencode.mcp.servers import McpServers, ServerCandidate
    from gencode.mcp.stdio import WallFactory

FILES = (".mcp.json", ".gen/mcp.json")
"""The files of a trusted project that define servers."""

SCREEN_WAIT = 2.0
"""The longest wait for servers at a screen, in seconds: there the user sees when they are ready."""

ServerState = Literal["off", "unapproved", "starting", "ready", "down", "failed"]
"""`off`: not started; `unapproved`: needs the user's approval; `down`: will be restarted soon."""

STATE_CLAUSES: dict[str, str] = {
    "off": "is not started",
    "unapproved": "is not approved",
    "starting": "is still starting",
    "ready": "is ready",
    "down": "does not work and will be restarted",
    "failed": "does not work",
}
"""What a sentence says about a server in each state."""

Tables = Sequence[tuple[str, dict[str, Any], bool]]
"""The tables of the settings: their source, their content, and whether they are the user's."""

Lines = list[tuple[str, str]]
"""Command lines, each with its folder; an empty one is the workspace."""


def describe_servers(entries: Sequence[Any], files: Mapping[str, bytes], origin: str = "") -> list[str]:
    """The servers of an agent's file and of files like `.mcp.json`, a line each with how it is started."""
    from gencode.mcp.definition import ServerDefinition, servers_from_mcp_json, servers_of_agent

    def described(server: ServerDefinition) -> str:
        env = [f"{name}={shlex.quote(value)}" for name, value in server.env.items()]
        how = server.url or " ".join((*env, shlex.join((server.command, *server.args))))
        more = [*(["network"] if server.network else []), *(f"writes {folder}" for folder in server.write)]
        notes = [*([f"in {server.cwd}"] if server.cwd else []), *more]
        return " ".join([f"MCP server {server.name}:", how, *([f"({', '.join(notes)})"] if notes else [])])

    several = [
        servers_of_agent(entries, origin)[1],
        *(servers_from_mcp_json(files[path], path) for path in files),
    ]
    return [line for found in several for line in (*map(described, found.definitions), *found.problems)]


Change = Literal["new", "changed", "approved"]
"""How a tool differs from what was approved."""


def approval_command(server: str) -> str:
    """The command that approves a server and its tools as they are now."""
    option = "--server=" if server.startswith("-") else "--server "
    return f"gen trust {option}{shlex.quote(server)}"


class ServerReport(Struct, frozen=True):
    """An MCP server for programs: `error` is why its tools are missing, `fix` the command that helps."""

    name: str
    state: ServerState
    error: str | None = None
    fix: str | None = None

    def problem(self) -> str:
        """The problem of the server, for the user; empty without one."""
        why = f": {self.error.rstrip('.')}" if self.error else ""
        match self.state:
            case "starting":
                return f"The MCP server {self.name} is still starting{why}; its tools come after that."
            case "down" | "failed":
                again = " It will be restarted." if self.state == "down" else ""
                return f"The MCP server {self.name} does not work{why}.{again}"
            case "unapproved":
                return f"The MCP server {self.name} was not started{why}. Approve it with: {self.fix}"
            case "off" | "ready":
                return ""


def server_commands(tables: Tables, files: Mapping[str, bytes], entries: Sequence[Any] = ()) -> Lines:
    """The commands of the servers of settings, of files like `.mcp.json` and of an agent's file."""
    if not (tables or files or entries):
        return []
    from gencode.mcp.definition import all_definitions, servers_of_agent

    found = (*all_definitions(tables, files).definitions, *servers_of_agent(entries, "")[1].definitions)
    return [line for each in found if each.command for line in each.lines]


class SessionServers:
    """The MCP servers that settings, a project and agents define; loaded when there are any.

    `answered` are the approvals of this session, `rules` those that apply in all of it, `walls` what encloses
    servers.
    """

    def __init__(
        self,
        home: Path,
        cwd: Path,
        tables: Tables,
        files: Mapping[str, bytes],
        answered: set[Approval],
        rules: Sequence[Rule] = (),
        walls: "WallFactory | None" = None,
    ) -> None:
        self._walls = walls
        self._home = home
        self._cwd = cwd
        self._tables = tables
        self._files = files
        self._answered = answered
        self._rules = rules
        self._problems: tuple[str, ...] = ()
        self._servers: McpServers | None = None
        self._hurried = asyncio.Event()
        self._longest_wait: float | None = None

    def start(self) -> None:
        """Start the servers of the settings and the project, in the background."""
        if self._tables or self._files:
            self._all()

    async def ready(self, spec: AgentSpec | None = None) -> None:
        """Wait for the servers that an agent would use; without an agent, for those of the session."""
        if self._tables or self._files or (spec is not None and spec.mcp_servers):
            await self._all().ready(self._longest_wait, spec, self._hurried)

    def wait_at_most(self, seconds: float | None) -> None:
        """Limit how long an agent waits for its servers before it starts.

        None: until each was tried once, which takes its `startup_seconds` at most.
        """
        self._longest_wait = seconds

    def hurry(self) -> None:
        """Stop waiting for servers: the program is about to exit."""
        self._hurried.set()

    def serves(self, spec: AgentSpec) -> bool:
        """Whether an agent may get tools from servers, now or later."""
        return bool(self._tables or self._files or spec.mcp_servers)

    def tools(self, spec: AgentSpec | None = None) -> Sequence[Tool]:
        """The server tools that an agent gets; without an agent, all of the session."""
        if spec is None:
            return self._all().tools() if self._tables or self._files else ()
        return self._all().tools(spec) if self.serves(spec) else ()

    def absent(self, spec: AgentSpec, tool: str) -> MissingTool | None:
        """Why a tool of a server is missing now; None if no server explains it."""
        return self._all().absent(spec, tool) if self.serves(spec) else None

    def warnings(self, spec: AgentSpec) -> Sequence[str]:
        """Warnings about servers for an agent's result."""
        return [*self._problems, *self._all().warnings(spec)] if self.serves(spec) else ()

    def status(self) -> "Sequence[McpServerStatus]":
        """The status of every server."""
        return self._all().status() if self._tables or self._files or self._servers else ()

    def reports(self) -> "list[ServerReport]":
        """The status of every server, for programs."""
        return [_report(each) for each in self.status()]

    def troubles(self) -> "list[ServerReport]":
        """The servers with missing tools that an agent of this session could have used."""
        needed = self._servers.needed() if self._servers is not None else ()
        return [report for each in needed if (report := _report(each)).problem()]

    def candidates(self, name: str, specs: Sequence[AgentSpec]) -> "list[ServerCandidate]":
        """The servers of this name that the user may approve, of the session and of agent files."""
        return self._all().candidates(name, specs)

    def awaited(self) -> list[str]:
        """The servers that an agent is waiting for."""
        return self._servers.awaited() if self._servers is not None else []

    @property
    def problems(self) -> Sequence[str]:
        """Problems of definitions in files like `.mcp.json`, a clause each."""
        return self._problems

    async def close(self) -> None:
        """Stop every server."""
        if self._servers is not None:
            await self._servers.close()

    def _all(self) -> "McpServers":
        if self._servers is None:
            from gencode.mcp.definition import all_definitions
            from gencode.mcp.servers import McpServers
            from gencode.mcp.stdio import no_wall

            found = all_definitions(self._tables, self._files)
            self._problems = tuple(found.problems)
            self._servers = McpServers(
                self._home,
                self._cwd,
                found.definitions,
                answered=self._answered,
                rules=self._rules,
                walls=self._walls or no_wall,
            )
            self._servers.start()
        return self._servers


def _report(server: "McpServerStatus") -> ServerReport:
    fix = approval_command(server.name) if server.state == "unapproved" else None
    return ServerReport(server.name, server.state, server.why or None, fix)
