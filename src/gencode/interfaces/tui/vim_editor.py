"""The text field with the keys of vim: a normal mode to move and change, an insert mode for text."""

import re
from collections.abc import Callable

from textual import events

from gencode.interfaces.tui.editor import Editor

MOST_REPEATS = 1_000
_WORD = re.compile(r"\w+|[^\w\s]+")
_OPERATORS = "dcy"
_LINEWISE = frozenset({"j", "k", "G", "gg"})
_TO_INSERT = {"i": "", "a": "l", "I": "^", "A": "$"}
"""Keys that begin to insert, and the motion before that."""
_SHORT = {"x": "dl", "X": "dh", "D": "d$", "C": "c$", "Y": "yy", "s": "cl", "S": "cc"}
"""Keys that stand for an operator with a motion."""


class VimEditor(Editor):
    """An editor that begins in insert mode; Esc leads to normal mode.

    Normal mode has h j k l w b e 0 ^ $ gg G, with counts; i a I A o O; d c y with a motion or twice, and
    x X D C Y s S; p P; u and Ctrl+R. Enter sends in both modes, and all other keys mean what they mean
    without vim.
    """

    def __init__(self, taken: Callable[[str], bool], folded: Callable[[str], str]) -> None:
        super().__init__(taken, folded)
        self._normal = False
        self._typed = ""
        """The beginning of a command: a count, an operator."""
        self._register = ""

    def on_mount(self) -> None:
        """The frame shows the mode."""
        self._switch(normal=False)

    def load_text(self, text: str) -> None:
        """A new prompt begins in insert mode."""
        super().load_text(text)
        if self.is_mounted:
            self._switch(normal=False)

    def on_key(self, event: events.Key) -> None:
        """In normal mode letters are commands; those that mean nothing do nothing."""
        if event.key == "escape" and (not self._normal or self._typed):
            if self._normal or not self._handle_key("escape"):  # completions are put away first
                self._switch(normal=True)
        elif self._normal and event.key == "ctrl+r":
            self.redo()
        elif self._normal and event.is_printable:
            self._take(event.character or "")
        else:
            super().on_key(event)
            return
        event.stop()
        event.prevent_default()

    def _switch(self, *, normal: bool) -> None:
        if normal and not self._normal and self.cursor_location[1]:
            self.action_cursor_left()
        self._normal, self._typed = normal, ""
        self.border_subtitle = "NORMAL" if normal else "INSERT"

    def _take(self, key: str) -> None:
        """Take one key of a command, and run the command once it is whole."""
        typed = self._typed + key
        digits, rest = _split_count(typed)
        operator = rest[:1] if rest[:1] in _OPERATORS and rest else ""
        more, motion = _split_count(rest[len(operator) :])
        if not motion or motion == "g":
            self._typed = typed
        else:
            self._typed = ""
            times = min(int(digits or 1) * int(more or 1), MOST_REPEATS)
            self._run(operator, _SHORT.get(motion, motion) if not operator else motion, times, digits + more)
        if self._normal:
            self.border_subtitle = f"NORMAL {self._typed}".rstrip()

    def _run(self, operator: str, motion: str, times: int, counted: str) -> None:
        """Run a whole command: an operator with a motion, a motion, or something else."""
        if not operator and motion[0] in _OPERATORS:
            operator, motion = motion[0], motion[1:]
        motion = "e" if operator == "c" and motion == "w" else motion
        if operator and motion == operator:
            self._operate(operator, self._at, self._moved("j", times - 1), lines=True)
        elif operator and (to := self._moved(motion, times, counted)) is not None:
            inclusive = motion == "e" and to < len(self.text)
            self._operate(operator, self._at, to + inclusive, lines=motion in _LINEWISE)
        elif not operator and (to := self._moved(motion, times, counted)) is not None:
            start, end = self._line(to)
            self._go(min(to, max(end - 1, start)))  # on a character, not behind the last one
        elif not operator:
            self._other(motion, times)

    def _other(self, key: str, times: int) -> None:
        """What neither moves nor has an operator."""
        start, end = self._line(self._at)
        if key in _TO_INSERT:
            to = self._moved(_TO_INSERT[key], 1) if _TO_INSERT[key] else None
            self._go(self._at if to is None else to)
            self._switch(normal=False)
        elif key in ("o", "O"):
            self._put("\n", end if key == "o" else start)
            self._go(end + 1 if key == "o" else start)
            self._switch(normal=False)
        elif key in ("p", "P") and self._register:
            self._paste_register(times, after=key == "p")
        elif key == "u":
            self.undo()
        elif key in ("/", "!", "@") and not self.text:  # which begin a command here
            self._switch(normal=False)
            self.insert(key)

    def _paste_register(self, times: int, *, after: bool) -> None:
        start, end = self._line(self._at)
        if not self._register.endswith("\n"):
            at = min(self._at + after, end)
            self._put(self._register * times, at)
            self._go(at + len(self._register) * times - 1)
        elif after:
            self._put("\n" + (self._register * times)[:-1], end)
            self._go(end + 1)
        else:
            self._put(self._register * times, start)
            self._go(start)

    def _operate(self, operator: str, one: int, other: int | None, *, lines: bool) -> None:
        """Copy what lies between two places, and delete it unless it is only copied."""
        start, end = min(one, other or 0), max(one, other or 0)
        if lines:
            start, end = self._line(start)[0], self._line(end)[1]
        self._register = self.text[start:end] + ("\n" if lines else "")
        if operator == "y":
            self._go(start)
            return
        if lines and operator == "d":
            start, end = (start, end + 1) if end < len(self.text) else (max(start - 1, 0), end)
        self.replace("", self._location(start), self._location(end), maintain_selection_offset=False)
        self._go(min(start, len(self.text)))
        if lines and operator == "d":
            self._go(self._line(self._at)[0])
        if operator == "c":
            self._switch(normal=False)

    def _moved(self, motion: str, times: int, counted: str = "") -> int | None:
        """Where a motion leads; None for what is none."""
        if motion in ("G", "gg") and counted:
            return self._moved_once("j", 0, times - 1)
        return self._moved_once(motion, self._at, times)

    def _moved_once(self, motion: str, at: int, times: int) -> int | None:
        for _ in range(times):
            to = _motion(self.text, at, motion)
            if to is None or to == at:
                return to
            at = to
        return at

    @property
    def _at(self) -> int:
        row, column = self.cursor_location
        return sum(len(line) + 1 for line in self.text.split("\n")[:row]) + column

    def _location(self, index: int) -> tuple[int, int]:
        return self.text.count("\n", 0, index), index - _line(self.text, index)[0]

    def _line(self, at: int) -> tuple[int, int]:
        return _line(self.text, at)

    def _put(self, text: str, at: int) -> None:
        self.replace(text, self._location(at), self._location(at), maintain_selection_offset=False)

    def _go(self, at: int) -> None:
        self.move_cursor(self._location(max(min(at, len(self.text)), 0)))


