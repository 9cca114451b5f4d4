"""Dialogs for the questions of agents: approvals of calls, and inquiries."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct
from rich.console import Group, RenderableType
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from gencode.core.errors import GenCodeError
from gencode.core.questions import NOBODY, Answer, Inquiry, Question
from gencode.core.text import visible
from gencode.interfaces.chat import question_text
from gencode.interfaces.chat.notices import Notice, report_errors
from gencode.interfaces.chat.question_text import Choice, outcome_text, question_outcome, unanswered_text
from gencode.interfaces.render.file_diff import unified_lines
from gencode.interfaces.tui.dialogs import Dialog, RenderedText, ScrollHint, fit_height, scroll_by_page_keys
from gencode.interfaces.tui.diff_view import DiffView
from gencode.interfaces.tui.keyboard import GuardedDialog
from gencode.interfaces.tui.strip_renderer import StripRenderer

if TYPE_CHECKING:
    from gencode.interfaces.tui.app import TerminalApp

DECLINE = Answer(False)
REFRESH_SECONDS = 0.1
WITHDRAWN_SECONDS = 2.0
"""So long a question that was answered elsewhere stays in sight, and takes no key."""
DOCKED_SHARE = 0.7
"""So much of the height a question takes, so that the conversation above it stays in sight."""
LOW_SCREEN = 30
WHEEL_LINES = 3
DOUBLE_ENTER_SECONDS = 0.6
"""An Enter that comes so soon after the one before it was pressed twice."""
PAUSE_TEXT = "keys work after a short pause"
WITHDRAWN_TEXT = "This question was answered elsewhere, or withdrawn."
_ESC_LEAVES_OPEN = "from another process · Esc leaves it open"
LEFT_OPEN = "The question stays open. List it with: gen task questions"


class QuestionContext(Struct, frozen=True):
    """What is around a question: how many wait, the transcript behind it, the folder of the session."""

    waiting: Callable[[], int] = lambda: 1
    transcript: Callable[[], Widget | None] = lambda: None
    folder: str = ""


NOTHING_AROUND = QuestionContext()


class QuestionScreen(GuardedDialog[Answer]):
    """What an agent asks, in a frame that says whether keys count and what Esc does.

    A `remote` one is asked by another process.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("ctrl+o", "enlarge", show=False),
    ]
    no = DECLINE
    esc_effect: ClassVar[str] = "Esc to decline"

    def __init__(
        self, question: Question, renderer: StripRenderer, around: QuestionContext = NOTHING_AROUND
    ) -> None:
        super().__init__()
        self.question = question
        self.remote = question.away is not None
        self._renderer = renderer
        self._around = around
        self._withdrawn_shown = False
        self._enlarged = False
        self.closed = asyncio.Event()
        """Set once it is on no screen any more."""
        self._body = VerticalScroll(classes="body asks")
        self._head = RenderedText(self._head_text(), renderer)
        self._outcome = Static(classes="gone", markup=False)

    def _head_text(self) -> Text:
        raise NotImplementedError

    @property
    def waiting_text(self) -> str:
        """How many other questions wait."""
        others = self._around.waiting() - 1
        return f"  ({others} more waiting)" if others > 0 else ""

    @property
    def esc_help(self) -> str:
        """What Esc does; nothing once somebody else has answered."""
        return "" if self._withdrawn_shown else (_ESC_LEAVES_OPEN if self.remote else self.esc_effect)

    @property
    def keys_help(self) -> str:
        """What the frame says about keys."""
        return self.esc_help

    @property
    def unsent_text(self) -> str:
        """The words that were typed and not given as an answer."""
        return ""

    def on_mount(self) -> None:
        """How it stands is looked at as long as it is in sight."""
        super().on_mount()
        self._outcome.display = False
        self.set_interval(REFRESH_SECONDS, self.update_status)
        self.call_after_refresh(self.update_status)

    def on_unmount(self) -> None:
        """It has gone."""
        self.closed.set()

    def update_status(self) -> None:
        """Say how it stands now: what else waits, what is out of sight, whether keys count."""
        self._head.draw(self._head_text())
        for below in self.query(ScrollHint):
            below.update_count()
        dialog = self.query_one(".dialog", Vertical)
        fit_height(dialog, self._body, 1.0 if self._is_tall else DOCKED_SHARE)
        dialog.border_subtitle = (
            PAUSE_TEXT if self.is_pausing and not self._withdrawn_shown else self.keys_help
        )

    @property
    def _is_tall(self) -> bool:
        """Whether it takes the whole height: where it was enlarged, and where there is little."""
        return self._enlarged or self.size.height <= LOW_SCREEN

    def action_enlarge(self) -> None:
        """Take the whole height, or leave the conversation in sight again."""
        self._enlarged = not self._enlarged
        self.update_status()

    def on_mouse_scroll_up(self) -> None:
        """The wheel beside the question scrolls the conversation."""
        if (view := self._around.transcript()) is not None:
            view.scroll_relative(y=-WHEEL_LINES, animate=False)

    def on_mouse_scroll_down(self) -> None:
        """The wheel beside the question scrolls the conversation."""
        if (view := self._around.transcript()) is not None:
            view.scroll_relative(y=WHEEL_LINES, animate=False)

    def accepts(self, at: float, before: float) -> bool:
        """Nothing is meant for a question that somebody else has answered."""
        return not self._withdrawn_shown and super().accepts(at, before)

    def answer_with(self, answer: Answer) -> None:
        """Close it with an answer; nothing happens when somebody else has answered."""
        if not self._withdrawn_shown:
            self.dismiss(answer)

    def action_leave(self) -> None:
        """Escape is a no; what another process asks stays open for others."""
        self.answer_with(NOBODY if self.remote else self.no)

    def show_withdrawn(self) -> bool:
        """Somebody else has answered: say so for a moment, then go; False when it is not in sight."""
        self._withdrawn_shown = True
        if not (self.in_sight and self.is_active):
            self.withdraw()
            return False
        over = self.question.until is not None and time.time() >= self.question.until - REFRESH_SECONDS
        self.show_outcome(
            unanswered_text(self.question) if over and self.question.inquiries else WITHDRAWN_TEXT
        )
        for each in (*self.query(OptionList), *self.query(Input)):
            each.display = False
        self.set_focus(None)
        self.set_timer(WITHDRAWN_SECONDS, self.withdraw)
        return True

    def show_outcome(self, became: str) -> None:
        """Say what became of it, in the place of the answers."""
        self._outcome.update(Text(became, "bold"))
        self._outcome.display = True


