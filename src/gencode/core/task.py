"""A task: one piece of work, as the fold of its events."""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import zip_longest
from typing import Any, NoReturn

from msgspec import Struct

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
    FilesCheckpointed,
    MessageAdded,
    ObsoleteFact,
    SessionRewound,
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
    RunConditions,
    SystemNotice,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
    beginning,
    last_place,
)
from gencode.core.place import FolderCopy, TaskPlace
from gencode.core.rules import Action, DecidedBy
from gencode.core.status import EndReason, Status
from gencode.core.structs import replace

MOST_PAST = 32
MOST_PAST_TEXT = 200_000
"""Limits of the earlier runs, and their characters, in the state of a task; the journal has all."""


BETWEEN = "\n\n"


class RunAnswers(Struct, frozen=True, gc=False, omit_defaults=True):
    """The text of the replies in a run `before` a message came, and whether the last reply is a `whole` one.

    A reply is whole when it calls no tool and was not cut off. `begins` is where each reply but the first
    begins in `before`.
    """

    before: str = ""
    whole: bool = False
    begins: tuple[int, ...] = ()

    def joined_with(self, text: str) -> str:
        """All replies of the run with `text` as the last one, unless it repeats the one before."""
        words = text.strip()
        if not self.before:
            return text
        again = not words or self.before == words or self.before.endswith(f"{BETWEEN}{words}")
        return self.before if again else f"{self.before}{BETWEEN}{words}"

    def newest_first(self) -> Iterator[tuple[str, str]]:
        """Each earlier reply, the last one first, and the text from it to the end."""
        end = len(self.before)
        for begin in reversed((0, *self.begins)) if self.before else ():
            yield self.before[begin:end], self.before[begin:]
            end = begin - len(BETWEEN)

    def after_reply(self, message: AssistantMessage) -> "RunAnswers":
        """The state after one more reply."""
        whole = bool(message.text.strip()) and not message.calls and not message.partial
        return self if whole is self.whole else replace(self, whole=whole)

    def after_message(self, message: UserMessage, said: str, *, results: bool = False) -> "RunAnswers":
        """The state after a message came to an agent that has replied with `said`.

        A reply stays part of the answer when a message of a person or another agent follows it, or the end of
        a background command, and with `results` also when a delivered result does: a person reads every
        reply, a waiting parent only those after the last result. Any other message asks the agent to answer
        anew.
        """
        if not self.whole:
            return self
        only_commands = message.commands and not message.ends
        if not (message.mail or only_commands or (results and message.delivers)):
            return replace(self, whole=False)
        said, old = said.strip(), len(self.before)
        more = (old + len(BETWEEN),) if 0 < old < len(said) else ()
        return RunAnswers(said, begins=(*self.begins, *more))


class RefusedToolCall(Struct, frozen=True, gc=False, rename="camel"):
    """A call that was refused: its tool, what it was about (in one line), who refused it, and why.

    `call` is its id in the transcript.
    """

    tool: str
    summary: str = ""
    by: DecidedBy = DecidedBy.RULES
    why: str = ""
    call: str = ""


class Evidence(Struct, frozen=True, gc=False, rename="camel"):
    """What GenCode observed a task do: its calls, files, commands and subagents."""

    tool_calls: int = 0
    files_read: tuple[str, ...] = ()
    files_changed: tuple[FileChange, ...] = ()
    commands: tuple[CommandRun, ...] = ()
    children: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refused: tuple[RefusedToolCall, ...] = ()


class TaskTerms(Struct, frozen=True, gc=False, omit_defaults=True):
    """The terms a task works under now; each of them may be changed while it exists or when it is resumed.

    `model` is the one it was last given, which may not be the one that answers.
    """

    model: str = ""
    system: str = ""
    budget: Budget = Budget()
    output_schema: dict[str, Any] | None = None
    background: bool = False


