"""What an agent and a skill are, a request for a task, and the workspace it works in."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from gencode.core.budget import Budget
from gencode.core.messages import SystemNotice
from gencode.core.place import FolderCopy
from gencode.core.rules import Mode, Rule
from gencode.core.structs import replace

LONGEST_REMEMBERED = 64
DEEPEST = 4
"""The deepest nesting of agents."""

Effort = Literal["low", "medium", "high"]
"""How much a model should reason before it answers."""

Isolation = Literal["", "process", "worktree"]
"""Where an agent works: in its parent's folder, in its own process, or in its own git worktree."""

Context = Literal["", "fork"]
"""What a subagent knows when it starts: its prompt only, or, as a fork of its parent, all that one knows."""

MAIN = "main"
"""The name of the agent that leads conversations, unless another one is named."""

FORK = "fork"
"""The name of a fork in rules: `Task(fork)`."""

COLOURS = ("red", "green", "yellow", "blue", "purple", "magenta", "cyan", "orange", "pink")
"""In which an agent can be shown."""

_SEPARATORS = re.compile(r"[\s_.-]+")


class ToolChoice(Struct, frozen=True):
    """The tools of an agent: those of `allow` (None: the usual ones) and `also`, without `deny`.

    `*` in `also` is every tool there is.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def earlier_version(why: str) -> str:
    """The warning that a file is used in the version before its last change."""
    return f"an earlier version is used: {why}"


class AgentSpec(Struct, frozen=True):
    """One agent. `mode` None: its parent's; `max_turns` None: no limit; `effort` None: not set.

    `override`: a project's agent may take the name of a built-in one. `sends` are the agents it may start,
    where it may start any (None: all for the main agent, none for a subagent). A `hidden` agent is found by
    its name and not listed. `instructions`: whether it gets the project's instruction files.
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
    project: bool = False
    """Its file came with the folder we work in."""
    colour: str = ""
    hidden: bool = False
    instructions: bool = True
    temperature: float | None = None
    max_tokens: int | None = None
    """How many tokens one reply of its model has at most; None: as its parent's."""
    display_name: str = ""
    """What people read in its place; empty: its name."""
    outdated: str = ""
    """Why its file is used in the version before its last change."""

    @property
    def cautions(self) -> tuple[str, ...]:
        """All warnings about its file."""
        return (*self.warnings, earlier_version(self.outdated)) if self.outdated else self.warnings


class TaskRequest(Struct, frozen=True):
    """A request for a task of an agent; `spawned` with the form of the tool `spawn`.

    `output_schema` is a JSON Schema for its result, `max_tokens` limits each reply of its model.
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
    max_tokens: int | None = None
    context: Context = ""
    here: bool = False
    """Whether an earlier task is resumed in the open folder, if that is a clone of its own."""
    notice: SystemNotice | None = None
    """What the prompt is about, if GenCode wrote it."""

    def within(self, spec: AgentSpec) -> "TaskRequest":
        """The request as a model may make it: no more turns and no longer replies than the file allows."""
        return replace(
            self,
            max_turns=_narrower(self.max_turns, spec.max_turns),
            max_tokens=_narrower(self.max_tokens, spec.max_tokens),
        )


def _narrower(asked: int | None, allowed: int | None) -> int | None:
    """The smaller of two limits; None if nothing was asked."""
    return asked if asked is None or allowed is None else min(asked, allowed)


class ForkPoint(Struct, frozen=True, omit_defaults=True):
    """Where a fork begins: after event number `at` of its original, which may have been `away` then.

    `away`: in a copy of its folder on another machine.
    """

    at: int
    away: bool = False


def same_name(name: str) -> str:
    """The key by which names are compared: without case and separators."""
    return _short_name(name) if len(name) <= LONGEST_REMEMBERED else _compared(name)


def _compared(name: str) -> str:
    return _SEPARATORS.sub("", name).casefold()


_short_name = lru_cache(512)(_compared)


class Workspace(Struct, frozen=True):
    """The folders where a task works; paths are resolved against these. `cwd` is at or below `root`."""

    root: Path
    cwd: Path
    home: Path
    copied: FolderCopy | None = None
    started: tuple[str, ...] = ()
    """Files below `root` that hooks and MCP servers start; agents need approval to change them."""

    @property
    def clone(self) -> FolderCopy | None:
        """What it is a clone of, recorded in tasks that begin here; None for any other folder."""
        return self.copied.clone if self.copied is not None else None

    def as_clone(self, clone: FolderCopy | None) -> "Workspace":
        """The same folder for a task that began in a clone: what was denied there is denied here.

        In the folder it is a clone of, its own rules say so.
        """
        if clone is None:
            return self
        if self.copied is None:
            return replace(self, copied=clone) if self.cwd.is_relative_to(clone.top) else self
        return replace(self, copied=self.copied.with_clone(clone))


class Skill(Struct, frozen=True):
    """One skill, read from a `SKILL.md`. It is text and gives no permission.

    `agent` does the work (empty: the agent that uses the skill). A `hidden` skill is not offered to models.
    `tools` is what its file says about tools, which has no effect. `cut`: only the beginning of its text is
    here; all of it is in `source`. `files` are the other files in the folder of a project's skill.
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
    """Why its file is used in the version before its last change."""

    @property
    def cautions(self) -> tuple[str, ...]:
        """All warnings about its file."""
        return (*self.warnings, earlier_version(self.outdated)) if self.outdated else self.warnings

    @property
    def folder(self) -> str:
        """The folder of the skill and its files."""
        return self.source.rpartition("/")[0]


class SkillEntry(Struct, frozen=True):
    """One file: the skill it describes, or why it is none.

    `project`: it belongs to the folder we work in. `untrusted` says why it was not read.
    """

    path: str
    skill: Skill | None = None
    shadowed_by: str = ""
    problem: str = ""
    project: bool = False
    untrusted: str = ""
