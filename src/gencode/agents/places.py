"""Agents room: where agent files lie, in the order in which they count.

The dialects themselves are loaded when a file of theirs is there: most people have files of one or two.
"""

from importlib import import_module

from gencode.agents.dialect import Dialect

MODULES = {
    "gencode": "gencode",
    "claude": "claude",
    "agents": "neutral",
    "task-types": "task_types",
    "opencode": "opencode",
    "copilot": "copilot",
    "gemini": "gemini",
    "qwen": "qwen",
    "codex": "codex",
    "cursor": "cursor",
    "goose": "goose",
    "goose-recipe": "goose_recipe",
    "kiro": "kiro",
    "kimi": "kimi",
    "kimi-code": "kimi_code",
    "openhands": "openhands",
    "letta": "letta",
    "factory": "factory",
    "kilo": "kilo",
    "junie": "junie",
    "continue": "continue_dev",
    "rovodev": "rovodev",
    "pi": "pi",
}
"""Every dialect with its module, the first one counting most."""

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

_RANKS = {name: place for place, name in enumerate(MODULES)}
_LEVELS = ("gencode", "claude", "agents", "task-types")
"""The dialects that the contract names, each a level of its own; all others are one level after them."""


def dialect(name: str) -> Dialect:
    """A dialect by its name."""
    return import_module(f"gencode.agents.dialects.{MODULES[name]}").DIALECT


def level(name: str) -> int:
    """The level of the contract's order at which a dialect counts; in each the nearest folder comes first."""
    return _LEVELS.index(name) if name in _LEVELS else len(_LEVELS)


def rank(name: str) -> int:
    """The place of a dialect among those of its level in one folder."""
    return _RANKS[name]
