"""The events of all tasks in one order, whichever process writes them.

A place in that order is a number that only a store understands, and the fact that stands there. The order
never changes afterwards: whoever was told of a place has been told of everything before it, also of what was
committed late. A number may be given again once its fact was deleted; the fact is what counts.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from gencode.core.errors import CorruptFact
from gencode.core.events import Event
from gencode.core.messages import Usage
from gencode.core.old_events import stored_fact
from gencode.core.status import Status

END = 2**62
"""Behind every place."""
MOST = 500
MOST_BYTES = 4_000_000
"""So many bytes of facts are read at once, and one more fact."""


class LogPosition(NamedTuple):
    """Where a fact stands among all facts."""

    place: int
    task: str
    seq: int


class LogEntry(NamedTuple):
    """A fact and where it stands; no event where it cannot be read."""

    mark: LogPosition
    event: Event | None


class GlobalLog(Protocol):
    """Reads the facts of all tasks, a part at a time."""

    async def end(self) -> LogPosition | None:
        """The newest fact before which nothing more can appear; None when there is none at all."""
        ...

    async def mark(self, task: str, seq: int) -> LogPosition | None:
        """Where a fact stands; None when it is not there (any more)."""
        ...

    async def after(
        self, mark: LogPosition | None, upto: int = END, most: int = MOST
    ) -> list[LogEntry] | None:
        """The facts after a mark (None: from the first one) and up to a place, in order.

        Only those before which nothing more can appear. None when the fact of the mark was deleted and its
        place may be another's by now.
        """
        ...

    async def of_task(self, task: str, after: int, upto: int = END, most: int = MOST) -> list[LogEntry]:
        """The facts of one task after a number, in order, up to a place among all facts."""
        ...

    async def before(self, task: str, seq: int, most: int) -> list[LogEntry]:
        """The last facts of a task before a number, in order."""
        ...

    async def counts(self, cwd: str | None) -> Mapping[Status, int]:
        """How many tasks there are of each status, in one folder or everywhere."""
        ...

    async def spent(self, since: str, cwd: str | None) -> list[tuple[str, Usage]]:
        """What models used since a moment, by minutes such as `2026-11-15T02:32`, in order."""
        ...


def found(place: int, task: str, seq: int, at: str, body: str | bytes) -> LogEntry:
    """One stored fact; what cannot be read keeps its place."""
    mark = LogPosition(place, task, seq)
    try:
        return LogEntry(mark, Event(task, seq, at, stored_fact(body)))
    except CorruptFact:
        return LogEntry(mark, None)
