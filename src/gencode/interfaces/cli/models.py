"""`gen models`: shows which model answers and what each model name stands for."""

import argparse

from gencode.app import forgetful
from gencode.interfaces.chat.model_info import model_list, models_text
from gencode.interfaces.cli.open_session import opened
from gencode.interfaces.cli.parser import Commands, add
from gencode.interfaces.render.plain_text import print_record


def add_command(commands: Commands, does: str) -> None:
    """`gen models`."""
    add(commands, "models", show, does, ("gen models", "gen models --json"))


async def show(args: argparse.Namespace) -> int:
    """List the names."""
    async with opened(args, store=forgetful()) as gen:
        models = model_list(gen)
    print_record(args, models, models_text(models))
    return 0