class ApprovalScreen(QuestionScreen):
    """Who wants to do exactly what, and which rule asked; arrows or letters mark answers, Enter gives one."""

    def __init__(
        self, question: Question, renderer: StripRenderer, around: QuestionContext = NOTHING_AROUND
    ) -> None:
        super().__init__(question, renderer, around)
        self._choices = [each for each in question_text.choices(question) if self._is_offered(each)]
        self._instead = Input(placeholder=f"{question_text.INSTEAD_ASKS} Then Enter", select_on_focus=False)

    def _is_offered(self, choice: Choice) -> bool:
        """Whether an answer differs from the others: the main agent and its subagents are the session."""
        reach = choice.answer.reach
        if self.remote:
            return reach != "session"  # which is there for the agent and its subagents
        return reach != "agent" and not (reach == "subtree" and len(self.question.path) < 2)

    def _head_text(self) -> Text:
        head = Text(question_text.headline(self.question), "bold")
        return head.append(f"  task {self.question.task}{self.waiting_text}", "faint")

    def compose(self) -> ComposeResult:
        """The question above its answers."""
        call = self.question.call
        parts: list[RenderableType] = [Text(question_text.call_text(self.question), "bold")]
        if preview := question_text.preview_lines(self.question):
            path = next((value for name in ("file_path", "path") if (value := call.input.get(name))), "")
            parts.append(DiffView(unified_lines(preview), str(path), self._renderer.code))
        why = Text(
            "\n".join(
                (
                    *question_text.location_lines(self.question, self._around.folder),
                    question_text.reason(self.question),
                )
            ),
            "faint",
        )
        if allowed := question_text.rules_text(self.question):
            why.append(f"\nApproving more than once will allow: {allowed}")
        reasons = VerticalScroll(RenderedText(why, self._renderer), classes="body why")
        with Vertical(classes="dialog"):
            yield self._head
            with self._body:
                yield RenderedText(Group(*parts), self._renderer)
            yield ScrollHint(self._body)
            yield reasons  # never below the fold of what is asked
            yield ScrollHint(reasons)
            instead = (question_text.INSTEAD, question_text.INSTEAD_SAYS)
            answers = [*((each.key, each.says) for each in self._choices), instead]
            yield OptionList(*(Option(Text(f" {key}  {says}")) for key, says in answers), markup=False)
            yield self._instead
            yield self._outcome

    @property
    def keys_help(self) -> str:
        """What Enter and Esc do."""
        return f"Enter confirms · {self.esc_help}" if self.esc_help else ""

    @property
    def unsent_text(self) -> str:
        """The reason that was typed and not sent."""
        return self._instead.value.strip()

    @property
    def text_field(self) -> Input | None:
        """The line for what to do instead, once it is asked for."""
        return self._instead if self._instead.display else None

    def on_mount(self) -> None:
        """The first answer is marked; the pause before keys work keeps it from being given by accident."""
        super().on_mount()
        self._instead.display = False
        answers = self.query_one(OptionList)
        answers.highlighted = 0
        answers.focus()

    def on_key(self, event: events.Key) -> None:
        """The letter of an answer marks it; the page keys scroll."""
        if not self._instead.has_focus:
            for index, choice in enumerate(self._choices):
                if event.character == choice.key:
                    event.stop()
                    self.held = [event]
                    self.query_one(OptionList).highlighted = index
                    return
            if event.character == question_text.INSTEAD:
                event.stop()
                self._ask_instead()
                return
        scroll_by_page_keys(self, event, self._around.transcript())

    def takes(self, event: events.Event) -> bool:
        """Only the letters of the answers, and what to do instead once it is asked for."""
        keys = {question_text.INSTEAD, *(each.key for each in self._choices)}
        return self._instead.display or (isinstance(event, events.Key) and event.character in keys)

    def text_followed(self) -> None:
        """Nothing is marked any more: the Enter that ends the text approves nothing."""
        super().text_followed()
        self.query_one(OptionList).highlighted = None

    def _ask_instead(self) -> None:
        """Ask what to do instead."""
        if not self._withdrawn_shown:
            self._instead.display = True
            self._instead.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """An answer was chosen."""
        if event.option_index < len(self._choices):
            self.answer_with(self._choices[event.option_index].answer)
        else:
            self._ask_instead()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """What to do instead was typed."""
        event.stop()
        self.answer_with(Answer(False, why=event.value.strip()))


