"""Edit: exact text replacements in a file, all of them or none, and why a text was not found."""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import SequenceMatcher, get_close_matches
from heapq import nlargest
from typing import Annotated, NamedTuple

from msgspec import UNSET, Struct, UnsetType

from gencode.agent.toolbox import Param, ToolContext, ToolOutput, tool
from gencode.core.errors import ToolError
from gencode.core.structs import replace
from gencode.core.text import counted
from gencode.files.safe_files import PathMissing, open_for_reading
from gencode.permissions.paths import Resolved
from gencode.tools.file_changes import CancelFlag, apply_change, as_seen, change, check_missing, difference
from gencode.tools.files import missing, relative, size_text
from gencode.tools.text_files import LARGEST, TextFile, checked, read_text

LONGEST_LINE = 300
_BEGINNING = 120
_COMPARED_LINES = 20_000
_LONGEST_OLD = 200
_MOST_ALIKE = 3_000
_MOST_COMPARED = 20
_ALIKE = 0.6
_NEARBY_LINES = 12
_NUMBERED = re.compile(r" *\d+\t")


def why_not_found(text: str, old: str, new: str) -> str:
    """A hint why `old` was not found in `text`: what differs, or the nearest lines."""
    if old.strip() and all(_NUMBERED.match(line) for line in old.split("\n") if line):
        return "Leave out the line numbers that Read puts before each line."
    if old.replace("\r\n", "\n") in text.replace("\r\n", "\n"):
        ends = "some lines of the file end with CR LF" if "\r\n" in text else "the file has LF alone"
        return f"Only the line endings differ: {ends}; write them the same way."
    lines = [line.removesuffix("\r") for line in text.split("\n", _COMPARED_LINES)[:_COMPARED_LINES]]
    if found := _ignoring_whitespace(lines, old):
        return f"Only whitespace differs; the file has:\n{_numbered(lines, *found)}"
    if len(new) > 1 and new in text:
        line = text.count("\n", 0, text.index(new)) + 1
        return f"new_string is already in line {line}; perhaps this edit was made before."
    if near := _nearest(lines, old):
        return f"The nearest lines are:\n{near}"
    return "Read the file again and copy the text exactly."


def _ignoring_whitespace(lines: list[str], old: str) -> tuple[int, int] | None:
    """Where the text differs only in whitespace: the first line, and how many."""
    wanted = [_squeezed(line) for line in old.strip("\r\n").split("\n")]
    if not any(wanted) or len(wanted) > _LONGEST_OLD:
        return None
    squeezed = [_squeezed(line) for line in lines]
    count = len(wanted)
    for at, line in enumerate(squeezed):
        if wanted[0] in line and (count == 1 or squeezed[at : at + count - 1][1:] == wanted[1:-1]):
            ends = squeezed[at + count - 1] if at + count <= len(squeezed) else ""
            if count == 1 or (line.endswith(wanted[0]) and ends.startswith(wanted[-1])):
                return at, count
    return None


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _nearest(lines: list[str], old: str) -> str:
    """The lines most similar to the first line of `old` that is not blank.

    The exact comparison is slow, so it is made only for lines with nearly the same characters.
    """
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")[:_BEGINNING]
    if not wanted:
        return ""
    known: dict[str, int] = {}
    for number, line in enumerate(lines[:_MOST_ALIKE]):
        known.setdefault(line.strip()[:_BEGINNING], number)
    matcher = SequenceMatcher(b=wanted)
    alike: list[tuple[float, str]] = []
    for line in known:
        matcher.set_seq1(line)
        if matcher.real_quick_ratio() >= _ALIKE:
            alike.append((matcher.quick_ratio(), line))
    close = get_close_matches(wanted, [line for _, line in nlargest(_MOST_COMPARED, alike)], cutoff=_ALIKE)
    return "\n".join(_numbered(lines, known[line], 1) for line in close)


def _numbered(lines: list[str], first: int, count: int) -> str:
    shown = [
        f"{number}\t{line[:LONGEST_LINE]}"
        for number, line in enumerate(lines[first : first + min(count, _NEARBY_LINES)], first + 1)
    ]
    return "\n".join(shown)


_NAMED_LINES = 10
_KEPT_PLACES = 20
"""So many changed places are remembered to be shown; more may have been changed."""

Span = tuple[int, int]


# Without a docstring: it would be in every prompt.
class Edit(Struct, frozen=True):
    old_string: str
    new_string: str
    replace_all: bool = False


class Edited(NamedTuple):
    """The new text, how many places were changed, and where the first of them are in it.

    `firsts` has the index of the first place of each edit.
    """

    text: str
    changes: int = 0
    places: tuple[Span, ...] = ()
    firsts: tuple[int, ...] = ()

    @property
    def lines(self) -> tuple[int, ...]:
        """The line at which each edit begins; those beyond the places that are remembered are left out."""
        known = [self.places[first] for first in self.firsts if first < len(self.places)]
        return tuple(self.text.count("\n", 0, start) + 1 for start, _ in known)


