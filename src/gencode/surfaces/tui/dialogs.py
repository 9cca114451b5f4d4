"""Dialogs: a question of an agent, a verb to confirm, a page to read, a list to choose from."""

import time
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from gencode.runtime.asking import Answer, Inquiry, Question
from gencode.surfaces import questions
from gencode.surfaces.folding import folded
from gencode.surfaces.tui.painting import diff_lines
from gencode.surfaces.tui.paper import Paper
from gencode.surfaces.visible import exact, visible, visible_line

Given = TypeVar("Given")
NO = Answer(False, why=questions.SAID_NO)
_PAPER = Paper(dark=True)
GRACE_SECONDS = 0.6
"""So long a question takes no answer: what is typed at that moment was meant for something else."""


class Sheet(Static):
    """Something drawn on paper, as wide as there is room."""

    def __init__(self, drawn: RenderableType, paper: Paper, *, classes: str = "") -> None:
        super().__init__(classes=classes)
        self._drawn = drawn
        self._paper = paper

    def render(self) -> RenderableType:
        """The lines at the width of now."""
        from rich.segment import Segment, Segments

        lines = self._paper.lines(self._drawn, self.content_size.width or 80)
        parts = [segment for line in lines for segment in (*line, Segment.line())]
        return Segments(parts[:-1])

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """So many lines as the drawing has at this width."""
        return len(self._paper.lines(self._drawn, width))


class Prose(Static):
    """A text whose columns stay columns where it is too wide."""

    def __init__(self, text: str) -> None:
        super().__init__(markup=False)
        self._prose = visible(text)

    def render(self) -> RenderableType:
        """The text at the width of now."""
        return Text(folded(self._prose, self.content_size.width or 80))

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """So many lines as the text has at this width."""
        return len(_PAPER.lines(Text(folded(self._prose, width)), width))


class Dialog(ModalScreen[Given]):
    """Gives one answer, once: a key that was pressed twice finds it gone already."""

    def __init__(self) -> None:
        super().__init__()
        self._over = False
        self._withdrawn = False
        self._shown_at = time.monotonic()

    @property
    def listens(self) -> bool:
        """Whether it was in sight long enough for a key to be meant for it, and is not answered yet."""
        return not self._over and time.monotonic() - self._shown_at >= GRACE_SECONDS

    def dismiss(self, result: Given | None = None) -> AwaitComplete:
        """Close it with what it gives; nothing happens when it was closed before, or lies below another."""
        if self._over or not self.is_active:
            return AwaitComplete.nothing()
        self._over = True
        return super().dismiss(result)

    def withdraw(self) -> None:
        """It is no longer wanted: it goes now, or when what lies on it is closed."""
        self._withdrawn = True
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        """What was withdrawn does not come back."""
        if self._withdrawn and self.is_mounted:
            self.dismiss()


def scrolled(screen: "Dialog[Any]", event: events.Key) -> None:
    """The page keys scroll what a dialog shows, although its answers have the focus."""
    if event.key in ("pageup", "pagedown"):
        event.stop()
        event.prevent_default()
        down = event.key == "pagedown"
        parts = list(screen.query(VerticalScroll))
        below = [each for each in parts if each.scroll_offset.y < each.max_scroll_y]
        above = [each for each in reversed(parts) if each.scroll_offset.y > 0]
        for part in below[:1] if down else above[:1]:
            step = max(part.size.height - 1, 1)
            part.scroll_relative(y=step if down else -step, animate=False)


