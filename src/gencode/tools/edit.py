"""tools: Edit, exact replacements in a file, all of them or none."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

from msgspec import UNSET, UnsetType

from gencode.core.errors import ToolError
from gencode.permissions.paths import Resolved
from gencode.runtime.openers import NotThere, open_for_reading
from gencode.runtime.toolbox import Param, ToolContext, ToolOutput, tool
from gencode.tools.changes import CancelFlag, apply_change, as_seen, change, check_missing
from gencode.tools.diffs import difference
from gencode.tools.files import missing, relative
from gencode.tools.replacing import Edit, Edited, Span, edited
from gencode.tools.textfile import TextFile, counted, read_text

_SHOWN_PLACES = 8
_SHOWN_LINES = 12
_AROUND = 2
_LONGEST_LINE = 200
_Text = str | UnsetType
_Edits = list[Edit] | UnsetType


async def preview(
    ctx: ToolContext,
    file_path: str,
    old_string: _Text = UNSET,
    new_string: _Text = UNSET,
    replace_all: bool = False,
    edits: _Edits = UNSET,
) -> str:
    """The difference that the edits would make."""
    return await asyncio.to_thread(
        _compared, ctx, file_path, _asked(old_string, new_string, replace_all, edits)
    )


@tool(effect="write", name="Edit", aliases=("edit_file", "MultiEdit"), preview=preview)
async def EDIT(
    ctx: ToolContext,
    file_path: Annotated[str, Param(also=("path",))],
    old_string: Annotated[
        _Text, Param("The exact text, without Read's line numbers", also=("old_text",))
    ] = UNSET,
    new_string: Annotated[_Text, Param("What replaces it", also=("new_text",))] = UNSET,
    replace_all: Annotated[bool, "Wherever it is; else it must be there once"] = False,
    edits: Annotated[_Edits, "Several at once instead, in order, all or none"] = UNSET,
) -> ToolOutput:
    """Replace text in a file that you have Read; encoding and line ends are kept.

    Give enough lines to name one place. An empty old_string fills a new file.
    """
    asked = _asked(old_string, new_string, replace_all, edits)
    return await apply_change(ctx, lambda wanted: _edit(ctx, file_path, asked, wanted))


def _asked(old: _Text, new: _Text, replace_all: bool, edits: _Edits) -> Sequence[Edit]:
    if edits:
        if old or new:
            raise ToolError("Give either old_string and new_string, or edits, not both.")
        return edits
    if isinstance(old, UnsetType) or isinstance(new, UnsetType):
        raise ToolError("Give old_string and new_string (an empty new_string deletes), or edits.")
    return (Edit(old, new, replace_all),)


def _edit(ctx: ToolContext, file_path: str, edits: Sequence[Edit], wanted: CancelFlag) -> ToolOutput:
    place = ctx.place(file_path)
    shown = relative(ctx.workspace, place.real)
    try:
        with open_for_reading(place) as opened:
            state = as_seen(ctx, place, opened)
            file = read_text(opened, shown)
    except NotThere:
        check_missing(ctx, place)
        state, file = None, _new(place, shown, edits)
    done = edited(file, edits, shown, wanted.check)
    data = file.bytes_with(done.text)
    wanted.check()
    written = change(ctx, place, data, state or "absent")
    head = f"Edited {shown}: {counted(done.changes, 'place')} changed." if state else f"Created {shown}."
    return ToolOutput(f"{head}\n{_excerpt(done, file)}", written)


def _compared(ctx: ToolContext, file_path: str, edits: Sequence[Edit]) -> str:
    place = ctx.place(file_path)
    shown = relative(ctx.workspace, place.real)
    try:
        with open_for_reading(place) as opened:
            file = read_text(opened, shown)
    except NotThere:
        file = _new(place, shown, edits)
    return difference(file.text, edited(file, edits, shown, lambda: None).text)


def _new(place: Resolved, shown: str, edits: Sequence[Edit]) -> TextFile:
    """A file that is still to be made, which only an empty old_string does."""
    if edits[0].old_string:
        raise missing(place.real, shown)
    return TextFile()


def _excerpt(done: Edited, file: TextFile) -> str:
    """The changed places as they are now, with the lines around them and their numbers."""
    lines = done.text.split("\n")
    lines = lines if lines[-1] else lines[:-1]
    blocks = _blocks(done)
    shown: list[str] = []
    for first, last in blocks[:_SHOWN_PLACES]:
        stretch = lines[first : last + 1]
        shown += [
            f"{number:>6}\t{_line(line, file)}"
            for number, line in enumerate(stretch[:_SHOWN_LINES], first + 1)
        ]
        if len(stretch) > _SHOWN_LINES:
            shown.append(f"[… {counted(len(stretch) - _SHOWN_LINES, 'more line')}]")
    if len(blocks) > _SHOWN_PLACES or done.changes > len(done.places):
        shown.append("[… and more places]")
    return "\n".join(shown)


def _blocks(done: Edited) -> list[Span]:
    """The lines to show, counted from 0: first and last of each stretch, none of which touch."""
    blocks: list[Span] = []
    for start, end in sorted(done.places):
        line = done.text.count("\n", 0, start)
        first = max(0, line - _AROUND)
        last = line + done.text.count("\n", start, max(start, end - 1)) + _AROUND
        if blocks and first <= blocks[-1][1] + 1:
            blocks[-1] = (blocks[-1][0], max(last, blocks[-1][1]))
        else:
            blocks.append((first, last))
    return blocks


def _line(line: str, file: TextFile) -> str:
    """A line as Read shows it, not too long."""
    line = line.removesuffix("\r")
    if file.codec == "latin-1":
        with suppress(UnicodeDecodeError):
            line = line.encode("latin-1").decode()
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} [… the line goes on]"
