"""Where a task works, as its agent was last told."""

from msgspec import Struct


class FolderPlace(Struct, frozen=True, gc=False, tag="folder"):
    """The folder it belongs to, after it had worked elsewhere."""

    path: str


class WorktreePlace(Struct, frozen=True, gc=False, tag="worktree"):
    """A folder in a git worktree of its own, which is on a branch."""

    path: str
    branch: str


class WorkerCopy(Struct, frozen=True, gc=False, tag="copy", omit_defaults=True):
    """A copy of its folder that was made on a worker; version 0.1 did not always say where."""

    path: str = ""
    worker: str = ""

    def __str__(self) -> str:
        return f"{self.path} on {self.worker}"


class ClonePlace(Struct, frozen=True, gc=False, tag="clone"):
    """A clone, at `path`, of the repository that the folder `of` is."""

    path: str
    of: str


TaskPlace = FolderPlace | WorktreePlace | WorkerCopy | ClonePlace
