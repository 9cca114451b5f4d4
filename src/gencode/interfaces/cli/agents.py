"""`gen agents list|show|lint|new|add`: lists, shows, checks, creates and copies agents."""

import argparse
import os
import shutil
from pathlib import Path

from gencode.app import forgetful
from gencode.core.errors import UserMistake
from gencode.interfaces.chat.agent_info import (
    TRUST_AGAIN,
    agent_details,
    agent_line,
    agent_text,
    agents_text,
    create_agent,
    created_text,
    lint,
    lint_text,
)
from gencode.interfaces.cli.command_input import whole_input
from gencode.interfaces.cli.open_session import opened
from gencode.interfaces.cli.parser import Commands, add, add_group, turns
from gencode.interfaces.cli.terminal_questions import somebody_is_there
from gencode.interfaces.render.plain_text import note, print_record
from gencode.permissions.paths import is_inside
from gencode.places import workspace_at
from gencode.settings import gen_home

EXAMPLES = (
    "gen agents show Explore",
    "gen agents lint .claude/agents --json",
    'gen agents new tester --description "Runs the tests and reports failures." --tools Bash,Read',
    "gen agents add team",
)
SETS = {
    "team": {"team/agents": "agents", "team/skills": "skills"},
    "task-types": {"subagents": "subagents"},
}
"""What `gen agents add` copies: folders of `examples`, and where each is read from."""


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
    more = add(group, "add", added, "copy agents that come with GenCode into this folder", EXAMPLES[3:])
    more.add_argument(
        "name",
        choices=tuple(SETS),
        help="team: reviewers, a bug fixer and skills; task-types: the five of Task Types",
    )
    more.add_argument("--user", action="store_true", help="into your own folder, for every project")
    new = add(group, "new", made, "create an agent file; prompts for what is missing", EXAMPLES[2:3])
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


async def listed(args: argparse.Namespace) -> int:
    """List the agents."""
    async with opened(args, store=forgetful()) as gen:
        lines = [agent_line(each, gen.toolbox) for each in gen.agents.checked()]
    print_record(args, {"agents": lines}, agents_text(lines))
    return 0


async def shown(args: argparse.Namespace) -> int:
    """Show one agent."""
    async with opened(args, store=forgetful()) as gen:
        details = agent_details(gen, args.name)
    print_record(args, details, agent_text(details))
    return 0


async def linted(args: argparse.Namespace) -> int:
    """Check files."""
    async with opened(args, store=forgetful()) as gen:
        found = lint(gen, getattr(args, "paths", []))
    print_record(args, found.record, lint_text(found))
    return 1 if found.broken else 0


def made(args: argparse.Namespace) -> int:
    """Write a new agent file, and print what the linter says about it."""
    given = getattr(args, "instructions", "")
    wishes = {
        "name": _said(args, "name", "What is the agent called?"),
        "description": _said(args, "description", "When should it be used, in a sentence?"),
        "tools": getattr(args, "tools", None),
        "model": getattr(args, "its_model", ""),
        "mode": getattr(args, "its_mode", ""),
        "max_turns": getattr(args, "its_turns", None),
        "prompt": whole_input("pipe in the agent's instructions") if given == "-" else given,
    }
    folder = workspace_at(Path(getattr(args, "cwd", "."))).root
    created = create_agent(folder, wishes, user="user" in args)
    print_record(args, created.file, created_text(created))
    if not created.trusted and "json" not in args:
        note(TRUST_AGAIN)
    return 0


def added(args: argparse.Namespace) -> int:
    """Copy agents and skills that come with GenCode to where they are read from."""
    from gencode import __file__ as package

    user = "user" in args
    if user and args.name != "team":
        raise UserMistake("The agents of Task Types belong to a folder. Leave out --user.")
    inside = Path(package).parent / "examples"
    source = inside if inside.is_dir() else Path(package).parents[2] / "examples"
    folder = workspace_at(Path(getattr(args, "cwd", "."))).root
    root = gen_home() if user else folder / ".gen" if args.name == "team" else folder
    targets = {source / part: root / place for part, place in SETS[args.name].items()}
    found = [
        (each, target / each.name) for part, target in targets.items() for each in sorted(part.iterdir())
    ]
    within = os.path.realpath(root if user else folder)  # what is in the folder may be a link that leads away
    for _, place in found:
        if os.path.lexists(place) or not is_inside(os.path.realpath(place.parent), within):
            why = "exists already" if os.path.lexists(place) else "is behind a link that leads elsewhere"
            raise UserMistake(f"{place} {why}. Nothing was copied.")
    for each, place in found:
        if each.is_dir():
            shutil.copytree(each, place)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(each, place)
    written = [str(place) for _, place in found]
    names = ", ".join(place.stem for _, place in found)
    print_record(args, {"written": written}, f"Wrote {names} to {root}")
    if "json" not in args and not user:
        note(TRUST_AGAIN)
    return 0


def _said(args: argparse.Namespace, field: str, question: str) -> str:
    """What was typed for a field, or is typed now."""
    if given := getattr(args, field, None):
        return str(given)
    if "json" in args or not somebody_is_there():
        way = "gen agents new NAME" if field == "name" else f"--{field} TEXT"
        raise UserMistake(f"A new agent needs a {field}: {way}.")
    note(question)
    try:
        return input().strip()
    except EOFError:
        raise UserMistake(f"A new agent needs a {field}.") from None
