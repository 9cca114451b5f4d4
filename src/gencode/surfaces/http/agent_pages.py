"""Agents as the server shows them: a line, a page, and what the linter says (surfaces, server)."""

from pathlib import Path
from typing import Any

from msgspec import structs

from gencode.app import Entry, GenCode
from gencode.core.rules import Mode
from gencode.core.spec import AgentSpec
from gencode.delegation.seating import DELEGATES
from gencode.permissions.table import MEMORY_TOOLS
from gencode.runtime.toolbox import Toolbox
from gencode.surfaces.commands.agents import AgentLine, AgentPage, LintedFile, Read


def agent_line(entry: Entry, toolbox: Toolbox) -> AgentLine:
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
        warnings=list(spec.warnings),
        project=entry.project,
        untrusted=entry.untrusted or None,
        dialect=entry.dialect,
        hidden=spec.hidden,
    )


def agent_page(gen: GenCode, name: str) -> AgentPage:
    """Everything about one agent, with the model and the tools that it really gets."""
    spec = gen.agents.find(name)
    entry = next(each for each in gen.agents.listing() if each.path == spec.source)
    used = gen.models.resolve(spec.model, gen.model, from_file=True)
    line = agent_line(entry, gen.toolbox)
    budget = {each: value for each, value in structs.asdict(spec.budget).items() if value is not None}
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
        budget=budget,
        output_schema=spec.output_schema,
        hooks=list(spec.hooks),
        mcp_servers=list(spec.mcp_servers),
        extra=spec.extra,
        prompt=spec.prompt,
    )


def linted_file(file: Read, toolbox: Toolbox) -> LintedFile:
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
    box = toolbox.chosen(spec.tools)
    if spec.tools.allow is None:
        box = box.without((*DELEGATES, "SendMessage"))
    if spec.mode is Mode.PLAN:
        box = box.without(
            name for name, tool in box.items() if tool.effect == "write" and name not in MEMORY_TOOLS
        )
    return list(box)
