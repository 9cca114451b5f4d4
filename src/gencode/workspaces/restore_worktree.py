"""Worktrees of tasks that are resumed or forked: the one the task had, or a new one with its latest changes.

Those may be in a worktree here, in one that another machine made of the same repository (the commits on its
branch are available here, too), or in the database, sent by a worker. The place that the agent was last told
says which of them applies.
"""

from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.place import WorkerCopy, WorktreePlace
from gencode.core.spec import Workspace
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.journal.dispatch import SharedJournal
from gencode.journal.folder_snapshot import (
    FolderSnapshot,
    MissingChanges,
    ReturnedChanges,
    SnapshotStore,
    as_reason,
)
from gencode.journal.store import Store
from gencode.workspaces.transfer.apply_changes import ChangeApplier, merge_into_worktree
from gencode.workspaces.transfer.checkout import checkout_at
from gencode.workspaces.worktrees.agent_work import snapshot_commit
from gencode.workspaces.worktrees.compare_commits import is_merged
from gencode.workspaces.worktrees.create import WorktreeSource, create_from, find_source
from gencode.workspaces.worktrees.worktree import (
    BRANCHES,
    Worktree,
    local_name,
    local_worktree,
    read_last_record,
    read_record,
    repository_folder,
    worktree_name,
)

if TYPE_CHECKING:
    from gencode.workspaces.worktrees.worktree import Worktree


class LocalWork(Struct, frozen=True):
    """The worktree here with the latest changes of a task, or only the branch with them."""

    branch: str
    tree: Worktree | None = None


class LatestWork(Struct, frozen=True):
    """A task, where its latest changes were made (a worker or a branch), and the changes that came back."""

    task: Task
    away: bool = False
    branch: str = ""
    back: tuple[ReturnedChanges, bytes] | None = None
    snapshots: SnapshotStore | None = None

    @property
    def name(self) -> str:
        """The name of its worktree."""
        return worktree_name(self.task.id, self.task.created.worktree)

    @property
    def newest_returned(self) -> tuple[ReturnedChanges, bytes] | None:
        """The changes that came back, if they are its latest."""
        return self.back if self.away and self.back is not None and not self.back[0].nothing else None

    def worktree_here(self, home: Path, top: Path | None) -> Worktree | None:
        """Its worktree on this machine, if there is one."""
        return local_worktree(home, top, self.name, self.task.created.worktree, self.branch)

    def local_work(self, home: Path, top: Path | None) -> LocalWork:
        """Its latest changes that were not made on a worker."""
        tree = self.worktree_here(home, top)
        if tree is not None and self.branch in ("", tree.branch):
            return LocalWork(tree.branch, tree)
        return LocalWork(self.branch or f"{BRANCHES}{self.name}")


async def find_latest_work(store: Store, task: Task) -> LatestWork:
    """What is known about the latest changes of a task."""
    away, branch = isinstance(task.delivered.place, WorkerCopy), _last_branch(task)
    if not isinstance(store, SharedJournal):
        return LatestWork(task, away, branch)
    return LatestWork(task, away, branch, await store.snapshots.returned(task.id), store.snapshots)


def _last_branch(task: Task) -> str:
    """The last branch a task used in its own worktree, here or on another machine."""
    own = f"{BRANCHES}{worktree_name(task.id, task.created.worktree)}"
    place = task.delivered.place
    return place.branch if isinstance(place, WorktreePlace) and place.branch.startswith(own) else ""


