"""A task is the fold of its facts, and nothing else."""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.answers import Answers
from gencode.core.budget import Budget
from gencode.core.changes import Changes, after_move, with_changes
from gencode.core.errors import CorruptFact
from gencode.core.events import (
    AnyFact,
    BudgetSet,
    CallDecided,
    ChangesMoved,
    CostEstimated,
    Event,
    MessageAdded,
    ObsoleteFact,
    TaskBackgrounded,
    TaskCreated,
    TaskEnded,
    TaskForked,
    TaskImported,
    TaskQueued,
    TaskStalled,
    TaskStarted,
    TranscriptCompacted,
)
from gencode.core.ids import moment
from gencode.core.messages import (
    AssistantMessage,
    CommandRun,
    FileChange,
    Message,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
    beginning,
    last_place,
)
from gencode.core.place import TaskPlace
from gencode.core.reasons import EndReason
from gencode.core.receipts import Past, after_calls, handed_over, left_behind, receipt, with_past
from gencode.core.rules import Action, DecidedBy, Mode, Policy
from gencode.core.spec import Copied, ToolChoice
from gencode.core.status import Status


class Refused(Struct, frozen=True, gc=False, rename="camel"):
    """A call that was not run: of which tool, about what (in one line), who refused it, and why.

    `call` is its id in the transcript.
    """

    tool: str
    summary: str = ""
    by: DecidedBy = DecidedBy.RULES
    why: str = ""
    call: str = ""


class Evidence(Struct, frozen=True, gc=False, rename="camel"):
    """What the harness saw the task do."""

    tool_calls: int = 0
    files_read: tuple[str, ...] = ()
    files_changed: tuple[FileChange, ...] = ()
    commands: tuple[CommandRun, ...] = ()
    children: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()


class Task(Struct, frozen=True, gc=False, omit_defaults=True):
    """One piece of work as its facts tell it up to fact number `seq`."""

    id: str
    agent: str
    prompt: str
    status: Status
    created_at: str
    seq: int
    description: str = ""
    conversation: bool = False
    parent: str | None = None
    call: str | None = None
    background: bool = False
    cwd: str = ""
    asked_model: str = ""
    chosen_model: str = ""
    """The one it was last seated with; `model` is the one that really answered."""
    model: str = ""
    max_turns: int | None = None
    depth: int = 0
    policies: tuple[Policy, ...] = ()
    grant: Mode | None = None
    spawned: bool = False
    system: str = ""
    started_at: str | None = None
    ended_at: str | None = None
    touched_at: str = ""
    running_since: str | None = None
    worked_ms: int = 0
    turns: int = 0
    usage: Usage = Usage()
    report: str = ""
    """What its agent said at last."""
    changes: tuple[Changes, ...] = ()
    """What became of the files it changed, as far as that is known."""
    error: str | None = None
    reason: EndReason | None = None
    """Why its last run ended; None while it has not."""
    evidence: Evidence = Evidence()
    delivered: tuple[str, ...] = ()
    """The receipts of its background tasks whose results it has been given; those are never given again."""
    mailed: int = 0
    """The number of the last letter it was given; those up to it are never given again."""
    imported: bool = False
    """Whether it came from a file; then its policies, its folder and its model count for nothing."""
    came_from: str = ""
    """The folder that such a file named, where it was imported in another one."""
    closing: tuple[str, ...] = ()
    """The warnings that speak of its last report; going on with the task takes them back."""
    budget: Budget = Budget()
    output_schema: dict[str, Any] | None = None
    output: Any = None
    inputs: tuple[FileChange, ...] | None = None
    worktree: str = ""
    isolated: bool = False
    """Whether it works in copies of its folder only, which workers make for it."""
    place: TaskPlace | None = None
    """Where it works by what it was last told; None: in its folder, and it was told nothing."""
    forked: str = ""
    again: str = ""
    """The earlier task whose answer was given as its own."""
    tools: ToolChoice | None = None
    clone: Copied | None = None
    stalled: float = 0.0
    """For how many seconds it had been silent when that was last noticed; 0 once it speaks again."""
    queued_at: str = ""
    """Since when it waits for its turn to go on, or did when it last had to."""
    handed: str = ""
    """When it was last its turn to begin, where it had to wait for that."""
    left: tuple[str, ...] = ()
    """Agents it waited for when it was cut; what they come to is given to it as if in the background."""
    seconds: float | None = None
    """So long its last run may take; None where that has no limit, or is not known."""
    answers: Answers = Answers()
    """What it has answered in this run before it heard something else."""
    past: tuple[Past, ...] = ()
    """How its earlier runs ended, where somebody sent it who is to hear of that."""

    @property
    def result(self) -> str:
        """What it came to, as people and other agents read it."""
        return with_changes(self.report, self.changes)


