"""A worktree on a worker for one task from another machine, and how its changes are handed in."""

import asyncio
import fcntl
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.errors import StoreTrouble, UserMistake
from gencode.core.spec import Workspace
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
    """A task from elsewhere: its id, the folder it belongs to there, and how that folder was."""

    task: str
    cwd: str
    parcel: FolderSnapshot


class _Start(Struct, frozen=True):
    """A commit that a copy begins at, and the one that its agent was at then; `left` is missing in it."""

    commit: str = ""
    head: str = ""
    left: str = ""


class TaskWorktree:
    """A worktree that is one task's alone, for as long as it is open."""

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
        """`kept`: the task had it here before. `fresh`: nothing of an earlier run of the task is in it.

        `left` are files that the task made elsewhere and that were too large to travel.
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
        """Trust what the folder brings, if that is exactly what its sender trusts."""
        here, known = standing(self.cwd, home), self.guest.parcel.trusted
        started = {path: digest for path, digest in known.items() if path not in here.brought.files}
        same = here.brought.files.items() <= known.items() and digests(started, self.cwd) == started
        if known and same and not here.brought.problems:
            trust(here, home, started)

    async def hand_in(self, parcels: SnapshotStore, owner: str, worker: str) -> tuple[WorktreeResult, str]:
        """Give back what was done, and why that was not possible. What is not handed in stays here.

        A worktree with nothing else in it is removed; its commit is kept in the mirror.
        """
        found = await commit_copy(self.tree, self._git)
        work, guest = found.work, self.guest
        if not work.commit:
            return work, ""
        other = guest.parcel.start if guest.parcel.fork else ""
        if work.commit in (self.tree.base, other):
            await self.record_folder(parcels, owner, worker)
            await self._cleared(work)
            return work, ""
        if found.lacking:
            why = as_reason(found.lacking)
            await self.record_folder(parcels, owner, worker, why)
            return work, why
        files = len(work.files) + work.more_files
        told = ReturnedChanges(
            guest.task, guest.parcel, work.commit, guest.cwd, worker, files, head=found.head, left=found.left
        )
        if not await parcels.hand_in(told, found.body, owner):
            return work, "another worker has the task now"
        with suppress(OSError):  # it is made anew then, with what was handed in
            write_record(replace(self.tree, holds=work.commit))
        if not work.notes and (why := await self._removed(work.commit)):
            return replace(work, notes=(why,)), ""
        return work, ""

    async def record_folder(self, parcels: SnapshotStore, owner: str, worker: str, why: str = "") -> None:
        """Note how the folder was, for a task of which nothing goes back: it can be made anew later.

        With `why` there is work that could not be handed in.
        """
        guest, kept = self.guest, str(self.tree.path) if why else ""
        told = ReturnedChanges(
            guest.task, guest.parcel, guest.parcel.tip, guest.cwd, worker, kept=kept, why=why
        )
        with suppress(StoreTrouble, UserMistake):
            earlier = await parcels.returned(guest.task)
            if earlier is None or earlier[0].taken:
                await parcels.hand_in(told, b"", owner)
                await parcels.taken(guest.task, told.commit)

    def release(self, home: Path) -> None:
        """Let others use the place. Nothing is removed by that."""
        if self.guest.parcel.trusted:
            revoke(self.cwd, home)
        with suppress(OSError):
            Path(self._lock.name).unlink()
        self._lock.close()

    async def remove_if_unused(self) -> None:
        """Remove a worktree in which nothing was done."""
        if self.fresh:
            await self._cleared((await commit_copy(self.tree, self._git)).work)

    async def _cleared(self, work: WorktreeResult) -> None:
        """Remove a worktree that is as it was made, with the work of another task in it."""
        if work.kept and work.commit == self.guest.parcel.start and not work.notes:
            await self._removed(work.commit)

    async def _removed(self, commit: str) -> str:
        """Remove a worktree whose work is handed in; why not, where that fails."""
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


async def open_task_worktree(guest: IncomingTask, parcels: SnapshotStore, home: Path) -> TaskWorktree:
    """A worktree for a task: the one it had here, or one that begins where the task is known to be.

    Unreachable when that is not possible here and now, InvalidSnapshot when it never will be.
    """
    guest = replace(guest, parcel=checked(guest.parcel))
    try:
        return await _open(guest, parcels, home)
    except (InvalidSnapshot, FolderUnavailable):
        raise
    except UserMistake as mistake:  # no git, no room, no rights: elsewhere that may be otherwise
        raise FolderUnavailable(str(mistake)) from None


async def _open(guest: IncomingTask, parcels: SnapshotStore, home: Path) -> TaskWorktree:
    parcel = guest.parcel
    mirror = RepositoryMirror(home, parcel.key)
    git = await mirror.fetch(parcel, parcels)
    folder = repository_folder(home, mirror.path)
    name = _name(guest)
    with private_folder(folder):
        lock = (folder / f".{name}.lock").open("ab")
    made: TaskWorktree | None = None
    try:
        if not _try_lock(lock):
            raise FolderUnavailable(_BUSY)
        start = await _earlier(git, guest, parcels)
        tree = _existing(folder, guest, start.commit)
        kept = tree is not None
        begins = start if start.commit else await _sent_with(git, parcel, parcels)
        if tree is None:
            source = WorktreeSource(git, mirror.path, mirror.path, parcel.tip, begins.commit, away=True)
            tree = await _made(replace(source, holds=start.commit), guest, home)
        if not has_own_repository(tree):
            await create_repository(tree, git, begins.head or await _head(git, parcel))
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
    """What the copy for a task is called that was sent like this: with this work of its own, or none."""
    own = "" if guest.parcel.fork else guest.parcel.start
    return "-".join([guest.task, *(each[:8] for each in (guest.parcel.tip, own) if each)])


def _try_lock(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: the lease must do
    return True


def _names(guest: IncomingTask) -> list[str]:
    plain = _name(guest)
    return [plain, *(f"{plain}-{number}" for number in range(2, _NAMES))]


def _existing(folder: Path, guest: IncomingTask, newest: str) -> Worktree | None:
    """The worktree that the task had here before, if it has not handed in other work elsewhere since."""
    found = [read_record(folder / name) for name in _names(guest)]
    sound = [tree for tree in found if tree and tree.away and tree.base == guest.parcel.tip]
    there = [tree for tree in sound if tree.path.is_dir() and tree.git_dir.is_dir()]
    return next((tree for tree in there if not newest or tree.holds == newest), None)


async def _head(git: Git, parcel: FolderSnapshot) -> str:
    """The commit that the sender was at: what was not committed there is not here either."""
    if not parcel.head or parcel.head == parcel.tip:
        return parcel.tip
    if await git.output_line("rev-parse", "--verify", f"{parcel.tip}^1") != parcel.head:
        raise InvalidSnapshot("its folder is said to be at a commit that it was not at")
    return parcel.head


async def _earlier(git: Git, guest: IncomingTask, parcels: SnapshotStore) -> _Start:
    """What the task did elsewhere and nobody has taken over, if there is anything."""
    found = await parcels.returned(guest.task)
    if found is None or found[0].taken or found[0].parcel.tip != guest.parcel.tip:
        return _Start()
    if found[0].parcel.start != guest.parcel.start:
        return _Start()  # since then it went on elsewhere, and was sent with what it did there
    commit, head = found[0].commit, found[0].head
    checked(replace(guest.parcel, tip=commit, head=head))
    return await _checked_start(
        git, guest.parcel, _Start(commit, head, found[0].left), partial(read_pack, git, found[1])
    )


async def _sent_with(git: Git, parcel: FolderSnapshot, parcels: SnapshotStore) -> _Start:
    """What another task did that a fork of it begins with, if there is anything."""
    if not parcel.start:
        return _Start()
    start = _Start(parcel.start, parcel.start_head)
    return await _checked_start(git, parcel, start, partial(unpack_snapshot, git, parcel, parcels))


async def _checked_start(
    git: Git, parcel: FolderSnapshot, start: _Start, take: Callable[[], Awaitable[None]]
) -> _Start:
    """The same, if all of it is there above what was sent, or is once it was taken in."""
    if not await is_complete(git, start.commit, [parcel.tip]):
        await take()
        if not await is_complete(git, start.commit, [parcel.tip]):
            raise InvalidSnapshot("what the task did before is not all there")
    if start.head and not (await git.run("merge-base", "--is-ancestor", start.head, start.commit)).ok:
        raise InvalidSnapshot("what the task did before is said to be at a commit that it was not at")
    return start


def _is_taken(path: Path) -> bool:
    return os.path.lexists(path)


async def _made(source: WorktreeSource, guest: IncomingTask, home: Path) -> Worktree:
    place = source.top / guest.parcel.below
    workspace = Workspace(place, place, Path.home())
    folder = repository_folder(home, source.top)
    for name in _names(guest):  # what a worker left half made when it was killed is not touched
        taken = await source.git.output_line(
            "rev-parse", "--verify", "--quiet", f"refs/heads/{BRANCHES}{name}"
        )
        if not taken and not _is_taken(folder / name):
            return await create_from(source, workspace, home, name)
    raise UserMistake(f"cannot copy its folder: {folder} already has too many copies")