class InquiryScreen(QuestionScreen):
    """The inquiries of an agent, one after the other: an option, several, or an own answer."""

    no = Answer(False, why=question_text.NOT_ANSWERED)
    esc_effect = "Esc to skip"

    def __init__(
        self, question: Question, renderer: StripRenderer, around: QuestionContext = NOTHING_AROUND
    ) -> None:
        self.extend_deadline: Callable[[Question], Question] = lambda asked: asked
        """Tells that somebody is at an answer; the question as it then stands."""
        self._words: list[str] = []
        self._marked: set[int] = set()
        self._asked_at = 0.0
        super().__init__(question, renderer, around)

    @property
    def _inquiry(self) -> Inquiry:
        return self.question.inquiries[min(len(self._words), len(self.question.inquiries) - 1)]

    @property
    def unsent_text(self) -> str:
        """What stands in the line for other words."""
        return self.query_one(Input).value.strip() if self.is_mounted else ""

    @property
    def text_field(self) -> Input | None:
        """The line for other words."""
        return self.query_one(Input) if self.is_mounted else None

    @property
    def _round(self) -> str:
        """Marks the options of what is asked now: one that was chosen before answers nothing else."""
        return f"asked-{len(self._words)}-"

    def _head_text(self) -> Text:
        every = len(self.question.inquiries)
        several = f" ({min(len(self._words) + 1, every)} of {every})" if every > 1 else ""
        head = Text(f"{question_text.asker_path(self.question)} asks{several}:", "bold")
        head.append(self.waiting_text, "faint")
        end = question_text.deadline_line(self.question, self._inquiry)
        return head.append(f"\n{end}" if end else "", "faint")

    def accepts(self, at: float, before: float) -> bool:
        """Who is at an answer is given the time for it."""
        taken = super().accepts(at, before)
        if taken:
            self.question = self.extend_deadline(self.question)
        return taken

    def compose(self) -> ComposeResult:
        """The question, its options, and a line for other words."""
        with Vertical(classes="dialog"):
            yield self._head
            with self._body:
                yield Static(classes="asked", markup=False)
            yield ScrollHint(self._body)
            yield OptionList(markup=False)
            yield Input(placeholder="or type your own answer, then Enter", select_on_focus=False)
            yield self._outcome

    def on_mount(self) -> None:
        """Ask the first thing."""
        super().on_mount()
        self._ask()
        self._asked_at = 0.0

    def _ask(self) -> None:
        self._asked_at = time.monotonic()
        inquiry = self._inquiry
        asked = Text(visible(inquiry.question))
        for line in question_text.location_lines(self.question):
            asked.append(f"\n{line}", "dim")
        if inquiry.many:
            asked.append("\n(Space selects, Enter sends)", "dim")
        self.query_one(".asked", Static).update(asked)
        self._body.scroll_home(animate=False)
        self._marked = set()
        self._list()
        self.query_one(Input).value = ""
        (self.query_one(OptionList) if inquiry.options else self.query_one(Input)).focus()

    def _list(self) -> None:
        listing = self.query_one(OptionList)
        at = listing.highlighted
        listing.clear_options()
        for number, (label, says) in enumerate(question_text.inquiry_choices(self._inquiry)):
            mark = ("☑ " if number in self._marked else "☐ ") if self._inquiry.many else ""
            line = Text(f"{mark}{label}")
            line.append(f"  {says}" if says else "", "dim")
            listing.add_option(Option(line, id=f"{self._round}{number}"))
        listing.display = bool(self._inquiry.options)
        listing.highlighted = at or 0

    def on_key(self, event: events.Key) -> None:
        """Space marks an option where several may be chosen, arrows lead to them, page keys scroll."""
        listing = self.query_one(OptionList)
        if event.key == "space" and not self._dismissed and self._inquiry.many and listing.has_focus:
            event.stop()
            if listing.highlighted is not None:
                self._marked ^= {listing.highlighted}
                self._list()
        elif event.key in ("up", "down") and self._inquiry.options and self.query_one(Input).has_focus:
            event.stop()
            listing.focus()
        else:
            scroll_by_page_keys(self, event, self._around.transcript())

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Options were chosen; an Enter that was pressed twice chooses once."""
        earlier = not (event.option_id or "").startswith(self._round)
        if earlier or time.monotonic() - self._asked_at < DOUBLE_ENTER_SECONDS:
            return
        self._take(", ".join(self._labels() or [self._inquiry.options[event.option_index].label]))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Words were typed; the options that are marked beside them are sent as well."""
        if event.value.strip():
            self._take(", ".join((*self._labels(), event.value.strip())))

    def _labels(self) -> list[str]:
        """The options that are marked."""
        return [self._inquiry.options[each].label for each in sorted(self._marked)]

    def _take(self, words: str) -> None:
        if self._dismissed or self._withdrawn_shown:
            return
        self._words.append(words)
        if len(self._words) == len(self.question.inquiries):
            self.answer_with(question_text.answer_from_words(self._words))
        else:
            self._ask()


