"""Everything one run of the loop needs, and how a run ends."""

from msgspec import Struct

from gencode.core.spec import Workspace
from gencode.core.status import Status
from gencode.runtime.gate import Gate
from gencode.runtime.limits import Limits
from gencode.runtime.ports import Delegate, Provider
from gencode.runtime.toolbox import Toolbox


class Seat(Struct, frozen=True, eq=False):
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


class Ending(Struct, frozen=True):
    """How a run ended, as the runtime saw it."""

    status: Status
    text: str = ""
    error: str | None = None
