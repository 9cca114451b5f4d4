"""Where a task works, and which folder of another machine a folder here is a copy or clone of."""

from msgspec import Struct

from gencode.core.structs import replace


class FolderPlace(Struct, frozen=True, gc=False, tag="folder"):
    """The folder the task belongs to, after it worked elsewhere."""

    path: str


class WorktreePlace(Struct, frozen=True, gc=False, tag="worktree"):
    """A folder in a git worktree with its own branch."""

    path: str
    branch: str


class WorkerCopy(Struct, frozen=True, gc=False, tag="copy", omit_defaults=True):
    """A copy of the folder on a worker; version 0.1 did not always record where."""

    path: str = ""
    worker: str = ""

    def __str__(self) -> str:
        return f"{self.path} on {self.worker}"


class ClonePlace(Struct, frozen=True, gc=False, tag="clone"):
    """A clone, at `path`, of the repository of the folder `of`."""

    path: str
    of: str


TaskPlace = FolderPlace | WorktreePlace | WorkerCopy | ClonePlace


class CopiedFolder(Struct, frozen=True):
    """A folder on another machine, whose user's home is `home`."""

    folder: str
    home: str = ""


class FolderCopy(Struct, frozen=True):
    """Says that the folder `top` here is a copy of the folder `of` on another machine, whose user's home is
    `home`.

    Paths below `of` mean files of the copy, except below the folders in `keeps`; so do paths below the
    `earlier` ones, which `of` was itself a copy of. `found_at` are those of these folders at which commands
    see the copy, too.
    """

    top: str
    of: str
    home: str = ""
    keeps: tuple[str, ...] = ()
    earlier: tuple[CopiedFolder, ...] = ()
    found_at: tuple[str, ...] = ()
    narrows: bool = False
    """Whether only ask and deny rules apply to the copy: it is a clone, which may be anybody's."""
    cloned: tuple[CopiedFolder, ...] = ()
    """Further folders that it is a copy of, because one of the others is a clone of them."""

    @property
    def originals(self) -> tuple[CopiedFolder, ...]:
        """Every folder that this is a copy of, the nearest first."""
        return (CopiedFolder(self.of, self.home), *self.earlier, *self.cloned)

    @property
    def narrowing(self) -> tuple[CopiedFolder, ...]:
        """The last ones of these, to which only ask and deny rules apply."""
        return self.originals if self.narrows else self.cloned

    @property
    def clone(self) -> "FolderCopy | None":
        """What it is a clone of, recorded in tasks that begin here; None if it is only a copy."""
        if not self.narrowing:
            return None
        first, *more = self.narrowing
        return FolderCopy(self.top, first.folder, first.home, self.keeps, tuple(more), narrows=True)

    def with_clone(self, clone: "FolderCopy") -> "FolderCopy":
        """The same copy for a task that began in a clone: what was denied there is denied here."""
        further = tuple(each for each in clone.originals if each not in self.originals)
        return replace(self, cloned=(*self.cloned, *further))
