"""Conversations that are held over HTTP: their addresses, messages to them, and what comes back.

When a background task of a conversation ends, a turn begins in it, in which its agent tells the result. One
server at a time does that for a folder, however many there are on a database. Replies also go out through the
channel of the chat where there is one.

The addresses are kept in a file that only grows, shared by all servers of the machine: the last line about an
address counts. `session:ID` is the address of any conversation and needs no line.
"""

import asyncio
import fcntl
import logging
import os
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from gencode.app import GenCode
from gencode.channels.address import Address, parse_address
from gencode.channels.outbox import LONGEST, Outbox, OutgoingMessage
from gencode.core.errors import GenCodeError, ToolError, UnknownName, UserMistake
from gencode.core.events import CommandEnded, Event, MessageAdded, TaskEnded
from gencode.core.messages import AssistantMessage
from gencode.core.spec import AgentSpec
from gencode.core.status import Status, StopCause
from gencode.core.task import Task
from gencode.interfaces.http.hub import Hub
from gencode.interfaces.http.restart import turn_at
from gencode.journal.store import TaskQuery
from gencode.permissions.urls import UrlRefused, judge_url
from gencode.tasks.control import STOP_SECONDS
from gencode.tasks.handle import StruckTask

SESSION = "session"
MOST_BYTES = 50_000_000
_MODE = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Line(Struct, frozen=True, omit_defaults=True):
    """One address of one folder, its conversation, and the last fact whose words were sent on."""

    address: str
    session: str
    cwd: str
    told: int = 0


class Chats:
    """The addresses of the conversations of one folder."""

    def __init__(self, path: Path, cwd: Path) -> None:
        self._path = path
        self._cwd = str(cwd)
        self._read = 0
        self._lines: dict[str, Line] = {}

    def find(self, to: Address) -> str | None:
        """The conversation that an address leads to, if there is one."""
        if to.channel == SESSION:
            return to.chat
        self._refresh()
        line = self._lines.get(str(to))
        return line.session if line else None

    def of(self, session: str) -> Line | None:
        """The address that leads to a conversation, the newest if there are several."""
        self._refresh()
        return next((line for line in reversed(self._lines.values()) if line.session == session), None)

    def all(self) -> list[Line]:
        """Every address that leads somewhere, the newest last."""
        self._refresh()
        return list(self._lines.values())

    def bind(self, to: Address, session: str, told: int = 0) -> None:
        """Let an address lead to a conversation whose words up to a fact were sent on."""
        line = Line(str(to), session, self._cwd, told)
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(self._path, _MODE, 0o600), "ab", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(file.fileno()).st_size > MOST_BYTES:
                    raise UserMistake(f"{self._path} is too large; delete lines that nobody needs.")
                file.write(msgspec.json.encode(line) + b"\n")
        except OSError as error:
            raise UserMistake(f"{self._path} cannot be written: {error.strerror}.") from None
        self._refresh()

    def _refresh(self) -> None:
        """Read what was added since; half a line is read when it is whole."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                added = file.read(MOST_BYTES)
        except FileNotFoundError:
            return
        except OSError as error:
            raise UserMistake(f"{self._path} cannot be read: {error.strerror}.") from None
        whole, newline, _ = added.rpartition(b"\n")
        self._read += len(whole) + len(newline)
        for text in whole.splitlines():
            try:
                line = msgspec.json.decode(text, type=Line)
            except msgspec.MsgspecError:
                continue  # a hand has been in the file; every other line counts
            if line.cwd == self._cwd:
                self._lines.pop(line.address, None)
                self._lines[line.address] = line


WEB = "web"


class WebChannel:
    """Tells everybody who hears of all tasks; what nobody would hear waits in the outbox."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def send(self, chat: str, text: str, mark: str) -> None:
        """Say something in a chat of the page; the same mark is the same message."""
        if not self._hub.watched:
            raise ToolError("Nobody looks at the page; it is told when somebody does.")
        self._hub.say("ChatMessage", {"address": f"{WEB}:{chat}", "text": text, "id": mark})


