"""What an ending agent leaves in a worktree: the last one commits, and results offer to merge the changes.

The worktree of an agent is also that of its subagents, which may still run when it has ended: it was stopped,
or its limit was reached. The journal says which tasks use a worktree, for every process.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from gencode.agent.run_setup import LoopResult
from gencode.core.changes import (
    MOST_TASKS,
    Changes,
    NamedTask,
    WorktreeChanges,
    WorktreeInUse,
    is_in_use,
    offers,
    with_changes,
    withdrawn,
    without_use,
)
from gencode.core.errors import GenCodeError
from gencode.core.events import ChangesMoved
from gencode.core.status import Status
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.journal.owner import new_owner
from gencode.journal.store import Store, TaskQuery
from gencode.tasks.liveness import is_abandoned, lease_task
from gencode.tasks.queries import tasks_above
from gencode.tasks.running_task import GRACE_SECONDS, LocalTask, RunningTask
from gencode.tasks.task_folders import FolderSummary, TaskFolder

if TYPE_CHECKING:
    from gencode.workspaces.worktrees.leftovers import LeftoverWorktree

log = logging.getLogger(__name__)

T = TypeVar("T")


class _Left(Struct):
    """The changes in the worktrees that an agent has left, also separately for the tasks that own them."""

    changes: list[Changes] = []
    warnings: list[str] = []
    hosts: dict[str, WorktreeChanges] = {}


@asynccontextmanager
async def leaving(
    store: Store, lives: Iterable[RunningTask], job: LocalTask, ending: LoopResult
) -> AsyncGenerator[LoopResult]:
    """The result of a task with its changes in a worktree; until it is written, no other task ends there."""
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
    """Finish some work even if it is cancelled: an interrupted agent may have changed files as well."""
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
    """Leave one worktree; whether no other task uses it, so that the enclosing ones are left as well."""
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
        if each.id not in held:
            continue
        line = [each]
        async for above in tasks_above(store, each, known):
            line.append(above)
            known[above.id] = above
        if places := [Path(one.created.worktree or one.cwd) for one in line if one.cwd]:
            found.append((each, places))
    return found


def is_used(path: Path, places: Iterable[Path]) -> bool:
    """Whether one of some folders is in a worktree."""
    return any(each.is_relative_to(path) for each in places)


def _in_worktree(job: LocalTask) -> bool:
    """Whether a task works in a worktree that was made for another."""
    from gencode.workspaces.worktrees.worktree import enclosing_worktree

    return enclosing_worktree(job.setup.workspace.cwd) is not None


async def _hosts(store: Store, job: LocalTask) -> list[tuple[Task, Path]]:
    """The worktrees that a task works in, each with the task it was made for: the innermost first."""
    line = [job.task, *[each async for each in tasks_above(store, job.task)]]
    found = [
        (each, Path(each.created.worktree)) for each in line if each.created.worktree and not each.imported
    ]
    if job.workplace is not None:
        return [(job.task, Path(job.workplace.path)), *(each for each in found if each[0].id != job.id)]
    return found


async def _below_ended(lives: Iterable[RunningTask], job: LocalTask) -> None:
    """Wait for subagents that were stopped with a task, so that their changes are included."""
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
    """Record the changes in the worktree of a task that had ended before the last one there."""
    try:
        lease = await lease_task(store, host, new_owner())
        if not lease.state.status.ended:
            await store.release(lease)
            return
        await store.append(lease, [ChangesMoved(changes, "in_use")], last=True)
    except GenCodeError as trouble:
        log.info("what became of the worktree of task %s was not noted: %s", host, trouble)


def named_tasks(tasks: Sequence[Task]) -> tuple[NamedTask, ...]:
    """Tasks as messages name them."""
    return tuple(NamedTask(each.id, each.agent) for each in tasks)


def _add(left: _Left, found: FolderSummary) -> None:
    left.changes += [found.changes] if found.changes is not None else []
    left.warnings += found.notes


async def current_result(task: Task, store: Store | None = None) -> str:
    """The result of a task, without the offer of changes that were merged since.

    With a `store`, it also says whether its subagents are still running there.
    """
    from gencode.workspaces.worktrees.leftovers import inspect_worktree
    from gencode.workspaces.worktrees.worktree import read_record

    tree = read_record(Path(task.created.worktree))
    if tree is None or not task.status.ended:
        return task.result
    offered = any(offers(each, tree.branch) for each in task.report.changes)
    in_use = any(map(is_in_use, task.report.changes))
    if in_use and (store is None or await at_work(store, tree.path, task.id)):
        return task.result
    left = await inspect_worktree(tree.path)
    untold = in_use or task.status is Status.INTERRUPTED
    cut = left is not None and untold and (left.changed or left.dirty)
    if not cut and not in_use and (not offered or (left is not None and not (left.merged or left.settled))):
        return task.result
    kept = with_changes(
        task.report.text, [withdrawn(each, tree.branch) for each in without_use(task.report.changes)]
    )
    if left is not None and cut:
        return f"{kept.rstrip()}\n\n{_found(left)}".lstrip()
    where = f"Its worktree and its branch {tree.branch} were removed"
    if left is not None:
        where = f"All its changes are in {tree.repository} now{_but(left)}"
    return f"{kept.rstrip()}\n\n[{where}.]".lstrip()


def _but(left: "LeftoverWorktree") -> str:
    return f", but {left.unmergeable}" if left.unmergeable else ""


def _found(left: "LeftoverWorktree") -> str:
    """The changes in the worktree of an agent that was interrupted before they could be summarized."""
    files = "1 file" if left.changed == 1 else f"{'?' if left.changed is None else left.changed} files"
    where = f"on the branch {left.branch}, in {left.path}"
    if left.merged or left.settled:
        return f"[What it changed, {files}, is {where}, and all of it is in {left.repository}{_but(left)}.]"
    open_too = ", partly uncommitted" if left.dirty else ""
    said = (
        f"[It was interrupted. What it had changed, {files}, is {where}{open_too}, and not in your checkout.]"
    )
    return f"{said}\nTo take it over: {left.merge_command}"
