"""Findings and errors about agent files, with the file and the line."""

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.text import one_line


class FileFinding(Struct, frozen=True):
    """One thing to know about a file: a short code for programs, a sentence, and the line if there is one."""

    code: str
    message: str
    line: int | None = None


class NotAnAgent(UserMistake):
    """A file that does not even look like an agent, such as a README: nobody may have meant it as one."""


def mistake(path: str, reason: str, line: int | None = None) -> UserMistake:
    """A sentence that says which file, where in it, and what is wrong."""
    return UserMistake(_sentence(path, reason, line))


def no_agent(path: str, reason: str) -> NotAnAgent:
    """The same for a file that does not look like an agent."""
    return NotAnAgent(_sentence(path, reason, None))


def _sentence(path: str, reason: str, line: int | None) -> str:
    place = one_line(path, 400) + (f", line {line}" if line else "")
    return f"{place}: {reason if reason.endswith(('.', '?')) else reason + '.'}"


def recovered(message: str, line: int | None = None) -> FileFinding:
    """What had to be repaired or left out before a file could be read."""
    return FileFinding("recovered", message, line)
