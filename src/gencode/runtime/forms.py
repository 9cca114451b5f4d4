"""Runtime room: what an agent is told about the form of its results, and which of its messages did."""

from collections.abc import Sequence
from typing import Any

from gencode.core.messages import Message, UserMessage

BEGINNING = "Your last reply must be one JSON value that fits this JSON Schema, and nothing else around it:\n"
NO_MORE = "From here on your replies need not be JSON any more."

Form = dict[str, Any] | None
"""The JSON Schema of a result; None for words."""


def told_form(schema: Form, earlier: Sequence[Message] = ()) -> list[UserMessage]:
    """What an agent is told about the form of its results, where that is not what it was told last."""
    last = next((told for each in reversed(earlier) if (told := form_in(each))), NO_MORE)
    note = NO_MORE if schema is None else BEGINNING + _in_lines(schema)
    return [] if note == last else [UserMessage(note, sender="system")]


def form_in(message: Message) -> str:
    """What a message told an agent about the form of its results; nothing if that is not what it is about."""
    if not isinstance(message, UserMessage) or message.sender != "system":
        return ""
    return message.text if message.text == NO_MORE or message.text.startswith(BEGINNING) else ""


def _in_lines(schema: dict[str, Any]) -> str:
    from msgspec import json

    return json.format(json.encode(schema), indent=1).decode()
