"""The folders of agents, skills and slash commands, of a project and of the user, by dialect.

Everybody who reads them, watches them or keeps others from writing them takes the places from here.
"""

import os
import re
from pathlib import Path
from posixpath import dirname, join, normpath

from gencode.permissions.secrets import holds_own_settings

AGENTS = ".gen/agents"

AGENT_FOLDERS: dict[str, tuple[str, ...]] = {
    "gencode": (AGENTS,),
    "claude": (".claude/agents",),
    "agents": (".agents/agents",),
    "task-types": ("data/subagents", "subagents"),
    "opencode": (".opencode/agent", ".opencode/agents"),
    "copilot": (".github/agents", ".github/chatmodes"),
    "gemini": (".gemini/agents",),
    "qwen": (".qwen/agents",),
    "codex": (".codex/agents",),
    "cursor": (".cursor/agents",),
    "goose": (".goose/agents",),
    "goose-recipe": (".goose/recipes",),
    "kiro": (".kiro/agents",),
    "kimi": (".kimi/agents",),
    "kimi-code": (".kimi-code/agents",),
    "openhands": (".openhands/agents",),
    "letta": (".letta/agents",),
    "factory": (".factory/droids",),
    "kilo": (".kilo/agents", ".kilo/agent", ".kilocode/agents"),
    "junie": (".junie/agents",),
    "continue": (".continue/agents",),
    "rovodev": (".rovodev/subagents",),
    "pi": (".pi/agents",),
}
"""Where a project has agents, by the dialect they are written in."""
ONE_NAME = "SUBAGENT.md"
"""What every agent of the dialect task-types is called, one folder down."""
CONFIGS = ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc")
"""Settings of opencode, which may hold agents."""
FILE_INSIDE = re.compile(r"\{file:([^{}\n]{1,400})\}")
"""How opencode's settings take the text of another file, which lies below the folder of the settings."""
MOST_INSIDE = 200
ROLES_CONFIG = ".codex/config.toml"
"""Settings of Codex, which may describe the agents that lie beside them."""
CONFIG_NAMES = frozenset(path.rpartition("/")[2] for path in CONFIGS)

USER_FOLDERS: tuple[tuple[str, str], ...] = (
    ("claude", ".claude/agents"),
    ("agents", ".agents/agents"),
    ("opencode", ".config/opencode/agent"),
    ("opencode", ".config/opencode/agents"),
    ("copilot", ".copilot/agents"),
    ("gemini", ".gemini/agents"),
    ("qwen", ".qwen/agents"),
    ("codex", ".codex/agents"),
    ("cursor", ".cursor/agents"),
    ("goose", ".config/goose/agents"),
    ("goose-recipe", ".config/goose/recipes"),
    ("kiro", ".kiro/agents"),
    ("kimi", ".kimi/agents"),
    ("kimi-code", ".kimi-code/agents"),
    ("openhands", ".openhands/agents"),
    ("letta", ".letta/agents"),
    ("factory", ".factory/droids"),
    ("kilo", ".config/kilo/agents"),
    ("kilo", ".config/kilo/agent"),
    ("kilo", ".kilo/agents"),
    ("junie", ".junie/agents"),
    ("continue", ".continue/agents"),
    ("rovodev", ".rovodev/subagents"),
    ("pi", ".pi/agent/agents"),
    ("pi", ".pi/agents"),
)
"""Folders below the user's home; the one of GenCode itself is `$GEN_HOME/agents`."""

USER_CONFIGS = (".config/opencode/opencode.json", ".config/opencode/opencode.jsonc")
"""Settings of opencode below the user's home, which may hold agents."""

SKILL_FOLDERS = (".gen/skills", ".claude/skills", ".agents/skills")
"""Where skills are, below a project and below the user's home. The user's `.gen` may be elsewhere."""

COMMAND_FOLDERS = (
    ".gen/commands",
    ".claude/commands",
    ".opencode/command",
    ".opencode/commands",
    ".gemini/commands",
    ".codex/prompts",
)
"""Where a project has slash commands, a file for each."""
USER_COMMAND_FOLDERS = (
    ".gen/commands",
    ".claude/commands",
    ".config/opencode/command",
    ".config/opencode/commands",
    ".gemini/commands",
    ".codex/prompts",
)
"""The same below the user's home, in the same order. The user's `.gen` may be elsewhere."""

