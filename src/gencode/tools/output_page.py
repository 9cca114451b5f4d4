"""Pagination of long tool output: one page, and a last line that says how to get the next."""

from gencode.core.text import CLIP

NOTE_ROOM = 600
"""Kept free for the bracketed lines at the end."""


class OutputPage:
    """One page of output: skips `offset` entries, then takes up to `limit` (0: all) as far as they fit.

    `first` is the offset of the first entry as the model gives it.
    """

    def __init__(self, offset: int, limit: int, first: int = 0) -> None:
        self._offset = offset
        self._first = first
        self._limit = limit
        self._room = CLIP - NOTE_ROOM
        self._passed = 0
        self._taken = 0
        self._lines: list[str] = []
        self.full = False

    @property
    def empty(self) -> bool:
        """Whether nothing was offered so far."""
        return not self._passed and not self._taken

    def skips(self) -> bool:
        """Skip one entry if it belongs to an earlier page; its line need not be written."""
        if self._passed < self._offset:
            self._passed += 1
            return True
        return False

    def add(self, line: str, between: str = "") -> bool:
        """Take one entry; once one does not fit, none does. `between` parts it from the one above."""
        extra = [between, line] if between and self._lines else [line]
        size = sum(map(len, extra)) + len(extra)
        if self.full or (self._lines and size > self._room):
            self.full = True
            return False
        self._room -= size
        self._lines += extra
        self._taken += 1
        self.full = self._taken == self._limit
        return True

    def text(self, more: int | None, nothing: str, *notes: str) -> str:
        """The page; `more` entries follow (None: an unknown number)."""
        lines = list(self._lines)
        if not lines and self._passed:
            entries = f"{self._passed:,} entr{'y' if self._passed == 1 else 'ies'}"
            lines.append(
                f"There is nothing at offset={self._offset + self._first}; there are only {entries}."
            )
        elif not lines:
            lines.append(nothing)
        if more is None or more:
            count = "more" if more is None else f"{more:,} more"
            lines.append(f"[… {count}; go on with offset={self._passed + self._taken + self._first}]")
        return "\n".join([*lines, *(f"[{note}]" for note in notes)])
