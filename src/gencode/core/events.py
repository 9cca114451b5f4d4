"""The events of a task: immutable records of what happened.

Durable facts are written to the journal before they are published and before their effect starts. Passing
facts (arriving text, steps, progress) are only published. An `Event` is a fact with its task, its number in
that task (None for passing facts) and its time.
"""

from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec
from msgspec import Struct

from gencode.core.budget import Budget
from gencode.core.changes import Changes, Superseded, with_changes
from gencode.core.errors import CorruptFact
from gencode.core.messages import FileChange, FileCheckpoint, Message, RunConditions, Usage, UserMessage
from gencode.core.place import FolderCopy
from gencode.core.rules import Decision, Mode, Policy
from gencode.core.spec import ToolChoice
from gencode.core.status import EndReason, Status, WaitFor


class Fact(Struct, frozen=True, gc=False, tag_field="kind", omit_defaults=True):
    """Something that happened to one task."""


class TaskCreated(Fact, tag="TaskCreated", frozen=True, omit_defaults=True):
    """A task was created. `parent` requested it with the tool call `call`; a conversation has no parent.

    `policies` are those above it as they were at that moment, the root's first. `grant` is the wider mode
    that a person approved for it, which lasts as long as the task can be resumed. `spawned`: it was requested
    with `spawn` or `spawn_subagent`, so its result has the form of those tools. `worktree` is its own
    folder, `forked` the task it is a copy of. An `isolated` task gets a copy of its folder from the process
    that runs it, and never works in the folder itself.
    """

    agent: str = "general-purpose"
    prompt: str = ""
    description: str = ""
    conversation: bool = False
    parent: str | None = None
    call: str | None = None
    background: bool = False
    cwd: str = ""
    asked_model: str = ""
    max_turns: int | None = None
    depth: int = 0
    policies: tuple[Policy, ...] = ()
    grant: Mode | None = None
    spawned: bool = False
    budget: Budget = Budget()
    output_schema: dict[str, Any] | None = None
    worktree: str = ""
    isolated: bool = False
    forked: str = ""
    tools: ToolChoice | None = None
    """The tools that its agent's file named; a resume gives it no others."""
    model: str = ""
    """The model that was chosen for it, used for a resume even if it never began."""
    colour: str = ""
    """The colour of its agent on screens, if the agent's file names one."""
    display_name: str = ""
    """The name of its agent on screens, if the agent's file has another one for people."""
    max_tokens: int | None = None
    """The most tokens of a reply of its model, if anybody set a limit; kept on resume and on workers."""
    clone: FolderCopy | None = None
    """What its folder is a clone of: what is denied there is denied to it wherever it is resumed."""

    @property
    def forks_parent(self) -> bool:
        """Whether it began as a copy of its parent, with all that one knew."""
        return bool(self.forked) and self.forked == self.parent


class TaskForked(Fact, tag="TaskForked", frozen=True, omit_defaults=True):
    """The task began with the transcript of another one up to its event number `upto`."""

    source: str
    upto: int
    messages: tuple[Message, ...] = ()


class TaskStarted(Fact, tag="TaskStarted", frozen=True, omit_defaults=True):
    """A process began a run of the task; `system` is sent unchanged with every request."""

    model: str = ""
    system: str = ""
    tools: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    budget: Budget | None = None
    """Its budget from now on, if that was set anew."""
    was: Status = Status.PENDING
    """The status it had before; after a wait in the queue, that of its last end."""
    handed: str = ""
    """When its wait in the queue ended, if it had to wait."""
    output_schema: dict[str, Any] | None = None
    """The form of its results from now on, if that was set anew."""
    seconds: float | None = None
    """The tightest time limit of this run; other processes see by it whether the time is up."""
    conditions: RunConditions | None = None
    """What its agent knows about the run, from the prompt or from a message."""


class TaskQueued(Fact, tag="TaskQueued", frozen=True, omit_defaults=True):
    """The task had ended, is resumed, and waits in the queue; its new messages are written with this event.

    New terms apply from now on, as in TaskStarted.
    """

    model: str = ""
    budget: Budget | None = None
    output_schema: dict[str, Any] | None = None


class MessageAdded(Fact, tag="MessageAdded", frozen=True):
    """The transcript grew by one message."""

    message: Message


class TranscriptCompacted(Fact, tag="TranscriptCompacted", frozen=True, omit_defaults=True):
    """The transcript was compacted to fit the model's context; the journal keeps all of it.

    Of its first `upto` messages those at the places `keeps` stay, and `summary` replaces the others. `model`
    wrote the summary (empty: GenCode), with `usage`.
    """

    upto: int
    summary: UserMessage
    keeps: tuple[int, ...] = ()
    why: str = ""
    model: str = ""
    usage: Usage | None = None


