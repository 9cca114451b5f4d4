"""A tool of an MCP server as agents use it, and the approval of servers and tools that are new or changed."""

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
    """The arguments of a call, unchecked: the server itself knows what fits."""

    input: dict[str, Any]


class ServerTool(Tool, frozen=True, eq=False, kw_only=True):
    """A tool that belongs to an MCP server. `doubts` says why a person must be asked whatever rules allow."""

    doubts: Callable[[], str]

    def doubt(self) -> str:
        """Why this call needs approval although the rules allow it; usually empty."""
        return self.doubts()

    @property
    def approval(self) -> str:
        """What a person can do to approve the call."""
        return f"a person's approval, or: {approval_command(self.server)}"

    def parse(self, call: ToolCall) -> Struct:
        """The arguments as they are, if they are an object and nothing required is missing."""
        if call.broken:
            raise ToolError(f"{self.name}: the arguments are not a JSON object: {call.broken[:200]!r}.")
        missing = [name for name in self.schema.get("required", ()) if name not in call.input]
        if missing:
            takes = ", ".join(self.schema["properties"]) or "no arguments"
            raise ToolError(f"{self.name}: {', '.join(missing)} is required. It takes {takes}.")
        try:
            size = len(msgspec.json.encode(call.input))
        except UnicodeEncodeError:
            raise ToolError(f"{self.name}: the arguments hold half a character.") from None
        if size > _LARGEST_INPUT:
            raise ToolError(f"{self.name}: the arguments are larger than {_LARGEST_INPUT:,} bytes.")
        return ServerArguments(call.input)


class ServerToolFactory:
    """Makes tools of MCP servers, and records which servers and tools were approved in which form.

    A tool whose form is in doubt only runs after a question about this very call was shown to a person: the
    preview is made for nobody else.
    """

    def __init__(self, approvals: ServerApprovals) -> None:
        self._approvals = approvals
        self._asked: dict[tuple[str, str, str], None] = {}

    def tool(self, server: McpServer, offered: OfferedTool, name: str, *, reads: bool) -> ServerTool:
        """A tool of a server under its public name; `reads`: the person said that it only reads."""

        def doubts() -> str:
            return self._doubt(server, offered)

        async def preview(ctx: ToolContext, input: dict[str, Any]) -> str:
            self._ask(ctx, offered.digest)
            doubt = doubts()
            told = (doubt, server.definition.told(), f"  {offered.name}: {offered.description}")
            return "\n".join(each for each in told if each)

        async def use(ctx: ToolContext, input: dict[str, Any]) -> ToolOutput:
            self._pass(ctx, offered.digest, doubts())
            self._note(server, offered)
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
        """Stands for a server that is not started before a person has seen how it would be now."""
        why = f"The MCP server {server.name} was not started: {server.why}. {_way(server.name)}"

        async def preview(ctx: ToolContext, input: dict[str, Any]) -> str:
            self._ask(ctx, server.definition.digest)
            return f"{why}\nIt would be started like this now:\n{server.definition.told()}"

        async def use(ctx: ToolContext, input: dict[str, Any]) -> str:
            self._pass(ctx, server.definition.digest, why)
            return await approve()

        return ServerTool(
            name=name,
            description=f"{why} Calling this asks the person whether it may run; then its tools appear.",
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
        self._approvals.refresh()  # a person may just have approved it elsewhere
        if self._approvals.covers_tool(server.name, offered.name, offered.digest):
            return ""
        known = self._approvals.knows_tool(server.name, offered.name)
        change = "has changed" if known else "is new"
        what = f"{offered.name} of the MCP server {server.name} {change} since the server was approved."
        return f"{what} {_way(server.name)}"

    def _ask(self, ctx: ToolContext, form: str) -> None:
        """A person is about to be shown this call of a tool in this form."""
        if len(self._asked) >= _MOST_ASKED:
            self._asked.pop(next(iter(self._asked)))
        self._asked[(ctx.task, ctx.call.id, form)] = None

    def _pass(self, ctx: ToolContext, form: str, doubt: str) -> None:
        """Go on, if there is no doubt or a person was asked; an answer counts for one call."""
        key = (ctx.task, ctx.call.id, form)
        asked = key in self._asked
        self._asked.pop(key, None)
        if doubt and not asked:
            raise ToolError(doubt)

    def _note(self, server: McpServer, offered: OfferedTool) -> None:
        digest = server.definition.digest
        if not self._approvals.knows(server.name):
            whole = {each.name: each.digest for each in server.listing.tools}
            self._approvals.add(server.name, digest, {**whole, offered.name: offered.digest})
        elif self._doubt(server, offered):
            self._approvals.add(server.name, digest, {offered.name: offered.digest})


def _way(server: str) -> str:
    command = approval_command(server)
    return f"A person has to approve it, when asked or with `{command}`; no rule or mode is enough."
