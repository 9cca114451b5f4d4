"""A socket between a worker and its database that can be cut: nothing passes, and nobody is told."""

import asyncio
import contextlib
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

SOCKET = ".s.PGSQL.5432"


class Passage:
    """Connections to a server that pass while the way is open. A context; `url` leads through it."""

    def __init__(self, server: Path, url: str) -> None:
        self._server = server
        self._way = asyncio.Event()
        self._way.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None
        self.inside: tuple[str, ...] = ()
        """With which words a process begins that is to be cut off."""
        self.url = url

    async def _listen(self) -> asyncio.Server:
        """Make what is needed, and wait for connections."""
        raise NotImplementedError

    def _remove(self) -> None:
        """Take away what was made."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        self._listening = await self._listen()
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

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._way.wait()
        with contextlib.suppress(OSError):
            theirs, ours = await asyncio.open_unix_connection(Path(self._server, SOCKET))
            for source, sink in ((reader, ours), (theirs, writer)):
                task = asyncio.get_running_loop().create_task(self._passed_on(source, sink))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _passed_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Pass on what comes, while the way is open, until one of both ends."""
        try:
            while data := await source.read(65_536):
                await self._way.wait()
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()


class Relay(Passage):
    """A socket in a folder of its own, for any process."""

    def __init__(self, server: Path, url: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gen-relay-")
        there = quote(self._folder.name, safe="")
        super().__init__(server, url.replace(quote(str(server), safe=""), there))

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_unix_server(self._connected, Path(self._folder.name, SOCKET))

    def _remove(self) -> None:
        self._folder.cleanup()

    def cut(self) -> None:
        """Let nothing pass any more."""
        self._way.clear()

    def heal(self) -> None:
        """Let everything pass again."""
        self._way.set()