class FilesCheckpointed(Fact, tag="FilesCheckpointed", frozen=True, omit_defaults=True):
    """The content of files was saved before a call changed them, or after a command did.

    Before a command that may change anything, `tree` is the hash of a list of all saved files; it is used if
    the journal has no end of that command.
    """

    call: str
    files: tuple[FileCheckpoint, ...] = ()
    tree: str = ""


class SessionRewound(Fact, tag="SessionRewound", frozen=True, omit_defaults=True):
    """A person went back to before event number `to`: with the `conversation`, with these `files`, or both.

    The events stay in the journal; the conversation is as it was then.
    """

    to: int
    conversation: bool = False
    files: tuple[FileCheckpoint, ...] = ()


class CostEstimated(Fact, tag="CostEstimated", frozen=True):
    """The estimated cost of a model call whose reply does not say it: it was cut off, or broke off, or its
    provider reports none.
    """

    usage: Usage


class CallDecided(Fact, tag="CallDecided", frozen=True, omit_defaults=True):
    """The gate decided a call, by this rule and this chain of policies (whose, and in which mode).

    `target` is what the call is about, in one short line: a file, a command. Version 0.1 did not record it
    (None), and recorded only in words who decided.
    """

    call: str
    tool: str
    decision: Decision
    chain: tuple[str, ...] = ()
    target: str | None = None


class TaskBackgrounded(Fact, tag="TaskBackgrounded", frozen=True, omit_defaults=True):
    """Its parent stopped waiting for the task, which continues in the background."""


class TaskStalled(Fact, tag="TaskStalled", frozen=True):
    """The task gave no sign of life for this long; its next one ends the stall."""

    seconds: float


class TaskImported(Fact, tag="TaskImported", frozen=True, omit_defaults=True):
    """The task was imported from a file, so what that file says about permissions and folders gives no
    rights.

    It belongs to the folder `cwd` it was imported into.
    """

    cwd: str = ""


class _WithReason(Fact, frozen=True, kw_only=True, omit_defaults=True):
    # Every end has a reason. Only 0.1 wrote ends without one: `old_events` adds it when they
    # are read, so that no other code sees one that is missing.
    if TYPE_CHECKING:
        reason: EndReason
    else:
        reason: EndReason | None = None


class TaskEnded(_WithReason, tag="TaskEnded", frozen=True, omit_defaults=True):
    """A run of the task ended; only a resume continues it.

    `reason` says why, for programs; `error` for people, unless it completed. `result` is the agent's report,
    `changes` what became of the files that it changed.
    """

    status: Status
    result: str = ""
    error: str | None = None
    warnings: tuple[str, ...] = ()
    output: Any = None
    """The result as the value its schema describes."""
    inputs: tuple[FileChange, ...] | None = None
    """The files its result depends on, where that may be reused."""
    changes: tuple[Changes, ...] = ()

    @property
    def full_text(self) -> str:
        """The result with the descriptions of its changes."""
        return with_changes(self.result, self.changes)


class ChangesMoved(Fact, tag="ChangesMoved", frozen=True, omit_defaults=True):
    """The changes of a task were moved after its end: they came from another machine, or the last task in its
    worktree has ended.
    """

    change: Changes
    supersedes: Superseded = ""


class WorkReturned(Fact, tag="WorkReturned", frozen=True, omit_defaults=True):
    """ChangesMoved as version 0.1 wrote it: a `text` to add to the result, and the lines it `withdraws`."""

    text: str
    withdraws: tuple[str, ...] = ()


class BudgetSet(Fact, tag="BudgetSet", frozen=True):
    """The budget of the task and its subagents was set."""

    budget: Budget


class ObsoleteFact(Fact, tag="ObsoleteFact", frozen=True):
    """An event of an earlier version that no longer changes anything about the task; `was` is its kind."""

    was: str


class TextArrived(Fact, tag="TextArrived", frozen=True):
    """A piece of a reply arrived."""

    text: str


class ThinkingArrived(Fact, tag="ThinkingArrived", frozen=True):
    """A piece of reasoning arrived."""

    text: str


class ReplyRestarted(Fact, tag="ReplyRestarted", frozen=True):
    """The reply broke off and is requested again; its pieces so far are discarded."""

    why: str


class CallStarted(Fact, tag="CallStarted", frozen=True, omit_defaults=True):
    """A tool began to run; `summary` is one line for a person."""

    call: str
    tool: str
    summary: str = ""


class CallFinished(Fact, tag="CallFinished", frozen=True, omit_defaults=True):
    """A tool ended; `summary` is one line for a person."""

    call: str
    tool: str
    summary: str = ""
    error: bool = False