async def save_returned_work(
    ground: LatestWork, own: LocalWork, snapshot: FolderSnapshot
) -> tuple[bool, MissingChanges | None]:
    """Whether a task can be sent with its own changes, as a snapshot, and what is missing in it.

    Returned changes that were not merged are replaced by the next ones. So they are put on a branch first,
    unless all of them are in what is sent. If that fails, or the same was sent before, the task continues
    from the returned changes instead.
    """
    if ground.back is None or ground.snapshots is None or ground.back[0].taken or ground.back[0].nothing:
        return True, None
    work, folder = ground.back[0], Path(ground.task.cwd)
    if (work.snapshot.tip, work.snapshot.start) == (snapshot.tip, snapshot.start):
        return False, None
    home = ChangeApplier(folder, ground.snapshots)
    try:
        await home.fetch(*ground.back)
        checkout = await checkout_at(folder)
        git, ref = checkout.git, f"refs/heads/{own.branch}^{{commit}}"
        state = await (
            snapshot_commit(own.tree)
            if own.tree
            else git.output_line("rev-parse", "--verify", "--quiet", ref)
        )
        if await is_merged(git, state, work.commit):
            return True, None
        branch = await home.put_on_branch(*ground.back)
    except GenCodeError as why:
        reason = as_reason(str(why))
        return False, MissingChanges("in_worktree", worker=work.worker, branch=own.branch, why=reason)
    return True, MissingChanges("on_branch", worker=work.worker, branch=branch, top=str(checkout.top))


WORK = "the work of task {task}, as it was when the fork began"
LAST = "the last commit of {repository}"
FIRST = "the commit that task {task} started from"
BEGAN = f"{FIRST}: its changes are not included"
MERGED = f"{LAST}: the changes of task {{task}} are included only if somebody merged them"
CAME = "the work of task {task}, as it came back from {worker}"
BRANCH = (
    "the work of task {task} on the branch {branch}: its worktree is on another machine, and anything it did "
    "after its last run there is not included"
)
GONE = (
    "The worktree {path} of task {task} is gone, so the task cannot be resumed there. Its branch {branch} "
    "still exists; check it out again: git -C {top} worktree add -f {quoted} {branch}"
)
REMOVED = "was removed"
AWAY = "was on a worker"
NOT_HAD = f"{AWAY}, and its changes cannot be brought here (try gen task merge {{task}}): {{why}}"
ASIDE = "{why} (they are on the branch {branch}; to merge them: git -C {path} merge {branch})"
OFFERED = "{why} (to merge them: gen task merge {task})"
LEFT = " These changed files were too large to transfer and exist only where you worked then: {left}."


class WorktreeNotice(Struct, frozen=True):
    """What an agent and a person are told about a worktree that differs from the one the agent had."""

    agent: str
    person: str


ANEW = WorktreeNotice(
    "You work in a new git worktree, {cwd}, on a new branch {branch}, created from the last commit of "
    "{repository}: your earlier one {lost}. Your changes are in it only if somebody merged them, so check.",
    "Its worktree {path} was created again from the last commit of {repository}, because the earlier one "
    "{lost}.",
)
ALL_THERE = WorktreeNotice(
    "You work in a new git worktree, {cwd}, on a new branch {branch}, created from the last commit of "
    "{repository}, which contains everything you changed {where}.",
    "Its worktree {path} was created again from the last commit of {repository}, which contains everything "
    "it changed {where}.",
)
RETURNED = WorktreeNotice(
    "You work in your own git worktree, {cwd}, on a new branch {branch}, which contains what you changed "
    "{where}.",
    "Its worktree {path} was created with what it changed {where}.",
)
ELSEWHERE = WorktreeNotice(
    "You work in your own git worktree, {cwd}, on a new branch {branch}, created from the branch {was}, "
    "because your earlier worktree is on another machine: anything you did after your last run there exists "
    "only there.",
    "Its worktree {path} was created from the branch {was}, because the earlier one is on another machine; "
    "what is not on that branch exists only there.",
)
CAUGHT_UP = WorktreeNotice(
    "You work in your own git worktree, {cwd}, on the branch {branch}, as before; what you changed {where} "
    "since then was merged into it.",
    "What it changed {where} was merged into its worktree {path}.",
)
BEHIND = WorktreeNotice(
    "You work in your own git worktree, {cwd}, on the branch {branch}, as you left it. Your later changes "
    "{where} are not in it, so check: {why}.",
    "It continues in its worktree {path}, without its later changes {where}: {why}.",
)
UNKNOWN = WorktreeNotice(
    "You work in your own git worktree, {cwd}, on the branch {branch}, as you left it. Any later changes "
    "{where} are not in it, so check.",
    "It continues in its worktree {path}, without any later changes {where}.",
)


class RestoredWorktree(Struct, frozen=True):
    """A worktree for a task, whether it is `fresh`, and the notices about it."""

    tree: Worktree
    fresh: bool = False
    notice: WorktreeNotice | None = None


