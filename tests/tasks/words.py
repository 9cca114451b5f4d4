"""What the tests of control share: stores with ids that a script can know, and what was said."""

import itertools
from typing import Any

from msgspec.structs import replace

from gencode.app import GenCode
from gencode.core.messages import Message, ToolMessage, UserMessage
from gencode.core.task import transcript_of
from gencode.stores.memory import MemoryStore
from gencode.testing import reported


def numbered() -> MemoryStore:
    """A store whose tasks have ids that a script can know: 00000001 is the conversation."""
    numbers = itertools.count(1)
    return MemoryStore(draw=lambda: f"{next(numbers):08x}")


async def said(gen: GenCode, task: str) -> list[Message]:
    """The transcript of a task."""
    return transcript_of(await gen.history.events(task))


def heard(messages: list[Message]) -> list[UserMessage]:
    """What an agent was told, without the frames around what others said."""
    found = [each for each in messages if isinstance(each, UserMessage)]
    return [replace(each, text=reported(each.text)) for each in found]


def results(messages: list[Message]) -> list[str]:
    """What its calls gave, of reports only what the agents said."""
    found = [each for each in messages if isinstance(each, ToolMessage)]
    return [reported(result.text) for each in found for result in each.results]


def settings(**words: Any) -> dict[str, Any]:
    """Settings as flags."""
    return words
