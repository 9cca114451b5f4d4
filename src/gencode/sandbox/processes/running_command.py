"""A running command: wait for it, stop it, read its output.

The command guard decides when a command is over. Here it is only listened to, and replaced by force if it
falls silent: a command may well have stopped or killed the process that watches it.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gencode.core.errors import ToolError
from gencode.core.ids import new_id
from gencode.sandbox.processes import process_tree
from gencode.sandbox.processes.answer_timeout import AnswerTimer
from gencode.sandbox.processes.command import Cause, Command, CommandOutcome, start_error
from gencode.sandbox.processes.fork_server_client import ForkServerClient
from gencode.sandbox.processes.guard_protocol import NO_STATUS, LaunchOrder
from gencode.sandbox.processes.output import CommandOutput, OutputReader

_START_SECONDS = 10.0
_ANSWER_SECONDS = 1.0
_GRACE_SECONDS = 1.5
_STOPPING_SECONDS = process_tree.TERM_SECONDS + process_tree.KILL_SECONDS + 0.3


class CommandLaunch(Struct, frozen=True):
    """Everything a command needs to begin: the order, its guard's socket, and the pipes it writes to."""

    command: Command
    order: LaunchOrder
    link: ForkServerClient
    control: socket.socket
    intakes: Sequence[OutputReader]
    pipes: Sequence[int]


class RunningCommand:
    """A command that was started. Wait for it or stop it; both end with nobody left of it."""

    def __init__(self, plan: CommandLaunch) -> None:
        self.id = new_id()
        self.command = plan.command
        self._plan = plan
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._begun = asyncio.Event()
        self._trouble: ToolError | None = None
        self._timer: AnswerTimer | None = None
        self._guard = 0
        self._strays = 0
        self._stopping = False
        self._ordered = False
        self._asked: float | None = None
        self._cause: Cause = "lost"
        self.task = asyncio.create_task(self._watch())

    @property
    def output_file(self) -> Path | None:
        """Where its output is, once there is such a file."""
        return self._plan.intakes[0].output().file

    def output(self) -> CommandOutput:
        """What it has written so far."""
        return self._plan.intakes[0].output()

    async def started(self) -> None:
        """Return when it runs; ToolError when it cannot."""
        await self._begun.wait()
        if self._trouble is not None:
            raise self._trouble

    async def wait(self) -> CommandOutcome:
        """What came of it. Giving up waiting does not stop it."""
        return await asyncio.shield(self.task)

    async def stop(self) -> CommandOutcome:
        """End it and everything it started; what came of it."""
        if not self.task.done():
            self._insist("stopped")
        return await self.wait()

    async def _watch(self) -> CommandOutcome:
        pairs = zip(self._plan.intakes, self._plan.pipes, strict=True)
        pumps = [asyncio.create_task(intake.pump(pipe)) for intake, pipe in pairs]
        self._overdue(_START_SECONDS, self._force)
        last: list[str] | None = None
        try:
            last = await self._listen()
            if last is None:
                self._strays = await self._plan.link.clear_strays(self._guard)
        finally:
            if not self._guard and not self._begun.is_set():
                self._fail("guard", 0)
            self._begun.set()
            self._overdue(None)
            for intake in self._plan.intakes:
                intake.writers_gone()
            await asyncio.gather(*pumps)
            self._plan.control.close()
        return self._ended(last)

    async def _listen(self) -> list[str] | None:
        """Follow the guard's words to the last one; nothing if it fell silent before."""
        said = b""
        with suppress(ConnectionError):  # a guard that is gone: its words, if any, are read below
            await self._loop.sock_sendall(self._plan.control, self._plan.order.packed())
        self._ordered = True
        if self._cause == "stopped":
            self._insist("stopped")
        while True:
            try:
                piece = await self._loop.sock_recv(self._plan.control, 4096)
            except ConnectionError:
                piece = b""
            if not piece:
                return None
            *lines, said = (said + piece).split(b"\n")
            for line in lines:
                words = line.decode().split()
                if self._heard(words):
                    return words[1:]

    def _heard(self, words: list[str]) -> bool:
        """Take one line of the guard; whether it is the last."""
        match words:
            case ["watching", guard]:
                self._guard = int(guard)
            case ["started"]:
                self._begun.set()
                seconds = self.command.seconds
                if self._cause != "stopped":
                    limit = None if seconds is None else seconds + _ANSWER_SECONDS
                    self._overdue(limit, lambda: self._insist("timed_out"))
            case ["failed", step, number]:
                self._fail(step, int(number))
                return True
            case ["exited", _]:
                self._overdue(_GRACE_SECONDS, lambda: self._insist("exited"))
            case ["stopping"]:
                self._stopping = True
                self._overdue(self._patience(), self._force)
            case _:
                return True
        return False

    def _fail(self, step: str, number: int) -> None:
        argv = tuple(os.fsdecode(word) for word in self._plan.order.argv)
        self._trouble = start_error(self.command, argv, step, number)
        self._begun.set()

    def _insist(self, cause: Cause) -> None:
        """Tell the guard to end everything, and make sure that it can hear."""
        self._cause = cause
        self._asked = self._loop.time()
        if not self._ordered:
            return
        with suppress(OSError):  # it is gone or ends already
            if self._guard:
                os.kill(self._guard, signal.SIGCONT)
            self._plan.control.send(b"s")
        if not self._stopping:
            self._overdue(_ANSWER_SECONDS, self._force)

    def _patience(self) -> float:
        """How long the guard may still take: a stop is over within 3 s of being asked for, come what may."""
        asked = self._loop.time() if self._asked is None else self._asked
        return max(0.0, asked + _STOPPING_SECONDS - self._loop.time())

    def _overdue(self, seconds: float | None, then: Callable[[], None] | None = None) -> None:
        """From now on, `then` happens unless the guard says something within so many seconds."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None or then is None else AnswerTimer(seconds, then)

    def _force(self) -> None:
        """The guard does not answer: kill it, so that the fork server gets what it leaves."""
        with suppress(OSError):  # it has ended meanwhile
            if self._guard:
                os.kill(self._guard, signal.SIGKILL)
            else:
                self._plan.link.kill()
                self._plan.control.shutdown(socket.SHUT_RDWR)

    def _ended(self, last: list[str] | None) -> CommandOutcome:
        unknown = (NO_STATUS, "stopped", 0, self._strays)
        status, cause, left_over, unstoppable = last if last and len(last) == 4 else unknown
        code = None if int(status) == NO_STATUS else os.waitstatus_to_exitcode(int(status))
        outputs = [intake.output() for intake in self._plan.intakes]
        return CommandOutcome(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            cause=self._cause if cause == "stopped" else "timed_out" if cause == "timed_out" else "exited",
            output=outputs[0],
            errors=outputs[1] if len(outputs) > 1 else CommandOutput(),
            seconds=self._loop.time() - self._began,
            left_over=int(left_over),
            unstoppable=int(unstoppable),
        )
