"""The MCP server: handles the requests of clients, each in the workspace that the client's roots select."""

import asyncio
import functools
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from gencode import __version__
from gencode.app import GenCode
from gencode.core.errors import GenCodeError
from gencode.interfaces.log_file import logged_fault
from gencode.interfaces.mcp_server import catalogue
from gencode.interfaces.mcp_server.elicitation import DirectElicitor, Elicitor, RoundElicitor, can_elicit
from gencode.interfaces.mcp_server.tool_handlers import (
    AwaitedTasks,
    InputRequired,
    RequestContext,
    ToolHandlers,
    ToolReply,
)
from gencode.interfaces.mcp_server.workspaces import ClientWorkspaces, working_folder

log = logging.getLogger(__name__)

Params = TypeVar("Params")
Answer = TypeVar("Answer")

Responses = Mapping[str, types.InputResponse]

ROOTS = "roots"
ROOTS_SECONDS = 30.0
ROOTS_SECONDS_OF_LISTS = 3.0
"""Clients list tools when they start, and the tools are the same in every folder."""
MOST_CALLS = 1000
"""Concurrent calls; more are refused before anything starts."""
MOST_CLIENTS = 1000
SESSION = "mcp-session-id"
NO_ROOTS = "The client did not return its roots: {}"


def protocol_errors(
    handler: Callable[["RequestHandlers", RequestContext, Params], Awaitable[Answer]],
) -> Callable[["RequestHandlers", RequestContext, Params], Awaitable[Answer]]:
    """Let a handler answer a bug with an error of the protocol; it is logged with its traceback."""

    @functools.wraps(handler)
    async def answer(handlers: "RequestHandlers", ctx: RequestContext, params: Params) -> Answer:
        try:
            return await handler(handlers, ctx, params)
        except MCPError:
            raise
        except Exception as bug:  # noqa: BLE001 (`logged_fault` logs it)
            raise MCPError(types.INTERNAL_ERROR, logged_fault(bug)) from None

    return answer


class ClientState:
    """The roots of one client, once it has returned them, and a lock for questions to its user."""

    def __init__(self) -> None:
        self.roots: tuple[str, ...] | None = None
        self.silent = False
        """Whether it did not return its roots in time when a list needed them."""
        self.getting_roots = asyncio.Lock()
        self.asking = asyncio.Lock()


