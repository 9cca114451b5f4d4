"""Runs the event loop of a `gen` process and ends it: like `asyncio.run`, but never waits for ever.

When its work is done and everything is closed, all that is still there was left alone: a tool of a program
that does not heed that it is stopped, or a thread that such a tool was waiting for.
"""

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from gencode.sandbox.processes.own_secrets import hide_own_secrets

T = TypeVar("T")

PATIENCE = 2.0
"""So long what is left may take to come to its end when the work of a process is done."""
POOL = "asyncio_"
"""How the threads are named that `asyncio.to_thread` makes use of."""

log = logging.getLogger(__name__)


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop of its own, and give what it gives."""
    hide_own_secrets()
    runner = asyncio.Runner()
    try:
        return runner.run(work)
    finally:
        loop = runner.get_loop()
        if loop.run_until_complete(_settled(loop)):
            runner.close()
        else:
            _keep(loop)


def leave(code: int) -> int:
    """The exit code of a process that ends, also when it has threads that Python would wait for.

    One that was waited for already ends here; for others there is somebody who ends it should they not.
    """
    others = [each for each in threading.enumerate() if not each.daemon]
    if any(each.name.startswith(POOL) for each in others):
        _end(code)
    if len(others) > 1:
        threading.Thread(target=_end, args=(code, PATIENCE), daemon=True).start()
    return code


def _end(code: int, seconds: float = 0.0) -> None:
    """End this process, after so many seconds, whatever goes on in it."""
    time.sleep(seconds)
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody listens, or it is closed
            stream.flush()
    os._exit(code)


async def _settled(loop: asyncio.AbstractEventLoop) -> bool:
    """Stop everything that is left of an event loop; whether all of it has come to its end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    late = [*(await asyncio.wait(others, timeout=PATIENCE))[1]] if others else []
    # Whoever is cancelled while it waits for threads waits for them all the same; so nobody is.
    for closing in (loop.shutdown_asyncgens(), loop.shutdown_default_executor()):
        late += (await asyncio.wait([loop.create_task(closing)], timeout=PATIENCE))[1]
    if late:
        log.warning("the process ends although this has not: %s", ", ".join(map(repr, late)))
    return not late


def _keep(loop: asyncio.AbstractEventLoop) -> None:
    """Have a loop with what is left in it kept until the process is gone, held by a thread that does nothing.

    To close it would be to run that once more, and it may not heed this either.
    """

    def hold(_: asyncio.AbstractEventLoop) -> None:
        threading.Event().wait()

    threading.Thread(target=hold, args=(loop,), daemon=True).start()
