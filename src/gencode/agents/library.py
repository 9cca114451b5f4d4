"""Agents room: agents and skills as their files are now, each kind read when it is first asked for."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gencode.agents.file_watcher import LiveRegistry, living_agents, living_skills
from gencode.agents.registry import Registry
from gencode.agents.skills import PreloadedSkills, Skills
from gencode.core.messages import ToolCall
from gencode.core.spec import AgentSpec
from gencode.permissions.trust import FolderTrust

Amounts = Callable[[ToolCall, Callable[[], Skills]], ToolCall | None]
"""Tells which call the use of a skill amounts to; it looks at skills only for a call that uses one."""


class Library:
    """What the user and projects bring, the nearest first, and before them agents that were `typed`.

    A change of a file is in force for whoever begins after it.
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
        """The agents there were when somebody last looked, which whoever sends one does."""
        return self._typed(self._agents.last)

    def _typed(self, files: Registry) -> Registry:
        return files if self._with_typed is None else self._with_typed(files)

    @property
    def skills(self) -> Skills:
        """The skills there are now."""
        if self._skills is None:
            self._skills = living_skills(self._home, self._projects)
        return self._skills.current()

    def find(self, name: str) -> AgentSpec:
        """An agent by name; UnknownName offers the nearest."""
        return self.agents.find(name)

    def spawnable(self) -> Sequence[AgentSpec]:
        """Every agent that may be sent."""
        return self.agents.spawnable()

    def skill_lines(self) -> str:
        """The skills an agent may choose from, a line each; empty when there are none."""
        return self.skills.lines()

    def amounts_to(self, call: ToolCall) -> ToolCall | None:
        """The call of Task that the use of a skill amounts to; None when it sends nobody."""
        return self._amounts(call, lambda: self.skills)

    def preloaded(self, names: Sequence[str]) -> PreloadedSkills:
        """The text of the skills that an agent's file wants to have from the start."""
        return self.skills.preloaded(names)
