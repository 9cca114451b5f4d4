"""Everything one run of the loop needs, and how a run ends."""

from dataclasses import dataclass

from gencode.core.spec import Workspace
from gencode.core.status import Status
from gencode.runtime.gate import Gate
from gencode.runtime.limits import Limits
from gencode.runtime.ports import Delegate, Provider
from gencode.runtime.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Seat:
    """Everything one run of the loop needs; the main agent and a subagent differ only here."""

    agent: str
    model: str
    provider: Provider
    system: str
    toolbox: Toolbox
    gate: Gate
    workspace: Workspace
    limits: Limits
    delegate: Delegate | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended, as the runtime saw it."""

    status: Status
    text: str = ""
    error: str | None = None
