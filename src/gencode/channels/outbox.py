"""The outbox: messages to people wait here until a channel has delivered them.

A message is stored before it is sent, and removed after it was delivered. The process that sends it claims it
for two minutes, so that no two do so at once; if that one is killed, the message is sent again afterwards. So
each arrives at least once, with a mark by which the receiver can recognise a repetition.
"""

import asyncio
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct

from gencode.channels.address import Address
from gencode.core.errors import ToolError, UnknownName, UserMistake
from gencode.core.ids import stamp

if TYPE_CHECKING:
    from gencode.web.http_fetch import WebResolver

log = logging.getLogger(__name__)

LONGEST = 10_000
"""The longest message, in characters."""
MOST_WAITING = 1_000
MOST_TOGETHER = 20
"""How many messages are delivered at once, in less time than they are claimed for."""
MOST_TRIES = 24
HELD_SECONDS = 120
SEND_SECONDS = 60
_FIRST_PAUSE = 30
_LONGEST_PAUSE = 3_600
_LINE = 480
_FILE = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_LARGEST_FILE = 10 * 1024 * 1024
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class OutgoingMessage(Struct, frozen=True):
    """A message to be sent; `sender` is the task that wrote it, if one did."""

    to: Address
    text: str
    sender: str = ""


class OutboxMessage(Struct, frozen=True):
    """A stored message; `tries` counts the attempts to deliver it."""

    number: int
    to: Address
    text: str
    sender: str
    at: str
    tries: int = 0


class OutboxStore(Protocol):
    """The port for messages that are not delivered yet."""

    async def add_message(self, draft: OutgoingMessage) -> OutboxMessage:
        """Store a message; UserMistake if too many are waiting already."""
        ...

    async def claim(
        self, channels: Sequence[str], now: str, until: str, number: int | None = None
    ) -> list[OutboxMessage]:
        """Claim messages for these channels that nobody has claimed at `now`; or just one of them."""
        ...

    async def remove(self, message: OutboxMessage) -> bool:
        """Remove a delivered message; False when another process has claimed it since."""
        ...

    async def retry_later(self, message: OutboxMessage, until: str) -> None:
        """Return a message that could not be delivered, unless another process has claimed it since."""
        ...

    async def pending(self) -> list[OutboxMessage]:
        """All messages that are not delivered, oldest first."""
        ...


class Channel(Protocol):
    """A way to send messages to people."""

    async def send(self, chat: str, text: str, mark: str) -> None:
        """Deliver a text to a chat; ToolError says why it failed. The same mark is the same message."""
        ...


class MessageStore(Protocol):
    """The parts of a store that messages need."""

    @property
    def outbox(self) -> OutboxStore:
        """The messages that wait."""
        ...

    async def post(self, task: str, text: str, sender: str) -> int:
        """Post a message to a task."""
        ...


