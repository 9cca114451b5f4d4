"""Handles of running work: follow the events of a turn, wait for a task, stop or message it."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Literal, TypedDict, get_args

from msgspec import structs

from gencode.budgets.limits import NO_BUDGET
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.events import Event
from gencode.core.outcome import Outcome
from gencode.core.spec import Isolation, TaskRequest
from gencode.core.status import EndReason, StopCause, stop_cause
from gencode.core.task import Task
from gencode.journal.event_bus import EventBus
from gencode.journal.store import JournalReader
from gencode.tasks.argument_checks import (
    MESSAGE,
    checked_bool,
    checked_budget,
    checked_event_number,
    checked_text,
)
from gencode.tasks.control import StopAction, StopResult, TaskControl
from gencode.tasks.records import TaskRecords
from gencode.tasks.running_task import RunningTask

Amounts = Mapping[str, float | None]
"""A budget as a dictionary."""
_ISOLATIONS = get_args(Isolation)
NOT_HEARD = StopCause(EndReason.CALLER_GONE, "its caller stopped listening")
TaskAction = StopAction | Literal["steer"]
_VERBS = (*get_args(StopAction), "steer")
STOPPED = stop_cause("it was stopped")
INTERRUPTED = StopCause(EndReason.INTERRUPTED, "it was interrupted")


class TaskOptions(TypedDict, total=False):
    """What a program may say about a task beside its prompt."""

    description: str
    model: str
    max_turns: int | None
    isolation: Isolation
    output_schema: dict[str, Any] | None
    budget: Budget | Amounts
    here: bool


def task_request(agent: str, prompt: str, options: TaskOptions, *, background: bool) -> TaskRequest:
    """The request for a task with these options; UserMistake names an unknown one."""
    if unknown := options.keys() - TaskOptions.__annotations__:
        known = ", ".join(TaskOptions.__annotations__)
        raise UserMistake(f"A task has no option {', '.join(sorted(unknown))}; its options are: {known}.")
    told: dict[str, Any] = {"agent": agent, "prompt": prompt, "background": background, **options}
    for name in ("agent", "prompt", "description", "model"):
        checked_text(f"{name} of a task", told.get(name, ""))
    for name in ("background", "here"):
        checked_bool(name, told.get(name, False))
    isolation = str(options.get("isolation", ""))
    if isolation not in _ISOLATIONS:
        raise UserMistake(
            f"There is no isolation {isolation!r}; use 'process' or 'worktree', or leave it out."
        )
    budget: Any = options.get("budget")
    told["budget"] = NO_BUDGET if budget is None else checked_budget(budget)
    return TaskRequest(**told)


class ConversationTurn:
    """One turn of the main conversation: an async iterator over its events and those of its agents.

    Leaving the iteration early stops the turn.
    """

    def __init__(
        self,
        bus: EventBus,
        begin: Callable[[], Awaitable[RunningTask]],
        outcome: Callable[[RunningTask], Awaitable[Outcome]],
    ) -> None:
        self._bus = bus
        self._begin = begin
        self._outcome = outcome
        self._job: RunningTask | None = None

    async def start(self) -> RunningTask:
        """Begin, if it has not begun, and give the live task."""
        if self._job is None:
            self._job = await self._begin()
        return self._job

    async def outcome(self) -> Outcome:
        """The outcome of the conversation's turn, once it has ended."""
        return await self._outcome(await self.start())

    async def __aiter__(self) -> AsyncIterator[Event]:
        listener = self._bus.listen()
        try:
            job = await self.start()
            if job.work is not None:
                job.work.add_done_callback(lambda _: listener.close())
            async for event in listener:
                yield event
        finally:
            listener.close()
            if self._job is not None:
                self._job.stop.stop(NOT_HEARD)


class StruckTask(Outcome, frozen=True, rename="camel"):
    """A task after it was interrupted or stopped, and all tasks that were affected, itself first."""

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
        """The tasks that an action would affect at this moment, the task itself first."""
        if verb not in _VERBS:
            raise UserMistake(f"There is no action {verb!r}; the actions are: {', '.join(_VERBS)}.")
        found = await self._records.find(task)
        hit = [found] if verb == "steer" else await self._reach.hits(found.id, verb)
        return await self._records.outcomes(hit)

    async def steer(self, task: str, message: str) -> tuple[Outcome, bool]:
        """Say something to a task; its outcome, and whether that woke it."""
        now, woken = await self._say(task, checked_text(MESSAGE, message))
        return await self._records.outcome_of(now), woken

    async def interrupt(self, task: str, message: str = "", *, why: StopCause = INTERRUPTED) -> StruckTask:
        """Interrupt what a task does at this moment, and what it waits for."""
        said = checked_text(MESSAGE, message)
        found = await self._records.find(task)
        return await self.action_result(await self._reach.interrupt(found.id, why, said))

    async def stop(
        self, task: str, *, keep: bool = False, tree: bool = False, why: StopCause = STOPPED
    ) -> StruckTask:
        """Stop a task and what it waits for: after a last report (`keep`), or all below it (`tree`)."""
        keep, tree = checked_bool("keep", keep), checked_bool("tree", tree)
        found = await self._records.find(task)
        return await self.action_result(await self._reach.stop(found.id, why, tree=tree, report=keep))

    async def action_result(self, stops: StopResult) -> StruckTask:
        """The result of an action in its public shape."""
        outcome = await self._records.get(stops.task)
        below = [each for each in stops.hit if each.id != stops.task.id]
        itself = (outcome,) if len(below) < len(stops.hit) else ()
        return StruckTask(**structs.asdict(outcome), hit=(*itself, *await self._records.outcomes(below)))


class Handle:
    """A task that runs beside the program; it is stopped when its GenCode is closed."""

    def __init__(
        self,
        live: RunningTask,
        bus: EventBus,
        archive: JournalReader,
        outcome_of: Callable[[Task], Awaitable[Outcome]],
        verbs: TaskActions,
    ) -> None:
        self._live = live
        self._verbs = verbs
        self._bus = bus
        self._archive = archive
        self._outcome_of = outcome_of

    @property
    def id(self) -> str:
        """The id of the task."""
        return self._live.id

    async def events(self, after: int = 0) -> AsyncGenerator[Event, None]:
        """Everything that happens to the task, from the fact after this number until it has ended."""
        after = checked_event_number(after)
        listener = self._bus.listen()
        if self._live.work is not None:
            self._live.work.add_done_callback(lambda _: listener.close())
        try:
            for event in await self._archive.events(self.id, after):
                after = event.seq or after
                yield event
            async for event in listener:
                if event.task == self.id and (event.seq is None or event.seq > after):
                    after = event.seq or after
                    yield event
            for event in await self._archive.events(self.id, after):
                yield event
        finally:
            listener.close()

    async def result(self) -> Outcome:
        """The outcome of the task, once it has ended; giving up waiting does not stop it."""
        return await self._outcome_of(await self._live.ended())

    async def send(self, message: str) -> None:
        """Send a message to the task, which reads it before its next reply."""
        await self._verbs.steer(self.id, message)

    async def interrupt(self, message: str = "") -> StruckTask:
        """Interrupt what the task does at this moment; it continues from there."""
        return await self._verbs.interrupt(self.id, message)

    async def stop(self, *, keep: bool = False, tree: bool = False) -> StruckTask:
        """Stop the task and keep its text so far. The result names all affected tasks.

        With `keep` it first says in one turn what it has found; `tree` also stops what it sent to the
        background.
        """
        return await self._verbs.stop(self.id, keep=keep, tree=tree)