class RunState(Struct, frozen=True, gc=False, omit_defaults=True):
    """The current run of a task, or its last one; `started_at` is when its first one began."""

    started_at: str | None = None
    since: str | None = None
    """When the current run began; None where the task is not running."""
    queued_at: str = ""
    """When it last began to wait in the queue for a resume."""
    handed: str = ""
    """When its last wait in the queue ended."""
    seconds: float | None = None
    """The time limit of its last run; None without a limit, or where it is not known."""
    stalled: float = 0.0
    """For how many seconds it had been silent when that was last noticed; 0 after its next sign of life."""
    model: str = ""
    """The model that answers, or the one that was chosen to."""
    answers: RunAnswers = RunAnswers()
    """The replies of this run so far."""


class TaskTotals(Struct, frozen=True, gc=False, omit_defaults=True):
    """The totals of all runs of a task."""

    turns: int = 0
    usage: Usage = Usage()
    worked_ms: int = 0


class TaskReport(Struct, frozen=True, gc=False, omit_defaults=True):
    """The final report of a run, and what became of the files it changed, as far as that is known."""

    text: str = ""
    changes: tuple[Changes, ...] = ()
    again: str = ""
    """The earlier task whose result was reused as its own."""

    @property
    def full_text(self) -> str:
        """The report with the descriptions of its changes."""
        return with_changes(self.text, self.changes)


class RunEnd(Struct, frozen=True, gc=False, omit_defaults=True):
    """How the last run of a task ended; empty while it is running."""

    at: str | None = None
    reason: EndReason | None = None
    error: str | None = None
    output: Any = None
    inputs: tuple[FileChange, ...] | None = None
    warnings: tuple[str, ...] = ()
    """Warnings about its last report; a resume clears them."""


class PastRun(Struct, frozen=True, gc=False, omit_defaults=True):
    """How an earlier run ended; its result may still have to be delivered to the parent."""

    status: Status
    report: TaskReport
    end: RunEnd
    background: bool = False


class DeliveredResults(Struct, frozen=True, gc=False, omit_defaults=True):
    """What was delivered to a task."""

    receipts: tuple[str, ...] = ()
    """The receipts of results that were delivered to it; those are never delivered again."""
    mailed: int = 0
    """The number of the last message it read; messages up to it are never delivered again."""
    left: tuple[str, ...] = ()
    """Subagents it waited for when it was cut off; they are delivered like background tasks."""
    place: TaskPlace | None = None
    """The place it was last told that it works in; None: its folder."""


class ImportState(Struct, frozen=True, gc=False, omit_defaults=True):
    """Marks an imported task, whose policies and model have no effect.

    It belongs to the folder `cwd`; `came_from` is the folder that the file named, if that is another one.
    """

    cwd: str = ""
    came_from: str = ""


class Task(Struct, frozen=True, gc=False, omit_defaults=True):
    """One piece of work, folded from its events up to number `seq`.

    `created` is the original request; what may change since then is in `terms`.
    """

    id: str
    created: TaskCreated
    created_at: str
    status: Status
    seq: int
    touched_at: str = ""
    terms: TaskTerms = TaskTerms()
    imported: ImportState | None = None
    run: RunState = RunState()
    totals: TaskTotals = TaskTotals()
    evidence: Evidence = Evidence()
    report: TaskReport = TaskReport()
    end: RunEnd = RunEnd()
    past: tuple[PastRun, ...] = ()
    """How its earlier runs ended, as far as their results may have to be delivered."""
    delivered: DeliveredResults = DeliveredResults()

    @property
    def agent(self) -> str:
        """The name of its agent."""
        return self.created.agent

    @property
    def parent(self) -> str | None:
        """The task that started it; None for one that a person or a program started."""
        return self.created.parent

    @property
    def conversation(self) -> bool:
        """Whether it is a conversation with a person."""
        return self.created.conversation

    @property
    def cwd(self) -> str:
        """The folder it belongs to."""
        return self.created.cwd if self.imported is None else self.imported.cwd

    @property
    def clone(self) -> FolderCopy | None:
        """What its folder is a clone of; not known for an imported task."""
        return self.created.clone if self.imported is None else None

    @property
    def result(self) -> str:
        """Its result as people and other agents read it."""
        return self.report.full_text