class Outbox:
    """Sends messages through the channels that this process has."""

    def __init__(self, keeper: MessageStore, channels: Mapping[str, Channel]) -> None:
        self._keeper = keeper
        self._channels = dict(channels)

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the known channels."""
        return tuple(self._channels)

    def register(self, name: str, channel: Channel) -> None:
        """Add or replace a channel."""
        self._channels[name] = channel

    def lend(self, other: "Outbox") -> None:
        """Let another outbox of this process use the same channels."""
        for name, channel in self._channels.items():
            other.register(name, channel)

    def check(self, to: Address) -> None:
        """UserMistake for an unknown channel, with the nearest names."""
        if to.channel not in self._channels:
            raise UnknownName("channel", to.channel, self._channels)

    async def send(self, draft: OutgoingMessage) -> str:
        """Store a message and deliver it; why it has to wait, or empty if it arrived."""
        self.check(draft.to)
        message = await self._keeper.outbox.add_message(draft)
        now = datetime.now(UTC)
        taken = await self._keeper.outbox.claim((draft.to.channel,), *_held(now), message.number)
        return await self._delivered(taken[0]) if taken else ""

    async def waiting(self) -> list[OutboxMessage]:
        """The messages that have not been delivered yet."""
        return await self._keeper.outbox.pending()

    async def deliver(self) -> int:
        """Try to deliver all messages that are due; how many arrived."""
        taken = await self._keeper.outbox.claim(self.channels, *_held(datetime.now(UTC)))
        return (await asyncio.gather(*map(self._delivered, taken))).count("")

    async def _delivered(self, message: OutboxMessage) -> str:
        to = message.to
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._channels[to.channel].send(to.chat, message.text, str(message.number))
        except (ToolError, OSError, TimeoutError) as error:
            why = str(error) or f"{to.channel} did not answer in time"
            await self._kept(message, why)
            return why
        await self._keeper.outbox.remove(message)
        return ""

    async def _kept(self, message: OutboxMessage, why: str) -> None:
        """Keep a message for later; after too many attempts it is given up, and its sender is notified."""
        if message.tries < MOST_TRIES:
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(message.tries, 10))
            until = datetime.now(UTC) + timedelta(seconds=pause)
            await self._keeper.outbox.retry_later(message, stamp(until))
            return
        log.warning("the message %d to %s was given up: %s", message.number, message.to, why)
        if await self._keeper.outbox.remove(message) and message.sender:
            try:
                said = f"[The message to {message.to} of {message.at} could not be delivered: {why}]"
                await self._keeper.post(message.sender, said, "system")
            except UserMistake as mistake:
                log.warning("nobody could be told: %s", mistake)


class TerminalChannel:
    """The terminal of a conversation that is open in this process: each line of a message is a note."""

    def __init__(self, show: Callable[[str, str], bool]) -> None:
        self._show = show

    async def send(self, chat: str, text: str, mark: str) -> None:
        """Show a text at once in the conversation `chat`."""
        for line in text.splitlines():
            for at in range(0, len(line), _LINE):
                if not self._show(chat, line[at : at + _LINE]):
                    raise ToolError(f"The conversation {chat} is not open here; it is shown when it goes on.")


class FileChannel:
    """Files below a folder, one for each chat; messages are appended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def send(self, chat: str, text: str, mark: str) -> None:
        """Append a text to the file of a chat, below a line with the time and the mark."""
        if not _FILE.match(chat):
            raise ToolError(f"{chat!r} is no name of a file; use up to 64 letters, digits, - and _.")
        lines = "\n".join(f"  {line}" for line in text.splitlines())
        entry = f"[{stamp()} {mark}]\n{lines}\n\n".encode("utf-8", "replace")
        await asyncio.to_thread(self._add, f"{chat}.md", entry)

    def _add(self, name: str, entry: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        inside = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            with os.fdopen(os.open(name, flags, 0o600, dir_fd=inside), "ab", buffering=0) as file:
                if os.fstat(file.fileno()).st_size > _LARGEST_FILE:
                    raise ToolError(f"{name} is larger than {_LARGEST_FILE:,} bytes; empty it first.")
                file.write(entry)
        finally:
            os.close(inside)


class WebhookSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`[channels.NAME]` of the user's settings."""

    url: str
    headers: dict[str, str] = {}


class WebhookChannel:
    """A public address that accepts messages as JSON. Only the user's settings can name one."""

    def __init__(self, name: str, told: WebhookSettings, internet: "WebResolver | None" = None) -> None:
        self._name = name
        self._told = told
        self._internet = internet

    async def send(self, chat: str, text: str, mark: str) -> None:
        """POST a text; it arrived if the answer says so."""
        from gencode.web.http_fetch import INTERNET, WebLimits, WebRequest, fetch

        body = msgspec.json.encode({"id": mark, "channel": self._name, "chat": chat, "text": text})
        headers = {name: _filled(value, self._name) for name, value in self._told.headers.items()}
        headers = {"Content-Type": "application/json", **headers}
        request = WebRequest(self._told.url, "POST", headers, body)
        limits = WebLimits(most_bytes=64 * 1024, seconds=30.0)
        answer = await fetch(request, limits, follow=self._stay, internet=self._internet or INTERNET)
        if not 200 <= answer.status < 300:
            raise ToolError(f"{self._name} answered with status {answer.status}.")

    async def _stay(self, _: object) -> None:
        raise ToolError(f"{self._name} redirects, and messages are not sent on.")


def own_channels(
    home: Path, show: Callable[[str, str], bool], tables: Mapping[str, Any]
) -> dict[str, Channel]:
    """The channels that every process has, and those of the user's settings."""
    screen = TerminalChannel(show)
    found: dict[str, Channel] = {"cli": screen, "terminal": screen, "file": FileChannel(home / "outbox")}
    for name, table in tables.items():
        if name in found or not re.match(r"[a-z0-9][a-z0-9_-]{0,39}\Z", name):
            raise UserMistake(
                f"The setting channels.{name[:80]} has no name of its own; use up to 40 small letters, "
                "digits, - and _, and neither cli nor terminal nor file."
            )
        try:
            found[name] = WebhookChannel(name, msgspec.convert(table, WebhookSettings))
        except msgspec.ValidationError as error:
            raise UserMistake(f"The setting channels.{name} does not fit: {error}.") from None
    return found


def _filled(text: str, channel: str) -> str:
    """A header with environment variables filled in."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise ToolError(f"{channel} needs the variable {found[1]}, which is not set.")
        return os.environ[found[1]]

    return _VARIABLE.sub(value, text)


def _held(now: datetime) -> tuple[str, str]:
    return stamp(now), stamp(now + timedelta(seconds=HELD_SECONDS))
