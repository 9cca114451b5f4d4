"""Safe changes of files for Write, Edit and others: a stale file is refused, with who changed it; diffs."""

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import BinaryIO, TypeVar

from gencode.agent.toolbox import ToolContext
from gencode.core.errors import ToolError
from gencode.core.messages import FileChange, FileSeen, Trace
from gencode.core.text import shortened
from gencode.files.file_versions import as_text
from gencode.files.safe_files import (
    Expected,
    FileChanged,
    FileIdentity,
    identity_of,
    open_for_reading,
    replace_file,
)
from gencode.permissions.paths import Resolved
from gencode.tools.files import relative

ChangeResult = TypeVar("ChangeResult")
LARGEST_HASHED = 50_000_000


class ChangeCancelled(ToolError):
    """The call was cancelled before the change was made."""


class StaleFile(ToolError):
    """A file has changed since the agent read it; `path` and `sha256` are what it is now."""

    def __init__(self, path: str, sha256: str, text: str) -> None:
        super().__init__(text)
        self.path = path
        self.sha256 = sha256


class CancelFlag:
    """A flag that the caller of a change was cancelled, set from another thread."""

    def __init__(self) -> None:
        self._gone = threading.Event()

    def check(self) -> None:
        """Raise ChangeCancelled when it was."""
        if self._gone.is_set():
            raise ChangeCancelled("The call was stopped before it changed anything.")

    def drop(self) -> None:
        """Set the flag."""
        self._gone.set()


async def apply_change(ctx: ToolContext, work: Callable[[CancelFlag], ChangeResult]) -> ChangeResult:
    """Run work that changes a file; an error about a stale file names the agent that changed it."""
    try:
        return await run_to_completion(work)
    except StaleFile as stale:
        who = await ctx.delegate.author(stale.path, stale.sha256) if ctx.delegate else ""
        if not who:
            raise
        raise ToolError(f"{stale.path} changed since it was read (by {who}); Read it again first.") from None


async def run_to_completion(work: Callable[[CancelFlag], ChangeResult]) -> ChangeResult:
    """Run blocking work in a thread; a cancelled caller waits for it, so no change comes after its end."""
    wanted = CancelFlag()
    running = asyncio.ensure_future(asyncio.to_thread(work, wanted))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        wanted.drop()
        await asyncio.wait([running])
        running.exception()
        raise


def as_seen(ctx: ToolContext, place: Resolved, file: BinaryIO) -> FileIdentity:
    """The state of an open file, if the agent has read it so; otherwise ToolError says to Read it."""
    now, seen = identity_of(file), ctx.seen.state(place.real)
    shown = relative(ctx.workspace, place.real)
    if seen is None:
        raise ToolError(f"{shown} exists and was not read in this task; Read it first, then change it.")
    if seen != now:
        digest = hash_of(file, LARGEST_HASHED)
        if ctx.seen.has_seen(place.real, digest):
            ctx.seen.note(place.real, now, digest)
            return now
        if who := author_note(ctx, place):
            raise ToolError(f"{shown} changed since it was read{who}; Read it again first.")
        raise StaleFile(shown, digest, f"{shown} changed since it was read; Read it again first.")
    return now


def check_missing(ctx: ToolContext, place: Resolved) -> None:
    """ToolError, once, for a file that is not there because another agent deleted it since it was read."""
    who = author_note(ctx, place) if ctx.seen.state(place.real) else ""
    if who:
        shown = relative(ctx.workspace, place.real)
        ctx.seen.forget(place.real)
        raise ToolError(f"{shown} was deleted since it was read{who}; if it should be there, Write it again.")


def hash_of(file: BinaryIO, most: int) -> str:
    """The hash of what is in an open file, which is then at its beginning again; empty for a larger one."""
    if os.fstat(file.fileno()).st_size > most:
        return ""
    data = file.read(most + 1)
    file.seek(0)
    return hashlib.sha256(data).hexdigest() if len(data) <= most else ""


def author_note(ctx: ToolContext, place: Resolved) -> str:
    """The agent that changed a file, as ` (by AGENT)`; empty when that is not known."""
    who = ctx.seen.author(place.real)
    return f" (by {who})" if who else ""