USER_PLACES: tuple[str, ...] = tuple(
    dict.fromkeys(
        (
            *(each for _, each in USER_FOLDERS),
            *USER_CONFIGS,
            ROLES_CONFIG,
            *SKILL_FOLDERS,
            *USER_COMMAND_FOLDERS,
        )
    )
)
"""Below the user's home: everything that is the user's own and needs no trust, and may start programs."""
WORKTREES = "worktrees"
"""The one part of GenCode's own per-user folder in which agents work: their copies of repositories."""

NAMED = AGENT_FOLDERS["task-types"]
"""The folders whose agents are all called the same, each in a folder of its own."""
_FOUND_IN = {
    folder: dialect for dialect, folders in AGENT_FOLDERS.items() for folder in folders if folder not in NAMED
}
TREES = tuple(_FOUND_IN)
"""The folders with agents at any depth."""
_ENDINGS = {
    "codex": (".toml",),
    "kimi": (".yaml", ".yml"),
    "goose-recipe": (".yaml", ".yml"),
    "kiro": (".md", ".json"),
}
"""How files of agents end that are not Markdown."""
_WITH_OTHERS = ("codex", "goose-recipe", "kimi")
"""The dialects whose files may say more together than each of them alone."""
_WITH_BASES = tuple(f"{folder}/" for folder in AGENT_FOLDERS["kimi"])


def users_places(home: str) -> tuple[str, ...]:
    """The user's own places below a home as absolute paths, as written and as their links lead now."""
    found: dict[str, None] = {}
    for place in (f"{home}/{each}" for each in USER_PLACES):
        found.setdefault(place)
        if os.path.lexists(place):
            found.setdefault(os.path.realpath(place))
    return tuple(found)


def named_inside(content: bytes, path: str) -> tuple[str, ...]:
    """The files of the same folder or project that settings of opencode take texts from, by their paths."""
    names = FILE_INSIDE.findall(content.decode(errors="replace"))[:MOST_INSIDE]
    return tuple(dict.fromkeys(filter(None, (beside(path, name) for name in names))))


def beside(path: str, name: str) -> str:
    """The path that a name in the file at `path` means; empty where it leads out of the project."""
    name = name.strip()
    found = normpath(join(dirname(path), name))
    outside = not name or name.startswith(("/", "~")) or found.startswith(("/", ".."))
    return "" if outside or "\0" in name else found


def is_base(path: str) -> bool:
    """Whether agents beside a file may be based on it without it being one."""
    return path.startswith(_WITH_BASES) and path.endswith((".md", ".txt"))


def agent_dialect(path: str) -> str | None:
    """The dialect of an agent's file in a project by its path; None if it is none."""
    if path in CONFIGS:
        return "opencode"
    above, _, name = path.rpartition("/")
    if name.startswith("."):
        return None
    if name == ONE_NAME and above.rpartition("/")[0] in NAMED:
        return "task-types"
    if above == AGENTS:
        return "gencode" if name.endswith(".md") else None
    while above.count("/"):
        dialect = _FOUND_IN.get(above)
        if dialect not in (None, "gencode"):
            return dialect if name.endswith(_ENDINGS.get(dialect, (".md",))) else None
        above = above.rpartition("/")[0]
    return None


def stands_alone(path: str) -> bool:
    """Whether a file of a project holds one agent and is part of no other one."""
    dialect = agent_dialect(path)
    return dialect is not None and path not in CONFIGS and dialect not in _WITH_OTHERS


def worktrees_folder(home: Path) -> Path:
    """The folder of all worktrees: in our home, or beside it where no agent may ever write in there."""
    parts = Path(os.path.realpath(home)).parts
    for depth, part in enumerate(parts):
        if holds_own_settings((part.casefold(),)):
            return Path(*parts[:depth], f"{part}-{WORKTREES}")
    return Path(*parts, WORKTREES)
