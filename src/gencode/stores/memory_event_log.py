"""The global event log in memory: the events of all tasks in the order they were written."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from gencode.core.events import Event, MessageAdded, unicode_text
from gencode.core.messages import AssistantMessage, Usage
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.journal.global_log import END, MOST, LogEntry, LogPosition


class MemoryEventLog:
    """A `GlobalLog` of what it is told; `tasks` are those there are."""

    def __init__(self, tasks: Callable[[], Iterable[Task]]) -> None:
        self._tasks = tasks
        self._facts: list[LogEntry] = []
        self._last = 0

    def write(self, events: Sequence[Event]) -> None:
        """Take facts in, behind all others."""
        for event in events:
            self._last += 1
            self._facts.append(LogEntry(LogPosition(self._last, event.task, event.seq or 0), event))

    def forget(self, tasks: Iterable[str]) -> None:
        """The facts of deleted tasks are gone; their places are not given again."""
        gone = {*tasks}
        self._facts = [fact for fact in self._facts if fact.mark.task not in gone]

    async def end(self) -> LogPosition | None:
        """The newest fact; None when there is none at all."""
        return self._facts[-1].mark if self._facts else None

    async def mark(self, task: str, seq: int) -> LogPosition | None:
        """Where a fact stands; None when it is not there (any more)."""
        return next((each.mark for each in self._facts if each.mark[1:] == (task, seq)), None)

    async def after(
        self, mark: LogPosition | None, upto: int = END, most: int = MOST
    ) -> list[LogEntry] | None:
        """The facts after a mark (None: from the first one) and up to a place, in order."""
        start = bisect_right(self._facts, mark.place if mark else 0, key=_place)
        return [each for each in self._facts[start : start + most] if each.mark.place <= upto]

    async def of_task(self, task: str, after: int, upto: int = END, most: int = MOST) -> list[LogEntry]:
        """The facts of one task after a number, in order, up to a place among all facts."""
        own = [each for each in self._of(task) if each.mark.seq > after and each.mark.place <= upto]
        return own[:most]

    async def before(self, task: str, seq: int, most: int) -> list[LogEntry]:
        """The last facts of a task before a number, in order."""
        own = [each for each in self._of(task) if each.mark.seq < seq]
        return own[max(len(own) - most, 0) :]

    async def counts(self, cwd: str | None) -> Mapping[Status, int]:
        """How many tasks there are of each status, in one folder or everywhere."""
        return Counter(task.status for task in self._tasks() if cwd is None or task.cwd == unicode_text(cwd))

    async def spent(self, since: str, cwd: str | None) -> list[tuple[str, Usage]]:
        """What models used since a moment, by minutes."""
        here = {task.id for task in self._tasks() if cwd is None or task.cwd == unicode_text(cwd)}
        minutes: defaultdict[str, Usage] = defaultdict(Usage)
        for _, event in self._facts:
            if event is None or event.at < since or event.task not in here:
                continue
            match event.fact:
                case MessageAdded(message):
                    used = message.usage if isinstance(message, AssistantMessage) else None
                    minutes[event.at[:16]] += used or Usage()
                case _:
                    pass
        return sorted(minutes.items())

    def _of(self, task: str) -> Iterable[LogEntry]:
        return (each for each in self._facts if each.mark.task == task)


def _place(fact: LogEntry) -> int:
    return fact.mark.place
