"""processes: reads what a command writes, so that neither the command nor the event loop waits for long."""

import asyncio
import fcntl
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from gencode.core.errors import ToolError
from gencode.sandbox.processes.output import Ends, Keep, Output, OutputFile

_CHUNK = 256 * 1024
_PIPE = 1024 * 1024
"""What a pipe holds where the kernel allows it: no more can be left in it when its writers are gone."""


def pipe() -> tuple[int, int]:
    """A roomy pipe; its first end does not block."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    if sys.platform == "linux":
        with suppress(OSError):  # the person has used up what the kernel gives; a small pipe does too
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE)
    return reading, writing


class Intake:
    """One output of one command."""

    def __init__(self, keep: Keep, file: OutputFile | None, *, growing: bool) -> None:
        self._ends = Ends(keep)
        self._file = file
        self._growing = growing
        self._budget: int | None = None
        self._waiting: asyncio.Future[None] | None = None

    def output(self) -> Output:
        """What was written so far."""
        head, tail = self._ends.both()
        file = self._file
        return Output(
            head=head,
            tail=tail,
            total=self._ends.total,
            left_out_lines=self._ends.lines_between(),
            file=file.path if file and file.exists else None,
            filed=file.written if file else 0,
            trouble=file.trouble if file else "",
        )

    def nobody_writes(self) -> None:
        """The command and all it started are gone: what is in the pipe is read, and nothing is waited for.

        Somebody else may hold the pipe (it can be handed on), so its end is no condition.
        """
        self._budget = _PIPE
        self._wake()

    async def pump(self, file: int) -> None:
        """Read until the end of the pipe, or until it is empty and nobody writes."""
        try:
            while self._budget is None or self._budget > 0:
                try:
                    chunk = os.read(file, _CHUNK)
                except BlockingIOError:
                    if self._budget is not None:
                        return
                    await self._readable(file)
                    continue
                if not chunk:
                    return
                await self._take(chunk)
        finally:
            os.close(file)
            if self._file is not None:
                await _aside(lambda file=self._file: file.close(self._ends.total))

    async def _take(self, chunk: bytes) -> None:
        if self._budget is not None:
            self._budget -= len(chunk)
        before = self._ends.both() if self._ends.complete else None
        self._ends.add(chunk)
        if self._file is not None and self._file.takes_more and (self._growing or not self._ends.complete):
            await _aside(lambda file=self._file: self._write(file, chunk, before))
        else:
            await asyncio.sleep(0)

    def _write(self, file: OutputFile, chunk: bytes, before: tuple[bytes, bytes] | None) -> None:
        """On a thread: a slow disk must not hold the event loop."""
        if not file.exists:
            try:
                file.create()
            except ToolError:
                return  # the sentence stays with the file and is told with the output
            for piece in before or ():
                file.write(piece)
        file.write(chunk)

    async def _readable(self, file: int) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        loop.add_reader(file, self._wake)
        try:
            await self._waiting
        finally:
            loop.remove_reader(file)
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


async def _aside(work: Callable[[], None]) -> None:
    """On a thread, so that a slow disk does not hold the loop; here, where a command left no room for one."""
    try:
        await asyncio.to_thread(work)
    except RuntimeError:  # no thread could be started
        work()
