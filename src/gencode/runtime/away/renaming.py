"""away: names in the sender's folder, as an agent that works in a copy of it is often given, mean the copy.

A call is renamed before it is judged, so that the decision and the tool see the same path.
"""

import os
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from gencode.core.messages import ToolCall
from gencode.core.spec import Copied
from gencode.permissions.decision import path_fields
from gencode.permissions.paths import PATH_TOOLS, is_inside


def renamed(call: ToolCall, tool: str, copied: Copied) -> ToolCall:
    """A call of a tool for files with its paths as they are in the copy."""
    if tool not in PATH_TOOLS:
        return call
    given: dict[str, Any] = call.input
    fields = path_fields(tool, given)
    named = {
        name: _in_copy(text, copied, _pattern if name == "pattern" else _path)
        for name, text in given.items()
        if name in fields and isinstance(text, str)
    }
    same = all(given[name] == text for name, text in named.items())
    return call if same else replace(call, input={**given, **named})


def in_copy(text: str, copied: Copied) -> str:
    """A path as it is in the copy, if it is one in the folder that this is a copy of; else as it was."""
    return _in_copy(text, copied, _path)


def _in_copy(text: str, copied: Copied, normal: Callable[[str], str]) -> str:
    written = text
    if copied.home and (text == "~" or text.startswith("~/")):
        written = copied.home + text[1:]
    if not written.startswith("/"):
        return text
    path = normal(written)
    if not is_inside(path, copied.of) or any(is_inside(path, each) for each in copied.keeps):
        return text
    below = path.removeprefix(copied.of.rstrip("/"))
    return f"{copied.top}{below}"


def _path(text: str) -> str:
    """Without `..`: what would climb out of the folder is none of its names, whatever links there are."""
    return os.path.normpath(f"/{text.lstrip('/')}")


def _pattern(text: str) -> str:
    """A pattern with `..` is left to the decision: it depends on what its wildcards find."""
    return "" if ".." in text.split("/") else _path(text)
