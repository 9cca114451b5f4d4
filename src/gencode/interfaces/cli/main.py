"""The entry point of the command line: runs what was typed and turns every end into an exit code."""

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from gencode.core.errors import GenCodeError, StoreTrouble, UserMistake
from gencode.core.text import visible
from gencode.interfaces.cli.claude_code_options import remarks
from gencode.interfaces.cli.parser import Body, parse
from gencode.interfaces.cli.parser import build_parser as build_parser
from gencode.interfaces.render.stdout_guard import answers, keep_answers_apart

COMPLETE = "__complete"
"""The command that the scripts of `gen completions` call; it is not meant for people."""
INTERRUPTED = 130
BROKEN_PIPE = 141
NO_TERMINAL = 'The terminal app needs a terminal. To ask without one: gen -p "your question"'

NOBODYS_MISTAKE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CORRUPT", "SQLITE_BUSY")
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
ONLY_ASKING = {
    "prompt": "-p",
    "output_format": "--output-format",
    "agent": "--agent",
    "go_on": "--continue",
    "session": "--session",
    "plain": "--plain",
    "append_system_prompt": "--append-system-prompt",
    "opening": "a question",
}


def main(arguments: Sequence[str]) -> int:
    """Do what was typed and give the exit code."""
    _speak_any_text()
    try:
        code = _run(arguments)
        answers().flush()
    except SystemExit as done:  # argparse has printed help
        code = _flushed(done.code if isinstance(done.code, int) else 0)
    except UserMistake as mistake:
        code = _complain(str(mistake), exit_code(mistake))
    except GenCodeError as trouble:
        code = _complain(str(trouble), 1)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = _nobody_listens()
    except Exception as fault:  # noqa: BLE001 (the last door; `_fault` logs it)
        code = _fault(fault)
    if code > 128:
        _ignore_more_signals()
    return code


def _run(arguments: Sequence[str]) -> int:
    if arguments[:1] == [COMPLETE]:
        from gencode.interfaces.cli.completions import complete

        return complete(list(arguments[1:]))
    args = parse(arguments)
    if args.command is not None:
        _check_asking(args)
    if "json" in args or getattr(args, "output_format", "text") != "text":
        keep_answers_apart()
    for line in remarks(args):
        print(visible(line), file=sys.stderr)
    from gencode.interfaces.log_file import log_file, start_log

    start_log(verbose="verbose" in args)
    if "verbose" in args:
        print(f"Log: {visible(str(log_file()))}", file=sys.stderr)
    body: Body = getattr(args, "body", _ask if "prompt" in args else interactive)
    ended = body(args)
    if isinstance(ended, int):
        return ended
    from gencode.interfaces.event_loop_runner import run_to_end

    return run_to_end(ended)


def _ask(args: argparse.Namespace) -> int:
    from gencode.interfaces.cli.ask import run

    return run(args)


def interactive(args: argparse.Namespace) -> int:
    """`gen` alone: the terminal app where there is a terminal, or the same conversation line by line."""
    for name in ("output_format", "output_schema", "json"):
        if name in args:
            option = f"--{name.replace('_', '-')}"
            raise UserMistake(f'{option} needs a question: gen -p "…" {option}')
    if "plain" in args:
        from gencode.interfaces.cli.first_start import offer_model
        from gencode.interfaces.cli.line_mode import run as lead

        offer_model(args)
        return lead(args)
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        raise UserMistake(NO_TERMINAL)
    if find_spec("textual") is None:
        from gencode.core.extras import installing

        raise UserMistake(
            f"The terminal app is not installed. Use --plain, or install it with: {installing('tui')}"
        )
    from gencode.interfaces.cli.first_start import offer_model
    from gencode.interfaces.tui.app import run as show

    offer_model(args)
    return show(args)


def _is_terminal(stream: object) -> bool:
    """Whether a stream is a terminal; it may be closed or missing."""
    try:
        return bool(getattr(stream, "isatty", bool)())
    except ValueError:
        return False


def _check_asking(args: argparse.Namespace) -> None:
    """Options of `gen -p` before a command would be ignored in silence; say so instead."""
    for name, option in ONLY_ASKING.items():
        if name in args:
            raise UserMistake(f"{option} cannot be combined with the command {args.command!r}.")


def _speak_any_text() -> None:
    """Characters the terminal's encoding lacks are spelled as escapes; a stream may also be closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _complain(sentence: str, code: int) -> int:
    try:
        print(f"gen: {visible(sentence)}", file=sys.stderr)
    except BrokenPipeError:
        return _nobody_listens()
    return _flushed(code)


def exit_code(mistake: UserMistake) -> int:
    """2, but 1 when the database failed although everything was typed and set up well."""
    name: str = getattr(mistake.__cause__, "sqlite_errorname", "")
    return 1 if isinstance(mistake, StoreTrouble) and name.startswith(NOBODYS_MISTAKE) else 2


def _fault(fault: Exception) -> int:
    """An unexpected error; a full disk below our output and a missing permission are not bugs."""
    if isinstance(fault, OSError) and fault.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
        _silence(answers())
        return _complain(f"Cannot write the output: {fault.strerror}.", 1)
    import logging

    path = _log()
    logging.error("gen ended by a fault", exc_info=fault)
    if isinstance(fault, OSError) and fault.errno in _DENIED and isinstance(fault.filename, str | Path):
        return _complain(f"{_denied(Path(fault.filename))} ({fault.strerror}).", 2)
    return _complain(f"GenCode crashed because of a bug. Details: {path}", 1)


def _denied(path: Path) -> str:
    """What the permissions of a file or folder do not let us do."""
    closed = next((folder for folder in reversed(path.parents) if not os.access(folder, os.X_OK)), None)
    if closed is not None:
        return f"{closed} cannot be read"
    if not os.path.lexists(path):
        return f"{path} cannot be created"
    return f"{path} cannot be {'changed' if os.access(path, os.R_OK) else 'read'}"


def _flushed(code: int) -> int:
    try:
        answers().flush()
    except BrokenPipeError:
        return _nobody_listens()
    except OSError:
        _silence(answers())
        return code or 1
    return code


def _nobody_listens() -> int:
    """The reader of our output has gone: what is still buffered goes nowhere, and quietly."""
    for stream in (sys.stdout, sys.stderr, answers()):
        _silence(stream)
    return BROKEN_PIPE


def _silence(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _ignore_more_signals() -> None:
    """All is saved and printed: one more Ctrl-C must not change the exit code."""
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _log() -> str:
    """Open the log, if it is not open yet, and tell where it is."""
    from gencode.interfaces.log_file import log_file, start_log

    start_log(verbose=False)
    return str(log_file())
