"""Our end of the socket to the fork server, and what is ended after a crash.

A fork server is started when it is first needed. Normally nothing is left after a crash: every guard ends its
command when our process is gone. What stays is what could not notice, because it was stopped or its guard was
killed too. Such processes are known by a mark in the environment they were started with, and the mark says
which process of ours started them.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path

from gencode.core.errors import ToolError
from gencode.journal.owner import new_owner, owner_state
from gencode.sandbox.processes import process_tree
from gencode.sandbox.processes.answer_timeout import answer_timeout
from gencode.sandbox.processes.environment import PROCESS_MARK
from gencode.sandbox.processes.guard_protocol import COUNT_STRAYS, NETWORK, RUN, encoded


class ForkServerRecord:
    """A note that a fork server runs: one file named by its mark's end, which holds the mark."""

    def __init__(self, path: Path, mark: str) -> None:
        self._path = path
        self.mark = mark

    @classmethod
    def write(cls, state: Path, mark: str) -> "ForkServerRecord":
        """Note a fork server before it starts."""
        path = _folder(state) / mark.rpartition("|")[2]
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(mark)
        except OSError as error:
            raise ToolError(f"Cannot run commands: {path} cannot be written ({error.strerror}).") from None
        return cls(path, mark)

    def remove(self) -> None:
        """The fork server and everything below it is gone."""
        self._path.unlink(missing_ok=True)


def end_leftovers(state: Path) -> int:
    """End what dead processes of ours left running; how many there were. Blocks; free without a crash."""
    dead = [record for record in _records(state) if owner_state(record.mark) == "dead"]
    ended = end_marked({record.mark for record in dead}) if dead else 0
    for record in dead:
        record.remove()
    return ended


def _folder(state: Path) -> Path:
    return state / "keepers"


def _records(state: Path) -> list[ForkServerRecord]:
    try:
        return [ForkServerRecord(path, path.read_text(errors="replace")) for path in _folder(state).iterdir()]
    except OSError:
        return []


def end_marked(marks: Set[str]) -> int:
    """Kill everybody who carries one of these marks, and everybody below them; how many there were."""
    seen: set[int] = set()

    def members() -> process_tree.Members:
        everybody = process_tree.list_processes()
        marked = {process: group for process, (_, group) in everybody.items() if _mark(process) in marks}
        found = {**marked, **process_tree.below(marked, everybody)}
        seen.update(found)
        return {process: 0 for process in found if process != os.getpid()}

    def gone(seconds: float) -> bool:
        limit = time.monotonic() + seconds
        while members():
            if time.monotonic() > limit:
                return False
            time.sleep(0.005)
        return True

    if sys.platform == "linux" and members():
        process_tree.kill(members, gone)
    return len(seen)


def _mark(process: int) -> str | None:
    """The mark a process was started with."""
    try:
        raw = Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return None
    start = f"{PROCESS_MARK}=".encode()
    return next(
        (os.fsdecode(pair[len(start) :]) for pair in raw.split(b"\0") if pair.startswith(start)), None
    )


_START = (
    "import sys; sys.path.append(sys.argv[1]); from gencode.sandbox.processes.fork_server import main; main()"
)
_CLEARING_SECONDS = 1.5
_LEAVING_SECONDS = 4.0
_NETWORK_SECONDS = 5.0
_MOST_NAMESPACES = 2


class ForkServerClient:
    """A fork server that runs, and the mark by which everything below it is known."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", link: socket.socket, record: ForkServerRecord
    ) -> None:
        self._process = process
        self._link = link
        self._record = record

    @classmethod
    def start(cls, state: Path, environ: Mapping[str, str]) -> "ForkServerClient":
        """Start a fork server; `state` is where it is noted for the case that we crash."""
        record = ForkServerRecord.write(state, new_owner())
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                process = _start_server(theirs, {**environ, PROCESS_MARK: record.mark})
        except OSError as error:
            record.remove()
            raise ToolError(f"Cannot start a command: {error.strerror}. Try again later.") from None
        ours.setblocking(False)
        return cls(process, ours, record)

    @property
    def mark(self) -> str:
        """What the variable `PROCESS_MARK` holds in everything below this fork server."""
        return self._record.mark

    @property
    def alive(self) -> bool:
        """Whether the fork server still runs."""
        return self._process.poll() is None

    def fork_guard(self, files: Sequence[int]) -> socket.socket:
        """A guard for a command that writes to the first of these files and enters the other ones, which are
        namespaces: our end of its socket; or OSError."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            self._process.send_signal(signal.SIGCONT)
            socket.send_fds(self._link, [RUN], [theirs.fileno(), *files])
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        return ours

    async def make_network(self) -> list[int]:
        """The namespaces of a new network, as files; none where this machine does not let us."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            self._process.send_signal(signal.SIGCONT)
            socket.send_fds(self._link, [NETWORK], [theirs.fileno()])
            theirs.close()
            await readable(ours, _NETWORK_SECONDS)
            return socket.recv_fds(ours, 1, _MOST_NAMESPACES)[1]
        except (OSError, TimeoutError):
            return []
        finally:
            theirs.close()
            ours.close()

    async def clear_strays(self, guard: int) -> int:
        """After a guard was killed: let the fork server end what it left, or do it here; how many stay."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        said = b""
        try:
            self._process.send_signal(signal.SIGCONT)
            ours.send(str(guard).encode())
            socket.send_fds(self._link, [COUNT_STRAYS], [theirs.fileno()])
            theirs.close()
            async with answer_timeout(_CLEARING_SECONDS):
                said = await asyncio.get_running_loop().sock_recv(ours, 64)
        except (OSError, TimeoutError):
            pass  # the fork server is gone or does not answer: below we do it ourselves
        finally:
            theirs.close()
            ours.close()
        if said:
            return int(said)
        self.kill()
        await asyncio.to_thread(end_marked, {self.mark})
        return 0

    def kill(self) -> None:
        """End a fork server that does not answer; its guards notice and end their commands."""
        self._process.kill()

    async def close(self) -> None:
        """Let the fork server go, and wait until it has: it stays until nobody is left below it."""
        with suppress(OSError):  # it has left already
            self._link.shutdown(socket.SHUT_WR)
        if not await self._left():
            self.kill()
            await asyncio.to_thread(end_marked, {self.mark})
        self._process.wait()
        self._link.close()
        self._record.remove()

    async def _left(self) -> bool:
        """Whether the fork server closes its end in time, which it does by ending."""
        try:
            async with answer_timeout(_LEAVING_SECONDS):
                return not await asyncio.get_running_loop().sock_recv(self._link, 1)
        except ConnectionError:
            return True
        except TimeoutError:
            return False


async def readable(link: socket.socket, seconds: float) -> None:
    """Wait until something can be read from a socket; TimeoutError when nothing comes."""
    loop = asyncio.get_running_loop()
    come: asyncio.Future[None] = loop.create_future()
    loop.add_reader(link, lambda: None if come.done() else come.set_result(None))
    try:
        async with answer_timeout(seconds):
            await come
    finally:
        loop.remove_reader(link)


def _start_server(end: socket.socket, environ: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    source = str(Path(__file__).resolve().parents[3])
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _START, source, str(end.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=environ,
        pass_fds=(end.fileno(),),
        start_new_session=True,
    )


def child_environment(environ: Mapping[str, str], mark: str) -> dict[bytes, bytes]:
    """An environment as a guard gets it, with the mark."""
    return {encoded(name): encoded(value) for name, value in {**environ, PROCESS_MARK: mark}.items()}
