"""A network of its own for a worker, whose only way out can be taken down: for root, on Linux, with `ip`."""

import asyncio
import contextlib
import os
import secrets
import shutil
import subprocess
from pathlib import Path
from types import TracebackType

from tests.fleet.relay import SOCKET, passed_on


def possible() -> bool:
    """Whether networks can be made here; in many containers even root may not."""
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"gen-{secrets.token_hex(4)}"
    if not _does("netns", "add", name):
        return False
    pair = name.removeprefix("gen-")
    made = _does("link", "add", f"v{pair}", "type", "veth", "peer", "name", f"w{pair}", "netns", name)
    _does("netns", "delete", name)  # the pair goes with it
    return made


class Namespace:
    """Use it as a context; `url` leads to the database from `inside`, and only over the wire."""

    def __init__(self, server: Path, url: str) -> None:
        self._server = server
        mark = secrets.token_hex(4)
        self._name, self._near, self._far = f"gen-{mark}", f"v{mark}", f"w{mark}"
        self._net = f"10.{200 + secrets.randbelow(50)}.{secrets.randbelow(250)}"
        self._schema = url.rpartition("search_path=")[2]
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None
        self.inside = ("ip", "netns", "exec", self._name)
        self.url = ""

    def _make(self) -> None:
        there = ("-n", self._name)
        made = [
            _does(*words)
            for words in (
                ("netns", "add", self._name),
                ("link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self._name),
                ("addr", "add", f"{self._net}.1/30", "dev", self._near),
                ("link", "set", self._near, "up"),
                (*there, "addr", "add", f"{self._net}.2/30", "dev", self._far),
                (*there, "link", "set", self._far, "up"),
                (*there, "link", "set", "lo", "up"),
            )
        ]
        if not all(made):
            self._remove()
            raise RuntimeError(f"no network could be made: {made}")

    def _remove(self) -> None:
        _does("netns", "delete", self._name)
        _does("link", "delete", self._near)

    async def __aenter__(self) -> "Namespace":
        self._make()
        self._listening = await asyncio.start_server(self._connected, f"{self._net}.1", 0)
        port = self._listening.sockets[0].getsockname()[1]
        self.url = f"postgresql://postgres@{self._net}.1:{port}/postgres?search_path={self._schema}"
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._listening is not None:
            self._listening.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._remove()

    def cut(self) -> None:
        """Let nothing pass any more."""
        assert _does("link", "set", self._near, "down")

    def heal(self) -> None:
        """Let everything pass again."""
        assert _does("link", "set", self._near, "up")

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            theirs, ours = await asyncio.open_unix_connection(Path(self._server, SOCKET))
            for source, sink in ((reader, ours), (theirs, writer)):
                task = asyncio.get_running_loop().create_task(passed_on(source, sink))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)


def _does(*words: str) -> bool:
    return subprocess.run(("ip", *words), check=False, capture_output=True).returncode == 0
