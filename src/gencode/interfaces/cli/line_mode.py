"""The conversation line by line: nothing moves, nothing is drawn, so that a screen reader can follow it.

A command is always done. Anything else goes to the question that waits, if one does, and else to the agent.
"""

import argparse
import asyncio
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

from gencode.core.events import CallStarted, Event, MessageAdded, TaskCreated, TaskEnded
from gencode.core.ids import stamp
from gencode.core.messages import AssistantMessage
from gencode.core.questions import Answer, Question
from gencode.core.status import Status
from gencode.core.text import visible_line
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.chat.notices import Notice, full_task_list, report_errors
from gencode.interfaces.chat.question_text import REACHES, WITH_NETWORK
from gencode.interfaces.chat.slash_commands import (
    CommandResult,
    ConfirmAction,
    Page,
    PickList,
    ShowView,
    StatusMessage,
    is_command,
    is_known_command,
    parse_command,
    run_slash_command,
)
from gencode.interfaces.cli.foreground_run import start_beside
from gencode.interfaces.cli.open_session import SCREEN_WAIT, check, opened
from gencode.interfaces.cli.terminal_questions import LinePrompt, StaleInput, drop_typed
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.agent_view import figures, name_of, rows, state
from gencode.interfaces.render.plain_text import answer, note
from gencode.interfaces.render.transcript import handed_back, in_words, transcript_text
from gencode.questions.question_desk import Audience, QuestionDesk
from gencode.settings import remember

READY = "Type a question, or /help. /quit leaves."
YES = ("y", "yes")
NO_MORE = "\x04"
ANSWERS = frozenset({*REACHES, WITH_NETWORK, "n", "no", "yes"})
NO_QUESTION = "No question is waiting any more, so nothing was sent. To send it as a message, type it again."
STILL = "This question is still waiting:"
WAYS = {
    "trust": "Review and trust the folder with: gen trust",
}


def run(args: argparse.Namespace) -> int:
    """Lead a conversation until it is left, or there is nothing more to read."""
    return run_to_end(_run(args))


async def _run(args: argparse.Namespace) -> int:
    lines = LineModeScreen()
    audience = Audience(follows=lambda: lines.session)
    desk = QuestionDesk(lines, audience=audience, always=remember, late=lambda why: lines.tell(Notice(why)))
    async with opened(args, asker=desk) as gen:
        gen.mcp_servers.wait_at_most(SCREEN_WAIT)
        for line in check(gen, args).splitlines():
            answer(line)
        chat = ChatSession(gen, agent=getattr(args, "agent", ""), on_event=lines.hear, on_notice=lines.tell)
        lines.chat = chat
        lines.farewell.open(gen)
        lasting = [start_beside(chat.listen()), start_beside(_run_due(chat))]
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lines.interrupted)
        try:
            await _begin(chat, args)
            answer(READY)
            await lines.lead(chat, getattr(args, "opening", ""))
            _name_what_stops(chat)
        finally:
            for each in lasting:
                each.cancel()
            await asyncio.wait(lasting)
            await chat.close()
            await lines.farewell.close()
    return 0


async def _run_due(chat: ChatSession) -> None:
    """Run what is planned while the conversation is open; what was missed or ended is a line."""
    from gencode.interfaces.chat.schedule_runner import scheduler_for

    await scheduler_for(chat.gen, lambda text: chat.notify(Notice(text))).run()


async def _begin(chat: ChatSession, args: argparse.Namespace) -> None:
    session = getattr(args, "session", "")
    if "go_on" in args:
        session = await chat.latest_session()
    if session:
        await chat.open(session)
        answer(await transcript_text(chat.gen, chat.session or session))


def _name_what_stops(chat: ChatSession) -> None:
    """Print what still runs here and will end with this process, apart from the replies."""
    running = [live.task for live in chat.gen.running if not live.over]
    commands = chat.gen.running.commands()
    if running or commands:
        note(f"Stopping {full_task_list(running, commands)}. Their results so far are kept.")


