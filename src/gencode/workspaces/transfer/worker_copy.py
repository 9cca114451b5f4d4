"""A worktree on a worker for one task from another machine, and how its changes are sent back."""

import asyncio
import fcntl
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from msgspec import Struct

from gencode.core.errors import StoreTrouble, UserMistake
from gencode.core.spec import Workspace
from gencode.core.structs import replace
from gencode.journal.folder_snapshot import (
    FolderSnapshot,
    InvalidSnapshot,
    ReturnedChanges,
    SnapshotStore,
    as_reason,
    checked,
)
from gencode.permissions.started_files import digests
from gencode.permissions.trust import revoke, standing, trust
from gencode.workspaces.transfer.checkout import is_complete, read_pack
from gencode.workspaces.transfer.copy_repository import (
    create_repository,
    has_own_repository,
    remove_repository,
)
from gencode.workspaces.transfer.mirror import FolderUnavailable, RepositoryMirror, unpack_snapshot
from gencode.workspaces.transfer.work_commit import commit_copy
from gencode.workspaces.worktrees.agent_work import WorktreeResult
from gencode.workspaces.worktrees.create import WorktreeSource, create_from, remove_half_made
from gencode.workspaces.worktrees.git import Git
from gencode.workspaces.worktrees.worktree import (
    BRANCHES,
    Worktree,
    folder_lock,
    private_folder,
    read_record,
    remove_record,
    repository_folder,
    write_record,
)

RETURNED = "refs/gencode/returned/"
_NAMES = 9
_BUSY = "another worker on this machine is running it, or was a moment ago"


class IncomingTask(Struct, frozen=True):
    """A task of another machine: its id, its folder there, and the snapshot of that folder."""

    task: str
    cwd: str
    snapshot: FolderSnapshot


class _Start(Struct, frozen=True):
    """The commit a copy begins at, and the one its agent was at then; `left` is missing in it."""

    commit: str = ""
    head: str = ""
    left: str = ""


