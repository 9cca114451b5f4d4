"""The state of tasks as pages show it: folded from the journal and from what is heard, in this one place."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from gencode.app import GenCode
from gencode.core.errors import CorruptFact
from gencode.core.events import Event, MessageAdded, TaskEnded, TextArrived
from gencode.core.messages import AssistantMessage, Usage
from gencode.core.outcome import Outcome, title_of
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.interfaces.render.agent_view import AgentView, View, fold

LONGEST_TEXT = 400
MOST_VIEWS = 5000
MOST_AT_ONCE = 200
"""So many tasks are told of in one go; the next ones come right after."""


class TaskState(Struct, frozen=True, rename="camel"):
    """What a task is after its fact number `seq`, and what it does at this moment.

    `callId` is the tool call of its parent that asked for it. `runningSince` is when the run began that it is
    in, `workedMs` how long those took that have ended. `step` says what it does, once it has ended how its
    result begins, or why there is none; `idle` that it has answered and waits for its background tasks. Texts
    are cut.
    """

    agent_id: str
    seq: int
    parent_id: str | None
    call_id: str | None
    agent: str
    title: str
    conversation: bool
    background: bool
    cwd: str
    status: Status
    step: str
    idle: bool
    model: str
    turns: int
    usage: Usage
    queue_position: int | None
    stalled_seconds: float | None
    created_at: str
    started_at: str | None
    running_since: str | None
    ended_at: str | None
    worked_ms: int
    error: str | None


def state_of(task: Task, seen: AgentView) -> TaskState:
    """The state of a folded task; `seen` is what was heard of what it does."""
    ended = task.status.ended
    pending = task.status is Status.PENDING
    return TaskState(
        agent_id=task.id,
        seq=task.seq,
        parent_id=task.parent,
        call_id=task.created.call,
        agent=task.agent,
        title=title_of(task)[:LONGEST_TEXT],
        conversation=task.conversation,
        background=task.terms.background,
        cwd=task.cwd,
        status=task.status,
        step=((task.end.error or task.result) if ended else "" if pending else seen.step)[:LONGEST_TEXT],
        idle=seen.resting and not ended,
        model=task.run.model,
        turns=task.totals.turns,
        usage=task.totals.usage,
        queue_position=(seen.place or None) if pending else None,
        stalled_seconds=None if ended else seen.stalled or task.run.stalled or None,
        created_at=task.created_at,
        started_at=task.run.started_at,
        running_since=task.run.since,
        ended_at=task.end.at,
        worked_ms=task.totals.worked_ms,
        error=task.end.error and task.end.error[:LONGEST_TEXT],
    )


class TaskStates:
    """Remembers what tasks were heard to do, and which of them have changed since their state was told."""

    def __init__(self, gen: GenCode) -> None:
        self._gen = gen
        self._views: dict[str, AgentView] = {}
        self._texts: dict[str, str] = {}
        """The end of what a task is writing, or has written last."""
        self._changed: dict[str, None] = {}

    def __len__(self) -> int:
        """How many tasks have changed."""
        return len(self._changed)

    def hear(self, event: Event) -> None:
        """Take in something that happened to a task."""
        task = event.task
        self._changed[task] = None
        if isinstance(event.fact, TaskEnded):
            self._views.pop(task, None)
            self._texts.pop(task, None)
            return
        before = self._views.pop(task, None) or AgentView(task)
        self._views[task] = fold(View({task: before}), event).agents.get(task, before)
        match event.fact:
            case TextArrived(text):
                self._texts[task] = (self._texts.get(task, "") + text)[-LONGEST_TEXT:]
            case MessageAdded(AssistantMessage(text=text, calls=())):
                self._texts[task] = text[-LONGEST_TEXT:]
            case _:
                self._texts.pop(task, None)
        if len(self._views) > MOST_VIEWS:
            oldest = next(iter(self._views))
            del self._views[oldest]
            self._texts.pop(oldest, None)

    def forget_changes(self) -> None:
        """Nobody wants to be told."""
        self._changed.clear()

    def of(self, task: Task) -> TaskState:
        """The state of a folded task."""
        view = self._views.get(task.id) or AgentView(task.id)
        return state_of(task, replace(view, step=self._texts.get(task.id) or view.step))

    async def changed(self) -> list[TaskState]:
        """The states of tasks that have changed, as many as are told in one go."""
        tasks = [*self._changed][:MOST_AT_ONCE]
        for task in tasks:
            del self._changed[task]
        return await self.named(tasks)

    async def named(self, tasks: Iterable[str]) -> list[TaskState]:
        """The states of these tasks, as far as they are there and can be read."""
        found: list[TaskState] = []
        for task in tasks:
            try:
                folded = await self._gen.history.task(task)
            except CorruptFact:
                continue
            if folded is not None:
                found.append(self.of(folded))
        return found


def as_others_see(state: TaskState, outcome: Outcome) -> TaskState:
    """A state with what no fact of the task tells: its place in the queue, and whether its process hangs.

    A task that was woken waits for a worker, though its last fact is still its end.
    """
    if state.status.ended and not outcome.status.ended:
        state = replace(state, status=outcome.status, step="", ended_at=None, error=None)
    return replace(
        state,
        queue_position=outcome.queue_position or None,
        stalled_seconds=outcome.stalled_seconds or None,
    )
