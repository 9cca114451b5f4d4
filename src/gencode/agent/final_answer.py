"""The final answer of a run: the form it must have, and which reply it is if the last is empty or invalid."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import json

from gencode.agent.run_setup import LoopResult
from gencode.core.errors import ToolError
from gencode.core.messages import Message, NoticeKind, SystemNotice, UserMessage
from gencode.core.status import EndReason, Status
from gencode.core.task import RunAnswers

SAID_NO_MORE = "it sent no other answer after a message; its result is the one before that"
BEFORE_THAT = "its output is the answer before a message; no later one matches the schema"


async def parse_answer(text: str, schema: dict[str, Any]) -> tuple[Any, ToolError | None]:
    """The final text as the value that a schema describes, or what is wrong with it."""
    from gencode.agent.output_schema import aside, read_output

    try:
        return await aside(partial(read_output, text, schema)), None
    except ToolError as problem:
        return None, problem


def problem_only(problem: ToolError) -> str:
    """What is wrong with a result, without the advice to its agent."""
    from gencode.agent.output_schema import SchemaMismatch

    return problem.problem if isinstance(problem, SchemaMismatch) else str(problem)


def with_earlier_answer(ending: LoopResult, answers: RunAnswers, *, called: bool) -> LoopResult:
    """The result of a run; if the last reply is empty, it is the answer before the last message, unless that
    only announced work.
    """
    if ending.status is not Status.EMPTY or not answers.before:
        return ending
    from gencode.agent.unfinished_reply import announces  # its patterns are compiled when first needed

    if called and announces(answers.before):
        return ending
    warnings = (*ending.warnings, SAID_NO_MORE)
    return LoopResult(Status.COMPLETED, EndReason.FINISHED, answers.before, warnings=warnings)


async def last_fitting_answer(answers: RunAnswers, schema: dict[str, Any]) -> tuple[RunAnswers, Any] | None:
    """The last answer before a message that matches the schema: the text from it on, and its value."""
    for reply, since in answers.newest_first():
        output, problem = await parse_answer(reply, schema)
        if problem is None:
            return RunAnswers(since), output
    return None


JSON_FORM = "[Your last reply must be one JSON value that fits this JSON Schema, and nothing else: {schema}]"
TEXT_FORM = "[From here on your replies need not be JSON any more.]"

Form = dict[str, Any] | None
"""The JSON Schema of a result; None for plain text."""


def form_notices(schema: Form, earlier: Sequence[Message] = ()) -> list[UserMessage]:
    """The notice about the form of an agent's results, unless it is the same as the last one."""
    last = next((told for each in reversed(earlier) if (told := form_notice(each))), None)
    if schema == (last.schema if last else None):
        return []
    text = TEXT_FORM if schema is None else JSON_FORM.format(schema=json.encode(schema).decode())
    return [UserMessage(text, sender="system", notice=SystemNotice(NoticeKind.FORM, schema=schema))]


def form_notice(message: Message) -> SystemNotice | None:
    """The notice of a message about the form of results; None if it is about something else."""
    notice = message.notice if isinstance(message, UserMessage) else None
    return notice if notice is not None and notice.kind is NoticeKind.FORM else None
