"""The verbs as a program says them: each tells what it would hit, and afterwards what it has hit."""

from collections.abc import Awaitable, Callable
from typing import Literal, get_args

from msgspec import structs

from gencode.core.errors import UserMistake
from gencode.core.outcome import Outcome
from gencode.core.status import EndReason, StopCause, stop_cause
from gencode.core.task import Task
from gencode.tasks.argument_checks import MESSAGE, checked_bool, checked_text
from gencode.tasks.control import StopAction, StopResult, TaskControl
from gencode.tasks.records import TaskRecords

TaskAction = StopAction | Literal["steer"]
_VERBS = (*get_args(StopAction), "steer")
STOPPED = stop_cause("it was stopped")
INTERRUPTED = StopCause(EndReason.INTERRUPTED, "it was interrupted")


class StruckTask(Outcome, frozen=True, rename="camel"):
    """A task after a verb, and everything that the verb hit, the task itself first."""

    hit: tuple[Outcome, ...] = ()


class TaskActions:
    """Acts on tasks, whichever process runs them; an id may be shortened while it is unambiguous."""

    def __init__(
        self,
        records: TaskRecords,
        reach: TaskControl,
        say: Callable[[str, str], Awaitable[tuple[Task, bool]]],
    ) -> None:
        self._records = records
        self._reach = reach
        self._say = say

    async def hits(self, task: str, verb: TaskAction) -> list[Outcome]:
        """What a verb would hit at this moment, the task itself first."""
        if verb not in _VERBS:
            raise UserMistake(f"There is no verb {verb!r}; the verbs are: {', '.join(_VERBS)}.")
        found = await self._records.find(task)
        hit = [found] if verb == "steer" else await self._reach.hits(found.id, verb)
        return await self._records.outcomes(hit)

    async def steer(self, task: str, message: str) -> tuple[Outcome, bool]:
        """Say something to a task; its outcome, and whether that woke it."""
        now, woken = await self._say(task, checked_text(MESSAGE, message))
        return await self._records.outcome_of(now), woken

    async def interrupt(self, task: str, message: str = "", *, why: StopCause = INTERRUPTED) -> StruckTask:
        """Cut what a task does at this moment, and what it waits for."""
        said = checked_text(MESSAGE, message)
        found = await self._records.find(task)
        return await self.struck(await self._reach.interrupt(found.id, why, said))

    async def stop(
        self, task: str, *, keep: bool = False, tree: bool = False, why: StopCause = STOPPED
    ) -> StruckTask:
        """End a task and what it waits for: with `keep` after a last word, with `tree` all that is below."""
        keep, tree = checked_bool("keep", keep), checked_bool("tree", tree)
        found = await self._records.find(task)
        return await self.struck(await self._reach.stop(found.id, why, tree=tree, report=keep))

    async def struck(self, stops: StopResult) -> StruckTask:
        """What a verb came to, in its public shape."""
        outcome = await self._records.get(stops.task)
        below = [each for each in stops.hit if each.id != stops.task.id]
        itself = (outcome,) if len(below) < len(stops.hit) else ()
        return StruckTask(**structs.asdict(outcome), hit=(*itself, *await self._records.outcomes(below)))