def dialog_keys_line(screen: Screen[Any]) -> Text | None:
    """What the keys do while a dialog is in sight, for those who look at the last line."""
    if not isinstance(screen, QuestionScreen):
        says = screen.key_help if isinstance(screen, Dialog) else ""
        return Text(says, "warn") if says else None
    if not screen.esc_help:
        return None
    return Text(f"Answer the question above · {screen.esc_help}", "warn")


class DialogAsker:
    """The asker of the terminal app: shows questions as dialogs, one at a time."""

    def __init__(self, app: "TerminalApp") -> None:
        self._app = app
        self._previous_closed = asyncio.Event()
        self._previous_closed.set()

    async def answer(self, question: Question) -> Answer:
        """Show one question and wait; it goes away when somebody else answers it."""
        app = self._app
        with suppress(TimeoutError):  # what lies on the last one may be read for long
            async with asyncio.timeout(2 * WITHDRAWN_SECONDS):
                await self._previous_closed.wait()
        shown = InquiryScreen if question.inquiries else ApprovalScreen
        around = QuestionContext(
            waiting=lambda: len(app.desk.waiting()),
            transcript=lambda: app.top_transcript.transcript_view,
            folder=str(app.chat.gen.workspace.cwd) if app.chat else "",
        )
        screen = shown(question, app.renderer, around)
        if isinstance(screen, InquiryScreen):
            screen.extend_deadline = app.desk.stay
        app.bell()
        try:
            answer = await app.ask(screen) or DECLINE
        except asyncio.CancelledError:
            self._withdraw(screen)
            raise
        if answer.silent:
            app.show_notice(Notice(LEFT_OPEN, task=question.task))
        return answer

    def _withdraw(self, screen: ApprovalScreen | InquiryScreen) -> None:
        """Somebody else has answered: that is said before the next question comes; typed words are kept."""
        if words := screen.unsent_text:
            composer = self._app.top_transcript.composer
            composer.set_text(f"{composer.text.rstrip()} {words}".strip())
        if screen.show_withdrawn():
            self._previous_closed.clear()
            self._app.start_action(self._close_after_outcome(screen))

    async def _close_after_outcome(self, screen: ApprovalScreen | InquiryScreen) -> None:
        """Show the outcome of a question as soon as the journal has it, until the dialog has gone."""
        showing = asyncio.create_task(report_errors(self._show_outcome(screen), self._app.show_notice))
        try:
            await screen.closed.wait()
        finally:
            showing.cancel()
            self._previous_closed.set()
        await asyncio.wait([showing])

    async def _show_outcome(self, screen: ApprovalScreen | InquiryScreen) -> None:
        if (chat := self._app.chat) is None:
            return
        async for _ in chat.gen.history.changes.looks():
            with suppress(GenCodeError):  # then it is not known yet
                if ended := await question_outcome(chat.gen, screen.question):
                    screen.show_outcome(outcome_text(ended, screen.question))
                    return
