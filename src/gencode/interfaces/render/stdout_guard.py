"""The stream for answers: stdout, and for programs a copy of it that nothing else is printed to.

A module of its own, since `gen --help` needs it and nothing else of this folder.
"""

import os
import sys
from contextvars import ContextVar
from typing import TextIO

_APART: ContextVar[TextIO | None] = ContextVar("_APART", default=None)


def answers() -> TextIO:
    """The stream for answers."""
    return _APART.get() or sys.stdout


def keep_answers_apart() -> None:
    """From now on only answers reach stdout: what a tool or a library prints goes to stderr.

    A program that runs us inside itself, and has put a stream of its own in the place of stdout, keeps it.
    """
    if _APART.get() or sys.stdout is not sys.__stdout__ or sys.stdout.fileno() != 1:
        return
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.close(nothing)
    _APART.set(
        open(kept, "w", encoding=sys.stdout.encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    )
