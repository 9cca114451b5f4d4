"""JSON-RPC over stdio, for ACP and MCP: takes over stdin and stdout, and finds the id of broken messages."""

import json
import os
import re
from typing import Any, cast

HEAD = 2_000
"""Bytes at each end of a line that is too long which are kept, to find its id in them."""
_ID = r'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9]{1,18})\s*'
_EARLIER = r'"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*'
_BEGINNING = re.compile(rf"\s*\{{\s*(?:{_EARLIER})*{_ID}[,}}]")
_END = re.compile(rf"[\]}}\"]\s*,\s*{_ID}\}}\s*$")
"""An id after everything else: the brace after it ends the message."""

Id = str | int | None


def id_in(value: object) -> Id:
    """A value as the id of a response; None for what is not an id."""
    if isinstance(value, bool):
        return None
    return value if isinstance(value, str | int) else None


def id_at_an_end(head: bytes, tail: bytes = b"") -> Id:
    """The id of a message of which only the ends are known; None if it is not in them."""
    found = _BEGINNING.match(head.decode("utf-8", "replace")) or _END.search(tail.decode("utf-8", "replace"))
    if found is None:
        return None
    try:
        return id_in(json.loads(found[1]))
    except ValueError:
        return None


def decode_leniently(line: bytes) -> dict[str, Any] | None:
    """An invalid line, decoded leniently: broken characters are replaced. None if it is not an object.

    Only for its id, so that it can be answered; nothing else of it may be used.
    """
    try:
        found: object = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def take_stdio() -> tuple[int, int]:
    """Handles for stdin and stdout that only the protocol uses.

    What anybody else prints goes to stderr from now on, and whoever reads stdin finds it empty.
    """
    incoming, outgoing = _duplicate(0), _duplicate(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    return incoming, outgoing


def _duplicate(handle: int) -> int:
    try:
        return os.dup(handle)
    except OSError:  # it was closed before we started
        return os.open(os.devnull, os.O_RDWR)
