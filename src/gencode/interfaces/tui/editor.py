"""The text field of the input: several lines, and keys that may mean something else than text."""

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from gencode.interfaces.tui.error_boundary import ErrorBoundary

_CONTROL_CHARACTERS = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


def without_controls(text: str) -> str:
    """A text as somebody could have typed it: plain line ends, and nothing that would act on the terminal."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROL_CHARACTERS)


class Editor(ErrorBoundary, TextArea):
    """The text itself. Keys that belong to the composer are handed to it first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+j,shift+enter,alt+enter", "new_line", show=False, id="new_line"),
        Binding("ctrl+v", "paste", show=False, id="paste"),
    ]

    class PictureWanted(Message):
        """A picture on the clipboard is to be attached."""

    def __init__(self, taken: Callable[[str], bool], folded: Callable[[str], str]) -> None:
        """`taken` is asked first about every key, `folded` gives what stands for a pasted text."""
        super().__init__(soft_wrap=True, show_line_numbers=False, compact=True, highlight_cursor_line=False)
        self._handle_key = taken
        self._collapse = folded

    def on_key(self, event: events.Key) -> None:
        """Let the composer have the key; what it does not want is text."""
        if self._handle_key(event.key):
            event.stop()
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """Put pasted text in, whatever its line ends; nothing in it is a key."""
        event.stop()
        event.prevent_default()
        self.replace(self._collapse(event.text), *self.selection, maintain_selection_offset=False)

    def action_paste(self) -> None:
        """A picture may be on the clipboard; the terminal pastes text by itself."""
        self.post_message(self.PictureWanted())

    def paste_copied(self) -> None:
        """Paste what was cut or copied here."""
        super().action_paste()

    def action_new_line(self) -> None:
        """Break the line."""
        self.replace("\n", *self.selection, maintain_selection_offset=False)
