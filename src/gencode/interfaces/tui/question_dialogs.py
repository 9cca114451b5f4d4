"""Questions of agents as dialogs: whether a call may run, and what an agent wants to know."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from gencode.core.errors import GenCodeError
from gencode.core.questions import NOBODY, Answer, Inquiry, Question
from gencode.core.text import visible
from gencode.interfaces.chat import question_text
from gencode.interfaces.chat.notices import Notice
from gencode.interfaces.chat.question_text import ended_question, told, unanswered
from gencode.interfaces.tui.dialogs import Below, Dialog, Sheet, fit, scrolled
from gencode.interfaces.tui.entry_renderers import diff_lines
from gencode.interfaces.tui.keyboard import GuardedDialog
from gencode.interfaces.tui.rich_renderer import Paper

if TYPE_CHECKING:
    from gencode.interfaces.tui.app import TerminalApp

NO = Answer(False)
LOOK_SECONDS = 0.1
PARTING_SECONDS = 2.0
"""So long a question that was answered elsewhere stays in sight, and takes no key."""
AGAIN_SECONDS = 0.6
"""An Enter that comes so soon after the one before it was pressed twice."""
PAUSE = "keys count after a short pause"
GONE = "This question was answered elsewhere, or is not asked any more."
_HERE = "Esc no"
_FAR = "asked in another process · Esc leaves it open for others"
LEFT_OPEN = "The question stays open for others: gen task questions shows it."


def alone() -> int:
    """No other question waits."""
    return 1


class QuestionScreen(GuardedDialog[Answer]):
    """What an agent asks, in a frame that says whether keys count and what Esc does.

    `waiting` counts the questions that wait with this one. A `far` one is asked by another process.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]
    no = NO

    def __init__(self, question: Question, paper: Paper, waiting: Callable[[], int] = alone) -> None:
        super().__init__()
        self.question = question
        self.far = question.away is not None
        self._paper = paper
        self._waiting = waiting
        self._parting = False
        self.left = asyncio.Event()
        """Set once it is on no screen any more."""
        self._body = VerticalScroll(classes="body asks")
        self._head = Sheet(self._head_text(), paper)
        self._gone = Static(classes="gone", markup=False)

    def _head_text(self) -> Text:
        raise NotImplementedError

    @property
    def more(self) -> str:
        """How many other questions wait."""
        others = self._waiting() - 1
        return f"  ({others} more wait{'s' if others == 1 else ''})" if others > 0 else ""

    @property
    def keys(self) -> str:
        """What Esc does; nothing once somebody else has answered."""
        return "" if self._parting else (_FAR if self.far else _HERE)

    @property
    def unsent(self) -> str:
        """The words that were typed and not given as an answer."""
        return ""

    def on_mount(self) -> None:
        """How it stands is looked at as long as it is in sight."""
        super().on_mount()
        self._gone.display = False
        self.set_interval(LOOK_SECONDS, self.look)
        self.call_after_refresh(self.look)

    def on_unmount(self) -> None:
        """It has gone."""
        self.left.set()

    def look(self) -> None:
        """Say how it stands now: what else waits, what is out of sight, whether keys count."""
        self._head.draw(self._head_text())
        for below in self.query(Below):
            below.count()
        dialog = self.query_one(".dialog", Vertical)
        fit(dialog, self._body)
        dialog.border_subtitle = PAUSE if self.waits and not self._parting else self.keys

    def takes(self, at: float, before: float) -> bool:
        """Nothing is meant for a question that somebody else has answered."""
        return not self._parting and super().takes(at, before)

    def give(self, answer: Answer) -> None:
        """Close it with an answer; nothing happens when somebody else has answered."""
        if not self._parting:
            self.dismiss(answer)

    def action_leave(self) -> None:
        """Escape is a no; what another process asks stays open for others."""
        self.give(NOBODY if self.far else self.no)

    def part(self) -> bool:
        """Somebody else has answered: say so for a moment, then go; False when it is not in sight."""
        self._parting = True
        if not (self.in_sight and self.is_active):
            self.withdraw()
            return False
        over = self.question.until is not None and time.time() >= self.question.until - LOOK_SECONDS
        self.tell(unanswered(self.question) if over and self.question.inquiries else GONE)
        for each in (*self.query(OptionList), *self.query(Input)):
            each.display = False
        self.set_focus(None)
        self.set_timer(PARTING_SECONDS, self.withdraw)
        return True

    def tell(self, became: str) -> None:
        """Say what became of it, in the place of the answers."""
        self._gone.update(Text(became, "bold"))
        self._gone.display = True


