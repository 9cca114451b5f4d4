"""`gen` in tmux: a terminal that can be typed in and read."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.interfaces.cli.running import SECONDS
from tests.interfaces.tui.pseudo_terminal import terminal_environment


class Tmux:
    """A terminal that can be typed in and read."""

    def __init__(self, folder: Path, command: str, columns: int, lines: int) -> None:
        # A socket of its own: one that was just closed may still have a server that ends.
        socket = tempfile.mkdtemp(prefix="tmux-", dir=folder) + "/socket"
        self._tmux = [shutil.which("tmux") or "tmux", "-S", socket]
        size = ["-x", str(columns), "-y", str(lines)]
        start = ["-f", os.devnull, "new-session", "-d", *size, f"{command}; echo ended $?; sleep 600"]
        subprocess.run([*self._tmux, *start], cwd=folder, env=terminal_environment(), check=True)

    def press(self, *keys: str) -> None:
        subprocess.run([*self._tmux, "send-keys", *keys], check=True)

    def type(self, text: str) -> None:
        subprocess.run([*self._tmux, "send-keys", "-l", text], check=True)
        time.sleep(0.2)
        self.press("Enter")

    def resize(self, columns: int, lines: int) -> None:
        subprocess.run([*self._tmux, "resize-window", "-x", str(columns), "-y", str(lines)], check=True)

    def mouse(self, *events: tuple[int, int, int]) -> None:
        """Tell the program of the mouse: 0 a button pressed, 32 moved, 3 released, at a column and a line."""
        for kind, column, line in events:
            released = kind == 3
            told = f"\x1b[<{0 if released else kind};{column};{line}{'m' if released else 'M'}"
            subprocess.run([*self._tmux, "send-keys", "-l", told], check=True)

    @property
    def clipboard(self) -> str:
        """What was copied last."""
        shown = subprocess.run([*self._tmux, "show-buffer"], capture_output=True, text=True, check=False)
        return shown.stdout

    @property
    def screen(self) -> str:
        shown = subprocess.run(
            [*self._tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True, timeout=SECONDS
        )
        return shown.stdout

    def assert_sees(self, *texts: str) -> str:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            if all(text in self.screen for text in texts):
                return self.screen
            time.sleep(0.05)
        raise AssertionError(f"{texts} did not come; the screen was:\n{self.screen}")

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False)


@contextmanager
def tmux(folder: Path, *words: str, columns: int = 100, lines: int = 30, env: str = "") -> Generator[Tmux]:
    terminal = Tmux(folder, f"{env} {sys.executable} -m gencode {' '.join(words)}", columns, lines)
    try:
        yield terminal
    finally:
        terminal.close()
