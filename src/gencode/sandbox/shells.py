"""The shell of a session: prepares its temporary folder and sandbox, and runs its commands."""

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.errors import ToolError, UnknownName
from gencode.core.ids import SHELL, clean_id, new_id
from gencode.core.messages import CommandRun
from gencode.core.spec import Workspace
from gencode.journal.owner import new_owner, owner_state
from gencode.permissions.bash.decision import CommandReading, read_command
from gencode.permissions.paths import places_of
from gencode.sandbox.choose_sandbox import Sandbox, best_sandbox
from gencode.sandbox.guarded_paths import guarded_state, touched_paths
from gencode.sandbox.placeholder_files import Placeholders, add_placeholders
from gencode.sandbox.processes.command import Command, CommandOutcome, shell_words
from gencode.sandbox.processes.command_runner import CommandRunner
from gencode.sandbox.processes.fork_server_client import end_leftovers
from gencode.sandbox.processes.git_programs import may_run_git
from gencode.sandbox.processes.running_command import RunningCommand
from gencode.sandbox.profile import SandboxProfile, hide_denied, workspace_profile
from gencode.sandbox.variables import AgentVariables

SandboxMode = Literal["auto", "off", "required"]
"""Whether commands are enclosed: where it works, never, or else not run at all."""


OWNER = ".owner"
"""The end of the note beside a folder for temporary files, which says whose that folder is.

The folder's own name is in the TMPDIR of commands, where the blanks and bars of an owner's name would break
many a program.
"""
_MOST_NOTES = 1_000
_MOST_REMOVED = 20
_LONGEST_NOTE = 1_000


class CommandRequest(Struct, frozen=True):
    """A command as a tool wants it: the very text that was judged."""

    text: str
    workspace: Workspace
    task: str
    seconds: float | None = None
    network: bool = False
    closed: tuple[str, ...] = ()
    """What it should not see if it only reads."""
    neutral: bool = False
    """Its decision says that it may start nothing that a repository names, although it may write."""


class ShellResult(Struct, frozen=True):
    """What came of a command. `touched` are guarded files it made or changed although it should not have.

    `veiled` is what it was kept from seeing by a rule.
    """

    ended: CommandOutcome
    touched: tuple[Path, ...] = ()
    veiled: tuple[Path, ...] = ()


class BackgroundShell:
    """A command in the background."""

    __slots__ = ("file", "id", "order", "running")

    def __init__(self, order: CommandRequest, running: RunningCommand, file: Path) -> None:
        self.id = file.stem
        self.order = order
        self.running = running
        self.file = file

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.running.task.done()

    @property
    def ended(self) -> CommandOutcome | None:
        """What came of it; None while it runs, and where that cannot be told."""
        task = self.running.task
        return None if not task.done() or task.cancelled() or task.exception() else task.result()

    @property
    def verdict(self) -> str:
        """How it ended, in words."""
        return (self.ended.verdict or "Exit code 0.") if self.ended else "How it ended is unknown."

    @property
    def run(self) -> CommandRun:
        """It and how it ended, as a receipt has it."""
        return CommandRun(self.order.text, self.ended.exit_code if self.ended else None, self.id)


