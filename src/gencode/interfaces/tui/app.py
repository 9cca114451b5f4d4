"""The terminal app: opens GenCode after its first frame, and connects screens with the chat session."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
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
from textual.theme import Theme
from textual.widgets.text_area import Selection

from gencode.core.errors import GenCodeError, UnknownName, UserMistake
from gencode.core.events import Event
from gencode.core.messages import Image
from gencode.core.questions import Asker
from gencode.core.rules import Mode
from gencode.core.text import visible, visible_line
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.chat.info_pages import MODES, next_mode
from gencode.interfaces.chat.input_completion import Completion, CompletionSources, completions, files_below
from gencode.interfaces.chat.notices import Notice, report_errors, task_list
from gencode.interfaces.chat.prompt_history import PromptHistory
from gencode.interfaces.chat.slash_commands import (
    NAMED_KEYS,
    from_files,
    is_command,
    parse_command,
    run_slash_command,
)
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.log_file import fault_line, log_file
from gencode.interfaces.render.agent_view import AgentView
from gencode.interfaces.render.number_format import counted
from gencode.interfaces.render.transcript import Transcript
from gencode.interfaces.tui.clipboard import copy_text
from gencode.interfaces.tui.composer import Draft
from gencode.interfaces.tui.dialogs import ConfirmScreen, Dialog, QuitScreen
from gencode.interfaces.tui.key_settings import key_map
from gencode.interfaces.tui.keyboard import GuardedInputApp
from gencode.interfaces.tui.question_dialogs import DialogAsker, QuestionScreen
from gencode.interfaces.tui.screens import AgentScreen, ConversationScreen, TranscriptScreen, TreeScreen
from gencode.interfaces.tui.show_result import show_result
from gencode.interfaces.tui.strip_renderer import NO_COLOURS, StripRenderer
from gencode.interfaces.tui.terminal_driver import TerminalDriver
from gencode.places import workspace_at
from gencode.questions.question_desk import Audience, PendingQuestion, QuestionDesk
from gencode.settings import gen_home, load, remember

if TYPE_CHECKING:
    from gencode.app import GenCode

log = logging.getLogger(__name__)
FRAMES_PER_SECOND = 30
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINNER_SECONDS = 0.1
THEMES = (
    Theme(
        "gencode-dark",
        primary="#8ab4f8",
        accent="#8ab4f8",
        warning="#f2c94c",
        error="#ff8a80",
        success="#6fcf97",
        foreground="#e3e5e8",
        background="#121316",
        surface="#1a1c20",
        panel="#24272c",
    ),
    Theme(
        "gencode-light",
        primary="#0b57d0",
        accent="#0b57d0",
        warning="#8a5a00",
        error="#b3261e",
        success="#0f6a2e",
        foreground="#1f2328",
        background="#fbfbfa",
        surface="#f3f3f1",
        panel="#e7e9ec",
        dark=False,
    ),
)
"""Calm colours: one accent, and others only where something needs attention."""
DOUBLE_PRESS_SECONDS = 2.0
Opener = Callable[[Asker], "AbstractAsyncContextManager[GenCode]"]
"""Opens GenCode with somebody who can be asked."""
NOTICE_SECONDS = 15.0
MOST_NOTICES = 4
MOST_NOTICE_LINES = 4
NOTICE_STYLES = {"note": "faint", "result": "good", "warning": "warn", "error": "bad"}
HISTORY_FILE = "history.jsonl"


class NoticeList:
    """The last notices, each shown for a while."""

    def __init__(self) -> None:
        self._notices: list[tuple[float, Notice]] = []
        """Each with the time until which it is shown."""
        self._shown: set[str] = set()
        """The agents whose questions were shown here."""

    def add(self, notice: Notice, seconds: float) -> None:
        """Add a notice; the oldest is dropped when there are too many."""
        self._notices = [*self._notices[1 - MOST_NOTICES :], (time.monotonic() + seconds, notice)]

    def clear(self, chat: ChatSession, waiting: Sequence[PendingQuestion]) -> None:
        """Drop notices of questions elsewhere that are shown here, or are open no more."""
        self._shown |= {each.question.task for each in waiting}
        over = chat.remote_questions.first is None
        self._notices = [
            (until, notice)
            for until, notice in self._notices
            if not notice.asks or not (over or notice.task in self._shown)
        ]

    def lines(self, width: int) -> list[Text]:
        """The lines that are still shown, wrapped at the width of the screen."""
        now = time.monotonic()
        self._notices = [each for each in self._notices if each[0] >= now]
        return [
            Text(line, NOTICE_STYLES[notice.kind])
            for _, notice in self._notices
            for line in wrap(
                f"• {visible_line(notice.text, 600)}", max(width - 4, 20), subsequent_indent="  "
            )[:MOST_NOTICE_LINES]
        ]


class TerminalApp(GuardedInputApp):
    """The app: all screens, keys and notices. The chat session and the slash commands do the work."""

    CSS_PATH = "style.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "ctrl_c", show=False, priority=True),
        Binding("ctrl+q", "quit", show=False, priority=True),
        Binding("ctrl+d", "ctrl_d", show=False, priority=True),
        Binding("ctrl+b", "background", show=False, priority=True, id="background"),
        Binding("ctrl+t", "tree", show=False, priority=True, id="tree"),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
        Binding("shift+tab", "next_mode", show=False, priority=True, id="mode"),
    ]

    def __init__(
        self,
        opener: Opener,
        *,
        folder: Path,
        agent: str = "",
        begin: Callable[[ChatSession], Coroutine[Any, Any, None]] | None = None,
        beside: Callable[[ChatSession], Coroutine[Any, Any, None]] | None = None,
        history: PromptHistory | None = None,
        theme: str = "dark",
        keys: Mapping[str, str] = {},
        vim: bool = False,
    ) -> None:
        """`begin` is what is done once GenCode is open: going on with an earlier conversation.

        `beside` is done as long as it is open: running what is due, say. `keys` are other keys for actions.
        """
        super().__init__(TerminalDriver)
        self._opener = opener
        self._agent = agent
        self._begin = begin
        self._companion = beside
        self.folder = short_path(folder)
        self.vim = vim
        self.history = history or PromptHistory()
        self.renderer = StripRenderer(dark=True)
        for each in THEMES:
            self.register_theme(each)
        self.use_theme(theme)
        self._keys = key_map(keys)
        self.set_keymap(self._keys)
        self._bindings.apply_keymap(self._keys)  # there we look up which keys belong to the whole app
        audience = Audience(follows=self._current_session)
        self.desk = QuestionDesk(
            DialogAsker(self), audience=audience, always=remember, late=self._answer_too_late
        )
        self.chat: ChatSession | None = None
        self.opening_text = "opening…"
        self.failure: BaseException | None = None
        """The error that ended the app, if any."""
        self._files: Sequence[str] = ()
        self._notices = NoticeList()
        self._submitted_early: list[tuple[str, str, tuple[Image, ...], Draft | None]] = []
        self.lent = False
        """Whether the terminal is another program's for a while, as is what is pressed there."""
        self._actions: set[asyncio.Task[None]] = set()
        self._serving: asyncio.Task[None] | None = None
        self._quitting = asyncio.Event()
        self._painted_at = self._moved_at = 0.0
        self._next_paint_at = 0.0
        self._first_press = ("", 0.0)
        self.main = ConversationScreen(self)

    def get_default_screen(self) -> Screen[Any]:
        """The conversation is the first screen."""
        return self.main

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without colours means without any, not in shades of grey."""
        return [NO_COLOURS] if self.no_color else super().get_line_filters()

    def on_mount(self) -> None:
        """The first frame comes before anything is opened."""
        self.set_interval(1 / FRAMES_PER_SECOND, self._frame)
        self.main.paint()
        self.call_after_refresh(self._start)

    @on(Driver.SignalResume)
    def _repaint(self) -> None:
        """Paint everything after Ctrl+Z and fg: the shell cleared what Textual thinks is still there."""
        self.refresh(layout=True)

    def _start(self) -> None:
        self._serving = asyncio.create_task(self._serve())
        self._serving.add_done_callback(self._serving_ended)

    async def _serve(self) -> None:
        """Keep GenCode open until the user quits."""
        asyncio.get_running_loop().set_exception_handler(self._unhandled_error)
        async with self._opener(self.desk) as gen:
            chat = ChatSession(gen, agent=self._agent, on_event=self._receive, on_notice=self.show_notice)
            lasting = [asyncio.create_task(chat.listen())]
            lasting[0].add_done_callback(self._serving_ended)
            if self._companion is not None:
                lasting.append(asyncio.create_task(self._companion(chat)))
                lasting[1].add_done_callback(self._companion_failed)
            self.chat = chat
            try:
                if self._begin is not None:
                    await self._begin(chat)
                    await self.show_session()
                self.main.dirty = True
                for early in self._submitted_early:
                    self.submit(*early)
                self._files = await asyncio.to_thread(files_below, gen.workspace.cwd)
                gc.freeze()  # what is loaded by now stays; nobody who types waits for a look through it
                await self._quitting.wait()
            finally:
                for each in lasting:
                    each.cancel()
                await asyncio.wait(lasting)
                await chat.close()

    def _serving_ended(self, done: "asyncio.Task[None]") -> None:
        """An error that ends GenCode ends the app, which then reports it."""
        if not done.cancelled() and (error := done.exception()) is not None:
            self.failure = self.failure or error
        if done is self._serving or self.failure is not None:
            self._quitting.set()
            if done is self._serving:
                self.exit()

    def _companion_failed(self, done: "asyncio.Task[None]") -> None:
        """A failure of what runs beside the conversation is logged and shown, and ends nothing."""
        if not done.cancelled() and (error := done.exception()) is not None:
            log.error("the scheduler of the terminal app failed", exc_info=error)
            what = f"Scheduled tasks stopped running here ({type(error).__name__})."
            self.show_notice(Notice(f"{what} Details: {log_file()}", "error"))

    def _unhandled_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Show an error of a callback or of a task that nobody awaits; it is logged as always."""
        loop.default_exception_handler(context)
        error = context.get("exception")
        if isinstance(error, Exception) and self.is_running:
            self.show_notice(Notice(fault_line(error), "error"))

    async def wait_closed(self) -> None:
        """Wait until GenCode is closed, also when the screen is gone already."""
        self._quitting.set()
        if self._serving is not None:
            await asyncio.wait([self._serving])

    def _fatal_error(self) -> None:
        """An internal error ends the app; it is reported once the terminal is restored."""
        self.failure = self.failure or sys.exception()
        self._close_messages_no_wait()

    def _receive(self, event: Event) -> None:
        if self.chat is not None and not self.main.task_id and self.chat.session:
            self.main.task_id = self.chat.session
            self.main.transcript = Transcript(self.main.task_id)
        for screen in self.screen_stack:
            if isinstance(screen, TranscriptScreen):
                screen.receive(event)

    def show_notice(self, notice: Notice, seconds: float = NOTICE_SECONDS) -> None:
        """Show a line for a while; what runs in the background has a line of its own."""
        if notice.started:
            return
        self._notices.add(notice, seconds)
        for screen in self.screen_stack:
            if isinstance(screen, TranscriptScreen):
                screen.dirty = True

    def _current_session(self) -> str:
        """The open conversation, if there is one."""
        return (self.chat.session if self.chat else None) or ""

    def _answer_too_late(self, why: str) -> None:
        self.show_notice(Notice(visible(why), "warning"))

    def notice_lines(self) -> list[Text]:
        """The lines for the person that are still shown."""
        if self.chat is not None:
            self._notices.clear(self.chat, self.desk.waiting())
        return self._notices.lines(self.size.width)

    def _frame(self) -> None:
        """Render the visible transcript, at most so often that there is always time for keys."""
        now = time.monotonic()
        screen = self.top_transcript
        due = screen.dirty or now - self._painted_at >= 1.0
        if due and now >= self._next_paint_at and self.is_running:
            screen.paint()
            self._painted_at = self._moved_at = now
            self._next_paint_at = now + 2 * (time.monotonic() - now)
        elif now - self._moved_at >= SPINNER_SECONDS and self.is_running and self.animation_level != "none":
            screen.move_spinner()
            self._moved_at = now

    @property
    def spinner(self) -> str:
        """The sign before what goes on, which moves."""
        if self.animation_level == "none":
            return SPINNER[0]
        return SPINNER[int(time.monotonic() / SPINNER_SECONDS) % len(SPINNER)]

    @property
    def agents(self) -> Sequence[AgentView]:
        """All agents of the conversation."""
        return [*self.chat.view.agents.values()] if self.chat else []

    @property
    def top_transcript(self) -> TranscriptScreen:
        """The visible transcript, also behind a dialog."""
        found = (each for each in reversed(self.screen_stack) if isinstance(each, TranscriptScreen))
        return next(found, self.main)

    def key(self, name: str) -> str:
        """The key for an action, as a person reads it; a key without a name as it is."""
        return NAMED_KEYS[name].now(self._keys) if name in NAMED_KEYS else name

    @property
    def mode(self) -> Mode:
        """The permission mode of the session."""
        return self.chat.gen.policy.mode if self.chat else Mode.DEFAULT

    @property
    def model_name(self) -> str:
        """The model that answers."""
        if self.chat is None:
            return "…"
        led = self.chat.main_agent.model if self.chat.main_agent else ""
        return self.chat.chosen_model.name if self.chat.chosen_model else led or self.chat.gen.model.name

    def completions(self, before: str) -> Sequence[Completion]:
        """Completions of what is typed."""
        if self.chat is None or not ("@" in before or before.startswith("/")):
            return []
        view = self.chat.view.agents.values()
        words = CompletionSources(
            tasks=[(each.id, f"{each.agent} {each.status} {each.title}") for each in view if each.parent],
            agents=[spec.name for spec in self.chat.gen.agents.spawnable()],
            models=[name for name in self.chat.gen.models.names() if "/" not in name],
            modes=[mode.value for mode in MODES],
            commands=from_files(self.chat.gen.commands),
        )
        return completions(before, self._files, words)

    def submit(
        self, text: str, task: str, images: tuple[Image, ...] = (), draft: Draft | None = None
    ) -> None:
        """Run a command of ours or of the shell, or send a message to the agent that is open."""
        chat = self.chat
        if chat is None:
            self._submitted_early.append((text, task, images, draft))
        elif is_command(text, chat.gen.commands):
            self.start_action(self._run_command(chat, text, task))
        elif text.startswith("!") and (command := text[1:].strip()):
            self.start_action(chat.run_command(command, task))
        else:
            self.start_action(self._send(chat, text, task, images, draft))

    async def _send(
        self, chat: ChatSession, text: str, task: str, images: tuple[Image, ...], draft: Draft | None
    ) -> None:
        """Send a message; one that was not sent stands in the input again."""
        try:
            if not task or task == chat.session:
                await chat.send(text, images)
            elif images:
                raise UserMistake("Images can only be sent to the main agent. Nothing was sent.")
            else:
                await chat.steer(task, text)
        except GenCodeError as error:
            from gencode.tasks.control import MessageKept  # the first frame does not wait for it

            if draft is not None and not isinstance(error, MessageKept):
                self.top_transcript.composer.restore(draft)
            raise

    async def _run_command(self, chat: ChatSession, text: str, here: str) -> None:
        await show_result(self, chat, await run_slash_command(chat, parse_command(text), here))

    def start_action(self, work: Coroutine[Any, Any, object]) -> None:
        """Run an action of the user as a task of the app; errors are shown."""
        task = asyncio.create_task(self._run_guarded(work))
        self._actions.add(task)
        task.add_done_callback(self._actions.discard)
        task.add_done_callback(lambda _: work.close())  # it may be let go of before it began

    async def _run_guarded(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await report_errors(work, self.show_notice)
        finally:
            self.main.dirty = self.top_transcript.dirty = True

    def open_agent(self, task: str) -> None:
        """Open the live transcript of an agent."""
        if task == self.main.task_id:
            self._close_agents()
            return
        screen = AgentScreen(self, task)
        self.push_screen(screen)
        self.start_action(screen.load())

    def _close_agents(self) -> None:
        for screen in reversed(self.screen_stack):
            if isinstance(screen, AgentScreen):
                screen.close()

    def close_agent(self) -> None:
        """Close the agent's screen."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
            self.top_transcript.dirty = True

    def show_tree(self, task: str = "") -> None:
        """Show the agent tree, which is part of the conversation's screen."""
        self._close_agents()
        self.main.toggle_tree(task)

    async def show_session(self) -> None:
        """Show the conversation that is open now."""
        self._close_agents()
        self.main.task_id = (self.chat.session if self.chat else None) or ""
        await self.main.load()

    def interrupt(self) -> None:
        """Stop the command that was typed last, or interrupt the turn; twice while idle: edit a prompt."""
        if self.chat is None or self.chat.stop_command():
            return
        if self.chat.running:
            self.start_action(self.chat.interrupt())
        elif self.chat.session and self._is_second("escape", "Press Esc again to edit an earlier prompt."):
            self.submit("/rewind", "")

    def _is_second(self, key: str, hint: str) -> bool:
        """Whether a key was pressed twice in a short time; after the first time the hint says so."""
        before, self._first_press = self._first_press, (key, time.monotonic())
        if before[0] == key and self._first_press[1] - before[1] < DOUBLE_PRESS_SECONDS:
            self._first_press = ("", 0.0)
            return True
        self.show_notice(Notice(hint), DOUBLE_PRESS_SECONDS)
        return False

    def use_theme(self, name: str) -> None:
        """Use one of our two themes, `dark` and `light`, or one of Textual's."""
        name = f"gencode-{name}" if name in ("dark", "light") else name
        if name not in self.available_themes:
            raise UnknownName("theme", name, sorted(self.available_themes))
        self.theme = name
        self.renderer = StripRenderer(dark=self.current_theme.dark)
        for screen in self.screen_stack:
            if isinstance(screen, TranscriptScreen):
                screen.use(self.renderer)

    async def quit(self) -> None:
        """End the app; what that would stop is listed first."""
        gen = self.chat.gen if self.chat else None
        running = [live.task for live in gen.running] if gen else []
        commands = gen.running.commands() if gen else ()
        if running or commands:
            text = f"Still running: {task_list(running, commands)}. Results so far are kept."
            again = isinstance(self.screen, ConfirmScreen)
            if again or not await self.ask(QuitScreen(text, "stop them and quit")):
                return
        self.opening_text = "closing…"
        self.end()

    def end(self) -> None:
        """End the app without a question: a signal told it to."""
        self._quitting.set()
        if self._serving is None:
            self.exit()

    async def action_quit(self) -> None:
        """Quit, after a confirmation if something runs."""
        self.start_action(self.quit())

    def action_ctrl_d(self) -> None:
        """Ctrl+D quits when the input is empty; otherwise it deletes a character."""
        composer = self.top_transcript.composer
        if composer.text:
            composer.editor.action_delete_right()
        else:
            self.start_action(self.quit())

    def action_ctrl_c(self) -> None:
        """Ctrl+C copies what is selected, closes a page, a list or the tree, clears the input, interrupts
        the turn, or quits.
        """
        composer = self.top_transcript.composer
        screen: Screen[Any] = self.screen
        if selected := screen.get_selected_text() or composer.editor.selected_text:
            screen.clear_selection()
            composer.editor.selection = Selection.cursor(composer.editor.cursor_location)
            self.start_action(self.copy(selected))
        elif isinstance(self.screen, Dialog) and not isinstance(self.screen, QuestionScreen):
            self.screen.close_by_ctrl_c()
        elif self.screen is self.main and self.main.agent_tree.has_focus:
            self.main.toggle_tree()
        elif composer.text:
            composer.set_text("")
        elif self.chat is not None and self.chat.working:
            self.interrupt()
        elif self._is_second("ctrl+c", "Press Ctrl+C again to quit."):
            self.start_action(self.quit())

    async def copy(self, text: str) -> None:
        """Copy a text to the clipboard, by the terminal and by the desktop."""
        self.copy_to_clipboard(text)
        await copy_text(text)
        self.show_notice(Notice(f"Copied {counted(len(text.splitlines()), 'line')}."))

    def action_background(self) -> None:
        """Move what the conversation waits for to the background."""
        if self.chat is not None:
            self.start_action(self.chat.move_to_background())

    def action_tree(self) -> None:
        """Show or hide the tree; on top of a question, which waits below it."""
        if isinstance(self.screen, TreeScreen):
            self.screen.dismiss()
        elif isinstance(self.screen, QuestionScreen):
            self.push_screen(TreeScreen(self))
        elif any(isinstance(each, TreeScreen) for each in self.screen_stack):
            self._close_agents()
        elif not isinstance(self.screen, Dialog):
            self.show_tree()

    def action_next_mode(self) -> None:
        """The next permission mode, for all agents at once."""
        if self.chat is not None:
            gen = self.chat.gen
            gen.switch_mode(next_mode(gen.policy.mode))
            self.show_notice(Notice(f"Mode {gen.policy.mode}: {MODES[gen.policy.mode]}."))


def short_path(folder: Path, most: int = 28) -> str:
    """A short form of a folder's path: from the home folder on, and only its end."""
    home = Path.home()
    below = folder.relative_to(home).as_posix() if folder.is_relative_to(home) else ""
    name = f"~/{below}".removesuffix("/.") if below else str(folder)
    return name if len(name) <= most else f"…{name[-most + 1 :]}"


def run(args: argparse.Namespace) -> int:
    """Run the app until the user quits; its error is raised once the terminal is restored."""
    folder = workspace_at(Path(getattr(args, "cwd", "."))).cwd
    return run_to_end(_run(args, folder))


async def _run(args: argparse.Namespace, folder: Path) -> int:
    def opener(asker: Asker) -> "AbstractAsyncContextManager[GenCode]":
        return _open(args, asker)

    settings = load(folder)
    app = TerminalApp(
        opener,
        folder=folder,
        agent=getattr(args, "agent", ""),
        begin=lambda chat: _begin(chat, args),
        beside=run_schedule,
        history=PromptHistory(gen_home() / HISTORY_FILE),
        theme=settings.theme or ("dark" if is_dark(os.environ.get("COLORFGBG", "")) else "light"),
        keys=settings.keys,
        vim=settings.vim,
    )
    if getattr(args, "session", None) == "":  # --resume without an id
        app.submit("/resume", "")
    if opening := getattr(args, "opening", ""):
        app.submit(opening, "")
    told: list[int] = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, _end_by_signal, app, told, number)
    try:
        await app.run_async()
    finally:
        await app.wait_closed()
    if told:
        return 128 + told[0]
    if app.failure is not None:
        raise app.failure
    if app.chat is not None and app.chat.session:
        print(f"Resume with: gen --session {app.chat.session}", file=sys.stderr)
    return app.return_code or 0


