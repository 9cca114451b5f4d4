"""Forks: a new task that begins with the transcript of an earlier one up to one of its events."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from gencode.agent.tool_calls import interrupted
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.events import DurableFact, Event, MessageAdded, TaskCreated, TaskEnded, TaskForked
from gencode.core.messages import (
    NoticeKind,
    SystemNotice,
    ToolMessage,
    ToolResult,
    UserMessage,
    unanswered,
)
from gencode.core.place import TaskPlace, WorkerCopy
from gencode.core.rules import Policy
from gencode.core.spec import ForkPoint, TaskRequest, Workspace
from gencode.core.status import EndReason, Status
from gencode.core.structs import replace
from gencode.core.task import Task, last_start, replay, transcript_of
from gencode.journal.dispatch import Handover
from gencode.journal.store import Store
from gencode.permissions.chain import narrowed, narrower
from gencode.sessions.session import Caller
from gencode.tasks.task_folders import place_notice

FORKED = (
    "[You are now a subagent: a fork of this conversation, which knows all of it. Do the task below and "
    "nothing else: the agent that started you does the rest. It reads only your last reply, as a report; the "
    "user reads nothing of what you write.]"
)
NOT_TO_YOU = "The agent that started you gets the result of this call."
AFTERWARDS = "this fork begins before they were answered"
LATER = (
    "[You are a fork of task {task}, from its event {at} on. Files are as they are now, with all later "
    "changes, so read them again before you rely on what you know of them.]"
)


EventNumber = int | None
"""The number of an event; None: the last one."""


class Fork(Struct, frozen=True):
    """Where a fork begins: after event number `at` of its original (None: after the last one).

    `budget` is the fork's own, perhaps without limits; None: that of the request, else that of the original.
    """

    at: EventNumber = None
    budget: Budget | None = None

    def bounding(self, request: TaskRequest, task: Task) -> TaskRequest:
        """The request with the fork's own budget."""
        asked = request.budget if request.budget != Budget() else task.terms.budget
        return replace(request, budget=asked if self.budget is None else self.budget)


class ForkPlace(Struct, frozen=True):
    """The folder, the model and the policies of a fork."""

    cwd: str
    model: str
    policies: tuple[Policy, ...]


def fork_point(task: Task, events: Sequence[Event], fork: Fork) -> ForkPoint:
    """Where a fork begins, by number; UserMistake for an event that does not exist."""
    last = events[-1].seq or 0
    at = last if fork.at is None else fork.at
    if type(at) is not int or not 1 <= at <= last:  # a program may pass anything
        raise UserMistake(f"Task {task.id} has no event {at!r}; its events are numbered 1 to {last}.")
    return ForkPoint(at, away=isinstance(_place_at(events, at), WorkerCopy))


def fork_facts(
    task: Task, events: Sequence[Event], fork: Fork, request: TaskRequest, place: Caller, *, tree: bool
) -> tuple[TaskCreated, tuple[DurableFact, ...]]:
    """The first event of a fork in this process, and its transcript; it may have its own worktree."""
    point, here = fork_point(task, events, fork), place.workspace
    cwd, policies = str(here.cwd), place.policies
    began_here = task.clone is not None and here.clone == task.clone
    if here.copied is not None and not began_here:
        # Also in a clone it belongs to its folder, where the clone's rules do not apply.
        cwd, policies = task.cwd, _at_home(task, place.chain[0])
    where = ForkPlace(cwd, place.model.asked, policies)
    return fork_created(task, request, where), (forked_memory(task.id, events, point, here, tree=tree),)


def fork_created(task: Task, request: TaskRequest, where: ForkPlace) -> TaskCreated:
    """The first event of a fork; the budget and the schema of the request are its own."""
    return TaskCreated(
        agent=task.agent,
        prompt=request.prompt,
        description=request.description or task.created.description,
        parent=task.parent,
        background=request.background,
        cwd=where.cwd,
        asked_model=where.model,
        max_turns=request.max_turns or task.created.max_turns,
        depth=task.created.depth,
        policies=where.policies,
        grant=task.created.grant,
        spawned=task.created.spawned,
        budget=request.budget,
        output_schema=request.output_schema,
        forked=task.id,
        tools=task.created.tools,
        colour=task.created.colour,
        display_name=task.created.display_name,
        max_tokens=task.created.max_tokens,
        clone=task.clone,
    )


