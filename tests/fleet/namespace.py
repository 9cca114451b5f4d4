"""A network of its own for a worker, whose only way out can be taken down: for root, on Linux, with `ip`."""

import asyncio
import os
import secrets
import shutil
import subprocess
from pathlib import Path

from tests.fleet.relay import Passage


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


class Namespace(Passage):
    """Its `url` leads to the database from `inside`, and only over the wire."""

    def __init__(self, server: Path, url: str) -> None:
        super().__init__(server, "")
        mark = secrets.token_hex(4)
        self._name, self._near, self._far = f"gen-{mark}", f"v{mark}", f"w{mark}"
        self._net = f"10.{200 + secrets.randbelow(50)}.{secrets.randbelow(250)}"
        self._schema = url.rpartition("search_path=")[2]
        self.inside = ("ip", "netns", "exec", self._name)

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

    async def _listen(self) -> asyncio.Server:
        self._make()
        listening = await asyncio.start_server(self._connected, f"{self._net}.1", 0)
        port = listening.sockets[0].getsockname()[1]
        self.url = f"postgresql://postgres@{self._net}.1:{port}/postgres?search_path={self._schema}"
        return listening

    def cut(self) -> None:
        """Let nothing pass any more."""
        assert _does("link", "set", self._near, "down")

    def heal(self) -> None:
        """Let everything pass again."""
        assert _does("link", "set", self._near, "up")


def _does(*words: str) -> bool:
    return subprocess.run(("ip", *words), check=False, capture_output=True).returncode == 0