class Shells:
    """Runs the commands of all agents of a session. Nothing of it is started before the first command.

    `home` is the per-user folder; outputs go to its folder `outputs`, where they stay until they are deleted.
    """

    def __init__(
        self,
        home: Path,
        walls: SandboxMode = "auto",
        *,
        network: bool = False,
        when_ended: Callable[[BackgroundShell], None] = lambda _: None,
    ) -> None:
        """`when_ended` hears of every command in the background that has ended."""
        self._when_ended = when_ended
        self._home = home
        self._walls = walls
        self._network = network
        self._commands: CommandRunner | None = None
        self._sandbox: Sandbox | None = None
        self._temp = home / "run" / new_id()
        self._shells: dict[str, BackgroundShell] = {}
        self.variables = AgentVariables()
        """What agents set for their own commands."""
        self._opening = asyncio.Lock()

    async def run(self, order: CommandRequest) -> ShellResult:
        """Run a command to its end; what is longer than memory should hold goes to a file."""
        commands = await self._ready()
        async with self._guarded(self._plan(order)) as plan:
            before = await asyncio.to_thread(guarded_state, plan.watched())
            ended = await commands.run(self._command(order, plan, self._file(order, "bash"), growing=False))
            after = await asyncio.to_thread(guarded_state, plan.watched())
        return ShellResult(ended, tuple(touched_paths(before, after)), plan.veiled)

    async def start(self, order: CommandRequest) -> BackgroundShell:
        """Start a command that goes on beside the conversation; its output file grows while it runs."""
        commands = await self._ready()
        file = self._file(order, SHELL.removesuffix("_"))
        held = await asyncio.to_thread(self._hold, self._plan(order))
        with ExitStack() as stack:
            stack.callback(held.release)
            running = await commands.start(self._command(order, held.plan, file, growing=True))
            standing = stack.pop_all()
        running.task.add_done_callback(lambda _: standing.close())
        shell = self._shells[file.stem] = BackgroundShell(order, running, file)
        running.task.add_done_callback(lambda _: self._when_ended(shell))
        return shell

    def find(self, shell: str) -> BackgroundShell:
        """A background command by its id; UnknownName says which there are."""
        if shell not in self._shells:
            raise UnknownName("shell", shell, self._shells)
        return self._shells[shell]

    def of_task(self, task: str) -> Mapping[str, BackgroundShell]:
        """The background commands that a task started."""
        return {name: shell for name, shell in self._shells.items() if shell.order.task == task}

    def running(self) -> list[BackgroundShell]:
        """The background commands that have not ended, of whatever task."""
        return [shell for shell in self._shells.values() if not shell.over]

    async def run_enclosed(self, command: Command, workspace: Workspace) -> CommandOutcome:
        """Run a command that is none of an agent's, inside the same walls, to its end."""
        commands = await self._ready()
        plan = self._named(
            workspace_profile(
                workspace.root, self._temp, self._home, network=self._network, started=workspace.started
            ),
            workspace,
        )
        async with self._guarded(plan) as plan:
            words = tuple(self._sandbox.enclose(command.run, plan)) if self._sandbox else command.run
            return await commands.run(replace(command, run=words))

    async def close(self) -> None:
        """End every command."""
        if self._commands is not None:
            await self._commands.close()
            _remove(self._temp)

    async def _ready(self) -> CommandRunner:
        async with self._opening:
            if self._commands is None:
                await asyncio.to_thread(self._prepare)
                self._commands = CommandRunner(self._home / "state")
            return self._commands

    def _prepare(self) -> None:
        """Sweep up after a crash, try the walls, and make a private folder for temporary files."""
        end_leftovers(self._home / "state")
        remove_stale_folders(self._temp.parent)
        if self._walls != "off":
            self._sandbox = best_sandbox()
            if self._walls == "required" and not self._sandbox.exists:
                why = " ".join(self._sandbox.report())
                raise ToolError(f"Cannot run commands: the setting sandbox is `required`. {why}")
        try:
            self._temp.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _note(self._temp).write_text(new_owner())
            self._temp.mkdir(mode=0o700, exist_ok=True)  # whoever came first may have been stopped
        except OSError as error:
            raise ToolError(f"Cannot run commands: {self._temp} cannot be made ({error.strerror}).") from None

    def _plan(self, order: CommandRequest) -> SandboxProfile:
        network = order.network or self._network
        started = order.workspace.started
        plan = workspace_profile(
            order.workspace.root, self._temp, self._home, network=network, started=started
        )
        plan = self._named(plan, order.workspace)
        if order.closed and self._sandbox and self._sandbox.hides and can_hide_denied(_reading(order)):
            plan = hide_denied(plan, order.closed, order.workspace.cwd)
        # A second lock: what was shown to only read cannot write either.
        return replace(plan, writable=()) if only_reads(order) else plan

    def _named(self, plan: SandboxProfile, workspace: Workspace) -> SandboxProfile:
        """The plan, with a copy of a folder also where that folder is on the machine of whoever sent it."""
        copied = workspace.copied
        if copied is None or not copied.found_at or not (self._sandbox and self._sandbox.supports_aliases):
            return plan
        from gencode.sandbox.folder_aliases import with_aliases

        return with_aliases(plan, Path(copied.top), copied.found_at)

    def _hold(self, plan: SandboxProfile) -> Placeholders:
        """What must not appear is stood in for, where the wall cannot keep it from appearing."""
        return (
            add_placeholders(plan)
            if self._sandbox and self._sandbox.needs_placeholders
            else Placeholders(plan, [])
        )

    @asynccontextmanager
    async def _guarded(self, plan: SandboxProfile) -> AsyncGenerator[SandboxProfile]:
        """The plan for as long as a command runs."""
        held = await asyncio.to_thread(self._hold, plan)
        try:
            yield held.plan
        finally:
            held.release()

    def _command(self, order: CommandRequest, plan: SandboxProfile, file: Path, *, growing: bool) -> Command:
        words = shell_words(self._bash(), order.text)
        neutral = order.neutral or only_reads(order)
        return Command(
            tuple(self._sandbox.enclose(words, plan)) if self._sandbox else words,
            order.workspace.cwd,
            seconds=order.seconds,
            reads_only=neutral,
            environ=self.variables.environment(order.task, reads_only=neutral),
            may_run_git=may_run_git(order.text),
            git_runs_in=tuple(map(Path, _reading(order).git_folders())),
            workspace=order.workspace.root,
            file=file,
            growing=growing,
        )

    def _bash(self) -> str:
        bash = self._commands.bash if self._commands else None
        if bash is None:
            raise ToolError("bash is not installed on this machine, so commands cannot run.")
        return bash

    def _file(self, order: CommandRequest, kind: str) -> Path:
        return self._home / "outputs" / order.task / f"{kind}_{new_id()}.txt"


def only_reads(order: CommandRequest) -> bool:
    """Whether a command is shown to only read, by what the gate goes by; then it can write nothing either."""
    return _reading(order).only_reads


def _reading(order: CommandRequest) -> CommandReading:
    return read_command(order.text, places_of(order.workspace))


def can_hide_denied(reading: CommandReading) -> bool:
    """Whether a command is shown to only read, and none of its parts is git."""
    return reading.only_reads and not any(unit.is_git for unit in reading.command.units)


def remove_stale_folders(run: Path) -> None:
    """Remove folders for temporary files whose owners have died; not all at once, if there are very many."""
    try:
        notes = [path for path in islice(run.iterdir(), _MOST_NOTES) if path.suffix == OWNER]
    except OSError:
        return
    # The name is checked, because what is removed follows from it.
    folders = (note.with_suffix("") for note in notes if clean_id(note.stem) == note.stem)
    dead = (folder for folder in folders if owner_state(_owner(folder)) == "dead")
    for folder in islice(dead, _MOST_REMOVED):
        _remove(folder)


def _note(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{OWNER}")


def _owner(folder: Path) -> str:
    """Whose a folder is; empty where that cannot be told."""
    try:
        handle = os.open(_note(folder), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(handle, _LONGEST_NOTE).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(handle)


def _remove(folder: Path) -> None:
    """Remove a folder and then its note, which stays for a later try if the folder does. Follows no link."""
    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.lexists(folder):
        with suppress(OSError):
            _note(folder).unlink(missing_ok=True)