RECORDS = (
    Task,
    TaskCreated,
    TaskTerms,
    RunState,
    TaskTotals,
    TaskReport,
    RunEnd,
    PastRun,
    DeliveredResults,
    ImportState,
    Evidence,
    RefusedToolCall,
    RunAnswers,
)
"""The records a stored snapshot of a task consists of; one with other fields was written by another version.
"""


def fold(task: Task | None, event: Event) -> Task:
    """The task after one more event; CorruptFact for an event that cannot follow."""
    fact = event.fact
    if event.seq is None:
        raise CorruptFact(f"{type(fact).__name__} is a passing fact and does not belong in a journal")
    if task is None:
        if not isinstance(fact, TaskCreated):
            _impossible(event, "the first fact of a task must be TaskCreated")
        if event.seq != 1:
            _impossible(event, "the first fact of a task has number 1")
        return _created(event, fact)
    if event.seq != task.seq + 1 or event.task != task.id:
        _impossible(event, f"fact {task.seq + 1} of task {task.id} was expected")
    return replace(_after(task, event, fact), seq=event.seq, touched_at=event.at)


def replay(events: Iterable[Event]) -> Task | None:
    """The task that these events fold to; None without events."""
    return reduce(fold, events, None)


def in_background(task: Task) -> Task:
    """A task that nobody waits for any more."""
    return replace(task, terms=replace(task.terms, background=True))


def last_run(task: Task) -> PastRun | None:
    """How the last run ended, without its structured output and inputs; None while the task is running."""
    if task.end.at is None:
        return None
    end = replace(task.end, output=None, inputs=None)
    return PastRun(task.status, task.report, end, task.terms.background)


def with_past(past: tuple[PastRun, ...], run: PastRun) -> tuple[PastRun, ...]:
    """The earlier runs with one more, within the bounds; a run without a report of its own is left out."""
    if repeats_report(past, run) or not run.report.full_text.strip():
        return past
    kept, room = [run], MOST_PAST_TEXT - len(run.report.full_text)
    for each in reversed(past[1 - MOST_PAST :]):
        room -= len(each.report.full_text)
        if room < 0:
            break
        kept.append(each)
    return tuple(reversed(kept))


def repeats_report(past: tuple[PastRun, ...], run: PastRun) -> bool:
    """Whether a run ended without a report of its own: the task then still has that of the run before."""
    last = past[-1].report if past else None
    same = last is not None and (last.text, last.changes) == (run.report.text, run.report.changes)
    return same and run.status is not Status.COMPLETED


def was_delivered(parent: Task, task: str, ended_at: str | None) -> bool:
    """Whether a result was delivered to its parent; a receipt without a time covers all runs of the task."""
    return task in parent.delivered.receipts or receipt(task, ended_at) in parent.delivered.receipts


def delivered_separately(parent: Task, task: str, *, background: bool) -> bool:
    """Whether the result of a task is delivered by itself instead of answering a call."""
    return background or task in parent.delivered.left


def last_start(events: Sequence[Event]) -> TaskStarted | None:
    """The last start of an agent, with its prompt and what it was told since; None if there was none."""
    last: TaskStarted | None = None
    for event in events:
        match event.fact:
            case TaskStarted() as started:
                last = replace(started, system=started.system or (last.system if last else ""))
            case MessageAdded(UserMessage(notice=SystemNotice(conditions=RunConditions() as told))) if last:
                if last.conditions is not None:  # the permissions changed while it ran
                    now = replace(last.conditions, mode=told.mode, approver=told.approver)
                    last = replace(last, conditions=now)
            case _:
                pass
    return last


