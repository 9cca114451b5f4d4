"""A socket between a worker and its database that can be cut: nothing passes, and nobody is told."""

import asyncio
import tempfile
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

SOCKET = ".s.PGSQL.5432"


class Relay:
    """Use it as a context; `url` leads through it."""

    def __init__(self, server: Path, url: str) -> None:
        self._server = server
        self._folder = tempfile.TemporaryDirectory(prefix="gen-relay-")
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None
        self.inside = ()
        """With which words a process begins that is to be cut off: any is."""
        self.url = url.replace(quote(str(server), safe=""), quote(self._folder.name, safe=""))

    async def __aenter__(self) -> "Relay":
        path = Path(self._folder.name, SOCKET)
        self._listening = await asyncio.start_unix_server(self._connected, path)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._listening is not None:
            self._listening.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._folder.cleanup()

    def cut(self) -> None:
        """Let nothing pass any more."""
        self._open.clear()

    def heal(self) -> None:
        """Let everything pass again."""
        self._open.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        theirs, ours = await asyncio.open_unix_connection(Path(self._server, SOCKET))
        for source, sink in ((reader, ours), (theirs, writer)):
            task = asyncio.get_running_loop().create_task(passed_on(source, sink, self._open))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def passed_on(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: asyncio.Event | None = None
) -> None:
    """Pass on what comes, while the way is open, until one of both ends."""
    try:
        while data := await source.read(65_536):
            if way is not None:
                await way.wait()
            sink.write(data)
            await sink.drain()
    except OSError:
        pass
    finally:
        sink.close()
