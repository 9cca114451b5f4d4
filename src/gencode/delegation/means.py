"""What the front desk of delegation has at hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from gencode.core.messages import ToolCall
from gencode.delegation.delivery import AgentInbox
from gencode.delegation.origin import Origin
from gencode.runtime.asking import Inquiry, Reply
from gencode.runtime.ports import Engine


class Inquirer(Protocol):
    """Asks on behalf of an agent that wants to know something."""

    async def ask(
        self, origin: Origin, inbox: AgentInbox, inquiries: Sequence[Inquiry], call: ToolCall
    ) -> Reply:
        """The answers, and who gave them."""
        ...


class Means(Struct, frozen=True):
    """What a launcher has at hand.

    `home` is the folder in which background tasks have files and agents have worktrees, `engine` makes
    processes for single tasks, `seconds` is how long an agent works at most where nothing else is said,
    `inquirer` carries questions of agents to whoever can answer. With `remembers`, a
    result may be given again for the same work when nothing it rests on has changed. For `command_seconds` an
    agent that has answered waits for its background commands.
    """

    inquirer: Inquirer
    home: Path | None = None
    engine: Engine | None = None
    seconds: float | None = None
    remembers: bool = False
    command_seconds: float = 600.0
