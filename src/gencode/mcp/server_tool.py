"""The tools of MCP servers for agents, and the approval of servers and tools that are new or have changed."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from gencode.agent.toolbox import Tool, ToolContext, ToolOutput
from gencode.core.errors import ToolError
from gencode.core.messages import ToolCall
from gencode.mcp.approvals import ServerApprovals
from gencode.mcp.server import McpServer
from gencode.mcp.session_servers import approval_command
from gencode.mcp.tool_list import OfferedTool

_MOST_ASKED = 1_000
_LARGEST_INPUT = 4 * 1024 * 1024


class ServerArguments(Struct, frozen=True):
    """The arguments of a call; the server validates them."""

    input: dict[str, Any]


class ServerTool(Tool, frozen=True, eq=False, kw_only=True):
    """A tool of an MCP server. `doubts` says why a call needs approval whatever the rules allow."""

    doubts: Callable[[], str]

    def doubt(self) -> str:
        """Why this call needs approval although the rules allow it; usually empty."""
        return self.doubts()

    @property
    def approval(self) -> str:
        """How the user can approve the call."""
        return f"the user's approval, or: {approval_command(self.server)}"

    def parse(self, call: ToolCall) -> Struct:
        """The arguments, if they are an object and have all that is required."""
        if call.broken:
            raise ToolError(f"{self.name}: the arguments are not a JSON object: {call.broken[:200]!r}.")
        missing = [name for name in self.schema.get("required", ()) if name not in call.input]
        if missing:
            takes = ", ".join(self.schema["properties"]) or "no arguments"
            raise ToolError(f"{self.name}: {', '.join(missing)} is required. It takes {takes}.")
        try:
            size = len(msgspec.json.encode(call.input))
        except UnicodeEncodeError:
            raise ToolError(
                f"{self.name}: the arguments contain a lone surrogate; write the whole character."
            ) from None
        if size > _LARGEST_INPUT:
            raise ToolError(f"{self.name}: the arguments are larger than {_LARGEST_INPUT:,} bytes.")
        return ServerArguments(call.input)


class ServerToolFactory:
    """Makes the tools of MCP servers, and records in which form servers and tools were approved.

    A new or changed tool only runs after its preview was made, which means that the user was asked about
    this call.
    """

    def __init__(self, approvals: ServerApprovals) -> None:
        self._approvals = approvals
        self._asked: dict[tuple[str, str, str], None] = {}

    def tool(self, server: McpServer, offered: OfferedTool, name: str, *, reads: bool) -> ServerTool:
        """A tool of a server under its public name; `reads`: the user said that it only reads."""

        def doubts() -> str:
            return self._doubt(server, offered)

        async def preview(ctx: ToolContext, input: dict[str, Any]) -> str:
            self._note_asked(ctx, offered.digest)
            doubt = doubts()
            lines = (doubt, server.definition.describe(), f"  {offered.name}: {offered.description}")
            return "\n".join(each for each in lines if each)

        async def use(ctx: ToolContext, input: dict[str, Any]) -> ToolOutput:
            self._check_asked(ctx, offered.digest, doubts())
            self._record_approval(server, offered)
            return await server.call(offered, input, ctx.progress)

        return ServerTool(
            name=name,
            description=f"[MCP server {server.name}] {offered.description or offered.name}",
            effect="read" if reads and offered.reads else "write",
            function=use,
            arguments=ServerArguments,
            schema=offered.schema,
            source="mcp",
            server=server.name,
            timeout=server.definition.call_seconds,
            preview=preview,
            local=server.definition.kind == "stdio",
            doubts=doubts,
        )

    def starter(self, server: McpServer, name: str, approve: Callable[[], Awaitable[str]]) -> ServerTool:
        """A tool in place of a server that needs approval: it starts the server."""
        why = f"The MCP server {server.name} was not started: {server.why}. {_how_to_approve(server.name)}"

        async def preview(ctx: ToolContext, input: dict[str, Any]) -> str:
            self._note_asked(ctx, server.definition.digest)
            return f"{why}\nIt would be started like this:\n{server.definition.describe()}"

        async def use(ctx: ToolContext, input: dict[str, Any]) -> str:
            self._check_asked(ctx, server.definition.digest, why)
            return await approve()

        return ServerTool(
            name=name,
            description=f"{why} Call this to ask the user for approval; its tools are available after that.",
            effect="write",
            function=use,
            arguments=ServerArguments,
            schema={"type": "object", "properties": {}},
            source="mcp",
            server=server.name,
            preview=preview,
            doubts=lambda: why,
        )

    def _doubt(self, server: McpServer, offered: OfferedTool) -> str:
        if self._approvals.covers_tool(server.name, offered.name, offered.digest):
            return ""
        self._approvals.refresh()  # it may have been approved elsewhere
        if self._approvals.covers_tool(server.name, offered.name, offered.digest):
            return ""
        known = self._approvals.knows_tool(server.name, offered.name)
        change = "has changed" if known else "is new"
        what = f"{offered.name} of the MCP server {server.name} {change} since the server was approved."
        return f"{what} {_how_to_approve(server.name)}"

    def _note_asked(self, ctx: ToolContext, form: str) -> None:
        """Note that the user is asked about this call, with the tool in this form."""
        if len(self._asked) >= _MOST_ASKED:
            self._asked.pop(next(iter(self._asked)))
        self._asked[(ctx.task, ctx.call.id, form)] = None

    def _check_asked(self, ctx: ToolContext, form: str, doubt: str) -> None:
        """ToolError for a call in doubt that the user was not asked about; an answer is for one call."""
        key = (ctx.task, ctx.call.id, form)
        asked = key in self._asked
        self._asked.pop(key, None)
        if doubt and not asked:
            raise ToolError(doubt)

    def _record_approval(self, server: McpServer, offered: OfferedTool) -> None:
        digest = server.definition.digest
        if not self._approvals.knows(server.name):
            whole = {each.name: each.digest for each in server.listing.tools}
            self._approvals.add(server.name, digest, {**whole, offered.name: offered.digest})
        elif self._doubt(server, offered):
            self._approvals.add(server.name, digest, {offered.name: offered.digest})


def _how_to_approve(server: str) -> str:
    command = approval_command(server)
    return f"The user has to approve it, when asked or with `{command}`; rules and modes cannot."
