"""What goes with a task to a worker that has not its folder, and what comes back with it."""

import asyncio
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct, field

from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.events import Event, MessageAdded, TaskCreated, TaskEnded
from gencode.core.messages import ToolMessage
from gencode.core.place import FolderCopy
from gencode.core.rules import Action
from gencode.core.spec import ForkPoint, Workspace
from gencode.core.status import Status
from gencode.core.structs import replace
from gencode.core.task import Task, fold
from gencode.journal.dispatch import TRAVELLING, Handover, SharedJournal
from gencode.journal.folder_snapshot import (
    COPIED,
    FolderSnapshot,
    MissingChanges,
    ReturnedChanges,
    as_reason,
    begins_behind,
    mark_of,
    repository_around,
)
from gencode.journal.store import Store
from gencode.permissions.chain import rebuilt
from gencode.permissions.paths import decide_path, resolve
from gencode.tasks.process_engine import WorkOrder

if TYPE_CHECKING:
    from gencode.workspaces.restore_worktree import LatestWork, LocalWork
    from gencode.workspaces.transfer.snapshot_builder import EnclosingCopy

log = logging.getLogger(__name__)

UNPACK_SECONDS = 900.0
"""The longest time that fetching the changes of one task may take."""
FORKS = {
    "work": "It begins in a copy of {cwd} as task {task} left it, with what that one changed.",
    "now": "It begins in a copy of {cwd} as it is now.",
}


class SharedStore(SharedJournal, Store, Protocol):
    """A journal that many workers share."""


class FleetOrder(WorkOrder, frozen=True):
    """The order for a task that a worker on any machine may take.

    `mark` tells the folder from another one at the same path, `snapshot` is how it is rebuilt, `alone` why it
    cannot be; then only a machine that has it runs the task. `tree` is the worktree that was packed. A
    resumed task had been taken this often before: `takes`.
    """

    mark: str = ""
    snapshot: FolderSnapshot | None = field(default=None, name="parcel")  # as it is stored
    alone: str = ""
    tree: str = ""
    takes: int = 0


def read_order(body: bytes) -> FleetOrder:
    """The order of a worker, decoded; UserMistake if it sets anything that it may not set."""
    try:
        order = msgspec.json.decode(body, type=FleetOrder)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UserMistake(f"its order cannot be read: {error}") from None
    if foreign := sorted({*order.flags} - TRAVELLING):
        raise UserMistake(f"its order sets what only a worker's own user may set: {', '.join(foreign)[:200]}")
    return order


class PackedFolder(Struct, frozen=True):
    """What a worker is told about a folder: its mark, and how to rebuild it, or why that is impossible.

    `told` is for the person who sends a fork with it. `tree` is a worktree in which the task continues where
    that exists, and the snapshot has its contents.
    """

    mark: str
    snapshot: FolderSnapshot | None = None
    alone: str = ""
    told: str = ""
    tree: str = ""


