"""`gen trust`: what a folder brings, in plain words, and a person's yes or no to it."""

import argparse
import os
import sys
import termios
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gencode.app import agents_if_trusted, started_if_trusted, told_servers
from gencode.core.errors import UserMistake
from gencode.core.spec import AgentSpec, same_name
from gencode.permissions.brought import SERVERS, SETTINGS
from gencode.permissions.started import Started, digests
from gencode.permissions.trust import Change, Standing, revoke, standing, trust, trusted_folders
from gencode.places import workspace_at
from gencode.runtime.hooks_file import EVENTS, parse_hooks
from gencode.runtime.processes.environment import MARK
from gencode.settings import LISTS, NARROWING, OF_PROJECTS, gen_home, project_values
from gencode.surfaces.person import somebody_is_there
from gencode.surfaces.plain import answer, answer_json, note, table
from gencode.surfaces.visible import exact_line

MOST_OTHERS = 20
ASKED = "Trust it as it is now?  y yes · n no"

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


class AgentOffer(Struct, frozen=True, rename="camel"):
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


class Offer(Struct, frozen=True):
    """A folder with everything it brings, as `gen trust --json` prints it."""

    folder: str
    state: str
    changes: list[Change]
    settings: dict[str, Any]
    agents: list[AgentOffer]
    servers: list[str]
    skills: list[str]
    others: list[str]
    problems: list[str]
    starts: list[str] = []
    """Files of the folder that its hooks and servers start; they are trusted with it."""
    unknown: list[str] = []
    """Command lines that do not tell which files they start, with why."""


def run(args: argparse.Namespace) -> int:
    """Show what a folder brings and ask whether it is trusted; or list, or take trust back."""
    as_json = "json" in args
    if sum(name in args for name in ("listed", "revoke", "show", "yes")) > 1:
        raise UserMistake("--list, --revoke, --show and --yes exclude each other; keep one of them.")
    if "listed" in args:
        return _list(as_json=as_json)
    folder = _folder(args)
    if "revoke" in args:
        return _revoke(folder, as_json=as_json)
    project = standing(folder, gen_home())
    started = started_if_trusted(project) if project.state != "nothing" else Started()
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


def _decide(project: Standing, offer: Offer, started: Mapping[str, str], *, sure: bool, as_json: bool) -> int:
    """Trust what was shown, if a person says so."""
    if not as_json:
        _show(offer, as_json=False)
    if offer.problems:
        reasons = "; ".join(exact_line(problem).rstrip(".") for problem in offer.problems)
        raise UserMistake(f"{exact_line(offer.folder)} cannot be trusted: {reasons}.")
    if MARK in os.environ:
        raise UserMistake("Only a person trusts a folder, and this was run by an agent.")
    if not sure and not somebody_is_there():
        raise UserMistake("Nobody is at a terminal to say yes; to trust it all the same, add --yes.")
    if not sure and not _says_yes():
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


def _says_yes() -> bool:
    """One typed line; what was typed before the question was shown does not answer it."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    note(ASKED)
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


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


def _offer(project: Standing) -> Offer:
    problems, texts = list(project.brought.problems), project.brought.texts
    settings: dict[str, Any] = {}
    try:
        settings = project_values(project)
    except UserMistake as mistake:
        problems.append(str(mistake))
    return Offer(
        folder=str(project.folder),
        state=project.state,
        changes=list(project.changes),
        settings=settings,
        agents=list(_agents(project)),
        servers=told_servers((), {path: texts[path] for path in SERVERS if path in texts}),
        skills=[path for path in texts if path.endswith("/SKILL.md")],
        others=[path for path in project.brought.files if path not in project.brought.texts],
        problems=problems,
    )


def _agents(project: Standing) -> Iterator[AgentOffer]:
    entries = agents_if_trusted(project).listing()
    called = {each.path: _called(each.spec) for each in entries if each.spec}
    for entry in entries:
        path = os.path.relpath(entry.path, project.folder)
        if entry.project and entry.spec is None:
            yield AgentOffer(Path(path).stem, path, problem=entry.problem)
        elif entry.project and entry.spec is not None:
            spec = entry.spec
            yield AgentOffer(
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
    yield from told_servers(spec.mcp_servers, {}, spec.source)


def _called(spec: AgentSpec) -> str:
    return f"the built-in {spec.name}" if spec.builtin else spec.source


def _show(offer: Offer, *, as_json: bool) -> None:
    if as_json:
        answer_json(offer)
    else:
        answer("\n".join(_lines(offer)))


def _headline(offer: Offer, end: str) -> str:
    return f"{exact_line(offer.folder)} {_STATES[offer.state]}{end}"


def _lines(offer: Offer) -> Iterator[str]:
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


def _words(agent: AgentOffer) -> str:
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