def change(ctx: ToolContext, place: Resolved, data: bytes, expected: Expected) -> Trace:
    """Replace a judged file, remember its new state, and say what it became."""
    digest, shown = hashlib.sha256(data).hexdigest(), relative(ctx.workspace, place.real)
    ctx.keep_before((place.real, digest))
    try:
        ctx.seen.wrote(place.real, replace_file(place, data, expected=expected), digest)
    except FileChanged as error:
        if who := author_note(ctx, place):
            raise ToolError(f"{shown} changed since it was read{who}; Read it again first.") from None
        raise StaleFile(shown, _hash_now(place), str(error)) from None
    return Trace(changed=(FileChange(shown, digest),), seen=known_as(shown, place.real, digest))


def _hash_now(place: Resolved) -> str:
    """The hash of what is at a path by now, if that can be read."""
    try:
        with open_for_reading(place) as file:
            return hash_of(file, LARGEST_HASHED)
    except (ToolError, OSError):
        return ""


def known_as(shown: str, real: str, sha256: str, state: FileIdentity | None = None) -> tuple[FileSeen, ...]:
    """What a journal keeps of a file that its agent knows now; nothing of one that has another name there."""
    if not real.isprintable():
        return ()
    return (FileSeen(shown, sha256, "" if sha256 or state is None else as_text(state)),)


MOST_LINES = 200
LONGEST_LINE = 500
_MOST_REMOVED = 90
_CONTEXT = 3
_MOST_COMPARED = 600
"""Longer stretches are shown as a whole: comparing hostile ones line by line could take minutes."""

_UNENDED = "\n\\ No newline at end of file"
_Step = tuple[str, int, int, int, int]


def difference(before: str, after: str) -> str:
    """A unified diff without its file names, in at most `MOST_LINES` lines and a note about the rest."""
    if 0 < before.count("\n") == before.count("\r\n") and after.count("\n") == after.count("\r\n"):
        before, after = before.replace("\r\n", "\n"), after.replace("\r\n", "\n")
    old, new = _lines(before), _lines(after)
    shown = list(_hunks(old, new))
    if len(shown) > MOST_LINES:
        rest = len(shown) - MOST_LINES
        shown[MOST_LINES:] = [f"[… {rest:,} more lines of this diff are not shown]"]
    return "\n".join(shown) or "(no changes)"


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1]:
        lines[-1] += _UNENDED
    else:
        lines.pop()
    return lines


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    top = _alike(zip(old, new, strict=False))
    most = min(len(old), len(new)) - top
    bottom = min(_alike(zip(reversed(old), reversed(new), strict=False)), most)
    ends = (len(old) - bottom, len(new) - bottom)
    if top == ends[0] and top == ends[1]:
        return
    for steps in _groups(old, new, top, ends):
        yield _header(steps)
        for kind, old_at, old_end, new_at, new_end in steps:
            if kind == "equal":
                yield from _marked(" ", old[old_at:old_end])
            else:
                yield from _removed(old[old_at:old_end])
                yield from _marked("+", new[new_at:new_end])


def _alike(pairs: Iterable[tuple[str, str]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _groups(
    old: Sequence[str], new: Sequence[str], top: int, ends: tuple[int, int]
) -> Iterable[Sequence[_Step]]:
    """The steps from one text to the other, those that are near each other together."""
    first = max(0, top - _CONTEXT)
    last = (min(len(old), ends[0] + _CONTEXT), min(len(new), ends[1] + _CONTEXT))
    if max(last) - first > _MOST_COMPARED:
        return [
            [
                ("equal", first, top, first, top),
                ("replace", top, ends[0], top, ends[1]),
                ("equal", ends[0], last[0], ends[1], last[1]),
            ]
        ]
    matcher = SequenceMatcher(None, old[first : last[0]], new[first : last[1]], autojunk=False)
    return [
        [(kind, a + first, b + first, c + first, d + first) for kind, a, b, c, d in group]
        for group in matcher.get_grouped_opcodes(_CONTEXT)
    ]


def _header(steps: Sequence[_Step]) -> str:
    first, last = steps[0], steps[-1]
    old, new = (first[1], last[2]), (first[3], last[4])
    spans = [f"{start + (end > start)},{end - start}" for start, end in (old, new)]
    return f"@@ -{spans[0]} +{spans[1]} @@"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    yield from (f"{mark}{shortened(line, LONGEST_LINE)}" for line in lines)


def _removed(lines: Sequence[str]) -> Iterator[str]:
    """Removed lines; very many are cut, so that the lines that replace them are shown too."""
    yield from _marked("-", lines[:_MOST_REMOVED])
    if len(lines) > _MOST_REMOVED:
        yield f"[… {len(lines) - _MOST_REMOVED:,} more lines are removed]"
