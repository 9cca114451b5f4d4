"""The agents, skills and slash commands of a session, reloaded when their files change."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from gencode.agents.command_files import CommandFiles
from gencode.agents.file_watcher import FileWatcher
from gencode.agents.registry import AgentEntry, Registry
from gencode.agents.skills import PreloadedSkills, Skills, users_folder, users_folders, users_home
from gencode.core.errors import UserMistake
from gencode.core.messages import ToolCall
from gencode.core.spec import AgentSpec, SkillEntry
from gencode.core.structs import replace
from gencode.permissions.agent_folders import (
    AGENT_FOLDERS,
    COMMAND_FOLDERS,
    CONFIGS,
    SKILL_FOLDERS,
    USER_COMMAND_FOLDERS,
    USER_CONFIGS,
    USER_FOLDERS,
)
from gencode.permissions.project_files import ProjectFiles
from gencode.permissions.trust import FILE as TRUST
from gencode.permissions.trust import FolderTrust, standing

R = TypeVar("R")
Load = Callable[[Sequence[FolderTrust]], R]
"""Reads all agents, skills and commands from disk."""
Keep = Callable[[R, R, str], R]
"""Chooses between the versions read now and before; the text says why the earlier one applies."""


class LiveRegistry(Generic[R]):
    """A registry that is reloaded when its files change. A running agent keeps what it began with.

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
        """Why an earlier version of a project's files applies; empty when the current one does."""

    def current(self) -> R:
        """What applies to tasks that start now."""
        trust, files = self._trust.changed(), self._watch.changed()
        if trust or files:
            looked_at = [self._look_at(project) for project in self._projects]
            self._projects = tuple(each.counts for each in looked_at)
            self.note = next((each.note for each in looked_at if each.note), "")
            waiting = (each.waits for each in looked_at if each.waits)
            self.last = self._keep(self._load((*self._projects, *waiting)), self.last, self.note)
        return self.last

    def _look_at(self, project: FolderTrust) -> "_ProjectState":
        """A project as it is on disk; if it was trusted and has changed since, the reason why not."""
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
    """Which version of a project applies, why it is not the current one, and what is new and awaits trust."""

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


def living_commands(home: Path, projects: Iterable[FolderTrust] = ()) -> LiveRegistry[CommandFiles]:
    """The slash commands from files, always as their files are now."""
    projects, user = tuple(projects), users_home()
    watch = FileWatcher(
        [users_folder(folder, home, user) for folder in USER_COMMAND_FOLDERS],
        [project.folder / folder for project in projects for folder in COMMAND_FOLDERS],
    )
    return LiveRegistry(
        lambda found: CommandFiles.load(home, *found),
        lambda now, before, note: now,
        watch,
        home,
        projects,
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
        else:  # an earlier version is not trusted any more once the folder is trusted again
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


Amounts = Callable[[ToolCall, Callable[[], Skills]], ToolCall | None]
"""Tells which call the use of a skill amounts to; it looks at skills only for a call that uses one."""


class Library:
    """The agents, skills and commands of the user and of projects, the nearest first.

    Agents that were `typed` come before them.

    A change of a file takes effect for agents that start after it.
    """

    def __init__(
        self,
        home: Path,
        projects: Sequence[FolderTrust],
        amounts: Amounts,
        typed: Mapping[str, Any] | None = None,
    ) -> None:
        self._home = home
        self._projects = projects
        self._amounts = amounts
        self._agents: LiveRegistry[Registry] = living_agents(home, projects)
        self._skills: LiveRegistry[Skills] | None = None
        self._commands: LiveRegistry[CommandFiles] | None = None
        self._with_typed: Callable[[Registry], Registry] | None = None
        if typed:
            from gencode.agents.inline_agents import with_typed

            self._with_typed = with_typed(typed)

    @property
    def agents(self) -> Registry:
        """The agents there are now."""
        return self._typed(self._agents.current())

    @property
    def last_agents(self) -> Registry:
        """The agents as of the last look; every start of an agent looks."""
        return self._typed(self._agents.last)

    def _typed(self, files: Registry) -> Registry:
        return files if self._with_typed is None else self._with_typed(files)

    @property
    def skills(self) -> Skills:
        """The skills there are now."""
        if self._skills is None:
            self._skills = living_skills(self._home, self._projects)
        return self._skills.current()

    @property
    def commands(self) -> CommandFiles:
        """The slash commands from files there are now."""
        if self._commands is None:
            self._commands = living_commands(self._home, self._projects)
        return self._commands.current()

    def find(self, name: str) -> AgentSpec:
        """An agent by name; UnknownName offers the nearest."""
        return self.agents.find(name)

    def main(self, also: tuple[str, ...]) -> AgentSpec:
        """The agent that leads conversations, with `also` these tools."""
        return self.agents.main(also)

    def spawnable(self) -> Sequence[AgentSpec]:
        """Every agent that may be started."""
        return self.agents.spawnable()

    def skill_lines(self) -> str:
        """The skills an agent may choose from, a line each; empty when there are none."""
        return self.skills.lines()

    def equivalent_call(self, call: ToolCall) -> ToolCall | None:
        """The call of Task that the use of a skill amounts to; None when it starts no agent."""
        return self._amounts(call, lambda: self.skills)

    def preloaded(self, names: Sequence[str]) -> PreloadedSkills:
        """The text of the skills that an agent's file wants to have from the start."""
        return self.skills.preloaded(names)