class LineModeScreen(LinePrompt):
    """The screen of line mode: it prints, reads lines, and asks for approvals."""

    def __init__(self) -> None:
        super().__init__(answer, StaleInput())
        self.chat: ChatSession | None = None
        self._typed: asyncio.Queue[str | None] = asyncio.Queue()
        self._asked: asyncio.Future[str] | None = None
        self._prompt = ""
        self._confirms: asyncio.Future[str] | None = None
        self._confirming = asyncio.Lock()
        self._over = False
        self._ended = False
        self._work: set[asyncio.Task[None]] = set()

    @property
    def session(self) -> str:
        """The conversation that is led or looked at."""
        return (self.chat.session if self.chat else None) or ""

    def hear(self, event: Event) -> None:
        """One line for what a person should follow."""
        chat = self.chat
        agent = chat.view.agents.get(event.task) if chat else None
        if chat is None or agent is None:
            return
        name = visible_line(agent.agent, 40)
        match event.fact:
            case MessageAdded(AssistantMessage(text=text)) if text.strip():
                if event.task == chat.session:
                    answer(f"{name} says: {text.strip()}")
            case TaskCreated() if agent.parent:
                answer(f"{name} {agent.id} started: {visible_line(agent.title, 120)}")
            case CallStarted() as fact:
                answer(f"{name}: {visible_line(fact.summary or fact.tool, 120)}")
            case TaskEnded() as fact if agent.parent:
                answer(f"{name} {agent.id} finished: {fact.status}, {figures(agent, event.at)}")
            case TaskEnded() as fact if fact.status is not Status.COMPLETED:
                answer(f"{name}: {fact.status}. {visible_line(fact.error or '', 200)}")
                if rest := in_words(handed_back(chat.view, event.task)):
                    answer(rest)
            case _:
                pass

    def tell(self, notice: Notice) -> None:
        """A line for the person."""
        answer(f"Note: {notice.text}")

    def interrupted(self) -> None:
        """Ctrl+C interrupts the turn; between turns it leaves."""
        if self.chat is not None and self.chat.running:
            self._do(self.chat.interrupt())
        else:
            self._typed.put_nowait(None)

    async def lead(self, chat: ChatSession, opening: str = "") -> None:
        """Do what is typed, line by line, until the end of it; `opening` was typed before the first line."""
        if opening:
            self._do(chat.send(opening))
        loop = asyncio.get_running_loop()
        reader = threading.Thread(target=self._read, args=(loop,), daemon=True)
        reader.start()
        while (line := await self._typed.get()) is not None:
            if waits := _open(self._confirms):
                waits.set_result(line)  # a command cancels a pending confirmation
                if is_known_command(line):
                    self._do(self._meant(chat, line))
            elif waits := _open(self._asked):
                if is_known_command(line):
                    self._do(self._meanwhile(chat, line, waits))
                else:
                    waits.set_result(line)
            elif self._doubt.about_this() and line.strip().casefold() in ANSWERS:
                answer(NO_QUESTION)
            elif line.strip():
                self._do(self._meant(chat, line.strip()))
        self._ended = True
        for waits in (_open(self._confirms), _open(self._asked)):
            if waits is not None:
                waits.set_result(NO_MORE)
        if self._work and not self._over:
            await asyncio.wait(self._work)
        if not self._over:
            await chat.wait_until_idle()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(self._typed.put_nowait, line.rstrip("\r\n"))
        loop.call_soon_threadsafe(self._typed.put_nowait, None)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._done(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _done(self, work: Coroutine[Any, Any, None]) -> None:
        await report_errors(work, lambda notice: answer(f"Problem: {notice.text}"))

    async def _meant(self, chat: ChatSession, text: str) -> None:
        if text.startswith("!") and (command := text[1:].strip()):
            answer(await chat.run_command(command))
            return
        if not is_command(text, chat.gen.commands):
            await chat.send(text)
            return
        await self._show(chat, await run_slash_command(chat, parse_command(text), chat.session or ""))

    async def _meanwhile(self, chat: ChatSession, text: str, waits: "asyncio.Future[str]") -> None:
        """Run a command while a question waits; the question is then printed again."""
        try:
            await self._meant(chat, text)
        finally:
            if not self._over and self._asked is waits and _open(waits):
                answer(f"{STILL}\n{self._prompt}")

    async def _show(self, chat: ChatSession, deed: CommandResult) -> None:
        match deed:
            case Page(title, text):
                answer(f"{title}\n{text}")
            case PickList():
                answer(f"{deed.title}\n{deed.text}\nChoose one with: /{deed.command} NAME")
            case StatusMessage(text):
                answer(text or "Done.")
            case ConfirmAction():
                if await self._confirmed(deed.text):
                    await chat.apply_action(deed.task, deed.verb, deed.message)
            case ShowView("quit"):
                self._over = True
                self._typed.put_nowait(None)
            case ShowView("agent", task):
                answer(await transcript_text(chat.gen, task))
            case ShowView("tree"):
                answer("\n".join(_tree(chat)) or "There are no agents yet.")
            case ShowView("new"):
                answer("Your next message starts a new conversation.")
            case ShowView("opened", task):
                answer(await transcript_text(chat.gen, task))
            case ShowView(place):
                answer(f"{WAYS.get(place, 'That needs the terminal app: gen without --plain.')}")

    async def _confirmed(self, text: str) -> bool:
        """Whether the next line is a yes; a question that comes in between waits."""
        async with self._confirming:
            answer(f"{text} Type y to do it.")
            if self._ended:
                return False
            self._confirms = asyncio.get_running_loop().create_future()
            try:
                return (await self._confirms).strip().casefold() in YES
            finally:
                self._confirms = None

    async def answer(self, question: Question) -> Answer:
        """Print a question; only a line that is typed after it is an answer."""
        async with self._confirming:
            drop_typed()
        try:
            return await super().answer(question)
        except asyncio.CancelledError:
            drop_typed()
            raise

    async def line(self, prompt: str) -> str:
        """The next line; EOFError where none comes any more."""
        answer(prompt)
        if self._ended:
            raise EOFError
        self._prompt = prompt
        asked = self._asked = asyncio.get_running_loop().create_future()
        try:
            line = await asked
        finally:
            self._asked = None
        if line == NO_MORE:
            raise EOFError
        return line


def _open(waits: "asyncio.Future[str] | None") -> "asyncio.Future[str] | None":
    """What waits for a line, if it still does."""
    return waits if waits is not None and not waits.done() else None


def _tree(chat: ChatSession) -> Iterator[str]:
    """One line for each agent; its depth is given in words."""
    now = stamp()
    for row in rows(chat.view, chat.session):
        agent = row.agent
        yield f"depth {row.depth}: {name_of(agent)} {agent.id}, {state(agent)}, {figures(agent, now)}"
