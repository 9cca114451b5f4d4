"""The terminal driver: safe pastes, output that never blocks, and an end when the terminal closes."""

import io
import os
import select
import selectors
import signal
import sys
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

ESCAPE = "\x1b"
PASTE_BEGIN = "\x1b[200~"
PASTE_END = "\x1b[201~"
POLL_SECONDS = 0.1
FLUSH_SECONDS = 2.0
"""So long a terminal has to take what is written last."""
READ_BYTES = 1 << 14
_CONTROL_CHARACTERS = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n\r"}
MAX_PENDING_BYTES = 1 << 20
"""So many bytes wait for a terminal; of more, only what comes last is worth anything."""


class TerminalWriter(io.FileIO):
    """Writes to the terminal from a thread of its own; when the terminal is stopped, old output is dropped.

    A terminal may be stopped for hours while agents go on. `missed` is called when it is read again and was
    not told everything, so that the screen can be painted as a whole.
    """

    def __init__(self, terminal: int, missed: Callable[[], object]) -> None:
        super().__init__(terminal, "w", closefd=False)
        self._terminal = terminal
        self._on_dropped = missed
        self._waiting: list[bytes] = []
        self._size = 0
        self._dropped = False
        self._ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write_all, name="terminal-output", daemon=True)
        self._thread.start()

    def write(self, data: "ReadableBuffer", /) -> int:
        """Take a piece, which is written as a whole or not at all."""
        piece = bytes(data)
        with self._changed:
            if self._size > MAX_PENDING_BYTES:
                self._waiting, self._size, self._dropped = [], 0, True
            self._waiting.append(piece)
            self._size += len(piece)
            self._changed.notify()
        return len(piece)

    def finish(self, seconds: float) -> None:
        """Write what waits, for so long at most, and end."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join(seconds)

    def _write_all(self) -> None:
        while piece := self._next():
            if not _write(self._terminal, piece):
                continue
            with self._changed:
                lost, self._dropped = self._dropped, False
            if lost:
                self._on_dropped()

    def _next(self) -> bytes:
        """What waits, once something does; nothing at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended)
            piece = b"".join(self._waiting)
            self._waiting, self._size = [], 0
        return piece


def _write(terminal: int, piece: bytes) -> bool:
    """Whether there was still a terminal to write to."""
    while piece:
        try:
            piece = piece[os.write(terminal, piece) :]
        except BlockingIOError:  # another program of this terminal made it one that never waits
            select.select([], [terminal], [])
        except OSError:
            return False
    return True


class PasteFilter:
    """Removes control characters from pasted text: between its brackets everything is text.

    A bracket may come in two pieces; half of one waits for the other half. Only a lone Escape goes on at
    once, since it may be a key; when it was the beginning of a bracket, the whole bracket is said again.
    """

    def __init__(self) -> None:
        self._inside = False
        self._partial = ""

    def clean(self, text: str) -> str:
        """What the rest of the program may see of the next piece."""
        clean = ""
        while text:
            part, text = self._paste(text) if self._inside else self._keys(text)
            clean += part
        return clean

    def _keys(self, text: str) -> tuple[str, str]:
        """What was typed, up to a paste, and what follows it."""
        known = len(self._partial) if self._partial == ESCAPE else 0
        keys, begin, rest = (self._partial + text).partition(PASTE_BEGIN)
        self._partial = "" if begin else _partial_bracket(keys, PASTE_BEGIN)
        self._inside = bool(begin)
        if self._partial != ESCAPE:
            keys = keys.removesuffix(self._partial)
        return keys[known:] + begin, rest

    def _paste(self, text: str) -> tuple[str, str]:
        """What was pasted, as plain text, and what follows it."""
        pasted, end, rest = (self._partial + text).partition(PASTE_END)
        self._partial = "" if end else _partial_bracket(pasted, PASTE_END)
        self._inside = not end
        return pasted.removesuffix(self._partial).translate(_CONTROL_CHARACTERS) + end, rest


def _partial_bracket(text: str, bracket: str) -> str:
    """The longest beginning of a bracket that a text ends with."""
    sizes = range(len(bracket) - 1, 0, -1)
    return next((bracket[:size] for size in sizes if text.endswith(bracket[:size])), "")


class TerminalDriver(LinuxDriver):
    """Textual's driver with safe pastes, writes that never block, and an end when the terminal closes."""

    _writer: TerminalWriter | None = None

    def start_application_mode(self) -> None:
        """Write to the terminal as long as there is one, and somebody reads it."""
        real = sys.__stderr__ or sys.stderr
        self._writer = TerminalWriter(real.fileno(), lambda: self._app.call_later(self._app.refresh))
        self._file = io.TextIOWrapper(self._writer, real.encoding, real.errors, write_through=True)
        super().start_application_mode()

    def close(self) -> None:
        """Leave the terminal once it has everything, but do not wait for one that nobody reads."""
        super().close()
        if self._writer is not None:
            self._writer.finish(FLUSH_SECONDS)

    def run_input_thread(self) -> None:
        """Read until the app ends."""
        parser = XTermParser()
        decode = getincrementaldecoder("utf-8")("replace").decode
        pasted = PasteFilter()
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(POLL_SECONDS):
                    read = _read(self.fileno)
                    if not read:
                        os.kill(os.getpid(), signal.SIGHUP)  # which not every terminal sends when it closes
                        return
                    if text := pasted.clean(decode(read)):
                        for event in parser.feed(text):
                            self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)


def _read(terminal: int) -> bytes:
    """The next bytes; none when there is no terminal any more."""
    try:
        return os.read(terminal, READ_BYTES)
    except OSError:
        return b""
