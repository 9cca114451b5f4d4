"""The shell of a session: its folder and sandbox; runs commands, and those that only read without writing."""

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from gencode.core.errors import ToolError, UnknownName
from gencode.core.ids import SHELL, clean_id, new_id
from gencode.core.messages import CommandRun
from gencode.core.spec import Workspace
from gencode.core.structs import replace
from gencode.journal.owner import new_owner, owner_state
from gencode.permissions.paths import places_of
from gencode.sandbox.choose_sandbox import Sandbox
from gencode.sandbox.confinement import Confinement, confinement
from gencode.sandbox.guarded_paths import guarded_state, real_path, touched_paths
from gencode.sandbox.placeholder_files import Placeholders, add_placeholders
from gencode.sandbox.processes.command import Command, CommandOutcome, shell_words
from gencode.sandbox.processes.command_runner import CommandRunner
from gencode.sandbox.processes.fork_server_client import end_leftovers
from gencode.sandbox.processes.git_programs import may_run_git
from gencode.sandbox.processes.running_command import RunningCommand
from gencode.sandbox.profile import SandboxProfile, hide_denied, workspace_profile
from gencode.sandbox.trial_record import known_sandbox
from gencode.sandbox.variables import AgentVariables

if TYPE_CHECKING:
    from gencode.permissions.bash.decision import CommandReading

SandboxMode = Literal["auto", "off", "required"]
"""Whether commands are enclosed: where it works, never, or else not run at all."""


OWNER = ".owner"
"""The end of the note beside a folder for temporary files, which says whose that folder is.

The folder's own name is in the TMPDIR of commands, where the blanks and bars of an owner's name would break
many a program.
"""
HOOKS = "hooks"
"""The folder for temporary files of commands that are none of an agent's."""
SERVERS = "servers"
"""The one for those of MCP servers."""
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
    written: Callable[[str], None] | None = None
    """Gets the last lines of the output, a few times a second while it is written."""


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


class TaskNetwork:
    """The network namespace that the commands of a task share, held open by our process while one runs.

    It ends with the last process in it, and ours holds nothing but files: a crash leaves nothing behind.
    """

    def __init__(self, task: str) -> None:
        self.task = task
        self.users = 0
        self.files: tuple[int, ...] = ()
        self.making = asyncio.Lock()

    def close(self) -> None:
        """Let go of it."""
        for file in self.files:
            os.close(file)
        self.files = ()


