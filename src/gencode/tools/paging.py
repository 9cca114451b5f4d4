"""tools: one page of a long list, with a last line that tells how to get the next."""

from gencode.runtime.toolbox import CLIP

NOTE_ROOM = 600
"""Kept free for the bracketed lines at the end."""


class Page:
    """Skips `offset` entries, then takes `limit` of them (0: any number) as far as they fit."""

    def __init__(self, offset: int, limit: int) -> None:
        self._offset = offset
        self._limit = limit
        self._room = CLIP - NOTE_ROOM
        self._passed = 0
        self._lines: list[str] = []
        self._taken = 0

    @property
    def seen(self) -> int:
        """How many entries were offered and skipped or taken."""
        return self._passed + self._taken

    def skips(self) -> bool:
        """Pass over one entry when it belongs to an earlier page; nobody needs to write its line then."""
        if self._passed < self._offset:
            self._passed += 1
            return True
        return False

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return bool(self._limit) and self._taken >= self._limit

    def add(self, line: str, between: str = "") -> bool:
        """Take one entry; False when it does not fit any more. `between` parts it from the one above."""
        extra = [between, line] if between and self._lines else [line]
        size = sum(map(len, extra)) + len(extra)
        if self.full or (self._lines and size > self._room):
            return False
        self._room -= size
        self._lines += extra
        self._taken += 1
        return True

    def text(self, more: int | None, nothing: str, *notes: str) -> str:
        """The page; `more` entries follow (None: some, nobody counted them)."""
        lines = list(self._lines)
        if not lines and self._passed:
            lines.append(f"There is nothing at offset={self._offset}; there are only {self._passed:,} entries.")
        elif not lines:
            lines.append(nothing)
        if more is None:
            lines.append(f"[… more; go on with offset={self.seen}]")
        elif more:
            lines.append(f"[… {more:,} more; go on with offset={self.seen}]")
        return "\n".join([*lines, *(f"[{note}]" for note in notes)])