def fold(task: Task | None, event: Event) -> Task:
    """The task after one more fact. A fact that cannot follow raises CorruptFact."""
    fact = event.fact
    if event.seq is None:
        raise CorruptFact(f"{type(fact).__name__} is a passing fact and does not belong in a journal")
    if task is None:
        if not isinstance(fact, TaskCreated):
            _impossible(event, "the first fact of a task must be TaskCreated")
        if event.seq != 1:
            _impossible(event, "the first fact of a task has number 1")
        return _created(event.task, event.at, event.seq, fact)
    if event.seq != task.seq + 1 or event.task != task.id:
        _impossible(event, f"fact {task.seq + 1} of task {task.id} was expected")
    return replace(_after(task, event, fact), seq=event.seq, touched_at=event.at)


def replay(events: Iterable[Event]) -> Task | None:
    """The task that these facts tell; None if there are no facts."""
    return reduce(fold, events, None)


def last_end(task: Task) -> Past | None:
    """How the last run of a task ended; None while it has not."""
    if task.ended_at is None:
        return None
    return Past(
        task.ended_at,
        task.status,
        task.report,
        task.error,
        task.background,
        task.reason,
        task.changes,
    )


def was_given(sender: Task, task: str, ended_at: str | None) -> bool:
    """Whether a sender has been given what a task came to; an id alone speaks of all its runs."""
    return task in sender.delivered or receipt(task, ended_at) in sender.delivered


def comes_later(sender: Task, task: str, *, background: bool) -> bool:
    """Whether what a task comes to is told to its sender by itself, and not as the answer to a call."""
    return background or task in sender.left


def transcript_of(events: Iterable[Event], before: Iterable[Message] = ()) -> list[Message]:
    """The messages among these facts, in order, as a model is told them: summed up where that was done.

    They go on where the messages `before` end.
    """
    found: list[Message] = [*before]
    for event in events:
        match event.fact:
            case MessageAdded(message):
                found.append(message)
            case TaskForked() as forked:
                found += forked.messages
            case TranscriptCompacted() as fact:
                found = compacted(found, fact)
            case _:
                pass
    return found


def whole_transcript(events: Iterable[Event]) -> list[Message]:
    """Every message among these facts, in order, also those that a summary stands for."""
    return transcript_of(event for event in events if not isinstance(event.fact, TranscriptCompacted))


def compacted(transcript: Sequence[Message], fact: TranscriptCompacted) -> list[Message]:
    """A transcript after it was summed up: how it began, the summary, and what came last.

    How many tokens a reply that stays had before it says nothing about what the model is told from now on.
    """
    upto = min(max(fact.upto, 0), len(transcript))
    places = [place for place in sorted({*fact.keeps}) if 0 <= place < upto]
    first = beginning(transcript)
    before = [transcript[place] for place in places if place < first]
    after = [transcript[place] for place in places if place >= first]
    told = (*before, fact.summary, *after, *transcript[upto:])
    return [replace(each, usage=None) if isinstance(each, AssistantMessage) else each for each in told]


def _impossible(event: Event, why: str) -> NoReturn:
    what = type(event.fact).__name__
    raise CorruptFact(f"fact {event.seq} of task {event.task} ({what}) cannot stand there: {why}")


