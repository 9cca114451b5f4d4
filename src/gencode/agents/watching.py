"""Agents room: agent and skill files that change while we work.

Nothing runs for it: whoever needs agents or skills asks for them anew, and before that names, sizes and times
of the files are compared. A file that breaks keeps its last good version. What a trusted project brings goes
on counting as it was trusted when its files change, and what is new of it waits until a person trusts the
folder again.
"""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from msgspec.structs import replace

from gencode.agents.places import USER_FOLDERS
from gencode.agents.registry import Entry, Registry
from gencode.agents.skills import FOLDERS as SKILL_FOLDERS
from gencode.agents.skills import Skills, users_folders, users_home
from gencode.core.errors import UserMistake
from gencode.core.skill import SkillEntry
from gencode.permissions.brought import AGENT_FOLDERS
from gencode.permissions.trust import FILE as TRUST
from gencode.permissions.trust import Standing, standing

MOST_FILES = 4_000
DEEPEST = 12
SETTLED = 0.1
"""Seconds: a file that changed so shortly before it was looked at may change again without a new time."""
UNSEEN = 1.0
"""Seconds after which everything is read anew where there are more files than are looked at."""
_PASSED_OVER = (".git", "node_modules", "__pycache__")
KEPT = "an earlier version is used: "
"""How a warning begins that an agent or skill is not as its file is now."""

Mark = tuple[str, int, int, int, int]
"""A path, the file or folder it is, its size and when it was changed."""


class Watch:
    """Whether files changed at some places, which need not be there yet.

    `places` are the user's own files and folders, where links are followed; below `projects` none is.
    """

    def __init__(
        self, places: Iterable[Path], projects: Iterable[Path] = (), *, settled: float = SETTLED
    ) -> None:
        self._places = (*((place, True) for place in places), *((place, False) for place in projects))
        self._settling = int(settled * 1e9)
        self._marks: tuple[Mark, ...] = ()
        self._sure = True
        self._reloaded = 0.0
        self._look()

    def changed(self) -> bool:
        """Whether anything may have changed since this was last asked, or the watch began."""
        before, sure = self._marks, self._sure
        self._look()
        if len(self._marks) >= MOST_FILES:  # there is more than is looked at, and it may have changed
            now = time.monotonic()
            sure = sure and now - self._reloaded < UNSEEN
            self._reloaded = self._reloaded if sure else now
        return not sure or self._marks != before

    def _look(self) -> None:
        now = time.time_ns()
        self._marks = tuple(_bounded(self._places))
        self._sure = not any(abs(now - changed) < self._settling for *_, changed in self._marks)


R = TypeVar("R")
Load = Callable[[Sequence[Standing]], R]
"""Reads everything there is now, with projects as they stand."""
Keep = Callable[[R, R, str], R]
"""What counts of what was read now and before; the text says why a project counts as it did before."""


class Living(Generic[R]):
    """A registry that is read anew when its files changed. Whoever works keeps what it began with.

    `projects` is how folders stood when they were looked at, `home` the user's folder with the list of those
    that are trusted, which is watched as well.
    """

    def __init__(
        self, load: Load[R], keep: Keep[R], watch: Watch, home: Path, projects: Iterable[Standing] = ()
    ) -> None:
        self._load = load
        self._keep = keep
        self._watch = watch
        self._home = home
        self._trust = Watch([home / TRUST])
        self._projects = tuple(projects)
        self._registry = load(self._projects)
        self.note = ""
        """Why what a project brings counts as it was before; empty when it counts as it is."""

    def current(self) -> R:
        """What counts for whoever begins now."""
        trust, files = self._trust.changed(), self._watch.changed()
        if trust or files:
            looked_at = [self._look_at(project) for project in self._projects]
            self._projects = tuple(project for project, _ in looked_at)
            self.note = next((note for _, note in looked_at if note), "")
            self._registry = self._keep(self._load(self._projects), self._registry, self.note)
        return self._registry

    def _look_at(self, project: Standing) -> tuple[Standing, str]:
        """A project as it stands now, unless it was trusted and has changed since; then why it does not."""
        try:
            now = standing(project.folder, self._home)
        except UserMistake as mistake:
            return project, str(mistake)
        changed = now.state == "changed" and project.trusted
        return (project, now.why_not) if changed else (now, "")


