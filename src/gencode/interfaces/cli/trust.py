"""`gen trust`: what a folder brings, or how an MCP server is now, and a person's yes or no to it."""

import argparse
import asyncio
import os
import sys
import termios
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from gencode.agent.hook_settings import EVENTS, parse_hooks
from gencode.app import Change as ToolChange
from gencode.app import ServerState, agents_if_trusted, describe_servers, forgetful, started_if_trusted
from gencode.core.errors import UserMistake
from gencode.core.spec import AgentSpec, same_name
from gencode.core.text import exact, exact_line
from gencode.interfaces.cli.open_session import opened, servers_tried
from gencode.interfaces.cli.parser import Commands, add
from gencode.interfaces.cli.terminal_questions import somebody_is_there
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.plain_text import answer, answer_json, note, table
from gencode.permissions.project_files import SERVERS, SETTINGS
from gencode.permissions.started_files import StartedFiles, digests
from gencode.permissions.trust import FolderTrust, TrustChange, revoke, standing, trust, trusted_folders
from gencode.places import workspace_at
from gencode.sandbox.processes.environment import PROCESS_MARK
from gencode.settings import LISTS, NARROWING, OF_PROJECTS, gen_home, project_values

if TYPE_CHECKING:
    from gencode.app import ServerCandidate

MOST_OTHERS = 20
ASKED = "Trust it as it is now?  y yes · n no"
START_ASKED = "Start it like this from now on?  y yes · n no"
TOOLS_ASKED = "Approve these tools as they are now?  y yes · n no"
LONGEST_DESCRIPTION = 200

_MEANS = {
    "dontAsk": "everything without asking",
    "acceptEdits": "writes files without asking",
    "default": "asks before it changes anything",
    "unattended": "never asks, and is refused instead",
    "plan": "only reads",
}
_STATES = {
    "nothing": "brings nothing that would need trust",
    "trusted": "is trusted as it is",
    "changed": "has changed since it was trusted, so what it brings does not count",
    "untrusted": "is not trusted, so what it brings does not count",
}


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


class AgentReview(Struct, frozen=True, rename="camel"):
    """One agent as it would be; `hides` are the files whose agents it would take the place of."""

    name: str
    path: str
    mode: str | None = None
    model: str = ""
    tools: list[str] | None = None
    allow: list[str] = []
    programs: list[str] = []
    skills: list[str] = []
    hides: list[str] = []
    hidden_by: str | None = None
    problem: str | None = None


class FolderReview(Struct, frozen=True):
    """A folder with everything it brings, as `gen trust --json` prints it."""

    folder: str
    state: str
    changes: list[TrustChange]
    settings: dict[str, Any]
    agents: list[AgentReview]
    servers: list[str]
    skills: list[str]
    others: list[str]
    problems: list[str]
    starts: list[str] = []
    """Files of the folder that its hooks and servers start; they are trusted with it."""
    unknown: list[str] = []
    """Command lines that do not tell which files they start, with why."""


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
    """Show what a folder brings and ask whether it is trusted; or list, or take trust back."""
    as_json = "json" in args
    if sum(name in args for name in ("listed", "revoke", "show", "yes")) > 1:
        raise UserMistake("--list, --revoke, --show and --yes exclude each other; keep one of them.")
    if "server" in args:
        if "listed" in args or "revoke" in args:
            raise UserMistake("--server goes with --show or --yes, not with --list or --revoke.")
        args.cwd = str(_folder(args))
        return run_to_end(_approve_server(args))
    if "listed" in args:
        return _list(as_json=as_json)
    folder = _folder(args)
    if "revoke" in args:
        return _revoke(folder, as_json=as_json)
    project = standing(folder, gen_home())
    started = started_if_trusted(project) if project.state != "nothing" else StartedFiles()
    digested = digests(started.files, project.folder)
    offer = replace(_offer(project), starts=list(started.files), unknown=list(started.unknown))
    if "show" in args or (as_json and "yes" not in args):
        _show(offer, as_json=as_json)
    elif project.state in ("nothing", "trusted"):
        if as_json:
            answer_json(offer)
        else:
            answer(_headline(offer, "."))
    else:
        return _decide(project, offer, digested, sure="yes" in args, as_json=as_json)
    return 0


def _folder(args: argparse.Namespace) -> Path:
    base = Path(getattr(args, "cwd", ".")).expanduser()
    return workspace_at(base / Path(getattr(args, "folder", ".")).expanduser()).root


