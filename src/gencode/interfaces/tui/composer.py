"""Where a person types: several lines, history, paste, and completion behind `@` and `/`."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from gencode.core.text import visible_line
from gencode.interfaces.chat.input_completion import Completion
from gencode.interfaces.chat.prompt_history import PromptHistory
from gencode.interfaces.tui.error_boundary import ActionBorder

MOST_PASTED = 2_000_000
LONGEST_PASTED = 8_000
MOST_LINES = 100
"""A pasted text that is longer than this is shown as one line."""
_CHOOSE = ("up", "down", "tab", "enter", "escape")
_CONTROLS = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


def as_typed(text: str) -> str:
    """A text as somebody could have typed it: plain line ends, and nothing that would act on the terminal."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)


class Editor(ActionBorder, TextArea):
    """The text itself. Keys that belong to the composer are handed to it first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+j,shift+enter,alt+enter", "new_line", "new line", show=False)
    ]

    class Pressed(Message):
        """A key that may mean something else than text."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, taken: Callable[[str], bool], folded: Callable[[str], str]) -> None:
        """`taken` is asked first about every key, `folded` gives what stands for a pasted text."""
        super().__init__(soft_wrap=True, show_line_numbers=False, compact=True)
        self._taken = taken
        self._folded = folded

    def on_key(self, event: events.Key) -> None:
        """Let the composer have the key; what it does not want is text."""
        if self._taken(event.key):
            event.stop()
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """Put pasted text in, whatever its line ends; nothing in it is a key."""
        event.stop()
        event.prevent_default()
        self.replace(self._folded(event.text), *self.selection, maintain_selection_offset=False)

    def action_new_line(self) -> None:
        """Break the line."""
        self.replace("\n", *self.selection, maintain_selection_offset=False)


class Composer(ActionBorder, Vertical):
    """Sends what is typed."""

    class Sent(Message):
        """A person said something."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """Somebody wants to go from here to the transcript."""

    def __init__(self, history: PromptHistory, offers: Callable[[str], Sequence[Completion]]) -> None:
        super().__init__()
        self._history = history
        self._offers = offers
        self._offered: Sequence[Completion] = ()
        self._offered_for: str | None = None
        self._settled: str | None = None
        """The text for which no completion is wanted."""
        self._moved = False
        """Whether somebody went through the completions."""
        self._pastes: dict[str, str] = {}
        """Long texts that were pasted, by what stands for each of them."""
        self.editor = Editor(self._taken, self._fold)
        self.choices = OptionList(markup=False)

    def compose(self) -> ComposeResult:
        """The completions above the text."""
        self.choices.can_focus = False
        self.choices.display = False
        yield self.choices
        yield self.editor

    @property
    def text(self) -> str:
        """What is typed."""
        return self.editor.text

    @property
    def completing(self) -> bool:
        """Whether completions are shown."""
        return bool(self.choices.display)

    def put(self, text: str) -> None:
        """Replace what is typed, and stand at its end."""
        text = as_typed(text)
        self._settled = text
        self._offered_for = None
        self.editor.load_text(text)
        self.editor.move_cursor(self.editor.document.end)
        self.hide()

    def hide(self) -> None:
        """Show no completions."""
        self._offered = ()
        self.choices.display = False

    def on_text_area_changed(self) -> None:
        """Offer what may follow; word of a change may come after the next key."""
        if self.text in (self._settled, self._offered_for):
            return
        before = self.editor.get_text_range((0, 0), self.editor.cursor_location)
        self._offered_for = self.text
        self._settled = None
        self._moved = False
        self._offered = self._offers(before) if before == self.text else ()
        self.choices.clear_options()
        for offer in self._offered:
            line = Text(visible_line(offer.shown, 80), no_wrap=True, overflow="ellipsis")
            line.append(f"  {visible_line(offer.says, 120)}" if offer.says else "", "dim")
            self.choices.add_option(Option(line))
        self.choices.display = bool(self._offered)
        if self._offered:
            self.choices.highlighted = 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A completion was clicked."""
        event.stop()
        self.choices.highlighted = event.option_index
        self._complete()

    def _taken(self, key: str) -> bool:
        """What a key means here; False when it is only text."""
        if key in _CHOOSE:
            self.on_text_area_changed()
        if self.completing and key in _CHOOSE:
            return self._in_choices(key)
        match key:
            case "enter":
                self._send()
            case "up" if self.editor.cursor_at_first_line and self._earlier():
                pass
            case "down" if self.editor.cursor_at_last_line and self._later():
                pass
            case "tab":
                self.post_message(self.Left())
            case _:
                return False
        return True

    def _in_choices(self, key: str) -> bool:
        match key:
            case "up":
                self._moved = True
                self.choices.action_cursor_up()
            case "down":
                self._moved = True
                self.choices.action_cursor_down()
            case "enter" if self._is_whole():
                self._send()
            case "tab" | "enter":
                self._complete()
            case _:
                self._settled = self.text
                self.hide()
        return True

    def _is_whole(self) -> bool:
        """Whether what is typed can be sent as it is: it is what would be taken, or a word of a command."""
        if self.text.startswith("/") and len(self.text.split()) > 1 and not self._moved:
            return "@" not in self.text
        chosen = self._chosen()
        return chosen is not None and chosen.text.strip() == self.text.strip() and "@" not in self.text

    def _chosen(self) -> Completion | None:
        at = self.choices.highlighted
        return self._offered[at] if at is not None and at < len(self._offered) else None

    def _complete(self) -> None:
        if chosen := self._chosen():
            self.put(chosen.text)

    def _fold(self, pasted: str) -> str:
        """A pasted text, or a line that stands for it where it is long; sent, it is the text again."""
        text = as_typed(pasted[:MOST_PASTED])
        lines = text.count("\n") + 1
        if len(text) <= LONGEST_PASTED and lines <= MOST_LINES:
            return text
        cut = ", the rest was cut" if len(pasted) > MOST_PASTED else ""
        mark = f"[pasted text {len(self._pastes) + 1}: {lines:,} lines, {len(text):,} characters{cut}]"
        self._pastes[mark] = text
        return mark

    def _send(self) -> None:
        text = self.text
        for mark, pasted in self._pastes.items():
            text = text.replace(mark, pasted)
        text = text.strip("\n").rstrip()
        if not text.strip():
            return
        self._pastes = {}
        self._history.add(text)
        self.put("")
        self.post_message(self.Sent(text))

    def _earlier(self) -> bool:
        found = self._history.earlier(self.text)
        if found is not None:
            self.put(found)
        return found is not None or not self.text

    def _later(self) -> bool:
        found = self._history.later()
        if found is not None:
            self.put(found)
        return found is not None
