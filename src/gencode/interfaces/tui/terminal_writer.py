"""What is written to the terminal (surfaces): by a thread of its own, so that nobody waits for it."""

import io
import os
import select
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MOST_WAITING = 1 << 20
"""So many bytes wait for a terminal; of more, only what comes last is worth anything."""


class Outlet(io.FileIO):
    """A terminal that takes everything at once; what it cannot take any more is lost.

    A terminal may be stopped for hours while agents go on. `missed` is called when it is read again and was
    not told everything, so that the screen can be painted as a whole.
    """

    def __init__(self, terminal: int, missed: Callable[[], object]) -> None:
        super().__init__(terminal, "w", closefd=False)
        self._terminal = terminal
        self._missed = missed
        self._waiting: list[bytes] = []
        self._size = 0
        self._lost = False
        self._ended = False
        self._news = threading.Condition()
        self._pouring = threading.Thread(target=self._pour, name="terminal-output", daemon=True)
        self._pouring.start()

    def write(self, data: "ReadableBuffer", /) -> int:
        """Take a piece, which is written as a whole or not at all."""
        piece = bytes(data)
        with self._news:
            if self._size > MOST_WAITING:
                self._waiting, self._size, self._lost = [], 0, True
            self._waiting.append(piece)
            self._size += len(piece)
            self._news.notify()
        return len(piece)

    def finish(self, seconds: float) -> None:
        """Write what waits, for so long at most, and end."""
        with self._news:
            self._ended = True
            self._news.notify()
        self._pouring.join(seconds)

    def _pour(self) -> None:
        while piece := self._next():
            if not _written(self._terminal, piece):
                continue
            with self._news:
                lost, self._lost = self._lost, False
            if lost:
                self._missed()

    def _next(self) -> bytes:
        """What waits, once something does; nothing at the end."""
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._ended)
            piece = b"".join(self._waiting)
            self._waiting, self._size = [], 0
        return piece


def _written(terminal: int, piece: bytes) -> bool:
    """Whether there was still a terminal to write to."""
    while piece:
        try:
            piece = piece[os.write(terminal, piece) :]
        except BlockingIOError:  # another program of this terminal made it one that never waits
            select.select([], [terminal], [])
        except OSError:
            return False
    return True
