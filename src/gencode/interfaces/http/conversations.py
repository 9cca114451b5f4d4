"""Conversations that are held over HTTP: messages to them, and what comes back.

When a background task of a conversation ends, a turn begins in it, in which its agent tells the result. One
server at a time does that for a folder, however many there are on a database. Replies also go out through the
channel of the chat where there is one.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from gencode.app import GenCode
from gencode.channels.address import Address, parse_address
from gencode.channels.outbox import LONGEST, Outbox, OutgoingMessage
from gencode.core.errors import GenCodeError, ToolError, UnknownName, UserMistake
from gencode.core.events import CommandEnded, Event, MessageAdded, TaskEnded
from gencode.core.messages import AssistantMessage
from gencode.core.status import Status, StopCause
from gencode.core.task import Task
from gencode.interfaces.chat.chat_addresses import SESSION, ChatAddress, ChatAddresses
from gencode.interfaces.http.hub import Hub
from gencode.interfaces.http.restart import leader_lock
from gencode.journal.store import TaskQuery
from gencode.permissions.urls import UrlRefused, judge_url
from gencode.tasks.control import STOP_SECONDS
from gencode.tasks.handle import ActionResult

WEB = "web"


class WebChannel:
    """Sends to everybody who has the page open; without anybody messages stay in the outbox."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def send(self, chat: str, text: str, mark: str) -> None:
        """Send a message to a chat of the page; the same mark is the same message."""
        if not self._hub.watched:
            raise ToolError("No page is open; the message is sent when one is.")
        self._hub.say("ChatMessage", {"address": f"{WEB}:{chat}", "text": text, "id": mark})


