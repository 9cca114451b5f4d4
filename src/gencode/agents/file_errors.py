"""Findings and errors about agent files, with the file and the line."""

from collections.abc import Sequence

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.text import one_line


class FileFinding(Struct, frozen=True):
    """One thing to know about a file: a short code for programs, a sentence, and the line if there is one."""

    code: str
    message: str
    line: int | None = None


class NotAnAgent(UserMistake):
    """A file that does not look like an agent at all, such as a README."""


class BrokenAgentFile(UserMistake):
    """An agent file that cannot be used: all reasons, and what else was noticed in it."""

    def __init__(self, sentence: str, findings: tuple[FileFinding, ...] = ()) -> None:
        super().__init__(sentence)
        self.findings = findings


def mistake(path: str, reason: str, line: int | None = None) -> UserMistake:
    """An error message that names the file, the line and the mistake."""
    return UserMistake(_sentence(path, reason, line))


def mistakes(path: str, reasons: Sequence[tuple[str, int | None]]) -> str:
    """The same for several mistakes, each with its line; a repeated one is given once."""
    by_line: dict[int | str, tuple[str, int | None]] = {}
    for reason, line in reasons:
        by_line.setdefault(line or reason, (reason, line))
    (first, line), *others = by_line.values()
    rest = [f"{f'Line {line}: ' if line else ''}{_ended(reason)}" for reason, line in others]
    return " ".join([_sentence(path, first, line), *rest])


def no_agent(path: str, reason: str) -> NotAnAgent:
    """The same for a file that does not look like an agent."""
    return NotAnAgent(_sentence(path, reason, None))


def _sentence(path: str, reason: str, line: int | None) -> str:
    place = one_line(path, 400) + (f", line {line}" if line else "")
    return f"{place}: {_ended(reason)}"


def _ended(reason: str) -> str:
    return reason if reason.endswith((".", "?")) else f"{reason}."


def recovered(message: str, line: int | None = None) -> FileFinding:
    """What had to be repaired or left out before a file could be read."""
    return FileFinding("recovered", message, line)
