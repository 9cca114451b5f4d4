"""away: where the newest work of a task is: in a worktree here, on a branch, or come back from a worker.

The place that its agent was last told says which of them it is.
"""

from pathlib import Path

from msgspec import Struct

from gencode.core.errors import GenCodeError
from gencode.core.place import WorkerCopy, WorktreePlace
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
from gencode.workspaces.transfer.apply_changes import Homecoming
from gencode.workspaces.transfer.checkout import checkout_at
from gencode.workspaces.worktrees.agent_work import state_of
from gencode.workspaces.worktrees.merge_preview import is_merged
from gencode.workspaces.worktrees.worktree import BRANCHES, Worktree, tree_here, tree_name


class Own(Struct, frozen=True):
    """The worktree here that has the newest work of a task, or only the branch that has it."""

    branch: str
    tree: Worktree | None = None


class Ground(Struct, frozen=True):
    """A task, whether it last worked on a worker, or else the branch that it last worked on, and what came
    back of its work, then or before.
    """

    task: Task
    away: bool = False
    branch: str = ""
    back: tuple[ReturnedChanges, bytes] | None = None
    parcels: SnapshotStore | None = None

    @property
    def name(self) -> str:
        """What its worktree is called."""
        return tree_name(self.task.id, self.task.created.worktree)

    @property
    def newest_back(self) -> tuple[ReturnedChanges, bytes] | None:
        """What came back of it, where that is its newest work."""
        return self.back if self.away and self.back is not None and not self.back[0].nothing else None

    def here(self, home: Path, top: Path | None) -> Worktree | None:
        """Its worktree on this machine, if there is one."""
        return tree_here(home, top, self.name, self.task.created.worktree, self.branch)

    def own(self, home: Path, top: Path | None) -> Own:
        """What it did last outside of workers."""
        tree = self.here(home, top)
        if tree is not None and self.branch in ("", tree.branch):
            return Own(tree.branch, tree)
        return Own(self.branch or f"{BRANCHES}{self.name}")


async def ground_of(store: Store, task: Task) -> Ground:
    """What is known of a task."""
    away, branch = isinstance(task.delivered.place, WorkerCopy), _last_branch(task)
    if not isinstance(store, SharedJournal):
        return Ground(task, away, branch)
    return Ground(task, away, branch, await store.parcels.returned(task.id), store.parcels)


def _last_branch(task: Task) -> str:
    """The branch that a task last worked on in a worktree of its own, here or on another machine."""
    own = f"{BRANCHES}{tree_name(task.id, task.created.worktree)}"
    place = task.delivered.place
    return place.branch if isinstance(place, WorktreePlace) and place.branch.startswith(own) else ""


async def set_aside(ground: Ground, own: Own, parcel: FolderSnapshot) -> tuple[bool, MissingChanges | None]:
    """Whether a task can be sent with its own work, as a parcel, and what is missing in that.

    What came back before and nobody took over is replaced by what comes back next. So it is put on a branch
    first, where it is not all in what is sent. Where that fails, or the very same was sent before, the task
    goes on from what came back instead.
    """
    if ground.back is None or ground.parcels is None or ground.back[0].taken or ground.back[0].nothing:
        return True, None
    work, folder = ground.back[0], Path(ground.task.cwd)
    if (work.parcel.tip, work.parcel.start) == (parcel.tip, parcel.start):
        return False, None
    home = Homecoming(folder, ground.parcels)
    try:
        await home.take_in(*ground.back)
        checkout = await checkout_at(folder)
        git, ref = checkout.git, f"refs/heads/{own.branch}^{{commit}}"
        state = await (state_of(own.tree) if own.tree else git.tell("rev-parse", "--verify", "--quiet", ref))
        if await is_merged(git, state, work.commit):
            return True, None
        branch = await home.put_on_branch(*ground.back)
    except GenCodeError as why:
        reason = as_reason(str(why))
        return False, MissingChanges("in_worktree", worker=work.worker, branch=own.branch, why=reason)
    return True, MissingChanges("on_branch", worker=work.worker, branch=branch, top=str(checkout.top))
