"""What a worker says at the moment at which it ends as a whole, whoever reads it."""

import os
import subprocess
import sys

from gencode.interfaces.cli.worker import ENDED
from tests.waiting import PATIENCE

SAYS = "from gencode.interfaces.cli.worker import say_ended; say_ended()"


def said(stderr: int) -> int:
    """Let a process say it there; its exit code."""
    return subprocess.run(
        [sys.executable, "-c", SAYS], stderr=stderr, timeout=PATIENCE, check=False
    ).returncode


def test_it_is_said_on_stderr_and_waits_for_no_reader() -> None:
    reading, writing = os.pipe()
    try:
        assert (said(writing), os.read(reading, 10_000).decode()) == (0, f"{ENDED}\n")
        os.set_blocking(writing, False)
        with open(writing, "wb", buffering=0, closefd=False) as pipe:
            while pipe.write(bytes(1024)):
                pass
        os.set_blocking(writing, True)
        assert said(writing) == 0
    finally:
        os.close(reading)
        os.close(writing)
