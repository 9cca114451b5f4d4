"""away: a worktree on a worker for one task from elsewhere, and how what was done in it is handed in."""

import asyncio
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.spec import Workspace
from gencode.permissions.trust import revoke, standing, trust
from gencode.runtime.away.checkout import has, is_whole, packed, unpacked
from gencode.runtime.away.mirror import Mirror, Unreachable
from gencode.runtime.away.parcel import MOST_PACK, Parcel, Parcels, Returned, Unfit, checked
from gencode.runtime.worktrees.git import Git
from gencode.runtime.worktrees.making import Source, make_of, turn
from gencode.runtime.worktrees.place import (
    BRANCHES,
    Worktree,
    made_folder,
    recorded,
    remove_record,
    repository_folder,
)
from gencode.runtime.worktrees.work import Work, result

RETURNED = "refs/gencode/returned/"
_NAMES = 9
_BUSY = "another worker on this machine is at it, or was just now"


class Guest(Struct, frozen=True):
    """A task from elsewhere: its id, the folder it belongs to there, and how that folder was."""

    task: str
    cwd: str
    parcel: Parcel


class Lodging:
    """A worktree that is one task's alone, for as long as it is open."""

    fresh = False
    """Whether nothing of an earlier run of the task is in it."""
    kept = False
    """Whether it is the one that the task had here before."""

    def __init__(self, guest: Guest, tree: Worktree, git: Git, lock: IO[bytes]) -> None:
        self.guest = guest
        self.tree = tree
        self._git = git
        self._lock = lock

    @property
    def cwd(self) -> Path:
        """The folder that the task works in."""
        return self.tree.workspace.cwd

    def trust(self, home: Path) -> None:
        """Trust what the folder brings, if that is exactly what its sender trusts."""
        here, known = standing(self.cwd, home), self.guest.parcel.trusted
        if known and here.brought.files == known and not here.brought.problems:
            trust(here, home)

    async def hand_in(self, parcels: Parcels, owner: str, worker: str) -> tuple[Work, str]:
        """Give back what was done, and why that was not possible. What is not handed in stays here.

        A worktree with nothing else in it is removed; its commit is kept in the mirror.
        """
        work = await result(self.tree)
        if not work.kept or not work.commit or work.commit == self.tree.base:
            return work, ""
        body = await packed(self._git, work.commit, [self.tree.base])
        if body is None:
            return work, f"it is larger than {MOST_PACK >> 20} MiB"
        files = len(work.files) + work.more_files
        told = Returned(self.guest.task, self.guest.parcel, work.commit, self.guest.cwd, worker, files)
        if not await parcels.hand_in(told, body, owner):
            return work, "another worker has the task by now"
        if not work.notes and (why := await self._removed(work.commit)):
            return replace(work, notes=(why,)), ""
        return work, ""

    def leave(self, home: Path) -> None:
        """Let others use the place. Nothing is removed by that."""
        if self.guest.parcel.trusted:
            revoke(self.cwd, home)
        with suppress(OSError):
            Path(self._lock.name).unlink()
        self._lock.close()

    async def clear(self) -> None:
        """Remove a worktree in which nothing was done."""
        if self.fresh:
            await result(self.tree)

    async def _removed(self, commit: str) -> str:
        """Remove a worktree whose work is handed in; why not, where that fails."""
        async with turn(self.tree.path.parent):
            for words in (
                ("update-ref", f"{RETURNED}{self.guest.task}-{commit[:12]}", commit),
                ("worktree", "remove", "--force", str(self.tree.path)),
                ("update-ref", "-d", f"refs/heads/{self.tree.branch}", commit),
            ):
                said = await self._git.patiently(*words)
                if not said.ok:
                    return f"the copy {self.tree.path} on the worker could not be removed"
        await asyncio.to_thread(remove_record, self.tree.path)
        return ""


async def lodge(guest: Guest, parcels: Parcels, home: Path) -> Lodging:
    """A worktree for a task: the one it had here, or one that begins where the task is known to be.

    Unreachable when that is not possible here and now, Unfit when it never will be.
    """
    guest = replace(guest, parcel=checked(guest.parcel))
    try:
        return await _lodged(guest, parcels, home)
    except (Unfit, Unreachable):
        raise
    except UserMistake as mistake:  # no git, no room, no rights: elsewhere that may be otherwise
        raise Unreachable(str(mistake)) from None


async def _lodged(guest: Guest, parcels: Parcels, home: Path) -> Lodging:
    parcel = guest.parcel
    mirror = Mirror(home, parcel.key)
    git = await mirror.obtain(parcel, parcels)
    folder = repository_folder(home, mirror.path)
    name = f"{guest.task}-{parcel.tip[:8]}"
    with made_folder(folder):
        lock = (folder / f".{name}.lock").open("ab")
    made: Lodging | None = None
    try:
        if not _alone(lock):
            raise Unreachable(_BUSY)
        if tree := _had(folder / name, parcel):
            made = Lodging(guest, tree, git, lock)
            made.kept = True
            return made
        start = await _earlier(git, guest, parcels)
        source = Source(git, mirror.path, mirror.path, parcel.tip, start, away=True)
        made = Lodging(guest, await _made(source, guest, home), git, lock)
        made.fresh = not start
        return made
    finally:
        if made is None:
            lock.close()


def _alone(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: the lease must do
    return True


def _had(path: Path, parcel: Parcel) -> Worktree | None:
    """The worktree that the task had here before."""
    tree = recorded(path)
    sound = tree is not None and tree.away and tree.base == parcel.tip
    return tree if sound and tree and tree.path.is_dir() and tree.git_dir.is_dir() else None


async def _earlier(git: Git, guest: Guest, parcels: Parcels) -> str:
    """The commit with what the task did elsewhere and nobody has taken over; empty when there is none."""
    found = await parcels.returned(guest.task)
    if found is None or found[0].taken or found[0].parcel.tip != guest.parcel.tip:
        return ""
    commit = found[0].commit
    if not await has(git, commit):
        await unpacked(git, found[1])
    if not await is_whole(git, commit, [guest.parcel.tip]):
        raise Unfit("what the task did before is not all there")
    return commit


def _is_taken(path: Path) -> bool:
    return os.path.lexists(path)


async def _made(source: Source, guest: Guest, home: Path) -> Worktree:
    place = source.top / guest.parcel.below
    workspace = Workspace(place, place, Path.home())
    folder = repository_folder(home, source.top)
    plain = f"{guest.task}-{guest.parcel.tip[:8]}"
    names = [plain, *(f"{plain}-{number}" for number in range(2, _NAMES))]
    for name in names:  # what a worker left half made when it was killed is not touched
        taken = await source.git.tell("rev-parse", "--verify", "--quiet", f"refs/heads/{BRANCHES}{name}")
        if not taken and not _is_taken(folder / name):
            return await make_of(source, workspace, home, name)
    raise UserMistake(f"no copy of its folder can be made: {folder} has too many of them already")
