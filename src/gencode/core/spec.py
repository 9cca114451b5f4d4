"""What an agent and a skill are, a request for a task, and the workspace it works in."""

import re
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.budget import Budget
from gencode.core.messages import SystemNotice
from gencode.core.place import FolderCopy
from gencode.core.rules import Mode, Rule

LONGEST_REMEMBERED = 64
DEEPEST = 4
"""So deep agents may be nested at most."""

Effort = Literal["low", "medium", "high"]
"""How hard a model is asked to think before it answers."""

Isolation = Literal["", "process", "worktree"]
"""Where an agent works: beside its sender, in a process of its own, or in a git worktree of its own."""

_SEPARATORS = re.compile(r"[\s_.-]+")


class Lifetime(StrEnum):
    """The branch of the stop tree a task hangs from."""

    TURN = "turn"
    SESSION = "session"
    APP = "app"


class ToolChoice(Struct, frozen=True):
    """Which tools an agent gets: those of `allow` (None: all usual ones) and `also`, without `deny`."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def earlier_version(why: str) -> str:
    """The warning that a file is used as it was before it was last changed."""
    return f"an earlier version is used: {why}"


class AgentSpec(Struct, frozen=True):
    """One agent. `mode` None means its parent's; `max_turns` None means no limit; `effort` None: unasked.

    `override`: a project's agent may take the name of a built-in one. `sends` are the agents it may send
    where it may send any (None: all for the main agent, none for one that was sent). A `hidden` agent is
    found by its name and listed nowhere. `instructions`: whether it is told what the project's files say.
    """

    name: str
    description: str
    prompt: str = ""
    tools: ToolChoice = ToolChoice()
    model: str = "inherit"
    mode: Mode | None = None
    max_turns: int | None = 50
    result_cap: int = 8_000
    rules: tuple[Rule, ...] = ()
    source: str = ""
    builtin: bool = False
    extra: dict[str, Any] = {}
    warnings: tuple[str, ...] = ()
    effort: Effort | None = None
    override: bool = False
    dialect: str = "gencode"
    sends: tuple[str, ...] | None = None
    background: bool = False
    isolation: Isolation = ""
    output_schema: dict[str, Any] | None = None
    budget: Budget = Budget()
    initial_prompt: str = ""
    skills: tuple[str, ...] = ()
    mcp_servers: tuple[Any, ...] = ()
    memory: str = ""
    hooks: dict[str, Any] = {}
    colour: str = ""
    hidden: bool = False
    instructions: bool = True
    temperature: float | None = None
    outdated: str = ""
    """Why its file is used as it was before it was last changed."""

    @property
    def cautions(self) -> tuple[str, ...]:
        """All warnings about its file."""
        return (*self.warnings, earlier_version(self.outdated)) if self.outdated else self.warnings


class TaskRequest(Struct, frozen=True):
    """A wish to have work done by an agent; `spawned` in the form of the tool `spawn`.

    `output_schema` is a JSON Schema for its result.
    """

    agent: str
    prompt: str
    description: str = ""
    model: str = ""
    max_turns: int | None = None
    background: bool = False
    resume: str = ""
    spawned: bool = False
    isolation: Isolation = ""
    output_schema: dict[str, Any] | None = None
    budget: Budget = Budget()
    here: bool = False
    """Whether an earlier task is to go on in the folder that is open, if that is a clone of its own."""
    notice: SystemNotice | None = None
    """What the prompt is about, where nobody but GenCode says it."""

    def within(self, spec: AgentSpec) -> "TaskRequest":
        """As a model may ask it: for no more turns than the agent's file gives it."""
        if self.max_turns is None or spec.max_turns is None:
            return self
        return replace(self, max_turns=min(self.max_turns, spec.max_turns))


class ForkPoint(Struct, frozen=True, omit_defaults=True):
    """Where a fork begins: after fact number `at` of the task it copies, which may have been `away` then.

    That is in a copy of its folder on another machine.
    """

    at: int
    away: bool = False


def same_name(name: str) -> str:
    """The key under which names are compared: no case, no separators."""
    return _short_name(name) if len(name) <= LONGEST_REMEMBERED else _compared(name)


def _compared(name: str) -> str:
    return _SEPARATORS.sub("", name).casefold()


_short_name = lru_cache(512)(_compared)


class Workspace(Struct, frozen=True):
    """Where work happens; paths are judged against these. `cwd` is at or below `root`."""

    root: Path
    cwd: Path
    home: Path
    copied: FolderCopy | None = None
    started: tuple[str, ...] = ()
    """Files below `root` that hooks and MCP servers start, whoever named them: agents do not change those
    unasked."""

    @property
    def clone(self) -> FolderCopy | None:
        """What it is a clone of, to be remembered by tasks that begin here; nothing for any other folder."""
        return self.copied.clone if self.copied is not None else None

    def as_clone(self, clone: FolderCopy | None) -> "Workspace":
        """The same place for a task that began in a clone: what was refused there still is.

        Back in the folder that it is a clone of, that goes without saying.
        """
        if clone is None:
            return self
        if self.copied is None:
            return replace(self, copied=clone) if self.cwd.is_relative_to(clone.top) else self
        return replace(self, copied=self.copied.with_clone(clone))


class Skill(Struct, frozen=True):
    """One skill, read from a `SKILL.md`. It is text: nothing in it gives a permission.

    `agent` is the agent that does the work (empty: whoever uses the skill). A `hidden` one is not for models
    to choose. `tools` is what its file says about tools, which has no effect. `cut`: only the beginning of
    its text is here; all of it is in `source`. `files` is what else is in the folder of a project's skill.
    """

    name: str
    description: str
    body: str = ""
    source: str = ""
    agent: str = ""
    model: str = ""
    tools: tuple[str, ...] | None = None
    hint: str = ""
    hidden: bool = False
    project: bool = False
    cut: bool = False
    files: tuple[str, ...] = ()
    extra: dict[str, Any] = {}
    warnings: tuple[str, ...] = ()
    outdated: str = ""
    """Why its file is used as it was before it was last changed."""

    @property
    def cautions(self) -> tuple[str, ...]:
        """All warnings about its file."""
        return (*self.warnings, earlier_version(self.outdated)) if self.outdated else self.warnings

    @property
    def folder(self) -> str:
        """Where the skill and its files lie."""
        return self.source.rpartition("/")[0]


class SkillEntry(Struct, frozen=True):
    """One file: the skill it describes, or the sentence that says why it does not.

    `project`: it came with the folder we work in. `untrusted` says why it was not even read.
    """

    path: str
    skill: Skill | None = None
    shadowed_by: str = ""
    problem: str = ""
    project: bool = False
    untrusted: str = ""
