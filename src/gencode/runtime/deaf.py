"""Tools that do not heed that they are stopped, as a program's own may: nobody waits for them for ever."""

import asyncio
import logging
from collections.abc import Callable
from inspect import CO_COROUTINE
from opcode import opmap

from msgspec import Struct

from gencode.runtime.toolbox import Tool, ToolContext, ToolOutput

log = logging.getLogger(__name__)

HEED_SECONDS = 1.0
"""So long a tool that is stopped may take to come to its end."""
LEFT = " It does not heed that: it may still be at work, and nobody waits for it any more."


async def heeding(tool: Tool, context: ToolContext, arguments: Struct, left: list[str]) -> ToolOutput:
    """Run a tool of which it is not known whether it heeds a stop; one that does not is noted in `left`.

    Who is stopped here is stopped, whatever the tool makes of it.
    """
    if not _waits(tool.function):
        return await tool.run(context, arguments)
    work = asyncio.create_task(tool.run(context, arguments))
    work.add_done_callback(_over)
    try:
        await asyncio.wait([work])
    except asyncio.CancelledError:
        work.cancel()
        _, late = await asyncio.wait([work], timeout=HEED_SECONDS)
        if late:
            log.warning("the tool %s of task %s does not heed that it is stopped", tool.name, context.task)
            left.append(tool.name)
        raise
    return work.result()


def _waits(function: Callable[..., object]) -> bool:
    """Whether a function awaits anything: one that does not cannot be stopped in the middle by anybody.

    So it needs no task of its own, which would cost a tenth of what a turn costs.
    """
    code = getattr(function, "__code__", None)
    if code is None or not code.co_flags & CO_COROUTINE:
        return True
    return opmap["YIELD_VALUE"] in code.co_code[::2]


def _over(work: "asyncio.Task[ToolOutput]") -> None:
    if not work.cancelled():
        work.exception()  # so that nobody is told that it was never asked for
