"""Where a worker runs a task: in its folder, if that is here, or in a copy of it that is made for it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gencode.core.changes import MOST_FILES, CopyChanges
from gencode.core.errors import GenCodeError, StoreTrouble
from gencode.core.messages import Message, UserMessage, place_message
from gencode.core.place import FolderCopy, WorkerCopy
from gencode.core.spec import Workspace
from gencode.core.status import Status
from gencode.core.structs import replace
from gencode.core.task import Task, whole_transcript
from gencode.journal.dispatch import NOT_HERE, MissingPart
from gencode.journal.folder_snapshot import (
    COPIED,
    FolderSnapshot,
    ReturnedChanges,
    SnapshotStore,
    as_reason,
    mark_of,
)
from gencode.journal.store import Store
from gencode.permissions.paths import is_inside
from gencode.sandbox.shells import SandboxMode
from gencode.tasks.task_folders import FolderSummary, TaskFolder
from gencode.workspaces.restore_worktree import LEFT
from gencode.workspaces.transfer.mirror import FolderUnavailable
from gencode.workspaces.transfer.worker_copy import IncomingTask, TaskWorktree, open_task_worktree
from gencode.workspaces.worktrees.worktree import read_record

log = logging.getLogger(__name__)

HERE = (
    "You work in a copy of {there} that was made for you with git, at {here} on {worker}. {names} "
    "Your changes, committed or not, are sent back when you finish. Files that git ignores or that look "
    "like keys are not sent back, and neither are other branches."
)
NAMES = "In tools and commands, paths that begin with {tops} mean the files of your copy."
NAMES_OF_TOOLS = (
    "In file tools, paths that begin with {tops} mean the files of your copy; commands accept {commands}, so "
    "use the paths of the copy there."
)
ALONE = " It has one commit with everything as it was when you were started; the earlier history is missing."
FORKED = {
    "": "",
    "work": " It contains the file changes you had made until then.",
    "sent": " It is as that folder was when you were first started: your file changes are not in it, so "
    "check before you rely on them.",
    "now": " It is as that folder is now, which may differ from what you knew.",
}
ANEW = (
    "You continue on another machine. Your folder is now {here} on {worker}, made again from git as it was "
    "when you were started: your earlier file changes are not in it, so check before you rely on them. "
    "{names}"
)
MOVED = (
    "You continue on another machine. Your folder is now {here} on {worker}, with your earlier file changes. "
    "{names}"
)
LOST = (
    "it started in the copy {copy}, and that worker was lost: its changes exist only there; run gen doctor "
    "on that machine to list them"
)


def told_copies(messages: Iterable[Message]) -> list[WorkerCopy]:
    """The copies that an agent was told it works in, the latest last."""
    notices = [each.notice for each in messages if isinstance(each, UserMessage) and each.notice]
    return [each.place for each in notices if isinstance(each.place, WorkerCopy) and each.place.path]


def lost_copies(messages: Iterable[Message], returned: ReturnedChanges | None) -> list[WorkerCopy]:
    """The copies from which nothing was handed in, of a task that did not end: their workers were lost."""
    copies = told_copies(messages)
    handed = [at for at, copy in enumerate(copies) if returned and copy.worker == returned.worker]
    return copies[handed[-1] + 1 :] if handed else copies


class CopiedTaskFolder(TaskFolder):
    """The lodging of one task. `owner` is who runs it, `worker` the machine as people know it."""

    shared = False

    def __init__(self, worktree: TaskWorktree, snapshots: SnapshotStore, worker: str, home: Path) -> None:
        super().__init__(worktree.tree)
        self._home = home
        self._worktree = worktree
        self._snapshots = snapshots
        self._worker = worker
        self._owner = ""
        self._lost: tuple[str, ...] = ()
        self._found_at: tuple[str, ...] = ()
        self._over = False
        """Whether work here is over: its changes are handed in, or another worker may own the task."""

    @classmethod
    async def prepare(
        cls, guest: IncomingTask, snapshots: SnapshotStore, home: Path, worker: str
    ) -> "CopiedTaskFolder":
        """Make the copy, and trust in it what its sender trusts."""
        worktree = await open_task_worktree(guest, snapshots, home)
        worktree.trust(home)
        return cls(worktree, snapshots, worker, home)

    async def find_aliases(self, walls: SandboxMode) -> None:
        """Find out whether commands here can use the names of the sender; where there are no walls, not."""
        from gencode.sandbox.choose_sandbox import best_sandbox
        from gencode.sandbox.folder_aliases import working_aliases

        if walls != "off":
            sandbox = await asyncio.to_thread(best_sandbox)
            names = [each.folder for each in self.copied.originals]
            self._found_at = await asyncio.to_thread(
                working_aliases, self._tree.path, names, self._home, sandbox
            )

    def run_by(self, owner: str) -> None:
        """Who runs the task from now on."""
        self._owner = owner

    def note_lost(self, copies: Iterable[str]) -> None:
        """Note the copies elsewhere in which the task worked, and from which nothing came."""
        self._lost = tuple(copies)

    @property
    def snapshot(self) -> FolderSnapshot:
        """The folder as it was sent."""
        return self._worktree.guest.snapshot

    @property
    def workspace(self) -> Workspace:
        """Where the agent works: what names and rules say about the original applies to the copy."""
        return replace(self._worktree.tree.workspace, copied=self.copied)

    @property
    def copied(self) -> FolderCopy:
        """What the copy is a copy of."""
        copy, folder = self.moved
        own = str(self._home)
        keeps = (copy,) if is_inside(folder, own) else (copy, own)
        snapshot = self._worktree.guest.snapshot
        return FolderCopy(copy, folder, snapshot.home, keeps, snapshot.earlier, self._found_at)

    @property
    def moved(self) -> tuple[str, str]:
        """The copy, and the checkout of the sender that it is a copy of."""
        below = Path(self._worktree.guest.snapshot.below)
        there = Path(self._worktree.guest.cwd)
        return str(self._tree.path), str(there.parents[len(below.parts) - 1] if below.parts else there)

    def introduction(self) -> list[UserMessage]:
        """What an agent should know about its folder before it begins."""
        snapshot = self._worktree.guest.snapshot
        history = "" if snapshot.head else ALONE
        forked = FORKED[snapshot.fork] + (LEFT if snapshot.start_left else "") + history
        told = f"{self._said(HERE)}{forked.format(left=snapshot.start_left)}"
        return [place_message(told, self._place)]

    def change_notice(self) -> list[UserMessage]:
        """What an agent should know before it continues in a folder that it has not worked in before."""
        return [] if self.same_place else [place_message(self._moved(), self._place)]

    @property
    def _place(self) -> WorkerCopy:
        return WorkerCopy(str(self._worktree.cwd), self._worker)

    def _moved(self) -> str:
        own = self.snapshot.start and not self.snapshot.fork
        told = self._said(MOVED if own or not self._worktree.fresh else ANEW)
        told = " ".join(filter(None, (told, *(each.agent_note() for each in self.snapshot.missing))))
        return told + LEFT.format(left=self._worktree.left) if self._worktree.left else told

    @property
    def same_place(self) -> bool:
        """Whether the agent has been exactly here before."""
        return self._worktree.kept

    async def summary(self) -> FolderSummary:
        """What the agent changed, handed in, and how that can be taken over."""
        if self._over:
            return FolderSummary()
        try:
            changes, notes = await self._handed_in()
        except GenCodeError as trouble:
            await self._worktree.record_folder(
                self._snapshots, self._owner, self._worker, as_reason(str(trouble))
            )
            changes, notes = None, [f"its folder {self.path} on {self._worker} was kept: {trouble}"]
        snapshot = self._worktree.guest.snapshot
        sent = (*snapshot.notes, *(each.user_note() for each in snapshot.missing))
        lost = [LOST.format(copy=copy) for copy in self._lost]
        return FolderSummary(changes, (*sent, *lost, *notes))

    async def hand_over(self) -> None:
        """Hand in the changes for the next owner of the task; what cannot be handed in stays."""
        try:
            await self._handed_in()
        except GenCodeError as trouble:
            log.warning("what was changed in %s is only there: %s", self.path, trouble)

    def abandon(self) -> None:
        """Leave everything as it is: another worker may own the task by now."""
        self._over = True

    async def leave(self, home: Path) -> None:
        """Let go of the place; a copy in which nothing was done is removed."""
        try:
            if not self._over:
                await self._worktree.remove_if_unused()
        except GenCodeError as trouble:
            log.info("%s could not be removed: %s", self.path, trouble)
        finally:
            self._worktree.release(home)

    async def _handed_in(self) -> tuple[CopyChanges | None, list[str]]:
        self._over = True
        work, why_not = await self._worktree.hand_in(self._snapshots, self._owner, self._worker)
        guest = self._worktree.guest
        notes = [*self._tree.notes, *work.notes]
        if not work.kept:
            return None, list(self._tree.notes)
        start, fork = guest.snapshot.start, bool(guest.snapshot.fork)
        state = "kept" if why_not else "handed_in"
        changes = CopyChanges(
            state,
            guest.task,
            guest.cwd,
            self._worker,
            self.path,
            fork=fork,
            both=bool(start) and fork,
            left=work.left,
        )
        if work.commit in (self._tree.base, start):
            return replace(changes, state="empty" if work.commit == self._tree.base else "no_more"), notes
        files, more = work.files[:MOST_FILES], max(0, len(work.files) - MOST_FILES) + work.more_files
        return replace(changes, files=files, more_files=more, why=why_not, diff=work.diff), notes

    def _said(self, words: str) -> str:
        there, here = self._worktree.guest.cwd, self._worktree.cwd
        tops = [each.folder for each in self.copied.originals]
        commands = f"only {_listed(self._found_at)}" if self._found_at else "none of them"
        told = NAMES if len(self._found_at) == len(tops) else NAMES_OF_TOOLS
        names = told.format(tops=_listed(tops), commands=commands)
        return words.format(there=there, here=here, worker=self._worker, names=names)


def _listed(folders: Sequence[str]) -> str:
    return " or ".join(f"{folder.rstrip('/')}/" for folder in folders)


FolderMode = Literal["auto", "shared", "away"]
"""Which folders a worker uses as they are: those it really shares, those at the same place, or none."""


class FolderRequest(Struct, frozen=True):
    """The folder of a task: where it is, its mark, and how it is rebuilt, or why it cannot be.

    With a `tree` the task works in that worktree of the folder, and the folder is rebuilt with its contents.
    """

    task: str
    cwd: str
    mark: str = ""
    snapshot: FolderSnapshot | None = None
    alone: str = ""
    tree: str = ""


class WorkerSettings(Struct, frozen=True):
    """A worker's own: its name, the folder that it may work in, that of GenCode, and its walls."""

    worker: str
    workspace: Path
    home: Path
    folders: FolderMode = "auto"
    walls: SandboxMode = "auto"