class AskScreen(QuestionScreen):
    """Who wants to do exactly what, and which rule asked; one key answers."""

    def __init__(self, question: Question, paper: Paper, waiting: Callable[[], int] = alone) -> None:
        super().__init__(question, paper, waiting)
        self._choices = [
            each
            for each in question_text.choices(question)
            if not (
                self.far and each.answer.reach == "session"
            )  # which would be for the agent and those below
        ]

    def _head_text(self) -> Text:
        head = Text(question_text.headline(self.question), "bold")
        return head.append(f"  task {self.question.task}{self.more}", "faint")

    def compose(self) -> ComposeResult:
        """The question above its answers."""
        parts: list[RenderableType] = [Text(question_text.exactly(self.question), "warn")]
        if preview := question_text.preview_lines(self.question):
            parts += [Text(""), diff_lines(preview)]
        why = Text(
            "\n".join((*question_text.where(self.question), question_text.reason(self.question))), "faint"
        )
        if allowed := question_text.allows(self.question):
            why.append(f"\nA yes for more than this call allows: {allowed}")
        reasons = VerticalScroll(Sheet(why, self._paper), classes="body why")
        with Vertical(classes="dialog"):
            yield self._head
            with self._body:
                yield Sheet(Group(*parts), self._paper)
            yield Below(self._body)
            yield reasons  # never below the fold of what is asked
            yield Below(reasons)
            yield OptionList(
                *(Option(Text(f" {each.key}  {each.says}")) for each in self._choices), markup=False
            )
            yield self._gone

    def on_mount(self) -> None:
        """Nothing is chosen by accident: the last answer, no, is where it begins."""
        super().on_mount()
        answers = self.query_one(OptionList)
        answers.highlighted = len(self._choices) - 1
        answers.focus()

    def on_key(self, event: events.Key) -> None:
        """A key of an answer gives it; the page keys scroll the question."""
        for choice in self._choices:
            if event.character == choice.key:
                event.stop()
                self.give(choice.answer)
                return
        scrolled(self, event)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """An answer was chosen."""
        self.give(self._choices[event.option_index].answer)


