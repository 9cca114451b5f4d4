"""Replays and compares earlier tasks from their events; no model is called and nothing is written.

A comparison uses whole texts, arguments and results; only what is shown is cut. Differences between any two
runs are ignored: ids and times of tasks, durations, the reasoning of models.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from msgspec import Struct

from gencode.core.events import Event
from gencode.core.messages import AssistantMessage, Image, Message, ToolMessage, UserMessage
from gencode.core.outcome import Outcome
from gencode.core.structs import replace
from gencode.core.task import Task, replay, whole_transcript
from gencode.journal.store import Store
from gencode.tasks.queries import readable_events
from gencode.tasks.records import ChildrenOf, TaskRecords

LONGEST = 200
BEFORE = 60
"""How much of the common beginning of two long texts is shown before the place where they differ."""
_TASK_OR_TIME = re.compile(r"(?<![0-9a-zA-Z])(?:[0-9a-f]{8}(?![0-9a-zA-Z])|\d{4}-\d\d-\d\dT[\d:]{8}\.\d{6}Z)")
_KEPT = re.compile(r"(?<![0-9a-zA-Z])(shell|bash|result)_[0-9a-f]{8}(?![0-9a-zA-Z])")
"""The ids of background commands, and the files of long outputs and results."""


class ReplayedTasks(Struct, frozen=True):
    """Replayed tasks: their events in order of time.

    `different` are the tasks whose events do not lead to the stored state, `problems` why some cannot be
    read.
    """

    events: tuple[Event, ...]
    different: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the events lead exactly to the stored state."""
        return not self.different


class Replay(ReplayedTasks, frozen=True, kw_only=True):
    """A task with all its subagents, replayed from the journal."""

    task: Outcome


class TaskHistory:
    """Reads earlier tasks; no model is called, and nothing is written."""

    def __init__(self, records: TaskRecords, store: Store) -> None:
        self._records = records
        self._store = store

    async def replay(self, task: str) -> Replay:
        """Replay a task and its descendants, and check that the events lead to the stored state."""
        root = await self._records.find(task)
        below = await self._records.below([root])
        played = await self.played([root, *(child for children in below.values() for child in children)])
        outcome = await self._records.get(root)
        return Replay(played.events, played.different, played.problems, task=outcome)

    async def difference(self, task: str, other: str) -> "Comparison":
        """Compare two tasks: their transcripts, results and subagents."""
        one, beside = await self._records.find(task), await self._records.find(other)
        return await compare(self._records, self._store, one, beside)

    async def played(self, tasks: Sequence[Task]) -> ReplayedTasks:
        """The events of these tasks, and whether they lead to the stored state."""
        events: list[Event] = []
        different: list[str] = []
        problems: list[str] = []
        for each in {task.id: task for task in tasks}:
            facts, problem = await readable_events(self._store, each)
            events += facts
            problems += [str(problem)] if problem else []
            if problem or replay(facts) != await self._store.task(each):
                different.append(each)
        return ReplayedTasks(tuple(sorted(events, key=_when)), tuple(different), tuple(problems))


class Difference(Struct, frozen=True, rename="camel"):
    """A stretch of steps that only one of two runs has, or that differ."""

    step: int
    one: tuple[str, ...] = ()
    other: tuple[str, ...] = ()


class Pair(Struct, frozen=True, rename="camel"):
    """Two subagents with the same place in the order of starting; None if one run has none."""

    one: str | None
    other: str | None
    same: bool
    same_steps: int
    differences: tuple[Difference, ...]
    facts: tuple[tuple[str, str, str], ...]


class Comparison(Struct, frozen=True, rename="camel"):
    """What two runs have in common, and where they differ."""

    same_steps: int
    differences: tuple[Difference, ...]
    facts: tuple[tuple[str, str, str], ...]
    """Differences in how they ended: the name, and both values."""
    below: tuple[Pair, ...] = ()

    @property
    def same(self) -> bool:
        """Whether nothing differs, neither in the runs nor in their subagents."""
        return not self.differences and not self.facts and all(pair.same for pair in self.below)


async def compare(records: TaskRecords, store: Store, one: Task, other: Task) -> Comparison:
    """Compare two runs, and their subagents one by one."""
    left, right = [_Run(each, await records.below([each])) for each in (one, other)]

    async def compared(task: Task, beside: Task) -> Comparison:
        said = [(await readable_events(store, each.id))[0] for each in (task, beside)]
        outcomes = [await records.outcome_of(each) for each in (task, beside)]
        return _comparison(
            left.steps(whole_transcript(said[0])),
            right.steps(whole_transcript(said[1])),
            left.ended(outcomes[0]),
            right.ended(outcomes[1]),
        )

    whole = await compared(one, other)
    below: list[Pair] = []
    waiting = _pairs(left.below[one.id], right.below[other.id])
    while waiting:
        task, beside = waiting.pop()
        if task is None or beside is None:
            below.append(_only_one(task, beside))
            continue
        found = await compared(task, beside)
        below.append(
            Pair(
                one=task.id,
                other=beside.id,
                same=found.same,
                same_steps=found.same_steps,
                differences=found.differences,
                facts=found.facts,
            )
        )
        waiting += _pairs(left.below[task.id], right.below[beside.id])
    return replace(whole, below=tuple(below))


def _when(event: Event) -> tuple[str, str, int]:
    return event.at, event.task, event.seq or 0


