"""Runs code that a program brought along (a tool, a provider, an asker): it may ignore a stop, and may fail.

A call that ignores its cancellation is abandoned after a moment. What such code raises is marked as its
failure; nothing is caught here, the mark is read where all faults are caught.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from inspect import CO_COROUTINE
from opcode import opmap
from typing import Any, TypeVar, cast

from msgspec import Struct

from gencode.agent.toolbox import Tool, ToolContext, ToolOutput
from gencode.core.errors import GenCodeError

log = logging.getLogger(__name__)

Given = TypeVar("Given")

HEED_SECONDS = 1.0
"""So long what is stopped may take to come to its end."""
LEFT = " It does not heed that: it may still be at work, and nobody waits for it any more."


async def run_stoppable(tool: Tool, context: ToolContext, arguments: Struct, left: list[str]) -> ToolOutput:
    """Run a tool of which it is not known whether it heeds a stop; one that does not is noted in `left`.

    Who is stopped here is stopped, whatever the tool makes of it.
    """
    if not _waits(tool.function):
        return await tool.run(context, arguments)
    whose = f"the tool {tool.name} of task {context.task}"
    return await run_detached(tool.run(context, arguments), whose, left)


async def run_detached(
    doing: Awaitable[Given], whose: str, left: list[str] | None = None, most: float | None = None
) -> Given:
    """What something comes to that may not heed a stop: it is done in a task of its own.

    Who is stopped here is stopped, whatever becomes of that; what does not heed it is noted in `left`. It has
    `most` seconds for that, where they are fewer than usual.
    """
    work = asyncio.ensure_future(doing)
    try:
        await asyncio.wait([work])
    except asyncio.CancelledError:
        if not await cancel_or_abandon(work, whose, most) and left is not None:
            left.append(whose)
        raise
    return work.result()


async def stream_detached(pieces: AsyncGenerator[Given, None], whose: str) -> AsyncGenerator[Given, None]:
    """The same for what comes in pieces: each is made when the one before it was taken, as otherwise."""
    there: asyncio.Queue[tuple[Given, ...]] = asyncio.Queue()
    wanted = asyncio.Semaphore(0)
    left = False

    async def make() -> None:
        async with aclosing(pieces):
            async for piece in pieces:
                if left:
                    return
                there.put_nowait((piece,))
                await wanted.acquire()

    work = asyncio.create_task(make())
    work.add_done_callback(lambda _: there.put_nowait(()))
    try:
        while piece := await there.get():
            yield piece[0]
            wanted.release()
        work.result()
    finally:
        left = True
        await cancel_or_abandon(work, whose)


async def cancel_or_abandon(work: "asyncio.Future[Any]", whose: str, most: float | None = None) -> bool:
    """Stop what is done in a task of its own, and wait a moment; whether it has come to its end by then."""
    work.add_done_callback(_over)
    if not work.cancel():
        return True
    try:
        await asyncio.wait([work], timeout=HEED_SECONDS if most is None else min(most, HEED_SECONDS))
    finally:  # who is stopped once more waits no longer
        if not work.done():
            log.warning("%s does not heed that it is stopped, and is left alone", whose)
    return work.done()


def _waits(function: Callable[..., object]) -> bool:
    """Whether a function awaits anything: one that does not cannot be stopped in the middle by anybody.

    So it needs no task of its own, which would cost a tenth of what a turn costs.
    """
    code = getattr(function, "__code__", None)
    if code is None or not code.co_flags & CO_COROUTINE:
        return True
    return opmap["YIELD_VALUE"] in code.co_code[::2]


def _over(work: "asyncio.Future[Any]") -> None:
    if not work.cancelled():
        work.exception()  # so that nobody is told that it was never asked for


SHOWN = 300
"""How many characters of somebody else's words are repeated."""
HIDDEN = "…"

SECRETS = (
    (r"://[^/\s@]+@", f"://{HIDDEN}@"),
    (r"(\w://[^\s?\"']+\?)[^\s\"')]+", rf"\1{HIDDEN}"),
    (r"\b(bearer|basic)\s+[^\s\"',;]+", rf"\1 {HIDDEN}"),
    (r"((?:key|token|secret|passw(?:or)?d|authorization)[\"']?\s*[=:]\s*[\"']?)[^\s\"',;&]+", rf"\1{HIDDEN}"),
    (r"(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])[\w+/-]{16,}", HIDDEN),
)
"""What may be a key: its value in an address, a header or a setting, and long words with digits in them."""


class _PluginNote(str):
    """A note of ours on an exception, in whatever words."""

    __slots__ = ()


class PluginErrors:
    """While something is at work that a program brought along: what it raises is its failure."""

    __slots__ = ("_whose",)

    def __init__(self, whose: str) -> None:
        self._whose = whose

    def __enter__(self) -> None:
        """Nothing has to be done before."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, GenCodeError) and not plugin_failure(error):
            error.add_note(_PluginNote(f"{self._whose} failed"))


def plugin_failure(error: BaseException) -> str:
    """Who failed and how, in words without what may be a key; empty where nobody else is to blame."""
    if isinstance(error, BaseExceptionGroup):
        several = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return next((told for each in several if (told := plugin_failure(each))), "")
    marks = [note for note in getattr(error, "__notes__", ()) if isinstance(note, _PluginNote)]
    return f"{marks[0]}: {error_text(error)}" if marks else ""


def error_text(error: BaseException) -> str:
    """The kind of an exception and what it says, on one line and without what may be a key."""
    text = " ".join(str(error)[: 4 * SHOWN].split())
    for secret, instead in SECRETS:
        text = re.sub(secret, instead, text, flags=re.IGNORECASE)
    text = text if len(text) <= SHOWN else f"{text[:SHOWN]}{HIDDEN}"
    name = type(error).__name__
    return f"{name}: {text}" if text else name
