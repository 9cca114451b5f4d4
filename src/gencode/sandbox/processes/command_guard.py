"""The command guard: one process above one command, which outlives everything the command starts.

Runs outside our process, forked from the fork server. It starts the command, adopts every orphan of it, ends
them all when it is told to, when the time is up, when the command has ended, or when whoever asked for the
command is gone, and then says so. Its messages, one line each: `watching GUARD`, `started`,
`failed STEP ERRNO`, `exited STATUS`, `stopping`, and at the end `gone STATUS CAUSE LEFTOVER UNSTOPPABLE`.
"""

import os
import signal
import socket
import time
from contextlib import suppress

from gencode.sandbox.processes import child_processes, process_tree
from gencode.sandbox.processes.child_processes import PARENT_DIED, ChildWatcher, reap, remaining
from gencode.sandbox.processes.guard_protocol import LENGTH, NO_STATUS, LaunchOrder, unpack

_TELL = 3


class LaunchFailed(Exception):
    """The program does not run: at which step it failed, and the kernel's error number."""

    def __init__(self, step: str, number: int) -> None:
        super().__init__(step, number)
        self.step = step
        self.number = number


def launch(order: LaunchOrder, outputs: list[int]) -> int:
    """Start the program in a session of its own; its process id once it really runs."""
    told, tell = os.pipe()
    guard = os.getpid()
    try:
        process = os.fork()
    except OSError as error:
        os.close(told)
        os.close(tell)
        raise LaunchFailed("fork", error.errno or 0) from None
    if process == 0:
        _exec(order, outputs, tell, guard)
    os.close(tell)
    said = os.read(told, 64).split()
    os.close(told)
    if said:
        os.waitpid(process, 0)
        raise LaunchFailed(said[0].decode(), int(said[1]))
    return process


def _exec(order: LaunchOrder, outputs: list[int], tell: int, guard: int) -> None:
    """In the fork: turn into the program, or tell why not. Never returns."""
    step = "session"
    try:
        os.setsid()
        outputs, namespaces = _divided(outputs, order.namespaces)
        step = "network"
        for file in namespaces:
            child_processes.enter_namespace(file)
        child_processes.signal_when_parent_dies(signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(127)
        if not order.privileges:
            child_processes.forbid_new_privileges()
        step = "files"
        _connect_files(outputs, tell)
        step = "cwd"
        os.chdir(order.cwd)
        step = "program"
        _reset_signals()
        os.execve(order.argv[0], list(order.argv), dict(order.environment))  # noqa: S606  # that is the point
    except OSError as error:
        os.write(
            tell if step in ("session", "network", "files") else _TELL, f"{step} {error.errno or 0}".encode()
        )
    finally:
        os._exit(127)


def _divided(files: list[int], namespaces: int) -> tuple[list[int], list[int]]:
    """Where the command writes, and the namespaces it enters."""
    end = len(files) - namespaces
    return files[:end], files[end:]


def _connect_files(outputs: list[int], tell: int) -> None:
    """Nothing to read, the outputs to write to, and no other file of ours."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(outputs[0], 1)
    os.dup2(outputs[-1], 2)
    os.dup2(tell, _TELL, inheritable=False)
    with os.scandir("/dev/fd") as files:
        ours = [int(file.name) for file in files if int(file.name) > _TELL]
    for file in ours:
        with suppress(OSError):  # the folder that was listed is in its own listing
            os.close(file)


def _reset_signals() -> None:
    """A guard ignores almost everything, and an ignored signal stays ignored over an exec."""
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


GRACE_SECONDS = 0.5
"""How long what a command left running may go on after the command itself has ended."""


class CommandGuard:
    """Watches one command to its end."""

    def __init__(self, control: socket.socket, watch: ChildWatcher, adopts: bool) -> None:
        self._control = control
        self._watch = watch
        self._adopts = adopts
        self._main = 0
        self._status: int | None = None
        self._groups: set[int] = set()

    def run(self, order: LaunchOrder, outputs: list[int]) -> None:
        """Start the command, watch it, end what it leaves."""
        self._tell(f"watching {os.getpid()}")
        try:
            self._main = launch(order, outputs)
        except LaunchFailed as trouble:
            self._tell(f"failed {trouble.step} {trouble.number}")
            return
        finally:
            for file in outputs:
                os.close(file)
        self._groups.add(self._main)
        self._tell("started")
        cause = self._until_something_happens(order.seconds)
        leftover = len(self._members()) if cause == "exited" and not self._gone(0) else 0
        unstoppable = 0
        if not self._gone(0):
            self._tell("stopping")
            unstoppable = process_tree.stop(self._members, self._gone)
        status = NO_STATUS if self._status is None else self._status
        self._tell(f"gone {status} {cause} {leftover} {unstoppable}")
        while not self._gone(1.0):
            process_tree.kill_once(self._members)

    def _until_something_happens(self, seconds: float | None) -> str:
        """Why the command is over: nobody is left, it ended and its grace too, the time is up, or a stop."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            exited = self._status is not None
            if self._gone(0):
                return "exited"
            if self._status is not None and not exited:
                self._tell(f"exited {self._status}")
                deadline = time.monotonic() + GRACE_SECONDS
            left = remaining(deadline)
            if left == 0:
                return "timed_out" if self._status is None else "exited"
            if self._watch.wait((self._control.fileno(),), left) and self._told_to_stop():
                return "stopped"
            if self._watch.orphaned:
                return "stopped"

    def _told_to_stop(self) -> bool:
        """Any word from the other side means stop, and so does its end."""
        with suppress(OSError):
            self._control.recv(64)
        return True

    def _gone(self, seconds: float) -> bool:
        """Whether nobody is left, after waiting at most so long for the last one."""
        deadline = time.monotonic() + seconds
        while True:
            ended, nobody = reap()
            self._status = ended.get(self._main, self._status)
            if nobody and (self._adopts or not self._members()):
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._watch.wait((), left if self._adopts else min(left, 0.01))

    def _members(self) -> process_tree.Members:
        """Everybody who belongs to the command."""
        if self._adopts:
            main = {self._main: self._main} if self._status is None else {}
            return main | process_tree.descendants(os.getpid())
        everybody = process_tree.list_processes()
        family = process_tree.below((os.getpid(),), everybody)
        self._groups.update(family.values())
        grouped = {process: group for process, (_, group) in everybody.items() if group in self._groups}
        return grouped | family

    def _tell(self, line: str) -> None:
        with suppress(OSError):  # whoever asked is gone; what follows is the same
            self._control.sendall(line.encode() + b"\n")


def guard_command(control: socket.socket, outputs: list[int], server: int) -> None:
    """The whole life of a guard."""
    os.setsid()
    child_processes.set_process_name("gen-guard")
    adopts = child_processes.adopt_orphans()
    watch = ChildWatcher()
    child_processes.signal_when_parent_dies(PARENT_DIED)
    order = _receive(control)
    if order is not None and os.getppid() == server:
        CommandGuard(control, watch, adopts).run(order, outputs)


def _receive(control: socket.socket) -> LaunchOrder | None:
    """What is to be run; nothing when the other side went away before it had said it."""
    length = _exactly(control, LENGTH)
    blob = None if length is None else _exactly(control, int.from_bytes(length, "big"))
    return None if blob is None else unpack(blob)


def _exactly(control: socket.socket, size: int) -> bytes | None:
    blob = bytearray()
    while len(blob) < size:
        try:
            piece = control.recv(min(size - len(blob), 1 << 16))
        except OSError:
            return None
        if not piece:
            return None
        blob += piece
    return bytes(blob)
