"""`gen agents list`: every agent file, what it gives, what hides it and what is wrong with it."""

import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from gencode.app import Entry, forgetful
from gencode.core.spec import AgentSpec
from gencode.runtime.toolbox import Toolbox
from gencode.surfaces.commands.opening import opened
from gencode.surfaces.plain import answer, answer_json, table
from gencode.surfaces.visible import visible_line


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


def show(args: argparse.Namespace) -> int:
    """List the agents."""
    return asyncio.run(_show(args))


async def _show(args: argparse.Namespace) -> int:
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
    )


def _row(line: AgentLine) -> list[str]:
    named = ["all"] if line.tools is None else line.tools
    tools = [f"{name}!" if name in line.missing else name for name in named]
    tools += [f"-{name}" for name in line.denied]
    source = "built-in" if line.builtin else line.source
    turns = "no limit" if line.max_turns is None else str(line.max_turns)
    return [line.name, source, line.mode or "(parent's)", turns, " ".join(tools), line.description]
