"""`gen skills list`: every skill file, what it is for, what hides it and what is wrong with it."""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from gencode.app import forgetful
from gencode.core.spec import Skill, SkillEntry
from gencode.core.text import visible_line
from gencode.interfaces.cli.open_session import opened
from gencode.interfaces.cli.parser import Commands, add, add_group
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.plain_text import answer, answer_json, table


def add_command(commands: Commands, does: str) -> None:
    """`gen skills …`."""
    group = add_group(commands, "skills", does, ("gen skills list",))
    add(
        group,
        "list",
        show,
        "list skills with their sources, agents and problems",
        ("gen skills list", "gen skills list --json"),
    )


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


def show(args: argparse.Namespace) -> int:
    """List the skills."""
    return run_to_end(_show(args))


async def _show(args: argparse.Namespace) -> int:
    async with opened(args, store=forgetful()) as gen:
        lines = [skill_line(entry) for entry in gen.skills.listing()]
    if "json" in args:
        answer_json({"skills": lines})
        return 0
    for text in told(lines):
        answer(text)
    return 0


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


def told(lines: Iterable[SkillLine]) -> Iterator[str]:
    """What is printed: a table of what can be used, then a line about everything else."""
    lines = list(lines)
    usable = [line for line in lines if not (line.problem or line.shadowed_by or line.untrusted)]
    if usable:
        rows = [(line.name, line.agent or "-", line.source, line.description) for line in usable]
        yield table(("NAME", "AGENT", "SOURCE", "DESCRIPTION"), rows)
    elif not lines:
        yield "There are no skills. Put one in ~/.gen/skills/NAME/SKILL.md, or in .gen/skills of a project."
    for line in lines:
        yield from (visible_line(remark) for remark in _remarks(line))


def _remarks(line: SkillLine) -> Iterator[str]:
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
