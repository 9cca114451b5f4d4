"""processes: after a crash, what it left running is ended.

Normally nothing is left: every warden ends its command when our process is gone. What stays is what could not
notice, because it was stopped or its warden was killed too. Such processes are known by a mark in the
environment they were started with, and the mark says which process of ours started them.
"""

import os
import sys
import time
from collections.abc import Set
from pathlib import Path

from gencode.core.errors import ToolError
from gencode.journal.owner import fate
from gencode.sandbox.processes import tree
from gencode.sandbox.processes.environment import MARK


class Record:
    """A note that a keeper runs: one file named by its mark's end, which holds the mark."""

    def __init__(self, path: Path, mark: str) -> None:
        self._path = path
        self.mark = mark

    @classmethod
    def write(cls, state: Path, mark: str) -> "Record":
        """Note a keeper before it starts."""
        path = _folder(state) / mark.rpartition("|")[2]
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(mark)
        except OSError as error:
            raise ToolError(f"No command can be run: {path} cannot be written ({error.strerror}).") from None
        return cls(path, mark)

    def remove(self) -> None:
        """The keeper and everything below it is gone."""
        self._path.unlink(missing_ok=True)


def sweep(state: Path) -> int:
    """End what dead processes of ours left running; how many there were. Blocks; free without a crash."""
    dead = [record for record in _records(state) if fate(record.mark) == "dead"]
    ended = end_marked({record.mark for record in dead}) if dead else 0
    for record in dead:
        record.remove()
    return ended


def _folder(state: Path) -> Path:
    return state / "keepers"


def _records(state: Path) -> list[Record]:
    try:
        return [Record(path, path.read_text(errors="replace")) for path in _folder(state).iterdir()]
    except OSError:
        return []


def end_marked(marks: Set[str]) -> int:
    """Kill everybody who carries one of these marks, and everybody below them; how many there were."""
    seen: set[int] = set()

    def members() -> tree.Members:
        everybody = tree.census()
        marked = {process: group for process, (_, group) in everybody.items() if _mark(process) in marks}
        found = {**marked, **tree.below(marked, everybody)}
        seen.update(found)
        return {process: 0 for process in found if process != os.getpid()}

    def gone(seconds: float) -> bool:
        limit = time.monotonic() + seconds
        while members():
            if time.monotonic() > limit:
                return False
            time.sleep(0.005)
        return True

    if sys.platform == "linux" and members():
        tree.kill(members, gone)
    return len(seen)


def _mark(process: int) -> str | None:
    """The mark a process was started with."""
    try:
        raw = Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return None
    start = f"{MARK}=".encode()
    return next(
        (os.fsdecode(pair[len(start) :]) for pair in raw.split(b"\0") if pair.startswith(start)), None
    )
