"""GenCode: a coding assistant built around subagents."""

TYPE_CHECKING = False  # `typing` itself would double the time of `gen --version`

if TYPE_CHECKING:
    from gencode.agent.ports import Provider as Provider
    from gencode.agent.toolbox import ToolContext as ToolContext
    from gencode.agent.toolbox import ToolOutput as ToolOutput
    from gencode.agent.toolbox import tool as tool
    from gencode.app import GenCode as GenCode
    from gencode.app import ImportedTask as ImportedTask
    from gencode.app import SentMessage as SentMessage
    from gencode.app import TaskJournal as TaskJournal
    from gencode.core.budget import Budget as Budget
    from gencode.core.errors import ProviderError as ProviderError
    from gencode.core.errors import StoreTrouble as StoreTrouble
    from gencode.core.errors import ToolError as ToolError
    from gencode.core.errors import UserMistake as UserMistake
    from gencode.core.events import CallDecided as CallDecided
    from gencode.core.events import CallFinished as CallFinished
    from gencode.core.events import CallStarted as CallStarted
    from gencode.core.events import Event as Event
    from gencode.core.events import MessageAdded as MessageAdded
    from gencode.core.events import ProgressMade as ProgressMade
    from gencode.core.events import TaskCreated as TaskCreated
    from gencode.core.events import TaskEnded as TaskEnded
    from gencode.core.events import TaskStarted as TaskStarted
    from gencode.core.events import TextArrived as TextArrived
    from gencode.core.events import ThinkingArrived as ThinkingArrived
    from gencode.core.outcome import Outcome as Outcome
    from gencode.core.questions import Answer as Answer
    from gencode.core.questions import Asker as Asker
    from gencode.core.questions import Question as Question
    from gencode.core.status import Status as Status
    from gencode.tasks.handle import ActionResult as ActionResult
    from gencode.tasks.handle import Handle as Handle
    from gencode.tasks.history import Comparison as Comparison
    from gencode.tasks.history import Replay as Replay

__version__ = "0.2.0"

_HOMES = {
    "Answer": "gencode.core.questions",
    "Asker": "gencode.core.questions",
    "Budget": "gencode.core.budget",
    "CallDecided": "gencode.core.events",
    "CallFinished": "gencode.core.events",
    "CallStarted": "gencode.core.events",
    "Comparison": "gencode.tasks.history",
    "Event": "gencode.core.events",
    "GenCode": "gencode.app",
    "Handle": "gencode.tasks.handle",
    "ImportedTask": "gencode.app",
    "MessageAdded": "gencode.core.events",
    "Outcome": "gencode.core.outcome",
    "ProgressMade": "gencode.core.events",
    "Provider": "gencode.agent.ports",
    "ProviderError": "gencode.core.errors",
    "Question": "gencode.core.questions",
    "Replay": "gencode.tasks.history",
    "SentMessage": "gencode.app",
    "Status": "gencode.core.status",
    "StoreTrouble": "gencode.core.errors",
    "ActionResult": "gencode.tasks.handle",
    "TaskCreated": "gencode.core.events",
    "TaskEnded": "gencode.core.events",
    "TaskJournal": "gencode.app",
    "TaskStarted": "gencode.core.events",
    "TextArrived": "gencode.core.events",
    "ThinkingArrived": "gencode.core.events",
    "ToolContext": "gencode.agent.toolbox",
    "ToolError": "gencode.core.errors",
    "ToolOutput": "gencode.agent.toolbox",
    "UserMistake": "gencode.core.errors",
    "tool": "gencode.agent.toolbox",
}

__all__ = [
    "ActionResult",
    "Answer",
    "Asker",
    "Budget",
    "CallDecided",
    "CallFinished",
    "CallStarted",
    "Comparison",
    "Event",
    "GenCode",
    "Handle",
    "ImportedTask",
    "MessageAdded",
    "Outcome",
    "ProgressMade",
    "Provider",
    "ProviderError",
    "Question",
    "Replay",
    "SentMessage",
    "Status",
    "StoreTrouble",
    "TaskCreated",
    "TaskEnded",
    "TaskJournal",
    "TaskStarted",
    "TextArrived",
    "ThinkingArrived",
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
