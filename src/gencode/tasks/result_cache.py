"""The result cache: reuses the result of an earlier task while nothing it depends on has changed.

Off by default. Only tasks qualify that did nothing but read in their workspace, got no message while they
ran, and whose inputs are all known: what they began with and, by hash, every file they read and every file
and name in the folders they searched. If something cannot be known, the result is not reused.
"""

import asyncio
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from gencode.agent.attached_files import has_files
from gencode.agent.ports import Request
from gencode.agent.run_setup import LoopResult, RunSetup
from gencode.core.events import CallDecided, Event, MessageAdded, TaskCreated, TaskStarted
from gencode.core.ids import moment
from gencode.core.messages import (
    AssistantMessage,
    FileChange,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    beginning,
    is_summed_up,
)
from gencode.core.rules import Action
from gencode.core.spec import Workspace
from gencode.core.status import EndReason, Status
from gencode.core.task import Task, transcript_of
from gencode.files.safe_files import state_of
from gencode.journal.store import Store, TaskQuery
from gencode.permissions.paths import resolve
from gencode.sessions.session import Caller
from gencode.tasks.queries import readable_events
from gencode.workspaces.content_hash import ContentHasher

READING = frozenset({"Read", "Grep", "Glob", "LS"})
WITHOUT_INPUT = "TodoWrite"
BEGINNING = ""
"""The name under which the hash of a task's beginning is stored; no file has it."""
NEVER = (None, "")
"""The result of a search if results are not reused."""
MOST_LOOKED_AT = 200
_LITERAL = re.compile(r"(?:[^*?\[{\\/]*/)*")
"""The folders of a Glob pattern before its first component with a wildcard."""


def cached_ending(task: Task) -> LoopResult:
    """The end of a task that reuses the result of another."""
    mark = f"reused the result of task {task.id} of {task.end.at}; nothing it depends on has changed"
    return LoopResult(
        Status.COMPLETED, EndReason.FINISHED, task.result, warnings=(mark,), output=task.end.output
    )


def cached_reply(task: Task) -> MessageAdded:
    """The answer of an earlier task as that of a new one, which then has it in its transcript."""
    return MessageAdded(AssistantMessage(task.result, again=task.id))


async def find_cached(
    store: Store, created: TaskCreated, request: Request, place: Caller
) -> tuple[Task | None, str]:
    """An earlier task whose result can be reused; without one, a hash of the new task's beginning."""
    began = _beginning_of(created, request, place)
    known = await _found(store, place.workspace, began) if began else None
    return known, "" if known else began


def _beginning_of(created: TaskCreated, request: Request, place: Caller) -> str:
    """A hash of everything an agent is given at its beginning.

    Empty if that is not all: approvals of a person apply only in this session, and a copy of a folder has
    more than one name.
    """
    if place.approved.rules.rules() or place.workspace.copied is not None:
        return ""
    model = place.model
    told = (request, model.whose, model.effort, model.temperature, model.max_tokens)
    bounds = (created.policies, created.grant, created.clone, created.output_schema)
    return hashlib.sha256(repr((told, bounds)).encode("utf-8", "surrogatepass")).hexdigest()


async def _found(store: Store, workspace: Workspace, began: str) -> Task | None:
    """The latest task with the same beginning, if what it depends on is unchanged."""
    query = TaskQuery(
        cwd=str(workspace.cwd), statuses=(Status.COMPLETED,), conversations=False, limit=MOST_LOOKED_AT
    )
    first = FileChange(BEGINNING, began)
    tasks = [task for task in await store.tasks(query) if task.end.inputs and task.end.inputs[0] == first]
    now = ContentHasher(workspace)
    for task in reversed(tasks):
        # An imported task may claim anything, also to depend on files as they are here.
        if not task.imported and await asyncio.to_thread(_unchanged, task.end.inputs or (), now):
            return task
    return None


def _unchanged(inputs: Iterable[FileChange], now: ContentHasher) -> bool:
    return all(now.hash(each.path) == each.sha256 for each in inputs if each.path != BEGINNING)


async def cache_inputs(store: Store, setup: RunSetup, task: str, began: str) -> tuple[FileChange, ...] | None:
    """The inputs of a task's result, unchanged during its run; None if they are not known."""
    events, trouble = await readable_events(store, task)
    return None if trouble else await asyncio.to_thread(_inputs, setup, events, began)


def _inputs(setup: RunSetup, events: Sequence[Event], began: str) -> tuple[FileChange, ...] | None:
    transcript = transcript_of(events)
    if not _left_alone(setup, events, transcript):
        return None
    replies = [each for each in transcript if isinstance(each, AssistantMessage)]
    names = [_name(setup, call) for reply in replies for call in reply.calls]
    if None in names:
        return None
    start = next(event.at for event in events if isinstance(event.fact, TaskStarted))
    then = ContentHasher(setup.workspace, unchanged_since=moment(start).timestamp())
    found = [FileChange(name, then.hash(name)) for name in dict.fromkeys(names) if name]
    return (FileChange(BEGINNING, began), *found) if all(each.sha256 for each in found) else None


def _left_alone(setup: RunSetup, events: Sequence[Event], transcript: Sequence[Message]) -> bool:
    """Whether a task got no message after its beginning, needed no approval, and no call failed."""
    decisions = [event.fact.decision for event in events if isinstance(event.fact, CallDecided)]
    later = transcript[beginning(transcript) :]
    return not (
        is_summed_up(transcript)
        or setup.gate.approvals.given.rules()
        or any(decision.action is not Action.ALLOW for decision in decisions)
        or any(isinstance(each, UserMessage) for each in later)
        or any(isinstance(each, UserMessage) and (each.mail or has_files(each)) for each in transcript)
        or any(isinstance(each, AssistantMessage) and each.partial for each in later)
        or any(result.error for each in later if isinstance(each, ToolMessage) for result in each.results)
    )


def _name(setup: RunSetup, call: ToolCall) -> str | None:
    """The file or folder that a call read, from the working directory; None if that is not known.

    It must be in there, with no link on the way. Empty for a call that reads nothing.
    """
    tool = setup.toolbox.get(call.name)
    if tool is None or tool.source != "builtin" or tool.name not in READING:
        return "" if tool is not None and tool.name == WITHOUT_INPUT else None
    given = tool.spelled(call).input
    text = str(given.get("file_path" if tool.name == "Read" else "path") or ".")
    if tool.name == "Glob":
        folders = _LITERAL.match(given["pattern"])
        prefix = folders[0] if folders else ""
        text = prefix if prefix.startswith(("/", "~")) else f"{text}/{prefix}"
    place, here = resolve(text, setup.workspace), setup.workspace.cwd
    if place.refusal or place.twin is not None:
        return None
    name = os.path.relpath(place.real, os.path.realpath(here))
    known = setup.seen.state(place.real)
    if name != os.path.relpath(place.lexical, here) or (known is not None and known != state_of(place.real)):
        return None
    return None if Path(name).parts[:1] == ("..",) else name
