"""One MCP server: keeps its connection, and reconnects after a loss."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from gencode.agent.toolbox import ToolOutput
from gencode.core.errors import ToolError, UserMistake
from gencode.mcp.client import McpClient
from gencode.mcp.definition import ServerDefinition
from gencode.mcp.session_servers import ServerState
from gencode.mcp.stdio import StdioTransport, WallFactory, environment, no_wall
from gencode.mcp.streamable_http import HttpTransport, header_value
from gencode.mcp.tool_list import OfferedTool, ToolList, cleaned, list_tools
from gencode.mcp.tool_results import output_of
from gencode.mcp.transport import BUG, ConnectionLost, RequestRefused, Transport, bug_in
from gencode.sandbox.processes.command_runner import CommandRunner
from gencode.sandbox.processes.environment import EnvironmentFilter

log = logging.getLogger(__name__)

MOST_FAILURES = 6
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
_STEADY_SECONDS = 30.0
_PATIENCE_SECONDS = 10.0
_LISTING_SECONDS = 30.0
_GATHER_SECONDS = 0.2
_LONGEST_PROGRESS = 200

CommandsFactory = Callable[[frozenset[str]], CommandRunner]
"""Makes a runner of commands that passes variables of these names on."""


class McpServerStatus(Struct, frozen=True):
    """The status of a server, for lists."""

    name: str
    kind: str
    state: ServerState
    origin: str
    version: str = ""
    tools: tuple[str, ...] = ()
    why: str = ""
    notes: tuple[str, ...] = ()


class McpServer:
    """The connection to one MCP server, shared by all agents of a session."""

    def __init__(
        self,
        definition: ServerDefinition,
        cwd: Path,
        environ: Mapping[str, str],
        commands_factory: CommandsFactory,
        walls: WallFactory = no_wall,
    ) -> None:
        self.definition = definition
        self.state: ServerState = "off"
        self.why = ""
        self.listing = ToolList()
        self._cwd = cwd
        self._environ = environ
        self._commands_factory = commands_factory
        self._walls = walls
        self._client: McpClient | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._handshake = False
        self._logged = ("", "")
        self._news = asyncio.Event()
        self._tried = asyncio.Event()
        self._state_changed = asyncio.Event()

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        return self.definition.name

    def start(self) -> None:
        """Connect in the background and stay connected, unless it is started already."""
        if self._connecting is None and not self.definition.disabled:
            self._set_state("starting")
            self._connecting = asyncio.create_task(self._stay_connected())
            self._connecting.add_done_callback(self._gave_up)

    def _gave_up(self, connecting: "asyncio.Task[None]") -> None:
        if bug_in(connecting):
            self._set_state("failed", BUG)
        self._tried.set()

    def withhold(self, why: str) -> None:
        """Do not start it before the user has approved it."""
        self._set_state("unapproved", why)

    def forbid(self, rule: str) -> None:
        """Never start it: a rule denies all of its tools."""
        self._set_state("off", f"the rule {rule} denies all of its tools")

    async def tried(self) -> None:
        """Wait until the first attempt to connect has ended; return at once if there is none."""
        if self._connecting is not None:
            await self._tried.wait()

    @property
    def waits(self) -> bool:
        """Whether the first attempt to connect has not ended yet."""
        return self._connecting is not None and not self._tried.is_set()

    async def close(self) -> None:
        """Disconnect and stop it."""
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        self._set_state("off")

    async def call(
        self, tool: OfferedTool, arguments: dict[str, Any], progress: Callable[[str], None]
    ) -> ToolOutput:
        """Call a tool that the agent knows in this form; ToolError if it has changed or cannot be called."""
        client = await self._reachable()
        now = self.now(tool.name)
        if now is None:
            raise ToolError(f"The MCP server {self.name} does not offer {tool.name} any more.")
        if now.digest != tool.digest:
            raise ToolError(
                f"{tool.name} of the MCP server {self.name} has changed, so the call was not made. "
                "You get the new version from your next reply on."
            )
        params = {"name": tool.name, "arguments": arguments}
        headers = {f"Mcp-Param-{token}": text for token, text in _mirrored(tool, arguments)}
        try:
            result = await client.request(
                "tools/call",
                params,
                on_progress=lambda text: progress(f"{self.name}: {cleaned(text, _LONGEST_PROGRESS)}"),
                headers=headers,
            )
        except RequestRefused as refused:
            said = cleaned(str(refused), 2_000)
            raise ToolError(f"The MCP server {self.name} refused the call: {said}") from None
        except ConnectionLost as lost:
            raise ToolError(
                f"The MCP server {self.name} disconnected during the call: {lost}. "
                "The call may or may not have completed."
            ) from None
        return output_of(result)

    def now(self, tool: str) -> OfferedTool | None:
        """A tool as the server offers it now."""
        return next((each for each in self.listing.tools if each.name == tool), None)

    def status(self) -> McpServerStatus:
        """The current status."""
        version = self._client.version if self._client is not None and self.state == "ready" else ""
        names = tuple(tool.name for tool in self.listing.tools)
        notes = self.listing.notes
        of = self.definition
        return McpServerStatus(self.name, of.kind, self.state, of.origin, version, names, self.why, notes)

    def _set_state(self, state: ServerState, why: str = "") -> None:
        if state in ("unapproved", "down", "failed") and self._logged != (state, why):
            self._logged = (state, why)
            log.warning("the MCP server %s is %s: %s", self.name, state, why)
        self.state = state
        self.why = why
        self._state_changed.set()
        self._state_changed = asyncio.Event()

    async def _reachable(self) -> McpClient:
        """The connection, after a short wait if it is being established."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self.state == "starting":
                    await self._state_changed.wait()
        if self.state != "ready" or self._client is None:
            why = f": {self.why}" if self.why else ""
            soon = "It will be restarted." if self.state in ("down", "starting") else ""
            raise ToolError(f"The MCP server {self.name} is not available{why}. {soon}".rstrip())
        return self._client

    async def _stay_connected(self) -> None:
        """Connect, reconnect after a loss, and give up after too many failures in a row."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            self._set_state("starting", self.why)
            began = loop.time()
            lost = await self._connect_once()
            if loop.time() - began > _STEADY_SECONDS:
                failures = 0
            failures += 1
            if lost.hopeless or failures >= MOST_FAILURES:
                self._set_state("failed", str(lost))
                return
            if self._handshake and not self._tried.is_set():
                continue  # the handshake is tried at once: it belongs to the first attempt
            self._set_state("down", str(lost))
            self._tried.set()
            await asyncio.sleep(min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE))

    async def _connect_once(self) -> ConnectionLost:
        """Connect, and stay connected until the connection is lost; why it was."""
        try:
            transport = self._transport()
        except UserMistake as mistake:
            return ConnectionLost(str(mistake), hopeless=True)
        client = self._client = McpClient(transport, self._news.set)
        try:
            async with asyncio.timeout(self.definition.startup_seconds):
                await client.open(handshake=self._handshake)
                self.listing = await list_tools(client)
            self._set_state("ready")
            self._tried.set()
            client.gone.add_done_callback(lambda gone: self._gone(client, gone.result()))
            return await self._stay(client)
        except TimeoutError:
            return ConnectionLost(f"it was not ready after {self.definition.startup_seconds:g} s")
        except RequestRefused as refused:
            return ConnectionLost(f"it refused the connection: {cleaned(str(refused), 500)}")
        except ConnectionLost as lost:
            # Some older servers exit if the first message is not `initialize`.
            self._handshake = not client.answered and not self._handshake
            return lost
        finally:
            self._client = None
            await client.close()

    def _gone(self, client: McpClient, why: str) -> None:
        """Change the state at once, although closing the rest of the connection may take a moment."""
        if self._client is client:
            self._set_state("down", why)

    async def _stay(self, client: McpClient) -> ConnectionLost:
        """Reload the tools when they change, until the connection is lost."""
        news = asyncio.create_task(self._news.wait())
        try:
            while True:
                await asyncio.wait({client.gone, news}, return_when=asyncio.FIRST_COMPLETED)
                if client.gone.done():
                    return ConnectionLost(client.gone.result())
                await asyncio.sleep(_GATHER_SECONDS)
                self._news.clear()
                news = asyncio.create_task(self._news.wait())
                async with asyncio.timeout(_LISTING_SECONDS):
                    self.listing = await list_tools(client)
        finally:
            news.cancel()

    def _transport(self) -> Transport:
        filled = self.definition.with_variables(self._environ)
        if filled.kind == "http":
            return HttpTransport(filled)
        cwd = Path(filled.cwd).expanduser() if filled.cwd else self._cwd
        environ = environment(filled, self._environ)
        keys = frozenset(
            name for name, value in filled.env.items() if EnvironmentFilter().is_secret(name, value)
        )
        return StdioTransport(filled, self._commands_factory(keys), self._cwd / cwd, environ, self._walls)


def _mirrored(tool: OfferedTool, arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """The arguments that a server also wants as headers."""
    found: list[tuple[str, str]] = []
    for path, token in tool.mirrored.items():
        value: Any = arguments
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(value, bool):
            found.append((token, "true" if value else "false"))
        elif isinstance(value, str | int | float):
            found.append((token, header_value(str(value))))
    return found
