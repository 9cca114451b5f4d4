"""Handles of running tasks, and the results of stopping, interrupting and messaging one."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

from msgspec import structs

from gencode.budgets.limits import NO_BUDGET
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.events import Event
from gencode.core.outcome import Outcome, output_file
from gencode.core.spec import Isolation, TaskRequest
from gencode.core.status import EndReason, Status, StopCause, stop_cause
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
from gencode.tasks.control import MessageState, StopAction, StopResult, TaskControl
from gencode.tasks.records import TaskRecords
from gencode.tasks.running_task import RunningTask

Amounts = Mapping[str, float | None]
"""A budget as a dictionary."""
_ISOLATIONS = get_args(Isolation)
NOT_HEARD = StopCause(EndReason.CALLER_GONE, "its caller stopped listening")
TaskAction = StopAction | Literal["steer"]
_VERBS = (*get_args(StopAction), "steer")
STOPPED = stop_cause("a program stopped it")
INTERRUPTED = StopCause(EndReason.INTERRUPTED, "a program interrupted it")


class TaskOptions(TypedDict, total=False):
    """The options of a task that a program may set."""

    description: str
    model: str
    max_turns: int | None
    max_tokens: int | None
    isolation: Isolation
    output_schema: dict[str, Any] | None
    budget: Budget | Amounts
    here: bool


def task_request(agent: str, prompt: str, options: TaskOptions, *, background: bool) -> TaskRequest:
    """The request for a task with these options; UserMistake for an unknown option."""
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
    """One turn of the main conversation: an async iterator over its events and those of its subagents.

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
        """Start the turn, unless it has been started, and return the running task."""
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


class ActionResult(Outcome, frozen=True, rename="camel"):
    """A task after it was interrupted or stopped, and all affected tasks, itself first.

    `message` says what became of the message sent with an interrupt.
    """

    affected: tuple[Outcome, ...] = ()
    message: MessageState = MessageState.NONE


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

    async def affected(self, task: str, verb: TaskAction) -> list[Outcome]:
        """The tasks that an action would affect at this moment, the task itself first."""
        if verb not in _VERBS:
            raise UserMistake(f"There is no action {verb!r}; the actions are: {', '.join(_VERBS)}.")
        found = await self._records.find(task)
        affected = [found] if verb == "steer" else await self._reach.affected(found.id, verb)
        return await self._records.outcomes(affected)

    async def steer(self, task: str, message: str) -> tuple[Outcome, bool]:
        """Send a message to a task; its outcome, and whether that resumed it."""
        now, woken = await self._say(task, checked_text(MESSAGE, message))
        return await self._records.outcome_of(now), woken

    async def interrupt(self, task: str, message: str = "", *, why: StopCause = INTERRUPTED) -> ActionResult:
        """Interrupt the current step of a task, and what it waits for."""
        said = checked_text(MESSAGE, message)
        found = await self._records.find(task)
        return await self.action_result(await self._reach.interrupt(found.id, why, said))

    async def stop(
        self, task: str, *, keep: bool = False, tree: bool = False, why: StopCause = STOPPED
    ) -> ActionResult:
        """Stop a task and what it waits for; `keep`: after a last report, `tree`: with all subagents."""
        keep, tree = checked_bool("keep", keep), checked_bool("tree", tree)
        found = await self._records.find(task)
        return await self.action_result(await self._reach.stop(found.id, why, tree=tree, report=keep))

    async def action_result(self, stops: StopResult) -> ActionResult:
        """The result of an action in its public shape."""
        outcome = await self._records.get(stops.task)
        below = [each for each in stops.affected if each.id != stops.task.id]
        itself = (outcome,) if len(below) < len(stops.affected) else ()
        affected = (*itself, *await self._records.outcomes(below))
        return ActionResult(**structs.asdict(outcome), affected=affected, message=stops.message)


class Handle:
    """A task that runs beside the program; it is stopped when its GenCode is closed."""

    def __init__(
        self,
        live: RunningTask,
        bus: EventBus,
        archive: JournalReader,
        outcome_of: Callable[[Task], Awaitable[Outcome]],
        verbs: TaskActions,
        outputs: Path,
    ) -> None:
        self._live = live
        self._verbs = verbs
        self._outputs = outputs
        self._bus = bus
        self._archive = archive
        self._outcome_of = outcome_of

    @property
    def id(self) -> str:
        """The id of the task."""
        return self._live.id

    @property
    def status(self) -> Status:
        """The status of the task at this moment."""
        return self._live.task.status

    @property
    def output_file(self) -> Path:
        """The file that has what the task says as it says it, and in the end its result."""
        return output_file(self._outputs, self.id)

    def __repr__(self) -> str:
        return f"Handle(id={self.id!r}, agent={self._live.task.agent!r}, status={str(self.status)!r})"

    async def events(self, after: int = 0) -> AsyncGenerator[Event, None]:
        """The events of the task after this number, until it has ended."""
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
        """The outcome of the task, once it has ended; cancelling the wait does not stop it."""
        return await self._outcome_of(await self._live.ended())

    async def send(self, message: str) -> None:
        """Send a message to the task, which reads it before its next reply."""
        await self._verbs.steer(self.id, message)

    async def interrupt(self, message: str = "") -> ActionResult:
        """Interrupt the current step of the task; it continues from there."""
        return await self._verbs.interrupt(self.id, message)

    async def stop(self, *, keep: bool = False, tree: bool = False) -> ActionResult:
        """Stop the task and keep its text so far. The result names all affected tasks.

        With `keep` it reports in one last turn; `tree` also stops its background tasks.
        """
        return await self._verbs.stop(self.id, keep=keep, tree=tree)
