"""The ACP agent: the methods that an editor may call, served over stdin and stdout."""

import argparse
import asyncio
import functools
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from acp.agent.connection import AgentSideConnection
from acp.exceptions import RequestError
from acp.interfaces import Agent, Client
from acp.meta import PROTOCOL_VERSION
from acp.schema import (
    AcpMcpServer,
    AgentCapabilities,
    AuthenticateResponse,
    ClientCapabilities,
    CloseSessionResponse,
    HttpMcpServer,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    McpServerStdio,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    SseMcpServer,
)

from gencode import __version__
from gencode.app import GenCode
from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.ids import new_id
from gencode.core.task import Task
from gencode.core.text import visible, visible_line
from gencode.interfaces.acp.editor_client import EditorClient
from gencode.interfaces.acp.editor_session import (
    MODE,
    MODEL,
    EditorSession,
    SessionNames,
    SessionRequest,
    UnknownSession,
)
from gencode.interfaces.acp.prompts import Block
from gencode.interfaces.acp.stdio_transport import (
    INTERNAL_ERROR,
    NOT_FOUND,
    JsonLineTransport,
    Message,
)
from gencode.interfaces.cli.open_session import flags
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.json_rpc import take_stdio
from gencode.interfaces.log_file import logged_fault
from gencode.journal.store import TaskQuery
from gencode.places import workspace_at
from gencode.settings import gen_home

INVALID_PARAMS = -32_602
PAGE = 50
MOST_SESSIONS = 64
Params = ParamSpec("Params")
Result = TypeVar("Result")
Server = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio
"""An MCP server as the protocol writes it."""


