"""The events of all tasks in one order, whichever process writes them.

A position in that order is a number that only a store understands, and the event at it. The order never
changes afterwards: before a position is returned, every earlier event has been, including those committed
late. A number may be reused after its event was deleted; the event tells the two apart.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from gencode.core.errors import CorruptFact
from gencode.core.events import Event
from gencode.core.messages import Usage
from gencode.core.old_events import stored_fact
from gencode.core.status import Status

END = 2**62
"""After every position."""
MOST = 500
MOST_BYTES = 4_000_000
"""How many bytes of events are read at once, and one more event."""


class LogPosition(NamedTuple):
    """The position of an event among all events."""

    place: int
    task: str
    seq: int


class LogEntry(NamedTuple):
    """An event and its position; no event if it cannot be read."""

    mark: LogPosition
    event: Event | None


class GlobalLog(Protocol):
    """Reads the events of all tasks, a part at a time."""

    async def end(self) -> LogPosition | None:
        """The newest event before which no other can appear any more; None if there is none at all."""
        ...

    async def mark(self, task: str, seq: int) -> LogPosition | None:
        """The position of an event; None if it is not there (any more)."""
        ...

    async def after(
        self, mark: LogPosition | None, upto: int = END, most: int = MOST
    ) -> list[LogEntry] | None:
        """The events after a position (None: from the first one) up to another, in order.

        Only those before which no other can appear any more. None if the event at the position was deleted
        and its number may have been reused.
        """
        ...

    async def of_task(self, task: str, after: int, upto: int = END, most: int = MOST) -> list[LogEntry]:
        """The events of one task after a number, in order, up to a position among all events."""
        ...

    async def before(self, task: str, seq: int, most: int) -> list[LogEntry]:
        """The last events of a task before a number, in order."""
        ...

    async def counts(self, cwd: str | None) -> Mapping[Status, int]:
        """How many tasks there are of each status, in one folder or everywhere."""
        ...

    async def spent(self, since: str, cwd: str | None) -> list[tuple[str, Usage]]:
        """The usage of models since a time, by minutes such as `2026-11-15T02:32`, in order."""
        ...


def found(place: int, task: str, seq: int, at: str, body: str | bytes) -> LogEntry:
    """One stored event; one that cannot be read keeps its position."""
    mark = LogPosition(place, task, seq)
    try:
        return LogEntry(mark, Event(task, seq, at, stored_fact(body)))
    except CorruptFact:
        return LogEntry(mark, None)