def transcript_of(events: Iterable[Event], before: Iterable[Message] = ()) -> list[Message]:
    """The messages of these events as a model reads them: in order, compacted where that was done.

    They continue after the messages in `before`.
    """
    found: list[Message] = [*before]
    for event in as_rewound(events):
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


def as_rewound(events: Iterable[Event]) -> list[Event]:
    """These events without those that a rewind took back; the event of the rewind itself stays.

    A rewind to before an earlier rewind restores what that one took back.
    """
    found: list[Event] = []
    behind: int | None = None
    for event in reversed([*events]):
        if behind is not None and (event.seq or 0) >= behind:
            continue
        found.append(event)
        if isinstance(event.fact, SessionRewound) and event.fact.conversation:
            behind = event.fact.to
    return found[::-1]


def whole_transcript(events: Iterable[Event]) -> list[Message]:
    """Every message of these events in order, including those that a summary replaced."""
    return transcript_of(event for event in events if not isinstance(event.fact, TranscriptCompacted))


def compacted(transcript: Sequence[Message], fact: TranscriptCompacted) -> list[Message]:
    """A transcript after compaction: its beginning, the summary, and the latest messages.

    Token counts of replies from before are dropped, since they say nothing about the shorter transcript.
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


def _created(event: Event, fact: TaskCreated) -> Task:
    terms = TaskTerms(fact.model, "", fact.budget, fact.output_schema, fact.background)
    return Task(event.task, fact, event.at, Status.PENDING, 1, event.at, terms)


def _after(task: Task, event: Event, fact: AnyFact) -> Task:
    match fact:
        case TaskStarted():
            return _started(task, event, fact)
        case TaskQueued():
            if not task.status.ended:
                _impossible(event, f"the task is {task.status}")
            waits = _going_on(task, fact)
            return replace(waits, status=Status.PENDING, run=replace(waits.run, queued_at=event.at))
        case MessageAdded():
            return _with_message(task, fact.message)
        case CallDecided():
            refused = with_refusal(task.evidence.refused, fact)
            if refused is task.evidence.refused:
                return task
            return replace(task, evidence=replace(task.evidence, refused=refused))
        case TaskBackgrounded():
            return in_background(task)
        case ObsoleteFact() | FilesCheckpointed() | SessionRewound():
            return task
        case TaskForked(messages=messages):
            return replace(task, delivered=replace(task.delivered, place=last_place(messages)))
        case CostEstimated(usage):
            return _with_cost(task, usage)
        case TranscriptCompacted():
            return _with_cost(task, fact.usage)
        case TaskStalled():
            return replace(task, run=replace(task.run, stalled=fact.seconds))
        case TaskImported(cwd):
            return replace(task, imported=_imported(task, cwd))
        case TaskEnded():
            if task.status.ended:
                _impossible(event, f"the task has already ended ({task.status})")
            return _ended(task, event.at, fact)
        case ChangesMoved(change, supersedes):
            if not task.status.ended:
                _impossible(event, "the task has not ended")
            changes = after_move(task.report.changes, change, supersedes, task.id)
            return replace(task, report=replace(task.report, changes=changes))
        case BudgetSet(budget):
            return replace(task, terms=replace(task.terms, budget=budget))
        case _:
            _impossible(event, "it may not follow")


def _imported(task: Task, cwd: str) -> ImportState:
    if cwd and cwd != task.cwd:
        return ImportState(cwd, task.cwd)
    return task.imported or ImportState(task.cwd)


def _started(task: Task, event: Event, fact: TaskStarted) -> Task:
    if task.status is Status.RUNNING:
        _impossible(event, "the task is already running")
    task = _going_on(task, fact)
    run = replace(
        task.run,
        started_at=task.run.started_at or event.at,
        since=event.at,
        model=fact.model or task.run.model,
        handed=fact.handed or task.run.handed,
        seconds=fact.seconds,
    )
    terms = replace(task.terms, system=fact.system) if fact.system else task.terms
    return reduce(_warned, fact.warnings, replace(task, status=Status.RUNNING, run=run, terms=terms))


def _going_on(task: Task, fact: TaskStarted | TaskQueued) -> Task:
    """A task whose next run begins, at once or once it leaves the queue: it has no end any more."""
    terms, past = task.terms, task.past
    if task.parent is not None and (run := last_run(task)) is not None:
        past = with_past(past, run)
    kept = tuple(each for each in task.evidence.warnings if each not in task.end.warnings)
    return replace(
        task,
        terms=replace(
            terms,
            model=fact.model or terms.model,
            budget=terms.budget if fact.budget is None else fact.budget,
            output_schema=terms.output_schema if fact.output_schema is None else fact.output_schema,
        ),
        run=_quiet(task.run),
        report=TaskReport() if task.conversation else task.report,  # the next answer is to a new prompt
        end=RunEnd(),
        past=past,
        evidence=replace(task.evidence, warnings=kept) if task.end.warnings else task.evidence,
    )


def _ended(task: Task, at: str, fact: TaskEnded) -> Task:
    """The end of a run. A run that was interrupted by a crash lasted until its last sign of life.

    A clock that was set back takes nothing away from earlier runs.
    """
    totals = task.totals
    if task.run.since is not None:
        until = task.touched_at if fact.status is Status.INTERRUPTED else at
        worked = max(round((moment(until) - moment(task.run.since)).total_seconds() * 1000), 0)
        totals = replace(totals, worked_ms=totals.worked_ms + worked)
    warnings = tuple(each for each in fact.warnings if each not in task.evidence.warnings)
    ended = replace(
        task,
        status=fact.status,
        run=replace(_quiet(task.run), since=None),
        totals=totals,
        report=TaskReport(fact.result, fact.changes, task.report.again),
        end=RunEnd(at, fact.reason, fact.error, fact.output, fact.inputs, warnings),
    )
    return reduce(_warned, fact.warnings, ended)


def _quiet(run: RunState) -> RunState:
    """A run after its last answer was delivered, or before its first one."""
    return replace(run, stalled=0.0, answers=RunAnswers())


def _alive(run: RunState) -> RunState:
    """A run after a sign of life."""
    return replace(run, stalled=0.0) if run.stalled else run


def _with_cost(task: Task, usage: Usage | None) -> Task:
    totals = replace(task.totals, usage=task.totals.usage + (usage or Usage()))
    return replace(task, totals=totals, run=_alive(task.run))


def _with_message(task: Task, message: Message) -> Task:
    match message:
        case AssistantMessage():
            return _with_reply(task, message)
        case ToolMessage(results):
            before = task.delivered
            delivered = replace(
                before,
                receipts=receipts_after_calls(before.receipts, results),
                left=left_after_calls(before.left, results),
            )
            evidence = evidence_after(task.evidence, message)
            return replace(task, evidence=evidence, delivered=delivered, run=_alive(task.run))
        case UserMessage():
            before, evidence = task.delivered, evidence_after(task.evidence, message)
            delivered = replace(
                before,
                receipts=with_receipts(before.receipts, message.delivers, message.ends),
                mailed=max(before.mailed, message.mail),
                place=last_place((message,), before.place),
            )
            run = replace(task.run, answers=task.run.answers.after_message(message, task.report.text))
            return replace(task, delivered=delivered, run=run, evidence=evidence)


def evidence_after(evidence: Evidence, message: Message) -> Evidence:
    """The evidence after one more message of the transcript."""
    match message:
        case AssistantMessage(calls=calls):
            return replace(evidence, tool_calls=evidence.tool_calls + len(calls)) if calls else evidence
        case ToolMessage(results):
            return reduce(_with_result, results, evidence)
        case UserMessage(commands=ended):
            if not ended:
                return evidence
            return replace(evidence, commands=_with_commands(evidence.commands, ended))


def _with_reply(task: Task, message: AssistantMessage) -> Task:
    run, totals, report = task.run, task.totals, task.report
    if message.text.strip():
        report = TaskReport(run.answers.joined_with(message.text), again=message.again)
    elif message.again != report.again:
        report = replace(report, again=message.again)
    return replace(
        task,
        report=report,
        totals=TaskTotals(
            totals.turns + message.is_turn, totals.usage + (message.usage or Usage()), totals.worked_ms
        ),
        run=replace(
            run, stalled=0.0, model=message.model or run.model, answers=run.answers.after_reply(message)
        ),
        evidence=evidence_after(task.evidence, message),
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
    """The commands that ran, after some more; the end of a background command replaces its start."""
    ends = {each.shell: each for each in more if each.shell}
    if not ends:
        return (*before, *more)
    known = {each.shell for each in before}
    kept = tuple(ends.get(each.shell, each) if each.shell else each for each in before)
    return (*kept, *(each for each in more if not each.shell or each.shell not in known))


def undelivered_commands(task: Task) -> list[CommandRun]:
    """The background commands of a task whose end was not delivered to it, running or not."""
    return [
        each for each in task.evidence.commands if each.shell and each.shell not in task.delivered.receipts
    ]


def with_refusal(before: tuple[RefusedToolCall, ...], fact: CallDecided) -> tuple[RefusedToolCall, ...]:
    """The refused calls after one more decision."""
    if fact.decision.action is not Action.DENY:
        return before
    refused = RefusedToolCall(fact.tool, fact.target or "", fact.decision.by, fact.decision.why, fact.call)
    known = any(replace(each, why=refused.why) == refused for each in before)  # some events are seen twice
    return before if known else (*before, refused)


def _warned(task: Task, warning: str) -> Task:
    if warning in task.evidence.warnings:
        return task
    return replace(task, evidence=replace(task.evidence, warnings=(*task.evidence.warnings, warning)))


def replies_of_turn(messages: Iterable[Message]) -> str:
    """The text of all replies of one turn, for the person."""
    answers, said = RunAnswers(), ""
    for message in messages:
        match message:
            case AssistantMessage():
                said = answers.joined_with(message.text) if message.text.strip() else said
                answers = answers.after_reply(message)
            case UserMessage():
                answers = answers.after_message(message, said, results=True)
            case ToolMessage():
                pass
    return said


def receipt(task: str, ended_at: str | None) -> str:
    """The receipt of a delivered result: its task, and which run of it."""
    return f"{task}@{ended_at}" if ended_at else task


def receipts_after_calls(before: tuple[str, ...], results: Sequence[ToolResult]) -> tuple[str, ...]:
    """The receipts after some calls: a task that was resumed by one has a result that is still to come.

    Receipts of version 0.1 do not say which run they are of, and are dropped for such a task.
    """
    sent = {child for result in results for child in result.trace.children}
    if not sent.isdisjoint(before):
        before = tuple(each for each in before if each not in sent)
    more = [
        receipt(task, end)
        for result in results
        for task, end in zip_longest(result.trace.delivered, result.trace.ends[: len(result.trace.delivered)])
    ]
    return tuple(dict.fromkeys((*before, *more))) if more else before


def left_after_calls(before: tuple[str, ...], results: Iterable[ToolResult]) -> tuple[str, ...]:
    """The subagents left behind, after some calls: one that is waited for again answers its call."""
    for result in results:
        if result.trace.left or (before and result.trace.children):
            kept = (each for each in before if each not in result.trace.children)
            before = tuple(dict.fromkeys((*kept, *result.trace.left)))
    return before


def with_receipts(before: tuple[str, ...], tasks: Sequence[str], ends: Sequence[str]) -> tuple[str, ...]:
    """The receipts with those of some more results; version 0.1 did not record when tasks had ended."""
    more = [receipt(task, end) for task, end in zip_longest(tasks, ends[: len(tasks)])]
    return tuple(dict.fromkeys((*before, *more))) if more else before
