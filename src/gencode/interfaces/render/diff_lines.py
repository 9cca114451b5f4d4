"""What a call changed, as lines of a diff, from what the call itself says."""

from collections.abc import Iterator
from difflib import unified_diff
from typing import Any, cast

MOST_LINES = 400
MOST_COMPARED = 2_000


def diff_of(tool: str, arguments: dict[str, Any]) -> list[str]:
    """The lines that an Edit takes away and puts in, or that a Write writes; none for other tools."""
    match tool:
        case "Edit" | "edit_file" | "MultiEdit":
            lines = [line for edit in _edits(arguments) for line in _compared(*edit)]
        case "Write" | "write_file":
            content = arguments.get("content", "")
            lines = [f"+{line}" for line in content.splitlines()] if isinstance(content, str) else []
        case _:
            return []
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"… {len(lines) - MOST_LINES} more lines"]
    return lines


def _edits(arguments: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Pairs of what goes and what comes."""
    several = arguments.get("edits")
    listed = cast("list[Any]", several) if isinstance(several, list) else [arguments]
    for each in listed:
        if isinstance(each, dict):
            edit = cast("dict[str, Any]", each)
            old = edit.get("old_string", edit.get("old_text", ""))
            new = edit.get("new_string", edit.get("new_text", ""))
            if isinstance(old, str) and isinstance(new, str):
                yield old, new


def _compared(old: str, new: str) -> list[str]:
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > MOST_COMPARED:
        return [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    return list(unified_diff(before, after, lineterm="", n=2))[2:]


def kind_of(line: str) -> str:
    """What a line of a diff does: `added`, `removed`, `place` or `kept`."""
    if line.startswith("+"):
        return "added"
    if line.startswith("-"):
        return "removed"
    return "place" if line.startswith("@@") else "kept"
