"""`gen agents list`: every agent file, what it gives, what hides it and what is wrong with it."""

import argparse
import asyncio
from pathlib import Path

from msgspec import Struct

from gencode.app import forgetful
from gencode.core.spec import AgentSpec
from gencode.runtime.toolbox import Toolbox
from gencode.surfaces.commands.opening import opened
from gencode.surfaces.plain import answer, answer_json, table


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


def show(args: argparse.Namespace) -> int:
    """List the agents."""
    return asyncio.run(_show(args))


async def _show(args: argparse.Namespace) -> int:
    async with opened(args, store=forgetful()) as gen:
        lines = [
            _line(each.spec, each.path, each.shadowed_by, each.problem, gen.toolbox)
            for each in gen.agents.listing()
        ]
    if "json" in args:
        answer_json({"agents": lines})
        return 0
    usable = [line for line in lines if line.problem is None and line.shadowed_by is None]
    head = ("NAME", "SOURCE", "MODE", "TURNS", "TOOLS (! = missing)", "DESCRIPTION")
    answer(table(head, [_row(line) for line in usable]))
    for line in lines:
        if line.shadowed_by:
            answer(f"shadowed: {line.source} (by {line.shadowed_by})")
        if line.problem:
            answer(f"broken: {line.problem}")
        for warning in line.warnings:
            answer(f"warning: {line.source}: {warning}")
    return 0


def _line(known: AgentSpec | None, path: str, shadow: str, problem: str, toolbox: Toolbox) -> AgentLine:
    spec = known or AgentSpec(Path(path).stem, "")
    return AgentLine(
        name=spec.name,
        description=spec.description,
        source=path,
        builtin=spec.builtin,
        mode=spec.mode,
        model=spec.model,
        max_turns=spec.max_turns,
        tools=None if spec.tools.allow is None else list(spec.tools.allow),
        missing=list(toolbox.missing(spec.tools)),
        denied=list(spec.tools.deny),
        shadowed_by=shadow or None,
        problem=problem or None,
        warnings=list(spec.warnings),
    )


def _row(line: AgentLine) -> list[str]:
    named = ["all"] if line.tools is None else line.tools
    tools = [f"{name}!" if name in line.missing else name for name in named]
    tools += [f"-{name}" for name in line.denied]
    source = "built-in" if line.builtin else line.source
    turns = "no limit" if line.max_turns is None else str(line.max_turns)
    return [line.name, source, line.mode or "(parent's)", turns, " ".join(tools), line.description]
