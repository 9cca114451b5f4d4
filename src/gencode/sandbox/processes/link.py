"""processes: our end of the socket to the keeper. One link is one keeper, started when it is first needed."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gencode.core.errors import ToolError
from gencode.journal.owner import new_owner
from gencode.sandbox.processes.environment import MARK
from gencode.sandbox.processes.order import CLEARED, RUN, encoded
from gencode.sandbox.processes.sweep import Record, end_marked

_START = "import sys; sys.path.append(sys.argv[1]); from gencode.sandbox.processes.keeper import main; main()"
_CLEARING_SECONDS = 1.5
_LEAVING_SECONDS = 4.0


class Link:
    """A keeper that runs, and the mark by which everything below it is known."""

    def __init__(self, process: "subprocess.Popen[bytes]", link: socket.socket, record: Record) -> None:
        self._process = process
        self._link = link
        self._record = record

    @classmethod
    def start(cls, state: Path, environ: Mapping[str, str]) -> "Link":
        """Start a keeper; `state` is where it is noted for the case that we crash."""
        record = Record.write(state, new_owner())
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                process = _keeper(theirs, {**environ, MARK: record.mark})
        except OSError as error:
            record.remove()
            raise ToolError(f"No command can be started now: {error.strerror}. Try again later.") from None
        ours.setblocking(False)
        return cls(process, ours, record)

    @property
    def mark(self) -> str:
        """What the variable `MARK` holds in everything below this keeper."""
        return self._record.mark

    @property
    def alive(self) -> bool:
        """Whether the keeper still runs."""
        return self._process.poll() is None

    def fork(self, outputs: Sequence[int]) -> socket.socket:
        """A warden for a command that writes to these files: our end of its socket; or OSError."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            self._process.send_signal(signal.SIGCONT)
            socket.send_fds(self._link, [RUN], [theirs.fileno(), *outputs])
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        return ours

    async def clear(self, warden: int) -> int:
        """After a warden was killed: let the keeper end all it left, or do it from here; how many stay."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        said = b""
        try:
            self._process.send_signal(signal.SIGCONT)
            ours.send(str(warden).encode())
            socket.send_fds(self._link, [CLEARED], [theirs.fileno()])
            theirs.close()
            async with asyncio.timeout(_CLEARING_SECONDS):
                said = await asyncio.get_running_loop().sock_recv(ours, 64)
        except (OSError, TimeoutError):
            pass  # the keeper is gone or does not answer: below we do it ourselves
        finally:
            theirs.close()
            ours.close()
        if said:
            return int(said)
        self.kill()
        await asyncio.to_thread(end_marked, {self.mark})
        return 0

    def kill(self) -> None:
        """End a keeper that does not answer; its wardens notice and end their commands."""
        self._process.kill()

    async def close(self) -> None:
        """Let the keeper go, and wait until it has: it stays until nobody is left below it."""
        with suppress(OSError):  # it has left already
            self._link.shutdown(socket.SHUT_WR)
        if not await self._left():
            self.kill()
            await asyncio.to_thread(end_marked, {self.mark})
        self._process.wait()
        self._link.close()
        self._record.remove()

    async def _left(self) -> bool:
        """Whether the keeper closes its end in time, which it does by ending."""
        try:
            async with asyncio.timeout(_LEAVING_SECONDS):
                return not await asyncio.get_running_loop().sock_recv(self._link, 1)
        except ConnectionError:
            return True
        except TimeoutError:
            return False


def _keeper(end: socket.socket, environ: Mapping[str, str]) -> "subprocess.Popen[bytes]":
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
    """An environment as a warden gets it, with the mark."""
    return {encoded(name): encoded(value) for name, value in {**environ, MARK: mark}.items()}
