"""MCP servers as tests use them: in this process on a scripted model, or as a program of their own."""

import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.client.stdio import StdioServerParameters
from mcp.server.lowlevel.server import Server

from gencode.app import GenCode
from gencode.interfaces.mcp_server.elicitation import ClientAsker
from gencode.interfaces.mcp_server.server import RequestHandlers
from gencode.interfaces.mcp_server.workspaces import ClientWorkspaces
from gencode.providers.scripted import ScriptedProvider
from gencode.testing import Turns, call, reported, says
from mcp import Client

MODERN = "2026-07-28"
ERAS = ("legacy", MODERN)
WRITES = [says("", call("Write", file_path="made.txt", content="made\n")), says("Done.")]


class Office:
    """One server in this process, and the rooms behind it."""

    def __init__(self, rooms: ClientWorkspaces) -> None:
        self.rooms = rooms
        self.server: Server[Any] = RequestHandlers(rooms, alone=True).server()

    def client(self, mode: str = "legacy", **more: Any) -> Client:
        """A client of the SDK that talks to it."""
        return Client(self.server, mode=mode, **more)


@asynccontextmanager
async def office(
    folder: Path, agents: Mapping[str, Turns], flags: Mapping[str, Any] | None = None
) -> AsyncGenerator[Office, None]:
    """A server for a folder whose agents play a script."""

    def opening(where: Path, settings: Mapping[str, Any]) -> AbstractAsyncContextManager[GenCode]:
        return GenCode.open(where, model=ScriptedProvider.of(agents), settings=settings, asker=ClientAsker())

    rooms = ClientWorkspaces(folder, flags or {}, opening)
    await rooms.open()
    try:
        yield Office(rooms)
    finally:
        await rooms.close()


def program(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> StdioServerParameters:
    """`gen mcp` as a client starts it."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "gencode", "mcp", *words],
        cwd=folder,
        env={"PYTHONWARNINGS": "error", **os.environ, **(env or {})},
    )


def report(result: types.CallToolResult) -> str:
    """What the agent said whose report a result is."""
    return reported(text(result))


def text(result: types.CallToolResult) -> str:
    """All that a tool answered."""
    return "\n".join(each.text for each in result.content if isinstance(each, types.TextContent))


def task_of(result: types.CallToolResult) -> str:
    """The id of the task that an answer speaks of."""
    return str((result.meta or {})["gencode/taskId"])


def names(found: Sequence[types.Tool] | Sequence[types.Prompt]) -> list[str]:
    return [each.name for each in found]
