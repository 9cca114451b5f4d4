"""Messages of a transcript, and the parts in which a reply arrives."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from gencode.core.place import TaskPlace
from gencode.core.rules import Mode
from gencode.core.status import EndReason, WaitFor


class Usage(Struct, frozen=True, gc=False, rename="camel"):
    """Tokens and money of one or many model calls; `usd` is None when the price is not known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        known = self.usd is not None or other.usd is not None
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            (self.usd or 0.0) + (other.usd or 0.0) if known else None,
        )


class ToolCall(Struct, frozen=True, gc=False):
    """A call that a model makes. `broken` keeps arguments that were not a JSON object."""

    id: str
    name: str
    input: dict[str, Any]
    broken: str = ""


class FileChange(Struct, frozen=True, gc=False):
    """A file as a tool left it."""

    path: str
    sha256: str


class FileCheckpoint(Struct, frozen=True, gc=False, omit_defaults=True):
    """A file before and after a change: hashes of its content, empty where there was no file.

    `mode` are its permissions before. The earlier content is `kept` unless it was too large or could not be
    written. `after` is None where it is not known: the command that may have changed the file was cut off, or
    still runs.
    """

    path: str
    before: str
    after: str | None
    mode: int = 0
    kept: bool = True


class FileSeen(Struct, frozen=True, gc=False, omit_defaults=True):
    """The version of a file that an agent knows after a call: a hash of its content, or its state on this
    machine.

    The state is used only for a file that was too large to hash.
    """

    path: str
    sha256: str = ""
    state: str = ""


class CommandRun(Struct, frozen=True, gc=False, omit_defaults=True):
    """A command that ran and how it ended; `shell` is the id of a background command.

    A background command has no exit code until its end is delivered to its agent.
    """

    command: str
    exit: int | None
    shell: str = ""