def unreachable(channels: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The channels of the settings whose URL is not a public address, with the reason."""
    found: dict[str, str] = {}
    for name, table in channels.items():
        try:
            judge_url(str(table.get("url", "")))
        except UrlRefused as refused:
            found[name] = refused.why
    return found


log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
FIRST_PAUSE = 30.0
LONGEST_PAUSE = 3600.0
SEEN_THERE = frozenset({SESSION, WEB, "cli", "terminal"})
"""Channels that show the conversation itself."""
UNHEARD = TaskQuery(conversations=True, unheard=True)


class ChatInbox:
    """Sends messages to conversations, and continues those whose turn is over."""

    def __init__(self, gen: GenCode, hub: Hub, chats: ChatAddresses, outbox: Outbox) -> None:
        self._gen = gen
        self._hub = hub
        self._chats = chats
        self._outbox = outbox
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._pauses: dict[str, tuple[float, float]] = {}
        self._silent: dict[str, str] = {}
        """Why channels refused their last message."""

    async def message(self, to: Address, text: str, agent: str) -> tuple[str, bool]:
        """Send a message to a chat; its conversation, and whether that began a turn."""
        async with self._locks[str(to)]:
            known = self._chats.find(to)
            if known is not None and to.channel == SESSION:
                known = (await self._gen.find(known, conversation=True)).id
            if known is None or await self._gen.history.task(known) is None:
                job = await self._gen.start_turn(text, None, agent)
                self._chats.bind(to, job.id)
                self._note_origin(to, job.id)
                return job.id, True
        self._note_origin(to, known)
        return known, await self.say(known, text)

    def _note_origin(self, to: Address, session: str) -> None:
        """Let messages outside of the answers go where the person writes from."""
        if to.channel in self._outbox.channels:
            self._gen.reply_through(session, to)

    async def say(self, session: str, text: str) -> bool:
        """Send a message to a conversation: it begins a turn, or is read by the one that is running."""
        if not text.strip():
            raise UserMistake("The message is empty.")
        async with self._locks[session]:
            task = await self._gen.history.current(session)
            if not task.conversation:
                raise UserMistake(f"{task.id} is a task of the agent {task.agent}, not a conversation.")
            if task.status.ended:
                self._check_folder(task)
                await self._gen.start_turn(text, session, _led_by(task))
                return True
            now = await self._gen.post(session, text)
            if not now.status.ended:
                return False
            return await self._gen.start_follow_up(session, _led_by(now)) is not None

    async def interrupt(self, session: str, message: str, why: StopCause) -> ActionResult:
        """Interrupt the turn of a conversation; a message, now or just before, begins another one."""
        async with self._locks[session]:
            if message.strip():
                self._check_folder(await self._gen.history.current(session))
            result = await self._gen.interrupt(session, why=why)
            now = await self._gen.history.ended(session, STOP_SECONDS)
            if message.strip():  # only now, so that it is not the turn that was cut which hears it
                now = await self._gen.post(session, message)
            said = any(posted.sender == "user" for posted in await self._gen.history.unread(session))
            if said and now.status.ended and self._is_here(now):
                await self._gen.start_follow_up(session, _led_by(now))
            now = await self._gen.history.current(session)
        outcome = await self._gen.history.outcome(now)
        affected = tuple(outcome if each.agent_id == session else each for each in result.affected)
        return ActionResult(**asdict(outcome), affected=affected)

    async def run(self, lock: Path) -> None:
        """Continue the conversations of this folder until cancelled; wait while another server does so."""
        with leader_lock(lock) as leadership:
            leads = leadership.acquire()
            while not leads:
                await asyncio.sleep(LOOK_SECONDS)
                leads = leadership.acquire()
            self._hub.note_missed()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._hear_ends())
                group.create_task(self._receive_messages())

    async def _hear_ends(self) -> None:
        """Continue conversations when they, or their background tasks, have news."""
        event: Event | None = None
        while True:
            try:
                if self._hub.take_missed():
                    for line in self._chats.all():
                        await self._look(line.session)
                        await self._send_on(line)
                if event is not None:
                    await self._after(event)
            except GenCodeError as trouble:
                log.warning("replies to chats could not be sent: %s", trouble)
            event = await self._hub.notable.get()

    async def _receive_messages(self) -> None:
        """Begin a turn where a message came to an idle conversation; retry later where that failed."""
        changes = self._gen.history.changes
        while True:
            seen = changes.count
            try:
                for session in await self._gen.history.tasks(UNHEARD):
                    if self._chats.of(session.id):
                        await self._look(session.id)
            except GenCodeError as trouble:
                log.warning("messages to chats could not be read: %s", trouble)
            await changes.after(seen, LOOK_SECONDS if self._pauses else None)

    async def _after(self, event: Event) -> None:
        """A conversation said something, or work that one sent has ended."""
        task = await self._gen.history.task(event.task)
        if task is None:
            return
        if task.conversation:
            if line := self._chats.of(task.id):
                await self._send_on(line)
                ended = isinstance(event.fact, TaskEnded) and task.status is Status.COMPLETED
                if ended or isinstance(event.fact, CommandEnded):
                    await self._look(task.id)  # what was woken elsewhere may have ended meanwhile
        elif task.terms.background and task.parent and self._chats.of(task.parent):
            await self._look(task.parent)

    async def _look(self, session: str) -> None:
        """Begin a turn in an idle conversation that has news."""
        pause, until = self._pauses.get(session, (FIRST_PAUSE, 0.0))
        if time.monotonic() < until:
            return
        try:
            async with self._locks[session]:
                task = await self._gen.history.current(session)
                at_rest = task.status.ended and task.status is not Status.CANCELLED
                if at_rest and await self._gen.has_news(task):
                    self._check_folder(task)
                    await self._gen.start_follow_up(session, _led_by(task))
            self._pauses.pop(session, None)
        except GenCodeError as trouble:
            log.warning("conversation %s could not be continued: %s", session, trouble)
            self._pauses[session] = (min(pause * 2, LONGEST_PAUSE), time.monotonic() + pause)

    async def _send_on(self, line: ChatAddress) -> None:
        """Send the words of a conversation through the channel of its chat, each at least once."""
        to = parse_address(line.address)
        if to.channel in SEEN_THERE or to.channel not in self._outbox.channels:
            return
        told = line.told
        while facts := await self._gen.history.log.of_task(line.session, told):
            for mark, event in facts:
                told = mark.seq
                if event is not None and (words := spoken(event)):
                    self._warn(
                        to, await self._outbox.send(OutgoingMessage(to, words[:LONGEST], line.session))
                    )
                    self._chats.bind(to, line.session, told)

    def _warn(self, to: Address, why: str) -> None:
        """Log once why a channel refuses messages, until it accepts one again."""
        if why and self._silent.get(to.channel) != why:
            log.warning("the channel %s refused a message, which is sent again later: %s", to.channel, why)
        self._silent[to.channel] = why

    def _check_folder(self, task: Task) -> None:
        if not self._is_here(task):
            raise UserMistake(
                f"The conversation {task.id} belongs to the folder {task.cwd}. Continue it there."
            )

    def _is_here(self, task: Task) -> bool:
        return task.cwd in ("", str(self._gen.workspace.cwd))

    async def session_of(self, to: Address) -> Task:
        """The conversation of an address."""
        known = self._chats.find(to)
        if known is None:
            raise UnknownName("chat", str(to), [line.address for line in self._chats.all()][-20:])
        return await self._gen.find(known, conversation=True)


def spoken(event: Event) -> str:
    """What an agent says to the person in this event; nothing while it still calls tools."""
    match event.fact:
        case MessageAdded(AssistantMessage(text=text, calls=())):
            return text.strip()
        case _:
            return ""


def _led_by(task: Task) -> str:
    return "" if task.agent == "main" else task.agent
