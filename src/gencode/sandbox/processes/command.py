"""Commands to run, their outcome, and the messages for those that could not be started."""

import errno
import os
import shutil
import signal as signals
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gencode.core.errors import ToolError
from gencode.sandbox.processes.output import CommandOutput

Cause = Literal["exited", "timed_out", "stopped", "lost"]
"""Why a command is over; `lost` when the process that watched it was killed."""

_SHELLS = (
    "/bin/bash",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
    "/opt/homebrew/bin/bash",
    "/run/current-system/sw/bin/bash",
)


class Command(Struct, frozen=True):
    """Something to run: a text for bash, taken as it is, or a program with its arguments and no shell."""

    run: str | tuple[str, ...]
    cwd: Path
    seconds: float | None = None
    reads_only: bool = False
    """It was allowed because it only reads, or to run like that: more is taken out of its environment."""
    may_run_git: bool = True
    """Whether it could start git; then what the repository names to be started is taken away first."""
    git_runs_in: tuple[Path, ...] = ()
    """Further folders in which it may start git; there may be other repositories around them."""
    workspace: Path | None = None
    """The folder whose programs it must not find by their names if it only reads; otherwise `cwd`."""
    file: Path | None = None
    """A new file for an output that is too long to be kept; nothing is written for a short one."""
    growing: bool = False
    """The file is written from the first byte on, so that it can be read while the command runs."""
    separate: bool = False
    """Keep standard error apart; otherwise both are one stream in the order they were written."""
    environ: Mapping[str, str] | None = None
    """Instead of our own environment; it is cleaned like ours."""
    namespaces: tuple[int, ...] = ()
    """Files that stand for namespaces it enters before it begins, in this order."""
    written: Callable[[str], None] | None = None
    """Gets the last lines of the output, a few times a second while it is written."""
    privileges: bool = False
    """Let it become somebody else (sudo, setuid). Such a process cannot be stopped by us."""


class CommandOutcome(Struct, frozen=True):
    """What came of a command."""

    exit_code: int | None
    signal: int | None
    cause: Cause
    output: CommandOutput
    errors: CommandOutput
    seconds: float
    left_over: int = 0
    """Processes it had left running when it ended; they were stopped."""
    unstoppable: int = 0
    """Processes that are still there: they sleep in the kernel or belong to somebody else."""

    @property
    def verdict(self) -> str:
        """How it ended, for whoever reads the output; nothing when it simply went well."""
        said: list[str] = []
        match self.cause:
            case "timed_out":
                said.append(f"Timed out after {self.seconds:.1f} s and was stopped, with all it had started.")
            case "stopped":
                said.append("It was stopped, with all it had started.")
            case "lost":
                said.append(
                    "The process that watched it was killed, so it was stopped, with all it had started."
                )
            case "exited":
                said += self._own_end()
        if self.left_over:
            count = _processes(self.left_over)
            said.append(
                f"{count} left running by it had to be stopped; run long-lived processes in the background."
            )
        if self.unstoppable:
            said.append(f"{_processes(self.unstoppable)} could not be stopped.")
        return " ".join(said)

    def _own_end(self) -> list[str]:
        if self.signal is not None:
            return [f"Ended by signal {self.signal} ({signals.strsignal(self.signal) or 'unknown'})."]
        return [f"Exit code {self.exit_code}."] if self.exit_code else []


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def find_bash() -> str | None:
    """Bash from where systems keep it; PATH could name anybody's program."""
    return next((path for path in _SHELLS if os.access(path, os.X_OK)), None)


def shell_words(bash: str, text: str) -> tuple[str, ...]:
    """How a text is run: as it is, and nothing else is read. A sandbox puts its own words before these."""
    return (bash, "--noprofile", "--norc", "-c", text)


def argument_words(command: Command, bash: str | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The program, by its path, and its arguments."""
    if isinstance(command.run, str):
        if bash is None:
            raise ToolError("bash is not installed on this machine, so commands cannot run.")
        return shell_words(bash, command.run)
    if not command.run or not command.run[0]:
        raise ToolError("Nothing to run: name a program.")
    name, *rest = command.run
    if "/" in name:
        return (name, *rest)
    folders = [each for each in environ.get("PATH", os.defpath).split(os.pathsep) if each.startswith("/")]
    found = shutil.which(name, path=os.pathsep.join(folders)) if folders else None
    if found is None:
        raise ToolError(f"The program {name!r} is not installed on this machine.")
    return (found, *rest)


def start_error(command: Command, argv: tuple[str, ...], step: str, number: int) -> ToolError:
    """Why a command does not run, in a sentence."""
    why = os.strerror(number) if number else "the process that was to start it ended"
    match step, number:
        case "cwd", _:
            return ToolError(f"Cannot run commands in {command.cwd}: {why}.")
        case "program", errno.E2BIG:
            size = sum(len(os.fsencode(word)) for word in argv)
            return ToolError(
                f"The command is too long to be started ({size:,} bytes; one argument may have 128 KiB): "
                "write the long part to a file and use that."
            )
        case "program", errno.ENOENT:
            return ToolError(f"{argv[0]} does not exist, or its interpreter does not.")
        case "program", _:
            return ToolError(f"{argv[0]} cannot be run: {why}.")
        case "network", _:
            return ToolError(f"The command's own network cannot be used ({why}). Try again.")
        case "fork", _:
            return ToolError(
                f"The machine cannot start another process now ({why}): stop something, or try again later."
            )
        case _:
            return ToolError(f"The command could not be started ({step}: {why}).")