def _decide(
    project: FolderTrust, offer: FolderReview, started: Mapping[str, str], *, sure: bool, as_json: bool
) -> int:
    """Trust what was shown, if a person says so."""
    if not as_json:
        _show(offer, as_json=False)
    if offer.problems:
        reasons = "; ".join(exact_line(problem).rstrip(".") for problem in offer.problems)
        raise UserMistake(f"{exact_line(offer.folder)} cannot be trusted: {reasons}.")
    if _is_asked(sure=sure) and not _says_yes():
        note("Nothing was changed.")
        return 1
    trust(project, gen_home(), started)
    if as_json:
        answer_json(replace(offer, state="trusted", changes=[]))
    else:
        count = len({*project.brought.files, *started})
        files = "1 file" if count == 1 else f"{count} files"
        answer(f"Trusted, for {files} as they are; when one changes, it has to be looked at again.")
    return 0


def _is_asked(*, sure: bool) -> bool:
    """Whether somebody has to be asked: nobody who is `sure` has, and no agent decides."""
    if PROCESS_MARK in os.environ:
        raise UserMistake("Only a person trusts a folder or an MCP server, and this was run by an agent.")
    if not sure and not somebody_is_there():
        raise UserMistake("Nobody is at a terminal to say yes; to trust it all the same, add --yes.")
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
    """Approve one server if a person says so; how it is started first: its tools are not known before."""
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
        why = f"{name} is {server.state}: {server.why or 'it is disabled'}."
        note(exact_line(f"{why} How it is started is approved; its tools are not known yet."))
        return 1
    open_ones = [(tool, change, says) for tool, change, says in server.tools() if change != "approved"]
    if not quiet and open_ones:
        rows = ((exact_line(f"{change} {tool}"), _first_line(says)) for tool, change, says in open_ones)
        answer("\n".join(_indented(rows)))
    if not server.approved and not await _agrees(TOOLS_ASKED, sure=sure):
        note("Its tools were not approved.")
        return 1
    server.approve()
    if not quiet:
        count = len(server.tools())
        tools = "1 tool" if count == 1 else f"{count} tools"
        answer(f"Approved as it is now, with {tools}; when it changes, it has to be looked at again.")
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
        answer(table(("FOLDER", "STATE", "SINCE"), [(exact_line(each[0]), *each[1:]) for each in found]))
    else:
        answer("No folder is trusted.")
    return 0


def _now(folder: Path, home: Path) -> str:
    return standing(folder, home).state if folder.is_dir() else "gone"


def _revoke(folder: Path, *, as_json: bool) -> int:
    was = revoke(folder, gen_home())
    if as_json:
        answer_json({"folder": str(folder), "revoked": was})
    else:
        answer(f"{exact_line(str(folder))} {'is not trusted any more' if was else 'was not trusted'}.")
    return 0


def _offer(project: FolderTrust) -> FolderReview:
    problems, texts = list(project.brought.problems), project.brought.texts
    settings: dict[str, Any] = {}
    try:
        settings = project_values(project)
    except UserMistake as mistake:
        problems.append(str(mistake))
    return FolderReview(
        folder=str(project.folder),
        state=project.state,
        changes=list(project.changes),
        settings=settings,
        agents=list(_agents(project)),
        servers=describe_servers((), {path: texts[path] for path in SERVERS if path in texts}),
        skills=[path for path in texts if path.endswith("/SKILL.md")],
        others=[path for path in project.brought.files if path not in project.brought.texts],
        problems=problems,
    )


def _agents(project: FolderTrust) -> Iterator[AgentReview]:
    entries = agents_if_trusted(project).listing()
    called = {each.path: _called(each.spec) for each in entries if each.spec}
    for entry in entries:
        path = os.path.relpath(entry.path, project.folder)
        if entry.project and entry.spec is None:
            yield AgentReview(Path(path).stem, path, problem=entry.problem)
        elif entry.project and entry.spec is not None:
            spec = entry.spec
            yield AgentReview(
                name=spec.name,
                path=path,
                mode=spec.mode,
                model=spec.model,
                tools=None if spec.tools.allow is None else list(spec.tools.allow),
                allow=[f"{rule.tool}({rule.pattern})" for rule in spec.rules if rule.action == "allow"],
                programs=list(_programs(spec)),
                skills=list(spec.skills),
                hides=[called[each.path] for each in entries if each.spec and each.shadowed_by == entry.path],
                hidden_by=called.get(entry.shadowed_by),
            )


def _programs(spec: AgentSpec) -> Iterator[str]:
    """Everything that an agent's file has run, each as it is started."""
    names = {event: name for name, (event, _) in reversed(EVENTS.items())}
    for hook in parse_hooks(spec.hooks, of_agent=True).hooks:
        tools = f" of {'|'.join(hook.fits)}" if hook.fits else ""
        what = f"nothing can be run, so calls are refused ({hook.broken})" if hook.broken else hook.command
        yield f"hook {names[hook.event]}{tools}: {what}"
    yield from describe_servers(spec.mcp_servers, {}, spec.source)


