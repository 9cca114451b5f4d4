"""The stdio transport of MCP: the server is a child process.

It runs under a command guard like every command, so none of its processes outlives us. It is connected by two
named pipes in a private folder, which is removed as soon as the program has opened them.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from gencode.core.errors import ToolError, UserMistake
from gencode.mcp.definition import ServerDefinition
from gencode.mcp.transport import (
    BUG,
    LARGEST_MESSAGE,
    ConnectionLost,
    Message,
    TransportListener,
    bug_in,
    decoded,
    encoded,
)
from gencode.sandbox.processes.command import Command
from gencode.sandbox.processes.command_runner import CommandRunner
from gencode.sandbox.processes.environment import INSIDE_MARK, EnvironmentFilter
from gencode.sandbox.processes.running_command import RunningCommand

if TYPE_CHECKING:
    from gencode.sandbox.shells import ServerWall

WallFactory = Callable[[ServerDefinition], Awaitable["ServerWall | None"]]
"""Makes what encloses a server that starts; None: it runs outside. ToolError: it must not start."""

BASE = ("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""What every server gets of our environment, with `LC_*`; its definition must name all else."""

_SHELL = "/bin/sh"
_WIRED = 'in=$1 out=$2; shift 2; exec "$@" <"$in" >"$out"'
_CHUNK = 256 * 1024
_MOST_UNREAD = 2 * LARGEST_MESSAGE
_MOST_GARBAGE = 1024 * 1024
_EXIT_SECONDS = 0.3
_LAST_OUTPUT_SECONDS = 1.0
_LONGEST_OUTPUT = 500
_MOST_LAST_LINES = 5


async def no_wall(definition: ServerDefinition) -> "ServerWall | None":
    """No server is enclosed."""
    return None


