"""Agents room: agent and skill files that change while we work.

Nothing runs for it: whoever needs agents or skills asks for them anew, and before that names, sizes and times
of the files are compared. A file that breaks keeps its last good version. What a trusted project brings goes
on counting as it was trusted when its files change, and what is new of it waits until a person trusts the
folder again.
"""

import logging
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from gencode.agents.registry import AgentEntry, Registry
from gencode.agents.skills import Skills, users_folders, users_home
from gencode.core.errors import UserMistake
from gencode.core.skill import SkillEntry
from gencode.permissions.agent_folders import (
    AGENT_FOLDERS,
    CONFIGS,
    SKILL_FOLDERS,
    USER_CONFIGS,
    USER_FOLDERS,
)
from gencode.permissions.project_files import ProjectFiles
from gencode.permissions.trust import FILE as TRUST
from gencode.permissions.trust import FolderTrust, standing

log = logging.getLogger(__name__)

MOST_FILES = 4_000
DEEPEST = 12
SETTLED = 0.1
"""Seconds: a file that changed so shortly before it was looked at may change again without a new time."""
PAUSE = 10.0
"""Seconds between two looks at more files than that."""
MOST_IN_A_CROWD = 100_000
_CROWDED = (
    "There are more than {most:,} files where agents and skills may lie, so a change there counts only "
    "after up to {pause:g} seconds; move what is neither elsewhere."
)
_PASSED_OVER = (".git", "node_modules", "__pycache__")


class FileStamp(NamedTuple):
    """A path, whether its links were followed, the file or folder it is, its size and when it was changed."""

    path: str
    links: bool
    file: int
    size: int
    modified: int
    changed: int


