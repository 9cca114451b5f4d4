"""Ends what a test left running, so that one that fails cannot make another one fail.

Every process that a test starts, by `subprocess` or asyncio, is known here. A test that passes has ended its
own; it needs no `finally` for the case that it fails.
"""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any


class StartedProcesses:
    """The processes that were started here since the last test, and those below them."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[Any]] = []

    def install(self) -> None:
        """Know every process that is started from now on."""
        start: Any = subprocess.Popen.__init__

        def started(popen: Any, *values: Any, **options: Any) -> None:
            start(popen, *values, **options)
            self._started.append(popen)

        subprocess.Popen.__init__ = started  # pyright: ignore

    def forget(self) -> None:
        """Those started so far end by themselves, or with the fixture that started them."""
        self._started.clear()

    def end(self, home: Path) -> None:
        """End those that still run, and whatever has this home folder; read nothing of them any more."""
        for popen in self._started:
            if popen.returncode is None:
                popen.kill()
                popen.wait()
            for stream in (popen.stdin, popen.stdout, popen.stderr):
                if stream is not None:
                    with suppress(OSError):  # what was to be written has no reader any more
                        stream.close()
        self.forget()
        for process in processes_at(home):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def processes_at(home: Path) -> list[int]:
    """The processes that were started with this home folder, where the system tells that."""
    wanted, found = f"\0HOME={home}\0".encode(), list[int]()
    for each in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it is somebody else's, or has ended
            if wanted in b"\0" + each.read_bytes():
                found.append(int(each.parent.name))
    return found
