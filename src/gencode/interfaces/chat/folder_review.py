"""What a folder contains that needs trust, as a record and as text: settings, agents, programs and skills."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from gencode.agent.hook_settings import EVENTS, parse_hooks
from gencode.app import agents_if_trusted, describe_servers, started_if_trusted
from gencode.core.errors import UserMistake
from gencode.core.spec import AgentSpec, same_name
from gencode.core.text import exact_line
from gencode.permissions.project_files import SERVERS, SETTINGS, is_command
from gencode.permissions.started_files import StartedFiles
from gencode.permissions.trust import FolderTrust, TrustChange, standing
from gencode.settings import LISTS, NARROWING, OF_PROJECTS, gen_home, project_values

MOST_OTHERS = 20


_MEANS = {
    "dontAsk": "allows everything without approval",
    "acceptEdits": "edits files without approval",
    "default": "needs approval to change anything",
    "unattended": "refuses what needs approval",
    "plan": "read only",
}


_STATES = {
    "nothing": "contains nothing that needs trust",
    "trusted": "is trusted",
    "added": "is trusted, except for its new agents",
    "changed": "has changed since you trusted it, so its content does not apply",
    "untrusted": "is not trusted, so its content does not apply",
}


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
    """A folder with everything it contains, as `gen trust --json` prints it."""

    folder: str
    state: str
    changes: list[TrustChange]
    settings: dict[str, Any]
    agents: list[AgentReview]
    servers: list[str]
    skills: list[str]
    commands: list[str]
    others: list[str]
    problems: list[str]
    starts: list[str] = []
    """Files of the folder that its hooks and servers start; they are trusted with it."""
    unknown: list[str] = []
    """Command lines that do not tell which files they start, with why."""


def folder_review(project: FolderTrust, started: StartedFiles) -> FolderReview:
    """Everything that a folder contains, and the files that its programs start."""
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
        agents=list(_agent_reviews(project)),
        servers=describe_servers((), {path: texts[path] for path in SERVERS if path in texts}),
        skills=[path for path in texts if path.endswith("/SKILL.md")],
        commands=[path for path in texts if is_command(path)],
        others=[path for path in project.brought.files if path not in project.brought.texts],
        problems=problems,
        starts=list(started.files),
        unknown=list(started.unknown),
    )


def _agent_reviews(project: FolderTrust) -> Iterator[AgentReview]:
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


def headline(review: FolderReview, end: str = ".") -> str:
    """The folder and whether it is trusted."""
    return f"{exact_line(review.folder)} {_STATES[review.state]}{end}"


def review_text(review: FolderReview) -> str:
    """Everything about a folder, for a person to decide."""
    return "\n".join(_review_lines(review))


def _review_lines(review: FolderReview) -> Iterator[str]:
    found = bool(review.settings or review.agents or review.servers or review.skills)
    found = found or bool(review.commands or review.others)
    yield headline(review, ". It contains:" if found else ".")
    if review.settings:
        yield f"\nSettings, in {SETTINGS}"
        yield from indented(_setting_rows(review.settings))
    if review.agents:
        yield "\nAgents"
        yield from indented((exact_line(each.name), exact_line(_words(each))) for each in review.agents)
    programs = [(each.name, program) for each in review.agents for program in each.programs]
    programs += [("this folder", server) for server in review.servers]
    if programs:
        yield "\nPrograms and servers that it starts"
        yield from indented((exact_line(name), exact_line(program)) for name, program in programs)
    if review.starts:
        yield "\nFiles of this folder that these start; they are trusted, too"
        yield from _first(f"  {exact_line(path)}" for path in review.starts)
    if review.unknown:
        yield "\nPrograms whose files are unknown, so that changes of them are not noticed"
        yield from _first(f"  {exact_line(line)}" for line in review.unknown)
    if review.skills:
        yield "\nSkills"
        yield from (f"  {exact_line(path)}" for path in review.skills)
    if review.commands:
        yield "\nSlash commands"
        yield from (f"  {exact_line(path)}" for path in review.commands)
    if review.others:
        yield "\nFiles that this version does not use"
        yield from _first(f"  {exact_line(path)}" for path in review.others)
    if review.changes:
        yield "\nChanges since it was trusted"
        yield from _first(indented((change.kind, exact_line(change.path)) for change in review.changes))
    if review.problems:
        yield "\nProblems to fix before it can be trusted"
        yield from (f"  {exact_line(problem)}" for problem in review.problems)


def _first(lines: Iterable[str]) -> Iterator[str]:
    """The first lines, and how many more there are."""
    every = list(lines)
    yield from every[:MOST_OTHERS]
    if len(every) > MOST_OTHERS:
        yield f"  and {len(every) - MOST_OTHERS} more"


def indented(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Names and texts in two columns."""
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
        return "  (applies already, since it only restricts)"
    if key not in OF_PROJECTS:
        return "  (has no effect: only your own settings can set it)"
    if key == "permission_mode":
        means = {same_name(mode): says for mode, says in _MEANS.items()}
        return f"  ({means.get(same_name(str(value)), 'no such mode')})"
    return "  (without approval)" if key == "allow" else ""


def _words(agent: AgentReview) -> str:
    """One agent in a line: what it may do and whose place it takes."""
    if agent.problem:
        return f"cannot be used: {agent.problem}"
    mode = f"mode {agent.mode} ({_MEANS[agent.mode]})" if agent.mode else "its parent's mode"
    tools = "all tools" if agent.tools is None else f"tools {', '.join(agent.tools) or 'none'}"
    said = [mode, tools]
    if agent.model != "inherit":
        said.append(f"model {agent.model}")
    if agent.allow:
        said.append(f"allows {', '.join(agent.allow)}")
    if agent.skills:
        said.append(f"skills {', '.join(agent.skills)}")
    if agent.hides:
        said.append(f"replaces {', '.join(agent.hides)}")
    if agent.hidden_by:
        said.append(f"has no effect: {agent.hidden_by} has the same name")
    return f"{'; '.join(said)}  ({agent.path})"


def trust_page(root: Path) -> str:
    """What a folder contains now, and whether it is trusted."""
    project = standing(root, gen_home()).whole
    started = started_if_trusted(project) if project.state != "nothing" else StartedFiles()
    return review_text(folder_review(project, started))
