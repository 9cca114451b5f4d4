"""One MCP server: its connection is started, watched and, after a loss, started again."""

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
from gencode.mcp.stdio import StdioTransport, environment
from gencode.mcp.streamable_http import HttpTransport, header_value
from gencode.mcp.tool_list import OfferedTool, ToolList, cleaned, list_tools
from gencode.mcp.tool_results import output_of
from gencode.mcp.transport import ConnectionLost, RequestRefused, Transport
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
"""Gives what starts programs, with variables of these names let through."""


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
        self, definition: ServerDefinition, cwd: Path, environ: Mapping[str, str], making: CommandsFactory
    ) -> None:
        self.definition = definition
        self.state: ServerState = "off"
        self.why = ""
        self.listing = ToolList()
        self._cwd = cwd
        self._environ = environ
        self._making = making
        self._peer: McpClient | None = None
        self._life: asyncio.Task[None] | None = None
        self._handshake = False
        self._logged = ("", "")
        self._news = asyncio.Event()
        self._tried = asyncio.Event()
        self._moved = asyncio.Event()

    @property
    def name(self) -> str:
        """What the person calls it."""
        return self.definition.name

    def start(self) -> None:
        """Connect in the background and stay connected; nothing if it does already."""
        if self._life is None and not self.definition.disabled:
            self._enter("starting")
            self._life = asyncio.create_task(self._live())
            self._life.add_done_callback(lambda _: self._tried.set())

    def withhold(self, why: str) -> None:
        """Do not start it before a person has approved it."""
        self._enter("unapproved", why)

    def forbid(self, rule: str) -> None:
        """Never start it: a rule denies all of its tools."""
        self._enter("off", f"the rule {rule} denies all of its tools")

    async def tried(self) -> None:
        """Return when the first try to reach it has ended, well or not; at once if there is none."""
        if self._life is not None:
            await self._tried.wait()

    @property
    def waits(self) -> bool:
        """Whether the first try to reach it has not ended yet."""
        return self._life is not None and not self._tried.is_set()

    async def close(self) -> None:
        """Disconnect and stop it."""
        if self._life is not None:
            self._life.cancel()
            with suppress(asyncio.CancelledError):
                await self._life
        self._enter("off")

    async def call(
        self, tool: OfferedTool, arguments: dict[str, Any], progress: Callable[[str], None]
    ) -> ToolOutput:
        """Use a tool in the form an agent knows it; ToolError when that is not possible."""
        peer = await self._reachable()
        now = self.now(tool.name)
        if now is None:
            raise ToolError(f"The MCP server {self.name} does not offer {tool.name} any more.")
        if now.digest != tool.digest:
            raise ToolError(
                f"{tool.name} of the MCP server {self.name} has changed since you were told about it. "
                "The call was not made; the new version is available from your next reply on."
            )
        params = {"name": tool.name, "arguments": arguments}
        headers = {f"Mcp-Param-{token}": text for token, text in _mirrored(tool, arguments)}
        try:
            result = await peer.request(
                "tools/call",
                params,
                heard=lambda text: progress(f"{self.name}: {cleaned(text, _LONGEST_PROGRESS)}"),
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
        """A tool as the server offers it at this moment."""
        return next((each for each in self.listing.tools if each.name == tool), None)

    def status(self) -> McpServerStatus:
        """The current status."""
        version = self._peer.version if self._peer is not None and self.state == "ready" else ""
        names = tuple(tool.name for tool in self.listing.tools)
        notes = self.listing.notes
        of = self.definition
        return McpServerStatus(self.name, of.kind, self.state, of.origin, version, names, self.why, notes)

    def _enter(self, state: ServerState, why: str = "") -> None:
        if state in ("unapproved", "down", "failed") and self._logged != (state, why):
            self._logged = (state, why)
            log.warning("the MCP server %s is %s: %s", self.name, state, why)
        self.state = state
        self.why = why
        self._moved.set()
        self._moved = asyncio.Event()

    async def _reachable(self) -> McpClient:
        """The connection, after waiting a little for one that is being made."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self.state == "starting":
                    await self._moved.wait()
        if self.state != "ready" or self._peer is None:
            told = f": {self.why}" if self.why else ""
            soon = "It is being restarted." if self.state in ("down", "starting") else ""
            raise ToolError(f"The MCP server {self.name} is not available{told}. {soon}".rstrip())
        return self._peer

    async def _live(self) -> None:
        """Reach it, stay with it, and after a loss try again; give up when it never holds."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            self._enter("starting", self.why)
            began = loop.time()
            lost = await self._once()
            if loop.time() - began > _STEADY_SECONDS:
                failures = 0
            failures += 1
            if lost.hopeless or failures >= MOST_FAILURES:
                self._enter("failed", str(lost))
                return
            if self._handshake and not self._tried.is_set():
                continue  # greeted in the older way at once: that belongs to the first try
            self._enter("down", str(lost))
            self._tried.set()
            await asyncio.sleep(min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE))

    async def _once(self) -> ConnectionLost:
        """One connection from its beginning to its end; why it ended."""
        try:
            transport = self._transport()
        except UserMistake as mistake:
            return ConnectionLost(str(mistake), hopeless=True)
        peer = self._peer = McpClient(transport, self._news.set)
        try:
            async with asyncio.timeout(self.definition.startup_seconds):
                await peer.open(handshake=self._handshake)
                self.listing = await list_tools(peer)
            self._enter("ready")
            self._tried.set()
            peer.gone.add_done_callback(lambda gone: self._gone(peer, gone.result()))
            return await self._stay(peer)
        except TimeoutError:
            return ConnectionLost(f"it did not get ready within {self.definition.startup_seconds:g} s")
        except RequestRefused as refused:
            return ConnectionLost(f"it refused: {cleaned(str(refused), 500)}")
        except ConnectionLost as lost:
            # Some older servers leave when the first thing they hear is no greeting.
            self._handshake = not peer.answered and not self._handshake
            return lost
        finally:
            self._peer = None
            await peer.close()

    def _gone(self, peer: McpClient, why: str) -> None:
        """Whoever asks from now on is told so, although closing what is left may take a moment."""
        if self._peer is peer:
            self._enter("down", why)

    async def _stay(self, peer: McpClient) -> ConnectionLost:
        """Follow the server's news until it is lost."""
        news = asyncio.create_task(self._news.wait())
        try:
            while True:
                await asyncio.wait({peer.gone, news}, return_when=asyncio.FIRST_COMPLETED)
                if peer.gone.done():
                    return ConnectionLost(peer.gone.result())
                await asyncio.sleep(_GATHER_SECONDS)
                self._news.clear()
                news = asyncio.create_task(self._news.wait())
                async with asyncio.timeout(_LISTING_SECONDS):
                    self.listing = await list_tools(peer)
        finally:
            news.cancel()

    def _transport(self) -> Transport:
        filled = self.definition.filled(self._environ)
        if filled.kind == "http":
            return HttpTransport(filled)
        cwd = Path(filled.cwd).expanduser() if filled.cwd else self._cwd
        environ = environment(filled, self._environ)
        keys = frozenset(
            name for name, value in filled.env.items() if EnvironmentFilter().is_secret(name, value)
        )
        return StdioTransport(filled, self._making(keys), self._cwd / cwd, environ)


def _mirrored(tool: OfferedTool, arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """The arguments that a server wants as headers too."""
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
