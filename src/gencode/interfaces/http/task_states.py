"""The states of tasks, and when they worked and waited: folded here once, for every client."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from gencode.app import GenCode
from gencode.core.errors import CorruptFact
from gencode.core.events import (
    CallDecided,
    Event,
    MessageAdded,
    TaskCreated,
    TaskEnded,
    TaskQueued,
    TaskStarted,
    TextArrived,
)
from gencode.core.messages import AssistantMessage, ToolMessage, Usage
from gencode.core.outcome import Outcome, title_of
from gencode.core.rules import Action
from gencode.core.status import Status
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.interfaces.render.agent_view import AgentView, View, fold
from gencode.journal.global_log import GlobalLog

LONGEST_TEXT = 400
MOST_VIEWS = 5000
MOST_AT_ONCE = 200
"""The tasks of one batch; the next batch follows at once."""


class TaskState(Struct, frozen=True, rename="camel"):
    """What a task is after its event number `seq`, and what it does at this moment.

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
    """The state of a folded task; `seen` is what it was last seen doing."""
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
    """Knows what tasks were last seen doing, and which have changed since their state was sent."""

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
        """Note an event of a task."""
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
        """No client wants the states of what has changed."""
        self._changed.clear()

    def of(self, task: Task) -> TaskState:
        """The state of a folded task."""
        view = self._views.get(task.id) or AgentView(task.id)
        return state_of(task, replace(view, step=self._texts.get(task.id) or view.step))

    async def changed(self) -> list[TaskState]:
        """The states of tasks that have changed, one batch."""
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
    """A state with its place in the queue, and whether its process hangs; no event tells those.

    A task that was woken waits for a worker, though its last fact is still its end.
    """
    if state.status.ended and not outcome.status.ended:
        state = replace(state, status=outcome.status, step="", ended_at=None, error=None)
    return replace(
        state,
        queue_position=outcome.queue_position or None,
        stalled_seconds=outcome.stalled_seconds or None,
    )


Activity = Literal["queued", "working", "waiting_for_agents", "waiting_for_person"]
ASKS = "AskUserQuestion"
"""A tool that is nothing but a question to a person."""
OPEN = "~"
"""Later than every time: the end of what continues."""
MOST_SPANS = 300
MOST_KNOWN = 500
PAGE = 500
Interval = tuple[str, str]


class TimeSpan(Struct, frozen=True):
    """What a task did from one moment to another; `until` is null while it continues."""

    activity: Activity
    since: str
    until: str | None


class TaskTimes(Struct, frozen=True, rename="camel"):
    """What a task did when, in order, up to its event number `seq`; the time between two runs is left out."""

    agent_id: str
    seq: int
    spans: list[TimeSpan]


class _Times:
    """The intervals that the events of one task tell."""

    def __init__(self) -> None:
        self.seq = 0
        self.queued: list[Interval] = []
        self.runs: list[Interval] = []
        self.idle: list[Interval] = []
        self.calls: dict[str, Interval] = {}
        """By the ids of calls: from the reply that made them to their result."""
        self.asked: dict[str, list[Interval]] = {}

    def hear(self, event: Event) -> None:
        """Add one more event."""
        now = event.at
        match event.fact:
            case TaskCreated() | TaskQueued():
                self.queued.append((now, OPEN))
            case TaskStarted():
                _close(self.queued, now)
                self.runs.append((now, OPEN))
            case CallDecided(call=call, tool=tool, decision=decision):
                _close(self.asked.get(call, []), now)
                if decision.action is Action.ASK or (decision.action is Action.ALLOW and tool == ASKS):
                    self.asked.setdefault(call, []).append((now, OPEN))
            case MessageAdded(message):
                _close(self.idle, now)
                if isinstance(message, AssistantMessage):
                    self.calls |= {call.id: (now, OPEN) for call in message.calls}
                    if not message.calls and not message.partial:
                        self.idle.append((now, OPEN))
                elif isinstance(message, ToolMessage):
                    self._end_calls(now)
            case TaskEnded():
                self._end_calls(now)
                for each in (self.queued, self.runs, self.idle):
                    _close(each, now)
            case _:
                pass

    def _end_calls(self, now: str) -> None:
        self.calls = {call: (since, min(until, now)) for call, (since, until) in self.calls.items()}
        for each in self.asked.values():
            _close(each, now)

    def spans(self, sent: Iterable[str], asked: Iterable[str]) -> list[TimeSpan]:
        """What it did when; `sent` are its calls that started agents, `asked` its open questions."""
        agents = [*self.idle, *(self.calls[call] for call in sent if call in self.calls)]
        person = [each for several in self.asked.values() for each in several]
        person += [(since, OPEN) for since in asked]
        found = [TimeSpan("queued", since, _end(until)) for since, until in self.queued]
        for run in self.runs:
            found += _parts(run, agents, person)
        return sorted(found, key=lambda each: each.since)[-MOST_SPANS:]


class TimesReader:
    """Reads the times of tasks, of each only the events since the last time."""

    def __init__(self, global_log: GlobalLog) -> None:
        self._global_log = global_log
        self._known: dict[str, _Times] = {}

    async def read(self, task: str, sent: Iterable[str], asked: Iterable[str]) -> TaskTimes:
        """The times of one task; `sent` are its calls that started agents, `asked` its open questions."""
        times = self._known.pop(task, None) or _Times()
        while found := await self._global_log.of_task(task, times.seq, most=PAGE):
            for mark, event in found:
                if event is not None:
                    times.hear(event)
                times.seq = mark.seq
            if len(found) < PAGE:
                break
        self._known[task] = times
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        return TaskTimes(task, times.seq, times.spans(sent, asked))


def _close(intervals: list[Interval], now: str) -> None:
    if intervals and intervals[-1][1] == OPEN:
        intervals[-1] = (intervals[-1][0], now)


def _end(until: str) -> str | None:
    return None if until == OPEN else until


def _parts(run: Interval, agents: Sequence[Interval], person: Sequence[Interval]) -> list[TimeSpan]:
    """One run, split where it waited; waiting for a person counts before waiting for agents."""
    begin, end = run
    edges = {edge for interval in (*agents, *person) for edge in interval if begin < edge < end}
    cuts = [begin, *sorted(edges), end]
    made: list[TimeSpan] = []
    for since, until in pairwise(cuts):
        activity: Activity = "working"
        if _within(since, until, person):
            activity = "waiting_for_person"
        elif _within(since, until, agents):
            activity = "waiting_for_agents"
        if made and made[-1].activity == activity:
            since = made.pop().since
        made.append(TimeSpan(activity, since, _end(until)))
    return made


def _within(since: str, until: str, intervals: Sequence[Interval]) -> bool:
    return any(begin <= since and until <= end for begin, end in intervals)
