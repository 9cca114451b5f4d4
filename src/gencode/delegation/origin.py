"""Who asks for work: the ceiling over it, and the branch of the stop tree it hangs from."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from gencode.core.messages import UserMessage, place_told
from gencode.core.place import ClonePlace, TaskPlace
from gencode.core.rules import Mode, Policy
from gencode.core.spec import AgentSpec, Copied, Workspace
from gencode.permissions.calls import Approval, grant_approval
from gencode.permissions.chain import Chain, Link
from gencode.permissions.given import Given, Once
from gencode.permissions.links import as_links_lead
from gencode.permissions.paths import places_of
from gencode.runtime.asking import Asker
from gencode.runtime.models import Model
from gencode.runtime.seen import FileVersions, Seen
from gencode.runtime.stop import Stop
from gencode.runtime.toolbox import no_shells

if TYPE_CHECKING:
    from gencode.runtime.shells import Shells


class Origin(Struct, frozen=True, eq=False):
    """A place from which work is asked for: a person, or the seat of an agent.

    `stop` is the branch of the turn, `session` the one that background work hangs from. `disturb` lets the
    questions of agents in the background reach the person too. What is asked for here ends at the moment
    `until`. `account` is that of the session, which pays for work that belongs to no conversation. `sends`
    are the agents that may be sent from here (None: every one).
    """

    chain: Chain
    model: Model
    workspace: Workspace
    stop: Stop
    session: Stop
    task: str | None = None
    depth: int = 0
    asker: Asker | None = None
    answered: set[Approval] = set()
    given: Given = field(default_factory=Given)
    lineage: tuple[str, ...] = ()
    background: bool = False
    disturb: bool = False
    shells: "Callable[[], Shells]" = no_shells
    account: str = ""
    until: float | None = None
    sends: tuple[str, ...] | None = None
    files: FileVersions = field(default_factory=FileVersions)
    seen: Seen | None = None
    """What the agent at this place knows of files from before."""

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies as they are written, their deny and ask rules also for where links lead here and now.

        Another machine could not tell.
        """
        places = places_of(self.workspace)
        return tuple(as_links_lead(policy, places) for policy in self.chain.bare)

    def below(self, spec: AgentSpec, model: Model, *, background: bool, link: Link) -> "Origin":
        """The place of an agent that is sent from here."""
        return replace(
            self,
            chain=self.chain.below(link),
            model=model,
            stop=(self.session if background else self.stop).branch(),
            depth=self.depth + 1,
            given=Given(self.given),
            lineage=(*self.lineage, spec.name),
            background=self.background or background,
            sends=spec.sends or (),
            seen=None,
        )

    def ending(self, moment: float | None) -> "Origin":
        """The same place, which ends at a moment with everything below it."""
        if moment is None:
            return self
        return replace(self, until=moment if self.until is None else min(moment, self.until))

    def talking(self, spec: AgentSpec) -> "Origin":
        """The place of the agent that leads a conversation."""
        return replace(
            self, stop=self.stop.branch(), given=Given(self.given), lineage=(spec.name,), sends=spec.sends
        )

    def afresh(self) -> "Origin":
        """The same place for a session that begins: what is said yes to in it counts in no other."""
        return replace(self, given=Given(self.given, session=True), answered=Once(self.answered))

    def grant(self, spec: AgentSpec) -> Mode | None:
        """The wider mode that a person said yes to when this agent was to be sent from here."""
        mode = self.chain.grant_for(spec.mode)
        if mode is None or grant_approval(self.task or "", spec.name, mode) not in self.answered:
            return None
        return mode

    def notes(self, place: TaskPlace | None = None) -> list[UserMessage]:
        """What an agent is told of its place: a clone, and a ceiling over what its mode would let it do.

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
            f"This agent's mode {own} counts only as far as {ceiling.owner} reaches, which is in the mode "
            f"{ceiling.mode}: nobody granted more. What that mode would ask or refuse is asked or refused "
            "here."
        )
        return [*clone, UserMessage(text, sender="system")]


def _in_clone(copied: Copied) -> UserMessage:
    text = (
        f"You work in a clone of the repository of {copied.of}, in {copied.top}. Tools for files take names "
        f"that begin with "
        f"{copied.of}/ for those in it; commands do not, so name files in them as they are here. What was "
        "changed in the other folder is here only if it was committed and fetched, so look before you rely "
        "on it."
    )
    return place_told(text, ClonePlace(copied.top, copied.of))


def link_of(spec: AgentSpec, grant: Mode | None = None) -> Link:
    """What an agent adds to the chain of policies over it."""
    return Link(f"agent {spec.name}", spec.mode, spec.rules, grant)
