"""Attention: which keys were meant for a question, and which for the text that was typed when it came."""

import asyncio
import time
from typing import Any, TypeVar

from textual import events
from textual.screen import Screen
from textual.widgets import Input

from gencode.surfaces.tui.border import BorderedApp
from gencode.surfaces.tui.composer import Editor
from gencode.surfaces.tui.dialogs import Dialog, PageScreen
from gencode.surfaces.tui.tree import TreePanel

Given = TypeVar("Given")
QUIET_SECONDS = 1.0
"""A question takes no key before there was a pause of this length, which every key begins anew."""
_ERASES = "backspace"
_READS = frozenset({"pageup", "pagedown"})
_NEVER = float("-inf")


class GuardedDialog(Dialog[Given]):
    """A dialog that nobody called: it takes a key once there was a pause since it came into sight."""

    def __init__(self) -> None:
        super().__init__()
        self._seen_at = time.monotonic()
        self._pressed_at = _NEVER
        self._awake = False
        self.in_sight = False

    def on_mount(self) -> None:
        """It is in sight from its first frame on."""
        self.call_after_refresh(self._come_into_sight)

    def _come_into_sight(self) -> None:
        self._seen_at = time.monotonic()
        self.in_sight = True

    @property
    def field(self) -> Input | None:
        """Where words go that are typed at it, whatever has the focus; None where none can be typed."""
        return None

    def takes(self, at: float, before: float) -> bool:
        """Whether what was pressed at this moment is meant for it; `before` is when the last key was."""
        self._awake = self._awake or at - max(before, self._seen_at) >= QUIET_SECONDS
        self._pressed_at = at
        return self._awake

    @property
    def waits(self) -> bool:
        """Whether a key would be left alone at this moment."""
        return not self._awake and time.monotonic() - max(self._pressed_at, self._seen_at) < QUIET_SECONDS


class AttentiveApp(BorderedApp):
    """An app whose guarded dialogs take only the keys that were meant for them.

    The time of a key is the one at which it was read, however late the app comes to it.
    """

    pressed_at = _NEVER
    """When the last key was pressed, whatever for."""
    typed_at = _NEVER
    """When the last one was pressed that belongs to a text which is being typed."""

    async def on_event(self, event: events.Event) -> None:
        """Leave alone what is not meant for the dialog in sight; what belongs to a text goes on into it."""
        acts = isinstance(event, events.Key | events.Paste | events.MouseDown | events.MouseUp)
        if acts and not event.is_forwarded and not self._is_meant(event):
            return
        await super().on_event(event)

    async def ask(self, screen: Screen[Given]) -> Given | None:
        """Show a dialog and wait for what it gives."""
        given: asyncio.Future[Given | None] = asyncio.get_running_loop().create_future()

        def take(answer: Given | None) -> None:
            if not given.done():
                given.set_result(answer)

        await self.push_screen(screen, take)
        return await given

    def _is_meant(self, event: events.Event) -> bool:
        before, self.pressed_at = self.pressed_at, event.time
        screen: Screen[Any] = self.screen
        if self._leaves_for_text(event, screen):
            if isinstance(screen, PageScreen):
                screen.dismiss()
            self.typed_at = event.time
            self._go_on_typing(event, focused=True)
            return False
        if not isinstance(screen, GuardedDialog) or screen.takes(event.time, before):
            field = screen.field if isinstance(screen, GuardedDialog) else None
            if field is not None and _begins_text(event):
                screen.set_focus(field)  # before the next key, which may be the Enter that sends it
            into_text = isinstance(self.focused, Editor | Input) and _is_text(event)
            self.typed_at = event.time if into_text else _NEVER
            return True
        if self._is_no_answer(event):
            return True
        if _is_text(event) and event.time - self.typed_at < QUIET_SECONDS:
            self.typed_at = event.time
            self._go_on_typing(event)
        return False

    def _leaves_for_text(self, event: events.Event, screen: Screen[Any]) -> bool:
        """Whether somebody begins to write where it means nothing else; the next key goes there as well."""
        if isinstance(screen, PageScreen):
            return _begins_text(event)
        if isinstance(self.focused, Editor | Input) or not screen.query(Editor):
            return False
        if isinstance(self.focused, TreePanel) and isinstance(event, events.Key):
            return event.character == "/"
        return _is_text(event) and not _erases(event)

    def _is_no_answer(self, event: events.Event) -> bool:
        """Whether it is a key that answers nothing: it reads on, or belongs to the whole app."""
        if not isinstance(event, events.Key):
            return False
        ours = self._bindings.key_to_bindings.get(event.key, ())
        return event.key in _READS or any(binding.priority for binding in ours)

    def _go_on_typing(self, event: events.Event, *, focused: bool = False) -> None:
        """Put a piece of text where the pieces before it went, or where those after it are to go."""
        editors = (editor for screen in reversed(self.screen_stack) for editor in screen.query(Editor))
        editor = next(editors, None)
        if editor is None:
            return
        if focused:
            editor.screen.set_focus(editor)
        if isinstance(event, events.Paste):
            editor.on_paste(event)
        elif _erases(event):
            editor.action_delete_left()
        elif isinstance(event, events.Key) and event.character:
            editor.insert(event.character)


def _begins_text(event: events.Event) -> bool:
    """Whether somebody begins to write with it: there is nothing to erase yet, nor to keep apart."""
    if isinstance(event, events.Key):
        return event.is_printable and bool((event.character or "").strip())
    return isinstance(event, events.Paste)


def _is_text(event: events.Event) -> bool:
    """Whether it is a piece of a text, not a key that does something with it."""
    if isinstance(event, events.Key):
        return _erases(event) or (event.is_printable and bool(event.character))
    return isinstance(event, events.Paste)


def _erases(event: events.Event) -> bool:
    return isinstance(event, events.Key) and event.key == _ERASES
