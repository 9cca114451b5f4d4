"""What an editor may ask for, method by method (surfaces, ACP)."""

import argparse
import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from acp.exceptions import RequestError
from acp.interfaces import Client
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
from gencode.core.visible import visible, visible_line
from gencode.interfaces.acp.editor import Editor
from gencode.interfaces.acp.editor_session import Conversation, SessionMissing, Wish
from gencode.interfaces.acp.json_lines import INTERNAL_ERROR, NOT_FOUND, Message
from gencode.interfaces.acp.prompts import Block
from gencode.interfaces.acp.session_addresses import Addresses
from gencode.interfaces.acp.session_options import MODE, MODEL
from gencode.interfaces.cli.open_session import flags
from gencode.interfaces.log_file import logged_fault
from gencode.journal.store import TaskQuery
from gencode.places import workspace_at
from gencode.settings import gen_home

INVALID_PARAMS = -32_602
PAGE = 50
MOST_SESSIONS = 64
Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Server = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio
"""An MCP server as the protocol writes it."""


def asked(method: Callable[Given, Awaitable[Answer]]) -> Callable[Given, Awaitable[Answer]]:
    """A method whose sentences about what went wrong reach the editor as errors of the protocol."""

    @functools.wraps(method)
    async def answered(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        try:
            return await method(*args, **kwargs)
        except SessionMissing as missing:
            raise RequestError(NOT_FOUND, visible(str(missing))) from None
        except UserMistake as mistake:
            raise RequestError(INVALID_PARAMS, visible(str(mistake))) from None
        except GenCodeError as trouble:
            raise RequestError(INTERNAL_ERROR, visible(str(trouble))) from None
        except RequestError:
            raise
        except Exception as bug:  # noqa: BLE001 (the border of a message; `logged_fault` logs it)
            raise RequestError(INTERNAL_ERROR, logged_fault(bug)) from None

    return answered


class EditorAgent:
    """Answers one editor. `args` are the options `gen acp` was started with."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._editor = Editor()
        self._sessions: dict[str, Conversation] = {}
        self._opening = asyncio.Lock()

    def on_connect(self, conn: Client) -> None:
        """The editor can be spoken to from now on."""
        self._editor.connect(conn)

    def sent(self, message: Message) -> None:
        """A message was written: an editor knows a new session once it has the answer with its name."""
        result = message.get("result")
        name = cast("Message", result).get("sessionId") if isinstance(result, dict) else None
        if name in self._sessions:
            self._sessions[name].out.release()

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **_: Any,
    ) -> InitializeResponse:
        """What we speak and can do."""
        self._editor.introduce(client_capabilities)
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

    @asked
    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse | None:
        """Nobody has to: the models' keys are in the environment or the settings."""
        raise UserMistake("There is nothing to log in to here; set up a model instead: gen doctor.")

    @asked
    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Server] | None = None,
        **_: Any,
    ) -> NewSessionResponse:
        """A session in a folder, with nothing said yet."""
        name = new_id()
        made = await self._opened(name, self._wish(cwd, additional_directories, mcp_servers), held=True)
        made.begin()
        made.greet()
        return NewSessionResponse(session_id=name, modes=made.modes, config_options=list(made.options))

    @asked
    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[Server] | None = None,
        additional_directories: list[str] | None = None,
        **_: Any,
    ) -> LoadSessionResponse:
        """An earlier session; all that was said in it is told first."""
        wish = self._wish(cwd, additional_directories, mcp_servers)
        made = await self._again(session_id, wish, retold=True)
        return LoadSessionResponse(modes=made.modes, config_options=list(made.options))

    @asked
    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Server] | None = None,
        **_: Any,
    ) -> ResumeSessionResponse:
        """An earlier session, for an editor that knows what was said in it."""
        wish = self._wish(cwd, additional_directories, mcp_servers)
        made = await self._again(session_id, wish, retold=False)
        return ResumeSessionResponse(modes=made.modes, config_options=list(made.options))

    @asked
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> ListSessionsResponse:
        """The conversations there are, of one folder or of all, the latest first."""
        if cursor and not cursor.isdecimal():
            raise UserMistake("The cursor is none that was given here.")
        query = TaskQuery(cwd=str(workspace_at(Path(cwd)).cwd) if cwd else None, conversations=True)
        found = sorted(await self._tasks(query), key=lambda task: task.touched_at, reverse=True)
        begin = int(cursor[:9]) if cursor else 0
        following = str(begin + PAGE) if len(found) > begin + PAGE else None
        shown = found[begin : begin + PAGE]
        folders = {task.cwd: Addresses(gen_home(), Path(task.cwd)) for task in shown}
        listed = [_info(task, folders[task.cwd].name(task.id)) for task in shown]
        return ListSessionsResponse(sessions=listed, next_cursor=following)

    @asked
    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse | None:
        """End a session; it can be loaded again."""
        session = self._find(session_id)
        del self._sessions[session_id]
        await session.close()
        return CloseSessionResponse()

    @asked
    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> SetSessionModeResponse | None:
        """Go on in another permission mode."""
        self._find(session_id).switch(mode_id)
        return SetSessionModeResponse()

    @asked
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse | None:
        """Choose a mode or a model."""
        session = self._find(session_id)
        if config_id == MODE and isinstance(value, str):
            session.switch(value)
        elif config_id == MODEL and isinstance(value, str):
            session.use(value)
        else:
            raise UserMistake(f"There is no option {config_id[:80]!r} here; there are {MODE} and {MODEL}.")
        return SetSessionConfigOptionResponse(config_options=list(session.options))

    @asked
    async def prompt(self, session_id: str, prompt: list[Block], **_: Any) -> PromptResponse:
        """Say something, and wait for the answer."""
        return await self._find(session_id).prompt(prompt)

    @asked
    async def cancel(self, session_id: str, **_: Any) -> None:
        """Cut what a session does now."""
        await self._find(session_id).cancel()

    async def close(self) -> None:
        """End every session; nothing that was said is lost."""
        open_ones = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*(session.close() for session in open_ones))

    def _find(self, name: str) -> Conversation:
        if name not in self._sessions:
            raise SessionMissing(f"No session {visible_line(name, 80)!r} is open; create or load it first.")
        return self._sessions[name]

    async def _opened(self, name: str, wish: Wish, *, held: bool) -> Conversation:
        if len(self._sessions) >= MOST_SESSIONS:
            raise UserMistake(f"{MOST_SESSIONS} sessions are open; close one first.")
        session = Conversation(name, wish, self._editor, held=held)
        await session.start()
        self._sessions[name] = session
        return session

    async def _again(self, name: str, wish: Wish, *, retold: bool) -> Conversation:
        """An earlier session; one that is open stays open."""
        async with self._opening:
            if name in self._sessions:
                session = self._sessions[name]
                if retold:
                    await session.retell()
                return session
            session = await self._opened(name, wish, held=False)
            try:
                await session.open(name, retold=retold)
                session.greet()
            except GenCodeError:
                del self._sessions[name]
                await session.close()
                raise
            return session

    async def _tasks(self, query: TaskQuery) -> Sequence[Task]:
        for session in self._sessions.values():
            return await session.gen.store.tasks(query)
        async with GenCode.open(query.cwd or Path.home(), settings=flags(self._args)) as gen:
            return await gen.store.tasks(query)

    def _wish(self, cwd: str, more: Sequence[str] | None, servers: Sequence[Server] | None) -> Wish:
        folder = Path(cwd)
        if not folder.is_absolute():
            raise UserMistake(f"{visible_line(cwd, 200)!r} is no absolute path; name the folder in full.")
        notes: list[str] = []
        if more:
            named = ", ".join(visible_line(each, 200) for each in more[:20])
            notes.append(
                f"Further folders are not part of the workspace, so reading there is asked about: {named}"
            )
        tables: dict[str, Any] = {}
        for server in servers or ():
            if not server.name.strip():
                raise UserMistake("One of the MCP servers has no name; its field name has to say one.")
            table = _table(server)
            if table is None:
                name = visible_line(server.name, 80)
                notes.append(f"The MCP server {name} is left out: only stdio and http are spoken here.")
            else:
                tables[server.name] = table
        return Wish(folder, self._args, tables, notes)


def _table(server: Server) -> dict[str, Any] | None:
    """A server as settings write it; None for a kind that is not spoken here."""
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
