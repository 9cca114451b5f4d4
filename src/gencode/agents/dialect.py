"""What a dialect of agent files is, and what a file of any dialect becomes.

A dialect gives the folders of its files, the names of its fields and what is special about it; everything
else is read in the same way for all of them.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct

from gencode.agents.agent_fields import Fields
from gencode.agents.file_errors import FileFinding
from gencode.agents.frontmatter import Stage
from gencode.agents.tool_lists import RequestedTools
from gencode.core.rules import Mode
from gencode.core.spec import AgentSpec, same_name

AllTools = Literal["all"]
ALL: AllTools = "all"


Modes = Mapping[str, Mode | None]

CLAUDE_MODES = {
    "default": Mode.DEFAULT,
    "manual": Mode.DEFAULT,
    "auto": Mode.DEFAULT,
    "acceptedits": Mode.ACCEPT_EDITS,
    "dontask": Mode.UNATTENDED,
    "bypasspermissions": Mode.DONT_ASK,
    "plan": Mode.PLAN,
}
"""What the words of a product for permission modes mean here, without case and separators."""
_OTHER_MODES = {"readonly": Mode.PLAN, "ask": Mode.DEFAULT, "read": Mode.PLAN}
"""Words that no product knows and people write all the same."""


class ParsedFile(Struct, frozen=True):
    """The parsed contents of a file: fields with their lines, the text below them, and how it was read."""

    fields: dict[str, Any]
    lines: dict[str, int] = {}
    body: str = ""
    stage: Stage = "strict"
    repaired: tuple[FileFinding, ...] = ()


class AgentFile(Struct, frozen=True):
    """One file after it was read: its agent or why there is none, and the words of the file beside ours."""

    path: str
    dialect: str
    spec: AgentSpec | None = None
    stage: Stage = "strict"
    findings: tuple[FileFinding, ...] = ()
    why_not: str = ""
    tools: list[str] | AllTools = ALL
    disallowed: list[str] = []
    model: str | list[str] | None = None
    other: bool = False
    """Whether it does not even look like an agent, as a README does not."""
    written: str = ""
    """Of a file that was written just now: the SHA-256 of it."""


def field_names(**fields: str) -> dict[str, str]:
    """A table from spellings to field names, made from `name="spelling spelling"`; `_` stands for `-`."""
    return {
        same_name(each): "" if field == "nothing" else field.replace("_", "-")
        for field, spellings in fields.items()
        for each in spellings.split()
    }


COMMON: Mapping[str, str] = MappingProxyType(
    field_names(
        name="name",
        description="description",
        when_to_use="when-to-use",
        model="model",
        permission_mode="permission-mode",
        max_turns="max-turns",
        tools="tools",
        allowed_tools="allowed-tools",
        disallowed_tools="disallowed-tools",
        permissions="permissions",
        permission="permission",
        result_cap="result-cap",
        effort="effort",
        override="override",
        sends="sends",
        background="background",
        isolation="isolation",
        output_schema="output-schema",
        budget="budget",
        initial_prompt="initial-prompt",
        prompt="system-prompt",
        skills="skills",
        mcp_servers="mcp-servers",
        memory="memory",
        hooks="hooks",
        colour="color colour",
        hidden="hidden",
        instructions="instructions",
        temperature="temperature",
        max_tokens="max-tokens",
        display_name="display-name",
    )
)
"""The fields of GenCode and Claude Code, which everybody else borrows from."""


_NAMELESS = frozenset(("agent.md", "agent.yaml", "agent.yml", "agent.json", "AGENT.md", "SUBAGENT.md"))


Near = Callable[[str], bytes | None]
"""Reads a file by its path from the folder of the file that names it; None if there is none.

The caller has checked that the path does not lead out of that folder.
"""


def alone(_: str) -> None:
    """No other file is looked at."""


def by_itself(parsed: ParsedFile, _: Near, __: PurePath) -> ParsedFile:
    """A dialect whose files need no others."""
    return parsed


def as_is(parsed: ParsedFile) -> ParsedFile:
    """Nothing is special about the file as a whole."""
    return parsed


def as_made(spec: AgentSpec, _: Fields) -> AgentSpec:
    """Nothing is special about the agent."""
    return spec


def usual_name(path: PurePath) -> str:
    """The name of an agent that has none: its file's, or its folder's where all files have one name."""
    name = path.name
    for ending in (".agent.md", ".chatmode.md"):
        if name.endswith(ending):
            return name.removesuffix(ending)
    return path.parent.name if path.name in _NAMELESS else path.stem


class Dialect(Struct, frozen=True, eq=False):
    """How one product writes agents.

    `project` and `user` are folders below a project and below the user's home; files that all have the name
    `file` are one folder further down. If it is `registered`, `*` stands for every tool there is, also for
    those that have to be named. `joined` adds the files that one is based on, `prepare` turns everything into
    plain fields, `wanted` reads its tools, `finish` adds what is special.
    """

    name: str
    project: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    endings: tuple[str, ...] = (".md",)
    file: str = ""
    fields: Mapping[str, str] = COMMON
    modes: Modes = MappingProxyType(CLAUDE_MODES)
    families: tuple[str, ...] = ()
    servers: str = ""
    modules: bool = False
    strict: bool = False
    nameless: bool = False
    registered: bool = False
    every: tuple[str, ...] = ()
    joined: Callable[[ParsedFile, Near, PurePath], ParsedFile] = by_itself
    prepare: Callable[[ParsedFile], ParsedFile] = as_is
    wanted: Callable[[Fields], RequestedTools] | None = None
    finish: Callable[[AgentSpec, Fields], AgentSpec] = as_made
    called: Callable[[PurePath], str] = usual_name


def mode_called(written: str, modes: Modes) -> tuple[Mode | None, bool]:
    """The mode for a word, and whether the dialect knows the word.

    An unknown word is read as `default`: the parent may let the agent do less, never more.
    """
    plain = re.sub(r"[-_\s]", "", written).casefold()
    if plain in modes:
        return modes[plain], True
    return _OTHER_MODES.get(plain, Mode.DEFAULT), False
