"""tools: exact replacements in a text, one after the other, all of them or none."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from gencode.core.errors import ToolError
from gencode.tools.files import size_text
from gencode.tools.nearby import why_not_found
from gencode.tools.textfile import LARGEST, TextFile, checked, counted

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
    """The new text, how many places were changed, and where the first of them are in it."""

    text: str
    changes: int = 0
    places: tuple[Span, ...] = ()


def edited(file: TextFile, edits: Sequence[Edit], shown: str, check: Callable[[], None]) -> Edited:
    """The text of a file after every edit; ToolError says which one does not fit and why.

    `check` is called between edits: it raises when nobody waits for them any more.
    """
    done, crlf = Edited(file.text), file.crlf
    for number, edit in enumerate(edits, 1):
        check()
        try:
            spelled = _spelled(edit, crlf)
            spelled = _as_bytes(spelled, done.text) if file.codec == "latin-1" else spelled
            done = _apply(done, spelled, shown)
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
        raise ToolError(f"{shown} would become bigger than {size_text(LARGEST)}.")
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
