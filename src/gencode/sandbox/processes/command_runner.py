"""processes: the door. Starts commands, waits for them, and leaves nobody behind when it closes."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from gencode.core.errors import ToolError
from gencode.sandbox.processes.command import Command, Ended, find_bash, words
from gencode.sandbox.processes.environment import Scrub, system_path
from gencode.sandbox.processes.fork_server_client import Link, child_environment
from gencode.sandbox.processes.git_programs import neutral_settings
from gencode.sandbox.processes.guard_protocol import Order, encoded
from gencode.sandbox.processes.output import Intake, Keep, OutputFile, pipe
from gencode.sandbox.processes.running_command import Plan, Running


class CommandRunner:
    """All commands of one process. `state` is a folder of ours where the keeper is noted.

    Every way out ends every command: `close`, a cancelled wait, an exception, and the death of our process.
    """

    def __init__(
        self, state: Path, *, scrub: Scrub | None = None, keep: Keep | None = None, bash: str | None = None
    ) -> None:
        self._state = state
        self._scrub = scrub or Scrub()
        self._keep = keep or Keep()
        self.bash = bash or find_bash()
        self._link: Link | None = None
        self._old_links: list[Link] = []
        self._live: dict[str, Running] = {}
        self._closed = False

    async def __aenter__(self) -> "CommandRunner":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def running(self) -> Mapping[str, Running]:
        """The commands that run now, by id."""
        return dict(self._live)

    async def run(self, command: Command) -> Ended:
        """Run a command to its end. A wait that is cancelled ends it first."""
        running = await self.start(command)
        try:
            return await running.wait()
        except asyncio.CancelledError:
            await running.stop()
            raise

    async def start(self, command: Command) -> Running:
        """Start a command that goes on by itself until it ends, is stopped, or all are closed."""
        running = self._begin(command, await self._environment(command))
        try:
            await running.begun()
        except asyncio.CancelledError:
            await running.stop()
            raise
        return running

    async def close(self) -> None:
        """End every command and let the keeper go."""
        self._closed = True
        links = [*self._old_links, *([self._link] if self._link else [])]
        self._link = None
        self._old_links = []
        try:
            await asyncio.gather(*(running.stop() for running in self._live.values()))
        finally:
            await asyncio.gather(*(link.close() for link in links))

    def _begin(self, command: Command, environ: Mapping[str, str]) -> Running:
        if self._closed:
            raise ToolError("No command can be started any more: everything is being closed.")
        argv = words(command, self.bash, environ)
        link = self._keeper()
        try:
            order = Order(
                [encoded(word) for word in argv],
                encoded(os.fspath(command.cwd)),
                child_environment(environ, link.mark),
                command.seconds,
                command.privileges,
            )
        except ValueError:
            raise ToolError("A command cannot hold a NUL character or half a character.") from None
        file = None if command.file is None else OutputFile(command.file, self._keep.file)
        if file is not None and command.growing:
            file.create()
        return self._launched(command, order, link, file)

    def _launched(self, command: Command, order: Order, link: Link, file: OutputFile | None) -> Running:
        intakes = [Intake(self._keep, file, growing=command.growing)]
        if command.separate:
            intakes.append(Intake(self._keep, None, growing=False))
        pipes: list[tuple[int, int]] = []
        try:
            for _ in intakes:
                pipes.append(pipe())  # one by one: those made before one fails are closed below
            control = link.fork([writing for _, writing in pipes])
        except OSError as error:
            for reading, _ in pipes:
                os.close(reading)
            if file is not None:
                file.close(0)
            raise ToolError(f"No command can be started now: {error.strerror}. Try again later.") from None
        finally:
            for _, writing in pipes:
                os.close(writing)
        running = Running(Plan(command, order, link, control, intakes, [reading for reading, _ in pipes]))
        self._live[running.id] = running
        running.task.add_done_callback(lambda _: self._live.pop(running.id))
        return running

    async def _environment(self, command: Command) -> dict[str, str]:
        environ = os.environ if command.environ is None else command.environ
        if not command.reads_only:
            return self._scrub.cleaned(environ)
        empty = self._empty_folder()
        own = (command.workspace or command.cwd, command.cwd)
        environ = {**environ, "PATH": system_path(environ.get("PATH", os.defpath), own)}
        asking = self._scrub.reading(environ, empty)
        if not command.may_run_git:
            return asking
        more: dict[str, str] = {}
        for folder in (command.cwd, *command.git_runs_in):
            more.update(await asyncio.to_thread(neutral_settings, folder, asking))
        return self._scrub.reading(environ, empty, more)

    def _empty_folder(self) -> Path:
        """A folder in which git finds no hooks."""
        folder = self._state / "empty"
        try:
            folder.mkdir(mode=0o500, parents=True, exist_ok=True)
            stuffed = next(folder.iterdir(), None)
        except OSError as error:
            raise ToolError(f"No command can be run: {folder} cannot be used ({error.strerror}).") from None
        if stuffed is not None:
            raise ToolError(f"No command can be run: somebody put {stuffed.name!r} into {folder}; remove it.")
        return folder

    def _keeper(self) -> Link:
        """The keeper that runs, or a new one."""
        if self._link is not None and not self._link.alive:
            self._old_links.append(self._link)
            self._link = None
        if self._link is None:
            self._link = Link.start(self._state, self._scrub.cleaned(os.environ))
        return self._link
