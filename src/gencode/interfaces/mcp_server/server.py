"""The life of an MCP server: it begins, serves clients over pipes or an address, and ends in order."""

import asyncio
import os
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
from mcp.server.lowlevel.server import Server
from mcp.shared.message import SessionMessage

from gencode.interfaces.cli.foreground_run import tell_stopped
from gencode.interfaces.mcp_server.stdio_transport import Pipes
from gencode.interfaces.mcp_server.workspaces import Rooms

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GOODBYE_SECONDS = 3.0


class Ending:
    """Why and when a server ends. What it stops is said once, before it is stopped."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self.begun = asyncio.Event()
        self.code = 0

    def begin(self) -> None:
        """Let it end in order."""
        if not self.begun.is_set():
            self.begun.set()
            for gen in self._rooms.open_ones():
                tell_stopped(gen)

    def heed(self, number: int) -> None:
        """End by a signal; whoever asks twice does not want to wait."""
        if self.code:
            os._exit(self.code)
        self.code = 128 + number
        self.begin()


@contextmanager
def heeded(heed: Callable[[int], None]) -> Generator[None, None, None]:
    """Signals are heard inside of this block; one that the parent process ignores stays ignored."""
    loop = asyncio.get_running_loop()
    ours = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in ours:
        loop.add_signal_handler(number, heed, number)
    try:
        yield
    finally:
        for number in ours:
            loop.remove_signal_handler(number)


async def serve_pipes(server: Server[object], streams: tuple[int, int], ending: Ending) -> None:
    """Serve the one client at the other end of these handles until it goes, or we are told to end."""
    pipes = Pipes(*streams, ending.begin)
    to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_client = anyio.create_memory_object_stream[SessionMessage](0)
    reading = asyncio.create_task(pipes.read(to_us, outgoing.clone()))
    writing = asyncio.create_task(pipes.write(to_client))
    serving = asyncio.create_task(server.run(incoming, outgoing, server.create_initialization_options()))
    begun = asyncio.create_task(ending.begun.wait())
    try:
        await asyncio.wait([serving, begun], return_when=asyncio.FIRST_COMPLETED)
    finally:
        ending.begin()
        for each in (reading, begun):
            each.cancel()
        await _over([reading, begun])
        await _over([serving])  # its stream of messages has ended, so it answers what is open and ends
        await _over([writing])
    if not serving.cancelled() and (trouble := serving.exception()):
        raise trouble


async def _over(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    """Wait for tasks to end; what does not in time is cut."""
    _, late = await asyncio.wait(tasks, timeout=GOODBYE_SECONDS)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late)
