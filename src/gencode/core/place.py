"""Where a task works, and the folder on another machine that a folder here is a copy or clone of."""

from msgspec import Struct
from msgspec.structs import replace


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


class CopiedFolder(Struct, frozen=True):
    """A folder on another machine, whose user lives at `home` there."""

    folder: str
    home: str = ""


class FolderCopy(Struct, frozen=True):
    """That the folder `top` here is a copy of the folder `of` on another machine, whose user lives at `home`.

    Names below `of` mean files of the copy, but for what is below one of the folders in `keeps`. So do names
    below the `earlier` ones, which `of` was a copy of in its turn. `found_at` are those of these folders that
    are the copy for commands, too.
    """

    top: str
    of: str
    home: str = ""
    keeps: tuple[str, ...] = ()
    earlier: tuple[CopiedFolder, ...] = ()
    found_at: tuple[str, ...] = ()
    narrows: bool = False
    """Whether only rules that ask or refuse count for the copy: it is a clone, which may be anybody's."""
    cloned: tuple[CopiedFolder, ...] = ()
    """Further folders that it is a copy of, because one of the others is a clone of them."""

    @property
    def originals(self) -> tuple[CopiedFolder, ...]:
        """Every folder that this is a copy of, the nearest first."""
        return (CopiedFolder(self.of, self.home), *self.earlier, *self.cloned)

    @property
    def narrowing(self) -> tuple[CopiedFolder, ...]:
        """The last ones of these, about which only rules that ask or refuse count."""
        return self.originals if self.narrows else self.cloned

    @property
    def clone(self) -> "FolderCopy | None":
        """What it is a clone of, to be remembered by tasks that begin here; None where it is only a copy."""
        if not self.narrowing:
            return None
        first, *more = self.narrowing
        return FolderCopy(self.top, first.folder, first.home, self.keeps, tuple(more), narrows=True)

    def with_clone(self, clone: "FolderCopy") -> "FolderCopy":
        """The same copy for a task that began in a clone: what was refused there still is."""
        further = tuple(each for each in clone.originals if each not in self.originals)
        return replace(self, cloned=(*self.cloned, *further))
