"""tools: what Write and Edit share: a change that is never left half done, noted, and told with its hash."""

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable
from typing import BinaryIO, TypeVar

from gencode.core.errors import ToolError
from gencode.core.messages import FileChange, FileSeen, Trace
from gencode.permissions.paths import Resolved
from gencode.runtime.openers import Changed, Expected, Identity, identity_of, open_for_reading, replace_file
from gencode.runtime.recalling import as_text
from gencode.runtime.toolbox import ToolContext
from gencode.tools.files import relative

ChangeResult = TypeVar("ChangeResult")
LARGEST_HASHED = 50_000_000


class ChangeCancelled(ToolError):
    """Nobody waits for the change any more; it was not made."""


class StaleFile(ToolError):
    """A file is not as the agent has seen it; `path` and `sha256` are what it is now."""

    def __init__(self, path: str, sha256: str, text: str) -> None:
        super().__init__(text)
        self.path = path
        self.sha256 = sha256


class CancelFlag:
    """Whether somebody still waits for a change."""

    def __init__(self) -> None:
        self._gone = threading.Event()

    def check(self) -> None:
        """Raise when nobody does."""
        if self._gone.is_set():
            raise ChangeCancelled("The call was stopped before it changed anything.")

    def drop(self) -> None:
        """Nobody does any more."""
        self._gone.set()


async def apply_change(ctx: ToolContext, work: Callable[[CancelFlag], ChangeResult]) -> ChangeResult:
    """Run work that changes a file; a file that another agent changed meanwhile is told with that agent."""
    try:
        return await run_to_completion(work)
    except StaleFile as stale:
        who = await ctx.delegate.author(stale.path, stale.sha256) if ctx.delegate else ""
        if not who:
            raise
        raise ToolError(f"{stale.path} changed since it was read (by {who}); Read it again first.") from None


async def run_to_completion(work: Callable[[CancelFlag], ChangeResult]) -> ChangeResult:
    """Run blocking work in a thread. Whoever is stopped waits for it: nothing is changed behind his back."""
    wanted = CancelFlag()
    running = asyncio.ensure_future(asyncio.to_thread(work, wanted))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        wanted.drop()
        await asyncio.wait([running])
        running.exception()
        raise


def as_seen(ctx: ToolContext, place: Resolved, file: BinaryIO) -> Identity:
    """The state of an open file, if this agent knows it so; ToolError tells it to read the file first."""
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
    """Which agent changed a file, in words; nothing when that is not known."""
    who = ctx.seen.author(place.real)
    return f" (by {who})" if who else ""


def change(ctx: ToolContext, place: Resolved, data: bytes, expected: Expected) -> Trace:
    """Replace a judged file, remember its new state, and say what it became."""
    digest, shown = hashlib.sha256(data).hexdigest(), relative(ctx.workspace, place.real)
    try:
        ctx.seen.wrote(place.real, replace_file(place, data, expected=expected), digest)
    except Changed as error:
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


def known_as(shown: str, real: str, sha256: str, state: Identity | None = None) -> tuple[FileSeen, ...]:
    """What a journal keeps of a file that its agent knows now; nothing of one that has another name there."""
    if not real.isprintable():
        return ()
    return (FileSeen(shown, sha256, "" if sha256 or state is None else as_text(state)),)