class TaskWorktree:
    """A worktree for one task alone, as long as it is open."""

    def __init__(
        self,
        guest: IncomingTask,
        tree: Worktree,
        git: Git,
        lock: IO[bytes],
        *,
        kept: bool,
        fresh: bool,
        left: str,
    ) -> None:
        """`kept`: the task had it here before. `fresh`: it has nothing of an earlier run of the task.

        `left` are files of the task from elsewhere that were too large to send.
        """
        self.guest = guest
        self.tree = tree
        self.kept = kept
        self.fresh = fresh
        self.left = left
        self._git = git
        self._lock = lock

    @property
    def cwd(self) -> Path:
        """The folder that the task works in."""
        return self.tree.workspace.cwd

    def trust(self, home: Path) -> None:
        """Trust the folder's own files, if they are exactly those that the sender trusts."""
        here, known = standing(self.cwd, home), self.guest.snapshot.trusted
        started = {path: digest for path, digest in known.items() if path not in here.brought.files}
        same = here.brought.files.items() <= known.items() and digests(started, self.cwd) == started
        if known and same and not here.brought.problems:
            trust(here, home, started)

    async def hand_in(self, snapshots: SnapshotStore, owner: str, worker: str) -> tuple[WorktreeResult, str]:
        """Send the changes back, or say why that is not possible. What is not sent stays here.

        A worktree with nothing else in it is removed; its commit is kept in the mirror.
        """
        found = await commit_copy(self.tree, self._git)
        work, guest = found.work, self.guest
        if not work.commit:
            return work, ""
        other = guest.snapshot.start if guest.snapshot.fork else ""
        if work.commit in (self.tree.base, other):
            await self.record_folder(snapshots, owner, worker)
            await self._cleared(work)
            return work, ""
        if found.lacking:
            why = as_reason(found.lacking)
            await self.record_folder(snapshots, owner, worker, why)
            return work, why
        files = len(work.files) + work.more_files
        told = ReturnedChanges(
            guest.task,
            guest.snapshot,
            work.commit,
            guest.cwd,
            worker,
            files,
            head=found.head,
            left=found.left,
        )
        if not await snapshots.hand_in(told, found.body, owner):
            return work, "another worker has the task now"
        with suppress(OSError):  # it is then rebuilt from what was handed in
            write_record(replace(self.tree, holds=work.commit))
        if not work.notes and (why := await self._removed(work.commit)):
            return replace(work, notes=(why,)), ""
        return work, ""

    async def record_folder(self, snapshots: SnapshotStore, owner: str, worker: str, why: str = "") -> None:
        """Record the state of the folder for a task without changes: it can be rebuilt later.

        With `why` there are changes that could not be handed in.
        """
        guest, kept = self.guest, str(self.tree.path) if why else ""
        told = ReturnedChanges(
            guest.task, guest.snapshot, guest.snapshot.tip, guest.cwd, worker, kept=kept, why=why
        )
        with suppress(StoreTrouble, UserMistake):
            earlier = await snapshots.returned(guest.task)
            if earlier is None or earlier[0].taken:
                await snapshots.hand_in(told, b"", owner)
                await snapshots.taken(guest.task, told.commit)

    def release(self, home: Path) -> None:
        """Release the lock. Nothing is removed."""
        if self.guest.snapshot.trusted:
            revoke(self.cwd, home)
        with suppress(OSError):
            Path(self._lock.name).unlink()
        self._lock.close()

    async def remove_if_unused(self) -> None:
        """Remove a worktree in which nothing was done."""
        if self.fresh:
            await self._cleared((await commit_copy(self.tree, self._git)).work)

    async def _cleared(self, work: WorktreeResult) -> None:
        """Remove a worktree in its original state that has the changes of another task in it."""
        if work.kept and work.commit == self.guest.snapshot.start and not work.notes:
            await self._removed(work.commit)

    async def _removed(self, commit: str) -> str:
        """Remove a worktree whose changes were sent; if that fails, why."""
        failed = f"the copy {self.tree.path} on the worker could not be removed"
        try:
            await asyncio.to_thread(remove_repository, self.tree)
        except (OSError, RecursionError):
            return failed
        async with folder_lock(self.tree.path.parent) as held:
            await remove_half_made(self._git, self.tree.common_dir, self.tree.path.parent, held)
            for words in (
                ("update-ref", f"{RETURNED}{self.guest.task}-{commit[:12]}", commit),
                ("worktree", "remove", "--force", str(self.tree.path)),
                ("update-ref", "-d", f"refs/heads/{self.tree.branch}", commit),
            ):
                said = await self._git.run_uninterrupted(*words)
                if not said.ok:
                    return failed
        await asyncio.to_thread(remove_record, self.tree.path)
        return ""


async def open_task_worktree(guest: IncomingTask, snapshots: SnapshotStore, home: Path) -> TaskWorktree:
    """A worktree for a task: the one it had here, or one that begins at its latest known state.

    FolderUnavailable if that is not possible here now, InvalidSnapshot if it never will be.
    """
    guest = replace(guest, snapshot=checked(guest.snapshot))
    try:
        return await _open(guest, snapshots, home)
    except (InvalidSnapshot, FolderUnavailable):
        raise
    except UserMistake as mistake:  # no git, no room, no rights: another machine may have them
        raise FolderUnavailable(str(mistake)) from None


async def _open(guest: IncomingTask, snapshots: SnapshotStore, home: Path) -> TaskWorktree:
    snapshot = guest.snapshot
    mirror = RepositoryMirror(home, snapshot.key)
    git = await mirror.fetch(snapshot, snapshots)
    folder = repository_folder(home, mirror.path)
    name = _name(guest)
    with private_folder(folder):
        lock = (folder / f".{name}.lock").open("ab")
    made: TaskWorktree | None = None
    try:
        if not _try_lock(lock):
            raise FolderUnavailable(_BUSY)
        start = await _earlier(git, guest, snapshots)
        tree = _existing(folder, guest, start.commit)
        kept = tree is not None
        begins = start if start.commit else await _sent_with(git, snapshot, snapshots)
        if tree is None:
            source = WorktreeSource(git, mirror.path, mirror.path, snapshot.tip, begins.commit, away=True)
            tree = await _made(replace(source, holds=start.commit), guest, home)
        if not has_own_repository(tree):
            await create_repository(tree, git, begins.head or await _head(git, snapshot))
        made = TaskWorktree(
            guest,
            tree,
            git,
            lock,
            kept=kept,
            fresh=not kept and not start.commit,
            left="" if kept else start.left,
        )
        return made
    finally:
        if made is None:
            lock.close()


