"""tools: sleep, a wait that a stop ends at once."""

import asyncio
from typing import Annotated

from msgspec import Meta

from gencode.runtime.toolbox import Param, ToolContext, tool

LONGEST_MS = 600_000


@tool(effect="read", name="sleep", timeout=None, on_request=True)
async def SLEEP(
    ctx: ToolContext,
    duration: Annotated[
        int, Meta(ge=0, le=LONGEST_MS), Param("Milliseconds, at most 600000", also=("ms", "milliseconds"))
    ],
) -> str:
    """Wait, and do nothing meanwhile. For a task or command in the background use TaskOutput instead."""
    with ctx.parked():
        await asyncio.sleep(duration / 1000)
    return f"Waited {duration / 1000:g} s."
