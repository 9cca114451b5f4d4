"""Tests wait until something is so, however slow the machine is, and say what never came about."""

import asyncio
import errno
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

PATIENCE = 120.0
LOOK_SECONDS = 0.02


async def until(true: Callable[[], object], what: str = "what the test waits for happened") -> None:
    """Wait until something is so; what is asked may have to be awaited."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        so = true()
        if await so if isinstance(so, Awaitable) else so:
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError(f"it never came about that {what}")


def wait_until(true: Callable[[], object], what: str = "what the test waits for happened") -> None:
    """The same where nothing else has to go on meanwhile."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        if true():
            return
        time.sleep(LOOK_SECONDS)
    raise AssertionError(f"it never came about that {what}")


class Gate:
    """A pipe in a folder: an agent that makes its call waits there, in any process, until it is opened."""

    def __init__(self, folder: Path) -> None:
        self._pipe = folder / "gate"
        os.mkfifo(self._pipe)
        self.call = {"name": "Bash", "input": {"command": "cat gate"}}
        """It only reads, so that nobody is asked for it."""

    def open(self) -> None:
        """Let the agent go on that waits there, or comes."""
        wait_until(self.opened, f"somebody waits at {self._pipe}")

    def opened(self) -> bool:
        """Let the agent go on that waits there, if one does."""
        try:
            os.close(os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as nobody:
            if nobody.errno != errno.ENXIO:
                raise
            return False
        return True
