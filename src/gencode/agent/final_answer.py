"""Runtime room: which reply of a run is its answer, where the last one is silent or fits no schema."""

from functools import partial
from typing import Any

from gencode.agent.seat import LoopResult
from gencode.core.answers import RunAnswers
from gencode.core.errors import ToolError
from gencode.core.reasons import EndReason
from gencode.core.status import Status

SAID_NO_MORE = "it said nothing more after a message came; its result is what it had answered before"
BEFORE_THAT = "its output is what it answered before a message came; nothing after that fits the schema"


async def shaped(text: str, schema: dict[str, Any]) -> tuple[Any, ToolError | None]:
    """A final text as the value that a schema asks for, or what is wrong with it."""
    from gencode.agent.output_schema import aside, read_output

    try:
        return await aside(partial(read_output, text, schema)), None
    except ToolError as problem:
        return None, problem


def unasked(problem: ToolError) -> str:
    """What is wrong with a result, without what its agent should do about it."""
    from gencode.agent.output_schema import SchemaMismatch

    return problem.problem if isinstance(problem, SchemaMismatch) else str(problem)


def if_silent(ending: LoopResult, answers: RunAnswers, *, called: bool) -> LoopResult:
    """An end; who says nothing more after a message has still answered before, unless that announces work."""
    if ending.status is not Status.EMPTY or not answers.before:
        return ending
    from gencode.agent.unfinished_reply import announces  # its patterns are loaded when first needed

    if called and announces(answers.before):
        return ending
    warnings = (*ending.warnings, SAID_NO_MORE)
    return LoopResult(Status.COMPLETED, EndReason.FINISHED, answers.before, warnings=warnings)


async def fitting_before(answers: RunAnswers, schema: dict[str, Any]) -> tuple[RunAnswers, Any] | None:
    """The last answer before a message that fits: all that was answered from it on, and its value."""
    for reply, since in answers.backwards():
        output, problem = await shaped(reply, schema)
        if problem is None:
            return RunAnswers(since), output
    return None
