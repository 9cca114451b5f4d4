"""`gen acp`: runs as an agent for editors, with the Agent Client Protocol on stdin and stdout."""

import argparse
import sys
from importlib.util import find_spec
from typing import cast

from gencode.core.errors import UserMistake
from gencode.core.extras import installing
from gencode.interfaces.cli.parser import Commands, add, add_model, add_policy
from gencode.interfaces.render.plain_text import note

BY_HAND = "gen acp waits for an editor on stdin and stdout; it is meant to be started by one. Ctrl+D ends it."


def add_command(commands: Commands, does: str) -> None:
    """`gen acp`."""
    parser = add(commands, "acp", run, does, ("gen acp", "gen acp --permission-mode plan"))
    for action in cast("list[argparse.Action]", vars(parser)["_actions"]):
        if "--cwd" in action.option_strings:
            action.help = argparse.SUPPRESS  # the editor gives the folder of each session
    add_model(parser)
    add_policy(parser)


def run(args: argparse.Namespace) -> int:
    """Serve the editor that has started this."""
    if find_spec("acp") is None:
        raise UserMistake(f"gen acp needs agent-client-protocol. Install it with: {installing('acp')}")
    if "cwd" in args:
        raise UserMistake("The editor chooses the folder of a session; leave --cwd out.")
    if sys.stdin is not None and sys.stdin.isatty():
        note(BY_HAND)
    from gencode.interfaces.acp.agent import run as serve

    return serve(args)
