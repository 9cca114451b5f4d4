"""ACP prompts: their content blocks as text and pictures, and the stop reason they are answered with.

A conversation goes on while subagents work in the background. A prompt is answered as soon as the main agent
has given its answer; later results are sent as they come.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp.exceptions import RequestError
from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    StopReason,
    TextContentBlock,
    TextResourceContents,
)

from gencode.app import CommandFiles
from gencode.core.errors import UserMistake
from gencode.core.events import Event, MessageAdded, TaskEnded
from gencode.core.messages import AssistantMessage, Image, UserMessage
from gencode.core.status import Status
from gencode.core.text import visible_line
from gencode.files.images import LARGEST_PICTURE, MOST_PICTURES, MOST_TOGETHER, WIDEST, picture
from gencode.interfaces.acp.stdio_transport import INTERNAL_ERROR
from gencode.interfaces.acp.tool_call_updates import fenced
from gencode.interfaces.chat.slash_commands import is_command

MOST_LINKS = 200
MOST_OF_ONE = 100_000
MOST_IN_ALL = 400_000
NAME_ROOM = 1_000
PICTURE_LIMITS = (
    f"The limits: {MOST_PICTURES} pictures (PNG, JPEG, GIF or WebP), each up to {LARGEST_PICTURE:,} bytes "
    f"and {WIDEST:,} x {WIDEST:,} pixels, together up to {MOST_TOGETHER // 4 * 3:,} bytes."
)
NO_COMMAND = "Commands take no pictures. Send the command without them."
NO_AUDIO = "Audio is not supported; the rest of your prompt was sent."
Block = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


def prompt_text(blocks: Sequence[Block], cwd: Path) -> str:
    """The text of a prompt, then the files it links to and the ones it embeds; these are cut if too long."""
    words: list[str] = []
    links: list[str] = []
    embedded: list[str] = []
    room = MOST_IN_ALL
    shown = 0
    for block in blocks:
        match block:
            case TextContentBlock():
                words.append(block.text)
            case ResourceContentBlock():
                place = path_of_uri(block.uri, cwd)
                words.append(f'@"{place}"' if " " in place else f"@{place}")
                links.append(place)
            case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
                text = _cut(resource.text, min(MOST_OF_ONE, room))
                room -= min(len(resource.text), MOST_OF_ONE, room)
                place = path_of_uri(resource.uri, cwd)
                words.append(place)  # with @ the file on the disk would be attached as well
                embedded.append(f"{place}, as the editor shows it:\n{fenced(text)}")
            case EmbeddedResourceContentBlock():
                words.append(f"[{path_of_uri(block.resource.uri, cwd)} is not text and was left out]")
            case ImageContentBlock():
                shown += 1
                words.append(f"[picture {shown}]")
            case AudioContentBlock():
                words.append(f"[audio ({visible_line(block.mime_type, 80)}) was left out]")
    return "\n\n".join(part for part in ("".join(words), _pointed_to(links), *embedded) if part)


def prompt_pictures(blocks: Sequence[Block]) -> tuple[Image, ...]:
    """The pictures, in order; UserMistake for the first one that cannot be used."""
    blocks = [block for block in blocks if isinstance(block, ImageContentBlock)]
    if len(blocks) > MOST_PICTURES:
        raise UserMistake(f"Nothing was sent: {len(blocks)} pictures are too many. {PICTURE_LIMITS}")
    found = [picture(block.mime_type, block.data) for block in blocks]
    for number, each in enumerate(found, start=1):
        if isinstance(each, str):
            raise UserMistake(f"Nothing was sent: picture {number} is one {each}. {PICTURE_LIMITS}")
    pictures = tuple(each for each in found if isinstance(each, Image))
    if sum(len(each.base64) for each in pictures) > MOST_TOGETHER:
        raise UserMistake(f"Nothing was sent: the pictures together are too large. {PICTURE_LIMITS}")
    return pictures


def command_in(blocks: Sequence[Block], text: str, files: CommandFiles) -> str:
    """The slash command in a prompt, or an empty text. UserMistake for a command with pictures."""
    if not any(isinstance(block, ImageContentBlock) for block in blocks):
        return text if is_command(text, files) else ""
    typed = "".join(block.text for block in blocks if isinstance(block, TextContentBlock))
    if is_command(typed.strip(), files):
        raise UserMistake(NO_COMMAND)
    return ""


def has_audio(blocks: Sequence[Block]) -> bool:
    """Whether a prompt has audio, which is left out."""
    return any(isinstance(block, AudioContentBlock) for block in blocks)


def path_of_uri(uri: str, cwd: Path) -> str:
    """The path of a file URI, relative if it is in the working directory, with its fragment; else the URI."""
    parts = urlsplit(uri[:NAME_ROOM])
    if parts.scheme not in ("", "file"):
        return visible_line(uri, NAME_ROOM)
    path = Path(unquote(parts.path))
    inside = path.is_absolute() and path.is_relative_to(cwd)
    lines = f"#{parts.fragment}" if parts.fragment else ""
    return visible_line(f"{path.relative_to(cwd) if inside else path}{lines}", NAME_ROOM)


def _pointed_to(links: Sequence[str]) -> str:
    if not links:
        return ""
    listed = list(dict.fromkeys(links))
    more = f"\n… and {len(listed) - MOST_LINKS} more" if len(listed) > MOST_LINKS else ""
    return "Files the user refers to:\n" + "\n".join(f"- {each}" for each in listed[:MOST_LINKS]) + more


def _cut(text: str, most: int) -> str:
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}\n[… {left:,} more characters; use Read to see them]"


IDLE_SECONDS = 0.25
"""An idle agent may still end its turn by itself for so long after its last reply."""
_REASONS: dict[Status, StopReason] = {
    Status.COMPLETED: "end_turn",
    Status.EMPTY: "end_turn",
    Status.LIMIT_REACHED: "max_turn_requests",
    Status.TIMED_OUT: "max_turn_requests",
    Status.CANCELLED: "cancelled",
}
_STOPS: dict[str, StopReason] = {
    **dict.fromkeys(("max_tokens", "length", "max_output_tokens"), "max_tokens"),
    **dict.fromkeys(("refusal", "content_filter"), "refusal"),
}


class PendingPrompt:
    """A prompt that waits for its stop reason; `read` once the agent has it in its transcript."""

    def __init__(self) -> None:
        self.reason: asyncio.Future[StopReason] = asyncio.get_running_loop().create_future()
        self.read = False
        self.cancelled = False

    def end(self, reason: StopReason) -> None:
        """Answer it, if it is not answered yet."""
        if not self.reason.done():
            self.reason.set_result("cancelled" if self.cancelled else reason)

    def fail(self, why: str) -> None:
        """Answer it with an error, unless the user has cancelled it."""
        if self.cancelled:
            self.end("cancelled")
        elif not self.reason.done():
            self.reason.set_exception(RequestError(INTERNAL_ERROR, why))


class PendingPrompts:
    """The prompts of one session that wait for their stop reasons."""

    def __init__(self) -> None:
        self._waiting: list[PendingPrompt] = []
        self._stop: StopReason = "end_turn"
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> PendingPrompt:
        """Add a prompt."""
        prompt = PendingPrompt()
        self._waiting.append(prompt)
        return prompt

    def forget(self, prompt: PendingPrompt) -> None:
        """Remove a prompt that was answered or given up."""
        if prompt in self._waiting:
            self._waiting.remove(prompt)

    def cancel(self) -> None:
        """Mark all as cancelled by the user."""
        for prompt in self._waiting:
            prompt.cancelled = True

    def fail(self, why: str) -> None:
        """Answer all with an error: the session cannot be followed any more."""
        for prompt in list(self._waiting):
            prompt.fail(why)

    def end(self) -> None:
        """Answer all as cancelled: the session is closed."""
        self._answer(self._waiting, "cancelled")

    def add_event(self, event: Event, *, idle: bool, busy: bool) -> None:
        """Handle an event of the main agent: whether it is idle now, and whether subagents are running."""
        match event.fact:
            case MessageAdded(UserMessage(sender="user")):
                self._cancel_timer()
                unread = next((each for each in self._waiting if not each.read), None)
                if unread is not None:
                    unread.read = True
            case MessageAdded(AssistantMessage(stop=stop)):
                self._stop = _STOPS.get(stop, "end_turn")
                if idle:
                    self._answer_when_idle(0.0 if busy else IDLE_SECONDS)
            case MessageAdded():
                self._cancel_timer()
            case TaskEnded() as fact:
                self._cancel_timer()
                self._ended(fact)
            case _:
                pass

    def _ended(self, fact: TaskEnded) -> None:
        if fact.status is Status.COMPLETED:
            self._answer([each for each in self._waiting if each.read], self._stop)
        elif fact.status in _REASONS:
            self._answer(self._waiting, _REASONS[fact.status])
        else:
            self.fail(visible_line(fact.error or f"The turn has failed ({fact.status}).", 2_000))

    def _answer(self, prompts: list[PendingPrompt], reason: StopReason) -> None:
        for prompt in list(prompts):
            prompt.end(reason)

    def _answer_when_idle(self, seconds: float) -> None:
        self._cancel_timer()
        read = [each for each in self._waiting if each.read]
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._answer, read, self._stop)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
