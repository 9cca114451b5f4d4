"""`gen` alone: the terminal app where there is a terminal, or the same conversation line by line."""

import argparse
import sys
from importlib.util import find_spec

from gencode.core.errors import UserMistake
from gencode.core.extras import installing

NO_TERMINAL = 'The terminal app needs a terminal; to ask without one: gen -p "your question"'


def run(args: argparse.Namespace) -> int:
    """Lead a conversation."""
    for name, option in (("output_format", "--output-format"), ("json", "--json")):
        if name in args:
            raise UserMistake(f'{option} belongs to a question; write it after -p: gen -p "…" {option}')
    if "plain" in args:
        from gencode.interfaces.cli.line_mode import run as lead

        return lead(args)
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        raise UserMistake(NO_TERMINAL)
    if find_spec("textual") is None:
        raise UserMistake(
            f"The terminal app is an extra; use --plain, or install it with: {installing('tui')}"
        )
    from gencode.interfaces.tui.app import run as show

    return show(args)


def _is_terminal(stream: object) -> bool:
    """Whether somebody sits at a stream, which may be closed or not be there at all."""
    try:
        return bool(getattr(stream, "isatty", bool)())
    except ValueError:
        return False