def _name(guest: IncomingTask) -> str:
    """The name of the copy for a task with this snapshot: with these changes of its own, or none."""
    own = "" if guest.snapshot.fork else guest.snapshot.start
    return "-".join([guest.task, *(each[:8] for each in (guest.snapshot.tip, own) if each)])


def _try_lock(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: the lease has to be enough
    return True


def _names(guest: IncomingTask) -> list[str]:
    plain = _name(guest)
    return [plain, *(f"{plain}-{number}" for number in range(2, _NAMES))]


def _existing(folder: Path, guest: IncomingTask, newest: str) -> Worktree | None:
    """The worktree the task had here before, unless it has sent other changes from elsewhere since."""
    found = [read_record(folder / name) for name in _names(guest)]
    sound = [tree for tree in found if tree and tree.away and tree.base == guest.snapshot.tip]
    there = [tree for tree in sound if tree.path.is_dir() and tree.git_dir.is_dir()]
    return next((tree for tree in there if not newest or tree.holds == newest), None)


async def _head(git: Git, snapshot: FolderSnapshot) -> str:
    """The commit the sender was at; its uncommitted changes are above it."""
    if not snapshot.head or snapshot.head == snapshot.tip:
        return snapshot.tip
    if await git.output_line("rev-parse", "--verify", f"{snapshot.tip}^1") != snapshot.head:
        raise InvalidSnapshot("its folder is said to be at a commit that it was not at")
    return snapshot.head


async def _earlier(git: Git, guest: IncomingTask, snapshots: SnapshotStore) -> _Start:
    """The changes of the task elsewhere that were not merged, if there are any."""
    found = await snapshots.returned(guest.task)
    if found is None or found[0].taken or found[0].snapshot.tip != guest.snapshot.tip:
        return _Start()
    if found[0].snapshot.start != guest.snapshot.start:
        return _Start()  # it ran elsewhere since, and was sent with the changes from there
    commit, head = found[0].commit, found[0].head
    checked(replace(guest.snapshot, tip=commit, head=head))
    return await _checked_start(
        git, guest.snapshot, _Start(commit, head, found[0].left), partial(read_pack, git, found[1])
    )


async def _sent_with(git: Git, snapshot: FolderSnapshot, snapshots: SnapshotStore) -> _Start:
    """The changes of its original that a fork begins with, if there are any."""
    if not snapshot.start:
        return _Start()
    start = _Start(snapshot.start, snapshot.start_head)
    return await _checked_start(git, snapshot, start, partial(unpack_snapshot, git, snapshot, snapshots))


async def _checked_start(
    git: Git, snapshot: FolderSnapshot, start: _Start, take: Callable[[], Awaitable[None]]
) -> _Start:
    """The same, if all of it exists on top of what was sent, perhaps after fetching it."""
    if not await is_complete(git, start.commit, [snapshot.tip]):
        await take()
        if not await is_complete(git, start.commit, [snapshot.tip]):
            raise InvalidSnapshot("what the task did before is not all there")
    if start.head and not (await git.run("merge-base", "--is-ancestor", start.head, start.commit)).ok:
        raise InvalidSnapshot("what the task did before is said to be at a commit that it was not at")
    return start


def _is_taken(path: Path) -> bool:
    return os.path.lexists(path)


async def _made(source: WorktreeSource, guest: IncomingTask, home: Path) -> Worktree:
    place = source.top / guest.snapshot.below
    workspace = Workspace(place, place, Path.home())
    folder = repository_folder(home, source.top)
    for name in _names(guest):  # leaves incomplete copies of a killed worker alone
        taken = await source.git.output_line(
            "rev-parse", "--verify", "--quiet", f"refs/heads/{BRANCHES}{name}"
        )
        if not taken and not _is_taken(folder / name):
            return await create_from(source, workspace, home, name)
    raise UserMistake(f"cannot copy its folder: {folder} already has too many copies")
