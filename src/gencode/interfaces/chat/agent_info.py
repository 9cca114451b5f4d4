"""Agents as people and programs are shown them: a line, a page, and what the linter says (surfaces)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, structs

from gencode.agent.toolbox import Toolbox
from gencode.app import AgentEntry, GenCode
from gencode.core.rules import Mode
from gencode.core.spec import AgentSpec
from gencode.permissions.tool_table import MEMORY_TOOLS
from gencode.tasks.seat_builder import DELEGATES, memory_tools


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


class AgentDetails(AgentLine, frozen=True, rename="camel"):
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
    )


def agent_page(gen: GenCode, name: str) -> AgentDetails:
    """Everything about one agent, with the model and the tools that it really gets."""
    spec = gen.agents.find(name)
    entry = next(each for each in gen.agents.listing() if each.spec == spec)
    used = gen.models.resolve(spec.model, gen.model, from_file=True)
    line = agent_line(entry, gen.toolbox)
    budget = {each: value for each, value in structs.asdict(spec.budget).items() if value is not None}
    return AgentDetails(
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


def own_files(gen: GenCode) -> list[Path]:
    """The files of the user and of this folder, trusted or not."""
    entries = (each for each in gen.agents.listing() if not (each.spec and each.spec.builtin))
    return [Path(each.path) for each in entries if Path(each.path).exists()]
