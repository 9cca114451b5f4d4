"""A task: the fold of its events, and nothing else."""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import zip_longest
from typing import Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

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
from gencode.core.place import FolderCopy, TaskPlace
from gencode.core.rules import Action, DecidedBy
from gencode.core.status import EndReason, Status

MOST_PAST = 32
MOST_PAST_TEXT = 200_000
"""So many earlier runs of a task, with so many characters, are at hand; its journal has all of them."""


BETWEEN = "\n\n"


class RunAnswers(Struct, frozen=True, gc=False, omit_defaults=True):
    """What it said `before` something else came, and whether its last message is a `whole` reply.

    A reply is whole when it calls no tool and was not cut. `begins` is where each reply but the first begins
    in what it said before.
    """

    before: str = ""
    whole: bool = False
    begins: tuple[int, ...] = ()

    def with_these(self, text: str) -> str:
        """All that counts as said when this was said last; who only says the same again is heard once."""
        words = text.strip()
        if not self.before:
            return text
        again = not words or self.before == words or self.before.endswith(f"{BETWEEN}{words}")
        return self.before if again else f"{self.before}{BETWEEN}{words}"

    def backwards(self) -> Iterator[tuple[str, str]]:
        """Each reply that was said before, the last one first, and all that was said from it on."""
        end = len(self.before)
        for begin in reversed((0, *self.begins)) if self.before else ():
            yield self.before[begin:end], self.before[begin:]
            end = begin - len(BETWEEN)

    def after_reply(self, message: AssistantMessage) -> "RunAnswers":
        """The same after one more reply."""
        whole = bool(message.text.strip()) and not message.calls and not message.partial
        return self if whole is self.whole else replace(self, whole=whole)

    def after_hearing(self, message: UserMessage, said: str, *, results: bool = False) -> "RunAnswers":
        """The same after something came to the agent that has `said` this.

        A letter takes nothing of an answer back, and with `results` a result does not either: who waits for
        some hands back what it says after the last of them, but a person reads all of it. What else is told
        to an agent asks it to say the same better.
        """
        if not self.whole:
            return self
        if not (message.mail or (results and message.delivers)):
            return replace(self, whole=False)
        said, old = said.strip(), len(self.before)
        more = (old + len(BETWEEN),) if 0 < old < len(said) else ()
        return RunAnswers(said, begins=(*self.begins, *more))


class RefusedToolCall(Struct, frozen=True, gc=False, rename="camel"):
    """A call that was not run: of which tool, about what (in one line), who refused it, and why.

    `call` is its id in the transcript.
    """

    tool: str
    summary: str = ""
    by: DecidedBy = DecidedBy.RULES
    why: str = ""
    call: str = ""


class Evidence(Struct, frozen=True, gc=False, rename="camel"):
    """What GenCode saw the task do."""

    tool_calls: int = 0
    files_read: tuple[str, ...] = ()
    files_changed: tuple[FileChange, ...] = ()
    commands: tuple[CommandRun, ...] = ()
    children: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refused: tuple[RefusedToolCall, ...] = ()


