"""processes: from a fork to the program that was asked for. Runs in a warden, outside our process."""

import os
import signal
from contextlib import suppress

from gencode.sandbox.processes import kernel
from gencode.sandbox.processes.order import Order

_TELL = 3


class NotStarted(Exception):
    """The program does not run: at which step it failed, and the kernel's error number."""

    def __init__(self, step: str, number: int) -> None:
        super().__init__(step, number)
        self.step = step
        self.number = number


def launch(order: Order, outputs: list[int]) -> int:
    """Start the program in a session of its own; its process id once it really runs."""
    told, tell = os.pipe()
    warden = os.getpid()
    try:
        process = os.fork()
    except OSError as error:
        os.close(told)
        os.close(tell)
        raise NotStarted("fork", error.errno or 0) from None
    if process == 0:
        _become(order, outputs, tell, warden)
    os.close(tell)
    said = os.read(told, 64).split()
    os.close(told)
    if said:
        os.waitpid(process, 0)
        raise NotStarted(said[0].decode(), int(said[1]))
    return process


def _become(order: Order, outputs: list[int], tell: int, warden: int) -> None:
    """In the fork: turn into the program, or tell why not. Never returns."""
    step = "session"
    try:
        os.setsid()
        kernel.signal_when_parent_dies(signal.SIGKILL)
        if os.getppid() != warden:
            os._exit(127)
        if not order.privileges:
            kernel.forbid_new_privileges()
        step = "files"
        _wire(outputs, tell)
        step = "cwd"
        os.chdir(order.cwd)
        step = "program"
        _reset_signals()
        os.execve(order.argv[0], list(order.argv), dict(order.environment))  # noqa: S606  # that is the point
    except OSError as error:
        os.write(tell if step in ("session", "files") else _TELL, f"{step} {error.errno or 0}".encode())
    finally:
        os._exit(127)


def _wire(outputs: list[int], tell: int) -> None:
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
    """A warden ignores almost everything, and an ignored signal stays ignored over an exec."""
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
