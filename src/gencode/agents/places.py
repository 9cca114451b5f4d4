"""Agents room: where agent files lie, in the order in which they count.

The dialects themselves are loaded when a file of theirs is there: most people have files of one or two.
"""

from importlib import import_module

from gencode.agents.dialect import Dialect

MODULES = {
    "gencode": "table",
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
