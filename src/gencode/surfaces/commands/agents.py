"""`gen agents list|show|lint|new`: which agents there are, what each one gets, what is wrong with files."""

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from msgspec import Struct, structs

from gencode.app import Entry, GenCode, Registry, forgetful, workspace_at
from gencode.core.errors import UserMistake
from gencode.core.rules import Mode
from gencode.core.spec import AgentSpec
from gencode.delegation.seating import DELEGATES, notes_of
from gencode.permissions.table import MEMORY_TOOLS
from gencode.runtime.toolbox import Toolbox
from gencode.settings import gen_home
from gencode.surfaces.commands.opening import opened
from gencode.surfaces.commands.piped import whole_input
from gencode.surfaces.person import somebody_is_there
from gencode.surfaces.plain import answer, answer_json, note, table
from gencode.surfaces.visible import visible_line


class Read(Protocol):
    """A file after it was read: its agent or why there is none, and the words of the file beside ours."""

    @property
    def path(self) -> str: ...
    @property
    def dialect(self) -> str: ...
    @property
    def spec(self) -> AgentSpec | None: ...
    @property
    def stage(self) -> str: ...
    @property
    def findings(self) -> Sequence[object]: ...
    @property
    def why_not(self) -> str: ...
    @property
    def tools(self) -> list[str] | str: ...
    @property
    def disallowed(self) -> list[str]: ...
    @property
    def model(self) -> str | list[str] | None: ...


class AgentLine(Struct, frozen=True, rename="camel"):
    """One agent file as `gen agents list --json` shows it."""

    name: str
    description: str
    source: str
    builtin: bool
    mode: str | None
    model: str
    max_turns: int | None
    tools: list[str] | None
    missing: list[str]
    denied: list[str]
    shadowed_by: str | None
    problem: str | None
    warnings: list[str]
    project: bool
    untrusted: str | None
    dialect: str
    hidden: bool


class AgentPage(AgentLine, frozen=True, rename="camel"):
    """Everything about one agent, with the model that would answer here and the tools it really gets."""

    used_model: str
    resolved_tools: list[str]
    rules: list[str]
    sends: list[str] | None
    result_cap: int
    effort: str | None
    background: bool
    isolation: str
    skills: list[str]
    memory: str
    colour: str
    budget: Any
    output_schema: dict[str, Any] | None
    hooks: list[str]
    mcp_servers: list[Any]
    extra: dict[str, Any]
    prompt: str


class LintedFile(Struct, frozen=True, rename={"disallowed": "disallowedTools", "resolved": "resolvedTools"}):
    """One file as `gen agents lint --json` shows it."""

    path: str
    dialect: str | None
    loadable: bool
    name: str | None
    description: str | None
    tools: list[str] | str | None
    disallowed: list[str]
    resolved: list[str]
    model: str | list[str] | None
    mode: str | None
    stage: str
    warnings: list[Any]
    why_not: str | None


def listed(args: argparse.Namespace) -> int:
    """List the agents."""
    return asyncio.run(_listed(args))


def shown(args: argparse.Namespace) -> int:
    """Show one agent."""
    return asyncio.run(_shown(args))


def linted(args: argparse.Namespace) -> int:
    """Check files."""
    return asyncio.run(_linted(args))


def made(args: argparse.Namespace) -> int:
    """Write a new agent file, and say what its linter says."""
    folder = gen_home() if "user" in args else workspace_at(Path(getattr(args, "cwd", "."))).root / ".gen"
    tools = [each.strip() for each in getattr(args, "tools", "").split(",") if each.strip()]
    told = getattr(args, "instructions", "")
    wishes = {
        "name": _said(args, "name", "What is the agent called?"),
        "description": _said(args, "description", "When should it be sent, in a sentence?"),
        "tools": tuple(tools) if "tools" in args else None,
        "model": getattr(args, "its_model", ""),
        "mode": getattr(args, "its_mode", ""),
        "max_turns": getattr(args, "its_turns", None),
        "prompt": whole_input("say what the agent is told") if told == "-" else told,
    }
    written = Registry.write(folder / "agents", wishes, project="user" not in args)
    if "json" in args:
        answer_json(_linted_file(written, Toolbox()))
        return 0
    answer(f"Wrote {visible_line(written.path)}")
    for finding in written.findings:
        answer(visible_line(f"{finding.code}: {finding.message}"))
    if "user" not in args:
        note("It counts once the folder is trusted: gen trust")
    return 0


def _said(args: argparse.Namespace, field: str, question: str) -> str:
    """What was typed for a field, or is typed now."""
    if given := getattr(args, field, None):
        return str(given)
    if "json" in args or not somebody_is_there():
        way = "as the first word" if field == "name" else f"by --{field}"
        raise UserMistake(f"A new agent needs a {field}; say it {way}.")
    note(question)
    try:
        return input().strip()
    except EOFError:
        raise UserMistake(f"A new agent needs a {field}.") from None


async def _listed(args: argparse.Namespace) -> int:
    async with opened(args, store=forgetful()) as gen:
        lines = [_line(each, gen.toolbox) for each in gen.agents.listing()]
    if "json" in args:
        answer_json({"agents": lines})
        return 0
    usable = [line for line in lines if not (line.problem or line.shadowed_by or line.untrusted)]
    head = ("NAME", "SOURCE", "MODE", "TURNS", "TOOLS (! = missing)", "DESCRIPTION")
    answer(table(head, [_row(line) for line in usable]))
    for line in lines:
        for remark in _remarks(line):
            answer(visible_line(remark))
    return 0


