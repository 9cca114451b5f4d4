"""Agents room: what was noticed while a file was read."""

from msgspec import Struct


class Finding(Struct, frozen=True):
    """One thing to know about a file: a short code for programs, a sentence, and the line if there is one."""

    code: str
    message: str
    line: int | None = None


def recovered(message: str, line: int | None = None) -> Finding:
    """What had to be repaired or left out before a file could be read."""
    return Finding("recovered", message, line)
