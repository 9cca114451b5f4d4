"""Runs code of the embedding program (a tool, a provider, an asker): it may ignore a stop, and may fail.

A call that ignores its cancellation is abandoned after a moment. Exceptions of such code are marked as its
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
"""How long stopped code may take to end."""
LEFT = " It ignores that and may still be running."


async def run_stoppable(tool: Tool, context: ToolContext, arguments: Struct, left: list[str]) -> ToolOutput:
    """Run a tool that may ignore a stop; if it does, that is noted in `left`.

    A stop of the caller takes effect whatever the tool does.
    """
    if not _waits(tool.function):
        return await tool.run(context, arguments)
    whose = f"the tool {tool.name} of task {context.task}"
    return await run_detached(tool.run(context, arguments), whose, left)


async def run_detached(
    doing: Awaitable[Given], whose: str, left: list[str] | None = None, most: float | None = None
) -> Given:
    """The result of code that may ignore a stop: it runs in its own asyncio task.

    A stop of the caller takes effect whatever the code does; if it ignores the stop, that is noted in `left`.
    It has `most` seconds to end, if that is less than usual.
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
    """The same for a stream: each piece is made when the one before it was taken."""
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
    """Cancel an asyncio task and wait a moment; whether it has ended by then."""
    work.add_done_callback(_over)
    if not work.cancel():
        return True
    try:
        await asyncio.wait([work], timeout=HEED_SECONDS if most is None else min(most, HEED_SECONDS))
    finally:  # a second stop ends the wait
        if not work.done():
            log.warning("%s ignores its cancellation and is left running", whose)
    return work.done()


def _waits(function: Callable[..., object]) -> bool:
    """Whether a function awaits anything: one that does not cannot be cancelled in the middle.

    It needs no asyncio task of its own, which would cost a tenth of a turn.
    """
    code = getattr(function, "__code__", None)
    if code is None or not code.co_flags & CO_COROUTINE:
        return True
    return opmap["YIELD_VALUE"] in code.co_code[::2]


def _over(work: "asyncio.Future[Any]") -> None:
    if not work.cancelled():
        work.exception()  # so that asyncio does not warn that it was never retrieved


SHOWN = 300
"""How many characters of foreign error messages are repeated."""
HIDDEN = "…"

SECRETS = (
    (r"://[^/\s@]+@", f"://{HIDDEN}@"),
    (r"(\w://[^\s?\"']+\?)[^\s\"')]+", rf"\1{HIDDEN}"),
    (r"\b(bearer|basic)\s+[^\s\"',;]+", rf"\1 {HIDDEN}"),
    (r"((?:key|token|secret|passw(?:or)?d|authorization)[\"']?\s*[=:]\s*[\"']?)[^\s\"',;&]+", rf"\1{HIDDEN}"),
    (r"(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])[\w+/-]{16,}", HIDDEN),
)
"""What may be a key: its value in an address, a header or a setting, and long words with digits."""


class _PluginNote(str):
    """Our note on an exception."""

    __slots__ = ()


class PluginErrors:
    """Marks exceptions of code of the embedding program as its failure."""

    __slots__ = ("_whose",)

    def __init__(self, whose: str) -> None:
        self._whose = whose

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, GenCodeError) and not plugin_failure(error):
            error.add_note(_PluginNote(f"{self._whose} failed"))


def plugin_failure(error: BaseException) -> str:
    """Which code failed and how, without what may be a key; empty if it was our own."""
    if isinstance(error, BaseExceptionGroup):
        several = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return next((told for each in several if (told := plugin_failure(each))), "")
    marks = [note for note in getattr(error, "__notes__", ()) if isinstance(note, _PluginNote)]
    return f"{marks[0]}: {error_text(error)}" if marks else ""


def error_text(error: BaseException) -> str:
    """The type of an exception and its message, on one line and without what may be a key."""
    text = " ".join(str(error)[: 4 * SHOWN].split())
    for secret, instead in SECRETS:
        text = re.sub(secret, instead, text, flags=re.IGNORECASE)
    text = text if len(text) <= SHOWN else f"{text[:SHOWN]}{HIDDEN}"
    name = type(error).__name__
    return f"{name}: {text}" if text else name