class AskScreen(Dialog[Answer]):
    """One question: who asks, exactly what, which rule asked; one key answers."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "no", show=False)]

    def __init__(self, question: Question, waiting: int, paper: Paper) -> None:
        super().__init__()
        self.question = question
        self._waiting = waiting
        self._paper = paper
        self._choices = questions.choices(question)

    def compose(self) -> ComposeResult:
        """The question above its answers."""
        more = f"  ({self._waiting - 1} more wait)" if self._waiting > 1 else ""
        head = Text(questions.headline(self.question), "bold")
        head.append(f"  task {self.question.task}{more}", "faint")
        parts: list[RenderableType] = [Text(questions.exactly(self.question), "warn")]
        if preview := questions.preview_lines(self.question):
            parts += [Text(""), diff_lines(preview)]
        why = Text(questions.reason(self.question), "faint")
        if allowed := questions.allows(self.question):
            why.append(f"\nA yes for more than this call allows: {allowed}")
        with Vertical(classes="dialog"):
            yield Sheet(head, self._paper)
            with VerticalScroll(classes="body exactly"):
                yield Sheet(Group(*parts), self._paper)
            with VerticalScroll(classes="body why"):  # never below the fold of what is asked
                yield Sheet(why, self._paper)
            yield OptionList(
                *(Option(Text(f" {each.key}  {each.says}")) for each in self._choices), markup=False
            )

    def on_mount(self) -> None:
        """Nothing is chosen by accident: the last answer, no, is where it begins."""
        self._shown_at = time.monotonic()
        answers = self.query_one(OptionList)
        answers.highlighted = len(self._choices) - 1
        answers.focus()

    def on_key(self, event: events.Key) -> None:
        """A key of an answer gives it; the page keys scroll the question."""
        for choice in self._choices:
            if event.character == choice.key:
                event.stop()
                if self.listens:
                    self.dismiss(choice.answer)
                return
        scrolled(self, event)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """An answer was chosen."""
        if self.listens:
            self.dismiss(self._choices[event.option_index].answer)

    def action_no(self) -> None:
        """Escape is a no."""
        if self.listens:
            self.dismiss(NO)


class InquiryScreen(Dialog[Answer]):
    """What an agent wants to know, one thing after the other: an option, several, or words of one's own."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "no", show=False)]

    def __init__(self, question: Question, paper: Paper) -> None:
        super().__init__()
        self.question = question
        self._paper = paper
        self._words: list[str] = []
        self._marked: set[int] = set()

    @property
    def _inquiry(self) -> Inquiry:
        return self.question.inquiries[len(self._words)]

    def compose(self) -> ComposeResult:
        """The question, its options, and a line for other words."""
        with Vertical(classes="dialog"):
            yield Static(classes="asked", markup=False)
            yield OptionList(markup=False)
            yield Input(placeholder="or type an answer of your own, then Enter")

    def on_mount(self) -> None:
        """Ask the first thing."""
        self._ask()

    def _ask(self) -> None:
        self._shown_at = time.monotonic()
        inquiry = self._inquiry
        number = f" ({len(self._words) + 1} of {len(self.question.inquiries)})"
        several = number if len(self.question.inquiries) > 1 else ""
        head = Text(f"{questions.who(self.question)} asks{several}:\n", "bold")
        head.append(exact(inquiry.question), "not bold")
        if inquiry.many:
            head.append("\n(Space marks several, Enter sends them)", "dim")
        self.query_one(".asked", Static).update(head)
        self._marked = set()
        self._list()
        self.query_one(Input).value = ""
        (self.query_one(OptionList) if inquiry.options else self.query_one(Input)).focus()

    def _list(self) -> None:
        listing = self.query_one(OptionList)
        at = listing.highlighted
        listing.clear_options()
        for number, (label, says) in enumerate(questions.inquiry_choices(self._inquiry)):
            mark = ("☑ " if number in self._marked else "☐ ") if self._inquiry.many else ""
            line = Text(f"{mark}{label}")
            line.append(f"  {says}" if says else "", "dim")
            listing.add_option(Option(line))
        listing.display = bool(self._inquiry.options)
        listing.highlighted = at or 0

    def on_key(self, event: events.Key) -> None:
        """Space marks an option where several may be chosen."""
        listing = self.query_one(OptionList)
        if event.key == "space" and not self._over and self._inquiry.many and listing.has_focus:
            event.stop()
            if listing.highlighted is not None:
                self._marked ^= {listing.highlighted}
                self._list()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Options were chosen."""
        if not self.listens:
            return
        chosen = sorted(self._marked) if self._inquiry.many and self._marked else [event.option_index]
        self._take(", ".join(self._inquiry.options[each].label for each in chosen))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Words were typed."""
        if event.value.strip() and not self._over:
            self._take(event.value.strip())

    def _take(self, words: str) -> None:
        self._words.append(words)
        if len(self._words) == len(self.question.inquiries):
            self.dismiss(questions.answered(self._words))
        else:
            self._ask()

    def action_no(self) -> None:
        """Escape answers nothing."""
        if self.listens:
            self.dismiss(Answer(False, why=questions.NOT_ANSWERED))


