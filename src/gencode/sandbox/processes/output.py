"""processes: what a command writes, in constant memory: its beginning, its end, and a file with a limit."""

import os
from pathlib import Path

from msgspec import Struct

from gencode.core.errors import ToolError


class Keep(Struct, frozen=True):
    """How much of an output is kept: bytes of its beginning and of its end, and bytes of its file."""

    head: int = 16 * 1024
    tail: int = 16 * 1024
    file: int = 64 * 1024 * 1024


class Output(Struct, frozen=True):
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
        lines = f" ({self.left_out_lines:,} line ends)" if self.left_out_lines else ""
        said = f"{self.left_out:,} of {self.total:,} bytes{lines} are left out here"
        if self.file is None:
            return said + (f"; {self.trouble}" if self.trouble else "")
        if self.filed < self.total:
            return f"{said}; the first {self.filed:,} bytes are in {self.file}" + (
                f"; {self.trouble}" if self.trouble else ""
            )
        return f"{said}; everything is in {self.file}"


class Ends:
    """The first and the last bytes of a stream, and how much there was of it."""

    def __init__(self, keep: Keep) -> None:
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

    def both(self) -> tuple[bytes, bytes]:
        """Head and tail."""
        return bytes(self._head), bytes(self._tail[max(0, len(self._tail) - self._keep.tail) :])

    def lines_between(self) -> int:
        """Line ends that are neither in the head nor in the tail."""
        head, tail = self.both()
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
