"""worktrees: what is in one and nowhere else, also where all that can be merged is."""

import re
from pathlib import Path

from msgspec import Struct

from gencode.workspaces.worktrees.agent_work import ignored_files, is_filled, submodules_of
from gencode.workspaces.worktrees.create import MOST_ENTRIES, filtered_files, shown
from gencode.workspaces.worktrees.git import Git
from gencode.workspaces.worktrees.worktree import Worktree

_FILTER = re.compile(r"filter\.(?P<name>.+)\.(?:clean|process)", re.IGNORECASE | re.DOTALL)
_MODULES = "modules"


class OnlyThere(Struct, frozen=True):
    """As in a leftover: submodules and where git keeps them, and what git ignores."""

    submodules: tuple[str, ...] = ()
    modules: str = ""
    ignored: str = ""

    @property
    def anything(self) -> bool:
        return bool(self.submodules or self.modules or self.ignored)


async def only_there(git: Git, worktree: Worktree, *, ignored: bool) -> OnlyThere:
    """What a worktree has in submodules and, if that is asked, among the files that git ignores."""
    filled = [name for name in await submodules_of(git) if is_filled(worktree.path, name)]
    return OnlyThere(
        submodules=tuple(map(shown, filled)),
        modules=_kept(worktree.git_dir),
        ignored="; ".join(await ignored_files(git, "")) if ignored else "",
    )


def _kept(git_dir: Path) -> str:
    """Git keeps the submodules of a worktree apart from those of every other."""
    return str(git_dir / _MODULES) if (git_dir / _MODULES).is_dir() else ""


async def filters_of(git: Git) -> tuple[str, ...]:
    """The filters that files in a worktree have, of those that are set up."""
    listing = await git.run("config", "--null", "--name-only", "--list", "--includes")
    found = [_FILTER.fullmatch(name.decode(errors="replace")) for name in listing.names]
    known = {each["name"] for each in found if each}
    if not known:
        return ()
    names = (await git.run("ls-files", "-z", most=MOST_ENTRIES)).names
    used = {value.decode(errors="replace") for _, value in await filtered_files(git, names)}
    return tuple(sorted(known & used))