class InquiryScreen(QuestionScreen):
    """What an agent wants to know, one thing after the other: an option, several, or words of one's own."""

    no = Answer(False, why=question_text.NOT_ANSWERED)

    def __init__(self, question: Question, paper: Paper, waiting: Callable[[], int] = alone) -> None:
        self.stay: Callable[[Question], Question] = lambda asked: asked
        """Tells that somebody is at an answer; the question as it then stands."""
        self._words: list[str] = []
        self._marked: set[int] = set()
        self._asked_at = 0.0
        super().__init__(question, paper, waiting)

    @property
    def _inquiry(self) -> Inquiry:
        return self.question.inquiries[min(len(self._words), len(self.question.inquiries) - 1)]

    @property
    def unsent(self) -> str:
        """What stands in the line for other words."""
        return self.query_one(Input).value.strip() if self.is_mounted else ""

    @property
    def field(self) -> Input | None:
        """The line for other words."""
        return self.query_one(Input) if self.is_mounted else None

    @property
    def _round(self) -> str:
        """Marks the options of what is asked now: one that was chosen before answers nothing else."""
        return f"asked-{len(self._words)}-"

    def _head_text(self) -> Text:
        every = len(self.question.inquiries)
        several = f" ({min(len(self._words) + 1, every)} of {every})" if every > 1 else ""
        head = Text(f"{question_text.who(self.question)} asks{several}:", "bold")
        head.append(self.more, "faint")
        end = question_text.due(self.question, self._inquiry)
        return head.append(f"\n{end}" if end else "", "faint")

    def takes(self, at: float, before: float) -> bool:
        """Who is at an answer is given the time for it."""
        taken = super().takes(at, before)
        if taken:
            self.question = self.stay(self.question)
        return taken

    def compose(self) -> ComposeResult:
        """The question, its options, and a line for other words."""
        with Vertical(classes="dialog"):
            yield self._head
            with self._body:
                yield Static(classes="asked", markup=False)
            yield Below(self._body)
            yield OptionList(markup=False)
            yield Input(placeholder="or type an answer of your own, then Enter", select_on_focus=False)
            yield self._gone

    def on_mount(self) -> None:
        """Ask the first thing."""
        super().on_mount()
        self._ask()
        self._asked_at = 0.0

    def _ask(self) -> None:
        self._asked_at = time.monotonic()
        inquiry = self._inquiry
        asked = Text(visible(inquiry.question))
        for line in question_text.where(self.question):
            asked.append(f"\n{line}", "dim")
        if inquiry.many:
            asked.append("\n(Space marks several, Enter sends them)", "dim")
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
        if event.key == "space" and not self._over and self._inquiry.many and listing.has_focus:
            event.stop()
            if listing.highlighted is not None:
                self._marked ^= {listing.highlighted}
                self._list()
        elif event.key in ("up", "down") and self._inquiry.options and self.query_one(Input).has_focus:
            event.stop()
            listing.focus()
        else:
            scrolled(self, event)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Options were chosen; an Enter that was pressed twice chooses once."""
        earlier = not (event.option_id or "").startswith(self._round)
        if earlier or time.monotonic() - self._asked_at < AGAIN_SECONDS:
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
        if self._over or self._parting:
            return
        self._words.append(words)
        if len(self._words) == len(self.question.inquiries):
            self.give(question_text.answered(self._words))
        else:
            self._ask()


def asked_line(screen: Screen[Any]) -> Text | None:
    """What the keys do while a dialog is in sight, for those who look at the last line."""
    if not isinstance(screen, QuestionScreen):
        says = screen.says if isinstance(screen, Dialog) else ""
        return Text(says, "warn") if says else None
    if not screen.keys:
        return None
    return Text(f"? a question has the keys · {screen.keys}", "warn")


class ScreenPerson:
    """Shows questions as dialogs of the app."""

    def __init__(self, app: "TerminalApp") -> None:
        self._app = app
        self._parted = asyncio.Event()
        self._parted.set()

    async def answer(self, question: Question) -> Answer:
        """Show one question and wait; it goes away when somebody else answers it."""
        app = self._app
        with suppress(TimeoutError):  # what lies on the last one may be read for long
            async with asyncio.timeout(2 * PARTING_SECONDS):
                await self._parted.wait()
        shown = InquiryScreen if question.inquiries else AskScreen
        screen = shown(question, app.paper, lambda: len(app.desk.waiting()))
        if isinstance(screen, InquiryScreen):
            screen.stay = app.desk.stay
        app.bell()
        try:
            answer = await app.ask(screen) or NO
        except asyncio.CancelledError:
            self._part(screen)
            raise
        if answer.silent:
            app.tell(Notice(LEFT_OPEN, task=question.task))
        return answer

    def _part(self, screen: AskScreen | InquiryScreen) -> None:
        """Somebody else has answered: that is said before the next question comes; typed words are kept."""
        if words := screen.unsent:
            composer = self._app.top.composer
            composer.put(f"{composer.text.rstrip()} {words}".strip())
        if screen.part():
            self._parted.clear()
            self._app.do(self._see_off(screen))

    async def _see_off(self, screen: AskScreen | InquiryScreen) -> None:
        """Say what became of a question as soon as the journal knows, until it has gone."""
        telling = asyncio.create_task(self._tell_end(screen))
        try:
            await screen.left.wait()
        finally:
            telling.cancel()
            self._parted.set()
        await asyncio.wait([telling])

    async def _tell_end(self, screen: AskScreen | InquiryScreen) -> None:
        if (talk := self._app.talk) is None:
            return
        async for _ in talk.gen.history.changes.looks():
            with suppress(GenCodeError):  # then it is not known yet
                if ended := await ended_question(talk.gen, screen.question):
                    screen.tell(told(ended, screen.question))
                    return