class FileWatcher:
    """Whether files changed at some places, which need not be there yet.

    `places` are the user's own files and folders, where links are followed; below `projects` none is. Where
    there are more than `MOST_FILES` they are looked at by a thread, and at most once in `PAUSE` seconds: a
    change is then noticed later, and nobody waits for it.
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
    """More files than one would look at while others wait."""

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


R = TypeVar("R")
Load = Callable[[Sequence[FolderTrust]], R]
"""Reads everything there is now, with projects as they stand."""
Keep = Callable[[R, R, str], R]
"""What counts of what was read now and before; the text says why a project counts as it did before."""


class LiveRegistry(Generic[R]):
    """A registry that is read anew when its files changed. Whoever works keeps what it began with.

    `projects` is how folders stood when they were looked at, `home` the user's folder with the list of those
    that are trusted, which is watched as well.
    """

    def __init__(
        self,
        load: Load[R],
        keep: Keep[R],
        watch: FileWatcher,
        home: Path,
        projects: Iterable[FolderTrust] = (),
    ) -> None:
        self._load = load
        self._keep = keep
        self._watch = watch
        self._home = home
        self._trust = FileWatcher([home / TRUST])
        self._projects = tuple(projects)
        self.last = load(self._projects)
        """What counted when it was last looked at."""
        self.note = ""
        """Why what a project brings counts as it was before; empty when it counts as it is."""

    def current(self) -> R:
        """What counts for whoever begins now."""
        trust, files = self._trust.changed(), self._watch.changed()
        if trust or files:
            looked_at = [self._look_at(project) for project in self._projects]
            self._projects = tuple(each.counts for each in looked_at)
            self.note = next((each.note for each in looked_at if each.note), "")
            waiting = (each.waits for each in looked_at if each.waits)
            self.last = self._keep(self._load((*self._projects, *waiting)), self.last, self.note)
        return self.last

    def _look_at(self, project: FolderTrust) -> "_ProjectState":
        """A project as it stands now, unless it was trusted and has changed since; then why it does not."""
        try:
            now = standing(project.folder, self._home)
        except UserMistake as mistake:
            return _ProjectState(project, str(mistake))
        if now.state != "changed" or not project.trusted:
            return _ProjectState(now)
        known, texts = project.brought.texts, now.brought.texts
        new = ProjectFiles(texts={path: text for path, text in texts.items() if path not in known})
        return _ProjectState(project, now.why_not, replace(now, brought=new))


class _ProjectState(NamedTuple):
    """How a project counts, why that is not as it is now, and what is new in it and waits for trust."""

    counts: FolderTrust
    note: str = ""
    waits: FolderTrust | None = None


def living_agents(
    home: Path, projects: Iterable[FolderTrust] = (), user: Path | None = None
) -> LiveRegistry[Registry]:
    """The agents there are, always as their files are now."""
    projects = tuple(projects)
    folders = [*(folder for each in AGENT_FOLDERS.values() for folder in each), *CONFIGS]
    base = users_home() if user is None else user
    watch = FileWatcher(
        [
            home / "agents",
            *(base / folder for folder in (*(each for _, each in USER_FOLDERS), *USER_CONFIGS)),
        ],
        [project.folder / folder for project in projects for folder in folders],
    )

    def load(found: Sequence[FolderTrust]) -> Registry:
        registry = Registry.load(home, *found, user=user)
        if not watch.crowded:
            return registry
        return Registry([*registry.listing(), AgentEntry(str(home / "agents"), problem=watch.crowded)])

    return LiveRegistry(load, keep_agents, watch, home, projects)


def living_skills(
    home: Path, projects: Iterable[FolderTrust] = (), user: Path | None = None
) -> LiveRegistry[Skills]:
    """The skills there are, always as their files are now."""
    projects = tuple(projects)
    watch = FileWatcher(
        users_folders(home, user),
        [project.folder / folder for project in projects for folder in SKILL_FOLDERS],
    )
    return LiveRegistry(
        lambda found: Skills.load(home, *found, user=user), keep_skills, watch, home, projects
    )


def keep_agents(now: Registry, before: Registry, note: str) -> Registry:
    """The agents there are now, and of those whose file broke the version before."""
    kept = list(_kept(now.listing(), before.listing(), note, _warned_agent))
    return now if kept == now.listing() else Registry(kept)


def keep_skills(now: Skills, before: Skills, note: str) -> Skills:
    """The skills there are now, and of those whose file broke the version before."""
    kept = list(_kept(now.listing(), before.listing(), note, _warned_skill))
    return now if kept == now.listing() else Skills(kept)


E = TypeVar("E", AgentEntry, SkillEntry)


def _kept(now: Sequence[E], before: Sequence[E], note: str, warned: Callable[[E, str], E]) -> Iterator[E]:
    """Entries in their order; with a `note` it is put to those of a project, and files that are gone are."""
    good: dict[str, list[E]] = {}
    for entry in before:
        if not entry.problem and not entry.untrusted:
            good.setdefault(entry.path, []).append(entry)
    still = {(entry.path, _name(entry)) for entry in now}
    for entry in now:
        if entry.project and note and not entry.untrusted:
            if os.path.lexists(entry.path):
                yield warned(entry, note)
        elif entry.problem and not entry.project and entry.path in good:
            earlier = good.pop(entry.path)  # a file may hold several, of which one broke
            yield from (
                warned(each, entry.problem) for each in earlier if (each.path, _name(each)) not in still
            )
        else:  # what a project brought before is not trusted any more once it is trusted anew
            yield entry


def _name(entry: AgentEntry | SkillEntry) -> str:
    found = entry.spec if isinstance(entry, AgentEntry) else entry.skill
    return found.name if found else ""


def _warned_agent(entry: AgentEntry, why: str) -> AgentEntry:
    if entry.spec is None:
        return entry
    return replace(entry, spec=replace(entry.spec, outdated=why), shadowed_by="")


def _warned_skill(entry: SkillEntry, why: str) -> SkillEntry:
    if entry.skill is None:
        return entry
    return replace(entry, skill=replace(entry.skill, outdated=why), shadowed_by="")


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
