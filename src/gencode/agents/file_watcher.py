"""Notices changes of agent and skill files by their size and times.

Nothing runs in the background: before agents or skills are used, names, sizes and times of the files are
compared. A file that becomes invalid keeps its last good version. A trusted project keeps the version that
was trusted when its files change, until a person trusts the folder again.
"""

import logging
import os
import stat
import time
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import NamedTuple

log = logging.getLogger(__name__)

MOST_FILES = 4_000
DEEPEST = 12
SETTLED = 0.1
"""Seconds: a file that changed so shortly before it was looked at may change again without a new time."""
PAUSE = 10.0
"""Seconds between two looks at more files than that."""
MOST_IN_A_CROWD = 100_000
_CROWDED = (
    "There are more than {most:,} files in the folders of agents and skills, so a change takes effect only "
    "after up to {pause:g} seconds; move other files elsewhere."
)
_PASSED_OVER = (".git", "node_modules", "__pycache__")


class FileStamp(NamedTuple):
    """The state of one path: whether links were followed, its file number, size and times."""

    path: str
    links: bool
    file: int
    size: int
    modified: int
    changed: int


class FileWatcher:
    """Notices changes of files and folders, which need not exist yet.

    `places` are the user's own files and folders, where links are followed; below `projects` none is. With
    more than `MOST_FILES` a thread checks them, at most once in `PAUSE` seconds: a change is then noticed
    later, and no caller waits.
    """

    def __init__(
        self, places: Iterable[Path], projects: Iterable[Path] = (), *, settled: float = SETTLED
    ) -> None:
        self._places = (*((place, True) for place in places), *((place, False) for place in projects))
        self._settling = int(settled * 1e9)
        self._marks: tuple[FileStamp, ...] = ()
        self._folders: tuple[FileStamp, ...] = ()
        self._sure = self._calm = True
        self._crowd: _BackgroundScan | None = None
        self._look()

    @property
    def crowded(self) -> str:
        """Why a change is noticed late; empty where it is noticed at once."""
        return "" if self._crowd is None else _CROWDED.format(most=MOST_FILES, pause=PAUSE)

    def changed(self) -> bool:
        """Whether anything may have changed since this was last asked, or the watch began."""
        if self._crowd is not None:
            return self._crowd.changed()
        if self._sure and self._calm and self._is_as_it_was():
            return False
        before, sure = self._marks, self._sure
        self._look()
        return not sure or self._marks != before

    def _is_as_it_was(self) -> bool:
        """Whether nothing that was found has changed, nor a folder where something missing could appear.

        Most places are not there, so this asks for far fewer files than a look.
        """
        return all(map(_is_still, self._marks)) and all(map(_is_still, self._folders))

    def _look(self) -> None:
        now = time.time_ns()
        self._folders = tuple(_nearest(place for place, _ in self._places))
        self._marks = tuple(islice(_marks(self._places), MOST_FILES))
        self._sure = not any(abs(now - mark.changed) < self._settling for mark in self._marks)
        self._calm = not any(abs(now - mark.changed) < self._settling for mark in self._folders)
        if len(self._marks) >= MOST_FILES:
            self._marks = ()
            self._crowd = _BackgroundScan(self._places, now - self._settling)
            log.warning("%s", self.crowded)


class _BackgroundScan:
    """A scan in a thread, for more files than one would look at while others wait."""

    def __init__(self, places: Iterable[tuple[Path, bool]], since: int) -> None:
        self._places = tuple(places)
        self._since = since
        self._digest = b""
        self._looked = 0.0
        self._looking: Thread | None = None
        self._found = (b"", 0)
        self._start()

    def changed(self) -> bool:
        """Whether the last look, if it is over, found something else than the one before."""
        if self._looking is not None:
            if self._looking.is_alive():
                return False
            self._looking = None
            before, (self._digest, newest) = self._digest, self._found
            return newest > self._since if not before else self._digest != before
        if time.monotonic() - self._looked >= PAUSE:
            self._start()
        return False

    def _start(self) -> None:
        self._looked = time.monotonic()
        self._looking = Thread(target=self._look, name="gencode-watch", daemon=True)
        self._looking.start()

    def _look(self) -> None:
        digest, newest = blake2b(), 0
        for mark in islice(_marks(self._places), MOST_IN_A_CROWD):
            digest.update(repr(mark).encode(errors="backslashreplace"))
            newest = max(newest, mark.changed)
        self._found = digest.digest(), newest


def _marks(places: Iterable[tuple[Path, bool]]) -> Iterator[FileStamp]:
    for place, links in places:
        yield from _at(place, links)


def _at(place: Path, links: bool) -> Iterator[FileStamp]:
    """One for a file; for a folder one for it and for everything below. None for what is not there."""
    try:
        found = place.stat(follow_symlinks=links)
    except OSError:
        return
    yield _mark(str(place), links, found)
    if stat.S_ISDIR(found.st_mode):
        yield from _below(str(place), links, DEEPEST)


def _below(folder: str, links: bool, deeper: int) -> Iterator[FileStamp]:
    try:
        with os.scandir(folder) as found:
            entries = list(found)
    except OSError:
        return
    for entry in entries:
        if entry.name in _PASSED_OVER:
            continue
        try:
            seen = entry.stat(follow_symlinks=links)
        except OSError:
            continue
        yield _mark(entry.path, links, seen)
        if stat.S_ISDIR(seen.st_mode) and deeper:
            yield from _below(entry.path, links, deeper - 1)


def _nearest(places: Iterable[Path]) -> Iterator[FileStamp]:
    """The folders that change when something appears at a place where nothing is now."""
    seen: set[Path] = set()
    for place in places:
        above = place
        while above not in seen:
            seen.add(above)
            try:
                found = above.stat()
            except OSError:
                above = above.parent
                continue
            if above != place:
                yield _mark(str(above), True, found)
            break


def _is_still(mark: FileStamp) -> bool:
    """Whether a path is as it was. Asked several times for every agent that is sent, so nothing is made."""
    path, links, file, size, modified, changed = mark
    try:
        found = os.stat(path, follow_symlinks=links)  # noqa: PTH116
    except OSError:
        return False
    return (
        found.st_mtime_ns == modified
        and found.st_ctime_ns == changed
        and found.st_size == size
        and found.st_ino == file
    )


def _mark(path: str, links: bool, found: os.stat_result) -> FileStamp:
    return FileStamp(path, links, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
