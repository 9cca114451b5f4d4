"""Records of agents and skills and their texts, for the command line, conversation screens and the API."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec
from msgspec import Struct, structs

from gencode.agent.toolbox import Toolbox
from gencode.app import AgentEntry, GenCode, Registry
from gencode.core.rules import Mode
from gencode.core.spec import AgentSpec, Skill, SkillEntry
from gencode.core.structs import replace
from gencode.core.text import visible, visible_line
from gencode.interfaces.render.number_format import counted
from gencode.interfaces.render.plain_text import table
from gencode.permissions.tool_table import MEMORY_TOOLS
from gencode.permissions.trust import standing, trust_added
from gencode.sandbox.processes.environment import PROCESS_MARK
from gencode.settings import gen_home
from gencode.tasks.setup_builder import MAINS_OWN, memory_tools, not_without_subagents


class LoadedFile(Protocol):
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
    display_name: str


class AgentDetails(AgentLine, frozen=True, rename="camel"):
    """Everything about one agent, with the model that would answer here and the tools it really gets."""

    used_model: str
    resolved_tools: list[str]
    rules: list[str]
    sends: list[str] | None
    result_cap: int
    effort: str | None
    max_tokens: int | None
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


def agent_line(entry: AgentEntry, toolbox: Toolbox) -> AgentLine:
    """One agent file in short."""
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
        warnings=list(spec.cautions),
        project=entry.project,
        untrusted=entry.untrusted or None,
        dialect=entry.dialect,
        hidden=spec.hidden,
        display_name=spec.display_name or spec.name,
    )


def agent_details(gen: GenCode, name: str) -> AgentDetails:
    """Everything about one agent, with the model and the tools that it really gets."""
    spec = gen.agents.find(name)
    entry = next(each for each in gen.agents.listing() if each.spec == spec)
    used = gen.models.of_agent(spec)
    line = agent_line(entry, gen.toolbox)
    budget = {each: value for each, value in structs.asdict(spec.budget).items() if value is not None}
    return AgentDetails(
        **structs.asdict(replace(line, warnings=[*line.warnings, *used.warnings])),
        used_model=used.name,
        resolved_tools=_given(spec, gen.toolbox),
        rules=[str(rule) for rule in spec.rules],
        sends=None if spec.sends is None else list(spec.sends),
        result_cap=spec.result_cap,
        effort=spec.effort,
        max_tokens=spec.max_tokens,
        background=spec.background,
        isolation=spec.isolation,
        skills=list(spec.skills),
        memory=spec.memory,
        colour=spec.colour,
        budget=budget,
        output_schema=spec.output_schema,
        hooks=list(spec.hooks),
        mcp_servers=list(spec.mcp_servers),
        extra=spec.extra,
        prompt=spec.prompt,
    )


def linted_file(file: LoadedFile, toolbox: Toolbox) -> LintedFile:
    """One file as the linter sees it."""
    spec = file.spec
    findings: list[Any] = list(file.findings)
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
        warnings=findings,
        why_not=file.why_not or None,
    )


def _given(spec: AgentSpec, toolbox: Toolbox) -> list[str]:
    """The tools an agent really gets; those for sending others only when its file names them."""
    plans = spec.mode is Mode.PLAN
    also = (*spec.tools.also, *memory_tools(spec, plans=plans))
    box = toolbox.chosen(replace(spec.tools, also=also))
    if spec.tools.allow is None:
        box = box.without((*not_without_subagents(box, plans=plans), *MAINS_OWN, "SendMessage"))
    elif not spec.sends:  # an agent that was sent sends others only when its file says which
        box = box.without(not_without_subagents(box, plans=plans))
    if spec.mode is Mode.PLAN:
        box = box.without(
            name for name, tool in box.items() if tool.effect == "write" and name not in MEMORY_TOOLS
        )
    return list(box)


def own_files(gen: GenCode) -> list[Path]:
    """The files of the user and of this folder, trusted or not."""
    entries = (each for each in gen.agents.listing() if not (each.spec and each.spec.builtin))
    return [Path(each.path) for each in entries if Path(each.path).exists()]


def agents_text(lines: Sequence[AgentLine]) -> str:
    """A table of the agents that can be used, then a line for every problem."""
    usable = [line for line in lines if not (line.problem or line.shadowed_by or line.untrusted)]
    head = ("NAME", "SOURCE", "MODE", "TURNS", "TOOLS (! = missing)", "DESCRIPTION")
    problems = (visible_line(remark) for line in lines for remark in _agent_remarks(line))
    return "\n".join((table(head, [_agent_row(line) for line in usable]), *problems))


def _agent_row(line: AgentLine) -> list[str]:
    named = ["all"] if line.tools is None else line.tools
    tools = [f"{name}!" if name in line.missing else name for name in named]
    tools += [f"-{name}" for name in line.denied]
    source = "built-in" if line.builtin else line.source
    turns = "no limit" if line.max_turns is None else str(line.max_turns)
    return [line.name, source, line.mode or "(parent's)", turns, " ".join(tools), line.description]


def _agent_remarks(line: AgentLine) -> Iterator[str]:
    if line.shadowed_by:
        yield f"shadowed: {line.source} (by {line.shadowed_by})"
    if line.problem:
        yield f"broken: {line.problem}"
    if line.untrusted:
        yield f"untrusted: {line.untrusted}"
    for warning in line.warnings:
        yield f"warning: {line.source}: {warning}"


def agent_text(details: AgentDetails) -> str:
    """Everything about one agent: a line for each field that says something, then its prompt."""
    fields = [
        visible_line(f"{name.replace('_', ' ')}: {_field_text(value)}")
        for name, value in structs.asdict(details).items()
        if value not in (None, [], {}, "", False) and name != "prompt"
    ]
    return "\n".join((*fields, "", visible(details.prompt)))


def _field_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, cast("list[Any]", value)))
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if all(isinstance(each, int | float) for each in fields.values()):
            return ", ".join(f"{each:g} {name}" for name, each in fields.items())
        return msgspec.json.encode(fields).decode()
    return str(value)


class LintResult(Struct, frozen=True):
    """The agent files that were checked, and names that several of them have."""

    files: list[LintedFile]
    clashes: list[Any]
    others: frozenset[str]
    """The paths of files that are no agent files."""
    broken: bool

    @property
    def record(self) -> dict[str, Any]:
        """As `gen agents lint --json` prints it."""
        return {"files": self.files, "clashes": self.clashes}


def lint(gen: GenCode, paths: Sequence[str]) -> LintResult:
    """Check files and folders, or without any the agents of the user and of this folder."""
    found = [gen.workspace.cwd / path for path in paths] or own_files(gen)
    report = Registry.lint(found)
    files = [linted_file(each, gen.toolbox) for each in report.files]
    others = frozenset(each.path for each in report.files if each.other)
    return LintResult(files, list(report.clashes), others, bool(report.broken))


def lint_text(result: LintResult) -> str:
    """A line for every finding, then how many files there are."""
    agents = [file for file in result.files if file.path not in result.others]
    lines = [line for file in agents for line in _lint_lines(file)]
    lines += [f"clash: {each.name} is the name of {' and '.join(each.paths)}" for each in result.clashes]
    counts = [
        counted(len(agents), "agent file"),
        f"{sum(file.loadable for file in result.files)} can be used",
        counted(len(result.clashes), "name clash", "name clashes"),
    ]
    if result.others:
        counts.append(counted(len(result.others), "other file"))
    return "\n".join((*map(visible_line, lines), ", ".join(counts)))


def _lint_lines(file: LintedFile) -> Iterator[str]:
    if file.why_not:
        yield f"error: {file.why_not}"
    for finding in file.warnings:
        place = f"{file.path}:{finding.line}" if finding.line else file.path
        yield f"{place}: {finding.message} [{finding.code}]"


class CreatedAgent(Struct, frozen=True):
    """A new agent file, and whether it applies without anybody trusting its folder again."""

    file: LintedFile
    trusted: bool


def create_agent(root: Path, wishes: Mapping[str, Any], *, user: bool = False) -> CreatedAgent:
    """Write an agent file for a folder, or for all folders of the user."""
    before = None if user else standing(root, gen_home())
    written = Registry.write(
        (gen_home() if user else root / ".gen") / "agents", dict(wishes), project=not user
    )
    trusted = before is None
    if before is not None and PROCESS_MARK not in os.environ:  # an agent that runs this trusts nothing
        path = os.path.relpath(written.path, before.folder)
        trusted = trust_added(before, path, written.written, gen_home()).trusted
    return CreatedAgent(linted_file(written, Toolbox()), trusted)


def created_text(created: CreatedAgent) -> str:
    """Where the file is, and what the linter says about it."""
    findings = [visible_line(f"{each.code}: {each.message}") for each in created.file.warnings]
    return "\n".join((f"Wrote {visible_line(created.file.path)}", *findings))


TRUST_AGAIN = "Run `gen trust` in this folder to enable it."


class SkillLine(Struct, frozen=True, rename="camel"):
    """One skill file as `gen skills list --json` shows it."""

    name: str
    description: str
    source: str
    agent: str | None
    model: str | None
    tools: list[str] | None
    hidden: bool
    shadowed_by: str | None
    problem: str | None
    warnings: list[str]
    project: bool
    untrusted: str | None


def skill_lines(gen: GenCode) -> list[SkillLine]:
    """Every skill file there is."""
    return [skill_line(entry) for entry in gen.skills.listing()]


def skill_line(entry: SkillEntry) -> SkillLine:
    """One file as it is shown."""
    skill = entry.skill or Skill(Path(entry.path).parent.name, "")
    return SkillLine(
        name=skill.name,
        description=skill.description,
        source=entry.path,
        agent=skill.agent or None,
        model=skill.model or None,
        tools=None if skill.tools is None else list(skill.tools),
        hidden=skill.hidden,
        shadowed_by=entry.shadowed_by or None,
        problem=entry.problem or None,
        warnings=list(skill.cautions),
        project=entry.project,
        untrusted=entry.untrusted or None,
    )


def skills_text(lines: Sequence[SkillLine], width: int | None = None) -> str:
    """A table of the skills that can be used, then a line for every problem."""
    if not lines:
        return "There are no skills. Put one in ~/.gen/skills/NAME/SKILL.md, or in .gen/skills of a project."
    usable = [line for line in lines if not (line.problem or line.shadowed_by or line.untrusted)]
    rows = [(line.name, line.agent or "-", line.source, line.description) for line in usable]
    shown = [table(("NAME", "AGENT", "SOURCE", "DESCRIPTION"), rows, width)] if rows else []
    return "\n".join((*shown, *(visible_line(remark) for line in lines for remark in _skill_remarks(line))))


def _skill_remarks(line: SkillLine) -> Iterator[str]:
    if line.shadowed_by:
        yield f"shadowed: {line.source} (by {line.shadowed_by})"
    if line.problem:
        yield f"broken: {line.problem}"
    if line.untrusted:
        yield f"untrusted: {line.untrusted}"
    if line.hidden and not line.shadowed_by:
        yield f"only for people: {line.source}"
    for warning in line.warnings:
        yield f"warning: {line.source}: {warning}"


def agent_page(gen: GenCode, name: str) -> str:
    """Everything about one agent."""
    return agent_text(agent_details(gen, name))


def lint_page(gen: GenCode, paths: Sequence[str]) -> str:
    """What the linter says about agent files."""
    return lint_text(lint(gen, paths))


def new_agent_page(gen: GenCode, name: str, description: str) -> str:
    """Create an agent file in the folder, and say what is left to do before it applies."""
    created = create_agent(gen.workspace.root, {"name": name, "description": description})
    text = created_text(created)
    return text if created.trusted else f"{text}\n{TRUST_AGAIN}"
