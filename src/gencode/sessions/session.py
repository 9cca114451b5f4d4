"""A session: the policy, model, folder, shells, approvals and asker that all work of one GenCode shares."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from gencode.agent.models import Model, ModelRegistry
from gencode.agent.stop import Stop
from gencode.core.events import CommandEnded
from gencode.core.questions import Asker
from gencode.core.spec import AgentSpec, Workspace
from gencode.files.file_versions import FileVersions
from gencode.journal.event_bus import EventBus
from gencode.permissions.chain import Chain, Root
from gencode.sessions.caller import Approved, Caller, chain_link

if TYPE_CHECKING:
    from gencode.sandbox.shells import BackgroundShell, SandboxMode, Shells


class WorkspaceSource(Protocol):
    """The folder of a session."""

    def current(self) -> Workspace:
        """The folder as it is now, with the files in it that hooks and servers start."""
        ...


class MainModel:
    """The model that leads conversations: the one that was chosen last, or named, or else the usual one."""

    def __init__(self, models: ModelRegistry, named: str, own: Model | None) -> None:
        """`own` is a program's provider, which answers every agent."""
        self._models = models
        self._named = named
        self._current = own
        self.usual: tuple[str, str] = ("offline", "")
        """The model that answers when none is named, and why it is that one."""

    @property
    def current(self) -> Model:
        """The model of the next turn."""
        if self._current is None or self._current.absent:
            self._current = self._models.resolve(self._named or self.usual[0])
        return self._current

    def use(self, name: str) -> Model:
        """Let another model lead conversations, and what they start, from the next turn on."""
        self._current = self._models.resolve(name)
        return self._current


class SessionShells:
    """The commands of a session; nothing of them is loaded before the first."""

    def __init__(self, home: Path, walls: "SandboxMode", *, network: bool, bus: EventBus) -> None:
        self._home = home
        self._walls: SandboxMode = walls
        self._network = network
        self._bus = bus
        self.started: Shells | None = None

    def all(self) -> "Shells":
        """The one that runs them."""
        if self.started is None:
            from gencode.sandbox.shells import Shells

            self.started = Shells(
                self._home, self._walls, network=self._network, when_ended=self._command_ended
            )
        return self.started

    def running(self) -> "Sequence[BackgroundShell]":
        """The commands in the background that have not ended."""
        return self.started.running() if self.started is not None else ()

    async def close(self) -> None:
        """Stop every command that still runs."""
        if self.started is not None:
            await self.started.close()

    def _command_ended(self, shell: "BackgroundShell") -> None:
        ended = shell.run
        fact = CommandEnded(shell.id, ended.command, ended.exit, str(shell.file))
        self._bus.tell(shell.order.task, fact)


class Session(Struct, frozen=True, eq=False, kw_only=True):
    """What everything that is asked for in one open GenCode shares.

    `own_policy`: permissions were named for this very session, and take the place of those a task had.
    `approved` is what a person has approved for all of it. With `background_questions`, questions of
    background agents reach the person too.
    """

    root: Root
    model: MainModel
    workspace: WorkspaceSource
    stop: Stop
    shells: SessionShells
    files: FileVersions
    approved: Approved
    asker: Asker | None = None
    own_policy: bool = False
    background_questions: bool = False

    def caller(self) -> Caller:
        """The person or the program that opened the session."""
        return Caller(
            session=self,
            chain=Chain(self.root),
            model=self.model.current,
            workspace=self.workspace.current(),
            stop=self.stop,
            approved=self.approved,
        )

    def leader(self, spec: AgentSpec) -> Caller:
        """The same, below the mode and the rules of the agent that leads a conversation."""
        caller = self.caller()
        if spec.mode is None and not spec.rules:
            return caller
        return replace(caller, chain=caller.chain.below(chain_link(spec)))
