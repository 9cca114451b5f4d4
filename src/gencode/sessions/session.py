"""A session: what all work of one open GenCode shares; and its callers, who ask for that work."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from gencode.agent.models import Model, ModelRegistry
from gencode.agent.stop import Stop
from gencode.core.events import CommandEnded
from gencode.core.messages import Message, NoticeKind, SystemNotice, UserMessage, place_message
from gencode.core.place import ClonePlace, FolderCopy, TaskPlace
from gencode.core.questions import Asker
from gencode.core.rules import Mode, Policy
from gencode.core.spec import AgentSpec, Workspace
from gencode.core.structs import replace
from gencode.files.file_versions import FileVersions, SeenFiles
from gencode.journal.event_bus import EventBus
from gencode.permissions.calls import Approval, SpawnApproval, grant_approval, names_agent
from gencode.permissions.chain import Chain, ChainLink, Root
from gencode.permissions.grants import Grants, SessionApprovals
from gencode.permissions.links import as_links_lead
from gencode.permissions.paths import places_of

if TYPE_CHECKING:
    from gencode.sandbox.shells import BackgroundShell, SandboxMode, Shells


class WorkspaceSource(Protocol):
    """The folder of a session."""

    def current(self) -> Workspace:
        """The folder as it is now, with the files in it that hooks and servers start."""
        ...


class MainModel:
    """The model that leads conversations: the last one chosen, else the named one, else the usual one."""

    def __init__(self, models: ModelRegistry, named: str, usual: tuple[str, str], own: Model | None) -> None:
        """`usual` is the default model, with the reason for it; `own` is the embedding program's provider."""
        self._models = models
        self._named = named
        self._current = own
        self.usual = usual

    @property
    def current(self) -> Model:
        """The model of the next turn."""
        if self._current is None or self._current.absent:
            self._current = self._models.resolve(self._named or self.usual[0])
        return self._current

    def for_turn(self, asked: str) -> Model:
        """The model of one turn; an unknown name in a file gets the current model."""
        if not asked:
            return self.current
        from gencode.agent.model_names import model_called

        return self._models.resolve(model_called(asked), self.current, from_file=True)

    def use(self, name: str) -> Model:
        """Use another model for conversations and what they start, from the next turn on."""
        self._current = self._models.resolve(name)
        return self._current


class SessionShells:
    """The commands of a session; the code that runs them is loaded at the first one."""

    def __init__(self, home: Path, walls: "SandboxMode", *, network: bool, bus: EventBus) -> None:
        self._home = home
        self._walls: SandboxMode = walls
        self._network = network
        self._bus = bus
        self.started: Shells | None = None

    def all(self) -> "Shells":
        """The runner of the session's commands."""
        if self.started is None:
            from gencode.sandbox.shells import Shells

            self.started = Shells(
                self._home, self._walls, network=self._network, when_ended=self._command_ended
            )
        return self.started

    def running(self) -> "Sequence[BackgroundShell]":
        """The background commands that have not ended."""
        return self.started.running() if self.started is not None else ()

    async def close(self) -> None:
        """Stop every command that still runs."""
        if self.started is not None:
            await self.started.close()

    def _command_ended(self, shell: "BackgroundShell") -> None:
        ended = shell.run
        fact = CommandEnded(shell.id, ended.command, ended.exit, str(shell.file))
        self._bus.tell(shell.order.task, fact)


class Approved(Struct, frozen=True, eq=False):
    """What a person has approved: `once` for what a session asks only once, and as `rules`."""

    once: set[Approval] = field(default_factory=set[Approval])
    rules: Grants = field(default_factory=Grants)

    def below(self) -> "Approved":
        """The approvals for an agent: those for it alone apply to no other."""
        return replace(self, rules=Grants(self.rules))

    def for_session(self) -> "Approved":
        """The approvals for a new session: those given in it apply in no other."""
        return Approved(SessionApprovals(self.once), Grants(self.rules, session=True))


