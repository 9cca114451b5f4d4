"""Reads what a command writes, in constant memory: its beginning, its end, and a file with a limit.

Neither the command nor the event loop waits for long.
"""

import asyncio
import fcntl
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gencode.core.errors import ToolError


class OutputLimits(Struct, frozen=True):
    """How much of an output is kept: bytes of its beginning and of its end, and bytes of its file."""

    head: int = 16 * 1024
    tail: int = 16 * 1024
    file: int = 64 * 1024 * 1024


class CommandOutput(Struct, frozen=True):
    """What a command has written so far."""

    head: bytes = b""
    tail: bytes = b""
    total: int = 0
    left_out_lines: int = 0
    file: Path | None = None
    filed: int = 0
    trouble: str = ""

    @property
    def left_out(self) -> int:
        """Bytes that are neither in the head nor in the tail."""
        return self.total - len(self.head) - len(self.tail)

    def text(self) -> str:
        """The whole output, or its beginning and end with a sentence about what is missing between them."""
        if not self.left_out:
            return (self.head + self.tail).decode("utf-8", "replace")
        head = self.head.decode("utf-8", "replace").rstrip("\ufffd\n")
        tail = self.tail.decode("utf-8", "replace").lstrip("\ufffd\n")
        return f"{head}\n\n[{self._missing()}]\n\n{tail}"

    def _missing(self) -> str:
        lines = f" ({self.left_out_lines:,} lines)" if self.left_out_lines else ""
        said = f"{self.left_out:,} of {self.total:,} bytes{lines} are left out here"
        if self.file is None:
            return said + (f"; {self.trouble}" if self.trouble else "")
        if self.filed < self.total:
            return f"{said}; the first {self.filed:,} bytes are in {self.file}" + (
                f"; {self.trouble}" if self.trouble else ""
            )
        return f"{said}; everything is in {self.file}"


class HeadAndTail:
    """The first and the last bytes of a stream, and how much there was of it."""

    def __init__(self, keep: OutputLimits) -> None:
        self._keep = keep
        self._head = bytearray()
        self._tail = bytearray()
        self._lines = 0
        self.total = 0

    @property
    def complete(self) -> bool:
        """Whether everything so far is still here."""
        return self.total <= self._keep.head + self._keep.tail

    def add(self, chunk: bytes) -> None:
        """Take what was read; work and memory do not depend on what came before."""
        self.total += len(chunk)
        self._lines += chunk.count(b"\n")
        room = self._keep.head - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if len(chunk) >= self._keep.tail:
            self._tail = bytearray(chunk[len(chunk) - self._keep.tail :])
            return
        self._tail += chunk
        if len(self._tail) > 2 * self._keep.tail:
            del self._tail[: len(self._tail) - self._keep.tail]

    def head_and_tail(self) -> tuple[bytes, bytes]:
        """Head and tail."""
        return bytes(self._head), bytes(self._tail[max(0, len(self._tail) - self._keep.tail) :])

    def lines_between(self) -> int:
        """Line ends that are neither in the head nor in the tail."""
        head, tail = self.head_and_tail()
        return self._lines - head.count(b"\n") - tail.count(b"\n")


class OutputFile:
    """The file of an output: new, ours alone, and never longer than its limit. To write blocks."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self.written = 0
        self.trouble = ""
        self._limit = limit
        self._file: int | None = None

    @property
    def takes_more(self) -> bool:
        """Whether the next bytes will be written."""
        return self.written < self._limit and not self.trouble

    @property
    def exists(self) -> bool:
        """Whether there is a file to be read."""
        return self._file is not None

    def create(self) -> None:
        """Make the file, and its folder if need be."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(self.path, flags, 0o600)
        except OSError as error:
            self.trouble = f"{self.path} cannot be written: {error.strerror}"
            raise ToolError(f"The output has no place: {self.trouble}.") from None

    def write(self, chunk: bytes) -> None:
        """Append what still has room. A full disk ends the file, not the command."""
        if self._file is None or not self.takes_more:
            return
        rest = memoryview(chunk)[: self._limit - self.written]
        try:
            while rest:
                size = os.write(self._file, rest)
                self.written += size
                rest = rest[size:]
        except OSError as error:
            self.trouble = f"the rest could not be written to {self.path}: {error.strerror}"

    def close(self, total: int) -> None:
        """End the file; one that stops early says so in its last line."""
        if self._file is None:
            return
        if total > self.written:
            more = f"\n[{total - self.written:,} bytes more were written and are not in this file]\n"
            try:
                os.write(self._file, more.encode())
            except OSError as error:
                self.trouble = self.trouble or f"{self.path} could not be ended: {error.strerror}"
        os.close(self._file)


_CHUNK = 256 * 1024
_PIPE = 1024 * 1024
"""What a pipe holds where the kernel allows it: no more can be left in it when its writers are gone."""


def large_pipe() -> tuple[int, int]:
    """A roomy pipe; its first end does not block."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    if sys.platform == "linux":
        with suppress(OSError):  # the person has used up what the kernel gives; a small pipe does too
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE)
    return reading, writing


TAIL_BYTES = 4_000
TAIL_SECONDS = 0.2


class OutputTail:
    """Reports the last lines of an output while it is written, a few times a second."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._last = b""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, chunk: bytes) -> None:
        """Take what was read; it is reported a little later, with what follows until then."""
        self._last = (self._last + chunk[-TAIL_BYTES:])[-TAIL_BYTES:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TAIL_SECONDS, self._report_now)

    def close(self) -> None:
        """Report nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _report_now(self) -> None:
        self._timer = None
        self._report(self._last.decode("utf-8", "replace").lstrip("\ufffd"))


class OutputReader:
    """One output of one command."""

    def __init__(
        self,
        keep: OutputLimits,
        file: OutputFile | None,
        *,
        growing: bool,
        written: Callable[[str], None] | None = None,
    ) -> None:
        """`written` gets the last lines, a few times a second."""
        self._tail = OutputTail(written) if written is not None else None
        self._ends = HeadAndTail(keep)
        self._file = file
        self._growing = growing
        self._budget: int | None = None
        self._waiting: asyncio.Future[None] | None = None

    def output(self) -> CommandOutput:
        """What was written so far."""
        head, tail = self._ends.head_and_tail()
        file = self._file
        return CommandOutput(
            head=head,
            tail=tail,
            total=self._ends.total,
            left_out_lines=self._ends.lines_between(),
            file=file.path if file and file.exists else None,
            filed=file.written if file else 0,
            trouble=file.trouble if file else "",
        )

    def writers_gone(self) -> None:
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
            if self._tail is not None:
                self._tail.close()
            if self._file is not None:
                await _aside(lambda file=self._file: file.close(self._ends.total))

    async def _take(self, chunk: bytes) -> None:
        if self._budget is not None:
            self._budget -= len(chunk)
        before = self._ends.head_and_tail() if self._ends.complete else None
        self._ends.add(chunk)
        if self._tail is not None:
            self._tail.add(chunk)
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
