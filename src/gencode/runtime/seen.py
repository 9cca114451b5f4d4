"""Runtime room: what one agent has seen of each file, so that it changes nothing it does not know."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from gencode.core.messages import FileChange
from gencode.runtime.openers import Identity, state_of

MOST_CHANGES = 10_000
"""So many changes are remembered by their author; the oldest are forgotten first."""
MOST_FILES = 20


class Ledger:
    """Who changed which file last, among all agents of this process."""

    __slots__ = ("_authors",)

    def __init__(self) -> None:
        self._authors: dict[str, tuple[Identity, str]] = {}

    def note(self, real: str, identity: Identity, who: str) -> None:
        """Remember who brought a file into this state."""
        self._authors.pop(real, None)
        self._authors[real] = (identity, who)
        if len(self._authors) > MOST_CHANGES:
            del self._authors[next(iter(self._authors))]

    def author(self, real: str, now: Identity | None) -> str:
        """Who brought a file into the state it is in; empty when that is not known."""
        identity, who = self._authors.get(real, (None, ""))
        return who if identity is not None and identity == now else ""


class Seen:
    """The files an agent read or wrote, by real path, each in the state it was in then."""

    __slots__ = ("_files", "_ledger", "_who")

    def __init__(self, ledger: Ledger | None = None, who: str = "") -> None:
        self._files: dict[str, Identity] = {}
        self._ledger = ledger or Ledger()
        self._who = who

    def note(self, real: str, identity: Identity) -> None:
        """Remember a file as it is now."""
        self._files[real] = identity

    def wrote(self, real: str, identity: Identity) -> None:
        """Remember a file as this agent left it, and that it did."""
        self.note(real, identity)
        self._ledger.note(real, identity, self._who)

    def state(self, real: str) -> Identity | None:
        """The state in which a file was seen last; None for one that never was."""
        return self._files.get(real)

    def author(self, real: str) -> str:
        """Which other agent brought a file into the state it is in; empty when that is not known."""
        who = self._ledger.author(real, state_of(real))
        return "" if who == self._who else who

    def stale(self, cwd: Path, changes: Iterable[FileChange]) -> list[str]:
        """Which of these files this agent had seen in a state that they are no longer in."""
        found: list[str] = []
        for change in changes:
            real = os.path.realpath(cwd / change.path)
            known = self._files.get(real)
            if known is not None and known != state_of(real):
                found.append(change.path)
        return found


def changed_under(files: Sequence[str]) -> str:
    """A line for an agent whose knowledge of some files is out of date."""
    if not files:
        return ""
    shown = ", ".join(files[:MOST_FILES])
    rest = f" and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else ""
    return f"\n[It changed files that you had read: {shown}{rest}. Read them again before you rely on them.]"
