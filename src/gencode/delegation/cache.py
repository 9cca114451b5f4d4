"""Results that can be given again: the same work for the same agent, and nothing it had read has changed.

Off unless a setting says so. Only tasks count that did nothing but read, under the same policies.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from gencode.core.events import TaskCreated
from gencode.core.messages import AssistantMessage, FileChange, Message, is_summed_up
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.runtime.openers import state_of
from gencode.runtime.ports import Store, TaskQuery
from gencode.runtime.seat import Ending, Seat

SEARCHING = frozenset({"Grep", "Glob", "LS"})
READING = SEARCHING | {"Read", "TodoWrite"}
EVERYTHING = "."
"""Stands for all files of the workspace, where an agent has searched them."""
MOST_FILES = 20_000
AGAIN = "answered from the journal: "
MOST_LOOKED_AT = 200
LARGEST_HASHED = 50_000_000


def given_again(task: Task) -> Ending:
    """The end of a task that another one is answered with."""
    mark = f"{AGAIN}task {task.id} of {task.ended_at}; nothing it rests on has changed"
    return Ending(Status.COMPLETED, task.result, warnings=(mark,), output=task.output)


def inputs_of(seat: Seat, transcript: Sequence[Message], task: Task) -> tuple[FileChange, ...] | None:
    """The files that a task has read, as they were then; None when it did more, or when one has changed."""
    called = {call.name for each in transcript if isinstance(each, AssistantMessage) for call in each.calls}
    seen = task.evidence
    if not called <= READING or seen.children or is_summed_up(transcript):
        return None
    cwd = seat.workspace.cwd
    found: list[FileChange] = []
    if called & SEARCHING:
        tree = _tree(cwd)
        if not tree:
            return None
        found.append(FileChange(EVERYTHING, tree))
    for path in seen.files_read:
        real = os.path.realpath(cwd / path)
        known = seat.seen.state(real)
        digest = _hash(Path(real))
        if not digest or (known is not None and known != state_of(real)):
            return None
        found.append(FileChange(path, digest))
    return tuple(found)


async def find(store: Store, created: TaskCreated, model: str, system: str) -> Task | None:
    """An earlier task whose result can be given for this one."""
    query = TaskQuery(
        cwd=created.cwd, statuses=(Status.COMPLETED,), conversations=False, limit=MOST_LOOKED_AT
    )
    for task in reversed(await store.tasks(query)):
        same = (task.agent, task.prompt, task.chosen_model) == (created.agent, created.prompt, model)
        if (
            not same
            or task.policies != created.policies
            or task.inputs is None
            or task.output_schema != created.output_schema
        ):
            continue
        if _without_date(task.system) == _without_date(system) and _unchanged(task.inputs, Path(created.cwd)):
            return task
    return None


def _unchanged(inputs: Iterable[FileChange], cwd: Path) -> bool:
    return all(
        (_tree(cwd) if each.path == EVERYTHING else _hash(cwd / each.path)) == each.sha256 for each in inputs
    )


def _tree(cwd: Path) -> str:
    """What a search sees: every file below a folder, its size and time; empty where there are too many."""
    digest = hashlib.sha256()
    seen = 0
    for folder, folders, files in os.walk(cwd):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(files):
            state = state_of(os.path.join(folder, name))  # noqa: PTH118 (a path for each file is slow)
            digest.update(repr((folder, name, state and (state.size, state.changed_ns))).encode())
        seen += len(files)
        if seen > MOST_FILES:
            return ""
    return digest.hexdigest()


def _hash(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_HASHED:
            return ""
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _without_date(system: str) -> str:
    """A system prompt without its last line, which says what day it is."""
    return system.rpartition("\n")[0]
