"""Real `gen` processes for the tests: piped, in a pseudo-terminal, and slow ones that get signals."""

import json
import os
import pty
import select
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Any

from tests.warm_start import OWN_TERMINAL

GEN = (sys.executable, "-m", "gencode")
SECONDS = 120
ASKS = " · n TEXT ".encode()
"""The end of a question about a call."""
CONFIRMS = " · n no".encode()
"""The end of any other question."""

Turn = Mapping[str, Any]


@dataclass(frozen=True)
class Ended:
    """How a process ended and what it said."""

    code: int
    out: str
    err: str = ""

    @property
    def json(self) -> Any:
        """The one object that was printed."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The objects that were printed, one per line."""
        return [json.loads(line) for line in self.out.splitlines()]


def gen(*words: str, cwd: Path, piped: str | bytes = b"", **env: str) -> Ended:
    """Run `gen` to its end with something (or nothing) on stdin."""
    content = piped.encode() if isinstance(piped, str) else piped
    ended = subprocess.run(
        [*GEN, *words],
        cwd=cwd,
        input=content,
        capture_output=True,
        env=_env(env),
        timeout=SECONDS,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def start(*words: str, cwd: Path, **env: str) -> "subprocess.Popen[str]":
    """Start `gen` and let it run."""
    return subprocess.Popen(
        [*GEN, *words],
        cwd=cwd,
        env=_env(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said_until(process: "subprocess.Popen[str]", text: str) -> str:
    """What a process says on stderr up to a text; what follows is left for `communicate`."""
    assert process.stderr is not None
    said, until = b"", time.monotonic() + SECONDS
    while text not in said.decode(errors="replace"):
        ready, _, _ = select.select([process.stderr], [], [], max(0.0, until - time.monotonic()))
        piece = os.read(process.stderr.fileno(), 1 << 16) if ready else b""
        assert piece, f"it never said {text!r}, but {said.decode(errors='replace')!r}"
        said += piece
    return said.decode()


def in_terminal(
    *words: str,
    cwd: Path,
    columns: int = 80,
    keys: bytes = b"",
    answers: Sequence[bytes] = (),
    typed: tuple[bytes, bytes] = (b"", b""),
    **env: str,
) -> Ended:
    """Run `gen` in a pseudo-terminal of so many columns.

    `keys` are pressed once it shows an agent, one of `answers` whenever it asks something. The second of
    `typed` is typed once the first is shown.
    """
    show = (b"Launching Subagent", keys) if keys else typed
    return command_in_terminal([*GEN, *words], cwd=cwd, columns=columns, typed=show, answers=answers, **env)


def command_in_terminal(
    command: Sequence[str],
    *,
    cwd: Path,
    columns: int = 80,
    typed: tuple[bytes, bytes] = (b"", b""),
    answers: Sequence[bytes] = (),
    **env: str,
) -> Ended:
    """Run any command there; the first word must be a path."""
    leader, follower = pty.openpty()
    ioctl(follower, TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", OWN_TERMINAL, *command],
        cwd=cwd,
        env=_env({"TERM": "xterm-256color", **env}),
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    shown = b""
    given = 0
    cue, keys = typed
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and (piece := _read(leader)):
        shown += piece
        if keys and cue in shown:
            os.write(leader, keys)
            keys = b""
        if len(answers) > given < shown.count(ASKS) + shown.count(CONFIRMS):
            time.sleep(0.05)  # it forgets what was typed before it listens
            os.write(leader, answers[given])
            given += 1
    os.close(leader)
    return Ended(process.wait(SECONDS), shown.decode("utf-8", "replace").replace("\r\n", "\n"))


def script(folder: Path, **agents: Sequence[Turn]) -> str:
    """A scripted model for a file of its own; `_` in a name stands for `-`, `others` for `*`."""
    spelled = {"*" if name == "others" else name.replace("_", "-"): turns for name, turns in agents.items()}
    path = folder / "script.json"
    path.write_text(json.dumps({"agents": spelled}))
    return f"scripted:{path}"


def send(*titles: str, agent: str = "Explore") -> list[dict[str, Any]]:
    """Task calls of one reply, one for each title."""
    return [
        {
            "name": "Task",
            "input": {"subagent_type": agent, "prompt": f"look for {title}", "description": title},
        }
        for title in titles
    ]


def _env(more: Mapping[str, str]) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    return {"PYTHONWARNINGS": "error", **ours, **more}


def _read(leader: int) -> bytes:
    ready, _, _ = select.select([leader], [], [], SECONDS)
    try:
        return os.read(leader, 1 << 16) if ready else b""
    except OSError:  # Linux says so when the other end is closed
        return b""
