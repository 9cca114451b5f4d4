"""Waits for child processes without missing one, and adopts orphans. Runs outside our process.

The calls of Linux that Python has no function for answer "no" elsewhere.
"""

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from types import FrameType

PARENT_DIED = signal.SIGUSR2
_KEPT = (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, PARENT_DIED)


def _wake(number: int, frame: FrameType | None) -> None:
    """Only a signal that is caught reaches the wake-up file."""


class ChildWatcher:
    """Wakes up when a child ends, when the parent dies, or when one of some files can be read."""

    def __init__(self) -> None:
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        for number in signal.valid_signals():
            if number not in _KEPT:
                signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGCHLD, PARENT_DIED):
            signal.signal(number, _wake)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.orphaned = False

    def wait(self, files: Iterable[int], seconds: float | None) -> list[int]:
        """The files that can be read, after at most so many seconds; none when something else happened."""
        poll = select.poll()
        for file in (self._woken, *files):
            poll.register(file, select.POLLIN)
        milliseconds = None if seconds is None else max(0, int(seconds * 1000 + 0.999))
        ready = [file for file, _ in poll.poll(milliseconds)]
        if self._woken in ready:
            self.orphaned |= PARENT_DIED in os.read(self._woken, 4096)
            ready.remove(self._woken)
        return ready


def reap() -> tuple[dict[int, int], bool]:
    """The children that have ended with their status, and whether there is none left."""
    ended: dict[int, int] = {}
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, True
        if process == 0:
            return ended, False
        ended[process] = status


def remaining(deadline: float | None) -> float | None:
    """Seconds until a moment of the monotonic clock; none for never."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


_PARENT_DEATH_SIGNAL = 1
_NAME = 15
_SUBREAPER = 36
_NO_NEW_PRIVILEGES = 38


def adopt_orphans() -> bool:
    """Whether children whose parent dies become ours from now on, however often they forked."""
    return _prctl(_SUBREAPER, 1)


def signal_when_parent_dies(number: int) -> bool:
    """Whether we get this signal when our parent ends. Who calls this looks at its parent's id afterwards."""
    return _prctl(_PARENT_DEATH_SIGNAL, number)


def forbid_new_privileges() -> bool:
    """Whether no program started from here on can become somebody we may not stop (sudo, setuid)."""
    return _prctl(_NO_NEW_PRIVILEGES, 1)


def enter_namespace(file: int) -> None:
    """Move into the namespace that a file stands for."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(ctypes.c_int(file), ctypes.c_int(0)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def set_process_name(name: str) -> bool:
    """Whether `ps` and `top` now show this name."""
    return _prctl(_NAME, ctypes.create_string_buffer(name.encode()[:15]))


def _prctl(option: int, value: "int | ctypes.Array[ctypes.c_char]") -> bool:
    if sys.platform != "linux":
        return False
    argument = ctypes.c_ulong(value) if isinstance(value, int) else value
    zero = ctypes.c_ulong(0)
    return ctypes.CDLL(None).prctl(option, argument, zero, zero, zero) == 0