def _called(spec: AgentSpec) -> str:
    return f"the built-in {spec.name}" if spec.builtin else spec.source


def _show(offer: FolderReview, *, as_json: bool) -> None:
    if as_json:
        answer_json(offer)
    else:
        answer("\n".join(_lines(offer)))


def _headline(offer: FolderReview, end: str) -> str:
    return f"{exact_line(offer.folder)} {_STATES[offer.state]}{end}"


def _lines(offer: FolderReview) -> Iterator[str]:
    brings = bool(offer.settings or offer.agents or offer.servers or offer.skills or offer.others)
    yield _headline(offer, ". It brings:" if brings else ".")
    if offer.settings:
        yield f"\nSettings, in {SETTINGS}"
        yield from _indented(_setting_rows(offer.settings))
    if offer.agents:
        yield "\nAgents"
        yield from _indented((exact_line(each.name), exact_line(_words(each))) for each in offer.agents)
    programs = [(each.name, program) for each in offer.agents for program in each.programs]
    programs += [("this folder", server) for server in offer.servers]
    if programs:
        yield "\nPrograms and servers that are started"
        yield from _indented((exact_line(name), exact_line(program)) for name, program in programs)
    if offer.starts:
        yield "\nFiles of this folder that these start; they are trusted with it"
        yield from (f"  {exact_line(path)}" for path in offer.starts[:MOST_OTHERS])
        if len(offer.starts) > MOST_OTHERS:
            yield f"  and {len(offer.starts) - MOST_OTHERS} more"
    if offer.unknown:
        yield "\nWhat these run cannot be followed, so a change of it is not noticed"
        yield from (f"  {exact_line(line)}" for line in offer.unknown[:MOST_OTHERS])
        if len(offer.unknown) > MOST_OTHERS:
            yield f"  and {len(offer.unknown) - MOST_OTHERS} more"
    if offer.skills:
        yield "\nSkills"
        yield from (f"  {exact_line(path)}" for path in offer.skills)
    if offer.others:
        yield "\nFiles that this version does not use"
        yield from (f"  {exact_line(path)}" for path in offer.others[:MOST_OTHERS])
        if len(offer.others) > MOST_OTHERS:
            yield f"  and {len(offer.others) - MOST_OTHERS} more"
    if offer.changes:
        yield "\nSince it was trusted"
        yield from _indented((change.kind, exact_line(change.path)) for change in offer.changes[:MOST_OTHERS])
        if len(offer.changes) > MOST_OTHERS:
            yield f"  and {len(offer.changes) - MOST_OTHERS} more"
    if offer.problems:
        yield "\nIt cannot be trusted like this"
        yield from (f"  {exact_line(problem)}" for problem in offer.problems)


def _indented(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    listed = list(rows)
    width = min(max((len(name) for name, _ in listed), default=0), 30)
    return (f"  {name.ljust(width)}  {text}" for name, text in listed)


def _setting_rows(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What weighs most comes first: what is allowed, then the mode, then everything else."""
    order = {name: place for place, name in enumerate(("allow", "permission_mode", "model"))}
    for key in sorted(settings, key=lambda key: (order.get(key, len(order)), key)):
        value = settings[key]
        for each in value if key in LISTS else (value,):
            yield key, exact_line(each if isinstance(each, str) else repr(each)) + _remark(key, each)


def _remark(key: str, value: object) -> str:
    if key in NARROWING:
        return "  (counts already: it can only narrow)"
    if key not in OF_PROJECTS:
        return "  (does not count: only you can set it)"
    if key == "permission_mode":
        means = {same_name(mode): says for mode, says in _MEANS.items()}
        return f"  ({means.get(same_name(str(value)), 'no such mode')})"
    return "  (without asking)" if key == "allow" else ""


def _words(agent: AgentReview) -> str:
    """One agent in a line: what it may do and whose place it takes."""
    if agent.problem:
        return f"cannot be used: {agent.problem}"
    mode = f"mode {agent.mode} ({_MEANS[agent.mode]})" if agent.mode else "its sender's mode"
    tools = "all tools" if agent.tools is None else f"tools {', '.join(agent.tools) or 'none'}"
    said = [mode, tools]
    if agent.model != "inherit":
        said.append(f"model {agent.model}")
    if agent.allow:
        said.append(f"allows {', '.join(agent.allow)}")
    if agent.skills:
        said.append(f"skills {', '.join(agent.skills)}")
    if agent.hides:
        said.append(f"takes the place of {', '.join(agent.hides)}")
    if agent.hidden_by:
        said.append(f"does not count, because {agent.hidden_by} has its name")
    return f"{'; '.join(said)}  ({agent.path})"
