"""Messages of a transcript, and the parts in which a reply arrives."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from gencode.core.place import TaskPlace
from gencode.core.status import EndReason, WaitFor


class Usage(Struct, frozen=True, gc=False, rename="camel"):
    """Tokens and money of one or many model calls; `usd` is None when the price is not known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        known = [usd for usd in (self.usd, other.usd) if usd is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            sum(known) if known else None,
        )


class ToolCall(Struct, frozen=True, gc=False):
    """A model's wish to use a tool. `broken` keeps arguments that were not a JSON object."""

    id: str
    name: str
    input: dict[str, Any]
    broken: str = ""


class FileChange(Struct, frozen=True, gc=False):
    """A file as a tool left it."""

    path: str
    sha256: str


class FileSeen(Struct, frozen=True, gc=False, omit_defaults=True):
    """A file as its agent knows it after a call: by a hash of what is in it, or by its state on this machine.

    The state is kept only where the file was too large to be hashed.
    """

    path: str
    sha256: str = ""
    state: str = ""


class CommandRun(Struct, frozen=True, gc=False, omit_defaults=True):
    """A command that ran and how it ended; `shell` is the id of one that was started in the background.

    That one has no exit code until its agent was told of its end.
    """

    command: str
    exit: int | None
    shell: str = ""


class Trace(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a call did to the world, told by the tool itself and never by the model."""

    read: tuple[str, ...] = ()
    changed: tuple[FileChange, ...] = ()
    commands: tuple[CommandRun, ...] = ()
    children: tuple[str, ...] = ()
    delivered: tuple[str, ...] = ()
    """Tasks whose whole result the sender has read by this call."""
    ends: tuple[str, ...] = ()
    """When each of those had ended, which says of which of its runs the result is."""
    left: tuple[str, ...] = ()
    """Agents that the call had sent when it was cut; what they come to is given to the sender afterwards."""
    seen: tuple[FileSeen, ...] = ()
    """What its agent knows from now on, also when it goes on in another process."""
    unanswered: bool = False
    """Whether nobody answered what the call asked."""


class Image(Struct, frozen=True):
    """A picture for a model that can see: its media type and its bytes as base64."""

    media_type: str
    base64: str


class ToolResult(Struct, frozen=True, gc=False, omit_defaults=True):
    """The one answer to one call."""

    call: str
    name: str
    text: str
    error: bool = False
    trace: Trace = Trace()
    images: tuple[Image, ...] = ()


class Thinking(Struct, frozen=True, gc=False, omit_defaults=True):
    """A block of reasoning, kept with the provider's signature so that it can be sent back."""

    text: str
    signature: str = ""


class NoticeKind(StrEnum):
    """What GenCode itself tells an agent, where something is decided by that later."""

    FORM = "form"
    """Which form its results have from now on: that of a JSON Schema, or of words."""
    ENDED = "ended"
    """Why its last run ended."""
    RESTARTED = "restarted"
    """The server it worked on was shut down, and runs again."""
    RESULTS = "results"
    """Work in the background has ended, and the person has to hear of that."""
    PLACE = "place"
    """Where it works from now on."""
    SUMMARY = "summary"
    """What the beginning of its conversation came to, which is no longer shown to it."""
    REMARK = "remark"
    """Anything that is only said, by a hook perhaps."""


class SystemNotice(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a message of GenCode is about, for programs; its text is for the model."""

    kind: NoticeKind
    schema: dict[str, Any] | None = None
    """Of a form, the JSON Schema; None for words."""
    reason: EndReason | None = None
    """Of an end, why that was."""
    place: TaskPlace | None = None
    summary: str = ""
    """Of a summary, what it says of the conversation."""
    todos: str = ""
    """Of a summary, the list of steps as it was last shown."""


def place_told(text: str, place: TaskPlace) -> "UserMessage":
    """The message that tells an agent where it works from now on."""
    return UserMessage(text, sender="system", notice=SystemNotice(NoticeKind.PLACE, place=place))


def last_place(messages: Sequence["Message"], before: TaskPlace | None = None) -> TaskPlace | None:
    """Where an agent works after some messages; None where it was told of no place."""
    for each in reversed(messages):
        if isinstance(each, UserMessage) and each.notice is not None and each.notice.place is not None:
            return each.notice.place
    return before


class UserMessage(Struct, frozen=True, gc=False, tag="user", tag_field="role", omit_defaults=True):
    """Something said to the agent. `sender` is `user`, `system`, or the id of another agent.

    `delivers` are the tasks whose results are in it: with this message they count as handed over. `ends` is
    when each of them had ended, which says of which of its runs the result is. `mail` is the number of the
    letter it is, if it was sent to the agent while that was at work. `replaces` is how many replies it stands
    for, if it is a summary of what was said before. `unseen` is how many of the pictures before it, the
    latest, are left out from here on, since a provider refused them. `commands` are those in the background
    whose end it tells; `delivers` has their ids as well.
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
    notice: SystemNotice | None = None
    """What it is about, if it is GenCode that says it and anything depends on that."""


class AssistantMessage(Struct, frozen=True, gc=False, tag="assistant", tag_field="role", omit_defaults=True):
    """What the model said; `partial` when it was stopped in the middle.

    Where no model was asked, because the answer was given `again`, that names the task whose answer it is.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    thinking: tuple[Thinking, ...] = ()
    usage: Usage | None = None
    model: str = ""
    stop: str = ""
    partial: bool = False
    again: str = ""


class ToolMessage(Struct, frozen=True, gc=False, tag="tool", tag_field="role"):
    """The results of one reply's calls, in the order of the calls."""

    results: tuple[ToolResult, ...]


Message = UserMessage | AssistantMessage | ToolMessage


def beginning(messages: Sequence[Message]) -> int:
    """How many messages come before the first reply, or before the summary that stands for it."""
    for place, each in enumerate(messages):
        if isinstance(each, AssistantMessage) or (isinstance(each, UserMessage) and each.replaces):
            return place
    return len(messages)


def is_summed_up(messages: Iterable[Message]) -> bool:
    """Whether a summary stands for a part of these."""
    return any(isinstance(each, UserMessage) and each.replaces for each in messages)


def shows_pictures(message: Message) -> bool:
    """Whether a person or a tool shows one in it."""
    if isinstance(message, UserMessage):
        return bool(message.images)
    return isinstance(message, ToolMessage) and any(result.images for result in message.results)


def pictures_in(messages: Iterable[Message]) -> list[Image]:
    """The pictures that a person or a tool shows in these."""
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
    """Some more of the answer."""

    text: str


class ThinkingPart(Struct, frozen=True):
    """Some more of the reasoning; the last piece of a block carries its signature."""

    text: str
    signature: str = ""


class CallPart(Struct, frozen=True):
    """One whole tool call."""

    call: ToolCall


class AgainPart(Struct, frozen=True):
    """What was said of this reply so far is void: it broke off and is asked for anew."""

    why: str


class WaitPart(Struct, frozen=True):
    """The model is not asked yet, for this reason; with `note` a person is to see that at once.

    Who is stopped now has cost nothing with this request, until the wait is `over`. Without a reason nobody
    needs to hear of it.
    """

    why: str = ""
    note: bool = False
    over: bool = False
    waits_for: WaitFor = WaitFor.MODEL


class EndPart(Struct, frozen=True):
    """The reply is whole: who really answered, why it stopped, what it cost (None: not applicable)."""

    model: str
    stop: str = ""
    usage: Usage | None = None


Part = TextPart | ThinkingPart | CallPart | AgainPart | WaitPart | EndPart
