"""GenCode: a coding assistant whose heart is its subagent system."""

TYPE_CHECKING = False  # `typing` itself would double the time of `gen --version`

if TYPE_CHECKING:
    from gencode.app import GenCode as GenCode
    from gencode.core.budget import Budget as Budget
    from gencode.core.errors import ToolError as ToolError
    from gencode.core.errors import UserMistake as UserMistake
    from gencode.core.events import Event as Event
    from gencode.core.outcome import Outcome as Outcome
    from gencode.runtime.toolbox import ToolContext as ToolContext
    from gencode.runtime.toolbox import ToolOutput as ToolOutput
    from gencode.runtime.toolbox import tool as tool

__version__ = "0.1.0"

_HOMES = {
    "Budget": "gencode.core.budget",
    "Event": "gencode.core.events",
    "GenCode": "gencode.app",
    "Outcome": "gencode.core.outcome",
    "ToolContext": "gencode.runtime.toolbox",
    "ToolError": "gencode.core.errors",
    "ToolOutput": "gencode.runtime.toolbox",
    "UserMistake": "gencode.core.errors",
    "tool": "gencode.runtime.toolbox",
}

__all__ = [
    "Budget",
    "Event",
    "GenCode",
    "Outcome",
    "ToolContext",
    "ToolError",
    "ToolOutput",
    "UserMistake",
    "tool",
]


def __getattr__(name: str) -> object:
    """Public names are imported when they are first used, so that `gen --version` imports nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