def unreachable(channels: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The channels of the settings whose url leads to no public address, as far as its text tells; why."""
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
"""Channels whose people see the conversation itself."""
UNHEARD = TaskQuery(conversations=True, unheard=True)


class Inbox:
    """Hands messages to conversations, and looks after those whose turn is over."""

    def __init__(self, gen: GenCode, hub: Hub, chats: Chats, outbox: Outbox) -> None:
        self._gen = gen
        self._hub = hub
        self._chats = chats
        self._outbox = outbox
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._pauses: dict[str, tuple[float, float]] = {}
        self._silent: dict[str, str] = {}
        """Why the channels did not take the last message."""

    async def message(self, to: Address, text: str, agent: str) -> tuple[str, bool]:
        """Say something in a chat; its conversation, and whether that began a turn."""
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
        """Let a word outside of the answers go where the person speaks from."""
        if to.channel in self._outbox.channels:
            self._gen.reply_through(session, to)

    async def say(self, session: str, text: str) -> bool:
        """Say something in a conversation: it begins a turn, or is heard by the one that is open."""
        if not text.strip():
            raise UserMistake("The message is empty; say something.")
        async with self._locks[session]:
            task = await self._gen.history.current(session)
            if not task.conversation:
                raise UserMistake(f"{task.id} is a task of the agent {task.agent} and no conversation.")
            if task.status.ended:
                self._check_folder(task)
                await self._gen.start_turn(text, session, _led_by(task))
                return True
            now = await self._gen.post(session, text)
            if not now.status.ended:
                return False
            return await self._gen.start_follow_up(session, _led_by(now)) is not None

    async def interrupt(self, session: str, message: str, why: StopCause) -> StruckTask:
        """Cut the turn of a conversation; what was said to it, now or just before, begins another one."""
        async with self._locks[session]:
            if message.strip():
                self._check_folder(await self._gen.history.current(session))
            struck = await self._gen.interrupt(session, why=why)
            now = await self._gen.history.ended(session, STOP_SECONDS)
            if message.strip():  # only now, so that it is not the turn that was cut which hears it
                now = await self._gen.post(session, message)
            said = any(letter.sender == "user" for letter in await self._gen.history.unread(session))
            if said and now.status.ended and self._is_here(now):
                await self._gen.start_follow_up(session, _led_by(now))
            now = await self._gen.history.current(session)
        outcome = await self._gen.history.outcome(now)
        hit = tuple(outcome if each.agent_id == session else each for each in struck.hit)
        return StruckTask(**asdict(outcome), hit=hit)

    async def run(self, lock: Path) -> None:
        """Look after every chat of this folder until cancelled; wait while another server does so."""
        with turn_at(lock) as turn:
            taken = turn.taken()
            while not taken:
                await asyncio.sleep(LOOK_SECONDS)
                taken = turn.taken()
            self._hub.missed = True
            async with asyncio.TaskGroup() as group:
                group.create_task(self._hear_ends())
                group.create_task(self._hear_letters())

    async def _hear_ends(self) -> None:
        """Look after the chats of whose conversations, or agents, something was heard."""
        event: Event | None = None
        while True:
            try:
                if self._hub.missed:
                    self._hub.missed = False
                    for line in self._chats.all():
                        await self._look(line.session)
                        await self._send_on(line)
                if event is not None:
                    await self._after(event)
            except GenCodeError as trouble:
                log.warning("the chats could not be looked after: %s", trouble)
            event = await self._hub.notable.get()

    async def _hear_letters(self) -> None:
        """Begin a turn wherever a letter came to a conversation at rest; where that failed, again later."""
        changes = self._gen.history.changes
        while True:
            seen = changes.count
            try:
                for session in await self._gen.history.tasks(UNHEARD):
                    if self._chats.of(session.id):
                        await self._look(session.id)
            except GenCodeError as trouble:
                log.warning("the letters to chats could not be looked for: %s", trouble)
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
        """Begin a turn in a conversation at rest to which something has come."""
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
            log.warning("conversation %s could not be told what came: %s", session, trouble)
            self._pauses[session] = (min(pause * 2, LONGEST_PAUSE), time.monotonic() + pause)

    async def _send_on(self, line: Line) -> None:
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
        """Say once why a channel takes nothing, until it takes something again."""
        if why and self._silent.get(to.channel) != why:
            log.warning("the channel %s took no message, which is tried again: %s", to.channel, why)
        self._silent[to.channel] = why

    def _check_folder(self, task: Task) -> None:
        if not self._is_here(task):
            raise UserMistake(
                f"The conversation {task.id} belongs to the folder {task.cwd}; go on with it there."
            )

    def _is_here(self, task: Task) -> bool:
        return task.cwd in ("", str(self._gen.workspace.cwd))

    def _spec(self, task: Task) -> AgentSpec:
        agents = self._gen.agents
        return agents.find(task.agent) if _led_by(task) else agents.main()

    async def session_of(self, to: Address) -> Task:
        """The conversation behind an address."""
        known = self._chats.find(to)
        if known is None:
            raise UnknownName("chat", str(to), [line.address for line in self._chats.all()][-20:])
        return await self._gen.find(known, conversation=True)


def spoken(event: Event) -> str:
    """What an agent says to the person in this fact; nothing while it still calls tools."""
    match event.fact:
        case MessageAdded(AssistantMessage(text=text, calls=())):
            return text.strip()
        case _:
            return ""


def _led_by(task: Task) -> str:
    return "" if task.agent == "main" else task.agent
