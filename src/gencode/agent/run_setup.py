"""The setup of one run of the loop, and its result."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from gencode.agent.call_budget import TokenEstimator
from gencode.agent.gate import Gate
from gencode.agent.models import Model
from gencode.agent.ports import Delegate, Inbox
from gencode.agent.toolbox import Toolbox, no_shells
from gencode.core.budget import Price
from gencode.core.changes import Changes
from gencode.core.spec import Workspace
from gencode.core.status import EndReason, Status
from gencode.files.file_versions import SeenFiles

if TYPE_CHECKING:
    from gencode.agent.call_budget import CallBudget
    from gencode.agent.hooks import Hooks
    from gencode.agent.work_queue import Slot
    from gencode.sandbox.shells import Shells


USUAL_CONTEXT = 128_000
"""The assumed context of a model in tokens, if it is not known."""


GRACE = (
    "[You have used all {turns} turns of this task, and no tool can be called any more. Answer now with what "
    "you have found, and say what is still open.]"
)


class RunLimits(Struct, frozen=True, gc=False):
    """Limits of one run; None means no limit."""

    turns: int | None = None
    commands: float | None = None
    """How long it waits for its background commands after its answer; None: as the settings say."""

    def reached(self, turns: int) -> bool:
        """Whether no further ordinary turn may start after this many."""
        return self.turns is not None and turns >= self.turns

    def left(self, turns: int) -> int | None:
        """How many ordinary turns may follow after this many; None without a limit."""
        return None if self.turns is None else self.turns - turns

    def last_word(self) -> str:
        """The message before the one last turn without tools."""
        return GRACE.format(turns=self.turns)

    def reached_words(self) -> str:
        """Why the run ended, if no further turn could start."""
        return f"the limit of {self.turns} {'turn' if self.turns == 1 else 'turns'} was reached"


class RunSetup(Struct, frozen=True, eq=False):
    """Everything one run of the loop needs; the main agent and a subagent differ only here.

    `slot` is its slot in the work queue (None: it needs none), `call_budget` pays for its calls if there are
    budgets, `schema` is the form of its result. `sent`: a subagent, started by an agent and not by a person
    or a program.
    """

    model: Model
    system: str
    gate: Gate
    limits: RunLimits
    delegate: Delegate | None = None
    inbox: Inbox | None = None
    seen: SeenFiles = field(default_factory=SeenFiles)
    shells: "Callable[[], Shells]" = no_shells
    slot: "Slot | None" = None
    call_budget: "CallBudget | None" = None
    price: Price = Price()
    schema: dict[str, Any] | None = None
    hooks: "Hooks | None" = None
    sent: bool = False
    scale: TokenEstimator = field(default_factory=TokenEstimator)

    @property
    def agent(self) -> str:
        """The name of its agent."""
        return self.gate.agent.name

    @property
    def toolbox(self) -> Toolbox:
        """The tools it has."""
        return self.gate.toolbox

    @property
    def workspace(self) -> Workspace:
        """The folders it works in."""
        return self.gate.workspace

    @property
    def context(self) -> int:
        """The context of its model in tokens."""
        return self.price.context or USUAL_CONTEXT


class LoopResult(Struct, frozen=True):
    """How a run ended; `warnings` are about the report itself."""

    status: Status
    reason: EndReason
    text: str = ""
    error: str | None = None
    warnings: tuple[str, ...] = ()
    output: Any = None
    changes: tuple[Changes, ...] = ()
