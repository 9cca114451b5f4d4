"""`gen skills list`: lists skill files, what they are for and what is wrong with them."""

import argparse

from gencode.app import forgetful
from gencode.interfaces.chat.agent_info import skill_lines, skills_text
from gencode.interfaces.cli.open_session import opened
from gencode.interfaces.cli.parser import Commands, add, add_group
from gencode.interfaces.render.plain_text import print_record


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


async def show(args: argparse.Namespace) -> int:
    """List the skills."""
    async with opened(args, store=forgetful()) as gen:
        lines = skill_lines(gen)
    print_record(args, {"skills": lines}, skills_text(lines))
    return 0
