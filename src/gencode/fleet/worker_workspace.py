"""Where a worker runs a task: in its folder, if that is here, or in a copy of it that is made for it."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gencode.core.errors import StoreTrouble
from gencode.core.place import WorkerCopy
from gencode.core.status import Status
from gencode.core.task import Task, whole_transcript
from gencode.fleet.copied_task import Lodged, lost_copies
from gencode.journal.dispatch import NOT_HERE, MissingPart
from gencode.journal.folder_snapshot import COPIED, FolderSnapshot, SnapshotStore, mark_of
from gencode.journal.store import Store
from gencode.sandbox.shells import Walls
from gencode.workspaces.transfer.mirror import Unreachable
from gencode.workspaces.transfer.worker_copy import Guest
from gencode.workspaces.worktrees.worktree import recorded

log = logging.getLogger(__name__)

Folders = Literal["auto", "shared", "away"]
"""Which folders a worker uses as they are: those it really shares, those at the same place, or none."""


class Wanted(Struct, frozen=True):
    """What a task says of its folder: where it is, its mark, and how it is made anew, or why it cannot be.

    One with a `tree` works in that worktree of the folder; the folder is made anew with what is in that.
    """

    task: str
    cwd: str
    mark: str = ""
    parcel: FolderSnapshot | None = None
    alone: str = ""
    tree: str = ""


class House(Struct, frozen=True):
    """A worker's own: its name, the folder that it may work in, that of GenCode, and its walls."""

    worker: str
    workspace: Path
    home: Path
    folders: Folders = "auto"
    walls: Walls = "auto"


class Lodgings:
    """The copies of folders that are in use on one worker."""

    def __init__(self, store: Store, parcels: SnapshotStore, house: House) -> None:
        self._store = store
        self._parcels = parcels
        self._house = house
        self._open: dict[str, Lodged] = {}

    @asynccontextmanager
    async def place(self, wanted: Wanted) -> AsyncGenerator[Lodged | None]:
        """A copy of the folder of a task, for as long as it is needed; None where the folder itself is here.

        Unreachable when there is neither, here and now.
        """
        if self._is_here(wanted):
            yield None
            return
        lodged = await self._prepared(wanted)
        self._open[wanted.task] = lodged
        try:
            await self._look_back(lodged, wanted.task)
            yield lodged
        finally:
            self._open.pop(wanted.task, None)
            await lodged.leave(self._house.home)

    def abandon(self) -> list[Lodged]:
        """Leave everything as it is, because others may have the tasks by now; what is left."""
        for lodged in self._open.values():
            lodged.abandon()
        return list(self._open.values())

    async def _prepared(self, wanted: Wanted) -> Lodged:
        task = wanted.task
        shared = self._house.folders == "shared" and wanted.mark != COPIED and not wanted.tree
        if wanted.parcel is None or shared:
            missing = Unreachable(NOT_HERE, MissingPart.FOLDER)
            if task:
                await self._hinder(task, missing)
            raise missing
        guest = Guest(task, wanted.cwd, wanted.parcel)
        try:
            lodged = await Lodged.prepare(guest, self._parcels, self._house.home, self._house.worker)
            await lodged.look_around(self._house.walls)
        except Unreachable as why:
            log.warning("the folder of task %s cannot be had here: %s", task, why)
            await self._hinder(task, why)
            raise
        return lodged

    async def _hinder(self, task: str, why: Unreachable) -> None:
        with suppress(StoreTrouble):
            await self._parcels.hinder(task, self._house.worker, str(why), why.lacks)

    async def _look_back(self, lodged: Lodged, task: str) -> None:
        """Note what an agent that began elsewhere leaves behind there."""
        known = await self._store.task(task)
        if known is not None and known.run.started_at and not lodged.same_place:
            lodged.lost = await self._lost(known)

    async def _lost(self, known: Task) -> tuple[str, ...]:
        """The copies elsewhere with work of a task that nobody handed in."""
        cut = known.status is Status.INTERRUPTED or not known.status.ended
        if not cut or not isinstance(known.delivered.place, WorkerCopy):
            return ()
        told = whole_transcript(await self._store.events(known.id))
        found = await self._parcels.returned(known.id)
        return tuple(map(str, lost_copies(told, found[0] if found else None)))

    def _is_here(self, wanted: Wanted) -> bool:
        """Whether a folder is one of those this worker works in; links out of it do not count."""
        if self._house.folders == "away" or wanted.mark == COPIED:
            return False
        if wanted.parcel is not None and wanted.parcel.earlier:
            return False  # a copy belongs to the task that it was made for
        if wanted.tree and not (recorded(tree := Path(wanted.tree)) and tree.is_dir()):
            return False  # who shares a repository need not share its worktrees
        try:
            folder = Path(wanted.cwd).resolve(strict=True)
        except (OSError, ValueError):
            return False
        if not folder.is_dir() or not folder.is_relative_to(self._house.workspace.resolve()):
            return False
        return self._house.folders == "shared" or not wanted.mark or mark_of(folder) == wanted.mark
