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
from gencode.interfaces.chat.chat_session import Talk
from gencode.interfaces.chat.notices import Notice, all_named, guarded
from gencode.interfaces.chat.question_text import REACHES, WITH_NETWORK
from gencode.interfaces.chat.slash_commands import (
    Confirm,
    Deed,
    Page,
    Show,
    Word,
    act,
    is_command,
    is_known,
    parse,
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
    "sessions": "List conversations with: gen sessions list. Open one with /resume ID.",
    "agents": "List agents with: gen agents list. Show one with /agents NAME.",
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
        talk = Talk(gen, agent=getattr(args, "agent", ""), heard=lines.hear, told=lines.tell)
        lines.talk = talk
        lines.farewell.open(gen)
        lasting = [start_beside(talk.listen()), start_beside(_run_due(talk))]
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lines.interrupted)
        try:
            await _begin(talk, args)
            answer(READY)
            await lines.lead(talk)
            _name_what_stops(talk)
        finally:
            for each in lasting:
                each.cancel()
            await asyncio.wait(lasting)
            await talk.close()
            await lines.farewell.close()
    return 0


async def _run_due(talk: Talk) -> None:
    """Run what is planned while the conversation is open; what was missed or ended is a line."""
    from gencode.interfaces.chat.schedule_runner import scheduler_of

    await scheduler_of(talk.gen, lambda text: talk.tell(Notice(text))).run()


async def _begin(talk: Talk, args: argparse.Namespace) -> None:
    session = getattr(args, "session", "")
    if "go_on" in args:
        session = await talk.last()
    if session:
        await talk.open(session)
        answer(await transcript_text(talk.gen, talk.session or session))


def _name_what_stops(talk: Talk) -> None:
    """Whatever still runs here ends with this process; that is said, away from the answers."""
    running = [live.task for live in talk.gen.running if not live.over]
    commands = talk.gen.running.commands()
    if running or commands:
        note(f"Stopping {all_named(running, commands)}. Their results so far are kept.")


class LineModeScreen(LinePrompt):
    """What is printed and what is typed. It is also the person that is asked."""

    def __init__(self) -> None:
        super().__init__(answer, StaleInput())
        self.talk: Talk | None = None
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
        return (self.talk.session if self.talk else None) or ""

    def hear(self, event: Event) -> None:
        """One line for what a person should follow."""
        talk = self.talk
        agent = talk.view.agents.get(event.task) if talk else None
        if talk is None or agent is None:
            return
        name = visible_line(agent.agent, 40)
        match event.fact:
            case MessageAdded(AssistantMessage(text=text)) if text.strip():
                if event.task == talk.session:
                    answer(f"{name} says: {text.strip()}")
            case TaskCreated() if agent.parent:
                answer(f"{name} {agent.id} started: {visible_line(agent.title, 120)}")
            case CallStarted() as fact:
                answer(f"{name}: {visible_line(fact.summary or fact.tool, 120)}")
            case TaskEnded() as fact if agent.parent:
                answer(f"{name} {agent.id} finished: {fact.status}, {figures(agent, event.at)}")
            case TaskEnded() as fact if fact.status is not Status.COMPLETED:
                answer(f"{name}: {fact.status}. {visible_line(fact.error or '', 200)}")
                if rest := in_words(handed_back(talk.view, event.task)):
                    answer(rest)
            case _:
                pass

    def tell(self, notice: Notice) -> None:
        """A line for the person."""
        answer(f"Note: {notice.text}")

    def interrupted(self) -> None:
        """Ctrl+C cuts the turn; at rest it leaves."""
        if self.talk is not None and self.talk.running:
            self._do(self.talk.interrupt())
        else:
            self._typed.put_nowait(None)

    async def lead(self, talk: Talk) -> None:
        """Do what is typed, line by line, until the end of it."""
        loop = asyncio.get_running_loop()
        reader = threading.Thread(target=self._read, args=(loop,), daemon=True)
        reader.start()
        while (line := await self._typed.get()) is not None:
            if waits := _open(self._confirms):
                waits.set_result(line)  # a command is a no to what was to be confirmed
                if is_known(line):
                    self._do(self._meant(talk, line))
            elif waits := _open(self._asked):
                if is_known(line):
                    self._do(self._meanwhile(talk, line, waits))
                else:
                    waits.set_result(line)
            elif self._doubt.about_this() and line.strip().casefold() in ANSWERS:
                answer(NO_QUESTION)
            elif line.strip():
                self._do(self._meant(talk, line.strip()))
        self._ended = True
        for waits in (_open(self._confirms), _open(self._asked)):
            if waits is not None:
                waits.set_result(NO_MORE)
        if self._work and not self._over:
            await asyncio.wait(self._work)
        if not self._over:
            await talk.rest()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(self._typed.put_nowait, line.rstrip("\r\n"))
        loop.call_soon_threadsafe(self._typed.put_nowait, None)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._done(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _done(self, work: Coroutine[Any, Any, None]) -> None:
        await guarded(work, lambda notice: answer(f"Problem: {notice.text}"))

    async def _meant(self, talk: Talk, text: str) -> None:
        if not is_command(text):
            await talk.say(text)
            return
        await self._show(talk, await act(talk, parse(text), talk.session or ""))

    async def _meanwhile(self, talk: Talk, text: str, waits: "asyncio.Future[str]") -> None:
        """Do a command while a question waits, which is then said again: it may be far above by now."""
        try:
            await self._meant(talk, text)
        finally:
            if not self._over and self._asked is waits and _open(waits):
                answer(f"{STILL}\n{self._prompt}")

    async def _show(self, talk: Talk, deed: Deed) -> None:
        match deed:
            case Page(title, text):
                answer(f"{title}\n{text}")
            case Word(text):
                answer(text or "Done.")
            case Confirm():
                if await self._confirmed(deed.text):
                    await talk.apply_action(deed.task, deed.verb, deed.message)
            case Show("quit"):
                self._over = True
                self._typed.put_nowait(None)
            case Show("agent", task):
                answer(await transcript_text(talk.gen, task))
            case Show("tree"):
                answer("\n".join(_tree(talk)) or "There are no agents yet.")
            case Show("new"):
                answer("Your next message starts a new conversation.")
            case Show("opened", task):
                answer(await transcript_text(talk.gen, task))
            case Show(place):
                answer(f"{WAYS.get(place, 'That needs the terminal app: gen without --plain.')}")

    async def _confirmed(self, text: str) -> bool:
        """Whether the next line is a yes; a question that comes meanwhile waits for it."""
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


def _tree(talk: Talk) -> Iterator[str]:
    """One line for each agent; its depth is said in words, not drawn."""
    now = stamp()
    for row in rows(talk.view, talk.session):
        agent = row.agent
        yield f"depth {row.depth}: {name_of(agent)} {agent.id}, {state(agent)}, {figures(agent, now)}"