class TaskTerms(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a task works under now; each of it may be said anew while it is there or when it goes on.

    `model` is the one it was last given, and may not be the one that answers.
    """

    model: str = ""
    system: str = ""
    budget: Budget = Budget()
    output_schema: dict[str, Any] | None = None
    background: bool = False


class RunState(Struct, frozen=True, gc=False, omit_defaults=True):
    """The present run of a task, or its last one; `started_at` is when its first one began."""

    started_at: str | None = None
    since: str | None = None
    """When the present run began; None where the task is not running."""
    queued_at: str = ""
    """Since when it waits for its turn to go on, or did when it last had to."""
    handed: str = ""
    """When it was last its turn to begin, where it had to wait for that."""
    seconds: float | None = None
    """So long its last run may take; None where that has no limit, or is not known."""
    stalled: float = 0.0
    """For how many seconds it had been silent when that was last noticed; 0 once it speaks again."""
    model: str = ""
    """The model that answers, or else the one that was to."""
    answers: RunAnswers = RunAnswers()
    """What it has answered in this run before it heard something else."""


class TaskTotals(Struct, frozen=True, gc=False, omit_defaults=True):
    """What all runs of a task come to."""

    turns: int = 0
    usage: Usage = Usage()
    worked_ms: int = 0


class TaskReport(Struct, frozen=True, gc=False, omit_defaults=True):
    """What an agent said at last, and what became of the files it changed, as far as that is known."""

    text: str = ""
    changes: tuple[Changes, ...] = ()
    again: str = ""
    """The earlier task whose answer was given as its own."""

    @property
    def told(self) -> str:
        """All of it as people and other agents read it."""
        return with_changes(self.text, self.changes)


class RunEnd(Struct, frozen=True, gc=False, omit_defaults=True):
    """How the last run of a task ended; empty while it has not."""

    at: str | None = None
    reason: EndReason | None = None
    error: str | None = None
    output: Any = None
    inputs: tuple[FileChange, ...] | None = None
    warnings: tuple[str, ...] = ()
    """Those that speak of its last report; going on with the task takes them back."""


class PastRun(Struct, frozen=True, gc=False, omit_defaults=True):
    """How an earlier run ended: its parent may not have been told of that when the task goes on."""

    status: Status
    report: TaskReport
    end: RunEnd
    background: bool = False


class DeliveredResults(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a task was given and told."""

    receipts: tuple[str, ...] = ()
    """Of its background tasks whose results it has been given; those are never given again."""
    mailed: int = 0
    """The number of the last message it was given; those up to it are never given again."""
    left: tuple[str, ...] = ()
    """Agents it waited for when it was cut; what they come to is given to it as if in the background."""
    place: TaskPlace | None = None
    """Where it works by what it was last told; None: in its folder, and it was told nothing."""


class ImportState(Struct, frozen=True, gc=False, omit_defaults=True):
    """What is true of a task that came from a file: its policies and its model count for nothing.

    It belongs to the folder `cwd`; `came_from` is the one that the file named, if that is another.
    """

    cwd: str = ""
    came_from: str = ""


class Task(Struct, frozen=True, gc=False, omit_defaults=True):
    """One piece of work as its facts tell it up to fact number `seq`.

    `created` is what was asked for; what may change of that since then is in `terms`.
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
    """How its earlier runs ended, where its parent is to be told of that."""
    delivered: DeliveredResults = DeliveredResults()

    @property
    def agent(self) -> str:
        """The name of its agent."""
        return self.created.agent

    @property
    def parent(self) -> str | None:
        """The task that sent it; a person or a program sent one that has none."""
        return self.created.parent

    @property
    def conversation(self) -> bool:
        """Whether a person talks with it, turn by turn."""
        return self.created.conversation

    @property
    def cwd(self) -> str:
        """The folder it belongs to."""
        return self.created.cwd if self.imported is None else self.imported.cwd

    @property
    def clone(self) -> FolderCopy | None:
        """What its folder was a clone of, where that was written here."""
        return self.created.clone if self.imported is None else None

    @property
    def result(self) -> str:
        """What it came to, as people and other agents read it."""
        return self.report.told


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
"""What the encoded form of a task is made of: a snapshot of other fields is not one of these."""


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
        return _created(event, fact)
    if event.seq != task.seq + 1 or event.task != task.id:
        _impossible(event, f"fact {task.seq + 1} of task {task.id} was expected")
    return replace(_after(task, event, fact), seq=event.seq, touched_at=event.at)


def replay(events: Iterable[Event]) -> Task | None:
    """The task that these facts tell; None if there are no facts."""
    return reduce(fold, events, None)


def in_background(task: Task) -> Task:
    """A task for which nobody waits any more."""
    return replace(task, terms=replace(task.terms, background=True))


def last_run(task: Task) -> PastRun | None:
    """How the last run of a task ended, without what it handed to programs; None while it has not."""
    if task.end.at is None:
        return None
    end = replace(task.end, output=None, inputs=None)
    return PastRun(task.status, task.report, end, task.terms.background)


def with_past(past: tuple[PastRun, ...], run: PastRun) -> tuple[PastRun, ...]:
    """The earlier runs with one more, as far as there is room; one in which nothing was said is no loss."""
    if is_said_again(past, run) or not run.report.told.strip():
        return past
    kept, room = [run], MOST_PAST_TEXT - len(run.report.told)
    for each in reversed(past[1 - MOST_PAST :]):
        room -= len(each.report.told)
        if room < 0:
            break
        kept.append(each)
    return tuple(reversed(kept))


def is_said_again(past: tuple[PastRun, ...], run: PastRun) -> bool:
    """Whether a run that ended so said nothing: an agent still has its last answer then."""
    last = past[-1].report if past else None
    same = last is not None and (last.text, last.changes) == (run.report.text, run.report.changes)
    return same and run.status is not Status.COMPLETED


def was_given(sender: Task, task: str, ended_at: str | None) -> bool:
    """Whether a sender has been given what a task came to; an id alone speaks of all its runs."""
    return task in sender.delivered.receipts or receipt(task, ended_at) in sender.delivered.receipts


def comes_later(sender: Task, task: str, *, background: bool) -> bool:
    """Whether what a task comes to is told to its sender by itself, and not as the answer to a call."""
    return background or task in sender.delivered.left


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
        case ObsoleteFact():
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
    """A task as it goes on, at once or when it is its turn: it has no end any more."""
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
        report=TaskReport() if task.conversation else task.report,  # it is to answer what was asked now
        end=RunEnd(),
        past=past,
        evidence=replace(task.evidence, warnings=kept) if task.end.warnings else task.evidence,
    )


def _ended(task: Task, at: str, fact: TaskEnded) -> Task:
    """The end of a run. An interrupted one worked until its last sign of life, not until it was found.

    A clock that was put back meanwhile takes nothing from earlier runs.
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
    """A run after its last answer was given, or before its first one is."""
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
                receipts=after_calls(before.receipts, results),
                left=left_behind(before.left, results),
            )
            evidence = reduce(_with_result, results, task.evidence)
            return replace(task, evidence=evidence, delivered=delivered, run=_alive(task.run))
        case UserMessage():
            before, evidence = task.delivered, task.evidence
            delivered = replace(
                before,
                receipts=handed_over(before.receipts, message.delivers, message.ends),
                mailed=max(before.mailed, message.mail),
                place=last_place((message,), before.place),
            )
            run = replace(task.run, answers=task.run.answers.after_hearing(message, task.report.text))
            if message.commands:
                evidence = replace(evidence, commands=_with_commands(evidence.commands, message.commands))
            return replace(task, delivered=delivered, run=run, evidence=evidence)