class Trace(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a call did, as the tool itself reports it, never the model."""

    read: tuple[str, ...] = ()
    changed: tuple[FileChange, ...] = ()
    commands: tuple[CommandRun, ...] = ()
    children: tuple[str, ...] = ()
    delivered: tuple[str, ...] = ()
    """Tasks whose whole result the agent has read through this call."""
    ends: tuple[str, ...] = ()
    """When each of those had ended, which says which of its runs the result is of."""
    left: tuple[str, ...] = ()
    """Subagents that the call waited for when it was cut off; their results are delivered later."""
    seen: tuple[FileSeen, ...] = ()
    """The file versions the agent knows from now on, also when another process resumes it."""
    unanswered: bool = False
    """Whether nobody answered the question that the call asked."""
    lines: tuple[int, ...] = ()
    """Of an edit: the line of the file at which each of its replacements begins, for people who read it."""


class Image(Struct, frozen=True):
    """An image for a model that accepts them: its media type and its bytes as base64."""

    media_type: str
    base64: str


class ToolResult(Struct, frozen=True, gc=False, omit_defaults=True):
    """The result of one call; every call has exactly one.

    The text is `foreign` if another program or site wrote it; `note` is what GenCode adds to it.
    """

    call: str
    name: str
    text: str
    error: bool = False
    trace: Trace = Trace()
    images: tuple[Image, ...] = ()
    foreign: bool = False
    note: str = ""

    @property
    def for_model(self) -> str:
        """What a model reads. GenCode's words come before a foreign text, so that it cannot forge them."""
        if not self.foreign:
            return f"{self.text}\n[{self.note}]" if self.note else self.text
        ran = self.trace.commands
        well = "Exit code 0." if ran and ran[0].exit == 0 else ""
        head = " ".join(part for part in (well, self.note) if part) or "Output:"
        return f"[{head}]\n{self.text}".rstrip("\n")

    @property
    def for_people(self) -> str:
        """What a person reads: the note is below the text."""
        return "\n".join(part for part in (self.text.rstrip("\n"), self.note) if part)


class Thinking(Struct, frozen=True, gc=False, omit_defaults=True):
    """A block of reasoning, kept with the provider's signature so that it can be sent back."""

    text: str
    signature: str = ""


class RunConditions(Struct, frozen=True, gc=False, omit_defaults=True):
    """What an agent was told about its run: the mode, who can approve calls, the day, and the model."""

    mode: Mode
    approver: bool = False
    """Whether somebody can approve its calls."""
    day: str = ""
    model: str = ""


class NoticeKind(StrEnum):
    """What a message of GenCode to an agent is about, where something is decided by that later."""

    FORM = "form"
    """The form its results must have from now on: a JSON Schema, or plain text."""
    ENDED = "ended"
    """Why its last run ended."""
    RESTARTED = "restarted"
    """The server it worked on was shut down and runs again."""
    RESULTS = "results"
    """Background work has ended, and the user has to be told."""
    PLACE = "place"
    """Where it works from now on."""
    SUMMARY = "summary"
    """The summary that replaces the beginning of its conversation."""
    FILES = "files"
    """The content of files that the user mentioned."""
    MODE = "mode"
    """Whose permission mode limits its own."""
    REMARK = "remark"
    """A remark that nothing is decided by, such as the output of a hook."""


class SystemNotice(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a message of GenCode is about, as fields; the message's text is for the model."""

    kind: NoticeKind
    schema: dict[str, Any] | None = None
    """For FORM: the JSON Schema; None for plain text."""
    reason: EndReason | None = None
    """For ENDED: why the run ended."""
    place: TaskPlace | None = None
    summary: str = ""
    """For SUMMARY: the summary of the conversation."""
    todos: str = ""
    """For SUMMARY: the list of todos as it was last shown."""
    limited: tuple[str, ...] = ()
    """For MODE: its own mode, who limits it, and the mode of that."""
    conditions: RunConditions | None = None
    """What its agent knows of its permissions from now on."""


def place_message(text: str, place: TaskPlace) -> "UserMessage":
    """The message that tells an agent where it works from now on."""
    return UserMessage(f"[{text}]", sender="system", notice=SystemNotice(NoticeKind.PLACE, place=place))


def last_place(messages: Sequence["Message"], before: TaskPlace | None = None) -> TaskPlace | None:
    """The last place these messages name; without one, `before`."""
    for each in reversed(messages):
        if isinstance(each, UserMessage) and each.notice is not None and each.notice.place is not None:
            return each.notice.place
    return before


class UserMessage(Struct, frozen=True, gc=False, tag="user", tag_field="role", omit_defaults=True):
    """A message to the agent. `sender` is `user`, `system`, or the id of another agent.

    `delivers` are the tasks and background commands whose results are in it: with this message they count as
    delivered. `ends` is when each task had ended, which says which of its runs the result is of. `mail` is
    the number of a message that was posted while the agent was running. `replaces` is how many replies a
    summary stands for. `unseen` is how many of the latest images before it are left out from here on, since a
    provider refused them. `commands` are the background commands whose end it reports.
    """

    text: str
    sender: str = "user"
    delivers: tuple[str, ...] = ()
    mail: int = 0
    replaces: int = 0
    ends: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()
    unseen: int = 0
    commands: tuple[CommandRun, ...] = ()
    runs: tuple[str, ...] = ()
    """The shell commands in the file of a slash command: they run first, and their output follows the text.
    """
    notice: SystemNotice | None = None
    """What it is about, if GenCode wrote it and something is decided by that."""


class AssistantMessage(Struct, frozen=True, gc=False, tag="assistant", tag_field="role", omit_defaults=True):
    """A reply of the model; `partial` when it was stopped in the middle.

    `again` names the task whose earlier result was reused, where no model was called. A `closing` reply sums
    up after the work was ended; it is no turn.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    thinking: tuple[Thinking, ...] = ()
    usage: Usage | None = None
    model: str = ""
    stop: str = ""
    partial: bool = False
    again: str = ""
    closing: bool = False

    @property
    def is_turn(self) -> bool:
        """Whether it counts as a turn of its agent."""
        return not (self.again or self.closing)


class ToolMessage(Struct, frozen=True, gc=False, tag="tool", tag_field="role"):
    """The results of one reply's calls, in the order of the calls."""

    results: tuple[ToolResult, ...]


Message = UserMessage | AssistantMessage | ToolMessage


def beginning(messages: Sequence[Message]) -> int:
    """How many messages come before the first reply, or before the summary that replaces it."""
    for place, each in enumerate(messages):
        if isinstance(each, AssistantMessage) or (isinstance(each, UserMessage) and each.replaces):
            return place
    return len(messages)


def is_summed_up(messages: Iterable[Message]) -> bool:
    """Whether one of these messages is a summary."""
    return any(isinstance(each, UserMessage) and each.replaces for each in messages)


def shows_pictures(message: Message) -> bool:
    """Whether a message has an image."""
    if isinstance(message, UserMessage):
        return bool(message.images)
    return isinstance(message, ToolMessage) and any(result.images for result in message.results)


def pictures_in(messages: Iterable[Message]) -> list[Image]:
    """The images in these messages."""
    found: list[Image] = []
    for each in messages:
        if isinstance(each, UserMessage):
            found += each.images
        elif isinstance(each, ToolMessage):
            found += [image for result in each.results for image in result.images]
    return found


def unanswered(messages: list[Message]) -> tuple[ToolCall, ...]:
    """The calls of the last reply that have no result yet."""
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            return ()
        if isinstance(message, AssistantMessage):
            return message.calls
    return ()


class TextPart(Struct, frozen=True):
    """The next piece of the answer."""

    text: str


class ThinkingPart(Struct, frozen=True):
    """The next piece of the reasoning; the last piece of a block carries its signature."""

    text: str
    signature: str = ""


class CallPart(Struct, frozen=True):
    """One whole tool call."""

    call: ToolCall


class AgainPart(Struct, frozen=True):
    """The reply broke off and is requested again; its parts so far are void."""

    why: str


class WaitPart(Struct, frozen=True):
    """The request waits, for this reason; with `note` a person should see that at once.

    A stop costs nothing until the wait is `over`. Without a reason nothing has to be shown.
    """

    why: str = ""
    note: bool = False
    over: bool = False
    waits_for: WaitFor = WaitFor.MODEL


class EndPart(Struct, frozen=True):
    """The end of the reply: the model that answered, why it stopped, what it cost (None: not applicable)."""

    model: str
    stop: str = ""
    usage: Usage | None = None


Part = TextPart | ThinkingPart | CallPart | AgainPart | WaitPart | EndPart
