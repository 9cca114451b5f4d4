"""Starts commands, waits for them, and leaves no process behind when it closes."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from gencode.core.errors import ToolError
from gencode.sandbox.processes.command import Command, CommandOutcome, argument_words, find_bash
from gencode.sandbox.processes.environment import EnvironmentFilter, system_path
from gencode.sandbox.processes.fork_server_client import ForkServerClient, child_environment
from gencode.sandbox.processes.git_programs import neutral_settings
from gencode.sandbox.processes.guard_protocol import LaunchOrder, encoded
from gencode.sandbox.processes.output import OutputFile, OutputLimits, OutputReader, large_pipe
from gencode.sandbox.processes.running_command import CommandLaunch, RunningCommand


class CommandRunner:
    """All commands of one process. `state` is a folder of ours where the fork server is noted.

    Every way out ends every command: `close`, a cancelled wait, an exception, and the death of our process.
    """

    def __init__(
        self,
        state: Path,
        *,
        scrub: EnvironmentFilter | None = None,
        keep: OutputLimits | None = None,
        bash: str | None = None,
    ) -> None:
        self._state = state
        self._scrub = scrub or EnvironmentFilter()
        self._keep = keep or OutputLimits()
        self.bash = bash or find_bash()
        self._link: ForkServerClient | None = None
        self._old_links: list[ForkServerClient] = []
        self._live: dict[str, RunningCommand] = {}
        self._closed = False

    async def __aenter__(self) -> "CommandRunner":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def running(self) -> Mapping[str, RunningCommand]:
        """The commands that run now, by id."""
        return dict(self._live)

    async def run(self, command: Command) -> CommandOutcome:
        """Run a command to its end. A wait that is cancelled ends it first."""
        running = await self.start(command)
        try:
            return await running.wait()
        except asyncio.CancelledError:
            await running.stop()
            raise

    async def start(self, command: Command) -> RunningCommand:
        """Start a command that goes on by itself until it ends, is stopped, or all are closed."""
        running = self._begin(command, await self._environment(command))
        try:
            await running.started()
        except asyncio.CancelledError:
            await running.stop()
            raise
        return running

    async def make_network(self) -> list[int]:
        """The namespaces of a network that commands can share, as files; none where there can be none."""
        return await self._fork_server().make_network()

    async def close(self) -> None:
        """End every command and let the fork server go."""
        self._closed = True
        links = [*self._old_links, *([self._link] if self._link else [])]
        self._link = None
        self._old_links = []
        try:
            await asyncio.gather(*(running.stop() for running in self._live.values()))
        finally:
            await asyncio.gather(*(link.close() for link in links))

    def _begin(self, command: Command, environ: Mapping[str, str]) -> RunningCommand:
        if self._closed:
            raise ToolError("Cannot start a command: GenCode is shutting down.")
        argv = argument_words(command, self.bash, environ)
        link = self._fork_server()
        try:
            order = LaunchOrder(
                [encoded(word) for word in argv],
                encoded(os.fspath(command.cwd)),
                child_environment(environ, link.mark),
                command.seconds,
                command.privileges,
                len(command.namespaces),
            )
        except ValueError:
            raise ToolError("A command cannot contain a NUL character or an incomplete character.") from None
        file = None if command.file is None else OutputFile(command.file, self._keep.file)
        if file is not None and command.growing:
            file.create()
        return self._launched(command, order, link, file)

    def _launched(
        self, command: Command, order: LaunchOrder, link: ForkServerClient, file: OutputFile | None
    ) -> RunningCommand:
        intakes = [OutputReader(self._keep, file, growing=command.growing, written=command.written)]
        if command.separate:
            intakes.append(OutputReader(self._keep, None, growing=False))
        pipes: list[tuple[int, int]] = []
        try:
            for _ in intakes:
                pipes.append(large_pipe())  # one by one: those made before one fails are closed below
            control = link.fork_guard([*(writing for _, writing in pipes), *command.namespaces])
        except OSError as error:
            for reading, _ in pipes:
                os.close(reading)
            if file is not None:
                file.close(0)
            raise ToolError(f"Cannot start a command: {error.strerror}. Try again later.") from None
        finally:
            for _, writing in pipes:
                os.close(writing)
        running = RunningCommand(
            CommandLaunch(command, order, link, control, intakes, [reading for reading, _ in pipes])
        )
        self._live[running.id] = running
        running.task.add_done_callback(lambda _: self._live.pop(running.id))
        return running

    async def _environment(self, command: Command) -> dict[str, str]:
        environ = os.environ if command.environ is None else command.environ
        if not command.reads_only:
            return self._scrub.without_secrets(environ)
        empty = self._empty_folder()
        own = (command.workspace or command.cwd, command.cwd)
        environ = {**environ, "PATH": system_path(environ.get("PATH", os.defpath), own)}
        asking = self._scrub.read_only(environ, empty)
        if not command.may_run_git:
            return asking
        more: dict[str, str] = {}
        for folder in (command.cwd, *command.git_runs_in):
            more.update(await asyncio.to_thread(neutral_settings, folder, asking))
        return self._scrub.read_only(environ, empty, more)

    def _empty_folder(self) -> Path:
        """A folder in which git finds no hooks."""
        folder = self._state / "empty"
        try:
            folder.mkdir(mode=0o500, parents=True, exist_ok=True)
            stuffed = next(folder.iterdir(), None)
        except OSError as error:
            raise ToolError(f"Cannot run commands: {folder} cannot be used ({error.strerror}).") from None
        if stuffed is not None:
            raise ToolError(
                f"Cannot run commands: {folder} must be empty, but it contains {stuffed.name!r}; remove it."
            )
        return folder

    def _fork_server(self) -> ForkServerClient:
        """The fork server that runs, or a new one."""
        if self._link is not None and not self._link.alive:
            self._old_links.append(self._link)
            self._link = None
        if self._link is None:
            self._link = ForkServerClient.start(self._state, self._scrub.without_secrets(os.environ))
        return self._link
