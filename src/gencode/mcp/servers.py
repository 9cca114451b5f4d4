"""All MCP servers of a session, from settings, project and agent files, and which agent gets which tools."""

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from gencode.agent.toolbox import MissingTool, Tool
from gencode.core.errors import UnknownName
from gencode.core.rules import Rule
from gencode.core.spec import AgentSpec
from gencode.core.structs import replace
from gencode.mcp.approvals import ServerApprovals
from gencode.mcp.definition import ServerDefinition, servers_of_agent
from gencode.mcp.public_names import PREFIX, denies_all, is_pattern, matches, server_labels, tool_names
from gencode.mcp.server import McpServer, McpServerStatus
from gencode.mcp.server_tool import ServerTool, ServerToolFactory
from gencode.mcp.session_servers import STATE_CLAUSES, Change, ServerState, approval_command
from gencode.mcp.stdio import WallFactory, no_wall
from gencode.mcp.tool_list import OfferedTool
from gencode.permissions.calls import Approval
from gencode.sandbox.processes.command_runner import CommandRunner
from gencode.sandbox.processes.environment import EnvironmentFilter
from gencode.sandbox.processes.fork_server_client import end_leftovers

_APPROVED_WAIT = 30.0


class McpServers:
    """Every MCP server of a session; each definition runs once, whoever uses it.

    `home` is the per-user folder; programs are started in `cwd`, inside the `walls`.
    `answered` are the approvals of the session; tools that the user's settings call read-only are added to
    it. A server is not started if `rules` deny all of its tools.
    """

    def __init__(
        self,
        home: Path,
        cwd: Path,
        definitions: Iterable[ServerDefinition],
        *,
        answered: set[Approval] | None = None,
        environ: Mapping[str, str] | None = None,
        rules: Sequence[Rule] = (),
        walls: WallFactory = no_wall,
    ) -> None:
        self._home = home
        self._cwd = cwd
        self._walls = walls
        self._environ = dict(os.environ if environ is None else environ)
        self._approvals = ServerApprovals(home)
        self._factory = ServerToolFactory(self._approvals)
        self._rules = rules
        self._answered = set[Approval]() if answered is None else answered
        self._commands: dict[frozenset[str], CommandRunner] = {}
        self._all: dict[tuple[str, str, bool], McpServer] = {}
        self._started: dict[str, dict[str, str]] = {}
        self._session = {each.name: self._server(each) for each in definitions}
        self._needed: dict[tuple[str, str], McpServer] = {}
        self._sweeping: asyncio.Task[int] | None = None
        """Stops processes that a crashed session may have left behind."""
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._all)

    def start(self) -> None:
        """Start all servers of the session, in the background."""
        if self._session and self._sweeping is None:
            self._sweeping = asyncio.create_task(asyncio.to_thread(end_leftovers, self._home / "state"))
        for server in self._session.values():
            self._start(server)

    async def ready(
        self, seconds: float | None, spec: AgentSpec | None = None, hurried: asyncio.Event | None = None
    ) -> None:
        """Wait for the first attempt of every server that an agent would use, at most so long.

        It returns at once when `hurried` is set.
        """
        found = self._of(spec)
        useful = [found[name] for name in (found if spec is None else self._servers_for(spec, found))]
        self._needed |= {(each.name, each.definition.digest): each for each in useful}
        waiting = [each for each in useful if each.waits]
        if not waiting or (hurried is not None and hurried.is_set()):
            return
        tried = asyncio.gather(*(each.tried() for each in waiting))
        hurry = asyncio.create_task((hurried or asyncio.Event()).wait())
        try:
            await asyncio.wait((tried, hurry), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurry.cancel()
            tried.cancel()
            await asyncio.gather(tried, hurry, return_exceptions=True)

    def awaited(self) -> list[str]:
        """The servers that an agent waits for: their first attempt to connect has not ended."""
        return sorted(each.name for each in self._needed.values() if each.waits)

    def needed(self) -> list[McpServerStatus]:
        """The status of every server that an agent of this session could use, by name."""
        return [self._needed[key].status() for key in sorted(self._needed)]

    def tools(self, spec: AgentSpec | None = None) -> list[Tool]:
        """The tools that an agent gets by its file; without an agent, all of the session."""
        servers = self._of(spec)
        labels = server_labels(servers)
        found: dict[str, Tool] = {}
        for name in sorted(servers):
            for tool in self._tools_of(servers[name], labels[name]):
                if spec is None or self._gets(spec, name, labels[name], tool.name):
                    found.setdefault(tool.name, tool)
        return list(found.values())

    def warnings(self, spec: AgentSpec) -> list[str]:
        """What an agent's file asks for and does not get now, in a clause each."""
        names, found = servers_of_agent(spec.mcp_servers, spec.source or spec.name)
        said = list(found.problems)
        said += [f"there is no MCP server {name}" for name in names if name not in self._session]
        for name, server in self._of(spec).items():
            if server.state not in ("ready", "off"):
                why = f" ({server.why})" if server.why else ""
                said.append(f"the MCP server {name} {STATE_CLAUSES[server.state]}{why}")
        there = [tool.name for tool in self.tools(spec)]
        labels = server_labels(self._of(spec))
        for pattern in spec.tools.allow or ():
            hit = any(matches(pattern, label, tool) for tool in there for label in labels.values())
            if is_pattern(pattern) and not hit:
                said.append(f"no tool matches {pattern}")
        return said

    def absent(self, spec: AgentSpec, tool: str) -> MissingTool | None:
        """Why a tool is missing now, for the model that calls it; None if no server explains it."""
        servers = self._of(spec)
        for name, label in server_labels(servers).items():
            if tool.startswith(f"{PREFIX}{label}__") and self._gets(spec, name, label, tool):
                there = [each.name for each in self._tools_of(servers[name], label)]
                why = "" if tool in there else _why_absent(servers[name])
                return MissingTool(why, servers[name].state == "unapproved") if why else None
        return None

    def status(self) -> list[McpServerStatus]:
        """Every server, by name."""
        return [self._all[key].status() for key in sorted(self._all)]

    def candidates(self, name: str, specs: Iterable[AgentSpec] = ()) -> list["ServerCandidate"]:
        """The servers of this name that the user may approve: the session's, and those of agent files."""
        found = [self._session, *(self._of(spec) for spec in specs if spec.mcp_servers)]
        named = {id(each[name]): each[name] for each in found if name in each}
        if not named:
            raise UnknownName("MCP server", name, {known for each in found for known in each})
        return [ServerCandidate(server, self._approvals) for server in named.values()]

    async def close(self) -> None:
        """Stop every server."""
        self._closed = True
        await asyncio.gather(*(server.close() for server in self._all.values()))
        await asyncio.gather(*(commands.close() for commands in self._commands.values()))
        if self._sweeping is not None:
            await self._sweeping

    def _server(self, definition: ServerDefinition) -> McpServer:
        definition = self._with_started_files(definition)
        key = (definition.name, definition.digest, definition.sandboxed)
        if key not in self._all:
            self._all[key] = McpServer(definition, self._cwd, self._environ, self._commands_with, self._walls)
        return self._all[key]

    def _with_started_files(self, definition: ServerDefinition) -> ServerDefinition:
        """A definition with the digests of the files it starts, from when it was first needed."""
        digest = definition.digest
        if digest not in self._started:
            self._started[digest] = definition.with_started_files(self._cwd).started
        return replace(definition, started=self._started[digest])

    def _start(self, server: McpServer, *, from_project: bool = False) -> None:
        """Start a server, unless it needs approval: if its command has changed, or is new in a project."""
        definition = server.definition
        if self._closed or definition.disabled:
            return
        label = server_labels((*self._session, definition.name))[definition.name]
        if rule := next((each for each in self._rules if denies_all(each, label)), None):
            server.forbid(str(rule))
            return
        trusted = not from_project or self._approvals.knows(definition.name)
        if trusted and self._approvals.covers_start(definition.name, definition.digest):
            server.start()
        elif server.state == "off":
            known = self._approvals.knows(definition.name)
            state = "has changed since it was approved" if known else "is not approved yet"
            server.withhold(f"the way it is started {state}")

    def _commands_with(self, keep: frozenset[str]) -> CommandRunner:
        """A runner of commands that get these secret variables; servers with the same ones share it."""
        if keep not in self._commands:
            self._commands[keep] = CommandRunner(self._home / "state", scrub=EnvironmentFilter(keep=keep))
        return self._commands[keep]

    def _of(self, spec: AgentSpec | None) -> dict[str, McpServer]:
        """The servers that an agent could use: the session's, overridden by those of its own file."""
        servers = dict(self._session)
        if spec is not None and spec.mcp_servers:
            _, found = servers_of_agent(spec.mcp_servers, spec.source or spec.name)
            labels = server_labels((*servers, *(each.name for each in found.definitions)))
            for definition in found.definitions:
                if _may_use(spec, labels[definition.name]):
                    own = definition.of_project() if spec.project else definition
                    servers[definition.name] = self._server(own)
                    self._start(servers[definition.name], from_project=spec.project)
        return servers

    def _servers_for(self, spec: AgentSpec, servers: Mapping[str, McpServer]) -> list[str]:
        """The servers from which an agent may get tools, by its file."""
        labels = server_labels(servers)
        named, _ = servers_of_agent(spec.mcp_servers, spec.source or spec.name)
        return [name for name in servers if name in named or _may_use(spec, labels[name])]

    def _gets(self, spec: AgentSpec, name: str, label: str, tool: str) -> bool:
        """Whether an agent gets a tool, by its file.

        Without a list of tools it gets all. With a list it gets what the patterns match, and all tools of a
        server that it names among its servers and for which it has no pattern.
        """
        if any(matches(pattern, label, tool) for pattern in spec.tools.deny if is_pattern(pattern)):
            return False
        allow = spec.tools.allow
        if allow is None or any(matches(pattern, label, tool) for pattern in allow if is_pattern(pattern)):
            return True
        names, _ = servers_of_agent(spec.mcp_servers, spec.source or spec.name)
        named = name in names
        narrowed = any(pattern.startswith(f"{PREFIX}{label}") for pattern in allow)
        return named and not narrowed

    def _tools_of(self, server: McpServer, label: str) -> list[ServerTool]:
        if server.state == "unapproved":
            self._approvals.refresh()
            definition = server.definition
            if self._approvals.knows(definition.name):  # it may have been approved elsewhere
                self._start(server)
        if server.state == "unapproved":
            return [self._factory.starter(server, f"{PREFIX}{label}__start", lambda: self._approve(server))]
        names = tool_names(label, (each.name for each in server.listing.tools))
        tools: list[ServerTool] = []
        for offered in server.listing.tools:
            patterns = server.definition.reads
            reads = any(fnmatchcase(offered.name, pattern) for pattern in patterns)
            tool = self._factory.tool(server, offered, names[offered.name], reads=reads)
            if tool.effect == "read" and not tool.doubt():
                self._answered.add(Approval("reads", tool.name))
            tools.append(tool)
        return tools

    async def _approve(self, server: McpServer) -> str:
        definition = server.definition
        tools = {tool.name: tool.digest for tool in server.listing.tools}
        self._approvals.add(definition.name, definition.digest, tools)
        self._start(server)
        try:
            async with asyncio.timeout(_APPROVED_WAIT):
                await server.tried()
        except TimeoutError:
            return f"The MCP server {definition.name} is starting; its tools are available when it is ready."
        status = server.status()
        if status.state != "ready":
            clause = STATE_CLAUSES[status.state]
            return f"The MCP server {definition.name} was approved, but it {clause}: {status.why}."
        names = ", ".join(status.tools) or "none"
        return (
            f"The MCP server {definition.name} is running. "
            f"Its tools are available from your next reply on: {names}."
        )


class ServerCandidate:
    """A server that the user may approve: how it is started, and then its tools."""

    def __init__(self, server: McpServer, approvals: ServerApprovals) -> None:
        self._server = server
        self._approvals = approvals

    @property
    def how(self) -> str:
        """How it is started, in plain words."""
        return self._server.definition.describe()

    @property
    def state(self) -> ServerState:
        """Its state: `unapproved` until `start`, if the way it is started needs approval."""
        return self._server.state

    @property
    def why(self) -> str:
        """Why it is in that state."""
        return self._server.why

    def tools(self) -> list[tuple[str, Change, str]]:
        """The tools it offers now, each with how it differs from the last approval, and its description."""
        return [(each.name, self._change(each), each.description) for each in self._server.listing.tools]

    @property
    def approved(self) -> bool:
        """Whether it was approved as it is now, with all of its tools."""
        definition = self._server.definition
        known = self._approvals.knows(definition.name)
        started = known and self._approvals.covers_start(definition.name, definition.digest)
        return started and all(change == "approved" for _, change, _ in self.tools())

    async def start(self) -> None:
        """Approve how it is started, and wait for the first attempt."""
        self._approvals.add(self._server.name, self._server.definition.digest, {})
        self._server.start()
        await self._server.tried()

    def approve(self) -> None:
        """Approve it as it is now: how it is started, and its tools with their descriptions."""
        tools = {each.name: each.digest for each in self._server.listing.tools}
        self._approvals.add(self._server.name, self._server.definition.digest, tools)

    def _change(self, tool: OfferedTool) -> Change:
        if self._approvals.knows_tool(self._server.name, tool.name):
            same = self._approvals.covers_tool(self._server.name, tool.name, tool.digest)
            return "approved" if same else "changed"
        return "new"


def _may_use(spec: AgentSpec, label: str) -> bool:
    """Whether the lists of an agent's file allow any tool of a server."""
    whole = f"{PREFIX}{label}"
    if any(pattern in ("mcp", "mcp__*", whole, f"{whole}__*") for pattern in spec.tools.deny):
        return False
    if spec.tools.allow is None:
        return True
    heads = (pattern.partition("*")[0] for pattern in spec.tools.allow if is_pattern(pattern))
    return any(whole.startswith(head) or head.startswith(whole) for head in heads)


def _why_absent(server: McpServer) -> str:
    """Why a server offers no tools now, and what the model can do."""
    why = f": {server.why.rstrip('.')}" if server.why else ""
    match server.state:
        case "starting":
            way = "Continue with something else, or call the tool again in your next reply."
            return f"The MCP server {server.name} is still starting{why}. {way}"
        case "down":
            way = "It will be restarted; call the tool again later."
            return f"The MCP server {server.name} does not work{why}. {way}"
        case "failed":
            return f"The MCP server {server.name} does not work{why}. Continue without it, and tell the user."
        case "unapproved":
            way = f"The user can approve it with: {approval_command(server.name)}"
            return f"The MCP server {server.name} was not started{why}. {way}"
        case "off" | "ready":
            return ""
