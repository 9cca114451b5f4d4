"""The input: several lines, history, paste, and completion after `@` and `/`."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import unquote

from msgspec import Struct
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from gencode.core.messages import Image
from gencode.core.text import visible_line
from gencode.files.images import LARGEST_PICTURE, image_of
from gencode.interfaces.chat.input_completion import Completion
from gencode.interfaces.chat.prompt_history import PromptHistory
from gencode.interfaces.chat.slash_commands import is_known_command
from gencode.interfaces.tui.editor import Editor, without_controls
from gencode.interfaces.tui.error_boundary import ErrorBoundary
from gencode.interfaces.tui.vim_editor import VimEditor

MAX_PASTE = 2_000_000
MAX_INLINE_PASTE = 8_000
MAX_INLINE_LINES = 100
"""A pasted text that is longer than this is shown as one line."""
PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_COMPLETION_KEYS = ("up", "down", "tab", "enter", "escape")


class Draft(Struct, frozen=True):
    """What is typed, with what was pasted by what stands for each of it."""

    text: str
    attached: dict[str, str | Image] = {}


def dropped_pictures(pasted: str) -> list[tuple[Path, Image | str]]:
    """The pictures whose paths were pasted, as terminals do with files that are dropped on them.

    Each as it is, or what is wrong with it. Nothing where anything else stands among them.
    """
    if len(pasted) > MAX_INLINE_PASTE or not any(ending in pasted.casefold() for ending in PICTURE_ENDINGS):
        return []
    try:
        words = [pasted.strip()] if Path(pasted.strip()).is_absolute() else []
        words = words if words and Path(words[0]).is_file() else shlex.split(pasted)
        paths = [Path(unquote(word.removeprefix("file://")) if "://" in word else word) for word in words]
        if not all(each.is_absolute() and each.suffix.casefold() in PICTURE_ENDINGS for each in paths):
            return []
        return [(path, image_of(_read(path))) for path in paths]
    except (OSError, ValueError):
        return []


def _read(path: Path) -> bytes:
    """A regular file, so far as it may be a picture."""
    if not path.is_file():  # nobody waits for a pipe
        raise FileNotFoundError(path)
    with path.open("rb") as file:
        return file.read(LARGEST_PICTURE + 1)


class Composer(ErrorBoundary, Vertical):
    """Sends what is typed."""

    class Submitted(Message):
        """A message or a command was submitted, as it was typed in `draft`."""

        def __init__(self, text: str, images: tuple[Image, ...], draft: "Draft") -> None:
            super().__init__()
            self.text = text
            self.images = images
            self.draft = draft

    class Remarked(Message):
        """Something about what was pasted has to be said."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class TranscriptWanted(Message):
        """The focus should go to the transcript."""

    def __init__(
        self, history: PromptHistory, offers: Callable[[str], Sequence[Completion]], *, vim: bool = False
    ) -> None:
        super().__init__()
        self._history = history
        self._complete_text = offers
        self._completions: Sequence[Completion] = ()
        self._completed_text: str | None = None
        self._dismissed_for: str | None = None
        """The text for which no completion is wanted."""
        self._moved = False
        """Whether somebody went through the completions."""
        self._attached: dict[str, str | Image] = {}
        """Long texts and pictures that were pasted, by what stands for each of them."""
        self.editor = (VimEditor if vim else Editor)(self._handle_key, self._collapse_paste)
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

    def set_text(self, text: str) -> None:
        """Replace what is typed, and stand at its end."""
        text = without_controls(text)
        self._dismissed_for = text
        self._completed_text = None
        self.editor.load_text(text)
        self.editor.move_cursor(self.editor.document.end)
        self.hide()

    def hide(self) -> None:
        """Show no completions."""
        self._completions = ()
        self.choices.display = False

    def on_text_area_changed(self) -> None:
        """Offer what may follow; word of a change may come after the next key."""
        if self.text in (self._dismissed_for, self._completed_text):
            return
        before = self.editor.get_text_range((0, 0), self.editor.cursor_location)
        self._completed_text = self.text
        self._dismissed_for = None
        self._moved = False
        self._completions = self._complete_text(before) if before == self.text else ()
        self.choices.clear_options()
        for offer in self._completions:
            line = Text(visible_line(offer.label, 80), no_wrap=True, overflow="ellipsis")
            line.append(f"  {visible_line(offer.says, 120)}" if offer.says else "", "dim")
            self.choices.add_option(Option(line))
        self.choices.display = bool(self._completions)
        if self._completions:
            self.choices.highlighted = 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A completion was clicked."""
        event.stop()
        self.choices.highlighted = event.option_index
        self._complete()

    def _handle_key(self, key: str) -> bool:
        """What a key means here; False when it is only text."""
        if key in _COMPLETION_KEYS:
            self.on_text_area_changed()
        if self.completing and key in _COMPLETION_KEYS:
            return self._completion_key(key)
        match key:
            case "enter":
                self._send()
            case "up" if self.editor.cursor_at_first_line and self._earlier():
                pass
            case "down" if self.editor.cursor_at_last_line and self._later():
                pass
            case "tab":
                self.post_message(self.TranscriptWanted())
            case _:
                return False
        return True

    def _completion_key(self, key: str) -> bool:
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
                self._dismissed_for = self.text
                self.hide()
        return True

    def _is_whole(self) -> bool:
        """Whether what is typed can be sent as it is: it is what would be taken, or a word of a command."""
        if self.text.startswith("/") and len(self.text.split()) > 1 and not self._moved:
            return "@" not in self.text
        if not self._moved and is_known_command(self.text):  # also under its other name
            return True
        chosen = self._chosen()
        return chosen is not None and chosen.text.strip() == self.text.strip() and "@" not in self.text

    def _chosen(self) -> Completion | None:
        at = self.choices.highlighted
        return self._completions[at] if at is not None and at < len(self._completions) else None

    def _complete(self) -> None:
        if chosen := self._chosen():
            self.set_text(chosen.text)

    def _collapse_paste(self, pasted: str) -> str:
        """A pasted text, or what stands for it where it is long or names pictures; sent, it is that again."""
        text = without_controls(pasted[:MAX_PASTE])
        if pictures := dropped_pictures(text):
            return " ".join(self._mark_for(path.name, found) or str(path) for path, found in pictures)
        lines = text.count("\n") + 1
        if len(text) <= MAX_INLINE_PASTE and lines <= MAX_INLINE_LINES:
            return text
        cut = ", truncated" if len(pasted) > MAX_PASTE else ""
        mark = f"[pasted text {len(self._attached) + 1}: {lines:,} lines, {len(text):,} characters{cut}]"
        self._attached[mark] = text
        return mark

    def attach_picture(self, raw: bytes) -> None:
        """Attach a picture from the clipboard."""
        self.editor.insert(self._mark_for("clipboard", image_of(raw)))

    def _mark_for(self, name: str, found: Image | str) -> str:
        """What stands for a picture; nothing where it is none, which is said."""
        if isinstance(found, str):
            self.post_message(self.Remarked(f"{visible_line(name, 60)} was not attached: an image {found}."))
            return ""
        mark = f"[image {len(self._attached) + 1}: {visible_line(name, 60)}]"
        self._attached[mark] = found
        return mark

    @property
    def whole_text(self) -> str:
        """What is typed, with the long texts that were pasted."""
        text = self.text
        for mark, pasted in self._attached.items():
            text = text.replace(mark, pasted) if isinstance(pasted, str) else text
        return text.strip("\n").rstrip()

    def restore(self, draft: "Draft") -> None:
        """What could not be sent stands in the input again, unless something else does by now."""
        if not self.text:
            self._attached = dict(draft.attached)
            self.set_text(draft.text)

    def _send(self) -> None:
        draft, text = Draft(self.text, self._attached), self.whole_text
        if not text.strip():
            return
        images = tuple(
            each for mark, each in self._attached.items() if isinstance(each, Image) and mark in text
        )
        self._attached = {}
        self._history.add(text)
        self.set_text("")
        self.post_message(self.Submitted(text, images, draft))

    def _earlier(self) -> bool:
        found = self._history.earlier(self.text)
        if found is not None:
            self.set_text(found)
        return found is not None or not self.text

    def _later(self) -> bool:
        found = self._history.later()
        if found is not None:
            self.set_text(found)
        return found is not None