def _created(task_id: str, at: str, seq: int, fact: TaskCreated) -> Task:
    return Task(
        id=task_id,
        agent=fact.agent,
        prompt=fact.prompt,
        status=Status.PENDING,
        created_at=at,
        touched_at=at,
        seq=seq,
        description=fact.description,
        conversation=fact.conversation,
        parent=fact.parent,
        call=fact.call,
        background=fact.background,
        cwd=fact.cwd,
        asked_model=fact.asked_model,
        max_turns=fact.max_turns,
        depth=fact.depth,
        policies=fact.policies,
        grant=fact.grant,
        spawned=fact.spawned,
        budget=fact.budget,
        output_schema=fact.output_schema,
        worktree=fact.worktree,
        isolated=fact.isolated,
        forked=fact.forked,
        tools=fact.tools,
        clone=fact.clone,
        chosen_model=fact.model,
    )


def _after(task: Task, event: Event, fact: AnyFact) -> Task:
    match fact:
        case TaskStarted():
            return _started(task, event, fact)
        case TaskQueued():
            if not task.status.ended:
                _impossible(event, f"the task is {task.status}")
            return replace(_going_on(task, fact), status=Status.PENDING, queued_at=event.at)
        case MessageAdded():
            return _with_message(task, fact.message)
        case CallDecided():
            refused = with_refusal(task.evidence.refused, fact)
            if refused is task.evidence.refused:
                return task
            return replace(task, evidence=replace(task.evidence, refused=refused))
        case TaskBackgrounded():
            return replace(task, background=True)
        case ObsoleteFact():
            return task
        case TaskForked(messages=messages):
            return replace(task, place=last_place(messages))
        case CostEstimated(usage):
            return replace(task, usage=task.usage + usage, stalled=0.0)
        case TranscriptCompacted():
            return replace(task, usage=task.usage + (fact.usage or Usage()), stalled=0.0)
        case TaskStalled():
            return replace(task, stalled=fact.seconds)
        case TaskImported(cwd):
            moved = {"cwd": cwd, "came_from": task.cwd} if cwd and cwd != task.cwd else {}
            return replace(task, imported=True, clone=None, **moved)
        case TaskEnded():
            if task.status.ended:
                _impossible(event, f"the task already ended as {task.status}")
            return _ended(task, event.at, fact)
        case ChangesMoved(change, supersedes):
            if not task.status.ended:
                _impossible(event, "the task has not ended")
            return replace(task, changes=after_move(task.changes, change, supersedes, task.id))
        case BudgetSet(budget):
            return replace(task, budget=budget)
        case _:
            _impossible(event, "it may not follow")


def _started(task: Task, event: Event, fact: TaskStarted) -> Task:
    if task.status is Status.RUNNING:
        _impossible(event, "the task is already running")
    started = replace(
        _going_on(task, fact),
        status=Status.RUNNING,
        started_at=task.started_at or event.at,
        running_since=event.at,
        model=fact.model or task.model,
        system=fact.system or task.system,
        handed=fact.handed or task.handed,
        seconds=fact.seconds,
    )
    return reduce(_warned, fact.warnings, started)


def _going_on(task: Task, fact: TaskStarted | TaskQueued) -> Task:
    """A task as it goes on, at once or when it is its turn: it has no end any more."""
    gone, past = set(task.closing), task.past
    if task.parent is not None and (end := last_end(task)) is not None:
        past = with_past(past, end)
    kept = tuple(each for each in task.evidence.warnings if each not in gone)
    return replace(
        task,
        ended_at=None,
        error=None,
        reason=None,
        report="" if task.conversation else task.report,  # an answer is to what was asked in this turn
        changes=() if task.conversation else task.changes,
        chosen_model=fact.model or task.chosen_model,
        budget=task.budget if fact.budget is None else fact.budget,
        output_schema=task.output_schema if fact.output_schema is None else fact.output_schema,
        output=None,
        inputs=None,
        stalled=0.0,
        closing=(),
        evidence=replace(task.evidence, warnings=kept) if gone else task.evidence,
        answers=Answers(),
        past=past,
    )


