"""`gen` on a pseudo-terminal."""

import os
import pty
import select
import struct
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

from tests.interfaces.cli.running import GEN, SECONDS


def terminal_environment() -> dict[str, str]:
    """Ours, without what tells programs another size or other colours than the terminal's."""
    misleading = ("COLUMNS", "LINES", "NO_COLOR")
    return {name: value for name, value in os.environ.items() if name not in misleading}


def read(leader: int, shown: bytes, until: Callable[[bytes], bool]) -> bytes:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and not until(shown):
        ready, _, _ = select.select([leader], [], [], 0.1)
        if ready:
            try:
                piece = os.read(leader, 1 << 16)
            except OSError:
                break
            if not piece:
                break
            shown += piece
    while select.select([leader], [], [], 0)[0]:  # what was written before it became so
        try:
            shown += os.read(leader, 1 << 16)
        except OSError:
            break
    return shown


@contextmanager
def on_a_pty(folder: Path, *words: str, **env: str) -> Generator[tuple[int, int, "subprocess.Popen[bytes]"]]:
    """`gen` on a plain pseudo-terminal: its leader, its follower, and the process."""
    leader, follower = pty.openpty()
    ioctl(follower, TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [*GEN, *words],
        cwd=folder,
        env={**terminal_environment(), "TERM": "xterm-256color", **env},
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    try:
        yield leader, follower, process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait(SECONDS)
        os.close(leader)
        os.close(follower)