async def _shown(args: argparse.Namespace) -> int:
    async with opened(args, store=forgetful()) as gen:
        spec = gen.agents.find(args.name)
        entry = next(each for each in gen.agents.listing() if each.path == spec.source)
        page = _page(entry, spec, gen)
    if "json" in args:
        answer_json(page)
        return 0
    for name, value in structs.asdict(page).items():
        if value not in (None, [], {}, "", False) and name != "prompt":
            answer(visible_line(f"{name.replace('_', ' ')}: {_told(value)}"))
    answer(f"\n{page.prompt}")
    return 0


async def _linted(args: argparse.Namespace) -> int:
    async with opened(args, store=forgetful()) as gen:
        paths = [Path(each) for each in getattr(args, "paths", [])]
        paths = [gen.workspace.cwd / path for path in paths] or _here(gen)
        report = Registry.lint(paths)
        files = [_linted_file(each, gen.toolbox) for each in report.files]
    if "json" in args:
        answer_json({"files": files, "clashes": report.clashes})
        return 0
    for file in files:
        for remark in _lint_lines(file):
            answer(visible_line(remark))
    for clash in report.clashes:
        answer(visible_line(f"clash: {clash.name} is the name of {' and '.join(clash.paths)}"))
    loadable = sum(file.loadable for file in files)
    answer(f"{len(files)} files, {loadable} agents, {len(report.clashes)} clashes")
    return 0


def _here(gen: GenCode) -> list[Path]:
    """The files of the user and of this folder, trusted or not."""
    entries = (each for each in gen.agents.listing() if not (each.spec and each.spec.builtin))
    return [Path(each.path) for each in entries if Path(each.path).exists()]


def _linted_file(file: Read, toolbox: Toolbox) -> LintedFile:
    spec = file.spec
    return LintedFile(
        path=file.path,
        dialect=file.dialect or None,
        loadable=spec is not None,
        name=spec.name if spec else None,
        description=spec.description if spec else None,
        tools=file.tools if spec else None,
        disallowed=file.disallowed,
        resolved=_given(spec, toolbox) if spec else [],
        model=file.model,
        mode=spec.mode if spec else None,
        stage=file.stage,
        warnings=list(file.findings),
        why_not=file.why_not or None,
    )


def _given(spec: AgentSpec, toolbox: Toolbox) -> list[str]:
    """The tools an agent really gets; those for sending others only when its file names them."""
    plans = spec.mode is Mode.PLAN
    also = (*spec.tools.also, *notes_of(spec, plans=plans))
    box = toolbox.chosen(structs.replace(spec.tools, also=also))
    if spec.tools.allow is None:
        box = box.without((*DELEGATES, "SendMessage"))
    elif not spec.sends:  # an agent that was sent sends others only when its file says which
        box = box.without(DELEGATES)
    if spec.mode is Mode.PLAN:
        box = box.without(
            name for name, tool in box.items() if tool.effect == "write" and name not in MEMORY_TOOLS
        )
    return list(box)


def _lint_lines(file: LintedFile) -> Iterator[str]:
    if file.why_not:
        yield f"no agent: {file.why_not}"
    for finding in file.warnings:
        place = f"{file.path}:{finding.line}" if finding.line else file.path
        yield f"{place}: {finding.message} [{finding.code}]"


def _told(value: Any) -> str:
    return ", ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)


def _remarks(line: AgentLine) -> Iterator[str]:
    if line.shadowed_by:
        yield f"shadowed: {line.source} (by {line.shadowed_by})"
    if line.problem:
        yield f"broken: {line.problem}"
    if line.untrusted:
        yield f"untrusted: {line.untrusted}"
    for warning in line.warnings:
        yield f"warning: {line.source}: {warning}"


def _line(entry: Entry, toolbox: Toolbox) -> AgentLine:
    spec = entry.spec or AgentSpec(Path(entry.path).stem, "")
    return AgentLine(
        name=spec.name,
        description=spec.description,
        source=entry.path,
        builtin=spec.builtin,
        mode=spec.mode,
        model=spec.model,
        max_turns=spec.max_turns,
        tools=None if spec.tools.allow is None else list(spec.tools.allow),
        missing=list(toolbox.missing(spec.tools)),
        denied=list(spec.tools.deny),
        shadowed_by=entry.shadowed_by or None,
        problem=entry.problem or None,
        warnings=list(spec.warnings),
        project=entry.project,
        untrusted=entry.untrusted or None,
        dialect=entry.dialect,
        hidden=spec.hidden,
    )


def _page(entry: Entry, spec: AgentSpec, gen: GenCode) -> AgentPage:
    used = gen.models.resolve(spec.model, gen.model, from_file=True)
    line = _line(entry, gen.toolbox)
    return AgentPage(
        **structs.asdict(structs.replace(line, warnings=[*line.warnings, *used.warnings])),
        used_model=used.name,
        resolved_tools=_given(spec, gen.toolbox),
        rules=[str(rule) for rule in spec.rules],
        sends=None if spec.sends is None else list(spec.sends),
        result_cap=spec.result_cap,
        effort=spec.effort,
        background=spec.background,
        isolation=spec.isolation,
        skills=list(spec.skills),
        memory=spec.memory,
        colour=spec.colour,
        budget={name: value for name, value in structs.asdict(spec.budget).items() if value is not None},
        output_schema=spec.output_schema,
        hooks=list(spec.hooks),
        mcp_servers=list(spec.mcp_servers),
        extra=spec.extra,
        prompt=spec.prompt,
    )


def _row(line: AgentLine) -> list[str]:
    named = ["all"] if line.tools is None else line.tools
    tools = [f"{name}!" if name in line.missing else name for name in named]
    tools += [f"-{name}" for name in line.denied]
    source = "built-in" if line.builtin else line.source
    turns = "no limit" if line.max_turns is None else str(line.max_turns)
    return [line.name, source, line.mode or "(parent's)", turns, " ".join(tools), line.description]
