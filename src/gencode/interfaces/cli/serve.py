"""`gen serve`: serves the HTTP API, live events and the web page."""

import argparse
import ipaddress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from gencode.core.errors import UserMistake
from gencode.core.extras import installing
from gencode.interfaces.cli.open_session import SCREEN_WAIT, check, flags, opened
from gencode.interfaces.cli.parser import Commands, add, add_model, add_policy, port
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.plain_text import note

if TYPE_CHECKING:
    from gencode.interfaces.http.guard import AccessTokens

NEEDS = ("starlette", "uvicorn", "h11")


def add_command(commands: Commands, does: str) -> None:
    """`gen serve`."""
    parser = add(commands, "serve", run, does, ("gen serve", "gen serve --port 8080 --share view"))
    parser.add_argument("--port", type=port, metavar="N", help="listen on this port (default: any free one)")
    parser.add_argument(
        "--bind", metavar="ADDRESS", help="listen on this address instead of 127.0.0.1; others can reach it"
    )
    parser.add_argument(
        "--allow-host", action="append", metavar="NAME", help="also accept this host name; may be repeated"
    )
    parser.add_argument(
        "--share",
        action="append",
        choices=("view", "act", "answer"),
        help="print another token that may only view, act or answer questions; may be repeated",
    )
    parser.add_argument("--open", action="store_true", help="open the page in your browser")
    parser.add_argument("--token-file", metavar="FILE", help="keep the token in this file across restarts")
    add_model(parser)
    add_policy(parser)


def run(args: argparse.Namespace) -> int:
    """Serve the folder that was typed."""
    if missing := [name for name in NEEDS if not _is_there(name)]:
        raise UserMistake(f"gen serve needs {' and '.join(missing)}. Install with: {installing('server')}")
    from gencode.interfaces.http.guard import AccessTokens, kept_token

    token = kept_token(Path(args.token_file).expanduser()) if "token_file" in args else ""
    return run_to_end(_serve(args, AccessTokens(token, getattr(args, "share", []))))


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:
        return False


async def _serve(args: argparse.Namespace, keys: "AccessTokens") -> int:
    from gencode.interfaces.http.listener import ListenOptions
    from gencode.interfaces.http.server import HttpServer, QuestionSignal, new_desk

    host = _address(getattr(args, "bind", "127.0.0.1"))
    names = tuple(_host_name(name) for name in getattr(args, "allow_host", []))
    wish = ListenOptions(keys, host, getattr(args, "port", 0), names)
    changed = QuestionSignal()
    desk = new_desk(changed)
    async with opened(args, asker=desk) as gen:
        gen.mcp_servers.wait_at_most(SCREEN_WAIT)
        if told := check(gen, args):
            note(told)
        serving = HttpServer(
            gen, desk, changed, wish, flags=flags(args), json="json" in args, opens="open" in args
        )
        return await serving.run()


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address("127.0.0.1" if text == "localhost" else text))
    except ValueError:
        raise UserMistake(f"{text!r} is not an IP address such as 0.0.0.0.") from None


def _host_name(text: str) -> str:
    if not text or len(text) > 253 or not all(each.isalnum() or each in ".-" for each in text):
        raise UserMistake(f"{text!r} is not a host name; write it as in the browser, without the port.")
    return text.casefold()