class ProgressMade(Fact, tag="ProgressMade", frozen=True, omit_defaults=True):
    """A line about the progress of a tool or an agent; with `note` one that a person should see at once."""

    text: str
    note: bool = False
    waits_for: WaitFor | None = None


class OutputArrived(Fact, tag="OutputArrived", frozen=True):
    """The last lines that a running command has written so far."""

    call: str
    text: str


class CommandEnded(Fact, tag="CommandEnded", frozen=True):
    """A background command of the agent has ended; `file` has its output.

    `exit` is None if it was stopped or killed. Its agent learns of it through a message, which is durable.
    """

    shell: str
    command: str
    exit: int | None
    file: str


class QueueMoved(Fact, tag="QueueMoved", frozen=True):
    """The task waits in the queue, now at this place."""

    position: int


DurableFact = (
    TaskCreated
    | TaskForked
    | TaskStarted
    | TaskQueued
    | MessageAdded
    | TranscriptCompacted
    | CostEstimated
    | CallDecided
    | TaskBackgrounded
    | TaskStalled
    | TaskImported
    | TaskEnded
    | ChangesMoved
    | BudgetSet
    | FilesCheckpointed
    | SessionRewound
    | ObsoleteFact
)
PassingFact = (
    TextArrived
    | ThinkingArrived
    | ReplyRestarted
    | CallStarted
    | CallFinished
    | ProgressMade
    | OutputArrived
    | CommandEnded
    | QueueMoved
    | TaskStalled
)
"""Facts that are published and not written. TaskStalled is both: its own process writes it, and if that
process hangs, the parent's publishes it.
"""
AnyFact = DurableFact | PassingFact
StoredFact = DurableFact | WorkReturned
"""What a journal may contain; `old_events` translates what only version 0.1 wrote."""


class Event(Struct, frozen=True, gc=False):
    """A fact with its place: which task, which number (None for passing facts), when."""

    task: str
    seq: int | None
    at: str
    fact: AnyFact


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[StoredFact] = msgspec.json.Decoder(StoredFact)
_settled: msgspec.json.Decoder[DurableFact] = msgspec.json.Decoder(DurableFact)
DURABLE_KINDS = frozenset(kind.__name__ for kind in get_args(StoredFact))
_PASSING_KINDS = frozenset(kind.__name__ for kind in get_args(PassingFact))


class _Kind(Struct, frozen=True):
    kind: str


_kind_decoder = msgspec.json.Decoder(_Kind)


def kind_of(fact: Fact) -> str:
    """The name a fact is stored under."""
    return type(fact).__name__


def encode_fact(fact: Fact) -> bytes:
    """A fact as JSON, with its kind inside."""
    return _encoder.encode(fact)


def decode_fact(body: bytes | str) -> StoredFact:
    """Read a stored fact; CorruptFact says what is wrong with one that cannot be read."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        kind = unknown_kind(body)
        if kind is None:
            raise CorruptFact(f"cannot be read: {error}.") from None
        raise CorruptFact(
            f"is of the kind {kind[:60]!r}, which this GenCode does not know; a newer one may read it."
        ) from None


def unknown_kind(body: bytes | str) -> str | None:
    """The kind of a stored event that is intact and that only a newer version can read; None otherwise."""
    try:
        kind = _kind_decoder.decode(body).kind
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return None if kind in DURABLE_KINDS or kind in _PASSING_KINDS else kind


def settle(fact: DurableFact) -> tuple[DurableFact, bytes]:
    """A fact as it will be read back from the journal, and its JSON.

    Halves of surrogate pairs (from names that are not UTF-8, or a model's broken escapes) are not valid
    Unicode and become replacement characters here, so that the fold of now equals a later replay.
    """
    try:
        try:
            return fact, _encoder.encode(fact)
        except UnicodeEncodeError:
            body = _encoder.encode(_unicode(msgspec.to_builtins(fact)))
            return _settled.decode(body), body
    except (TypeError, OverflowError, RecursionError) as error:
        raise CorruptFact(f"{kind_of(fact)} cannot be written as JSON: {error}") from None


def unicode_text(text: str) -> str:
    """`text` with every half of a surrogate pair replaced, so that it can be stored as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _unicode(value: Any) -> Any:
    if isinstance(value, str):
        return unicode_text(value)
    if isinstance(value, dict):
        entries = cast("dict[Any, Any]", value)
        return {_unicode(key): _unicode(each) for key, each in entries.items()}
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return [_unicode(each) for each in items]
    return value


def plain(event: Event) -> dict[str, Any]:
    """An event as one flat JSON-ready object: task, seq, at, kind, then the fact's fields."""
    body: dict[str, Any] = msgspec.to_builtins(event.fact)
    return {"task": event.task, "seq": event.seq, "at": event.at, **body}