async def restore_worktree(ground: LatestWork, workspace: Workspace, home: Path) -> RestoredWorktree:
    """The worktree in which a task is resumed here; UserMistake if there can be none."""
    own = ground.local_work(home, None)
    if own.tree is not None and not ground.away:
        return RestoredWorktree(own.tree)
    source = await find_source(workspace.cwd)
    tree, own = ground.worktree_here(home, source.top), ground.local_work(home, source.top)
    if ground.away:
        return await _after_worker(ground, source, tree, workspace, home)
    if own.tree is not None:
        return RestoredWorktree(own.tree)
    was, tip = own.branch, await _commit(source, own.branch)
    if tree is None:
        return await _from_branch(ground, source, was, tip, workspace, home)
    since = await source.git.output_line("merge-base", tip, f"refs/heads/{tree.branch}") if tip else ""
    why = await merge_into_worktree(tree, tip, since) if since else f"its branch {was} is not here"
    why = _saved_on_branch(why, tree, was) if why and since else why
    template = BEHIND if why else CAUGHT_UP
    return RestoredWorktree(tree, notice=_notice(template, tree, where="on another machine", why=why))


async def _after_worker(
    ground: LatestWork, source: WorktreeSource, tree: Worktree | None, workspace: Workspace, home: Path
) -> RestoredWorktree:
    """The worktree here of a task that last ran on a worker, with the changes that came back."""
    work = ground.back[0] if ground.back is not None else None
    where, left = f"on {work.worker}" if work else "on a worker", work.left if work else ""
    why = await _fetch_returned(ground, source)
    if work is None or work.nothing or (why and tree is None):
        if tree is not None:
            return RestoredWorktree(tree, notice=_notice(UNKNOWN, tree, where=where))
        made = await _create(ground, source, workspace, home)
        none = work is None or work.nothing
        lost = AWAY if none else NOT_HAD.format(task=ground.task.id, why=as_reason(why))
        return RestoredWorktree(made, fresh=True, notice=_notice(ANEW, made, lost=lost))
    if tree is not None:
        why = OFFERED.format(why=as_reason(why), task=ground.task.id) if why else ""
        why = why or await _caught_up(ground, tree, work)
        return RestoredWorktree(
            tree, notice=_notice(BEHIND if why else CAUGHT_UP, tree, left, where=where, why=why)
        )
    if await is_merged(source.git, source.base, work.commit):
        made = await _create(ground, source, workspace, home)
        return RestoredWorktree(made, fresh=True, notice=_notice(ALL_THERE, made, left, where=where))
    begun = replace(source, base=work.snapshot.tip, start=work.commit, mixed=_is_mixed(work))
    made = await _create(ground, begun, workspace, home)
    return RestoredWorktree(made, notice=_notice(RETURNED, made, left, where=where))


async def _caught_up(ground: LatestWork, tree: Worktree, work: ReturnedChanges) -> str:
    """Merge the returned changes into the task's worktree; on conflicts, why not and where they are."""
    why = await merge_into_worktree(tree, work.commit, work.snapshot.start or work.snapshot.tip)
    if not why or ground.back is None or ground.snapshots is None:
        return why
    try:
        branch = await ChangeApplier(tree.path, ground.snapshots).put_on_branch(*ground.back)
    except GenCodeError:
        return OFFERED.format(why=as_reason(why), task=ground.task.id)
    return _saved_on_branch(why, tree, branch)


def _saved_on_branch(why: str, tree: Worktree, branch: str) -> str:
    return ASIDE.format(why=as_reason(why), branch=branch, path=quote(str(tree.path)))