def living_agents(
    home: Path, projects: Iterable[Standing] = (), user: Path | None = None
) -> Living[Registry]:
    """The agents there are, always as their files are now."""
    projects = tuple(projects)
    folders = [folder for each in AGENT_FOLDERS.values() for folder in each]
    base = users_home() if user is None else user
    watch = Watch(
        [home / "agents", *(base / folder for _, folder in USER_FOLDERS)],
        [project.folder / folder for project in projects for folder in folders],
    )
    return Living(lambda found: Registry.load(home, *found, user=user), keep_agents, watch, home, projects)


def living_skills(home: Path, projects: Iterable[Standing] = (), user: Path | None = None) -> Living[Skills]:
    """The skills there are, always as their files are now."""
    projects = tuple(projects)
    watch = Watch(
        users_folders(home, user),
        [project.folder / folder for project in projects for folder in SKILL_FOLDERS],
    )
    return Living(lambda found: Skills.load(home, *found, user=user), keep_skills, watch, home, projects)


def keep_agents(now: Registry, before: Registry, note: str) -> Registry:
    """The agents there are now, and of those whose file broke the version before."""
    kept = list(_kept(now.listing(), before.listing(), note, _warned_agent))
    return now if kept == now.listing() else Registry(kept)


def keep_skills(now: Skills, before: Skills, note: str) -> Skills:
    """The skills there are now, and of those whose file broke the version before."""
    kept = list(_kept(now.listing(), before.listing(), note, _warned_skill))
    return now if kept == now.listing() else Skills(kept)


E = TypeVar("E", Entry, SkillEntry)


def _kept(now: Sequence[E], before: Sequence[E], note: str, warned: Callable[[E, str], E]) -> Iterator[E]:
    """Entries in their order; with a `note` it is put to those of a project, and files that are gone are."""
    good = {entry.path: entry for entry in before if not entry.problem and not entry.untrusted}
    for entry in now:
        earlier = good.get(entry.path)
        if entry.project and note and not entry.untrusted:
            if os.path.lexists(entry.path):
                yield warned(entry, note)
        elif entry.problem and earlier and not entry.project:
            yield warned(earlier, entry.problem)
        else:  # what a project brought before is not trusted any more once it is trusted anew
            yield entry


def _warned_agent(entry: Entry, why: str) -> Entry:
    if entry.spec is None:
        return entry
    return replace(entry, spec=replace(entry.spec, warnings=_with(entry.spec.warnings, why)), shadowed_by="")


def _warned_skill(entry: SkillEntry, why: str) -> SkillEntry:
    if entry.skill is None:
        return entry
    skill = replace(entry.skill, warnings=_with(entry.skill.warnings, why))
    return replace(entry, skill=skill, shadowed_by="")


def _with(warnings: Iterable[str], why: str) -> tuple[str, ...]:
    return (*(each for each in warnings if not each.startswith(KEPT)), f"{KEPT}{why}")


def _bounded(places: Iterable[tuple[Path, bool]]) -> Iterator[Mark]:
    left = MOST_FILES
    for place, links in places:
        for mark in _at(place, links):
            yield mark
            left -= 1
            if not left:
                return


def _at(place: Path, links: bool) -> Iterator[Mark]:
    """One for a file; for a folder one for it and for everything below. None for what is not there."""
    try:
        found = place.stat(follow_symlinks=links)
    except OSError:
        return
    yield _mark(str(place), found)
    if stat.S_ISDIR(found.st_mode):
        yield from _below(str(place), links, DEEPEST)


def _below(folder: str, links: bool, deeper: int) -> Iterator[Mark]:
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
        yield _mark(entry.path, seen)
        if stat.S_ISDIR(seen.st_mode) and deeper:
            yield from _below(entry.path, links, deeper - 1)


def _mark(path: str, found: os.stat_result) -> Mark:
    return path, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
