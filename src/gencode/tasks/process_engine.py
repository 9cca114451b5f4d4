"""Starts a separate process for one task, and kills such a process when it hangs.

The order is sent through a pipe and not on the command line, which everybody on the machine can read. The
process answers with one line: the id of its task once that has begun, or why it could not begin. After that
the two communicate only through the journal. The parent of a bound process keeps the pipe open, so that the
process notices when the parent is gone.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.journal.dispatch import Handover
from gencode.journal.owner import owner_state, process_of

START_SECONDS = 60.0
LOG = "worker.log"
MODULE = "gencode.interfaces.task_process"
"""The module that such a process runs; its command line names it."""
BOUND = "bound"
"""A word on the command line of a process that ends with its task, and with the parent of that."""
GONE_SECONDS = 2.0
"""How long a killed process may take to be gone."""
GONE_LOOK_SECONDS = 0.02


class WorkOrder(Struct, frozen=True):
    """The order for the process of a task: the task, its folder, and settings that override others."""

    handover: Handover
    cwd: str
    flags: dict[str, Any] = {}


class StartReply(Struct, frozen=True, omit_defaults=True):
    """The reply of a process: the id of its task, or why there is none."""

    task: str = ""
    mistake: str = ""


class TaskProcess:
    """A process that runs one task."""

    def __init__(self, process: "subprocess.Popen[bytes]", task: str) -> None:
        self._process = process
        self._task = task

    @property
    def task(self) -> str:
        """The id of its task."""
        return self._task

    @property
    def gone(self) -> bool:
        """Whether it has ended, with or without success."""
        if self._process.poll() is None:
            return False
        _part(self._process, bound=False)
        return True

    def kill(self) -> None:
        """Kill it with its process group."""
        _kill(self._process)


class ProcessEngine:
    """Starts processes for tasks. The folder `logs` in `home`, the per-user folder, gets their errors."""

    def __init__(self, home: Path, cwd: Path, flags: Mapping[str, Any]) -> None:
        self._home = home
        self._cwd = cwd
        self._flags = dict(flags)

    async def start(self, handover: Handover) -> TaskProcess:
        """Start a process for a task; UserMistake says why it could not begin."""
        order = WorkOrder(handover, self._folder(handover), {**self._flags, "model": handover.model})
        process = await asyncio.to_thread(self._spawn, bound=handover.bound)
        begun = StartReply()
        try:
            async with asyncio.timeout(START_SECONDS):
                begun = await asyncio.to_thread(_told, process, msgspec.json.encode(order))
        except TimeoutError:
            begun = StartReply(mistake=f"it did not start within {START_SECONDS:.0f} s")
        finally:
            if not begun.task:
                _kill(process)
            _part(process, bound=handover.bound and bool(begun.task))
            if not begun.task:
                await asyncio.to_thread(process.wait)
        if not begun.task:
            raise UserMistake(begun.mistake or f"The process for the task ended at once; see {self._log()}.")
        if not handover.bound:
            process.returncode = 0  # it outlives us, so nothing here has to reap it
        return TaskProcess(process, begun.task)

    def _folder(self, handover: Handover) -> str:
        return handover.created.cwd if handover.created else str(self._cwd)

    def _log(self) -> Path:
        return self._home / "logs" / LOG

    def _spawn(self, *, bound: bool) -> "subprocess.Popen[bytes]":
        """A process in its own session, with three descriptors and no others."""
        path = self._log()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                return subprocess.Popen(
                    [sys.executable, "-P", "-m", WORKER, *((BOUND,) if bound else ())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                )
            finally:
                os.close(log)
        except OSError as error:
            why = error.strerror or str(error)
            raise UserMistake(f"No process can be started for the task: {why}.") from None


def runs_one_task(owner: str) -> bool:
    """Whether an owner is such a process, on this machine."""
    return bool(_words(owner))


def is_bound_process(owner: str) -> bool:
    """Whether an owner is a process that ends with its task, whatever else runs in it."""
    return BOUND in _words(owner)


async def kill_task_process(owner: str) -> None:
    """Kill such a process with its group, suspended or not, and wait until it is gone; others are ignored."""
    if not runs_one_task(owner):
        return
    with suppress(OSError):
        os.killpg(process_of(owner), signal.SIGKILL)
    for _ in range(round(GONE_SECONDS / GONE_LOOK_SECONDS)):
        if owner_state(owner) != "alive":
            return
        await asyncio.sleep(GONE_LOOK_SECONDS)


WORKER = MODULE


def _told(process: "subprocess.Popen[bytes]", order: bytes) -> StartReply:
    """Send the order and wait for the reply; an empty one if the process ended before it."""
    if process.stdin is None or process.stdout is None:
        return StartReply()
    with suppress(BrokenPipeError):
        process.stdin.write(order + b"\n")
        process.stdin.flush()
    try:
        return msgspec.json.decode(process.stdout.readline(), type=StartReply)
    except msgspec.MsgspecError:
        return StartReply()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process with its group; not after it was reaped, since its number may be reused."""
    if process.poll() is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


def _part(process: "subprocess.Popen[bytes]", *, bound: bool) -> None:
    """Close our ends of the pipes; for a bound process keep the one by which it notices that we are gone."""
    for pipe in (process.stdout, None if bound else process.stdin):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _words(owner: str) -> list[str]:
    """The arguments that such a process was started with; none for any other."""
    if owner_state(owner) != "alive":
        return []
    try:
        words = Path(f"/proc/{process_of(owner)}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
    return words[3:] if words[2:4] == ["-m", MODULE] else []
