"""Merges what a task changed on another machine into a checkout of its repository."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from gencode.core.changes import named
from gencode.core.errors import UserMistake
from gencode.core.task import Task, whole_transcript
from gencode.fleet.worker_workspace import told_copies
from gencode.journal.dispatch import SharedJournal
from gencode.journal.folder_snapshot import ReturnedChanges, SnapshotStore, repository_around
from gencode.journal.store import Store
from gencode.tasks.leave_worktree import at_work, named_tasks
from gencode.tasks.resume import is_here
from gencode.workspaces.transfer.apply_changes import TAKEN, ApplyResult, ChangeApplier, record_result
from gencode.workspaces.transfer.checkout import NotAClone, checkout_at, require_same_repository
from gencode.workspaces.worktrees.leftovers import inspect_worktree
from gencode.workspaces.worktrees.worktree import read_record


class MergeResult(Struct, frozen=True):
    """The result of a merge.

    `notice` names the clone that got it, `left_behind` what is only on the worker.
    """

    result: ApplyResult
    notice: str = ""
    left_behind: str = ""


async def merge_changes(
    store: Store,
    find: Callable[[str], Awaitable[Task]],
    name: str,
    folder: Path,
    *,
    here: bool = False,
    preview: bool = False,
) -> MergeResult:
    """Merge what a task changed into its checkout, or into a clone of it around `folder`.

    `here` takes the checkout around `folder` in any case. UserMistake says where the changes are if they are
    not in the database.
    """
    snapshots = store.snapshots if isinstance(store, SharedJournal) else None
    work, body, snapshots = await _returned(store, snapshots, find, name)
    target, notice = await _target(work, folder, here=here)
    applier = ChangeApplier(target, snapshots)
    if preview:
        result = await applier.preview(work, body)
    else:
        result = await applier.apply(work, body)
        if result.state in TAKEN and applier.is_news:
            await record_result(store, work.task, result)
    return MergeResult(result, notice, await _left_behind(store, work))


async def _returned(
    store: Store, snapshots: SnapshotStore | None, find: Callable[[str], Awaitable[Task]], name: str
) -> tuple[ReturnedChanges, bytes, SnapshotStore]:
    """What a task changed elsewhere, also when the task itself was deleted since."""
    found = None
    if snapshots is not None and (found := await snapshots.returned(name)) and not found[0].nothing:
        return *found, snapshots
    task = await find(name)
    if snapshots is not None and (found := await snapshots.returned(task.id)) and not found[0].nothing:
        return *found, snapshots
    tree = read_record(Path(task.created.worktree)) if task.created.worktree else None
    left = await inspect_worktree(tree.path) if tree is not None else None
    if left is not None and (busy := await at_work(store, Path(left.path))):
        later = f"when nobody is any more, gen task output {task.id} tells how to take it over"
        raise UserMistake(f"{named(named_tasks(busy))} at work in {left.path}; {later}.")
    if left is not None:
        here = f"Task {task.id} worked in a worktree on this machine"
        how = f"take it over with: {left.merge_command}"
        if left.settled:
            how = f"all is in {left.repository}, but {left.unmergeable}. To see it: {left.merge_command}"
        raise UserMistake(f"{here}; {f'all of it is in {left.repository}.' if left.merged else how}")
    raise UserMistake(await _nothing(store, task, found[0] if found else None))


async def _nothing(store: Store, task: Task, returned: ReturnedChanges | None) -> str:
    """Why there is nothing to take over, and where the work is that never came."""
    if returned is not None and returned.kept:
        return (
            f"What task {task.id} changed could not be copied back, because {returned.why}. It is on the "
            f"worker {returned.worker}, in {returned.kept}."
        )
    copies = told_copies(whole_transcript(await store.events(task.id))) if returned is None else []
    if copies:
        when = "has not been copied back yet" if not task.status.ended else "was not copied back"
        return (
            f"What task {task.id} changed {when}. It worked in the copy {copies[-1]}; if that worker died, "
            "what was done is still there, and gen doctor lists it there."
        )
    return f"Task {task.id} changed nothing on another machine, so there is nothing to take over."


async def _left_behind(store: Store, work: ReturnedChanges) -> str:
    """What of the work is only on the worker, and where; mostly nothing."""
    if not work.left:
        return ""
    copies = told_copies(whole_transcript(await store.events(work.task)))
    where = f"the copy {copies[-1]}" if copies else f"its copy on {work.worker}"
    return f"Too large to travel, and only in {where}: {work.left}."


async def _target(work: ReturnedChanges, folder: Path, *, here: bool) -> tuple[Path, str]:
    """The checkout that gets the work, and a notice if that is a clone because the task's is not here."""
    own = is_here(work.cwd) and _checkout(folder) == _checkout(Path(work.cwd))
    if here or own:
        await require_same_repository(await checkout_at(folder), work.snapshot, own=own)
        return folder if here else Path(work.cwd), ""
    if is_here(work.cwd):
        raise UserMistake(
            f"Task {work.task} belongs to the folder {work.cwd}; take it over there, or name the checkout "
            "that gets it with --cwd."
        )
    try:
        await require_same_repository(await checkout_at(folder), work.snapshot, own=False)
    except UserMistake as why:
        no_folder = f"The folder {work.cwd} of the task is not here; name your checkout with --cwd."
        raise UserMistake(f"{no_folder} {why}" if isinstance(why, NotAClone) else no_folder) from None
    return (
        folder,
        f"The folder {work.cwd} of the task is not here; this is a clone of its repository: {folder}",
    )


def _checkout(folder: Path) -> Path:
    real = folder.resolve()
    return repository_around(real) or real