class WorkspaceTransfer:
    """Packs folders for tasks, and unpacks what they changed."""

    def __init__(self, store: SharedStore, home: Path) -> None:
        from gencode.workspaces.transfer.snapshot_builder import EnclosingCopy, SnapshotBuilder

        self._store = store
        self._home = home
        self._packers: dict[str, SnapshotBuilder] = {}
        self._copy: EnclosingCopy | None = None

    def enter_copy(self, copy: "EnclosingCopy") -> None:
        """On a worker: the folders are in this copy of another folder."""
        self._copy = copy

    async def pack(self, cwd: str, task: Task | None = None) -> PackedFolder:
        """Pack a folder for a task; one whose changes were not merged yet continues from them.

        A task that last worked in a worktree continues from its contents, with a note on changes that came
        back before and are not in it.
        """
        from gencode.workspaces.restore_worktree import find_latest_work, save_returned_work
        from gencode.workspaces.transfer.snapshot_builder import SnapshotBuilder

        mark, missing = mark_of(cwd), None
        apart = task is not None and (task.created.worktree or task.created.isolated)
        ground = await find_latest_work(self._store, task) if task and apart else None
        earlier = ground.back if ground else await self._store.snapshots.returned(task.id) if task else None
        try:
            if ground and mark and not ground.newest_returned and (begun := await self._pack_own(ground)):
                snapshot, own = begun
                possible, missing = await save_returned_work(ground, own, snapshot)
                if possible:
                    return PackedFolder(
                        mark, _lacking(snapshot, missing), tree=str(own.tree.path) if own.tree else ""
                    )
            if earlier is not None and not (earlier[0].taken and mark):
                return PackedFolder(mark, _lacking(_as_it_was(earlier[0]), missing))
            if not mark:
                return PackedFolder(mark, alone=f"{cwd} is not on the machine that sent it")
            made = SnapshotBuilder(Path(cwd), self._home, self._store.snapshots, self._copy)
            return PackedFolder(mark, await self._packers.setdefault(cwd, made).build())
        except UserMistake as mistake:
            if self._copy is not None:
                raise  # a copy is not shared, so nobody would ever release it
            log.info("%s goes only to workers that share it: %s", cwd, mistake)
            return PackedFolder(mark, alone=as_reason(str(mistake)))

    async def pack_for(self, handover: Handover, cwd: str) -> PackedFolder:
        """The folder for a task that is handed over."""
        created, fork = handover.created, handover.fork
        if created is not None and fork is not None:
            earlier = await (self._pack_fork if fork.away else self._pack_tree)(created, fork)
            if earlier is not None:
                return earlier
        task = await self._store.task(handover.task) if created is None else None
        packed = await self.pack(cwd, task)
        created = task.created if task is not None else created
        if created is not None and created.isolated:
            packed = _alone(packed, cwd)
        if fork is None or packed.snapshot is None:
            return packed
        snapshot = replace(packed.snapshot, fork="now")
        return replace(packed, snapshot=snapshot, told=FORKS["now"].format(cwd=cwd))

    async def _pack_fork(self, created: TaskCreated, fork: ForkPoint) -> PackedFolder | None:
        """The folder as another task was sent with it, with its work where that was so at that fact."""
        task, snapshots = created.forked, self._store.snapshots
        found = await snapshots.returned(task)
        events = await self._store.events(task)  # read last: what it does meanwhile is seen in them
        snapshot = await self._sent_with(task) or (found[0].snapshot if found else None)
        if snapshot is None:
            return None
        work = found[0] if found and not found[0].kept and ends_with(events, fork.at) else None
        if found and work is not None and not work.nothing:
            pack = f"s{work.commit}"
            await snapshots.keep(pack, found[1])
            packs = (*(each for each in snapshot.packs if each != f"s{snapshot.start}"), pack)
            snapshot = replace(
                snapshot, start=work.commit, start_head=work.head, start_left=work.left, packs=packs
            )
        return _begun(created, fork, snapshot, with_work=work is not None)

    async def _pack_tree(self, created: TaskCreated, fork: ForkPoint) -> PackedFolder | None:
        """The folder as another task began with it in a worktree, and its work there."""
        source = await self._store.task(created.forked)
        apart = source is not None and (source.created.worktree or source.created.isolated)
        if source is None or not apart or source.cwd != created.cwd:
            return None
        from gencode.workspaces.restore_worktree import find_latest_work

        ended = ends_with(await self._store.events(source.id), fork.at)
        begun = await self._pack_own(await find_latest_work(self._store, source), with_work=ended)
        return None if begun is None else _begun(created, fork, begun[0], with_work=ended)

    async def _pack_own(
        self, ground: "LatestWork", *, with_work: bool = True
    ) -> "tuple[FolderSnapshot, LocalWork] | None":
        """What is in the worktree of a task, and where that is; None where nothing is left of it.

        If it last worked in one on another machine, that is what is on its branch.
        """
        from gencode.workspaces.transfer.snapshot_builder import snapshot_branch, snapshot_worktree

        folder = Path(ground.task.cwd)
        around, snapshots = _around(folder), self._store.snapshots
        if around is None:
            return None
        own = ground.local_work(self._home, around)
        if own.tree is not None:
            snapshot = await snapshot_worktree(
                own.tree.path, folder, self._home, snapshots, with_work=with_work
            )
        else:
            snapshot = await snapshot_branch(own.branch, folder, self._home, snapshots, with_work=with_work)
        return None if snapshot is None else (snapshot, own)

    async def _sent_with(self, task: str) -> FolderSnapshot | None:
        """The folder of a task that has not ended, as it was sent with it."""
        given = await self._store.dispatched(task)
        return read_order(given.order).snapshot if given is not None and given.order is not None else None

    async def unpack(self, task: str, created: TaskCreated) -> None:
        """Fetch what a task changed into its parent's folder, if that is allowed; else report why."""
        try:
            async with asyncio.timeout(UNPACK_SECONDS):
                await self._brought(task, created)
        except (GenCodeError, OSError) as trouble:  # a TimeoutError is one of these
            from gencode.workspaces.transfer.apply_changes import record_failure

            why = _reason(trouble)
            log.warning("what task %s changed could not be brought home: %s", task, why)
            with suppress(GenCodeError):  # the database may be what is away
                await record_failure(self._store, task, why)

    async def _brought(self, task: str, created: TaskCreated) -> None:
        found = await self._store.snapshots.returned(task)
        now = await self._store.task(task)
        if found is None or found[0].taken or now is None or now.status is not Status.COMPLETED:
            return
        from gencode.workspaces.transfer.apply_changes import ChangeApplier, record_result

        applier = ChangeApplier(Path(created.cwd), self._store.snapshots)
        copied = self._copy.copied if self._copy else None
        arrived = await applier.apply(*found, lambda path: may_write(path, created, copied))
        if applier.is_news:
            await record_result(self._store, task, arrived)


