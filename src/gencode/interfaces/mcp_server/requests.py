"""The reception: what clients ask for goes to the room of their folder, and comes back as MCP says it."""

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
from gencode.interfaces.mcp_server.elicitation import AtOnce, InRounds, Line, can_elicit
from gencode.interfaces.mcp_server.pending_calls import Errands, MoreNeeded
from gencode.interfaces.mcp_server.roots import bounded
from gencode.interfaces.mcp_server.tool_handlers import Requested, Said, Verbs
from gencode.interfaces.mcp_server.workspaces import Rooms

log = logging.getLogger(__name__)

Params = TypeVar("Params")
Answer = TypeVar("Answer")

ROOTS = "roots"
ROOTS_SECONDS = 30.0
ROOTS_SECONDS_OF_LISTS = 3.0
"""Lists are wanted when a client starts, and name the same tools in every folder."""
MOST_CALLS = 1000
"""Calls at once; more are refused before anything starts."""
MOST_CLIENTS = 1000
SESSION = "mcp-session-id"
NO_ROOTS = "The client says that it has roots and did not tell them: {}"


def answered(
    handler: Callable[["Reception", Requested, Params], Awaitable[Answer]],
) -> Callable[["Reception", Requested, Params], Awaitable[Answer]]:
    """The border of a client's request: a bug is logged, and is one line of the protocol's error."""

    @functools.wraps(handler)
    async def answer(reception: "Reception", ctx: Requested, params: Params) -> Answer:
        try:
            return await handler(reception, ctx, params)
        except MCPError:
            raise
        except Exception as bug:  # noqa: BLE001 (`logged_fault` logs it)
            raise MCPError(types.INTERNAL_ERROR, logged_fault(bug)) from None

    return answer


class Client:
    """What is remembered of one client: its roots, once it told them, and whose turn it is to be asked."""

    def __init__(self) -> None:
        self.roots: tuple[str, ...] | None = None
        self.silent = False
        """Whether it was asked for its roots by a list, and did not answer in time."""
        self.telling = asyncio.Lock()
        self.turn = asyncio.Lock()