def environment(definition: ServerDefinition, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a server: a small base, what its definition names, and a mark of GenCode."""
    base = {name: environ[name] for name in BASE if name in environ}
    base |= {name: value for name, value in environ.items() if name.startswith("LC_")}
    whole = {**base, **definition.env}
    lost = (
        definition.env.keys()
        - EnvironmentFilter(keep=frozenset(definition.env)).without_secrets(whole).keys()
    )
    if lost:
        names = ", ".join(sorted(lost))
        variables = "variable" if len(lost) == 1 else "variables"
        raise UserMistake(f"The MCP server {definition.name} must not get the {variables} {names}.")
    return {**whole, INSIDE_MARK: "1"}


class StdioTransport:
    """MCP over the standard input and output of a program, started in `cwd`."""

    def __init__(
        self,
        definition: ServerDefinition,
        commands: CommandRunner,
        cwd: Path,
        environ: Mapping[str, str],
        walls: WallFactory = no_wall,
    ) -> None:
        self.version = ""
        self._walls = walls
        self._wall: ServerWall | None = None
        self._definition = definition
        self._commands = commands
        self._cwd = cwd
        self._environ = environ
        self._listener: TransportListener | None = None
        self._running: RunningCommand | None = None
        self._pipes: _Pipes | None = None
        self._reader: asyncio.Task[None] | None = None
        self._incoming: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._garbage = 0
        self._oddity = ""

    async def open(self, listener: TransportListener) -> None:
        """Start the program; ConnectionLost when it cannot be started."""
        self._listener = listener
        loop = asyncio.get_running_loop()
        try:
            words = (self._program(), *self._definition.args)
            self._wall = await self._walls(self._definition)
            if self._wall is not None:
                words = await asyncio.to_thread(self._wall.enclose, words)
            pipes = self._pipes = _Pipes()
            # The pipes are opened outside of the wall.
            words = (_SHELL, "-c", _WIRED, "sh", *pipes.names, *words)
            command = Command(words, self._cwd, environ=self._environ)
            self._running = await self._commands.start(command)
            stream = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(stream)
            self._incoming, _ = await loop.connect_read_pipe(lambda: protocol, pipes.reading)
            self._writer, _ = await loop.connect_write_pipe(asyncio.Protocol, pipes.writing)
        except ToolError as error:
            raise ConnectionLost(str(error), hopeless=True) from None
        except OSError as error:
            raise ConnectionLost(f"it could not be connected ({error.strerror})") from None
        self._reader = asyncio.create_task(self._read(stream, self._running))
        self._reader.add_done_callback(lambda task: self._lost(BUG) if bug_in(task) else None)
        self._running.task.add_done_callback(lambda _: stream.feed_eof())

    def send(self, message: Message, headers: Mapping[str, str]) -> None:
        """Write one line."""
        if self._writer is None or self._writer.is_closing():
            return
        self._writer.write(encoded(message) + b"\n")
        if self._writer.get_write_buffer_size() > _MOST_UNREAD:
            self._lost("it does not read its input")

    def cancel_request(self, request: int) -> bool:
        """The server has to be notified."""
        return False

    def listen(self) -> None:
        """Nothing to do: notifications come with the responses."""

    async def close(self) -> None:
        """Close its input, and stop the program if it does not exit."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.abort()
        if self._pipes is not None:
            self._pipes.opened()
        running = self._running
        if running is not None:
            if self._writer is not None:
                await asyncio.wait({running.task}, timeout=_EXIT_SECONDS)
            await running.stop()
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader
        if self._incoming is not None and not self._incoming.is_closing():
            self._incoming.close()
        if self._pipes is not None:
            self._pipes.close()
        if self._wall is not None:
            self._wall.release()

    def _program(self) -> str:
        """The path of the program. Relative folders of PATH are ignored: a repository could contain them."""
        name = self._definition.command
        if "/" in name:
            return name
        folders = [
            each for each in self._environ.get("PATH", os.defpath).split(os.pathsep) if each.startswith("/")
        ]
        found = shutil.which(name, path=os.pathsep.join(folders)) if folders else None
        if found is None:
            raise ToolError(f"the program {name!r} is not installed")
        return found

    async def _read(self, stream: asyncio.StreamReader, running: RunningCommand) -> None:
        """Read lines until the program exits, closes its output, or writes too long a line."""
        rest = bytearray()
        while chunk := await stream.read(_CHUNK):
            if self._pipes is not None:
                self._pipes.opened()
            *lines, last = chunk.split(b"\n")
            if lines:
                lines[0] = bytes(rest) + lines[0]
                rest.clear()
            rest += last
            if len(rest) > LARGEST_MESSAGE:
                self._lost(f"it wrote a line of more than {LARGEST_MESSAGE:,} bytes")
                return
            for line in lines:
                self._line(line)
        await asyncio.wait({running.task}, timeout=_LAST_OUTPUT_SECONDS)
        self._lost(self._ended(running))

    def _line(self, line: bytes) -> None:
        found = decoded(line) if line.strip() else []
        for message in found:
            if self._listener is not None:
                self._listener.receive(message)
        if not found and line.strip():
            self._garbage += len(line)
            self._oddity = self._oddity or _text_of(line)
            if self._garbage > _MOST_GARBAGE:
                self._lost(f"its output is not MCP: {self._oddity!r}")

    def _ended(self, running: RunningCommand) -> str:
        """How the program ended, with the end of its output."""
        output = running.output()
        lines = (output.tail or output.head).rstrip().split(b"\n")[-_MOST_LAST_LINES:]
        said = " / ".join(filter(None, map(_text_of, lines)))[-_LONGEST_OUTPUT:]
        how = "it closed its output"
        if running.task.done() and not running.task.cancelled() and running.task.exception() is None:
            ended = running.task.result()
            how = f"it exited ({ended.verdict.rstrip('.') or 'exit code 0'})"
        if self._oddity and not said:
            said = self._oddity
        return f"{how}, and its last output was: {said!r}" if said else how

    def _lost(self, why: str) -> None:
        if self._listener is not None:
            self._listener.lost(why)


class _Pipes:
    """Two named pipes. We hold the program's ends until it has opened them, so that no open blocks."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="gen-mcp-")
        self.names = (f"{self._folder}/in", f"{self._folder}/out")
        for name in self.names:
            os.mkfifo(name, 0o600)
        self._held = [os.open(name, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC) for name in self.names]
        self.writing = _file(self.names[0], os.O_WRONLY)
        self.reading = _file(self.names[1], os.O_RDONLY)

    def opened(self) -> None:
        """Close the program's ends: it has opened both itself."""
        for handle in self._held:
            os.close(handle)
        if self._held:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._held = []

    def close(self) -> None:
        """Close all ends."""
        self.opened()
        for file in (self.writing, self.reading):
            with suppress(OSError):  # the asyncio transport has closed it
                file.close()


def _file(name: str, how: int) -> BinaryIO:
    handle = os.open(name, how | os.O_NONBLOCK | os.O_CLOEXEC)
    return os.fdopen(handle, "wb" if how == os.O_WRONLY else "rb", buffering=0)


def _text_of(line: bytes) -> str:
    text = line[:_LONGEST_OUTPUT].decode("utf-8", "replace")
    return "".join(character if character.isprintable() else " " for character in text).strip()
