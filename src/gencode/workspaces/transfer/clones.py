"""away: whether a checkout is a clone of the repository that a task belongs to.

Only commits tell that: anybody can name any remote. They tell nothing else, since whoever has a clone can put
anything into it: nothing that is trusted or allowed in one folder counts in the other.
"""

from pathlib import Path

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.place import FolderCopy
from gencode.journal.folder_snapshot import MOST_COMMITS, FolderSnapshot, safe_remote
from gencode.workspaces.transfer.checkout import Checkout, checkout_at, has, key_at
from gencode.workspaces.worktrees.git import Git

_MOST_ROOTS = 64 * 1024


class NoClone(UserMistake):
    """Why a folder does not count as a clone; nothing is said of one that has nothing to do with it."""


class Clone(Struct, frozen=True):
    """A checkout here and the one that a task belongs to, whose user lives at `home`."""

    top: Path
    of: str
    home: str = ""

    def copied(self, own: Path | None) -> FolderCopy:
        """What that means for names and rules; `own` is GenCode's folder, whose names mean what they say."""
        keeps = (str(self.top), *([str(own)] if own else []))
        return FolderCopy(str(self.top), self.of, self.home, keeps, narrows=True)


async def clone_at(cwd: Path, folder: str, parcel: FolderSnapshot | None) -> Clone:
    """The folder of a task in a clone, where that is the same place of it; NoClone otherwise.

    By its `parcel` it is known at which commit the task was sent, which the clone has to have. Otherwise its
    folder must be on this machine, and both must begin with the same commits.
    """
    try:
        here = await checkout_at(cwd)
        if parcel is not None:
            await must_have(here, parcel)
            below = Path(parcel.below)
        else:
            below = await _same_history(here, Path(folder))
    except NoClone:
        raise
    except UserMistake:  # no repository, no git
        raise NoClone("") from None
    if here.cwd.relative_to(here.top) != below:
        raise NoClone(f"In this clone, its folder is {here.top / below}: go on there.")
    there = Path(folder)
    top = there.parents[len(below.parts) - 1] if below.parts else there
    return Clone(here.top, str(top), parcel.home if parcel is not None else str(Path.home()))


async def must_have(here: Checkout, parcel: FolderSnapshot) -> None:
    """NoClone where the commit at which a task was sent is in no branch of a checkout."""
    if not parcel.head:
        raise NoClone(
            "Its history did not go with it, so no other folder can be told for a clone of its own."
        )
    if not await _is_in_history(here.git, parcel.head):
        raise NoClone(
            f"{here.top} does not have the commit {parcel.head[:12]}, at which it was sent; if this is a "
            "clone, fetch it."
        )


async def must_fit(here: Checkout, parcel: FolderSnapshot, *, own: bool) -> None:
    """NoClone where the work of a task has no business: neither in its own repository nor in a clone.

    `own`: the checkout is where the task was sent from. Another machine may have another repository there,
    and a commit that was amended since is in no branch of its own.
    """
    if own and parcel.head and await has(here.git, parcel.head):
        return
    if own and not parcel.head and parcel.key in await _keys(here):
        return
    await must_have(here, parcel)


async def _keys(here: Checkout) -> set[str]:
    """The names by which what is sent of a checkout may be known."""
    remotes = (await here.git.tell("remote")).splitlines()[:MOST_COMMITS]
    addresses = [safe_remote(await here.git.tell("remote", "get-url", name)) for name in remotes]
    return {key_at(here), *(key_at(here, address) for address in addresses)}


async def _is_in_history(git: Git, commit: str) -> bool:
    if not await has(git, commit):
        return False
    if (await git.run("merge-base", "--is-ancestor", commit, "HEAD")).ok:
        return True
    return bool(await git.tell("for-each-ref", "--count=1", f"--contains={commit}", "--format=%(refname)"))


async def _same_history(here: Checkout, folder: Path) -> Path:
    """The place of a folder of this machine in its checkout, if that begins as another one does."""
    there = await checkout_at(folder)
    roots = await _roots(there.git)
    if not roots or roots != await _roots(here.git):
        raise NoClone(
            f"{here.top} does not begin with the same commits as {there.top}, so it is no clone of it."
        )
    return there.cwd.relative_to(there.top)


async def _roots(git: Git) -> frozenset[str]:
    """The commits with which a history begins; none where it is not all there."""
    if await git.tell("rev-parse", "--is-shallow-repository") != "false":
        return frozenset()
    said = await git.run("rev-list", "--max-parents=0", "HEAD", most=_MOST_ROOTS)
    return frozenset(said.line.split()) if said.ok else frozenset()