def _split_count(typed: str) -> tuple[str, str]:
    """The count at the beginning of a command, and the rest; a zero alone is a motion."""
    found = re.match(r"[1-9]\d*", typed)
    return (found[0], typed[found.end() :]) if found else ("", typed)


def _line(text: str, at: int) -> tuple[int, int]:
    """Where the line at a place begins and ends."""
    end = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, len(text) if end < 0 else end


def _motion(text: str, at: int, key: str) -> int | None:
    """Where one motion leads; None for what is none."""
    start, end = _line(text, at)
    match key:
        case "h":
            return max(at - 1, start)
        case "l":
            return min(at + 1, end)
        case "0":
            return start
        case "^":
            return start + len(text[start:end]) - len(text[start:end].lstrip())
        case "$":
            return end
        case "w":
            return next((word.start() for word in _WORD.finditer(text) if word.start() > at), len(text))
        case "b":
            return max((word.start() for word in _WORD.finditer(text) if word.start() < at), default=0)
        case "e":
            ends = (word.end() - 1 for word in _WORD.finditer(text))
            return next((each for each in ends if each > at), len(text))
        case "k":
            above = _line(text, start - 1) if start else None
            return min(above[0] + at - start, above[1]) if above else at
        case "j":
            below = _line(text, end + 1) if end < len(text) else None
            return min(below[0] + at - start, below[1]) if below else at
        case "gg":
            return 0
        case "G":
            return _line(text, len(text))[0]
        case _:
            return None