def kept_policies(task: Task, today: Policy) -> tuple[Policy, ...]:
    """The policies of a task for a fork in the same folder, which another place's policy can only narrow."""
    if len(task.created.policies) < 2:
        return ()
    first, *links = task.created.policies
    return (narrowed(first, today), *links)


def _at_home(task: Task, clone: Policy) -> tuple[Policy, ...]:
    """The policies of a fork that begins in a clone, as they apply in the folder it belongs to."""
    kept = kept_policies(task, clone)
    if not kept:
        return ()
    first, *links = kept
    return (replace(first, mode=narrower(first.mode, clone.mode)), *links)


async def check_fork_begun(store: Store, task: Task) -> None:
    """UserMistake for a fork that ended before it began, unless its transcript is written."""
    source = task.created.forked
    if not source or not task.status.ended or task.run.started_at is not None:
        return
    if not any(isinstance(event.fact, TaskForked) for event in await store.events(task.id)):
        raise UserMistake(
            f"Task {task.id} is a fork of {source} that ended before it began, so it cannot be resumed. Fork "
            f"again: gen task fork {source}"
        )


def forked_memory(
    task: str, events: Sequence[Event], point: ForkPoint, here: Workspace | None, *, tree: bool = False
) -> TaskForked:
    """The transcript of a fork; in a folder `here` that is no copy made for it, with a note about that.

    A later message names its own worktree.
    """
    said = transcript_of(_until(events, point.at))
    if cut := unanswered(said):
        said.append(interrupted(cut, AFTERWARDS))
    if here is not None:
        said += [] if tree else place_notice(_place_at(events, point.at), here)
        if _worked_later(events, point.at):
            said.append(UserMessage(LATER.format(task=task, at=point.at), sender="system"))
    return TaskForked(task, point.at, tuple(said))


def forked_conversation(
    task: Task, events: Sequence[Event], at: int
) -> tuple[TaskCreated, tuple[DurableFact, ...]]:
    """The events of an idle conversation that begins with the transcript of another one."""
    cwd = Path(task.cwd)
    created = fork_created(
        task,
        TaskRequest(task.agent, task.created.prompt, budget=task.terms.budget),
        ForkPlace(task.cwd, task.created.asked_model, task.created.policies),
    )
    memory = forked_memory(task.id, events, ForkPoint(at), Workspace(cwd, cwd, Path.home()))
    started = last_start(_until(events, at))
    begun = () if started is None else (replace(started, was=Status.PENDING, seconds=None, handed=""),)
    ended = TaskEnded(reason=EndReason.FINISHED, status=Status.COMPLETED)
    return replace(created, conversation=True), (memory, *begun, ended)


def context_of(task: str, events: Sequence[Event]) -> TaskForked:
    """The transcript of a running task for a subagent that starts as its fork."""
    at = events[-1].seq or 0
    said = transcript_of(events)
    if cut := unanswered(said):
        said.append(ToolMessage(tuple(ToolResult(call.id, call.name, NOT_TO_YOU) for call in cut)))
    note = UserMessage(FORKED, "system", notice=SystemNotice(NoticeKind.REMARK))
    return TaskForked(task, at, (*said, note))


async def remembered_facts(
    store: Store, created: TaskCreated, handover: Handover, *, lodged: bool
) -> tuple[DurableFact, ...]:
    """The transcript of a fork that another process handed over; it may be `lodged` in a copy made for it."""
    if handover.fork is None:
        return ()
    events = await store.events(created.forked)
    if not events:
        raise UserMistake(f"It is a fork of task {created.forked}, which was deleted meanwhile.")
    cwd = Path(created.cwd)
    here = None if lodged else Workspace(cwd, cwd, Path.home())
    return (forked_memory(created.forked, events, handover.fork, here, tree=bool(created.worktree)),)


def _place_at(events: Sequence[Event], at: int) -> TaskPlace | None:
    """Where a task worked at one of its events."""
    task = replay(_until(events, at))
    return task.delivered.place if task is not None else None


def _until(events: Sequence[Event], at: int) -> list[Event]:
    return [event for event in events if (event.seq or 0) <= at]


def _worked_later(events: Sequence[Event], at: int) -> bool:
    """Whether a call was answered after an event, and so may have changed files."""
    later = (event.fact for event in events if (event.seq or 0) > at)
    return any(isinstance(each, MessageAdded) and isinstance(each.message, ToolMessage) for each in later)
