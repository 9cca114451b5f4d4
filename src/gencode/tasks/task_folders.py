"""The worktree or copy of one agent: created before it starts, and summarized when it has ended.

The code that creates worktrees is loaded with the first one.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.core.changes import (
    MOST_FILES,
    Changes,
    WorktreeChanges,
)
from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.events import TaskCreated
from gencode.core.ids import new_id
from gencode.core.messages import UserMessage, place_message
from gencode.core.place import ClonePlace, FolderPlace, TaskPlace, WorkerCopy, WorktreePlace
from gencode.core.spec import AgentSpec, Workspace
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.journal.store import Store

if TYPE_CHECKING:
    from gencode.workspaces.restore_worktree import WorktreeNotice
    from gencode.workspaces.worktrees.agent_work import WorktreeResult
    from gencode.workspaces.worktrees.worktree import Worktree

NO_HOME = "There is no folder in which GenCode could create a worktree; leave isolation out."
THERE = (
    "You work in a git worktree of your own, {cwd}, on the branch {branch}, which was created from {begun}. "
    "What you change in it, committed or not, is on that branch only until somebody merges it. You need not "
    "commit: that is done when you end, and a sandbox may prevent it before."
)
_PLACES: dict[type, str] = {WorktreePlace: "worktree", WorkerCopy: "copy", ClonePlace: "clone"}


class FolderSummary(Struct, frozen=True):
    """The changes in a worktree or a copy when its agent ends, with warnings."""

    changes: Changes | None = None
    notes: tuple[str, ...] = ()


class TaskFolder:
    """The worktree of one agent, `fresh` if just made; `anew` is the notice if it is not its earlier one."""

    shared = True
    """Whether subagents of this agent may work in it as well, even after this one has ended."""

    def __init__(
        self, tree: "Worktree", *, fresh: bool = False, anew: "WorktreeNotice | None" = None
    ) -> None:
        self._tree = tree
        self._fresh = fresh
        self._anew = anew

    @property
    def workspace(self) -> Workspace:
        """Where the agent works."""
        return self._tree.workspace

    @property
    def path(self) -> str:
        """The folder of the whole worktree."""
        return str(self._tree.path)

    @property
    def named(self) -> str:
        """The id that its task should have: its branch and folder have the same name."""
        return self._tree.name

    def introduction(self) -> list[UserMessage]:
        """The messages about its folder for an agent that begins."""
        from gencode.workspaces.restore_worktree import LAST

        tree = self._tree
        begun = tree.begun or LAST.format(repository=tree.repository)
        text = THERE.format(cwd=tree.workspace.cwd, branch=tree.branch, begun=begun)
        return [place_message(text, self._place)]

    def change_notice(self) -> list[UserMessage]:
        """The notice for a resumed agent that is not in the worktree it had."""
        return [place_message(self._anew.agent, self._place)] if self._anew else []

    @property
    def _place(self) -> TaskPlace:
        return WorktreePlace(str(self._tree.workspace.cwd), self._tree.branch)

    @property
    def notice(self) -> str:
        """A note for the person when the agent begins; usually empty."""
        tree = self._tree
        if self._anew:
            return self._anew.person
        if self._fresh and tree.begun:
            return f"It works in a git worktree of its own, {tree.path}, made from {tree.begun}."
        return ""

    async def discard(self) -> None:
        """Remove it, if it was made for an agent that did not begin after all."""
        from gencode.workspaces.worktrees.agent_work import commit_work

        if self._fresh:
            with suppress(GenCodeError):
                await commit_work(self._tree)

    async def summary(self) -> FolderSummary:
        """The changes of the agent, committed on its branch, and how to merge them."""
        from gencode.workspaces.worktrees.agent_work import commit_work

        try:
            work = await commit_work(self._tree)
        except GenCodeError as trouble:
            return FolderSummary(notes=(f"its worktree {self.path} is kept as it is: {trouble}",))
        return FolderSummary(worktree_changes(self._tree, work), (*self._tree.notes, *work.notes))


class TaskFolders:
    """Makes worktrees below the folder `home`, for tasks of a store."""

    def __init__(self, home: Path | None, store: Store) -> None:
        self.home = home
        self._store = store
        self.prepared: dict[str, TaskFolder] = {}
        """The folders prepared for tasks that are about to begin here."""

    def prepare(self, task: str, folder: TaskFolder) -> None:
        """Register a folder that was made for a task that is about to begin here."""
        self.prepared[task] = folder

    async def create(self, workspace: Workspace, source: Task | None = None) -> TaskFolder:
        """A worktree for a new agent, with the id of its future task as its name; UserMistake if there can be
        none.

        The worktree of a fork begins with the changes of the `source`, if they are known.
        """
        from gencode.workspaces.worktrees.create import create_worktree

        if self.home is None:
            raise UserMistake(NO_HOME)
        name = new_id()
        while await self._store.ids(name):
            name = new_id()
        if source is None:
            return TaskFolder(await create_worktree(workspace, self.home, name), fresh=True)
        from gencode.workspaces.restore_worktree import find_latest_work, fork_worktree

        ground = await find_latest_work(self._store, source)
        return TaskFolder(await fork_worktree(ground, workspace, self.home, name), fresh=True)

    @asynccontextmanager
    async def for_other_process(
        self,
        created: TaskCreated,
        workspace: Workspace,
        source: Task | None = None,
        *,
        wanted: bool,
        far: bool,
    ) -> AsyncGenerator[tuple[TaskCreated, str]]:
        """The first event of a task for another process, with a worktree if one is `wanted`; and the note
        about it.

        A process that may be on another machine (`far`) makes a copy itself.
        """
        if far or not wanted:
            yield replace(created, isolated=wanted), ""
            return
        workplace = await self.create(workspace, source)
        async with discarded_unless_begun(workplace):
            yield replace(created, worktree=workplace.path), workplace.notice

    def received(self, created: TaskCreated, task: str) -> TaskFolder | None:
        """The worktree that another process has made for a task that begins here, if there is one."""
        if task or not created.worktree:
            return self.prepared.get(task)
        from gencode.workspaces.worktrees.worktree import existing_worktree

        tree = existing_worktree(Path(created.worktree))
        if tree is None:
            raise UserMistake(f"The worktree {created.worktree} that was made for the task is gone.")
        return TaskFolder(tree)

    @asynccontextmanager
    async def locked(self, task: Task) -> AsyncGenerator[None]:
        """Lock the worktree of a task that is about to be resumed, so that nobody removes it."""
        from gencode.workspaces.worktrees.worktree import enclosing_worktree, worktree_lock

        folder = task.created.worktree or task.cwd
        path = enclosing_worktree(Path(folder)) if folder else None
        if path is None:
            yield
            return
        async with worktree_lock(path) as tree:
            if tree is None and not task.created.worktree:
                raise UserMistake(f"The folder {task.cwd} of task {task.id} was a worktree, and is gone.")
            yield

    async def restored(self, task: Task, workspace: Workspace) -> TaskFolder | None:
        """The worktree of a resumed task, if it has one, with its latest changes as far as they are known.

        If it is gone, it is made again.
        """
        if task.id in self.prepared or not has_own_folder(task):
            return self.prepared.get(task.id)
        if self.home is None:
            raise UserMistake(NO_HOME)
        from gencode.workspaces.restore_worktree import find_latest_work, restore_worktree

        found = await restore_worktree(await find_latest_work(self._store, task), workspace, self.home)
        return TaskFolder(found.tree, fresh=found.fresh, anew=found.notice)


@asynccontextmanager
async def discarded_unless_begun(workplace: TaskFolder) -> AsyncGenerator[None]:
    """Removes a worktree made for an agent if the agent does not begin inside this block."""
    begun = False
    try:
        yield
        begun = True
    finally:
        if not begun:
            await workplace.discard()


def in_worktree(spec: AgentSpec, asked: str, source: Task | None = None) -> bool:
    """Whether an agent gets a worktree: by request, by its file, or because its original had one."""
    return (asked or spec.isolation) == "worktree" or (source is not None and has_own_folder(source))


def has_own_folder(task: Task) -> bool:
    """Whether a task works in its own worktree or copy, wherever it runs."""
    return bool(task.created.worktree) or task.created.isolated


def worktree_changes(tree: "Worktree", work: "WorktreeResult") -> WorktreeChanges:
    """The changes of the agents in a worktree."""
    if not work.kept:
        return WorktreeChanges("removed")
    where = WorktreeChanges("open", tree.branch, str(tree.path), str(tree.repository))
    if work.commit == tree.base:
        return replace(where, state="empty", notes=work.notes)
    return replace(
        where,
        state="merged" if work.merged else "open",
        after=tree.after,
        files=work.files[:MOST_FILES],
        more_files=max(0, len(work.files) - MOST_FILES) + work.more_files,
        diff=work.diff,
        merges=work.merges,
        conflicts=work.conflicts,
        overlaps=work.overlaps,
        blocked=work.blocked,
        commands=work.how,
    )


def place_notice(earlier: TaskPlace | None, here: Workspace) -> list[UserMessage]:
    """The notice for an agent that worked in a copy or a worktree and is resumed in the original folder."""
    if here.copied is not None or earlier is None or isinstance(earlier, FolderPlace):
        return []
    where = _PLACES[type(earlier)]
    text = (
        f"You are back in the original folder, {here.cwd}. What you changed in your {where} is in it only if "
        "somebody applied it, so check."
    )
    return [place_message(text, FolderPlace(str(here.cwd)))]
