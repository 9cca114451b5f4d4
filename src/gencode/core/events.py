"""The events of a task: frozen facts in the past tense.

Durable facts are written to the journal before anyone hears of them and before their effect starts.
Passing facts (text that is still arriving, steps, progress) are only heard. An `Event` is a fact with its
task, its number in that task (None for passing facts) and its time.
"""

from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec
from msgspec import Struct

from gencode.core.budget import Budget
from gencode.core.changes import Changes, Superseded, with_changes
from gencode.core.errors import CorruptFact
from gencode.core.messages import FileChange, Message, Usage, UserMessage
from gencode.core.place import FolderCopy
from gencode.core.rules import Decision, Mode, Policy
from gencode.core.spec import ToolChoice
from gencode.core.status import EndReason, Status, WaitFor


class Fact(Struct, frozen=True, gc=False, tag_field="kind", omit_defaults=True):
    """Something that happened to one task."""


class TaskCreated(Fact, tag="TaskCreated", frozen=True, omit_defaults=True):
    """Work was asked for. `parent` asked, with the tool call `call`; a conversation has no parent.

    `policies` are those over it as they were written at that moment, the root's first. `grant` is the wider
    mode that a person gave it, and holds for as long as the task can be continued. `spawned`: it was asked
    for with `spawn`, so that its result comes back in that form and it may spawn nothing itself. `worktree`
    is the folder of its own it works in, `forked` the task it began as a copy of. One that is `isolated`
    gets a copy of its folder from whoever runs it, and never works in the folder itself.
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
    """What its agent's file said of tools; a task that goes on gets no others."""
    model: str = ""
    """The model that was chosen for it, so that it goes on with that even if it never began."""
    clone: FolderCopy | None = None
    """What its folder was a clone of: what is refused there is refused to it wherever it goes on."""


class TaskForked(Fact, tag="TaskForked", frozen=True, omit_defaults=True):
    """The task began with what another one had said and heard up to its fact number `upto`."""

    source: str
    upto: int
    messages: tuple[Message, ...] = ()


class TaskStarted(Fact, tag="TaskStarted", frozen=True, omit_defaults=True):
    """A process took the task and sat an agent down to it; `system` is sent unchanged on every turn."""

    model: str = ""
    system: str = ""
    tools: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    budget: Budget | None = None
    """What it may spend from now on, where that was said anew."""
    was: Status = Status.PENDING
    """The status it had before; of one that had to wait for its turn to go on, that of its last end."""
    handed: str = ""
    """When it was its turn, where it had to wait for that."""
    output_schema: dict[str, Any] | None = None
    """The form its results have from now on, where that was said anew."""
    seconds: float | None = None
    """So long this run may take, by all that was said of that; others see by it whether its time is up."""


class TaskQueued(Fact, tag="TaskQueued", frozen=True, omit_defaults=True):
    """The task had ended, is to go on, and waits for its turn to; what it hears then is written with this.

    What was said anew counts from now on, as where a task starts.
    """

    model: str = ""
    budget: Budget | None = None
    output_schema: dict[str, Any] | None = None


class MessageAdded(Fact, tag="MessageAdded", frozen=True):
    """The transcript grew by one message."""

    message: Message


class TranscriptCompacted(Fact, tag="TranscriptCompacted", frozen=True, omit_defaults=True):
    """The transcript became shorter, since a model holds only so much; the journal keeps all of it.

    Of its first `upto` messages those at the places `keeps` stay as they are, and `summary` stands for the
    others. `model` wrote it (empty: GenCode), for `usage`.
    """

    upto: int
    summary: UserMessage
    keeps: tuple[int, ...] = ()
    why: str = ""
    model: str = ""
    usage: Usage | None = None


class CostEstimated(Fact, tag="CostEstimated", frozen=True):
    """What a call of the model cost, about, where no reply says so: it was cut, or broke off, or its provider
    does not tell.
    """

    usage: Usage


class CallDecided(Fact, tag="CallDecided", frozen=True, omit_defaults=True):
    """The gate decided about a call, by this rule and this chain of policies (whose, and in which mode).

    `target` is what the call was about, in one short line: a file, a command. Version 0.1 wrote none (None),
    and who decided only in words.
    """

    call: str
    tool: str
    decision: Decision
    chain: tuple[str, ...] = ()
    target: str | None = None


class TaskBackgrounded(Fact, tag="TaskBackgrounded", frozen=True, omit_defaults=True):
    """Whoever waited for the task does so no more: it goes on in the background."""


