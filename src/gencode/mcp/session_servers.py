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

FILES = (".mcp.json", ".gen/mcp.json")
"""What a trusted project may bring."""

SCREEN_WAIT = 2.0
"""How long a conversation at a screen waits at most for its servers: who looks at it sees them come."""

ServerState = Literal["off", "unapproved", "starting", "ready", "down", "failed"]
"""`off`: not started; `unapproved`: a person has to look; `down`: it is started again soon."""

Tables = Sequence[tuple[str, dict[str, Any], bool]]
"""The tables of the settings: where each was written, what it says, and whether the user wrote it."""

Lines = list[tuple[str, str]]
"""Command lines, each with the folder it is run in; none: the one that is worked in."""


def describe_servers(entries: Sequence[Any], files: Mapping[str, bytes], origin: str = "") -> list[str]:
    """The servers of an agent's file and of files like `.mcp.json`, each as it is started, in a line."""
    from gencode.mcp.definition import ServerDefinition, of_agent, of_mcp_json

    def told(server: ServerDefinition) -> str:
        env = [f"{name}={shlex.quote(value)}" for name, value in server.env.items()]
        how = server.url or " ".join((*env, shlex.join((server.command, *server.args))))
        return f"MCP server {server.name}: {how}{f' (in {server.cwd})' if server.cwd else ''}"

    several = [of_agent(entries, origin)[1], *(of_mcp_json(files[path], path) for path in files)]
    return [line for found in several for line in (*map(told, found.definitions), *found.problems)]


Change = Literal["new", "changed", "approved"]
"""What a tool is to what was approved of its server."""


def approval_command(server: str) -> str:
    """The command by which a person approves a server and its tools as they are now."""
    option = "--server=" if server.startswith("-") else "--server "
    return f"gen trust {option}{shlex.quote(server)}"


class ServerReport(Struct, frozen=True):
    """An MCP server as programs are told of it: `error` is why its tools are not there, `fix` the command
    that helps.
    """

    name: str
    state: ServerState
    error: str | None = None
    fix: str | None = None

    def told(self) -> str:
        """The problem of the server, for a person; empty when there is none."""
        why = f": {self.error.rstrip('.')}" if self.error else ""
        match self.state:
            case "starting":
                return f"The MCP server {self.name} is still starting{why}; its tools come when it is ready."
            case "down" | "failed":
                again = " It will be retried." if self.state == "down" else ""
                return f"The MCP server {self.name} does not work{why}.{again}"
            case "unapproved":
                return f"The MCP server {self.name} was not started{why}. Approve it with: {self.fix}"
            case "off" | "ready":
                return ""


def server_commands(tables: Tables, files: Mapping[str, bytes], entries: Sequence[Any] = ()) -> Lines:
    """How the servers of settings, of files like `.mcp.json` and of an agent's file are started."""
    if not (tables or files or entries):
        return []
    from gencode.mcp.definition import gathered, of_agent

    found = (*gathered(tables, files).definitions, *of_agent(entries, "")[1].definitions)
    return [line for each in found if each.command for line in each.lines]


class SessionServers:
    """The MCP servers that settings, a project and agents name; loaded when there are any.

    `answered` is what a person said yes to in this session, `rules` what counts in all of it.
    """

    def __init__(
        self,
        home: Path,
        cwd: Path,
        tables: Tables,
        files: Mapping[str, bytes],
        answered: set[Approval],
        rules: Sequence[Rule] = (),
    ) -> None:
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
        """Start what the settings and the project name, in the background."""
        if self._tables or self._files:
            self._all()

    async def ready(self, spec: AgentSpec | None = None) -> None:
        """Wait for the servers that an agent would use; without one, for those of the session."""
        if self._tables or self._files or (spec is not None and spec.mcp_servers):
            await self._all().ready(self._longest_wait, spec, self._hurried)

    def wait_at_most(self, seconds: float | None) -> None:
        """Limit how long an agent waits for its servers before it starts.

        None: until each was tried once, which takes its `startup_seconds` at most.
        """
        self._longest_wait = seconds

    def hurry(self) -> None:
        """Wait for no server any more: the program is about to end."""
        self._hurried.set()

    def serves(self, spec: AgentSpec) -> bool:
        """Whether there are servers from which an agent may get tools, now or later."""
        return bool(self._tables or self._files or spec.mcp_servers)

    def tools(self, spec: AgentSpec | None = None) -> Sequence[Tool]:
        """The tools of servers that an agent gets; without one, all of those of the session."""
        if spec is None:
            return self._all().tools() if self._tables or self._files else ()
        return self._all().tools(spec) if self.serves(spec) else ()

    def absent(self, spec: AgentSpec, tool: str) -> MissingTool | None:
        """Why a tool of a server is not there now, for whoever calls it; None if no server explains it."""
        return self._all().absent(spec, tool) if self.serves(spec) else None

    def warnings(self, spec: AgentSpec) -> Sequence[str]:
        """What its receipt should say about servers."""
        return [*self._problems, *self._all().warnings(spec)] if self.serves(spec) else ()

    def status(self) -> "Sequence[McpServerStatus]":
        """The status of every server."""
        return self._all().status() if self._tables or self._files or self._servers else ()

    def reports(self) -> "list[ServerReport]":
        """The status of every server, for programs."""
        return [_report(each) for each in self.status()]

    def troubles(self) -> "list[ServerReport]":
        """Those of which an agent of this session could have used tools that are not there."""
        needed = self._servers.needed() if self._servers is not None else ()
        return [report for each in needed if (report := _report(each)).told()]

    def candidates(self, name: str, specs: Sequence[AgentSpec]) -> "list[ServerCandidate]":
        """The servers of this name that a person may approve, of the session and of agents' files."""
        return self._all().candidates(name, specs)

    def awaited(self) -> list[str]:
        """The servers that an agent waits for at this moment."""
        return self._servers.awaited() if self._servers is not None else []

    @property
    def problems(self) -> Sequence[str]:
        """What is wrong with definitions in files like `.mcp.json`, a clause each."""
        return self._problems

    async def close(self) -> None:
        """End every server."""
        if self._servers is not None:
            await self._servers.close()

    def _all(self) -> "McpServers":
        if self._servers is None:
            from gencode.mcp.definition import gathered
            from gencode.mcp.servers import McpServers

            found = gathered(self._tables, self._files)
            self._problems = tuple(found.problems)
            self._servers = McpServers(
                self._home, self._cwd, found.definitions, answered=self._answered, rules=self._rules
            )
            self._servers.start()
        return self._servers


def _report(server: "McpServerStatus") -> ServerReport:
    fix = approval_command(server.name) if server.state == "unapproved" else None
    return ServerReport(server.name, server.state, server.why or None, fix)
