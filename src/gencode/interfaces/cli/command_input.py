"""Piped input: read when something comes within three seconds, never waited for at a terminal."""

import argparse
import json
import os
import select
import stat
import sys
from pathlib import Path
from typing import Any

from gencode.core.errors import UserMistake
from gencode.interfaces.render.plain_text import note

WAIT_SECONDS = 3.0
LARGEST = 10_000_000


def piped_text() -> str:
    """What was piped in, as text; nothing at a terminal, without stdin, or from a pipe that stays silent."""
    try:
        source = sys.stdin.fileno()
        if sys.stdin.isatty() or not _may_speak(source):
            return ""
        content = _read(source)
    except (AttributeError, OSError, ValueError):  # no stdin at all, closed, or a folder
        return ""
    if len(content) > LARGEST:
        note(f"The piped input is too long; only its first {LARGEST:,} bytes are used.")
    return content[:LARGEST].decode("utf-8", "replace")


def whole_input(what: str) -> str:
    """All of stdin for a command that needs it."""
    text = piped_text()
    if not text.strip():
        raise UserMistake(f"Stdin is empty; {what}.")
    return text


def text_or_input(typed: str, what: str) -> str:
    """What was typed, or all of stdin for a `-`."""
    return whole_input(what) if typed == "-" else typed


def _may_speak(source: int) -> bool:
    """Whether data or the end comes soon enough. Files always answer, and epoll would refuse them."""
    kind = os.fstat(source).st_mode
    if stat.S_ISREG(kind):
        return True
    ready, _, _ = select.select([source], [], [], WAIT_SECONDS)
    return bool(ready)


def _read(source: int) -> bytes:
    content = bytearray()
    while len(content) <= LARGEST and (piece := os.read(source, 1 << 16)):
        content += piece
    return bytes(content)


def schema(args: argparse.Namespace) -> dict[str, Any] | None:
    """The JSON Schema of the file that was named, if one was; a UserMistake when it is none."""
    if "output_schema" not in args:
        return None
    path = Path(args.output_schema)
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise UserMistake(f"Cannot read the schema {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise UserMistake(f"The schema {path} is not JSON: {error}.") from None
    from gencode.agent.output_schema import check_schema

    return check_schema(found)
