"""Keyboard input: handled in order, and never taken as an answer to a dialog that just appeared."""

import asyncio
import time
from collections import deque
from typing import Any, TypeGuard, TypeVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.driver import Driver
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input

from gencode.core.text import UNFINISHED
from gencode.interfaces.tui.dialogs import Dialog, PageScreen
from gencode.interfaces.tui.editor import Editor
from gencode.interfaces.tui.error_boundary import ErrorBoundaryApp

Result = TypeVar("Result")
QUIET_SECONDS = 1.0
"""A question takes no key before there was a pause of this length, which every key begins anew."""
ROUNDS = 2
"""The next key waits for what a key does, and for the messages which that sends: a choice, a change."""
CHECK_SECONDS = 0.05
MAX_CHECKS = 40
"""So often a key is looked for while others wait behind it; each look proves that the app itself goes on."""
_ERASE_KEY = "backspace"
_SCROLL_KEYS = frozenset({"pageup", "pagedown"})
_NEVER = float("-inf")


class GuardedDialog(Dialog[Result]):
    """A dialog that appears by itself: it accepts keys only after a pause since it became visible."""

    def __init__(self) -> None:
        super().__init__()
        self._seen_at = time.monotonic()
        self._pressed_at = _NEVER
        self._accepting = False
        self.held: list[events.Key] = []
        """The letter of an answer, as often as it was pressed: it marks that answer unless a text follows."""
        self.in_sight = False

    def on_mount(self) -> None:
        """It is in sight from its first frame on."""
        self.call_after_refresh(self._come_into_sight)

    def _come_into_sight(self) -> None:
        self._seen_at = time.monotonic()
        self.in_sight = True

    def on_screen_resume(self) -> None:
        """What lay on it has gone: the key that closed it may come twice."""
        super().on_screen_resume()
        self.pause()

    def pause(self) -> None:
        """It waits anew: what was pressed was meant for something else, and so may be what follows."""
        self._seen_at = time.monotonic()
        self._accepting = False
        self.held = []

    @property
    def text_field(self) -> Input | None:
        """Where words go that are typed at it, whatever has the focus; None where none can be typed."""
        return None

    def accepts(self, at: float, before: float) -> bool:
        """Whether what was pressed at this moment is meant for it; `before` is when the last key was."""
        self._accepting = self._accepting or at - max(before, self._seen_at) >= QUIET_SECONDS
        self._pressed_at = at
        return self._accepting

    def takes(self, event: events.Event) -> bool:
        """Whether a piece of text means something here."""
        return True

    def text_followed(self) -> None:
        """What was pressed was not an answer but the beginning of a text."""
        self.pause()

    @property
    def is_pausing(self) -> bool:
        """Whether a key would be left alone at this moment."""
        return not self._accepting and time.monotonic() - max(self._pressed_at, self._seen_at) < QUIET_SECONDS


class InputBarrier(Message):
    """A message that follows an input event through the queues of the widgets that may handle it."""

    def __init__(self, target: MessagePump, rounds: int) -> None:
        super().__init__()
        self.target = target
        self.rounds = rounds
        self.checks = 0


class OrderedInputApp(ErrorBoundaryApp):
    """An app that handles input one event at a time, in the order in which it was read.

    Textual hands a key to the focused widget and goes on with the next one. A letter is inserted there, but a
    key that is bound to an action first passes the queues of all ancestors, and one that is bound with
    priority passes none: of keys that arrive together, some overtake others. So the next event waits here
    until a probe, which was sent the same way behind the one before it, has come back.
    """

    _barrier: InputBarrier | None = None
    """Follows the event that is being handled."""
    _is_typing = False
    """Whether that event is a letter."""
    _watch: Timer | None = None

    def __init__(self, driver_class: type[Driver]) -> None:
        super().__init__(driver_class=driver_class)
        self._waiting_input: deque[events.Event] = deque()

    async def on_event(self, event: events.Event) -> None:
        """Handle an event; input waits until the input before it was handled."""
        if isinstance(event, events.InputEvent | events.Paste) and not event.is_forwarded:
            self._waiting_input.append(_typed(event))
            await self._handle_waiting()
        else:
            await super().on_event(event)

    async def handle_input(self, event: events.Event) -> None:
        """Handle a key, a paste or what the mouse did; the input before it was handled."""
        await super().on_event(event)

    async def on_input_barrier(self, probe: InputBarrier) -> None:
        """The event was handled, then in another round the messages which that sent."""
        if probe is self._barrier:
            self._send_barrier(probe.target, probe.rounds - 1)
            await self._handle_waiting()

    async def _handle_waiting(self) -> None:
        while self._waiting_input and self._may_handle(self._waiting_input[0]):
            event = self._waiting_input.popleft()
            await self.handle_input(event)
            if not isinstance(event, events.MouseMove):
                self._is_typing = _is_letter(event)
                self._send_barrier(self.focused or self.screen, ROUNDS)
        if self._waiting_input and self._watch is None:
            self._watch = self.set_interval(CHECK_SECONDS, self._check_barrier)
        elif not self._waiting_input and self._watch is not None:
            self._watch.stop()
            self._watch = None

    def _may_handle(self, event: events.Event) -> bool:
        """Whether nothing is under way that it could overtake: letters of one text stay in order anyway."""
        if self._barrier is None or not _is_reachable(self._barrier.target):
            return True
        into_text = self.focused is self._barrier.target and isinstance(self.focused, Editor | Input)
        return into_text and self._is_typing and _is_letter(event)

    def _send_barrier(self, target: MessagePump, rounds: int) -> None:
        probe = InputBarrier(target, rounds)
        self._barrier = probe if rounds and _is_reachable(target) and target.post_message(probe) else None

    async def _check_barrier(self) -> None:
        """A probe whose widget was removed never comes back; nor may one that hangs take all keys with it."""
        if self._barrier is not None:
            self._barrier.checks += 1
            if self._barrier.checks >= MAX_CHECKS:
                self._barrier = None
        await self._handle_waiting()