class ServerWall:
    """What encloses one MCP server."""

    def __init__(self, sandbox: Sandbox | None, held: Placeholders) -> None:
        self._sandbox = sandbox
        self._held = held

    def enclose(self, words: Sequence[str]) -> list[str]:
        """The command line that runs a program inside."""
        return self._sandbox.enclose(words, self._held.plan) if self._sandbox else list(words)

    def release(self) -> None:
        """The server has ended."""
        self._held.release()


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
        self._networks: dict[str, TaskNetwork] = {}
        self._opening = asyncio.Lock()
        self._prepared = False

    @cached_property
    def variables(self) -> AgentVariables:
        """The environment variables that agents set for their own commands."""
        return AgentVariables()

    async def run(self, order: CommandRequest) -> ShellResult:
        """Run a command to its end; what is longer than memory should hold goes to a file."""
        commands = await self._ready()
        async with self._sharing(order) as network, self._guarded(self._plan(order, network)) as plan:
            before = await asyncio.to_thread(guarded_state, plan.watched())
            command = self._command(order, plan, self._file(order, "bash"), network, growing=False)
            ended = await commands.run(command)
            after = await asyncio.to_thread(guarded_state, plan.watched())
        return ShellResult(ended, tuple(touched_paths(before, after)), plan.veiled)

    async def start(self, order: CommandRequest) -> BackgroundShell:
        """Start a command that goes on beside the conversation; its output file grows while it runs."""
        commands = await self._ready()
        file = self._file(order, SHELL.removesuffix("_"))
        network = await self._join(order)
        with ExitStack() as stack:
            stack.callback(self._leave, network)
            held = await asyncio.to_thread(self._hold, self._plan(order, network))
            stack.callback(held.release)
            running = await commands.start(self._command(order, held.plan, file, network, growing=True))
            standing = stack.pop_all()
        running.task.add_done_callback(lambda _: standing.close())
        shell = self._shells[file.stem] = BackgroundShell(order, running, file)
        running.task.add_done_callback(lambda _: self._when_ended(shell))
        return shell

    async def confinement(self, workspace: Workspace, *, network: bool = False) -> Confinement:
        """What is enforced for an agent's commands in a workspace, or for one that was given the network.

        The first time, the sandbox is tried.
        """
        await self._open()
        plan = workspace_profile(
            workspace.root,
            self._temp,
            self._home,
            network=network or self._network,
            started=workspace.started,
        )
        return confinement(self._sandbox, plan)

    def find(self, shell: str) -> BackgroundShell:
        """A background command by its id; UnknownName says which there are."""
        if shell not in self._shells:
            raise UnknownName("shell", shell, self._shells)
        return self._shells[shell]

    def starter(self, shell: str) -> str:
        """The task that started a background command; empty for an unknown one."""
        return self._shells[shell].order.task if shell in self._shells else ""

    def of_task(self, task: str) -> Mapping[str, BackgroundShell]:
        """The background commands that a task started."""
        return {name: shell for name, shell in self._shells.items() if shell.order.task == task}

    def running(self) -> list[BackgroundShell]:
        """The background commands that have not ended, of whatever task."""
        return [shell for shell in self._shells.values() if not shell.over]

    async def run_enclosed(
        self, command: Command, workspace: Workspace, *, reads_only: bool = False
    ) -> CommandOutcome:
        """Run a command that is none of an agent's, inside the same walls, to its end.

        `reads_only`: it can write nothing, and is not run where nothing keeps it from that.
        """
        commands = await self._ready()
        temp = self._temp_of(HOOKS)
        if reads_only:
            self._check_wall("a hook")
        plan = workspace_profile(
            workspace.root, temp, self._home, network=self._network, started=workspace.started
        )
        # What it is told lies in a file of ours in /tmp.
        plan = replace(self._named(plan, workspace), private_tmp=False, of_tmp=())
        plan = replace(plan, writable=()) if reads_only else plan
        async with self._guarded(plan) as plan:
            words = tuple(self._sandbox.enclose(command.run, plan)) if self._sandbox else command.run
            return await commands.run(replace(command, run=words))

    async def wall_for_server(
        self,
        workspace: Workspace,
        *,
        network: bool,
        writes: Sequence[str],
        reads_only: bool,
        project: bool,
    ) -> "ServerWall":
        """The wall of an MCP server, with folders that it may write beside the workspace.

        ToolError where one of a `project` could write although it must not.
        """
        await self._ready()
        if project and reads_only:
            self._check_wall("an MCP server of the project")
        more = await asyncio.to_thread(_folders, workspace.root, writes)
        plan = workspace_profile(
            workspace.root,
            self._temp_of(SERVERS),
            self._home,
            network=network or self._network,
            also_writable=more,
            started=workspace.started,
        )
        plan = self._named(plan, workspace)
        if not project:  # its program may lie anywhere
            plan = replace(plan, private_tmp=False, of_tmp=())
        held = await asyncio.to_thread(self._hold, replace(plan, writable=()) if reads_only else plan)
        return ServerWall(self._sandbox, held)

    def _check_wall(self, what: str) -> None:
        """In plan mode nothing of a project runs that could write."""
        if not (self._sandbox and self._sandbox.exists):
            raise ToolError(f"plan mode does not start {what} where there is no sandbox")

    async def close(self) -> None:
        """End every command."""
        if self._commands is not None:
            await self._commands.close()
        if self._prepared:
            _remove(self._temp)

    async def _ready(self) -> CommandRunner:
        await self._open()
        if self._commands is None:
            self._commands = CommandRunner(self._home / "state")
        return self._commands

    async def _open(self) -> None:
        async with self._opening:
            if not self._prepared:
                await asyncio.to_thread(self._prepare)
                self._prepared = True

    def _prepare(self) -> None:
        """Sweep up after a crash, try the walls, and make a private folder for temporary files."""
        end_leftovers(self._home / "state")
        remove_stale_folders(self._temp.parent)
        if self._walls != "off":
            self._sandbox = known_sandbox(self._home / "state")
            if self._walls == "required" and not self._sandbox.exists:
                why = " ".join(self._sandbox.report())
                raise ToolError(f"Cannot run commands: the setting sandbox is `required`. {why}")
        try:
            self._temp.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _note(self._temp).write_text(new_owner())
            self._temp.mkdir(mode=0o700, exist_ok=True)  # whoever came first may have been stopped
        except OSError as error:
            raise ToolError(f"Cannot run commands: {self._temp} cannot be made ({error.strerror}).") from None

    @asynccontextmanager
    async def _sharing(self, order: CommandRequest) -> AsyncGenerator["TaskNetwork | None"]:
        """The network of a task for as long as one of its commands runs."""
        network = await self._join(order)
        try:
            yield network
        finally:
            self._leave(network)

    async def _join(self, order: CommandRequest) -> "TaskNetwork | None":
        """The network that the commands of a task share; None where it has the machine's, or none is shared.

        It is there while a command uses it: a network without processes has nothing in it.
        """
        if order.network or self._network or not (self._sandbox and self._sandbox.shares_network):
            return None
        network = self._networks.get(order.task)
        if network is None:
            network = self._networks[order.task] = TaskNetwork(order.task)
        network.users += 1
        joined = False
        try:
            async with network.making:
                if not network.files and self._commands is not None:
                    network.files = tuple(await self._commands.make_network())
            if not network.files:
                raise ToolError("The command cannot get a network of its own. Try again later.")
            joined = True
        finally:
            if not joined:
                self._leave(network)
        return network

    def _leave(self, network: "TaskNetwork | None") -> None:
        """A command has ended; the last one takes the network with it."""
        if network is None:
            return
        network.users -= 1
        if not network.users:
            self._networks.pop(network.task, None)
            network.close()

    def _temp_of(self, name: str) -> Path:
        """A folder for temporary files that the commands of one task share."""
        folder = self._temp / name
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ToolError(f"Cannot run commands: {folder} cannot be made ({error.strerror}).") from None
        return folder

    def _plan(self, order: CommandRequest, shared: "TaskNetwork | None") -> SandboxProfile:
        network = order.network or self._network
        started = order.workspace.started
        temp = self._temp_of(order.task)
        plan = workspace_profile(order.workspace.root, temp, self._home, network=network, started=started)
        plan = replace(self._named(plan, order.workspace), joined=shared is not None)
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

    def _command(
        self,
        order: CommandRequest,
        plan: SandboxProfile,
        file: Path,
        shared: "TaskNetwork | None",
        *,
        growing: bool,
    ) -> Command:
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
            namespaces=shared.files if shared else (),
            written=order.written,
        )

    def _bash(self) -> str:
        bash = self._commands.bash if self._commands else None
        if bash is None:
            raise ToolError("bash is not installed on this machine, so commands cannot run.")
        return bash

    def _file(self, order: CommandRequest, kind: str) -> Path:
        return self._home / "outputs" / order.task / f"{kind}_{new_id()}.txt"


def _folders(root: Path, names: Sequence[str]) -> list[Path]:
    """Folders by their names, relative ones below a root; ToolError for one that is not there."""
    found = [real_path(root / Path(each).expanduser()) for each in names]
    if missing := next((each for each in found if not each.is_dir()), None):
        raise ToolError(f"its sandbox lets it write {missing}, which is no folder")
    return found


def only_reads(order: CommandRequest) -> bool:
    """Whether a command is shown to only read, by what the gate goes by; then it can write nothing either."""
    return _reading(order).only_reads


def _reading(order: CommandRequest) -> "CommandReading":
    from gencode.permissions.bash.decision import read_command  # the parser is loaded with the first command

    return read_command(order.text, places_of(order.workspace))


def can_hide_denied(reading: "CommandReading") -> bool:
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
