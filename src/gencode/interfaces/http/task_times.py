"""When a task waited in the queue, worked, or waited for others: folded from its facts."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from gencode.core.events import (
    CallDecided,
    Event,
    MessageAdded,
    TaskCreated,
    TaskEnded,
    TaskQueued,
    TaskStarted,
)
from gencode.core.messages import AssistantMessage, ToolMessage
from gencode.core.rules import Action
from gencode.journal.global_log import GlobalLog

Activity = Literal["queued", "working", "waiting_for_agents", "waiting_for_person"]
ASKS = "AskUserQuestion"
"""A tool that is nothing but a question to a person."""
OPEN = "~"
"""Behind every time: the end of what goes on."""
MOST_SPANS = 300
MOST_KNOWN = 500
PAGE = 500
Interval = tuple[str, str]


class TimeSpan(Struct, frozen=True):
    """What a task did from one moment to another; `until` is null while it does so."""

    activity: Activity
    since: str
    until: str | None


class TaskTimes(Struct, frozen=True, rename="camel"):
    """What a task did when, in order, up to its fact number `seq`; the time between two runs is left out."""

    agent_id: str
    seq: int
    spans: list[TimeSpan]


class _Times:
    """The intervals that the facts of one task tell, the latest of each kind open or closed."""

    def __init__(self) -> None:
        self.seq = 0
        self.queued: list[Interval] = []
        self.runs: list[Interval] = []
        self.idle: list[Interval] = []
        self.calls: dict[str, Interval] = {}
        """By the ids of calls: from the reply that made them to their result."""
        self.asked: dict[str, list[Interval]] = {}

    def hear(self, event: Event) -> None:
        """Take in one more fact."""
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
        """What it did when; `sent` are the calls that sent agents, `asked` since when open questions wait."""
        agents = [*self.idle, *(self.calls[call] for call in sent if call in self.calls)]
        person = [each for several in self.asked.values() for each in several]
        person += [(since, OPEN) for since in asked]
        found = [TimeSpan("queued", since, _end(until)) for since, until in self.queued]
        for run in self.runs:
            found += _parts(run, agents, person)
        return sorted(found, key=lambda each: each.since)[-MOST_SPANS:]


class TimesReader:
    """Reads the times of tasks, of each only the facts that are new since it was last asked for."""

    def __init__(self, chronicle: GlobalLog) -> None:
        self._chronicle = chronicle
        self._known: dict[str, _Times] = {}

    async def read(self, task: str, sent: Iterable[str], asked: Iterable[str]) -> TaskTimes:
        """The times of one task; `sent` are its calls that sent agents, `asked` since when questions wait."""
        times = self._known.pop(task, None) or _Times()
        while found := await self._chronicle.of_task(task, times.seq, most=PAGE):
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
    """One run, cut where it waited; who waits for a person does so whatever else goes on."""
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
