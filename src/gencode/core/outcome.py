"""The public shape of a task: what scripts, the command line and Python callers get."""

from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from gencode.core.errors import UserMistake
from gencode.core.messages import Usage
from gencode.core.status import Status
from gencode.core.task import Evidence, Task

PAGE = 20_000
"""So many characters of a result are one page."""


class TreeUsage(Struct, frozen=True, rename="camel"):
    """Usage of a task, and under `tree` that of the task and everything below it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float | None = None
    tree: Usage = Usage()


class Outcome(Struct, frozen=True, rename="camel"):
    """One task, in the field names of the contract (camelCase in JSON, snake_case in Python)."""

    success: bool
    result: str
    agent_id: str
    output_file: str | None
    error: str | None
    status: Status
    agent: str
    model: str
    turns: int
    duration_ms: int | None
    description: str
    prompt: str
    parent_id: str | None
    background: bool
    cwd: str
    created_at: str
    started_at: str | None
    ended_at: str | None
    usage: TreeUsage
    evidence: Evidence
    output: Any = None
    forked_from: str | UnsetType = UNSET
    imported_from: str | UnsetType = UNSET
    queue_position: int | UnsetType = UNSET
    stalled_seconds: float | UnsetType = UNSET
    transcript: list[dict[str, Any]] | UnsetType = UNSET
    decisions: list[dict[str, Any]] | UnsetType = UNSET


def titled(description: str, prompt: str, fork_of: str | UnsetType = UNSET) -> str:
    """A task in a list; a fork would look like the task it is a copy of."""
    title = description or prompt
    return f"fork of {fork_of}: {title}" if fork_of else title


def output_file(outputs: Path, task: str) -> Path:
    """Where the output of a background task is written, in the folder of all outputs."""
    return outputs / f"{task}.md"


def outcome_of(task: Task, tree: Usage | None = None, outputs: Path | None = None) -> Outcome:
    """The public shape of a folded task.

    `tree` is the usage of all of its subtree, `outputs` the folder in which background tasks have files.
    """
    usage = task.usage
    whole = usage if tree is None else tree
    return Outcome(
        success=task.status is Status.COMPLETED,
        # What it said before is no answer to what it waits to do.
        result="" if task.status is Status.PENDING else task.result,
        agent_id=task.id,
        output_file=str(output_file(outputs, task.id)) if outputs and task.background else None,
        error=task.error,
        status=task.status,
        agent=task.agent,
        model=task.model,
        turns=task.turns,
        duration_ms=task.worked_ms if task.started_at and task.ended_at else None,
        description=task.description,
        prompt=task.prompt,
        parent_id=task.parent,
        background=task.background,
        cwd=task.cwd,
        created_at=task.created_at,
        started_at=task.started_at,
        ended_at=task.ended_at,
        usage=TreeUsage(usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.usd, whole),
        evidence=task.evidence,
        output=task.output,
        forked_from=task.forked or UNSET,
        imported_from=task.came_from or UNSET,
        stalled_seconds=task.stalled or UNSET,
    )


def page_of(text: str, page: int, *, of: str = "result") -> str:
    """One part of a long text, and which of how many it is; UserMistake when there is no such part."""
    pages = max(1, -(-len(text) // PAGE))
    if page > pages:
        raise UserMistake(f"There is no page {page}; the {of} has {pages}.")
    part = text[(page - 1) * PAGE : page * PAGE]
    return part if pages == 1 else f"{part}\n[page {page} of {pages}]"


def as_json(value: object, *, indent: int = 0) -> str:
    """Any record of ours as JSON text."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:  # the name of a file need not be UTF-8
        encoded = msgspec.json.encode(_encodable(msgspec.to_builtins(value)))
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()


def _encodable(value: Any) -> Any:
    """The same with everything escaped that is no Unicode."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        return {_encodable(name): _encodable(each) for name, each in fields.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in cast("list[Any]", value)]
    return value
