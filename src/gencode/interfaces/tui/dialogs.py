"""Dialogs: their base class, a confirmation, a page to read, a list to choose from."""

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from rich.console import RenderableType
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from gencode.core.text import visible, visible_line
from gencode.interfaces.render.text_layout import folded
from gencode.interfaces.tui.error_boundary import ErrorBoundary
from gencode.interfaces.tui.strip_renderer import StripRenderer

Result = TypeVar("Result")
_RENDERER = StripRenderer(dark=True)
FRAME_LINES = 2
"""So many lines the frame around a dialog takes."""
HEIGHT_SHARE = 0.96
"""So much of the height of the screen a dialog may take, as the style sheet says."""
MIN_LINES = 3


class RenderedText(Static):
    """A rendered text or diff, as wide as there is room."""

    def __init__(self, drawn: RenderableType, renderer: StripRenderer, *, classes: str = "") -> None:
        super().__init__(classes=classes)
        self._drawn = drawn
        self._renderer = renderer

    def render(self) -> RenderableType:
        """The lines at the width of now."""
        from rich.segment import Segment, Segments

        lines = self._renderer.lines(self._drawn, self.content_size.width or 80)
        parts = [segment for line in lines for segment in (*line, Segment.line())]
        return Segments(parts[:-1])

    def draw(self, drawn: RenderableType) -> None:
        """Show something else, if it is something else."""
        if drawn != self._drawn:
            self._drawn = drawn
            self.refresh(layout=True)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """So many lines as the drawing has at this width."""
        return len(self._renderer.lines(self._drawn, width))


class WrappedText(Static):
    """A text whose columns stay columns where it is too wide."""

    def __init__(self, text: str) -> None:
        super().__init__(markup=False)
        self._prose = visible(text)

    def render(self) -> RenderableType:
        """The text at the width of now."""
        return Text(folded(self._prose, self.content_size.width or 80))

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """So many lines as the text has at this width."""
        return len(_RENDERER.lines(Text(folded(self._prose, width)), width))


class ScrollHint(Static):
    """A line under a part that scrolls: how much of it is out of sight, and which keys show it."""

    def __init__(self, part: VerticalScroll) -> None:
        super().__init__(markup=False, classes="below")
        self._part = part
        self._shown = ""
        self.display = False

    def update_count(self) -> None:
        """Say how it stands now."""
        below = round(self._part.max_scroll_y - self._part.scroll_offset.y)
        more = f"{below:,} more line{'s' if below != 1 else ''}"
        says = f"▼ {more} below · PageDown" if below else "▲ end · PageUp"
        self.display = self._part.max_scroll_y > 0
        if says != self._shown:
            self._shown = says
            self.update(Text(says, "bold"))


class Dialog(ErrorBoundary, ModalScreen[Result]):
    """A modal screen that gives one result, once: a second key press has no effect."""

    key_help: ClassVar[str] = ""
    """What the keys do while it is in sight, for those who look at the last line."""

    def __init__(self) -> None:
        super().__init__()
        self._dismissed = False
        self._withdrawn = False

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close it with what it gives; nothing happens when it was closed before, or lies below another."""
        if self._dismissed or not self.is_active:
            return AwaitComplete.nothing()
        self._dismissed = True
        return super().dismiss(result)

    def close_by_ctrl_c(self) -> None:
        """Ctrl+C closes it."""
        self.dismiss()

    def withdraw(self) -> None:
        """It is no longer wanted: it goes now, or when what lies on it is closed."""
        self._withdrawn = True
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        """What was withdrawn does not come back."""
        if self._withdrawn and self.is_mounted:
            self.dismiss()


def fit_height(dialog: Vertical, part: VerticalScroll, share: float = 1.0) -> None:
    """Give a part so many lines that the rest of its dialog stays in sight, in a share of the height."""
    others = [each for each in dialog.children if each is not part and each.display]
    taken = sum(max(each.outer_size.height, 1) + each.styles.margin.height for each in others)
    height = int(dialog.screen.size.height * min(share, HEIGHT_SHARE))
    room = max(height - FRAME_LINES - taken, MIN_LINES)
    if part.styles.max_height is None or part.styles.max_height.value != room:
        part.styles.max_height = room


def scroll_by_page_keys(screen: "Dialog[Any]", event: events.Key, behind: Widget | None = None) -> None:
    """The page keys scroll what a dialog shows, although its answers have the focus.

    From its beginning on they scroll what lies `behind` it.
    """
    if event.key not in ("pageup", "pagedown"):
        return
    event.stop()
    event.prevent_default()
    down = event.key == "pagedown"
    parts: list[Widget] = list(screen.query(VerticalScroll))
    below = [each for each in parts if each.scroll_offset.y < each.max_scroll_y]
    above = [each for each in reversed(parts) if each.scroll_offset.y > 0]
    if behind is not None:
        below = [behind, *below] if behind.scroll_offset.y < behind.max_scroll_y else below
        above = [*above, behind]
    for part in below[:1] if down else above[:1]:
        step = max(part.size.height - 1, 1)
        part.scroll_relative(y=step if down else -step, animate=False)


class ConfirmScreen(Dialog[bool]):
    """A confirmation: what an action affects, and yes or no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape", "answer(False)", show=False),
    ]
    key_help = "y confirms · n or Esc cancels"

    def __init__(self, text: str, yes: str = "continue") -> None:
        super().__init__()
        self._text = text
        self._yes = yes

    def compose(self) -> ComposeResult:
        """The sentence above the two answers."""
        with Vertical(classes="dialog"):
            with VerticalScroll(classes="body"):
                yield WrappedText(self._text)
            yield OptionList(Option(Text(f" y  {self._yes}")), Option(Text(" n  cancel")), markup=False)

    def on_mount(self) -> None:
        """Begin at no."""
        answers = self.query_one(OptionList)
        answers.highlighted = 1
        answers.focus()

    def on_key(self, event: events.Key) -> None:
        """The page keys scroll what is shown."""
        scroll_by_page_keys(self, event)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """One of them was chosen."""
        self.dismiss(event.option_index == 0)

    def action_answer(self, yes: bool) -> None:
        """One of them was pressed."""
        self.dismiss(yes)