class WorkerCopies:
    """The copies of folders that are in use on one worker."""

    def __init__(self, store: Store, snapshots: SnapshotStore, settings: WorkerSettings) -> None:
        self._store = store
        self._snapshots = snapshots
        self._settings = settings
        self._open: dict[str, CopiedTaskFolder] = {}

    @asynccontextmanager
    async def folder_for(self, wanted: FolderRequest) -> AsyncGenerator[CopiedTaskFolder | None]:
        """A copy of the folder of a task, for as long as it is needed; None where the folder itself is here.

        Unreachable when there is neither, here and now.
        """
        if self._is_here(wanted):
            yield None
            return
        copy = await self._prepared(wanted)
        self._open[wanted.task] = copy
        try:
            await self._look_back(copy, wanted.task)
            yield copy
        finally:
            self._open.pop(wanted.task, None)
            await copy.leave(self._settings.home)

    def abandon(self) -> list[CopiedTaskFolder]:
        """Leave everything as it is, because others may have the tasks by now; what is left."""
        for copy in self._open.values():
            copy.abandon()
        return list(self._open.values())

    async def _prepared(self, wanted: FolderRequest) -> CopiedTaskFolder:
        task = wanted.task
        shared = self._settings.folders == "shared" and wanted.mark != COPIED and not wanted.tree
        if wanted.snapshot is None or shared:
            missing = FolderUnavailable(NOT_HERE, MissingPart.FOLDER)
            if task:
                await self._hinder(task, missing)
            raise missing
        guest = IncomingTask(task, wanted.cwd, wanted.snapshot)
        try:
            copy = await CopiedTaskFolder.prepare(
                guest, self._snapshots, self._settings.home, self._settings.worker
            )
            await copy.find_aliases(self._settings.walls)
        except FolderUnavailable as why:
            log.warning("the folder of task %s cannot be had here: %s", task, why)
            await self._hinder(task, why)
            raise
        return copy

    async def _hinder(self, task: str, why: FolderUnavailable) -> None:
        with suppress(StoreTrouble):
            await self._snapshots.report_problem(task, self._settings.worker, str(why), why.lacks)

    async def _look_back(self, copy: CopiedTaskFolder, task: str) -> None:
        """Note what an agent that began elsewhere leaves behind there."""
        known = await self._store.task(task)
        if known is not None and known.run.started_at and not copy.same_place:
            copy.note_lost(await self._lost(known))

    async def _lost(self, known: Task) -> tuple[str, ...]:
        """Copies on other workers that hold changes of a task which were not handed in."""
        cut = known.status is Status.INTERRUPTED or not known.status.ended
        if not cut or not isinstance(known.delivered.place, WorkerCopy):
            return ()
        told = whole_transcript(await self._store.events(known.id))
        found = await self._snapshots.returned(known.id)
        return tuple(map(str, lost_copies(told, found[0] if found else None)))

    def _is_here(self, wanted: FolderRequest) -> bool:
        """Whether a folder is one of those this worker works in; links out of it are not followed."""
        if self._settings.folders == "away" or wanted.mark == COPIED:
            return False
        if wanted.snapshot is not None and wanted.snapshot.earlier:
            return False  # a copy belongs to the task that it was made for
        if wanted.tree and not (read_record(tree := Path(wanted.tree)) and tree.is_dir()):
            return False  # who shares a repository need not share its worktrees
        try:
            folder = Path(wanted.cwd).resolve(strict=True)
        except (OSError, ValueError):
            return False
        if not folder.is_dir() or not folder.is_relative_to(self._settings.workspace.resolve()):
            return False
        return self._settings.folders == "shared" or not wanted.mark or mark_of(folder) == wanted.mark
