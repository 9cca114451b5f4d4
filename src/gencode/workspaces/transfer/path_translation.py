"""Translates paths of the original folder, which an agent in a copy is often given, to paths of the copy.

A call is translated before it is decided, so that the decision and the tool see the same path.
"""

import os
from collections.abc import Callable
from typing import Any, cast

from gencode.core.messages import ToolCall
from gencode.core.place import FolderCopy
from gencode.core.structs import replace
from gencode.permissions.decision import path_fields
from gencode.permissions.paths import PATH_TOOLS, is_inside

_DEEPEST = 8
"""How deep lists and objects in an argument are searched."""


def translated_call(call: ToolCall, tool: str, copied: FolderCopy, *, local: bool = False) -> ToolCall:
    """A call of a tool with its paths in the copy.

    Another program on this machine may take paths in any argument: for it, each text is translated that
    begins with `/` and is a path in the folder.
    """
    if local:
        means = {name: _deeply(value, copied, _DEEPEST) for name, value in call.input.items()}
        return call if means == call.input else replace(call, input=means)
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


def _deeply(value: Any, copied: FolderCopy, depth: int) -> Any:
    if isinstance(value, str):
        return path_in_copy(value, copied) if value.startswith("/") and value.isprintable() else value
    if isinstance(value, list) and depth:
        return [_deeply(each, copied, depth - 1) for each in cast(list[Any], value)]
    if isinstance(value, dict) and depth:
        return {name: _deeply(each, copied, depth - 1) for name, each in cast(dict[str, Any], value).items()}
    return cast(Any, value)


def path_in_copy(text: str, copied: FolderCopy) -> str:
    """A path in the copy, if it is one in the folder that this is a copy of; else unchanged."""
    return _in_copy(text, copied, _path)


def _in_copy(text: str, copied: FolderCopy, normal: Callable[[str], str]) -> str:
    for original in copied.originals:
        written = text
        if original.home and (text == "~" or text.startswith("~/")):
            written = original.home + text[1:]
        path = normal(written) if written.startswith("/") else ""
        if is_inside(path, original.folder) and not any(is_inside(path, each) for each in copied.keeps):
            return f"{copied.top}{path.removeprefix(original.folder.rstrip('/'))}"
    return text


def _path(text: str) -> str:
    """A path without `..`; empty for one that leads out of the folder, whatever links there are."""
    return os.path.normpath(f"/{text.lstrip('/')}")


def _pattern(text: str) -> str:
    """A pattern with `..` is left to the decision: its meaning depends on what its wildcards match."""
    return "" if ".." in text.split("/") else _path(text)
