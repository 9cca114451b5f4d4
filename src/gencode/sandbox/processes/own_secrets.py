"""Keeps the keys of our own process from the commands that it runs where no sandbox does.

The kernel shows the environment that a program was started with, whatever became of its variables since. So
the values of secret ones are overwritten there, and the variables set anew. From then on only root may look
at the memory of the process.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from gencode.sandbox.processes.environment import EnvironmentFilter

_SET_DUMPABLE = 4
_START_AND_END = slice(50 - 3, 52 - 3)
"""Where /proc/PID/stat has the addresses of the environment, counted from its third field."""


def hide_own_secrets() -> None:
    """Take keys out of what /proc shows of this process; nothing where there are none."""
    secret = EnvironmentFilter()
    names = [name for name, value in os.environ.items() if secret.is_secret(name, value)]
    if not names or sys.platform != "linux":
        return
    _overwrite(names)
    _close_memory()


def _overwrite(names: Iterable[str]) -> None:
    import ctypes  # only where there is something to hide

    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = (int(field) for field in fields[_START_AND_END])
    except (OSError, ValueError):
        return
    if not 0 < start < end:
        return
    block = ctypes.string_at(start, end - start)
    for name in names:
        written = os.fsencode(f"{name}={os.environ[name]}") + b"\0"
        # Set anew first, so that the C library looks at its own copy from now on.
        os.environ[name] = os.environ[name]
        at = 0 if block.startswith(written) else block.find(b"\0" + written) + 1
        if at or block.startswith(written):
            value = at + len(os.fsencode(name)) + 1
            ctypes.memset(start + value, 0, len(written) - (value - at) - 1)


def _close_memory() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(_SET_DUMPABLE, ctypes.c_ulong(0), *(ctypes.c_ulong(0),) * 3)
