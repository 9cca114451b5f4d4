"""When agents of a worktree end: the last one commits what is there and reports the changes.

The worktree of an agent is also that of its subagents, which may go on when it has ended: it was stopped, or
its limit was reached. Who is there is read from the journal, so that it holds in every process.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gencode.agent.run_setup import LoopResult
from gencode.core.changes import MOST_TASKS, Changes, NamedTask, WorktreeChanges, WorktreeInUse
from gencode.core.errors import GenCodeError
from gencode.core.events import ChangesMoved
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.journal.owner import new_owner
from gencode.journal.store import Store, TaskQuery
from gencode.tasks.liveness import is_abandoned
from gencode.tasks.running_task import GRACE_SECONDS, LocalTask, RunningTask
from gencode.tasks.task_folders import FolderSummary, TaskFolder

log = logging.getLogger(__name__)

T = TypeVar("T")


class _Left(Struct):
    """What is in the worktrees that an agent has left; for the tasks they were made for also by itself."""

    changes: list[Changes] = []
    warnings: list[str] = []
    hosts: dict[str, WorktreeChanges] = {}


@asynccontextmanager
async def leaving(
    store: Store, lives: Iterable[RunningTask], job: LocalTask, ending: LoopResult
) -> AsyncGenerator[LoopResult]:
    """How a job ended, with what it changed in a worktree; until that is written, nobody else ends there."""
    own = job.workplace
    if own is None and not _in_worktree(job):
        yield ending
        return
    async with AsyncExitStack() as doors:
        if own is not None and not own.shared:
            left = _Left()
            _add(left, await own.summary())
        else:
            left = await _to_its_end(_left(store, lives, job, doors))
        warnings = (*ending.warnings, *left.warnings)
        yield replace(ending, changes=tuple(left.changes), warnings=warnings)
        for host, changes in left.hosts.items():
            await _noted(store, host, replace(changes, last=NamedTask(job.id, job.task.agent)))


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Finish some work even when cancelled meanwhile: an interrupted agent has changed something as well."""
    doing = asyncio.ensure_future(work)
    while not doing.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(doing)
    return doing.result()


async def _left(store: Store, lives: Iterable[RunningTask], job: LocalTask, doors: AsyncExitStack) -> _Left:
    left, hosts = _Left(), await _hosts(store, job)
    if hosts:
        await _below_ended(lives, job)
    for host, path in hosts:
        try:
            if not await _left_one(store, job, host, path, left, doors):
                break
        except GenCodeError as trouble:
            left.warnings.append(f"the worktree {path} is kept as it is: {trouble}")
            break
    return left


async def _left_one(
    store: Store, job: LocalTask, host: Task, path: Path, left: _Left, doors: AsyncExitStack
) -> bool:
    """Leave one worktree; whether nobody else is in it, so that those around it are to be left as well."""
    from gencode.workspaces.worktrees.worktree import worktree_lock

    tree = await doors.enter_async_context(worktree_lock(path))
    others = await at_work(store, path, job.id)
    own = job.workplace if host.id == job.id else None
    if others:
        if host.id not in {each.id for each in others}:
            some, more = named_tasks(others[:MOST_TASKS]), max(0, len(others) - MOST_TASKS)
            left.changes.append(WorktreeInUse(some, host.id, own=own is not None, more=more))
        return False
    if own is not None:
        _add(left, await own.summary())
    elif tree is not None:
        found = await TaskFolder(tree).summary()
        seen = found.changes if isinstance(found.changes, WorktreeChanges) else WorktreeChanges("unknown")
        left.hosts[host.id] = seen
        _add(left, replace(found, changes=replace(seen, host=host.id)))
    return True


async def at_work(store: Store, path: Path, but: str = "") -> list[Task]:
    """The tasks that run, or wait in the queue, in a worktree or in one that was made below it."""
    return [each for each, places in await in_use(store, but) if is_used(path, places)]


async def in_use(store: Store, but: str = "") -> list[tuple[Task, list[Path]]]:
    """All tasks that run or wait in the queue, each with its folders and those of its ancestors."""
    held = {each.task for each in await store.owned() if not is_abandoned(each)} - {but}
    open_ones = await store.tasks(TaskQuery(statuses=(Status.PENDING, Status.RUNNING))) if held else []
    known = {each.id: each for each in open_ones}
    found: list[tuple[Task, list[Path]]] = []
    for each in open_ones:
        above = await _line(store, each, known) if each.id in held else []
        if places := [Path(one.created.worktree or one.cwd) for one in above if one.cwd]:
            found.append((each, places))
    return found


def is_used(path: Path, places: Iterable[Path]) -> bool:
    """Whether one of some folders lies in a worktree."""
    return any(each.is_relative_to(path) for each in places)


def _in_worktree(job: LocalTask) -> bool:
    """Whether a job works in a worktree that was made for another."""
    from gencode.workspaces.worktrees.worktree import enclosing_worktree

    return enclosing_worktree(job.setup.workspace.cwd) is not None


async def _hosts(store: Store, job: LocalTask) -> list[tuple[Task, Path]]:
    """The worktrees that a job works in, each with the task it was made for: the innermost first."""
    line = await _line(store, job.task, {})
    found = [
        (each, Path(each.created.worktree)) for each in line if each.created.worktree and not each.imported
    ]
    if job.workplace is not None:
        return [(job.task, Path(job.workplace.path)), *(each for each in found if each[0].id != job.id)]
    return found


async def _line(store: Store, task: Task, known: dict[str, Task]) -> list[Task]:
    """A task and those above it; what was imported may go round in circles."""
    line = {task.id: task}
    above = task.parent
    while above and above not in line:
        if above not in known and (found := await store.task(above)):
            known[above] = found
        if above not in known:
            break
        line[above] = known[above]
        above = known[above].parent
    return list(line.values())


async def _below_ended(lives: Iterable[RunningTask], job: LocalTask) -> None:
    """Let those end first that were stopped with a job, so that it can tell what they changed."""
    here = {live.id: live for live in lives}
    stopped = [live for live in here.values() if live.stop.stopped and _is_below(live, job.id, here)]
    if working := [live.work for live in stopped if live.work is not None]:
        await asyncio.wait(working, timeout=GRACE_SECONDS)


def _is_below(live: RunningTask, above: str, here: dict[str, RunningTask]) -> bool:
    seen: set[str] = set()
    task = live.task
    while task.parent and task.id not in seen:
        if task.parent == above:
            return True
        if task.parent not in here:
            return False
        seen.add(task.id)
        task = here[task.parent].task
    return False


async def _noted(store: Store, host: str, changes: WorktreeChanges) -> None:
    """Write down what became of the worktree of a task that had ended before the last one there."""
    try:
        lease = await store.take(host, new_owner())
        if not lease.state.status.ended:
            await store.release(lease)
            return
        await store.append(lease, [ChangesMoved(changes, "in_use")], last=True)
    except GenCodeError as trouble:
        log.info("what became of the worktree of task %s was not noted: %s", host, trouble)


def named_tasks(tasks: Sequence[Task]) -> tuple[NamedTask, ...]:
    """Tasks as sentences name them."""
    return tuple(NamedTask(each.id, each.agent) for each in tasks)


def _add(left: _Left, found: FolderSummary) -> None:
    left.changes += [found.changes] if found.changes is not None else []
    left.warnings += found.notes
