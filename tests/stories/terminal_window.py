"""`gen` in a terminal window of its own."""

import asyncio
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.interfaces.cli.running import GEN, OWN_TERMINAL

SECONDS = 120.0


class Window:
    """A terminal in which `gen` runs; what it shows is read up to a text that is waited for."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._leader, follower = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWN_TERMINAL, *GEN, *words],
            cwd=folder,
            env={**os.environ, "TERM": "dumb", "COLUMNS": "400", "PYTHONWARNINGS": "error"},
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
        )
        os.close(follower)
        self._unread = b""

    async def shows(self, *texts: str | bytes) -> str:
        """Everything up to these texts, which come one after the other."""
        return "".join([await asyncio.to_thread(self._shows, text) for text in texts])

    def _shows(self, text: str | bytes) -> str:
        wanted = text.encode() if isinstance(text, str) else text
        limit = time.monotonic() + SECONDS
        while wanted not in self._unread:
            assert time.monotonic() < limit, f"{text!r} never came: {self._unread.decode()}"
            if select.select([self._leader], [], [], 1.0)[0]:
                self._unread += os.read(self._leader, 1 << 16)
        shown, _, self._unread = self._unread.partition(wanted)
        return shown.decode()

    def types(self, keys: str) -> None:
        os.write(self._leader, keys.encode())

    def close(self) -> None:
        if self._leader >= 0:
            os.close(self._leader)
            self._leader = -1

    async def ended(self) -> int:
        return await asyncio.to_thread(self.process.wait, SECONDS)


@contextmanager
def window(folder: Path, *words: str) -> Generator[Window]:
    opened = Window(folder, *words)
    try:
        yield opened
    finally:
        opened.close()
        opened.process.kill()
        opened.process.wait(SECONDS)