class _Step(Struct, frozen=True):
    """One step of a transcript: a message, a text, a call or a result."""

    label: str
    text: str


class _Run:
    """A task with all its subagents, and neutral names for what has another name in every run."""

    def __init__(self, root: Task, family: ChildrenOf) -> None:
        self.root = root
        self.below: dict[str, list[Task]] = {}
        """The subagents of each task, in the order of starting."""
        self._names = {root.parent: "[sender]"} if root.parent else {}
        self._kept: dict[str, str] = {}
        tasks = [root]
        while tasks:
            task = tasks.pop()
            self.below[task.id] = [child for child in _in_order(task, family) if child.id not in self.below]
            self._names[task.id] = f"[task {len(self.below)}]"
            times = (task.created_at, task.run.started_at, task.end.at)
            self._names |= {time: "[time]" for time in times if time}
            tasks += reversed(self.below[task.id])

    def anyones(self, text: str) -> str:
        """A text with neutral names, which are the same in another run with the same course."""
        text = _TASK_OR_TIME.sub(lambda found: self._names.get(found[0], found[0]), text)
        return _KEPT.sub(lambda found: self._place_of(found[0], found[1]), text)

    def _place_of(self, name: str, kind: str) -> str:
        return self._kept.setdefault(name, f"[{kind} {len(self._kept) + 1}]")

    def steps(self, messages: Sequence[Message]) -> list[_Step]:
        """A transcript as steps."""
        return [_Step(*map(self.anyones, each)) for each in _steps(messages)]

    def ended(self, task: Outcome) -> dict[str, str]:
        """How a task ended."""
        told = {name: str(getattr(task, name)) for name in ("agent", "model", "status", "turns", "error")}
        spent = task.usage.tree.input_tokens + task.usage.tree.output_tokens
        told |= {"result": task.result, "output": _json(task.output), "tokens": str(spent)}
        return {name: self.anyones(text) for name, text in told.items()}


def _in_order(task: Task, family: ChildrenOf) -> list[Task]:
    places = {child: place for place, child in enumerate(task.evidence.children)}
    return sorted(
        family.get(task.id, ()),
        key=lambda child: (places.get(child.id, len(places)), child.created_at, child.id),
    )


def _pairs(one: Sequence[Task], other: Sequence[Task]) -> list[tuple[Task | None, Task | None]]:
    """The tasks of two runs in pairs, the first one last."""
    return [*zip_longest(one, other)][::-1]


def _only_one(one: Task | None, other: Task | None) -> Pair:
    named = [("", "") if task is None else (task.agent, _short(task.created.prompt)) for task in (one, other)]
    facts = tuple((name, *values) for name, *values in zip(("agent", "prompt"), *named, strict=True))
    return Pair(one.id if one else None, other.id if other else None, False, 0, (), facts)


def _comparison(
    one: Sequence[_Step], other: Sequence[_Step], ended: dict[str, str], beside: dict[str, str]
) -> Comparison:
    found: list[Difference] = []
    same = 0
    for tag, start, end, first, last in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag == "equal":
            same += end - start
        else:
            found.append(Difference(start + 1, *_shown(one[start:end], other[first:last])))
    differ = ((name, *_apart(ended[name], beside[name])) for name in ended if ended[name] != beside[name])
    return Comparison(same, tuple(found), tuple(differ))


def _shown(one: Sequence[_Step], other: Sequence[_Step]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Two stretches as lines, each from a little before the place where it differs from its counterpart."""
    left: list[str] = []
    right: list[str] = []
    nothing = _Step("", "")
    for step, beside in zip_longest(one, other, fillvalue=nothing):
        place = _parted(step.text, beside.text) if step.label == beside.label else 0
        for lines, each in ((left, step), (right, beside)):
            if each is not nothing:
                lines.append(f"{each.label}: {_short(each.text, place)}")
    return tuple(left), tuple(right)


def _apart(one: str, other: str) -> tuple[str, str]:
    """Two different texts, shortened so that the difference is visible."""
    place = _parted(one, other)
    return _short(one, place), _short(other, place)


def _parted(one: str, other: str) -> int:
    """How many characters at the beginning two texts have in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


def _short(text: str, place: int = 0) -> str:
    if len(text) <= LONGEST:
        return text
    start = place - BEFORE if place > LONGEST - BEFORE else 0
    piece = text[start : start + LONGEST]
    return f"{'…' if start else ''}{piece}{'…' if len(text) > start + LONGEST else ''}"


def _steps(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    for message in messages:
        match message:
            case UserMessage():
                yield message.sender, message.text + _pictures(message.images)
            case AssistantMessage():
                if message.text.strip():
                    yield "said, and was cut" if message.partial else "said", message.text
                yield from (
                    (f"called {call.name}", call.broken or _json(call.input)) for call in message.calls
                )
            case ToolMessage():
                for result in message.results:
                    # The result of a task is compared with that task, and its duration never is.
                    ended = result.name == "TaskOutput" and result.trace.ends
                    text = " ".join(result.trace.delivered) if ended else result.text
                    failed = " an error" if result.error else ""
                    yield f"{result.name} gave{failed}", text + _pictures(result.images)


def _pictures(images: Sequence[Image]) -> str:
    return "".join(f" [picture {hashlib.sha256(each.base64.encode()).hexdigest()}]" for each in images)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