def edited(file: TextFile, edits: Sequence[Edit], shown: str, check: Callable[[], None]) -> Edited:
    """Apply every edit to the text of a file; ToolError says which one does not fit and why.

    `check` is called between edits: it raises when the call was cancelled.
    """
    done, crlf = Edited(file.text), file.crlf
    for number, edit in enumerate(edits, 1):
        check()
        try:
            spelled = _spelled(edit, crlf)
            spelled = _as_bytes(spelled, done.text) if file.codec == "latin-1" else spelled
            done = _apply(done, spelled, shown)._replace(firsts=(*done.firsts, len(done.places)))
        except ToolError as error:
            which = f"Edit {number} of {len(edits)}: " if len(edits) > 1 else ""
            raise ToolError(f"{which}{error}\nNothing was changed.") from None
    return done


def _spelled(edit: Edit, crlf: bool) -> Edit:
    """An edit with the line ends of the file."""
    old, new = checked(edit.old_string, "old_string"), checked(edit.new_string, "new_string")
    if crlf:
        old, new = (each.replace("\r\n", "\n").replace("\n", "\r\n") for each in (old, new))
    return Edit(old, new, edit.replace_all)


def _as_bytes(edit: Edit, text: str) -> Edit:
    """An edit as it stands in a file that is not UTF-8; single lines of it may be, as Read shows them."""
    old, new = edit.old_string, edit.new_string
    wide = old.encode().decode("latin-1")
    if wide != old and old not in text and wide in text:
        return Edit(wide, new.encode().decode("latin-1"), edit.replace_all)
    if beyond := next((char for char in new if ord(char) > 0xFF), ""):
        raise ToolError(f"The file is not UTF-8 but Latin-1, which has no {beyond!r}; do without it.")
    return edit


def _apply(done: Edited, edit: Edit, shown: str) -> Edited:
    text, old, new = done.text, edit.old_string, edit.new_string
    if old == new:
        raise ToolError("old_string and new_string are the same.")
    if not old:
        if text:
            raise ToolError(
                f"old_string is empty, but {shown} is not; say which text to replace, or use Write."
            )
        return Edited(new, 1, ((0, len(new)),))
    first = text.find(old)
    if first < 0:
        raise ToolError(f"old_string is not in {shown}. {why_not_found(text, old, new)}")
    if not edit.replace_all and text.find(old, first + 1) >= 0:
        raise ToolError(_ambiguous(text, old, shown))
    count = text.count(old)
    if len(text) + count * (len(new) - len(old)) > LARGEST:
        raise ToolError(f"{shown} would become larger than {size_text(LARGEST)}.")
    delta = len(new) - len(old)
    moved = [(_moved(start, text, old, delta), _moved(end, text, old, delta)) for start, end in done.places]
    fresh = [
        (at + number * delta, at + number * delta + len(new))
        for number, at in enumerate(_places(text, old, _KEPT_PLACES - len(moved)))
    ]
    return Edited(text.replace(old, new), done.changes + count, (*moved, *fresh))


def _moved(at: int, text: str, old: str, delta: int) -> int:
    """Where a place is after every `old` before it was replaced."""
    return max(0, at + text.count(old, 0, at) * delta)


def _places(text: str, old: str, most: int, step: int = 0) -> list[int]:
    """Where the first occurrences begin; with a step of 1 also those that overlap."""
    found: list[int] = []
    at = text.find(old) if most > 0 else -1
    while at >= 0 and len(found) < most:
        found.append(at)
        at = text.find(old, at + (step or len(old)))
    return found


def _ambiguous(text: str, old: str, shown: str) -> str:
    found = _places(text, old, _NAMED_LINES + 1, step=1)
    lines = [str(text.count("\n", 0, at) + 1) for at in found[:_NAMED_LINES]]
    rest = " and more" if len(found) > _NAMED_LINES else ""
    times = max(text.count(old), len(found))
    where = f"line{'' if len(set(lines)) == 1 and not rest else 's'} {', '.join(dict.fromkeys(lines))}{rest}"
    return (
        f"old_string is in {shown} {counted(times, 'time')} ({where}). "
        "Give more of the text around the one you mean, or set replace_all."
    )


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
    old_string: Annotated[_Text, Param(also=("old_text", "old_str"))] = UNSET,
    new_string: Annotated[_Text, Param(also=("new_text", "new_str"))] = UNSET,
    replace_all: Annotated[bool, "Replace every occurrence"] = False,
    edits: Annotated[_Edits, "Several replacements instead, in order, all or none"] = UNSET,
) -> ToolOutput:
    """Replace exact text in a file that you have Read.

    old_string must occur once, with its indentation and without Read's line numbers: add lines around it
    until it is unique, or set replace_all.
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
    except PathMissing:
        check_missing(ctx, place)
        state, file = None, _new(place, shown, edits)
    done = edited(file, edits, shown, wanted.check)
    data = file.bytes_with(done.text)
    wanted.check()
    written = change(ctx, place, data, state or "absent")
    head = f"Edited {shown}: {counted(done.changes, 'place')} changed." if state else f"Created {shown}."
    return ToolOutput(f"{head}\n{_excerpt(done, file)}", replace(written, lines=done.lines))


def _compared(ctx: ToolContext, file_path: str, edits: Sequence[Edit]) -> str:
    place = ctx.place(file_path)
    shown = relative(ctx.workspace, place.real)
    try:
        with open_for_reading(place) as opened:
            as_seen(ctx, place, opened)
            file = read_text(opened, shown)
    except PathMissing:
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
            f"{number}\t{_line(line, file)}" for number, line in enumerate(stretch[:_SHOWN_LINES], first + 1)
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