class TaskStalled(Fact, tag="TaskStalled", frozen=True):
    """The task gave no sign of life for this long; the next one takes that back."""

    seconds: float


class TaskImported(Fact, tag="TaskImported", frozen=True, omit_defaults=True):
    """The task came from a file, so what that file says about permissions and folders gives no rights.

    It belongs to the folder `cwd` from then on, where it was imported.
    """

    cwd: str = ""


class _WithReason(Fact, frozen=True, kw_only=True, omit_defaults=True):
    # Whoever ends a task has to say why. Only 0.1 wrote ends without a reason: `old_events` adds it when they
    # are read, so that nobody else meets one that is missing.
    if TYPE_CHECKING:
        reason: EndReason
    else:
        reason: EndReason | None = None


class TaskEnded(_WithReason, tag="TaskEnded", frozen=True, omit_defaults=True):
    """The task reached a status it only leaves by being resumed.

    `reason` says why, for programs; `error` tells people, where it did not end well. `result` is what its
    agent said, `changes` what became of the files that it changed.
    """

    status: Status
    result: str = ""
    error: str | None = None
    warnings: tuple[str, ...] = ()
    output: Any = None
    """The result as the value that its schema asks for."""
    inputs: tuple[FileChange, ...] | None = None
    """The files it rests on, where its result may be given again."""
    changes: tuple[Changes, ...] = ()

    @property
    def told(self) -> str:
        """The result with what became of the changes, as people and other agents read it."""
        return with_changes(self.result, self.changes)


class ChangesMoved(Fact, tag="ChangesMoved", frozen=True, omit_defaults=True):
    """What became of the changes of a task after its end: they came from another machine, or the last one at
    work in its worktree has ended.
    """

    change: Changes
    supersedes: Superseded = ""


class WorkReturned(Fact, tag="WorkReturned", frozen=True, omit_defaults=True):
    """The same as version 0.1 wrote it: a `text` to add to the result, and the lines it `withdraws`."""

    text: str
    withdraws: tuple[str, ...] = ()


class BudgetSet(Fact, tag="BudgetSet", frozen=True):
    """The task may spend so much from now on, with everything below it."""

    budget: Budget


class ObsoleteFact(Fact, tag="ObsoleteFact", frozen=True):
    """A fact of an earlier version that changes nothing about the task any more; `was` is its kind."""

    was: str


class TextArrived(Fact, tag="TextArrived", frozen=True):
    """A piece of a reply that is still being spoken."""

    text: str


class ThinkingArrived(Fact, tag="ThinkingArrived", frozen=True):
    """A piece of reasoning that is still being thought."""

    text: str


class ReplyRestarted(Fact, tag="ReplyRestarted", frozen=True):
    """The reply that was being spoken broke off and is asked for anew; what was heard of it is void."""

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
    """A line about how far a tool or an agent is; with `note` one that a person is to see at once."""

    text: str
    note: bool = False
    waits_for: WaitFor | None = None


class CommandEnded(Fact, tag="CommandEnded", frozen=True):
    """A command that the agent started in the background has ended; `file` has its output.

    `exit` is None where it was stopped or killed. Its agent is told by a message, which is durable.
    """

    shell: str
    command: str
    exit: int | None
    file: str


class QueueMoved(Fact, tag="QueueMoved", frozen=True):
    """The task waits for its turn and is now at this place of the queue."""

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
    | ObsoleteFact
)
PassingFact = (
    TextArrived
    | ThinkingArrived
    | ReplyRestarted
    | CallStarted
    | CallFinished
    | ProgressMade
    | CommandEnded
    | QueueMoved
    | TaskStalled
)
"""What is heard and not written. That a task stalled is both: its own process writes it, and where that one
hangs, its sender tells it.
"""
AnyFact = DurableFact | PassingFact
StoredFact = DurableFact | WorkReturned
"""What a journal may hold; `old_events` translates what only version 0.1 wrote."""


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
    """The kind of a stored fact that is whole and that only a newer version can read; None for any other."""
    try:
        kind = _kind_decoder.decode(body).kind
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return None if kind in DURABLE_KINDS or kind in _PASSING_KINDS else kind


def settle(fact: DurableFact) -> tuple[DurableFact, bytes]:
    """A fact as the journal will give it back, and its JSON.

    Halves of surrogate pairs (from names that are not UTF-8, or a model's broken escapes) are no Unicode text
    and become replacement marks here, so that what is folded now equals what is replayed later.
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
