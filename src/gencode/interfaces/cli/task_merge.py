"""`gen task merge`: take over what an agent changed on another machine, or look what that would give."""

import argparse
from pathlib import Path

from gencode.app import GenCode
from gencode.core.changes import listed, named
from gencode.core.errors import UserMistake
from gencode.core.task import Task, whole_transcript
from gencode.fleet.worker_workspace import told_copies
from gencode.interfaces.cli.open_session import opened
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.plain_text import answer, answer_json, note
from gencode.journal.folder_snapshot import ReturnedChanges, SnapshotStore, repository_around
from gencode.tasks.leave_worktree import named_tasks
from gencode.tasks.resume import is_here
from gencode.workspaces.transfer.apply_changes import TAKEN, ApplyResult, ChangeApplier, describe_result
from gencode.workspaces.transfer.checkout import NotAClone, checkout_at, require_same_repository
from gencode.workspaces.worktrees.leftovers import inspect_worktree
from gencode.workspaces.worktrees.worktree import read_record

_WELL = {"applied", "there", "fits"}


def merge(args: argparse.Namespace) -> int:
    """Take it over; 1 when that was not possible and it is offered as a branch."""
    return run_to_end(_merge(args))


async def _merge(args: argparse.Namespace) -> int:
    async with opened(args) as gen:
        parcels, (work, body) = await _returned(gen, args.id)
        homecoming = ChangeApplier(await _folder(args, work), parcels)
        if "preview" in args:
            arrived = await homecoming.preview(work, body)
        else:
            arrived = await homecoming.apply(work, body)
            if arrived.state in TAKEN and homecoming.is_news:
                await gen.history.note_merged(work.task, arrived)
        behind = await _left_behind(gen, work)
    if "json" in args:
        answer_json(arrived)
    else:
        _show(arrived, behind, whole="preview" in args)
    return 0 if arrived.state in _WELL else 1


async def _returned(gen: GenCode, name: str) -> tuple[SnapshotStore, tuple[ReturnedChanges, bytes]]:
    """What a task changed elsewhere, also when the task itself was deleted since."""
    parcels, found = gen.workers.returned if gen.workers else None, None
    if parcels is not None and (found := await parcels.returned(name)) and not found[0].nothing:
        return parcels, found
    task = await gen.find(name)
    if parcels is not None and (found := await parcels.returned(task.id)) and not found[0].nothing:
        return parcels, found
    tree = read_record(Path(task.created.worktree)) if task.created.worktree else None
    left = await inspect_worktree(tree.path) if tree is not None else None
    if left is not None and (busy := await gen.history.at_work_in(Path(left.path))):
        later = f"when nobody is any more, gen task output {task.id} tells how to take it over"
        raise UserMistake(f"{named(named_tasks(busy))} at work in {left.path}; {later}.")
    if left is not None:
        here = f"Task {task.id} worked in a worktree on this machine"
        how = f"take it over with: {left.merge_command}"
        if left.settled:
            how = f"all is in {left.repository}, but {left.unmergeable}. To see it: {left.merge_command}"
        raise UserMistake(f"{here}; {f'all of it is in {left.repository}.' if left.merged else how}")
    raise UserMistake(await _nothing(gen, task, found[0] if found else None))


async def _nothing(gen: GenCode, task: Task, told: ReturnedChanges | None) -> str:
    """Why there is nothing to take over, and where the work is that never came."""
    if told is not None and told.kept:
        return (
            f"What task {task.id} changed could not be copied back, because {told.why}. It is on the worker "
            f"{told.worker}, in {told.kept}."
        )
    copies = told_copies(whole_transcript(await gen.history.events(task.id))) if told is None else []
    if copies:
        when = "has not been copied back yet" if not task.status.ended else "was not copied back"
        return (
            f"What task {task.id} changed {when}. It worked in the copy {copies[-1]}; if that worker died, "
            "what was done is still there, and gen doctor lists it there."
        )
    return f"Task {task.id} changed nothing on another machine, so there is nothing to take over."


async def _left_behind(gen: GenCode, work: ReturnedChanges) -> list[str]:
    """What of the work is only on the worker, and where, as a line for a person; mostly none."""
    if not work.left:
        return []
    copies = told_copies(whole_transcript(await gen.history.events(work.task)))
    where = f"the copy {copies[-1]}" if copies else f"its copy on {work.worker}"
    return [f"Too large to travel, and only in {where}: {work.left}."]


async def _folder(args: argparse.Namespace, work: ReturnedChanges) -> Path:
    """The checkout that gets the work: that of the task, a clone where it is not here, or the one named."""
    named = "cwd" in args
    here = Path(args.cwd) if named else _here()
    own = is_here(work.cwd) and _checkout(here) == _checkout(Path(work.cwd))
    if named or own:
        await require_same_repository(await checkout_at(here), work.parcel, own=own)
        return here if named else Path(work.cwd)
    if is_here(work.cwd):
        raise UserMistake(
            f"Task {work.task} belongs to the folder {work.cwd}; take it over there, or name the checkout "
            "that gets it with --cwd."
        )
    try:
        await require_same_repository(await checkout_at(here), work.parcel, own=False)
    except UserMistake as why:
        no_folder = f"The folder {work.cwd} of the task is not here; name your checkout with --cwd."
        raise UserMistake(f"{no_folder} {why}" if isinstance(why, NotAClone) else no_folder) from None
    note(f"The folder {work.cwd} of the task is not here; this is a clone of its repository: {here}")
    return here


def _here() -> Path:
    return Path.cwd()


def _checkout(folder: Path) -> Path:
    real = folder.resolve()
    return repository_around(real) or real


def _show(arrived: ApplyResult, behind: list[str], *, whole: bool) -> None:
    for line in (*listed(arrived.files, arrived.more_files), *behind, *describe_result(arrived)):
        answer(line)
    if whole and arrived.diff:
        answer(arrived.diff.rstrip())