def _end_by_signal(app: TerminalApp, told: list[int], number: int) -> None:
    """A signal ends the app, and the terminal is restored."""
    if app.lent and number == signal.SIGINT:
        return
    told.append(number)
    app.end()


@asynccontextmanager
async def _open(args: argparse.Namespace, asker: Asker) -> "AsyncGenerator[GenCode, None]":
    """GenCode, loaded only when the first frame is on the screen."""
    opening = await asyncio.to_thread(import_module, "gencode.interfaces.cli.open_session")
    async with opening.opened(args, asker=asker) as gen:
        gen.mcp_servers.wait_at_most(opening.SCREEN_WAIT)
        yield gen


async def _begin(chat: ChatSession, args: argparse.Namespace) -> None:
    """Show warnings, and resume an earlier conversation if an option says so."""
    from gencode.interfaces.cli.open_session import check

    told = check(chat.gen, args)
    for line in told.splitlines():
        chat.notify(Notice(line, "warning"))
    session: str = getattr(args, "session", "")
    if "go_on" in args:
        session = await chat.latest_session()
    if session:
        await chat.open(session)


async def run_schedule(chat: ChatSession) -> None:
    """Run scheduled tasks while the app is open; each result or missed run is a notice.

    What was typed for this conversation does not count for it: its folder says how it runs.
    """
    from gencode.interfaces.chat.schedule_runner import scheduler_for

    await scheduler_for(chat.gen, lambda text: chat.notify(Notice(text, "result"))).run()


def is_dark(colours: str) -> bool:
    """Whether a terminal says that its background is dark; most are, and say nothing."""
    background = colours.rpartition(";")[2]
    return background not in ("7", "15")