class Caller(Struct, frozen=True, eq=False, kw_only=True):
    """A person or an agent that asks for work.

    What it starts has no more rights than its `chain`, and is stopped with its branch `stop`. `task` is the
    task of an agent, `lineage` the names of its ancestors and its own. `sends` are the agents that it may
    start (None: all). `account` is that of a session, which pays for work that belongs to no conversation.
    What it starts ends at the time `until`.
    """

    session: "Session"
    chain: Chain
    model: Model
    workspace: Workspace
    stop: Stop
    task: str | None = None
    depth: int = 0
    lineage: tuple[str, ...] = ()
    background: bool = False
    fork: bool = False
    """Whether it is a fork of its parent."""
    spawned: bool = False
    """Whether `spawn` started it: its questions reach the person although it works in the background."""
    sends: tuple[str, ...] | None = None
    approved: Approved = field(default_factory=Approved)
    account: str = ""
    until: float | None = None
    seen: SeenFiles | None = None
    """The file versions the agent knows from before."""

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies as written, their deny and ask rules also for where links lead here and now.

        Another machine could not resolve them.
        """
        places = places_of(self.workspace)
        return tuple(as_links_lead(policy, places) for policy in self.chain.bare)

    def below(self, spec: AgentSpec, model: Model, *, background: bool, link: ChainLink) -> "Caller":
        """The caller that a subagent started from here is."""
        return replace(
            self,
            chain=self.chain.below(link),
            model=model,
            stop=(self.session.stop if background else self.stop).branch(),
            depth=self.depth + 1,
            approved=self.approved.below(),
            lineage=(*self.lineage, spec.name),
            background=self.background or background,
            fork=False,
            spawned=False,
            sends=spec.sends or (),
            seen=None,
        )

    def forked_from(self, spec: AgentSpec) -> "Caller":
        """The caller that this fork's parent is: the same agent, one level above."""
        depth = self.depth - 1
        return replace(self, fork=False, depth=depth, sends=spec.sends if depth == 0 else spec.sends or ())

    def ending(self, moment: float | None) -> "Caller":
        """The same caller, with an end time for everything it starts."""
        if moment is None:
            return self
        return replace(self, until=moment if self.until is None else min(moment, self.until))

    def leading(self, spec: AgentSpec) -> "Caller":
        """The caller that the agent leading a conversation is."""
        return replace(
            self,
            stop=self.stop.branch(),
            approved=self.approved.below(),
            lineage=(spec.name,),
            sends=spec.sends,
        )

    def afresh(self) -> "Caller":
        """The same caller for a new session: what is approved in it applies in no other."""
        return replace(self, approved=self.approved.for_session())

    def grant(self, spec: AgentSpec) -> Mode | None:
        """The wider mode that a person approved for this agent: when asked, or by `--allow Task(NAME)`."""
        mode = self.chain.grant_for(spec.mode)
        if mode is None:
            return None
        asked = grant_approval(self.task or "", spec.name, mode) in self.approved.once
        return mode if asked or any(names_agent(rule, spec.name) for rule in self.chain[0].rules) else None

    def notes(self, place: TaskPlace | None = None, known: Sequence[Message] = ()) -> list[UserMessage]:
        """The notices about the place of an agent: a clone, and a limit on its mode.

        It already knows that it works in `place`, and the messages in `known`.
        """
        copied, ceiling = self.workspace.copied, self.chain.ceiling()
        clone: list[UserMessage] = []
        if copied is not None and copied.narrows and place != ClonePlace(copied.top, copied.of):
            clone = [_in_clone(copied)]
        if ceiling is None:
            return clone
        own = self.chain[-1].mode
        notice = SystemNotice(NoticeKind.MODE, limited=(own, ceiling.owner, ceiling.mode))
        if any(isinstance(each, UserMessage) and each.notice == notice for each in known):
            return clone
        text = (
            f"[This agent's mode {own} is limited by {ceiling.owner}, which runs in mode {ceiling.mode}: "
            "no wider mode was approved. Calls that need approval or are refused in that mode are treated "
            "the same here.]"
        )
        return [*clone, UserMessage(text, sender="system", notice=notice)]


class Session(Struct, frozen=True, eq=False, kw_only=True):
    """What all work of one open GenCode shares.

    `own_policy`: permissions were given for this very session, and replace those a resumed task had.
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
    spawn_approval: SpawnApproval = "session"
    web_read_hosts: tuple[str, ...] = ()

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
        """The same with the mode and the rules of the agent that leads a conversation."""
        caller = self.caller()
        if spec.mode is None and not spec.rules:
            return caller
        return replace(caller, chain=caller.chain.below(chain_link(spec)))


def _in_clone(copied: FolderCopy) -> UserMessage:
    text = (
        f"You work in a clone of the repository of {copied.of}, in {copied.top}. File tools accept paths "
        f"that begin with {copied.of}/; commands do not, so use paths of the clone in them. Changes made in "
        "the other folder are here only if they were committed and fetched, so check before you rely on them."
    )
    return place_message(text, ClonePlace(copied.top, copied.of))


def chain_link(spec: AgentSpec, grant: Mode | None = None) -> ChainLink:
    """The link an agent adds to the chain of policies."""
    return ChainLink(f"agent {spec.name}", spec.mode, spec.rules, grant)