def _ended(task: Task, at: str, fact: TaskEnded) -> Task:
    """The end of a run. An interrupted one worked until its last sign of life, not until it was found.

    A clock that was put back meanwhile takes nothing from earlier runs.
    """
    worked = 0
    if task.running_since is not None:
        until = task.touched_at if fact.status is Status.INTERRUPTED else at
        worked = max(round((moment(until) - moment(task.running_since)).total_seconds() * 1000), 0)
    ended = replace(
        task,
        status=fact.status,
        report=fact.result,
        changes=fact.changes,
        error=fact.error,
        reason=fact.reason,
        ended_at=at,
        running_since=None,
        output=fact.output,
        inputs=fact.inputs,
        stalled=0.0,
        worked_ms=task.worked_ms + worked,
        closing=tuple(each for each in fact.warnings if each not in task.evidence.warnings),
        answers=Answers(),
    )
    return reduce(_warned, fact.warnings, ended)


def _with_message(task: Task, message: Message) -> Task:
    match message:
        case AssistantMessage():
            if message.text.strip():
                task = replace(task, report=task.answers.with_these(message.text), changes=())
            return replace(
                task,
                turns=task.turns + (not message.again),
                stalled=0.0,
                usage=task.usage + (message.usage or Usage()),
                model=message.model or task.model,
                again=message.again,
                evidence=replace(task.evidence, tool_calls=task.evidence.tool_calls + len(message.calls)),
                answers=task.answers.after_reply(message),
            )
        case ToolMessage():
            evidence = reduce(_with_result, message.results, task.evidence)
            delivered = after_calls(task.delivered, message.results)
            left = left_behind(task.left, message.results)
            return replace(task, evidence=evidence, delivered=delivered, left=left, stalled=0.0)
        case UserMessage():
            delivered = handed_over(task.delivered, message.delivers, message.ends)
            answers = task.answers.after_hearing(message, task.report)
            mailed = max(task.mailed, message.mail)
            evidence = task.evidence
            if message.commands:
                evidence = replace(evidence, commands=_with_commands(evidence.commands, message.commands))
            place = last_place((message,), task.place)
            return replace(
                task, delivered=delivered, mailed=mailed, answers=answers, evidence=evidence, place=place
            )


def _with_result(evidence: Evidence, result: ToolResult) -> Evidence:
    trace = result.trace
    if not (trace.read or trace.changed or trace.commands or trace.children):
        return evidence
    changed = {each.path: each for each in (*evidence.files_changed, *trace.changed)}
    return replace(
        evidence,
        files_read=tuple(dict.fromkeys((*evidence.files_read, *trace.read))),
        files_changed=tuple(changed.values()),
        commands=_with_commands(evidence.commands, trace.commands),
        children=tuple(dict.fromkeys((*evidence.children, *trace.children))),
    )


def _with_commands(before: tuple[CommandRun, ...], more: tuple[CommandRun, ...]) -> tuple[CommandRun, ...]:
    """The commands that ran, after some more; the end of one in the background takes its place."""
    ends = {each.shell: each for each in more if each.shell}
    if not ends:
        return (*before, *more)
    known = {each.shell for each in before}
    kept = tuple(ends.get(each.shell, each) if each.shell else each for each in before)
    return (*kept, *(each for each in more if not each.shell or each.shell not in known))


def untold_commands(task: Task) -> list[CommandRun]:
    """The commands that a task started in the background and whose end it was not told, running or not."""
    return [each for each in task.evidence.commands if each.shell and each.shell not in task.delivered]


def with_refusal(before: tuple[Refused, ...], fact: CallDecided) -> tuple[Refused, ...]:
    """The refused calls, after one more decision."""
    if fact.decision.action is not Action.DENY:
        return before
    refused = Refused(fact.tool, fact.target or "", fact.decision.by, fact.decision.why, fact.call)
    known = any(replace(each, why=refused.why) == refused for each in before)  # some events are heard twice
    return before if known else (*before, refused)


def _warned(task: Task, warning: str) -> Task:
    if warning in task.evidence.warnings:
        return task
    return replace(task, evidence=replace(task.evidence, warnings=(*task.evidence.warnings, warning)))
