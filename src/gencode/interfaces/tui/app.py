"""The terminal app: opens GenCode after its first frame, hands events to screens and words to the talk."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.filter import LineFilter
from textual.screen import Screen

from gencode.agent.ports import StopAction
from gencode.core.events import Event
from gencode.core.questions import Asker
from gencode.core.rules import Mode
from gencode.core.text import visible, visible_line
from gencode.interfaces.chat.chat_session import Talk
from gencode.interfaces.chat.info_pages import MODES, next_mode
from gencode.interfaces.chat.input_completion import Completion, Words, files_below, offers
from gencode.interfaces.chat.notices import Notice, guarded, named
from gencode.interfaces.chat.prompt_history import PromptHistory
from gencode.interfaces.chat.slash_commands import act, apply_action, is_command, parse
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.log_file import fault_line
from gencode.interfaces.render.transcript import Transcript
from gencode.interfaces.tui.dialogs import ConfirmScreen, Dialog, LeaveScreen, PageScreen, PickScreen
from gencode.interfaces.tui.keyboard import AttentiveApp
from gencode.interfaces.tui.question_dialogs import ScreenPerson
from gencode.interfaces.tui.rich_renderer import NO_COLOURS, Paper
from gencode.interfaces.tui.screens import AgentScreen, ConversationScreen, TranscriptScreen
from gencode.interfaces.tui.show_result import perform
from gencode.interfaces.tui.terminal_driver import CarefulDriver
from gencode.places import workspace_at
from gencode.questions.question_desk import Audience, PendingQuestion, QuestionDesk
from gencode.settings import gen_home, remember

if TYPE_CHECKING:
    from gencode.app import GenCode

log = logging.getLogger(__name__)
FRAMES = 30
TWICE_SECONDS = 2.0
Opener = Callable[[Asker], "AbstractAsyncContextManager[GenCode]"]
"""Opens GenCode with somebody who can be asked."""
NOTICE_SECONDS = 15.0
MOST_NOTICES = 4
MOST_NOTICE_LINES = 4
NOTICE_STYLES = {"note": "faint", "result": "good", "warning": "warn", "error": "bad"}
HISTORY = "history.jsonl"


class Board:
    """Keeps notices until they were in sight long enough."""

    def __init__(self) -> None:
        self._notices: list[tuple[float, Notice]] = []
        self._shown: set[str] = set()
        """The agents whose questions were brought here."""

    def put(self, notice: Notice) -> None:
        """One more line; the oldest gives way where there are too many."""
        self._notices = [*self._notices[1 - MOST_NOTICES :], (time.monotonic(), notice)]

    def clear(self, talk: Talk, waiting: Sequence[PendingQuestion]) -> None:
        """Take away what says that a question waits elsewhere: it is shown here, or waits no more."""
        self._shown |= {each.question.task for each in waiting}
        over = talk.asked_elsewhere.first is None
        self._notices = [
            (at, notice)
            for at, notice in self._notices
            if not notice.asks or not (over or notice.task in self._shown)
        ]

    def lines(self, width: int) -> list[Text]:
        """The lines that are still shown, broken where the screen ends."""
        since = time.monotonic() - NOTICE_SECONDS
        self._notices = [each for each in self._notices if each[0] >= since]
        return [
            Text(line, NOTICE_STYLES[notice.kind])
            for _, notice in self._notices
            for line in wrap(
                f"• {visible_line(notice.text, 600)}", max(width - 4, 20), subsequent_indent="  "
            )[:MOST_NOTICE_LINES]
        ]


class TerminalApp(AttentiveApp):
    """Everything a person sees. What it does is done by the talk and by the commands."""

    CSS_PATH = "style.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "cut", show=False, priority=True),
        Binding("ctrl+q", "quit", show=False, priority=True),
        Binding("ctrl+d", "end", show=False, priority=True),
        Binding("ctrl+b", "background", show=False, priority=True),
        Binding("ctrl+t", "tree", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
        Binding("shift+tab", "next_mode", show=False, priority=True),
    ]

    def __init__(
        self,
        opener: Opener,
        *,
        folder: Path,
        agent: str = "",
        begin: Callable[[Talk], Coroutine[Any, Any, None]] | None = None,
        beside: Callable[[Talk], Coroutine[Any, Any, None]] | None = None,
        history: PromptHistory | None = None,
        dark: bool = True,
    ) -> None:
        """`begin` is what is done once GenCode is open: going on with an earlier conversation.

        `beside` is done as long as it is open: running what is due, say.
        """
        super().__init__(CarefulDriver)
        self._opener = opener
        self._agent = agent
        self._begin = begin
        self._beside = beside
        self.folder = shortened(folder)
        self.history = history or PromptHistory()
        self.paper = Paper(dark=dark)
        self.theme = "textual-dark" if dark else "textual-light"
        audience = Audience(follows=self._followed)
        self.desk = QuestionDesk(ScreenPerson(self), audience=audience, always=remember, late=self._too_late)
        self.talk: Talk | None = None
        self.opening = "opening…"
        self.trouble: BaseException | None = None
        """What ended the app, if it did not end well."""
        self._files: Sequence[str] = ()
        self._board = Board()
        self._early: list[tuple[str, str]] = []
        self._work: set[asyncio.Task[None]] = set()
        self._serving: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()
        self._painted = 0.0
        self._rest = 0.0
        self._warned = 0.0
        self.main = ConversationScreen(self)

    def get_default_screen(self) -> Screen[Any]:
        """The conversation is what is there first."""
        return self.main

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without colours means without any, not in shades of grey."""
        return [NO_COLOURS] if self.no_color else super().get_line_filters()

    def on_mount(self) -> None:
        """The first frame comes before anything is opened."""
        self.set_interval(1 / FRAMES, self._frame)
        self.main.paint()
        self.call_after_refresh(self._start)

    @on(Driver.SignalResume)
    def _repaint(self) -> None:
        """Paint everything after Ctrl+Z and fg: the shell cleared what Textual thinks is still there."""
        self.refresh(layout=True)

    def _start(self) -> None:
        self._serving = asyncio.create_task(self._serve())
        self._serving.add_done_callback(self._served)

    async def _serve(self) -> None:
        """Keep GenCode open until somebody leaves."""
        asyncio.get_running_loop().set_exception_handler(self._strayed)
        async with self._opener(self.desk) as gen:
            talk = Talk(gen, agent=self._agent, heard=self._heard, told=self.tell)
            lasting = [asyncio.create_task(talk.listen())]
            lasting[0].add_done_callback(self._served)
            if self._beside is not None:
                lasting.append(asyncio.create_task(self._beside(talk)))
                lasting[1].add_done_callback(self._faltered)
            self.talk = talk
            try:
                if self._begin is not None:
                    await self._begin(talk)
                    await self.show_session()
                self.main.dirty = True
                for text, task in self._early:
                    self.typed(text, task)
                self._files = await asyncio.to_thread(files_below, gen.workspace.cwd)
                gc.freeze()  # what is loaded by now stays; nobody who types waits for a look through it
                await self._leaving.wait()
            finally:
                for each in lasting:
                    each.cancel()
                await asyncio.wait(lasting)
                await talk.close()

    def _served(self, done: "asyncio.Task[None]") -> None:
        """Whatever ends GenCode ends the app, and is told outside of it."""
        if not done.cancelled() and (error := done.exception()) is not None:
            self.trouble = self.trouble or error
        if done is self._serving or self.trouble is not None:
            self._leaving.set()
            if done is self._serving:
                self.exit()

    def _faltered(self, done: "asyncio.Task[None]") -> None:
        """What goes on beside the conversation is no reason to end it."""
        if not done.cancelled() and (error := done.exception()) is not None:
            log.error("what goes on beside the conversation ended by a fault", exc_info=error)
            self.tell(Notice(f"Planned work is not run any more ({type(error).__name__}).", "error"))

    def _strayed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error in a task that nobody awaits, or in a callback: logged as always, and told."""
        loop.default_exception_handler(context)
        error = context.get("exception")
        if isinstance(error, Exception) and self.is_running:
            self.tell(Notice(fault_line(error), "error"))

    async def closed(self) -> None:
        """Wait until GenCode is closed, also when the screen is gone already."""
        self._leaving.set()
        if self._serving is not None:
            await asyncio.wait([self._serving])

    def _fatal_error(self) -> None:
        """A fault ends the app; it is told outside of it, once the terminal is as it was."""
        self.trouble = self.trouble or sys.exception()
        self._close_messages_no_wait()

    def _heard(self, event: Event) -> None:
        if self.talk is not None and not self.main.whose and self.talk.session:
            self.main.whose = self.talk.session
            self.main.transcript = Transcript(self.main.whose)
        for screen in self.screen_stack:
            if isinstance(screen, TranscriptScreen):
                screen.hear(event)

    def tell(self, notice: Notice) -> None:
        """Show a line for a while."""
        self._board.put(notice)
        for screen in self.screen_stack:
            if isinstance(screen, TranscriptScreen):
                screen.dirty = True

    def _followed(self) -> str:
        """The conversation that is looked at, if there is one."""
        return (self.talk.session if self.talk else None) or ""

    def _too_late(self, why: str) -> None:
        self.tell(Notice(visible(why), "warning"))

    def notice_lines(self) -> list[Text]:
        """The lines for the person that are still shown."""
        if self.talk is not None:
            self._board.clear(self.talk, self.desk.waiting())
        return self._board.lines(self.size.width)

    def _frame(self) -> None:
        """Paint what is in sight, at most so often that there is always time for keys."""
        now = time.monotonic()
        screen = self.top
        due = screen.dirty or now - self._painted >= 1.0
        if due and now >= self._rest and self.is_running:
            screen.paint()
            self._painted = now
            self._rest = now + 2 * (time.monotonic() - now)

    @property
    def top(self) -> TranscriptScreen:
        """The transcript that is in sight, also behind a dialog."""
        found = (each for each in reversed(self.screen_stack) if isinstance(each, TranscriptScreen))
        return next(found, self.main)

    @property
    def mode(self) -> Mode:
        """The permission mode of the session."""
        return self.talk.gen.policy.mode if self.talk else Mode.DEFAULT

    @property
    def model_name(self) -> str:
        """Who answers."""
        if self.talk is None:
            return "…"
        led = self.talk.lead.model if self.talk.lead else ""
        return self.talk.chosen.name if self.talk.chosen else led or self.talk.gen.model.name

    def offers(self, before: str) -> Sequence[Completion]:
        """Ways to go on with what is typed."""
        if self.talk is None or not ("@" in before or before.startswith("/")):
            return []
        view = self.talk.view.agents.values()
        words = Words(
            tasks=[(each.id, f"{each.agent} {each.status} {each.title}") for each in view if each.parent],
            agents=[spec.name for spec in self.talk.gen.agents.spawnable()],
            models=[name for name in self.talk.gen.models.names() if "/" not in name],
            modes=[mode.value for mode in MODES],
        )
        return offers(before, self._files, words)

    def typed(self, text: str, task: str) -> None:
        """Something was typed where an agent is looked at."""
        if self.talk is None:
            self._early.append((text, task))
        elif is_command(text):
            self.do(self._command(self.talk, text, task))
        elif not task or task == self.talk.session:
            self.do(self.talk.say(text))
        else:
            self.do(self.talk.steer(task, text))

    async def _command(self, talk: Talk, text: str, here: str) -> None:
        await perform(self, talk, await act(talk, parse(text), here))

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the screen; what goes wrong is told."""
        task = asyncio.create_task(self._done(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        task.add_done_callback(lambda _: work.close())  # it may be let go of before it began

    async def _done(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await guarded(work, self.tell)
        finally:
            self.main.dirty = self.top.dirty = True

    def look_at(self, task: str) -> None:
        """Open the live transcript of an agent."""
        if task == self.main.whose:
            self._to_main()
            return
        screen = AgentScreen(self, task)
        self.push_screen(screen)
        self.do(screen.load())

    def _to_main(self) -> None:
        for screen in reversed(self.screen_stack):
            if isinstance(screen, AgentScreen):
                screen.leave()

    def look_back(self) -> None:
        """Back to where we came from."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
            self.top.dirty = True

    def show_tree(self, task: str = "") -> None:
        """The tree of all agents, which belongs to the conversation."""
        self._to_main()
        self.main.toggle_tree(task)

    async def show_session(self) -> None:
        """Show the conversation that the talk is about now."""
        self._to_main()
        self.main.whose = (self.talk.session if self.talk else None) or ""
        await self.main.load()

    def apply_action(self, task: str, verb: StopAction) -> None:
        """Do a verb once what it hits was seen."""
        if self.talk is not None:
            self.do(self._strike(self.talk, task, verb))

    async def _strike(self, talk: Talk, task: str, verb: StopAction) -> None:
        await perform(self, talk, await apply_action(talk, task, verb))

    def interrupt(self) -> None:
        """Cut the turn, if one is open."""
        if self.talk is not None and self.talk.running:
            self.do(self.talk.interrupt())

    def use_theme(self, name: str) -> None:
        """Colours for a dark or a light terminal; without a name the other ones."""
        dark = name == "dark" if name else self.theme != "textual-dark"
        self.theme = "textual-dark" if dark else "textual-light"
        self.paper = Paper(dark=dark)
        for screen in self.screen_stack:
            if isinstance(screen, TranscriptScreen):
                screen.use(self.paper)

    async def leave(self) -> None:
        """End the app; what would be stopped by that is named first."""
        gen = self.talk.gen if self.talk else None
        running = [live.task for live in gen.running] if gen else []
        commands = gen.running.commands() if gen else ()
        if running or commands:
            text = f"Still running here: {named(running, commands)}. What they have said is kept."
            again = isinstance(self.screen, ConfirmScreen)
            if again or not await self.ask(LeaveScreen(text, "stop them and quit")):
                return
        self.opening = "closing…"
        self.end()

    def end(self) -> None:
        """End the app without a word: somebody outside told it to."""
        self._leaving.set()
        if self._serving is None:
            self.exit()

    async def action_quit(self) -> None:
        """Leave, after a question if something runs."""
        self.do(self.leave())

    def action_end(self) -> None:
        """Ctrl+D at an empty line leaves; elsewhere it deletes a character."""
        composer = self.top.composer
        if composer.text:
            composer.editor.action_delete_right()
        else:
            self.do(self.leave())

    def action_cut(self) -> None:
        """Ctrl+C: first a page, a list or the tree, then what is typed, then the turn, then the app."""
        composer = self.top.composer
        if isinstance(self.screen, ConfirmScreen | PageScreen | PickScreen):
            self.screen.cut()
        elif self.screen is self.main and self.main.branches.has_focus:
            self.main.toggle_tree()
        elif composer.text:
            composer.put("")
        elif self.talk is not None and self.talk.working:
            self.interrupt()
        elif time.monotonic() - self._warned < TWICE_SECONDS:
            self.do(self.leave())
        else:
            self._warned = time.monotonic()
            self.tell(Notice("Press Ctrl+C again to quit."))

    def action_background(self) -> None:
        """Send what the conversation waits for to the background."""
        if self.talk is not None:
            self.do(self.talk.move_to_background())

    def action_tree(self) -> None:
        """Show or hide the tree; a dialog is answered first."""
        if not isinstance(self.screen, Dialog):
            self.show_tree()

    def action_next_mode(self) -> None:
        """The next permission mode, for all agents at once."""
        if self.talk is not None:
            gen = self.talk.gen
            gen.switch_mode(next_mode(gen.policy.mode))
            self.tell(Notice(f"Mode {gen.policy.mode}: {MODES[gen.policy.mode]}."))


def shortened(folder: Path, most: int = 28) -> str:
    """A folder as a person knows it: its end, from home on where it lies there."""
    home = Path.home()
    below = folder.relative_to(home).as_posix() if folder.is_relative_to(home) else ""
    name = f"~/{below}".removesuffix("/.") if below else str(folder)
    return name if len(name) <= most else f"…{name[-most + 1 :]}"


def run(args: argparse.Namespace) -> int:
    """Show the app until somebody leaves it; what ended it badly is raised once the terminal is as it was."""
    folder = workspace_at(Path(getattr(args, "cwd", "."))).cwd
    return run_to_end(_run(args, folder))


async def _run(args: argparse.Namespace, folder: Path) -> int:
    def opener(asker: Asker) -> "AbstractAsyncContextManager[GenCode]":
        return _opened(args, asker)

    app = TerminalApp(
        opener,
        folder=folder,
        agent=getattr(args, "agent", ""),
        begin=lambda talk: _begin(talk, args),
        beside=run_due,
        history=PromptHistory(gen_home() / HISTORY),
        dark=is_dark(os.environ.get("COLORFGBG", "")),
    )
    told: list[int] = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, _end, app, told, number)
    try:
        await app.run_async()
    finally:
        await app.closed()
    if told:
        return 128 + told[0]
    if app.trouble is not None:
        raise app.trouble
    if app.talk is not None and app.talk.session:
        print(f"Go on with it: gen --session {app.talk.session}", file=sys.stderr)
    return app.return_code or 0


def _end(app: TerminalApp, told: list[int], number: int) -> None:
    """A signal from outside ends the app, and leaves the terminal as it was."""
    told.append(number)
    app.end()


@asynccontextmanager
async def _opened(args: argparse.Namespace, asker: Asker) -> "AsyncGenerator[GenCode, None]":
    """GenCode, loaded only when the first frame is on the screen."""
    opening = await asyncio.to_thread(import_module, "gencode.interfaces.cli.open_session")
    async with opening.opened(args, asker=asker) as gen:
        gen.mcp_servers.wait_at_most(opening.SCREEN_WAIT)
        yield gen


async def _begin(talk: Talk, args: argparse.Namespace) -> None:
    """Say what should be known, and go on with an earlier conversation if that was asked for."""
    from gencode.interfaces.cli.open_session import check

    told = check(talk.gen, args)
    for line in told.splitlines():
        talk.tell(Notice(line, "warning"))
    if "session" in args or "go_on" in args:
        await talk.open(getattr(args, "session", "") or await talk.last())


async def run_due(talk: Talk) -> None:
    """Run what is planned while the app is open; what was missed or ended is told in a line.

    What was typed for this conversation does not count for it: its folder says how it runs.
    """
    from gencode.interfaces.chat.schedule_runner import scheduler_of

    await scheduler_of(talk.gen, lambda text: talk.tell(Notice(text, "result"))).run()


def is_dark(colours: str) -> bool:
    """Whether a terminal says that its background is dark; most are, and say nothing."""
    background = colours.rpartition(";")[2]
    return background not in ("7", "15")
