"""The final answer of a run: the form it must have, and which reply counts if the last is empty or unfit."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from gencode.agent.run_setup import LoopResult
from gencode.core.errors import ToolError
from gencode.core.messages import Message, NoticeKind, SystemNotice, UserMessage
from gencode.core.status import EndReason, Status
from gencode.core.task import RunAnswers

SAID_NO_MORE = "it said nothing more after a message came; its result is what it had answered before"
BEFORE_THAT = "its output is what it answered before a message came; nothing after that fits the schema"


async def parse_answer(text: str, schema: dict[str, Any]) -> tuple[Any, ToolError | None]:
    """A final text as the value that a schema asks for, or what is wrong with it."""
    from gencode.agent.output_schema import aside, read_output

    try:
        return await aside(partial(read_output, text, schema)), None
    except ToolError as problem:
        return None, problem


def problem_only(problem: ToolError) -> str:
    """What is wrong with a result, without what its agent should do about it."""
    from gencode.agent.output_schema import SchemaMismatch

    return problem.problem if isinstance(problem, SchemaMismatch) else str(problem)


def with_earlier_answer(ending: LoopResult, answers: RunAnswers, *, called: bool) -> LoopResult:
    """An end; who says nothing more after a message has still answered before, unless that announces work."""
    if ending.status is not Status.EMPTY or not answers.before:
        return ending
    from gencode.agent.unfinished_reply import announces  # its patterns are compiled when first needed

    if called and announces(answers.before):
        return ending
    warnings = (*ending.warnings, SAID_NO_MORE)
    return LoopResult(Status.COMPLETED, EndReason.FINISHED, answers.before, warnings=warnings)


async def last_fitting_answer(answers: RunAnswers, schema: dict[str, Any]) -> tuple[RunAnswers, Any] | None:
    """The last answer before a message that fits: all that was answered from it on, and its value."""
    for reply, since in answers.backwards():
        output, problem = await parse_answer(reply, schema)
        if problem is None:
            return RunAnswers(since), output
    return None


BEGINNING = "Your last reply must be one JSON value that fits this JSON Schema, and nothing else around it:\n"
NO_MORE = "From here on your replies need not be JSON any more."

Form = dict[str, Any] | None
"""The JSON Schema of a result; None for words."""


def form_notices(schema: Form, earlier: Sequence[Message] = ()) -> list[UserMessage]:
    """What an agent is told about the form of its results, where that is not what it was told last."""
    last = next((told for each in reversed(earlier) if (told := form_notice(each))), None)
    if schema == (last.schema if last else None):
        return []
    text = NO_MORE if schema is None else BEGINNING + _in_lines(schema)
    return [UserMessage(text, sender="system", notice=SystemNotice(NoticeKind.FORM, schema=schema))]


def form_notice(message: Message) -> SystemNotice | None:
    """What a message told an agent about the form of its results; None if it is about something else."""
    notice = message.notice if isinstance(message, UserMessage) else None
    return notice if notice is not None and notice.kind is NoticeKind.FORM else None


def _in_lines(schema: dict[str, Any]) -> str:
    from msgspec import json

    return json.format(json.encode(schema), indent=1).decode()
