"""Results in a form: which JSON Schema counts for a task, and whether it is one."""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from gencode.agent.final_answer import Form
from gencode.core.errors import UserMistake
from gencode.core.events import Event, TaskCreated, TaskQueued, TaskStarted
from gencode.core.spec import AgentSpec, TaskRequest
from gencode.core.task import Task


def output_schema_of(task: Task | TaskCreated, spec: AgentSpec, asked: Form = None) -> Form:
    """What is asked for now, else what the task had; a conversation has that of the agent which leads it."""
    if task.conversation:
        return spec.output_schema
    if asked is not None:
        return asked
    return task.terms.output_schema if isinstance(task, Task) else task.output_schema


def output_schema_at(events: Sequence[Event], at: int) -> Form:
    """The schema that counted for a task after its fact number `at`."""
    facts = [event.fact for event in events if (event.seq or 0) <= at]
    said = [each.output_schema for each in facts if isinstance(each, TaskCreated | TaskStarted | TaskQueued)]
    return next((each for each in reversed(said) if each is not None), None)


async def checked_schema(schema: Form) -> Form:
    """The same schema; UserMistake for what is none. Others go on while that is found out."""
    if schema is None:
        return None
    from gencode.agent.output_schema import aside, check_schema

    return await aside(partial(check_schema, schema))


async def checked_agent_schema(spec: AgentSpec) -> Form:
    """The schema that an agent's file asks for; UserMistake names the file where it is none."""
    try:
        return await checked_schema(spec.output_schema)
    except UserMistake as wrong:
        raise UserMistake(f"The output-schema of the agent {spec.name}, in {spec.source}: {wrong}") from None


async def with_agent_schema(request: TaskRequest, spec: AgentSpec) -> TaskRequest:
    """A request with the checked schema of its result: its own, or that of the agent's file."""
    if request.output_schema is not None:
        return await with_checked_schema(request)
    return replace(request, output_schema=await checked_agent_schema(spec))


async def with_checked_schema(request: TaskRequest, usual: Form = None) -> TaskRequest:
    """A request with the checked schema of its result: its own, or the `usual` one."""
    own = request.output_schema
    return replace(request, output_schema=await checked_schema(usual if own is None else own))