def _with_reply(task: Task, message: AssistantMessage) -> Task:
    run, totals, report = task.run, task.totals, task.report
    if message.text.strip():
        report = TaskReport(run.answers.with_these(message.text), again=message.again)
    elif message.again != report.again:
        report = replace(report, again=message.again)
    return replace(
        task,
        report=report,
        totals=TaskTotals(
            totals.turns + (not message.again), totals.usage + (message.usage or Usage()), totals.worked_ms
        ),
        run=replace(
            run, stalled=0.0, model=message.model or run.model, answers=run.answers.after_reply(message)
        ),
        evidence=replace(task.evidence, tool_calls=task.evidence.tool_calls + len(message.calls)),
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
    return [
        each for each in task.evidence.commands if each.shell and each.shell not in task.delivered.receipts
    ]


def with_refusal(before: tuple[RefusedToolCall, ...], fact: CallDecided) -> tuple[RefusedToolCall, ...]:
    """The refused calls, after one more decision."""
    if fact.decision.action is not Action.DENY:
        return before
    refused = RefusedToolCall(fact.tool, fact.target or "", fact.decision.by, fact.decision.why, fact.call)
    known = any(replace(each, why=refused.why) == refused for each in before)  # some events are heard twice
    return before if known else (*before, refused)


def _warned(task: Task, warning: str) -> Task:
    if warning in task.evidence.warnings:
        return task
    return replace(task, evidence=replace(task.evidence, warnings=(*task.evidence.warnings, warning)))


def said_to_the_person(messages: Iterable[Message]) -> str:
    """Everything that an agent says to the person in one turn, whatever comes to it meanwhile."""
    answers, said = RunAnswers(), ""
    for message in messages:
        match message:
            case AssistantMessage():
                said = answers.with_these(message.text) if message.text.strip() else said
                answers = answers.after_reply(message)
            case UserMessage():
                answers = answers.after_hearing(message, said, results=True)
            case ToolMessage():
                pass
    return said


def receipt(task: str, ended_at: str | None) -> str:
    """What is kept of a result that was handed over: of which task it is, and of which of its runs."""
    return f"{task}@{ended_at}" if ended_at else task


def after_calls(before: tuple[str, ...], results: Sequence[ToolResult]) -> tuple[str, ...]:
    """What was handed over, after some calls: who is sent again has a result still to come.

    So a receipt of an earlier version, which does not say of which run, counts no more.
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


def left_behind(before: tuple[str, ...], results: Iterable[ToolResult]) -> tuple[str, ...]:
    """The agents that were left, after some calls: for whom it is waited again answers like any other."""
    for result in results:
        if result.trace.left or (before and result.trace.children):
            kept = (each for each in before if each not in result.trace.children)
            before = tuple(dict.fromkeys((*kept, *result.trace.left)))
    return before


def handed_over(before: tuple[str, ...], tasks: Sequence[str], ends: Sequence[str]) -> tuple[str, ...]:
    """What was handed over, with some more; journals of earlier versions do not say when tasks had ended."""
    more = [receipt(task, end) for task, end in zip_longest(tasks, ends[: len(tasks)])]
    return tuple(dict.fromkeys((*before, *more))) if more else before
