"""The fork server: one small process beside ours that forks a guard for every command.

It is started once, because starting Python for every command would cost more than most commands. Our end of
its socket closing, for whatever reason, is its order to leave; each guard watches a socket of its own, so
nothing waits for the fork server. Should a command kill its guard, the orphans come here and are killed.
"""

import gc
import os
import signal
import socket
import sys
import time
from contextlib import suppress

from gencode.sandbox.processes import child_processes, process_tree
from gencode.sandbox.processes.child_processes import ChildWatcher, reap
from gencode.sandbox.processes.command_guard import guard_command
from gencode.sandbox.processes.guard_protocol import COUNT_STRAYS, NETWORK, RUN

_MOST_FILES = 5
_STRAY_SECONDS = 0.01
_CLEARING_SECONDS = 1.0


class ForkServer:
    """Forks guards, buries them, and ends the strays of those that were killed."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._leaving = False
        self._watch = ChildWatcher()
        self._guards: set[int] = set()
        self._asking: list[tuple[socket.socket, int, float]] = []
        self._strays = False

    def run(self) -> None:
        """Until our process is gone and everybody with it."""
        while True:
            ended, nobody = reap()
            self._strays |= any(status or process not in self._guards for process, status in ended.items())
            self._guards -= ended.keys()
            if nobody and self._leaving:
                return
            if self._strays or self._asking:
                self._answer(self._kill_strays())
            files = () if self._leaving else (self._link.fileno(),)
            if self._watch.wait(files, _STRAY_SECONDS if self._strays or self._asking else None):
                self._serve()

    def _kill_strays(self) -> int:
        """How many processes are left that belong to no guard."""
        everybody = process_tree.list_processes()
        mine = [process for process, (parent, _) in everybody.items() if parent == os.getpid()]
        strays = {process: everybody[process][1] for process in mine if process not in self._guards}
        process_tree.send_signal(strays | process_tree.below(strays, everybody), signal.SIGKILL)
        self._strays = bool(strays)
        return len(strays)

    def _answer(self, strays: int) -> None:
        """Tell those who wait when nobody is left, or after a while how many are.

        A guard that is dying closes its files before its children become ours, so it must be buried first.
        """
        waiting = self._asking
        self._asking = []
        for asking, guard, until in waiting:
            if (strays or guard in self._guards) and time.monotonic() < until:
                self._asking.append((asking, guard, until))
                continue
            with suppress(OSError):  # nobody waits for this answer any more
                asking.sendall(f"{strays}\n".encode())
            asking.close()

    def _serve(self) -> None:
        """One request, or the order to leave. Our end stays open: that it closes shows that we have left."""
        try:
            kind, files, _, _ = socket.recv_fds(self._link, 1, _MOST_FILES)
        except OSError:
            kind, files = b"", list[int]()
        if not kind:
            self._leaving = True
        elif kind == COUNT_STRAYS:
            asking = socket.socket(fileno=files[0])
            self._asking.append((asking, int(asking.recv(32)), time.monotonic() + _CLEARING_SECONDS))
        elif kind == RUN:
            self._fork(socket.socket(fileno=files[0]), files[1:])
        elif kind == NETWORK:
            self._make_network(socket.socket(fileno=files[0]))

    def _make_network(self, asking: socket.socket) -> None:
        """A process of its own makes a network and hands it over; nothing of it stays here."""
        with suppress(OSError):  # whoever asks sees that nothing comes
            maker = os.fork()
            if maker == 0:
                _hand_over_network(asking)
            self._guards.add(maker)
        asking.close()

    def _fork(self, control: socket.socket, outputs: list[int]) -> None:
        server = os.getpid()
        try:
            guard = os.fork()
        except OSError as error:
            control.sendall(f"failed fork {error.errno or 0}\n".encode())
        else:
            if guard == 0:
                _run_guard(self._link, control, outputs, server)
            self._guards.add(guard)
        control.close()
        for file in outputs:
            os.close(file)


def _run_guard(link: socket.socket, control: socket.socket, outputs: list[int], server: int) -> None:
    """In the fork: be a guard. Its status is 0 only when its command left nobody."""
    status = 1
    try:
        link.close()
        guard_command(control, outputs, server)
        status = 0
    finally:
        os._exit(status)


def _hand_over_network(asking: socket.socket) -> None:
    """In the fork: send the namespaces of a network, the user's first where it has one. Never returns."""
    try:
        from gencode.sandbox.namespaces import enter_network

        names = ("user", "net") if enter_network() else ("net",)
        files = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]
        socket.send_fds(asking, [NETWORK], files)
    except OSError:
        pass  # not every machine lets us; whoever asks sees that nothing comes
    finally:
        os._exit(0)


def main() -> None:
    """The fork server's whole life; the last argument is the number of its end of the socket."""
    child_processes.set_process_name("gen-fork-server")
    child_processes.adopt_orphans()
    gc.freeze()
    ForkServer(socket.socket(fileno=int(sys.argv[-1]))).run()