def _typed(event: events.Event) -> events.Event:
    """The event; a joiner, which Textual does not insert because it cannot be seen, as a piece of text."""
    if isinstance(event, events.Key) and event.character and event.character in UNFINISHED:
        piece = events.Paste(event.character)
        piece.time = event.time
        return piece
    return event


def _is_letter(event: events.Event) -> bool:
    return isinstance(event, events.Key) and event.is_printable


def _is_reachable(target: MessagePump) -> bool:
    return target.is_attached and target.is_running


class GuardedInputApp(OrderedInputApp):
    """An app whose guarded dialogs take only the keys that were meant for them.

    The time of a key is the one at which it was read, however late the app comes to it.
    """

    pressed_at = _NEVER
    """When the last key was pressed, whatever for."""
    typed_at = _NEVER
    """When the last one was pressed that belongs to a text which is being typed."""

    closed_at = _NEVER
    """When a guarded dialog was closed last: a key that was pressed before that was meant for it."""

    def __init__(self, driver_class: type[Driver]) -> None:
        super().__init__(driver_class)
        self._untimely: list[events.Key] = []
        """Letters that came too soon for a dialog: an answer, or the beginning of a sentence."""

    async def handle_input(self, event: events.Event) -> None:
        """Leave alone what is not meant for the dialog in sight; what belongs to a text goes on into it."""
        acts = isinstance(event, events.Key | events.Paste | events.MouseDown | events.MouseUp)
        if not acts or self._is_intended(event):
            await super().handle_input(event)

    def pop_screen(self) -> AwaitComplete:
        """Close what is in sight."""
        screen: Screen[Any] = self.screen
        if isinstance(screen, GuardedDialog):
            self.closed_at = max(time.monotonic(), self.pressed_at)
        return super().pop_screen()

    async def ask(self, screen: Screen[Result]) -> Result | None:
        """Show a dialog and wait for what it gives."""
        given: asyncio.Future[Result | None] = asyncio.get_running_loop().create_future()

        def take(answer: Result | None) -> None:
            if not given.done():
                given.set_result(answer)

        await self.push_screen(screen, take)
        return await given

    def _is_intended(self, event: events.Event) -> bool:
        before, self.pressed_at = self.pressed_at, event.time
        screen: Screen[Any] = self.screen
        belated = event.time <= self.closed_at
        if not belated and self._starts_typing(event, screen):
            if isinstance(screen, PageScreen):
                screen.dismiss()
            self.typed_at = event.time
            self._insert_typed(event, focused=True)
            return False
        goes_on = event.time - before < QUIET_SECONDS and not belated and _is_text(event)
        if isinstance(screen, GuardedDialog) and screen.held and goes_on:
            self._follow_letter(event, screen)
            return False
        if self._is_global_key(event):
            if isinstance(screen, GuardedDialog) and event.key not in _SCROLL_KEYS:
                screen.pause()
            return True
        if not belated and (not isinstance(screen, GuardedDialog) or screen.accepts(event.time, before)):
            self._untimely = []
            if isinstance(screen, GuardedDialog):
                if _begins_text(event) and not screen.takes(event):
                    self._follow_letter(event, screen)
                    return False
                screen.held = []
            field = screen.text_field if isinstance(screen, GuardedDialog) else None
            if field is not None and _begins_text(event):
                screen.set_focus(field)  # before the next key, which may be the Enter that sends it
            into_text = isinstance(self.focused, Editor | Input) and _is_text(event)
            self.typed_at = event.time if into_text else _NEVER
            return True
        if _is_text(event):
            self._keep_text(event)
        return False

    def _follow_letter(self, event: events.Event, screen: GuardedDialog[Any]) -> None:
        """Put text, with the letter of an answer before it, into the input; the same letter again is none."""
        if screen.held and isinstance(event, events.Key) and event.key == screen.held[0].key:
            screen.held.append(event)
            return
        for each in (*screen.held, event):
            self._insert_typed(each)
        self.typed_at = event.time
        screen.text_followed()

    def _keep_text(self, event: events.Event) -> None:
        """Let what is typed at a dialog go on into the text; a single letter is an answer that came too soon.

        Two different ones are the beginning of a sentence, of which nothing is lost.
        """
        if event.time - self.typed_at >= QUIET_SECONDS and isinstance(event, events.Key):
            if not _begins_text(event):
                return
            self._untimely.append(event)
            if len({each.character for each in self._untimely}) == 1:
                return
        for each in (*self._untimely[:-1], event):
            self._insert_typed(each)
        self._untimely = []
        self.typed_at = event.time

    def _starts_typing(self, event: events.Event, screen: Screen[Any]) -> bool:
        """Whether somebody begins to write where it means nothing else; the next key goes there as well."""
        if isinstance(screen, PageScreen):
            return _begins_text(event)
        if isinstance(self.focused, Editor | Input) or not screen.query(Editor):
            return False
        return _is_text(event) and not _erases(event)

    def _is_global_key(self, event: events.Event) -> TypeGuard[events.Key]:
        """Whether it is a key that answers nothing: it reads on, or belongs to the whole app."""
        if not isinstance(event, events.Key):
            return False
        ours = self._bindings.key_to_bindings.get(event.key, ())
        return event.key in _SCROLL_KEYS or any(binding.priority for binding in ours)

    def _insert_typed(self, event: events.Event, *, focused: bool = False) -> None:
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
    return isinstance(event, events.Key) and event.key == _ERASE_KEY
