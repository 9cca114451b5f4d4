"""Which task asked for which, known for every event that is told (surfaces, server)."""

from gencode.app import GenCode
from gencode.core.errors import CorruptFact
from gencode.core.events import Event, TaskCreated

MOST_KNOWN = 20_000


class Parents:
    """Remembers what the first fact of a task said; what it has not heard it looks up once."""

    def __init__(self, gen: GenCode) -> None:
        self._gen = gen
        self._known: dict[str, str | None] = {}

    async def of(self, event: Event) -> str | None:
        """The task that asked for the one of an event."""
        task = event.task
        if task in self._known:
            return self._known[task]
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        if isinstance(event.fact, TaskCreated):
            self._known[task] = event.fact.parent
            return event.fact.parent
        try:
            found = await self._gen.history.task(task)
        except CorruptFact:
            return None
        if found is None:
            return None
        self._known[task] = found.parent
        return found.parent
