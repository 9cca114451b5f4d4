"""current_time and sleep: the date and time in any time zone, and a wait."""

import asyncio
from datetime import UTC, datetime, tzinfo
from typing import Annotated

from msgspec import Meta

from gencode.agent.toolbox import Param, ToolContext, tool
from gencode.core.errors import ToolError
from gencode.permissions.paths import shown

LONGEST_ZONE = 64


@tool(effect="read", name="current_time", on_request=True)
async def CURRENT_TIME(
    ctx: ToolContext,
    zone: Annotated[
        str, Param("Such as Europe/Zurich; default: this machine's", name="timezone", also=("tz",))
    ] = "",
) -> str:
    """Show the date and time: local, with weekday and offset, and in UTC."""
    now = datetime.now(UTC)
    there = now.astimezone(_zone(zone) if zone.strip() else None)
    return (
        f"{there:%A} {there.isoformat(timespec='seconds')} ({there.tzname()})\n{now:%Y-%m-%dT%H:%M:%SZ} UTC"
    )


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    name = name.strip()
    try:
        # A folder of the zone database raises an OSError, an unknown name a KeyError.
        return ZoneInfo(name) if len(name) <= LONGEST_ZONE else _unknown(name)
    except (KeyError, ValueError, OSError):
        return _unknown(name)


def _unknown(name: str) -> tzinfo:
    raise ToolError(f"There is no time zone {shown(name, LONGEST_ZONE)}; name one such as Europe/Zurich.")


LONGEST_MS = 600_000


@tool(effect="read", name="sleep", timeout=None, on_request=True)
async def SLEEP(
    ctx: ToolContext,
    duration: Annotated[
        int, Meta(ge=0, le=LONGEST_MS), Param("Milliseconds, at most 600000", also=("ms", "milliseconds"))
    ],
) -> str:
    """Wait. To wait for a background task or command, use TaskOutput instead."""
    with ctx.parked():
        await asyncio.sleep(duration / 1000)
    return f"Waited {duration / 1000:g} s."
