"""What an agent is told about the form of its results, and which of its messages did."""

from collections.abc import Sequence
from typing import Any

from gencode.core.messages import Message, NoticeKind, SystemNotice, UserMessage

BEGINNING = "Your last reply must be one JSON value that fits this JSON Schema, and nothing else around it:\n"
NO_MORE = "From here on your replies need not be JSON any more."

Form = dict[str, Any] | None
"""The JSON Schema of a result; None for words."""


def told_form(schema: Form, earlier: Sequence[Message] = ()) -> list[UserMessage]:
    """What an agent is told about the form of its results, where that is not what it was told last."""
    last = next((told for each in reversed(earlier) if (told := form_in(each))), None)
    if schema == (last.schema if last else None):
        return []
    text = NO_MORE if schema is None else BEGINNING + _in_lines(schema)
    return [UserMessage(text, sender="system", notice=SystemNotice(NoticeKind.FORM, schema=schema))]


def form_in(message: Message) -> SystemNotice | None:
    """What a message told an agent about the form of its results; None if it is about something else."""
    notice = message.notice if isinstance(message, UserMessage) else None
    return notice if notice is not None and notice.kind is NoticeKind.FORM else None


def _in_lines(schema: dict[str, Any]) -> str:
    from msgspec import json

    return json.format(json.encode(schema), indent=1).decode()
