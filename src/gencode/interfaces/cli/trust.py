"""`gen trust`: shows what a folder contains or how an MCP server is started, and asks whether to trust it."""

import argparse
import asyncio
import os
import sys
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.app import STATE_CLAUSES, ServerState, forgetful, started_if_trusted
from gencode.app import Change as ToolChange
from gencode.core.errors import UserMistake
from gencode.core.structs import replace
from gencode.core.text import exact, exact_line
from gencode.interfaces.chat.folder_review import FolderReview, folder_review, headline, indented, review_text
from gencode.interfaces.cli.open_session import opened, servers_tried
from gencode.interfaces.cli.parser import Commands, add
from gencode.interfaces.cli.terminal_questions import somebody_is_there
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.number_format import counted, local_time, local_zone
from gencode.interfaces.render.plain_text import answer, answer_json, note, print_record, table
from gencode.permissions.started_files import StartedFiles, digests
from gencode.permissions.trust import FolderTrust, revoke, standing, trust, trusted_folders
from gencode.places import workspace_at
from gencode.sandbox.processes.environment import PROCESS_MARK
from gencode.settings import gen_home

if TYPE_CHECKING:
    from gencode.app import ServerCandidate

ASKED = "Trust it as it is now?  y yes · n no"
START_ASKED = "Start it like this from now on?  y yes · n no"
TOOLS_ASKED = "Approve these tools as they are now?  y yes · n no"
LONGEST_DESCRIPTION = 200


def add_command(commands: Commands, does: str) -> None:
    """`gen trust`."""
    parser = add(
        commands,
        "trust",
        run,
        does,
        ("gen trust --show", "gen trust --yes", "gen trust --list", "gen trust --server git --yes"),
    )
    parser.add_argument("folder", nargs="?", metavar="DIR", help="the folder (default: the current one)")
    parser.add_argument("--show", action="store_true", help="only show what it would enable")
    parser.add_argument("--yes", action="store_true", help="trust it without confirmation")
    parser.add_argument("--revoke", action="store_true", help="stop trusting it")
    parser.add_argument("--list", dest="listed", action="store_true", help="list the trusted folders")
    parser.add_argument(
        "--server", metavar="NAME", help="approve this MCP server and its current tools, not a folder"
    )


class ToolReview(Struct, frozen=True):
    """A tool of an MCP server, and what it is to the last approval."""

    name: str
    change: ToolChange


class ServerReview(Struct, frozen=True):
    """An MCP server as `gen trust --server NAME --json` prints it; `approved` is for all that it is now."""

    name: str
    how: str
    state: ServerState
    approved: bool
    error: str | None
    tools: list[ToolReview]


class ServerReviews(Struct, frozen=True):
    """Every MCP server of one name: the one of the settings or the folder, and those of agents' files."""

    servers: list[ServerReview]


def run(args: argparse.Namespace) -> int:
    """Show what a folder contains and ask whether to trust it; or list trusted folders, or revoke trust."""
    as_json = "json" in args
    if sum(name in args for name in ("listed", "revoke", "show", "yes")) > 1:
        raise UserMistake("Use only one of --list, --revoke, --show and --yes.")
    if "server" in args:
        if "listed" in args or "revoke" in args:
            raise UserMistake("--server works with --show or --yes, not with --list or --revoke.")
        args.cwd = str(_folder(args))
        return run_to_end(_approve_server(args))
    if "listed" in args:
        return _list(as_json=as_json)
    folder = _folder(args)
    if "revoke" in args:
        return _revoke(folder, as_json=as_json)
    project = standing(folder, gen_home()).whole
    started = started_if_trusted(project) if project.state != "nothing" else StartedFiles()
    digested = digests(started.files, project.folder)
    review = folder_review(project, started)
    if "show" in args or (as_json and "yes" not in args):
        print_record(args, review, review_text(review))
    elif project.state in ("nothing", "trusted"):
        print_record(args, review, headline(review))
    else:
        return _decide(args, project, review, digested)
    return 0


def _folder(args: argparse.Namespace) -> Path:
    base = Path(getattr(args, "cwd", ".")).expanduser()
    return workspace_at(base / Path(getattr(args, "folder", ".")).expanduser()).root


def _decide(
    args: argparse.Namespace, project: FolderTrust, review: FolderReview, started: Mapping[str, str]
) -> int:
    """Trust the shown contents, if the person agrees."""
    if "json" not in args:
        answer(review_text(review))
    if review.problems:
        reasons = "; ".join(exact_line(problem).rstrip(".") for problem in review.problems)
        raise UserMistake(f"{exact_line(review.folder)} cannot be trusted: {reasons}.")
    if _is_asked(sure="yes" in args) and not _says_yes():
        note("Nothing was changed.")
        return 1
    trust(project, gen_home(), started)
    count = len({*project.brought.files, *started})
    files = "1 file as it is now" if count == 1 else f"{count:,} files as they are now"
    told = f"Trusted, with {files}. If one changes, run gen trust again."
    print_record(args, replace(review, state="trusted", changes=[]), told)
    return 0


