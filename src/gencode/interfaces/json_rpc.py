"""Whom to answer about a line of JSON-RPC that cannot be taken; two protocols ask here (surfaces)."""

import json
import re
from typing import Any, cast

HEAD = 2_000
"""So many bytes of a line that is too long are kept, to find its id in them."""
_ID = r'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9]{1,18})\s*'
_EARLIER = r'"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*'
_BEGINNING = re.compile(rf"\s*\{{\s*(?:{_EARLIER})*{_ID}[,}}]")
_END = re.compile(rf"[\]}}\"]\s*,\s*{_ID}\}}\s*$")
"""One brace at the end belongs to the message itself."""

Id = str | int | None


def id_in(value: object) -> Id:
    """A value as an id that an answer can carry; None for what is none."""
    if isinstance(value, bool):
        return None
    return value if isinstance(value, str | int) else None


def id_at_an_end(head: bytes, tail: bytes = b"") -> Id:
    """The id of a message of which only the ends are there; None where it does not stand there."""
    found = _BEGINNING.match(head.decode("utf-8", "replace")) or _END.search(tail.decode("utf-8", "replace"))
    if found is None:
        return None
    try:
        return id_in(json.loads(found[1]))
    except ValueError:
        return None


def roughly(line: bytes) -> dict[str, Any] | None:
    """What a line that was refused may have meant: halves of characters and bytes that are no text pass.

    Only to find out whom to answer; nothing of it may go further. None when it is no object at all.
    """
    try:
        found: object = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None