async def _from_branch(
    ground: LatestWork, source: WorktreeSource, was: str, tip: str, workspace: Workspace, home: Path
) -> RestoredWorktree:
    """A worktree for a task whose own is not here: on another machine, or removed."""
    lost = AWAY if ground.task.created.isolated and not ground.branch else REMOVED
    if not tip:
        made = await _create(ground, source, workspace, home)
        return RestoredWorktree(made, fresh=True, notice=_notice(ANEW, made, lost=lost))
    path = repository_folder(home, source.top) / was.removeprefix(BRANCHES)
    if read_record(path) is not None and not path.is_dir():
        named = {"path": path, "quoted": quote(str(path)), "top": quote(str(source.top)), "branch": was}
        raise UserMistake(GONE.format(task=ground.task.id, **named))
    base = await source.git.output_line("merge-base", source.base, tip) or tip
    made = await _create(ground, replace(source, base=base, start=tip), workspace, home)
    return RestoredWorktree(made, notice=_notice(ELSEWHERE, made, was=was))


async def _create(ground: LatestWork, source: WorktreeSource, workspace: Workspace, home: Path) -> Worktree:
    """A worktree with the name of the task's, or with that and the name of this machine."""
    name = ground.name
    if await _commit(source, f"{BRANCHES}{name}"):
        name = local_name(name, home)
    return await create_from(source, workspace, home, name)


async def fork_worktree(ground: LatestWork, workspace: Workspace, home: Path, name: str) -> Worktree:
    """A worktree that begins with the changes of a task; else where they began, else at the last commit."""
    task, source = ground.task, await find_source(workspace.cwd)
    if ground.newest_returned is not None and not await _fetch_returned(ground, source):
        work, _ = ground.newest_returned
        if not await is_merged(source.git, source.base, work.commit):
            begun = CAME.format(task=task.id, worker=work.worker)
            source = replace(source, base=work.commit, begun=begun, after=task.id)
            source = replace(source, origin=work.snapshot.tip, mixed=_is_mixed(work))
        return await create_from(source, workspace, home, name)
    before = ground.worktree_here(home, source.top)
    before = before or (read_last_record(Path(task.created.worktree)) if task.created.worktree else None)
    was = ground.local_work(home, source.top).branch
    if (before is None or before.branch != was) and (tip := await _commit(source, was)):
        origin = await source.git.output_line("merge-base", source.base, tip)
        begun = BRANCH.format(task=task.id, branch=was)
        source = replace(source, base=tip, begun=begun, after=task.id, origin=origin)
    else:
        source = await _as_before(source, before, task)
    return await create_from(source, workspace, home, name)


async def _as_before(source: WorktreeSource, before: Worktree | None, task: Task) -> WorktreeSource:
    """The same if only a worktree of this machine is known, or none."""
    state = ""
    if before is not None:
        with suppress(GenCodeError):
            state = await snapshot_commit(before)
    start = state or (before.base if before is not None else "")
    words, after = LAST, ""
    if before is not None and await _has_commit(source, start):
        source = replace(source, base=start, origin=before.first, mixed=before.mixed)
        unchanged = state == before.base or (not state and read_record(before.path) is None)
        words, after = (WORK, task.id) if state else (BEGAN, before.after)
        words, after = (FIRST, before.after) if unchanged else (words, after)
    elif task.evidence.files_changed:
        words = MERGED
    return replace(source, begun=words.format(task=task.id, repository=source.top), after=after)


def _is_mixed(work: ReturnedChanges) -> bool:
    """Whether a task was sent with uncommitted changes of a person."""
    return work.snapshot.head != work.snapshot.tip


async def _fetch_returned(ground: LatestWork, source: WorktreeSource) -> str:
    """Fetch the changes that came back into the repository; if that fails, why."""
    if ground.back is None or ground.snapshots is None:
        return "nothing came back"
    try:
        await ChangeApplier(source.top, ground.snapshots).fetch(*ground.back)
    except GenCodeError as why:
        return str(why)
    return ""


async def _has_commit(source: WorktreeSource, commit: str) -> bool:
    return bool(await source.git.output_line("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"))


async def _commit(source: WorktreeSource, branch: str) -> str:
    return await source.git.output_line("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")


def _notice(template: WorktreeNotice, tree: Worktree, left: str = "", **words: str) -> WorktreeNotice:
    place = {"cwd": tree.workspace.cwd, "branch": tree.branch, "repository": tree.repository}
    named = {"path": tree.path, **place, **words}
    more = LEFT.format(left=left) if left else ""
    return WorktreeNotice(template.agent.format(**named) + more, template.person.format(**named))
