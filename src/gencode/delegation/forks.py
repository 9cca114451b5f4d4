"""Forks: a new task that begins with what an earlier one had said and heard up to one of its facts."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.events import DurableFact, Event, TaskCreated, TaskForked
from gencode.core.messages import unanswered
from gencode.core.spec import TaskRequest
from gencode.core.task import Task, transcript_of
from gencode.delegation.earlier import told_place
from gencode.delegation.origin import Origin
from gencode.runtime.calls import interrupted

AFTERWARDS = "this is a copy that begins before they were answered"


class Fork(Struct, frozen=True):
    """Where a fork begins: after fact number `at` of the task it copies (None: after the last one)."""

    at: int | None = None


def forked(
    task: Task, events: Sequence[Event], fork: Fork, request: TaskRequest, place: Origin
) -> tuple[TaskCreated, tuple[DurableFact, ...]]:
    """The first fact of a fork, and what it remembers; UserMistake for a fact that is not there."""
    last = events[-1].seq or 0
    at = last if fork.at is None else fork.at
    if not 1 <= at <= last:
        raise UserMistake(f"Task {task.id} has no fact {at}; its facts have the numbers 1 to {last}.")
    said = transcript_of(event for event in events if (event.seq or 0) <= at)
    if cut := unanswered(said):
        said.append(interrupted(cut, AFTERWARDS))
    said += told_place(said, Path(task.cwd))
    budget = request.budget if request.budget != Budget() else task.budget
    created = TaskCreated(
        agent=task.agent,
        prompt=request.prompt,
        description=request.description or task.description,
        parent=task.parent,
        background=request.background,
        cwd=task.cwd,
        asked_model=place.model.asked,
        max_turns=request.max_turns or task.max_turns,
        depth=place.depth,
        policies=place.chain.bare,
        grant=task.grant,
        spawned=task.spawned,
        budget=budget,
        output_schema=request.output_schema if request.output_schema is not None else task.output_schema,
        forked=task.id,
        tools=task.tools,
    )
    return created, (TaskForked(task.id, at, tuple(said)),)