class Reception:
    """Answers every request. With `alone` there is one client for all of its life."""

    def __init__(self, rooms: Rooms, *, alone: bool) -> None:
        self._rooms = rooms
        self._alone = alone
        self._clients: OrderedDict[str, Client] = OrderedDict()
        self._errands = Errands()
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

    @answered
    async def _list_tools(
        self, ctx: Requested, _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=catalogue.tools(await self._room_or_base(ctx)))

    @answered
    async def _list_prompts(
        self, ctx: Requested, _: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=catalogue.prompts(await self._room_or_base(ctx)))

    @answered
    async def _get_prompt(
        self, ctx: Requested, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        try:
            gen = await self._room(ctx, params.input_responses)
        except MoreNeeded as more:
            return _asked_back(more)
        return catalogue.prompt(gen, params.name, params.arguments or {})

    @answered
    async def _list_resources(
        self, ctx: Requested, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        try:
            gen = await self._room(ctx, None, listing=True)
        except MoreNeeded:  # a list cannot ask back, and whose tasks to show is not known yet
            return types.ListResourcesResult(resources=[])
        return await catalogue.resources(gen, params.cursor if params else None)

    @answered
    async def _list_templates(
        self, _: Requested, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=catalogue.templates())

    @answered
    async def _read_resource(
        self, ctx: Requested, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        try:
            gen = await self._room(ctx, params.input_responses)
        except MoreNeeded as more:
            return _asked_back(more)
        return await catalogue.resource(gen, params.uri)

    @answered
    async def _call_tool(
        self, ctx: Requested, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        catalogue.check_name(params.name)
        if self._calls >= MOST_CALLS:
            return Said(f"{MOST_CALLS} calls are being answered; try again later.", error=True).result()
        self._calls += 1
        try:
            return (await self._called(ctx, params)).result()
        except MoreNeeded as more:
            return _asked_back(more)
        except GenCodeError as mistake:
            return Said(str(mistake), error=True).result()
        finally:
            self._calls -= 1

    async def _called(self, ctx: Requested, params: types.CallToolRequestParams) -> Said:
        if params.request_state:
            errand = self._errands.take(params.request_state)
            if errand.rounds is not None:
                errand.rounds.answer(params.input_responses or {})
            return await Verbs(errand.gen, ctx, self._errands).go_on(errand)
        gen = await self._room(ctx, params.input_responses)
        arguments = params.arguments or {}
        line = self._line(ctx, background=bool(arguments.get("run_in_background")))
        return await Verbs(gen, ctx, self._errands).call(params.name, arguments, line)

    def _line(self, ctx: Requested, *, background: bool) -> Line | None:
        """How the agents of a call reach the person at its client; None where there is no way."""
        if not can_elicit(ctx.session.client_capabilities):
            return None
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return None if background else InRounds()
        return AtOnce(ctx.session, None if background else ctx.request_id, self._client(ctx).turn)

    async def _room_or_base(self, ctx: Requested) -> GenCode:
        """The room of a client, or the server's while its folder is not known: for names of agents only."""
        try:
            return await self._room(ctx, None, listing=True)
        except MoreNeeded:
            return await self._rooms.at(self._rooms.base)
        except GenCodeError as mistake:
            raise MCPError(types.INVALID_PARAMS, str(mistake)) from None

    async def _room(
        self, ctx: Requested, told: Mapping[str, types.InputResponse] | None, *, listing: bool = False
    ) -> GenCode:
        return await self._rooms.at(bounded(self._rooms.base, await self._roots(ctx, told, listing=listing)))

    async def _roots(
        self, ctx: Requested, told: Mapping[str, types.InputResponse] | None, *, listing: bool
    ) -> tuple[str, ...]:
        """The roots of a client; none for one that says it has some and does not tell them in time.

        A list waits for them only once and not for long: it is all the same without. Whatever works in a
        folder asks again, and then takes the silence for an answer: the server's folder bounds it anyway.
        """
        able = ctx.session.client_capabilities
        if able is None or able.roots is None:
            return ()
        client = self._client(ctx)
        async with client.telling:
            if client.roots is None and not (listing and client.silent):
                seconds = ROOTS_SECONDS_OF_LISTS if listing else ROOTS_SECONDS
                try:
                    client.roots = await self._asked_for_roots(ctx, told or {}, seconds)
                except TimeoutError:
                    log.warning("a client says that it has roots, and did not tell them in %g s", seconds)
                    client.silent = True
                    client.roots = None if listing else ()
            return client.roots or ()

    async def _asked_for_roots(
        self, ctx: Requested, told: Mapping[str, types.InputResponse], seconds: float
    ) -> tuple[str, ...]:
        found: object = told.get(ROOTS)
        if not isinstance(found, types.ListRootsResult):
            if not ctx.session.can_send_request:
                raise MoreNeeded({ROOTS: types.ListRootsRequest()})
            here = ServerMessageMetadata(related_request_id=ctx.request_id)
            wish = types.ListRootsRequest()
            try:
                found = await ctx.session.send_request(wish, types.ListRootsResult, seconds, here)
            except MCPError as trouble:
                if trouble.code == types.REQUEST_TIMEOUT:
                    raise TimeoutError from None
                raise MCPError(types.INVALID_PARAMS, NO_ROOTS.format(trouble.message)) from None
            except ValidationError:
                raise MCPError(types.INVALID_PARAMS, NO_ROOTS.format("they are no file:// folders")) from None
        return tuple(str(root.uri) for root in found.roots)

    @answered
    async def _roots_changed(self, ctx: Requested, _: types.NotificationParams) -> None:
        client = self._client(ctx)
        client.roots, client.silent = None, False

    def _client(self, ctx: Requested) -> Client:
        """The client behind a request; where requests stand alone, one that is forgotten with this one."""
        key = "" if self._alone else _session(ctx)
        if not key and not self._alone:
            return Client()
        client = self._clients.setdefault(key, Client())
        self._clients.move_to_end(key)
        if len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)
        return client


def _session(ctx: Requested) -> str:
    headers: Mapping[str, str] = getattr(ctx.request, "headers", {})
    return headers.get(SESSION, "")


def _asked_back(more: MoreNeeded) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=more.requests, request_state=more.state)
