"""The caller: a person or an agent that asks for work, with the rights, model and folder it passes on."""

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from gencode.agent.models import Model
from gencode.agent.stop import Stop
from gencode.core.messages import UserMessage, place_told
from gencode.core.place import ClonePlace, FolderCopy, TaskPlace
from gencode.core.rules import Mode, Policy
from gencode.core.spec import AgentSpec, Workspace
from gencode.files.file_versions import SeenFiles
from gencode.permissions.calls import Approval, grant_approval
from gencode.permissions.chain import Chain, ChainLink
from gencode.permissions.grants import Grants, SessionApprovals
from gencode.permissions.links import as_links_lead
from gencode.permissions.paths import places_of

if TYPE_CHECKING:
    from gencode.sessions.session import Session


class Approved(Struct, frozen=True, eq=False):
    """What a person has approved: `once`, where a session asks one time only, and as `rules`."""

    once: set[Approval] = field(default_factory=set[Approval])
    rules: Grants = field(default_factory=Grants)

    def below(self) -> "Approved":
        """For an agent: what is approved for it alone applies to no other."""
        return replace(self, rules=Grants(self.rules))

    def for_session(self) -> "Approved":
        """For a session that begins: what is approved in it applies in no other."""
        return Approved(SessionApprovals(self.once), Grants(self.rules, session=True))


class Caller(Struct, frozen=True, eq=False, kw_only=True):
    """Who asks for work: a person, or an agent at its place in the tree of tasks.

    What it starts has no more rights than its `chain`, and is stopped with its branch `stop`. `task` is that
    of an agent, `lineage` the names of the agents above it and its own. `sends` are the agents that it may
    start (None: all). `account` is that of a session, which pays for work that belongs to no conversation.
    What it starts ends at the moment `until`.
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
    sends: tuple[str, ...] | None = None
    approved: Approved = field(default_factory=Approved)
    account: str = ""
    until: float | None = None
    seen: SeenFiles | None = None
    """What the agent knows of files from before."""

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies as they are written, their deny and ask rules also for where links lead here and now.

        Another machine could not tell.
        """
        places = places_of(self.workspace)
        return tuple(as_links_lead(policy, places) for policy in self.chain.bare)

    def below(self, spec: AgentSpec, model: Model, *, background: bool, link: ChainLink) -> "Caller":
        """The place of an agent that is started from here."""
        return replace(
            self,
            chain=self.chain.below(link),
            model=model,
            stop=(self.session.stop if background else self.stop).branch(),
            depth=self.depth + 1,
            approved=self.approved.below(),
            lineage=(*self.lineage, spec.name),
            background=self.background or background,
            sends=spec.sends or (),
            seen=None,
        )

    def ending(self, moment: float | None) -> "Caller":
        """The same, where everything it starts ends at a moment."""
        if moment is None:
            return self
        return replace(self, until=moment if self.until is None else min(moment, self.until))

    def leading(self, spec: AgentSpec) -> "Caller":
        """The place of the agent that leads a conversation."""
        return replace(
            self,
            stop=self.stop.branch(),
            approved=self.approved.below(),
            lineage=(spec.name,),
            sends=spec.sends,
        )

    def afresh(self) -> "Caller":
        """The same for a session that begins: what is approved in it applies in no other."""
        return replace(self, approved=self.approved.for_session())

    def grant(self, spec: AgentSpec) -> Mode | None:
        """The wider mode that a person approved when this agent was to be started from here."""
        mode = self.chain.grant_for(spec.mode)
        if mode is None or grant_approval(self.task or "", spec.name, mode) not in self.approved.once:
            return None
        return mode

    def notes(self, place: TaskPlace | None = None) -> list[UserMessage]:
        """The notices about the place of an agent: a clone, and a limit on its mode.

        It knows already that it works in the `place` where it was last.
        """
        copied, ceiling = self.workspace.copied, self.chain.ceiling()
        clone: list[UserMessage] = []
        if copied is not None and copied.narrows and place != ClonePlace(copied.top, copied.of):
            clone = [_in_clone(copied)]
        if ceiling is None:
            return clone
        own = self.chain[-1].mode
        text = (
            f"This agent's mode {own} is limited by {ceiling.owner}, which runs in mode {ceiling.mode}: "
            "nobody granted more. Calls that need approval or are refused in that mode are treated the same "
            "here."
        )
        return [*clone, UserMessage(text, sender="system")]


def _in_clone(copied: FolderCopy) -> UserMessage:
    text = (
        f"You work in a clone of the repository of {copied.of}, in {copied.top}. File tools accept paths "
        f"that begin with {copied.of}/; commands do not, so use paths of the clone in them. Changes made in "
        "the other folder are here only if they were committed and fetched, so check before you rely on them."
    )
    return place_told(text, ClonePlace(copied.top, copied.of))


def chain_link(spec: AgentSpec, grant: Mode | None = None) -> ChainLink:
    """What an agent adds to the chain of policies over it."""
    return ChainLink(f"agent {spec.name}", spec.mode, spec.rules, grant)