class ConfirmScreen(Dialog[bool]):
    """What something would hit, and a yes or no to it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape", "answer(False)", show=False),
    ]

    def __init__(self, text: str, yes: str = "do it") -> None:
        super().__init__()
        self._text = text
        self._yes = yes

    def compose(self) -> ComposeResult:
        """The sentence above the two answers."""
        with Vertical(classes="dialog"):
            with VerticalScroll(classes="body"):
                yield Prose(self._text)
            yield OptionList(Option(Text(f" y  {self._yes}")), Option(Text(" n  leave it")), markup=False)

    def on_mount(self) -> None:
        """Begin at no."""
        answers = self.query_one(OptionList)
        answers.highlighted = 1
        answers.focus()

    def on_key(self, event: events.Key) -> None:
        """The page keys scroll what is shown."""
        scrolled(self, event)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """One of them was chosen."""
        self.dismiss(event.option_index == 0)

    def action_answer(self, yes: bool) -> None:
        """One of them was pressed."""
        self.dismiss(yes)


class PageScreen(Dialog[None]):
    """Something to read; Esc or q closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", show=False)]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._head = title
        self._text = text

    def compose(self) -> ComposeResult:
        """The title, then the text."""
        with Vertical(classes="dialog wide"):
            yield Static(Text(f"{visible_line(self._head, 100)}   (Esc closes)", "bold"), markup=False)
            with VerticalScroll(classes="body"):
                yield Prose(self._text)

    def on_mount(self) -> None:
        """The text scrolls at once."""
        self.query_one(VerticalScroll).focus()


class PickScreen(Dialog[str | None]):
    """A list to choose from; typing narrows it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", show=False),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
    ]

    def __init__(self, title: str, lines: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._head = title
        self._lines = lines
        self._shown: list[str] = []

    def compose(self) -> ComposeResult:
        """The title, what narrows it, the list."""
        with Vertical(classes="dialog wide"):
            yield Static(Text(f"{self._head}   (Esc closes)", "bold"))
            yield Input(placeholder="type to narrow the list, Enter opens")
            yield OptionList(markup=False)

    def on_mount(self) -> None:
        """Everything is shown first."""
        self._narrow("")
        self.query_one(Input).focus()

    def _narrow(self, typed: str) -> None:
        listing = self.query_one(OptionList)
        listing.clear_options()
        found = [(key, line) for key, line in self._lines if typed.casefold() in line.casefold()]
        self._shown = [key for key, _ in found]
        listing.add_options(Option(Text(line, no_wrap=True, overflow="ellipsis")) for _, line in found)
        listing.highlighted = 0 if found else None

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what fits."""
        self._narrow(event.value)

    def on_input_submitted(self) -> None:
        """Take the line that is marked."""
        at = self.query_one(OptionList).highlighted
        if at is not None:
            self.dismiss(self._shown[at])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take the line that was clicked."""
        self.dismiss(self._shown[event.option_index])

    def action_move(self, by: int) -> None:
        """Mark another line while the letters still narrow the list."""
        listing = self.query_one(OptionList)
        if by < 0:
            listing.action_cursor_up()
        else:
            listing.action_cursor_down()
