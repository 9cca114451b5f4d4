"""Differences of files as numbered lines: those of a call that edits, and those of a unified diff."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, cast

from msgspec import Struct

from gencode.interfaces.render.number_format import counted

MOST_LINES = 400
MOST_COMPARED = 2_000
CONTEXT_LINES = 2
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
LineKind = Literal["added", "removed", "kept", "note"]


class DiffLine(Struct, frozen=True):
    """One line of a difference; `number` is its line in the file, 0 where that is not known."""

    kind: LineKind
    text: str
    number: int = 0

    @property
    def sign(self) -> str:
        """The sign before it: plus, minus or a space."""
        return {"added": "+", "removed": "-"}.get(self.kind, " ")


def diff_of_call(tool: str, arguments: dict[str, Any], starts: Sequence[int]) -> list[DiffLine]:
    """What an Edit removes and adds, or what a Write writes; nothing for other tools.

    `starts` has the line of the file at which each replacement of an Edit begins, once that is known.
    """
    match tool:
        case "Edit" | "edit_file" | "MultiEdit":
            edits = list(_edits(arguments))
            lines = [
                line
                for number, (old, new) in enumerate(edits)
                for line in _compared(
                    old, new, starts[number] if number < len(starts) else 0, alone=len(edits) == 1
                )
            ]
        case "Write" | "write_file":
            content = arguments.get("content", "")
            written = content.splitlines() if isinstance(content, str) else []
            lines = [DiffLine("added", line, number) for number, line in enumerate(written, 1)]
        case _:
            return []
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [DiffLine("note", f"… {counted(len(lines) - MOST_LINES, 'more line')}")]
    return lines


def unified_lines(diff: Sequence[str]) -> list[DiffLine]:
    """The lines of a unified diff with their numbers; what stands before its first hunk is a note."""
    found: list[DiffLine] = []
    old = new = 0
    for line in diff:
        if hunk := _HUNK.match(line):
            if new:
                found.append(DiffLine("note", "…"))
            old, new = int(hunk[1]), int(hunk[2])
        elif not (old or new) or line[:1] not in ("+", "-", " "):
            found.append(DiffLine("note", line))
        elif line[0] == "+":
            found.append(DiffLine("added", line[1:], new))
            new += 1
        elif line[0] == "-":
            found.append(DiffLine("removed", line[1:], old))
            old += 1
        else:
            found.append(DiffLine("kept", line[1:], new))
            old, new = old + 1, new + 1
    return found


def change_counts(lines: Sequence[DiffLine]) -> str:
    """How many lines are added and removed: `+4 -3`."""
    counts = (
        (sign, sum(line.kind == kind for line in lines)) for sign, kind in (("+", "added"), ("-", "removed"))
    )
    return " ".join(f"{sign}{count}" for sign, count in counts if count)


def _edits(arguments: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The texts that are replaced, each with the text that takes its place."""
    several = arguments.get("edits")
    listed = cast("list[Any]", several) if isinstance(several, list) else [arguments]
    for each in listed:
        if isinstance(each, dict):
            edit = cast("dict[str, Any]", each)
            old, new = (
                next((edit[name] for name in _NAMES[age] if name in edit), "") for age in ("old", "new")
            )
            if isinstance(old, str) and isinstance(new, str):
                yield old, new


_NAMES = {age: [f"{age}_{kind}" for kind in ("string", "str", "text")] for age in ("old", "new")}


def _compared(old: str, new: str, start: int, *, alone: bool) -> Iterator[DiffLine]:
    """The lines of one replacement. Where others come before it, removed lines have no number."""
    before, after = old.splitlines(), new.splitlines()

    def numbered(kind: LineKind, lines: Sequence[str], first: int) -> Iterator[DiffLine]:
        known = start and (alone or kind != "removed")
        for at, line in enumerate(lines, start + first):
            yield DiffLine(kind, line, at if known else 0)

    if len(before) + len(after) > MOST_COMPARED:
        yield from numbered("removed", before, 0)
        yield from numbered("added", after, 0)
        return
    groups = SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(CONTEXT_LINES)
    for number, group in enumerate(groups):
        if number:
            yield DiffLine("note", "…")
        for kind, old_at, old_end, new_at, new_end in group:
            if kind == "equal":
                yield from numbered("kept", after[new_at:new_end], new_at)
            else:
                yield from numbered("removed", before[old_at:old_end], old_at)
                yield from numbered("added", after[new_at:new_end], new_at)