def _around(folder: Path) -> Path | None:
    return repository_around(Path(os.path.realpath(folder)))


def _reason(trouble: Exception) -> str:
    if isinstance(trouble, TimeoutError):
        return f"it took longer than {UNPACK_SECONDS / 60:.0f} minutes"
    return trouble.strerror or str(trouble) if isinstance(trouble, OSError) else str(trouble)


def _begun(
    created: TaskCreated, fork: ForkPoint, snapshot: FolderSnapshot, *, with_work: bool
) -> PackedFolder:
    """What a fork gets that begins in a copy of its own, with the work of the task it copies or without."""
    if with_work:
        told = FORKS["work"].format(cwd=created.cwd, task=created.forked)
        return PackedFolder(COPIED, replace(snapshot, fork="work", missing=()), told=told)
    missing = MissingChanges("of_fork", created.cwd, task=created.forked, fact=fork.at)
    told = missing.user_note()
    snapshot = replace(snapshot, fork="sent", missing=(missing,))
    return PackedFolder(COPIED, snapshot, told=f"{told[:1].upper()}{told[1:]}.")


def _alone(packed: PackedFolder, cwd: str) -> PackedFolder:
    """The same for a task that works in a copy only; UserMistake where there can be none."""
    if packed.snapshot is None:
        raise UserMistake(
            f"An agent with the isolation worktree works in a copy on a worker, and no copy of {cwd} can be "
            f"made: {packed.alone}."
        )
    return replace(packed, mark=COPIED)


def ends_with(events: Sequence[Event], at: int) -> bool:
    """Whether the work of a task that has ended was at this fact as it is: it did nothing in between."""
    task = reduce(fold, events, None)
    if task is None or not task.status.ended:
        return False
    end = max((event.seq or 0 for event in events if isinstance(event.fact, TaskEnded)), default=0)
    between = (event.fact for event in events if min(at, end) < (event.seq or 0) <= max(at, end))
    said = (fact.message for fact in between if isinstance(fact, MessageAdded))
    return not any(isinstance(message, ToolMessage) for message in said)


def _as_it_was(work: ReturnedChanges) -> FolderSnapshot:
    """The folder as it was when a task was sent, and what is missing if the task left it otherwise."""
    return _lacking(work.snapshot, begins_behind(work, ""))


def _lacking(snapshot: FolderSnapshot, missing: MissingChanges | None) -> FolderSnapshot:
    if missing is None or missing in snapshot.missing:
        return snapshot
    return replace(snapshot, missing=(*snapshot.missing, missing))


def may_write(path: Path, created: TaskCreated, copied: FolderCopy | None = None) -> bool:
    """Whether the policies over a task let it write a file without asking.

    What they say about the folder that the task was sent from applies to its copy, too.
    """
    if not created.policies:
        return False
    cwd = Path(created.cwd)
    if copied is not None:
        copied = replace(copied, top=str(repository_around(cwd) or cwd))
    workspace = Workspace(cwd, cwd, Path.home(), copied).as_clone(created.clone)
    place = resolve(str(path), workspace)
    chain = rebuilt(created.policies, created.grant)
    decisions = (decide_path("Write", place, policy, workspace) for policy in chain)
    return all(decision.action is Action.ALLOW for decision in decisions)