def protocol_errors(method: Callable[Params, Awaitable[Result]]) -> Callable[Params, Awaitable[Result]]:
    """Let a method answer mistakes, errors and bugs as errors of the protocol; bugs are logged."""

    @functools.wraps(method)
    async def answered(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        try:
            return await method(*args, **kwargs)
        except UnknownSession as missing:
            raise RequestError(NOT_FOUND, visible(str(missing))) from None
        except UserMistake as mistake:
            raise RequestError(INVALID_PARAMS, visible(str(mistake))) from None
        except GenCodeError as trouble:
            raise RequestError(INTERNAL_ERROR, visible(str(trouble))) from None
        except RequestError:
            raise
        except Exception as bug:  # noqa: BLE001 (a request of the editor; `logged_fault` logs the bug)
            raise RequestError(INTERNAL_ERROR, logged_fault(bug)) from None

    return answered


class AcpAgent:
    """Serves one editor. `args` are the options of `gen acp`."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._editor = EditorClient()
        self._sessions: dict[str, EditorSession] = {}
        self._opening = asyncio.Lock()

    def on_connect(self, conn: Client) -> None:
        """Keep the connection to the editor."""
        self._editor.connect(conn)

    def message_sent(self, message: Message) -> None:
        """Release the updates of a session once the editor has the response with its id."""
        result = message.get("result")
        session_id = cast("Message", result).get("sessionId") if isinstance(result, dict) else None
        if session_id in self._sessions:
            self._sessions[session_id].out.release()

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **_: Any,
    ) -> InitializeResponse:
        """Agree on a protocol version, and say what this agent supports."""
        self._editor.set_capabilities(client_capabilities)
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION) or PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True, sse=False),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[],
            agent_info=Implementation(name="gencode", title="GenCode", version=__version__),
        )

    @protocol_errors
    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse | None:
        """Refused: the models' keys are in the environment or the settings."""
        raise UserMistake("GenCode needs no login. To set up a model, run: gen doctor")

    @protocol_errors
    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Server] | None = None,
        **_: Any,
    ) -> NewSessionResponse:
        """A new session in a folder."""
        session_id = new_id()
        request = self._request(cwd, additional_directories, mcp_servers)
        session = await self._open(session_id, request, held=True)
        session.reserve_id()
        session.send_commands()
        return NewSessionResponse(
            session_id=session_id, modes=session.modes, config_options=list(session.options)
        )

    @protocol_errors
    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[Server] | None = None,
        additional_directories: list[str] | None = None,
        **_: Any,
    ) -> LoadSessionResponse:
        """An earlier session; its conversation is sent first."""
        request = self._request(cwd, additional_directories, mcp_servers)
        session = await self._reopen(session_id, request, replayed=True)
        return LoadSessionResponse(modes=session.modes, config_options=list(session.options))

    @protocol_errors
    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Server] | None = None,
        **_: Any,
    ) -> ResumeSessionResponse:
        """An earlier session, for an editor that still has its conversation."""
        request = self._request(cwd, additional_directories, mcp_servers)
        session = await self._reopen(session_id, request, replayed=False)
        return ResumeSessionResponse(modes=session.modes, config_options=list(session.options))

    @protocol_errors
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> ListSessionsResponse:
        """The conversations of one folder or of all, the latest first."""
        if cursor and not cursor.isdecimal():
            raise UserMistake(f"The cursor {visible_line(cursor, 40)!r} is not valid; list from the start.")
        query = TaskQuery(cwd=str(workspace_at(Path(cwd)).cwd) if cwd else None, conversations=True)
        found = sorted(await self._tasks(query), key=lambda task: task.touched_at, reverse=True)
        begin = int(cursor[:9]) if cursor else 0
        following = str(begin + PAGE) if len(found) > begin + PAGE else None
        shown = found[begin : begin + PAGE]
        folders = {task.cwd: SessionNames(gen_home(), Path(task.cwd)) for task in shown}
        listed = [_info(task, folders[task.cwd].name(task.id)) for task in shown]
        return ListSessionsResponse(sessions=listed, next_cursor=following)

    @protocol_errors
    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse | None:
        """Close a session; it can be loaded again."""
        session = self._find(session_id)
        del self._sessions[session_id]
        await session.close()
        return CloseSessionResponse()

    @protocol_errors
    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> SetSessionModeResponse | None:
        """Change the permission mode."""
        self._find(session_id).switch(mode_id)
        return SetSessionModeResponse()

    @protocol_errors
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse | None:
        """Change the permission mode or the model."""
        session = self._find(session_id)
        if config_id == MODE and isinstance(value, str):
            session.switch(value)
        elif config_id == MODEL and isinstance(value, str):
            session.use(value)
        else:
            raise UserMistake(f"Unknown option {config_id[:80]!r}; the options are {MODE} and {MODEL}.")
        return SetSessionConfigOptionResponse(config_options=list(session.options))

    @protocol_errors
    async def prompt(self, session_id: str, prompt: list[Block], **_: Any) -> PromptResponse:
        """Send a prompt, and wait for the answer."""
        return await self._find(session_id).prompt(prompt)

    @protocol_errors
    async def cancel(self, session_id: str, **_: Any) -> None:
        """Interrupt the current turn of a session."""
        await self._find(session_id).cancel()

    async def close(self) -> None:
        """Close every session; the conversations are kept."""
        open_ones = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*(session.close() for session in open_ones))

    def _find(self, session_id: str) -> EditorSession:
        if session_id not in self._sessions:
            named = visible_line(session_id, 80)
            raise UnknownSession(f"No session {named!r} is open; create or load it first.")
        return self._sessions[session_id]

    async def _open(self, session_id: str, request: SessionRequest, *, held: bool) -> EditorSession:
        if len(self._sessions) >= MOST_SESSIONS:
            raise UserMistake(f"{MOST_SESSIONS} sessions are open; close one first.")
        session = EditorSession(session_id, request, self._editor, held=held)
        await session.start()
        self._sessions[session_id] = session
        return session

    async def _reopen(self, session_id: str, request: SessionRequest, *, replayed: bool) -> EditorSession:
        """An earlier session; one that is open stays open."""
        async with self._opening:
            if session_id in self._sessions:
                session = self._sessions[session_id]
                if replayed:
                    await session.replay()
                return session
            session = await self._open(session_id, request, held=False)
            try:
                await session.open(session_id, replayed=replayed)
                session.send_commands()
            except GenCodeError:
                del self._sessions[session_id]
                await session.close()
                raise
            return session

    async def _tasks(self, query: TaskQuery) -> Sequence[Task]:
        for session in self._sessions.values():
            return await session.gen.history.tasks(query)
        async with GenCode.open(query.cwd or Path.home(), settings=flags(self._args)) as gen:
            return await gen.history.tasks(query)

    def _request(
        self, cwd: str, more: Sequence[str] | None, servers: Sequence[Server] | None
    ) -> SessionRequest:
        folder = Path(cwd)
        if not folder.is_absolute():
            raise UserMistake(f"{visible_line(cwd, 200)!r} is not an absolute path.")
        notes: list[str] = []
        if more:
            named = ", ".join(visible_line(each, 200) for each in more[:20])
            notes.append(f"These folders are outside of the workspace, so reading needs approval: {named}")
        tables: dict[str, Any] = {}
        for server in servers or ():
            if not server.name.strip():
                raise UserMistake("One of the MCP servers has no name; set its field name.")
            table = _table(server)
            if table is None:
                name = visible_line(server.name, 80)
                notes.append(f"MCP server {name} was left out: only stdio and http are supported.")
            else:
                tables[server.name] = table
        return SessionRequest(folder, self._args, tables, notes)


def _table(server: Server) -> dict[str, Any] | None:
    """A server as settings write it; None for an unsupported transport."""
    match server:
        case McpServerStdio():
            env = {each.name: each.value for each in server.env}
            return {"command": server.command, "args": list(server.args), "env": env}
        case HttpMcpServer():
            headers = {each.name: each.value for each in server.headers}
            return {"url": server.url, "headers": headers}
        case _:
            return None


def _info(task: Task, name: str) -> SessionInfo:
    title = visible_line(task.created.description or task.created.prompt, 80)
    return SessionInfo(session_id=name, cwd=task.cwd, title=title, updated_at=task.touched_at)


SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run(args: argparse.Namespace) -> int:
    """Serve the editor that has started this process, until it disconnects or a signal; the exit code."""
    handles = take_stdio()
    return run_to_end(_serve(args, *handles))


async def _serve(args: argparse.Namespace, incoming: int, outgoing: int) -> int:
    agent = AcpAgent(args)
    transport = JsonLineTransport(incoming, outgoing, agent.message_sent)
    received: list[int] = []

    def end(number: int) -> None:
        received.append(number)
        transport.end()

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, end, number)
    # The library answers the methods of the protocol that this agent lacks.
    connection = AgentSideConnection(
        cast("Agent", agent), transport, listening=False, use_unstable_protocol=True
    )
    try:
        await connection.listen()
    finally:
        await agent.close()
        await connection.close()
    return 128 + received[0] if received else 0
