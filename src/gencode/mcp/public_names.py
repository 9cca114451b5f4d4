"""Names of MCP tools as models see them (`mcp__server__tool`), and the patterns that select them.

A model's tool has at most 64 of the characters `A-Z a-z 0-9 _ -`. A server's part of the name never holds two
underscores in a row, so the next two end it and no two servers can share a name.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from hashlib import sha256

from gencode.core.rules import Action, Rule

PREFIX = "mcp__"
LONGEST = 64
_LONGEST_SERVER = 24
_MARK = 6

_OTHERS = re.compile(r"[^A-Za-z0-9_-]")
_RUNS = re.compile(r"__+")


def server_labels(names: Iterable[str]) -> dict[str, str]:
    """The part of tool names for each server."""
    return _distinct(sorted(set(names)), _server_part, _LONGEST_SERVER)


def tool_names(label: str, names: Iterable[str]) -> dict[str, str]:
    """The public names of the tools of one server, by the server's own names."""
    head = f"{PREFIX}{label}__"
    room = LONGEST - len(head)
    parts = _distinct(sorted(set(names)), lambda name: _OTHERS.sub("_", name), room)
    return {name: f"{head}{part}" for name, part in parts.items()}


def is_pattern(text: str) -> bool:
    """Whether a name in an agent's file selects tools of MCP servers."""
    return text.startswith(PREFIX) or text == PREFIX.rstrip("_")


def matches(pattern: str, label: str, tool: str) -> bool:
    """Whether a pattern (`mcp__server`, `mcp__server__*`, `mcp__*` or a full name) selects a tool."""
    if pattern in (f"{PREFIX}{label}", "mcp", "mcp__*"):
        return True
    return fnmatchcase(tool, pattern.replace("[", "[[]"))


def denies_all(rule: Rule, label: str) -> bool:
    """Whether a rule denies all calls of all tools of a server."""
    if rule.action is not Action.DENY or not rule.blanket or not rule.names(f"{PREFIX}{label}__"):
        return False
    return rule.tool.endswith("*") or rule.tool.casefold() == f"{PREFIX}{label}".casefold()


def _server_part(name: str) -> str:
    return _RUNS.sub("_", _OTHERS.sub("_", name)).strip("_") or "server"


def _distinct(names: list[str], cleaned: Callable[[str], str], room: int) -> dict[str, str]:
    """Short, valid and distinct names. A valid one stays; one that would be ambiguous gets a suffix.

    The suffix is a hash of the name, so it is the same in every session.
    """
    short = {name: cleaned(name) for name in names}
    counts = Counter(part.casefold() for part in short.values())
    return {
        name: part
        if len(part) <= room and part and (part == name or counts[part.casefold()] == 1)
        else _marked(name, part, room)
        for name, part in short.items()
    }


def _marked(name: str, part: str, room: int) -> str:
    mark = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]
    return f"{part[: room - _MARK - 1].rstrip('_')}_{mark}"
