"""Processes that run one task each and that no person sits at: known as such, and ended when they hang."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from gencode.journal.owner import fate, process_of

MODULE = "gencode.interfaces.task_process"
"""What such a process runs; its command line says so."""
BOUND = "bound"
"""What its command line says besides when it ends with its task, and with whoever sent that."""
GONE_SECONDS = 2.0
"""So long a process that was killed may take to be gone."""
LOOK_SECONDS = 0.02


def runs_one_task(owner: str) -> bool:
    """Whether the process behind an owner's name is such a one, and lives on this machine."""
    return bool(_words(owner))


def is_bound_process(owner: str) -> bool:
    """Whether it is one that ends with its task, whatever else is at work in it."""
    return BOUND in _words(owner)


def _words(owner: str) -> list[str]:
    """What such a process was started with; nothing of any other."""
    if fate(owner) != "alive":
        return []
    try:
        words = Path(f"/proc/{process_of(owner)}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
    return words[3:] if words[2:4] == ["-m", MODULE] else []


async def end(owner: str) -> None:
    """Kill such a process with its group, suspended or not, and see it gone; any other is left alone."""
    if not runs_one_task(owner):
        return
    with suppress(OSError):
        os.killpg(process_of(owner), signal.SIGKILL)
    for _ in range(round(GONE_SECONDS / LOOK_SECONDS)):
        if fate(owner) != "alive":
            return
        await asyncio.sleep(LOOK_SECONDS)