class RequestHandlers:
    """Answers every request. With `alone` there is only one client."""

    def __init__(self, workspaces: ClientWorkspaces, *, alone: bool) -> None:
        self._workspaces = workspaces
        self._alone = alone
        self._clients: OrderedDict[str, ClientState] = OrderedDict()
        self._awaited = AwaitedTasks()
        self._calls = 0

    def server(self) -> Server[Any]:
        """The SDK's server with our answers."""
        server: Server[Any] = Server(
            "gencode",
            version=__version__,
            title="GenCode",
            instructions=catalogue.INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        changed = "notifications/roots/list_changed"
        server.add_notification_handler(changed, types.NotificationParams, self._roots_changed)
        return server

    @protocol_errors
    async def _list_tools(
        self, ctx: RequestContext, _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=catalogue.tools(await self._workspace_or_base(ctx)))

    @protocol_errors
    async def _list_prompts(
        self, ctx: RequestContext, _: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=catalogue.prompts(await self._workspace_or_base(ctx)))

    @protocol_errors
    async def _get_prompt(
        self, ctx: RequestContext, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        try:
            gen = await self._workspace(ctx, params.input_responses)
        except InputRequired as more:
            return _input_required(more)
        return catalogue.agent_prompt(gen, params.name, params.arguments or {})

    @protocol_errors
    async def _list_resources(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        try:
            gen = await self._workspace(ctx, None, listing=True)
        except InputRequired:  # a list cannot ask for input, and the client's folder is not known yet
            return types.ListResourcesResult(resources=[])
        return await catalogue.list_resources(gen, params.cursor if params else None)

    @protocol_errors
    async def _list_templates(
        self, _: RequestContext, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=catalogue.resource_templates())

    @protocol_errors
    async def _read_resource(
        self, ctx: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        try:
            gen = await self._workspace(ctx, params.input_responses)
        except InputRequired as more:
            return _input_required(more)
        return await catalogue.read_resource(gen, params.uri)

    @protocol_errors
    async def _call_tool(
        self, ctx: RequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        catalogue.check_tool_name(params.name)
        if self._calls >= MOST_CALLS:
            busy = f"The server is busy with {MOST_CALLS:,} calls. Try again later."
            return ToolReply(busy, error=True).result()
        self._calls += 1
        try:
            return (await self._called(ctx, params)).result()
        except InputRequired as more:
            return _input_required(more)
        except GenCodeError as mistake:
            return ToolReply(str(mistake), error=True).result()
        finally:
            self._calls -= 1

    async def _called(self, ctx: RequestContext, params: types.CallToolRequestParams) -> ToolReply:
        if params.request_state:
            awaited = self._awaited.take(params.request_state)
            if awaited.rounds is not None:
                awaited.rounds.answer(params.input_responses or {})
            return await ToolHandlers(awaited.gen, ctx, self._awaited).resume(awaited)
        gen = await self._workspace(ctx, params.input_responses)
        arguments = params.arguments or {}
        elicitor = self._elicitor(ctx, background=bool(arguments.get("run_in_background")))
        return await ToolHandlers(gen, ctx, self._awaited).call(params.name, arguments, elicitor)

    def _elicitor(self, ctx: RequestContext, *, background: bool) -> Elicitor | None:
        """How the agents of a call ask the user of its client; None where that is not possible."""
        if not can_elicit(ctx.session.client_capabilities):
            return None
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return None if background else RoundElicitor()
        return DirectElicitor(ctx.session, None if background else ctx.request_id, self._client(ctx).asking)

    async def _workspace_or_base(self, ctx: RequestContext) -> GenCode:
        """The workspace of a client, or the server's if its roots are unknown: for lists of agents."""
        try:
            return await self._workspace(ctx, None, listing=True)
        except InputRequired:
            return await self._workspaces.at(self._workspaces.base)
        except GenCodeError as mistake:
            raise MCPError(types.INVALID_PARAMS, str(mistake)) from None

    async def _workspace(
        self,
        ctx: RequestContext,
        responses: Responses | None,
        *,
        listing: bool = False,
    ) -> GenCode:
        return await self._workspaces.at(
            working_folder(self._workspaces.base, await self._roots(ctx, responses, listing=listing))
        )

    async def _roots(
        self, ctx: RequestContext, responses: Responses | None, *, listing: bool
    ) -> tuple[str, ...]:
        """The roots of a client; none if it supports roots but does not return them in time.

        A list waits for them only once and briefly, since it is the same without. A request that needs the
        folder asks again, and then goes on without roots: the folder of the server is the limit anyway.
        """
        able = ctx.session.client_capabilities
        if able is None or able.roots is None:
            return ()
        client = self._client(ctx)
        async with client.getting_roots:
            if client.roots is None and not (listing and client.silent):
                seconds = ROOTS_SECONDS_OF_LISTS if listing else ROOTS_SECONDS
                try:
                    client.roots = await self._request_roots(ctx, responses or {}, seconds)
                except TimeoutError:
                    log.warning("a client supports roots, and did not return them within %g s", seconds)
                    client.silent = True
                    client.roots = None if listing else ()
            return client.roots or ()

    async def _request_roots(
        self, ctx: RequestContext, responses: Responses, seconds: float
    ) -> tuple[str, ...]:
        found: object = responses.get(ROOTS)
        if not isinstance(found, types.ListRootsResult):
            if not ctx.session.can_send_request:
                raise InputRequired({ROOTS: types.ListRootsRequest()})
            here = ServerMessageMetadata(related_request_id=ctx.request_id)
            request = types.ListRootsRequest()
            try:
                found = await ctx.session.send_request(request, types.ListRootsResult, seconds, here)
            except MCPError as trouble:
                if trouble.code == types.REQUEST_TIMEOUT:
                    raise TimeoutError from None
                raise MCPError(types.INVALID_PARAMS, NO_ROOTS.format(trouble.message)) from None
            except ValidationError:
                why = NO_ROOTS.format("they are not file:// URIs")
                raise MCPError(types.INVALID_PARAMS, why) from None
        return tuple(str(root.uri) for root in found.roots)

    @protocol_errors
    async def _roots_changed(self, ctx: RequestContext, _: types.NotificationParams) -> None:
        client = self._client(ctx)
        client.roots, client.silent = None, False

    def _client(self, ctx: RequestContext) -> ClientState:
        """The state of the client of a request; without a session, a new one for this request only."""
        key = "" if self._alone else _session(ctx)
        if not key and not self._alone:
            return ClientState()
        client = self._clients.setdefault(key, ClientState())
        self._clients.move_to_end(key)
        if len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)
        return client


def _session(ctx: RequestContext) -> str:
    headers: Mapping[str, str] = getattr(ctx.request, "headers", {})
    return headers.get(SESSION, "")


def _input_required(more: InputRequired) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=more.requests, request_state=more.state)
