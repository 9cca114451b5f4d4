"""Everything one run of the loop needs, and how a run ends."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from gencode.agent.call_cost import TokenEstimator
from gencode.agent.gate import Gate
from gencode.agent.limits import RunLimits
from gencode.agent.models import Model
from gencode.agent.ports import Delegate, Inbox
from gencode.agent.toolbox import Toolbox, no_shells
from gencode.core.changes import Changes
from gencode.core.prices import Price
from gencode.core.reasons import EndReason
from gencode.core.spec import Workspace
from gencode.core.status import Status
from gencode.files.file_versions import SeenFiles

if TYPE_CHECKING:
    from gencode.agent.hooks import Hooks
    from gencode.agent.payer import CallBudget
    from gencode.agent.work_queue import Slot
    from gencode.sandbox.shells import Shells

USUAL_CONTEXT = 128_000
"""So many tokens a model is taken to hold when nobody knows better."""


class RunSetup(Struct, frozen=True, eq=False):
    """Everything one run of the loop needs; the main agent and a subagent differ only here.

    `slot` is its right to be at work beside others (None: always), `payer` pays for its calls where there are
    budgets, `schema` what its result has to look like. Who has it was `sent` by an agent, or else by a person
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
    payer: "CallBudget | None" = None
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
        """How many tokens its model holds."""
        return self.price.context or USUAL_CONTEXT


class LoopResult(Struct, frozen=True):
    """How a run ended, as the runtime saw it; `warnings` are about the report itself."""

    status: Status
    reason: EndReason
    text: str = ""
    error: str | None = None
    warnings: tuple[str, ...] = ()
    output: Any = None
    changes: tuple[Changes, ...] = ()