def _is_asked(*, sure: bool) -> bool:
    """Whether the person has to confirm: not with `sure`, and an agent never can."""
    if PROCESS_MARK in os.environ:
        raise UserMistake("Only you can trust a folder or an MCP server, and this was run by an agent.")
    if not sure and not somebody_is_there():
        raise UserMistake("There is no terminal to confirm in. To trust it anyway, add --yes.")
    return not sure


def _says_yes(question: str = ASKED) -> bool:
    """One typed line; what was typed before the question was shown does not answer it."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    note(question)
    return _is_yes()


async def _agrees(question: str, *, sure: bool) -> bool:
    """The same while servers run, which are answered meanwhile."""
    if not _is_asked(sure=sure):
        return True
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    note(question)
    typed, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), typed.set)
    try:
        await typed.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return _is_yes()


def _is_yes() -> bool:
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


async def _approve_server(args: argparse.Namespace) -> int:
    """Show how an MCP server is started and what its tools are to the last approval, and approve both."""
    name: str = args.server
    as_json = "json" in args
    looks = "show" in args or (as_json and "yes" not in args)
    async with opened(args, store=forgetful()) as gen:
        found = gen.mcp_servers.candidates(name, gen.agents.spawnable())
        await servers_tried(gen)
        codes = [0 if looks else await _decide_server(each, name, args) for each in found]
        offers = [_server_offer(name, each) for each in found]
    if as_json:
        answer_json(ServerReviews(offers))
    elif looks:
        answer("\n".join(line for each in offers for line in _server_lines(each)))
    return max(codes)


async def _decide_server(server: "ServerCandidate", name: str, args: argparse.Namespace) -> int:
    """Approve one server if the person agrees; first how it is started: its tools are not known before."""
    sure, quiet = "yes" in args, "json" in args
    if not quiet:
        answer(exact(server.how))
    if server.state == "unapproved":
        if not quiet:
            answer(f"It was not started: {exact_line(server.why)}.")
        if not await _agrees(START_ASKED, sure=sure):
            note("Nothing was changed.")
            return 1
        await server.start()
    if server.state != "ready":
        why = f"{name} {STATE_CLAUSES[server.state]}: {server.why or 'it is disabled'}."
        note(exact_line(f"{why} How it is started is approved; its tools are not known yet."))
        return 1
    open_ones = [(tool, change, says) for tool, change, says in server.tools() if change != "approved"]
    if not quiet and open_ones:
        rows = ((exact_line(f"{change} {tool}"), _first_line(says)) for tool, change, says in open_ones)
        answer("\n".join(indented(rows)))
    if not server.approved and not await _agrees(TOOLS_ASKED, sure=sure):
        note("Its tools were not approved.")
        return 1
    server.approve()
    if not quiet:
        tools = counted(len(server.tools()), "tool")
        answer(f"Approved, with {tools} as they are now. If one changes, run gen trust again.")
    return 0


def _first_line(text: str) -> str:
    line = exact_line(text.partition("\n")[0])
    return line if len(line) <= LONGEST_DESCRIPTION else f"{line[: LONGEST_DESCRIPTION - 1]}…"


def _server_offer(name: str, server: "ServerCandidate") -> ServerReview:
    tools = [ToolReview(tool, change) for tool, change, _ in server.tools()]
    return ServerReview(name, server.how, server.state, server.approved, server.why or None, tools)


def _server_lines(offer: ServerReview) -> Iterator[str]:
    yield exact(offer.how)
    state = "approved as it is now" if offer.approved else offer.state
    yield f"  state       {state}{f': {exact_line(offer.error)}' if offer.error else ''}"
    yield from (f"  tool        {exact_line(each.name)} ({each.change})" for each in offer.tools)


def _list(*, as_json: bool) -> int:
    home = gen_home()
    found = [
        (folder, _now(Path(folder), home), record.at) for folder, record in trusted_folders(home).items()
    ]
    if as_json:
        names = ("folder", "state", "at")
        answer_json({"folders": [dict(zip(names, each, strict=True)) for each in found]})
    elif found:
        rows = [(exact_line(folder), state, _since(at)) for folder, state, at in found]
        answer(table(("FOLDER", "STATE", f"SINCE ({local_zone()})"), rows))
    else:
        answer("No folder is trusted.")
    return 0


def _since(at: str) -> str:
    """The time in local time; unchanged if the file of trusted folders was edited by hand."""
    try:
        return local_time(at)
    except ValueError:
        return exact_line(at)


def _now(folder: Path, home: Path) -> str:
    return standing(folder, home).state if folder.is_dir() else "gone"


def _revoke(folder: Path, *, as_json: bool) -> int:
    was = revoke(folder, gen_home())
    if as_json:
        answer_json({"folder": str(folder), "revoked": was})
    else:
        answer(f"{exact_line(str(folder))} {'is no longer trusted' if was else 'was not trusted'}.")
    return 0
