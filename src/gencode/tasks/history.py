"""Earlier runs as the journal has them: played again without a model, and two of them side by side."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.core.events import Event
from gencode.core.outcome import Outcome
from gencode.core.task import Task, replay
from gencode.journal.store import Store
from gencode.tasks.argument_checks import TASK, checked_text
from gencode.tasks.records import TaskRecords
from gencode.tasks.watch import readable_events

if TYPE_CHECKING:
    from gencode.tasks.compare_runs import Comparison


class ReplayedTasks(Struct, frozen=True):
    """Tasks played again: their facts in the order in which they happened.

    `different` are the tasks whose facts do not tell the stored state, `problems` why some cannot be read.
    """

    events: tuple[Event, ...]
    different: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the journal tells exactly what is stored."""
        return not self.different


class Replay(ReplayedTasks, frozen=True, kw_only=True):
    """A task and everything below it, played again from the journal."""

    task: Outcome


class TaskHistory:
    """Reads what was; nothing is asked of a model, and nothing is written."""

    def __init__(self, records: TaskRecords, store: Store) -> None:
        self._records = records
        self._store = store

    async def journal(self, task: str) -> tuple[list[Event], str]:
        """The facts of a task as far as they can be read, and what is wrong with the next one."""
        events, problem = await readable_events(self._store, checked_text(TASK, task))
        return events, str(problem or "")

    async def replay(self, task: str) -> Replay:
        """Play a task and everything below it again, and look whether the journal tells the stored state."""
        root = await self._records.find(task)
        below = await self._records.below([root])
        played = await self.played([root, *(child for children in below.values() for child in children)])
        outcome = await self._records.get(root)
        return Replay(played.events, played.different, played.problems, task=outcome)

    async def difference(self, task: str, other: str) -> "Comparison":
        """Where two runs went apart: in what was heard, said, called and given, and in all below them."""
        from gencode.tasks.compare_runs import compare

        one, beside = await self._records.find(task), await self._records.find(other)
        return await compare(self._records, self._store, one, beside)

    async def played(self, tasks: Sequence[Task]) -> ReplayedTasks:
        """The facts of these tasks, and whether they tell the stored state."""
        events: list[Event] = []
        different: list[str] = []
        problems: list[str] = []
        for each in {task.id: task for task in tasks}:
            facts, problem = await self.journal(each)
            events += facts
            problems += [problem] if problem else []
            if problem or replay(facts) != await self._store.task(each):
                different.append(each)
        return ReplayedTasks(tuple(sorted(events, key=_when)), tuple(different), tuple(problems))


def _when(event: Event) -> tuple[str, str, int]:
    return event.at, event.task, event.seq or 0
