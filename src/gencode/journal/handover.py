"""TODO: gencode.journal.handover."""

from typing import Any, Protocol

from msgspec import Struct

from gencode.core.events import TaskCreated
from gencode.core.spec import Effort, ForkPoint
from gencode.core.task import Task


class Handover(Struct, frozen=True, omit_defaults=True):
    """One task for a process of its own: one that is to be `created`, or the earlier one with the id `task`.

    `model`, `effort` and `warnings` are those of the model that was chosen for it. A `bound` process ends its
    task when the one that started it is gone; any other outlives it. A task that waited for its turn is both
    created and has an id; it is leased to `keeper`, in whose place the process takes it. The `account` of a
    session pays for a task of no conversation. Whoever takes it may have `seen` it just before, and then
    begins it only as it was. What is created may be a `fork`. It gets the id `named` from whoever can write
    it down from here, so that the same can be tried again.
    """

    model: str
    created: TaskCreated | None = None
    task: str = ""
    prompt: str = ""
    max_turns: int | None = None
    seconds: float | None = None
    effort: Effort | None = None
    warnings: tuple[str, ...] = ()
    background: bool = False
    bound: bool = False
    account: str = ""
    keeper: str = ""
    seen: Task | None = None
    fork: ForkPoint | None = None
    named: str = ""
    output_schema: dict[str, Any] | None = None
    """What the results of an earlier task have to fit from now on; None: what they had to before."""


class EngineProcess(Protocol):
    """A process that runs one task."""

    @property
    def task(self) -> str:
        """The id of its task, which is written down and has begun."""
        ...

    @property
    def gone(self) -> bool:
        """Whether it has ended, well or not."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


class Engine(Protocol):
    """Where a task executes when it does not do so here."""

    async def start(self, handover: Handover) -> EngineProcess:
        """Start a process for a task; UserMistake says why it could not even begin."""
        ...
