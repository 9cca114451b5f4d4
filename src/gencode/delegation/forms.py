"""Results in a form: which JSON Schema counts for a task, if it is one, and what its agent is told of it."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from gencode.core.events import TaskCreated
from gencode.core.messages import Message, UserMessage
from gencode.core.spec import AgentSpec, TaskRequest
from gencode.core.task import Task

BEGINNING = "Your last reply must be one JSON value that fits this JSON Schema, and nothing else around it:\n"
NO_MORE = "From here on your replies need not be JSON any more."


def schema_of(task: Task | TaskCreated, spec: AgentSpec) -> dict[str, Any] | None:
    """A task keeps the schema it began with; a conversation has that of the agent which leads it now."""
    return spec.output_schema if task.conversation else task.output_schema


async def checked(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """The same schema; UserMistake for what is none. Others go on while that is found out."""
    if schema is None:
        return None
    from gencode.runtime.shaped import aside, check_schema

    return await aside(partial(check_schema, schema))


async def formed(request: TaskRequest, spec: AgentSpec) -> TaskRequest:
    """A request with the checked schema of its result: its own, or that of the agent's file."""
    own = request.output_schema
    return replace(request, output_schema=await checked(spec.output_schema if own is None else own))


def told_form(schema: dict[str, Any] | None, earlier: Sequence[Message] = ()) -> list[UserMessage]:
    """What an agent is told about the form of its results, where that is not what it was told last."""
    texts = (
        each.text for each in reversed(earlier) if isinstance(each, UserMessage) and each.sender == "system"
    )
    last = next((text for text in texts if text == NO_MORE or text.startswith(BEGINNING)), NO_MORE)
    note = NO_MORE if schema is None else BEGINNING + _in_lines(schema)
    return [] if note == last else [UserMessage(note, sender="system")]


def _in_lines(schema: dict[str, Any]) -> str:
    from msgspec import json

    return json.format(json.encode(schema), indent=1).decode()
