"""`gen mcp`: an MCP server with GenCode's agents for other assistants, over stdio or HTTP."""

import argparse
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.core.extras import installing
from gencode.interfaces.cli.open_session import check, flags
from gencode.interfaces.cli.parser import Commands, add, add_model, add_policy, port
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.plain_text import note
from gencode.places import workspace_at
from gencode.sandbox.processes.environment import INSIDE_MARK

if TYPE_CHECKING:
    from gencode.interfaces.http.listener import ListenOptions


BY_HAND = (
    "gen mcp waits for an MCP client on stdin. To add it to one: claude mcp add gencode -- gen mcp. "
    "Ctrl-D ends it."
)
OWN_SERVER = (
    "This gen mcp was started by GenCode itself. Remove it from the MCP servers that GenCode uses "
    "(.mcp.json, .gen/mcp.json, settings.toml, your editor's)."
)
ONLY_HTTP = {"port": "--port", "bind": "--bind", "allow_host": "--allow-host", "token_file": "--token-file"}


ABOUT = """\
It speaks MCP on stdin and stdout and is started by another assistant; its log is in ~/.gen/logs. It offers
the tools Task, TaskOutput, TaskStop, SendMessage and task_list, every agent as a prompt, and results and
transcripts as resources. It works in the current folder or in --cwd; the client's roots narrow that.
"""


def add_command(commands: Commands, does: str) -> None:
    """`gen mcp`."""
    parser = add(
        commands,
        "mcp",
        run,
        does,
        (
            "claude mcp add gencode -- gen mcp",
            'gen mcp --cwd ~/project --permission-mode acceptEdits --allow "Bash(npm test)"',
            "gen mcp --http --port 8765 --token-file ~/.gen/mcp-token",
        ),
        ABOUT,
    )
    group = parser.add_argument_group("over HTTP")
    group.add_argument(
        "--http", action="store_true", help="serve streamable HTTP instead of stdin and stdout"
    )
    group.add_argument("--port", type=port, metavar="N", help="listen on this port (default: any free one)")
    group.add_argument(
        "--bind", metavar="ADDRESS", help="listen on this address instead of 127.0.0.1; others can reach it"
    )
    group.add_argument(
        "--allow-host", action="append", metavar="NAME", help="also accept this host name; may be repeated"
    )
    group.add_argument("--token-file", metavar="FILE", help="keep the token in this file across restarts")
    add_model(parser)
    add_policy(parser)


def run(args: argparse.Namespace) -> int:
    """Serve one folder."""
    if not _is_there("mcp"):
        raise UserMistake(f"gen mcp needs the package mcp. Install it with: {installing('mcp')}")
    if os.environ.get(INSIDE_MARK):
        raise UserMistake(OWN_SERVER)
    if "http" in args:
        os.environ[INSIDE_MARK] = "1"
        return run_to_end(_serve(args, None, _wish(args)))
    if stray := [option for name, option in ONLY_HTTP.items() if name in args]:
        raise UserMistake(f"{stray[0]} needs --http, as in: gen mcp --http {stray[0]} …")
    if sys.stdin is not None and sys.stdin.isatty():
        note(BY_HAND)
    from gencode.interfaces.json_rpc import take_stdio

    os.environ[INSIDE_MARK] = "1"
    streams = take_stdio()
    try:
        return run_to_end(_serve(args, streams, None))
    finally:
        for handle in streams:
            os.close(handle)


async def _serve(
    args: argparse.Namespace, streams: tuple[int, int] | None, wish: "ListenOptions | None"
) -> int:
    from gencode.interfaces.mcp_server.elicitation import ClientAsker
    from gencode.interfaces.mcp_server.server import RequestHandlers
    from gencode.interfaces.mcp_server.stdio_transport import serve_stdio
    from gencode.interfaces.mcp_server.transport import Shutdown, signal_handlers
    from gencode.interfaces.mcp_server.workspaces import ClientWorkspaces

    def opening(folder: Path, settings: Mapping[str, Any]) -> AbstractAsyncContextManager[GenCode]:
        return GenCode.open(folder, settings=settings, asker=ClientAsker())

    workspaces = ClientWorkspaces(workspace_at(Path(getattr(args, "cwd", "."))).root, flags(args), opening)
    shutdown = Shutdown(workspaces)
    with signal_handlers(shutdown.on_signal):
        try:
            if warning := check(await workspaces.open(), args):
                note(warning)
            server = RequestHandlers(workspaces, alone=streams is not None).server()
            if streams is not None:
                await serve_stdio(server, streams, shutdown)
            elif wish is not None:
                from gencode.interfaces.mcp_server.http_transport import serve_http

                await serve_http(server, wish, shutdown)
        finally:
            await workspaces.close()
    return shutdown.code


def _wish(args: argparse.Namespace) -> "ListenOptions":
    from gencode.interfaces.http.guard import AccessTokens, kept_token
    from gencode.interfaces.http.listener import ListenOptions

    keys = AccessTokens(kept_token(Path(args.token_file).expanduser()) if "token_file" in args else "")
    bind: str = getattr(args, "bind", "127.0.0.1")
    names = tuple(name.casefold() for name in getattr(args, "allow_host", []))
    return ListenOptions(keys, "127.0.0.1" if bind == "localhost" else bind, getattr(args, "port", 0), names)


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:
        return False
