"""Results in a form: which JSON Schema counts for a task, if it is one, and what its agent is told of it."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from gencode.core.events import Event, TaskCreated, TaskStarted
from gencode.core.messages import Message, UserMessage
from gencode.core.spec import AgentSpec, TaskRequest
from gencode.core.task import Task

BEGINNING = "Your last reply must be one JSON value that fits this JSON Schema, and nothing else around it:\n"
NO_MORE = "From here on your replies need not be JSON any more."


Form = dict[str, Any] | None
"""The JSON Schema of a result; None for words."""


def schema_of(task: Task | TaskCreated, spec: AgentSpec, asked: Form = None) -> Form:
    """What is asked for now, else what the task had; a conversation has that of the agent which leads it."""
    if task.conversation:
        return spec.output_schema
    return task.output_schema if asked is None else asked


def form_at(events: Sequence[Event], at: int) -> Form:
    """The schema that counted for a task after its fact number `at`."""
    facts = [event.fact for event in events if (event.seq or 0) <= at]
    said = [each.output_schema for each in facts if isinstance(each, TaskCreated | TaskStarted)]
    return next((each for each in reversed(said) if each is not None), None)


async def checked(schema: Form) -> Form:
    """The same schema; UserMistake for what is none. Others go on while that is found out."""
    if schema is None:
        return None
    from gencode.runtime.shaped import aside, check_schema

    return await aside(partial(check_schema, schema))


async def formed(request: TaskRequest, usual: Form = None) -> TaskRequest:
    """A request with the checked schema of its result: its own, or the `usual` one."""
    own = request.output_schema
    return replace(request, output_schema=await checked(usual if own is None else own))


def told_form(schema: Form, earlier: Sequence[Message] = ()) -> list[UserMessage]:
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
