"""`gen agents list|show|lint|new`: which agents there are, what each one gets, what is wrong with files."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from msgspec import structs

from gencode.agent.toolbox import Toolbox
from gencode.app import Registry, forgetful
from gencode.core.errors import UserMistake
from gencode.core.text import visible_line
from gencode.interfaces.chat.agent_info import (
    AgentLine,
    LintedFile,
    agent_line,
    agent_page,
    linted_file,
    own_files,
)
from gencode.interfaces.cli.command_input import whole_input
from gencode.interfaces.cli.open_session import opened
from gencode.interfaces.cli.parser import Commands, add, add_group, turns
from gencode.interfaces.cli.terminal_questions import somebody_is_there
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.plain_text import answer, answer_json, note, table
from gencode.permissions.trust import FolderTrust, standing, trust_added
from gencode.places import workspace_at
from gencode.sandbox.processes.environment import PROCESS_MARK
from gencode.settings import gen_home

EXAMPLES = (
    "gen agents show Explore",
    "gen agents lint .claude/agents --json",
    'gen agents new tester --description "Runs the tests and reports failures." --tools Bash,Read',
)


def add_command(commands: Commands, does: str) -> None:
    """`gen agents …`."""
    group = add_group(commands, "agents", does, EXAMPLES)
    add(
        group,
        "list",
        listed,
        "list agents with their sources, tools and problems",
        ("gen agents list", "gen agents list --json"),
    )
    show = add(
        group, "show", shown, "show an agent with the model and tools it gets", ("gen agents show Explore",)
    )
    show.add_argument("name", metavar="NAME", help="the agent; case and separators do not matter")
    lint = add(
        group,
        "lint",
        linted,
        "check agent files of any dialect",
        ("gen agents lint", "gen agents lint .claude/agents --json"),
    )
    lint.add_argument(
        "paths", metavar="PATH", nargs="*", help="a file or folder (default: your agents and this folder's)"
    )
    new = add(group, "new", made, "create an agent file; prompts for what is missing", EXAMPLES[2:])
    new.add_argument("name", metavar="NAME", nargs="?", help="the agent's name")
    new.add_argument("--description", metavar="TEXT", help="when to use it, in a sentence")
    new.add_argument("--tools", metavar="NAMES", help="its tools, separated by commas (default: all)")
    new.add_argument("--model", dest="its_model", metavar="M", help="its model (default: its parent's)")
    new.add_argument(
        "--permission-mode", dest="its_mode", metavar="MODE", help="its mode (default: its parent's)"
    )
    new.add_argument("--max-turns", dest="its_turns", type=turns, metavar="N", help="its turn limit")
    new.add_argument(
        "--prompt", dest="instructions", metavar="TEXT", help="its instructions; - reads them from stdin"
    )
    new.add_argument("--user", action="store_true", help="create it for all your folders, not only this one")


def listed(args: argparse.Namespace) -> int:
    """List the agents."""
    return run_to_end(_listed(args))


def shown(args: argparse.Namespace) -> int:
    """Show one agent."""
    return run_to_end(_shown(args))


def linted(args: argparse.Namespace) -> int:
    """Check files."""
    return run_to_end(_linted(args))


def made(args: argparse.Namespace) -> int:
    """Write a new agent file, and say what its linter says."""
    folder = gen_home() if "user" in args else workspace_at(Path(getattr(args, "cwd", "."))).root / ".gen"
    told = getattr(args, "instructions", "")
    wishes = {
        "name": _said(args, "name", "What is the agent called?"),
        "description": _said(args, "description", "When should it be sent, in a sentence?"),
        "tools": getattr(args, "tools", None),
        "model": getattr(args, "its_model", ""),
        "mode": getattr(args, "its_mode", ""),
        "max_turns": getattr(args, "its_turns", None),
        "prompt": whole_input("say what the agent is told") if told == "-" else told,
    }
    before = None if "user" in args else standing(folder.parent, gen_home())
    written = Registry.write(folder / "agents", wishes, project="user" not in args)
    trusted = before is None or _stays_trusted(before, Path(written.path), written.written)
    if "json" in args:
        answer_json(linted_file(written, Toolbox()))
        return 0
    answer(f"Wrote {visible_line(written.path)}")
    for finding in written.findings:
        answer(visible_line(f"{finding.code}: {finding.message}"))
    if not trusted:
        note("Run `gen trust` in this folder to enable it.")
    return 0


def _stays_trusted(before: FolderTrust, path: Path, digest: str) -> bool:
    """Whether a folder is trusted with the file that a person has just had written in it."""
    if PROCESS_MARK in os.environ:  # an agent runs this, and only a person trusts anything
        return False
    return trust_added(before, str(path.relative_to(before.folder)), digest, gen_home()).trusted


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
        lines = [agent_line(each, gen.toolbox) for each in gen.agents.checked()]
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
        page = agent_page(gen, args.name)
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
        paths = [gen.workspace.cwd / path for path in paths] or own_files(gen)
        report = Registry.lint(paths)
        files = [linted_file(each, gen.toolbox) for each in report.files]
    code = 1 if report.broken else 0
    if "json" in args:
        answer_json({"files": files, "clashes": report.clashes})
        return code
    others = {each.path for each in report.files if each.other}
    for file in (each for each in files if each.path not in others):
        for remark in _lint_lines(file):
            answer(visible_line(remark))
    for clash in report.clashes:
        answer(visible_line(f"clash: {clash.name} is the name of {' and '.join(clash.paths)}"))
    loadable = sum(file.loadable for file in files)
    told = (
        _count(len(files) - len(others), "agent file"),
        f"{loadable} can be used",
        _count(len(report.clashes), "name clash", "name clashes"),
        *([_count(len(others), "other file")] if others else []),
    )
    answer(", ".join(told))
    return code


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _lint_lines(file: LintedFile) -> Iterator[str]:
    if file.why_not:
        yield f"error: {file.why_not}"
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


def _row(line: AgentLine) -> list[str]:
    named = ["all"] if line.tools is None else line.tools
    tools = [f"{name}!" if name in line.missing else name for name in named]
    tools += [f"-{name}" for name in line.denied]
    source = "built-in" if line.builtin else line.source
    turns = "no limit" if line.max_turns is None else str(line.max_turns)
    return [line.name, source, line.mode or "(parent's)", turns, " ".join(tools), line.description]