class QuitScreen(ConfirmScreen):
    """The confirmation to quit. Ctrl+C confirms: who presses it again and again wants to leave."""

    key_help = "Ctrl+C or y stops them and quits · n or Esc cancels"

    def close_by_ctrl_c(self) -> None:
        """Ctrl+C leaves."""
        self.dismiss(True)


class ChoiceScreen(Dialog[str | None]):
    """A text above several answers, of which one is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", show=False)]
    key_help = "Up and Down select · Enter confirms · Esc cancels"

    def __init__(self, text: str, answers: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._text = text
        self._answers = answers

    def compose(self) -> ComposeResult:
        """The text above the answers."""
        with Vertical(classes="dialog wide"):
            with VerticalScroll(classes="body"):
                yield WrappedText(self._text)
            yield OptionList(*(Option(Text(f" {says}"), id=key) for key, says in self._answers), markup=False)

    def on_mount(self) -> None:
        """The first answer is marked."""
        answers = self.query_one(OptionList)
        answers.highlighted = 0
        answers.focus()

    def on_key(self, event: events.Key) -> None:
        """The page keys scroll what is shown."""
        scroll_by_page_keys(self, event)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """One of them was chosen."""
        self.dismiss(event.option_id)


class PageScreen(Dialog[None]):
    """A page to read; Esc or Enter closes it, and so does typing, which goes to the input."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter", "dismiss", show=False)]
    key_help = "Esc or Enter closes this page · start typing to write a message"

    def __init__(self, title: str, page: str | RenderedText) -> None:
        super().__init__()
        self._title = title
        self._page = page

    def compose(self) -> ComposeResult:
        """The title, then the text."""
        with Vertical(classes="dialog wide"):
            yield Static(Text(f"{visible_line(self._title, 100)}   (Esc closes)", "bold"), markup=False)
            with VerticalScroll(classes="body"):
                yield WrappedText(self._page) if isinstance(self._page, str) else self._page

    def on_mount(self) -> None:
        """The text scrolls at once."""
        self.query_one(VerticalScroll).focus()


class PickScreen(Dialog[str | None]):
    """A list to choose from; typing filters it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", show=False),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("down,ctrl+r", "move(1)", show=False, priority=True),
    ]
    key_help = "Type to filter · Enter selects · Esc closes"

    def __init__(self, title: str, lines: Sequence[tuple[str, str]], now: str = "") -> None:
        """`now` is the line that is marked first."""
        super().__init__()
        self._title = title
        self._lines = lines
        self._now = now

    def compose(self) -> ComposeResult:
        """The title, what narrows it, the list."""
        with Vertical(classes="dialog wide"):
            yield Static(Text(f"{self._title}   (Esc closes)", "bold"))
            yield Input(placeholder="Type to filter, Enter selects")
            yield OptionList(markup=False)

    def on_mount(self) -> None:
        """Everything is shown first."""
        self._narrow("")
        keys = [key for key, _ in self._lines]
        if self._now in keys:
            self.query_one(OptionList).highlighted = keys.index(self._now)
        self.query_one(Input).focus()

    def _narrow(self, typed: str) -> None:
        listing = self.query_one(OptionList)
        listing.clear_options()
        found = [(key, line) for key, line in self._lines if typed.casefold() in line.casefold()]
        listing.add_options(
            Option(Text(line, no_wrap=True, overflow="ellipsis"), id=key) for key, line in found
        )
        listing.highlighted = 0 if found else None

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what fits."""
        self._narrow(event.value)

    def on_input_submitted(self) -> None:
        """Take the line that is marked."""
        if (marked := self.query_one(OptionList).highlighted_option) is not None:
            self.dismiss(marked.id)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take the line that was clicked, also where the list has become another one since."""
        self.dismiss(event.option_id)

    def action_move(self, by: int) -> None:
        """Mark another line while the letters still narrow the list."""
        listing = self.query_one(OptionList)
        if by < 0:
            listing.action_cursor_up()
        else:
            listing.action_cursor_down()
