"""Files of a workspace that make other programs run something (git hooks, settings), and who touched them."""

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path

_OWN_SETTINGS = ".gen"
_GIT_STARTS_PROGRAMS = ("hooks", "config", "config.worktree", "commondir")
"""In git's folder: what names programs that git starts, or says where else to look for them."""
LINKED = ("commondir", "gitdir", "config.worktree")
"""The same in what git's folder keeps about each linked worktree."""
_INERT = ".sample"
"""The ending of the examples `git init` puts among the hooks; git never runs them."""
_MOST_REPOSITORIES = 64
_MOST_ENTRIES = 2000
_MOST_FOLDERS = 500
_MOST_INNER = 16
_GIT = ".git"
_TODO = Path("rebase-merge", "git-rebase-todo")
"""What git does when somebody goes on with a rebase; its lines may be commands."""
_LARGEST_LINK_FILE = 4096

State = dict[Path, tuple[int, ...]]
"""What there is of the guarded places and in them, with all the kernel tells about a change."""


def real_path(path: Path) -> Path:
    """The path with every link resolved; a missing end is kept."""
    return Path(os.path.realpath(path))


def file_mode(path: Path) -> int:
    """What a path leads to, as the kernel's number for it; 0 when nothing can be seen there."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0


def guarded_names(root: Path) -> list[Path]:
    """What a command in a workspace must not write, whether it exists or not."""
    git = root / ".git"
    names = [root / _OWN_SETTINGS]
    if stat.S_ISREG(file_mode(git)):
        names.append(git)
    return list(dict.fromkeys([*names, *_in_git(git)]))


@lru_cache(maxsize=64)
def inner_repositories(root: Path) -> tuple[Path, ...]:
    """The folders in a workspace that have a repository of their own, the nearest first, up to a limit.

    Those that are there when it is asked first: later ones are made by commands, which have to set them up
    and may remove them again.
    """
    found: list[Path] = []
    waiting = deque([root])
    for _ in range(_MOST_FOLDERS):
        if not waiting or len(found) == _MOST_INNER:
            break
        folder = waiting.popleft()
        try:
            with os.scandir(folder) as entries:
                inside = list(islice(entries, _MOST_ENTRIES))
        except OSError:
            continue
        if folder != root and any(entry.name == _GIT for entry in inside):
            found.append(folder)
        folders = (each.name for each in inside if each.is_dir(follow_symlinks=False) and each.name != _GIT)
        waiting.extend(folder / name for name in sorted(folders))
    return tuple(found)


def watched_only(roots: Iterable[Path], guarded: Iterable[Path]) -> Iterator[Path]:
    """What no wall can keep from being changed, because git needs it or it is a link; it can be looked at."""
    yield from (root / _GIT for root in roots if (root / _GIT).is_symlink())
    own = (
        place.parent for place in guarded if place.name == "commondir" and not is_linked_worktree_file(place)
    )
    yield from (folder / _TODO for folder in own)


def is_linked_worktree_file(place: Path) -> bool:
    """Whether a guarded place tells git about a linked worktree. Such places come and go with those."""
    if place.name not in LINKED or place.parents[1].name != "worktrees":
        return False
    return file_mode(place.parents[2] / "HEAD") != 0


def _in_git(git: Path) -> Iterator[Path]:
    """The names in git's folder, in the one it shares when it belongs to a linked worktree, and below."""
    folder = _pointed_at(git, "gitdir:") if stat.S_ISREG(file_mode(git)) else git
    yield from (folder / name for name in _GIT_STARTS_PROGRAMS)
    shared = folder / "commondir"
    if stat.S_ISREG(file_mode(shared)):
        folder = _pointed_at(shared, "")
        yield from (folder / name for name in _GIT_STARTS_PROGRAMS)
    yield from _of_submodules(folder / "modules")
    try:
        linked = sorted(os.listdir(folder / "worktrees"))[:_MOST_REPOSITORIES]  # noqa: PTH208
    except OSError:
        return
    yield from (folder / "worktrees" / each / name for each in linked for name in LINKED)


def _of_submodules(modules: Path) -> Iterator[Path]:
    """The names in the repositories of submodules, and the folders of those: git would take up a new one."""
    yield modules
    left = _MOST_REPOSITORIES
    for place, folders, files in os.walk(modules):
        if "HEAD" in files:
            yield from (Path(place, name) for name in _GIT_STARTS_PROGRAMS)
            yield Path(place, "modules")
            folders[:] = [name for name in folders if name == "modules"]
            left -= 1
        else:
            yield Path(place)
        if left == 0:
            return


def _pointed_at(file: Path, beginning: str) -> Path:
    """The folder a one-line file of git names, relative to where the file is."""
    try:
        with file.open("rb") as opened:
            text = os.fsdecode(opened.read(_LARGEST_LINK_FILE))
    except OSError:
        return file.parent
    name = text.removeprefix(beginning).strip()
    return file.parent if "\0" in name else real_path(file.parent / name)


def guarded_state(guarded: Iterable[Path]) -> State:
    """How the guarded places are now. Take it before and after a command, and compare."""
    found: State = {}
    for place in guarded:
        for path in (place, *_below(place)):
            try:
                seen = path.lstat()
            except OSError:
                continue
            found[path] = (
                seen.st_dev,
                seen.st_ino,
                seen.st_mode,
                seen.st_size,
                seen.st_mtime_ns,
                seen.st_ctime_ns,
            )
    return found


def touched_paths(before: State, after: State) -> list[Path]:
    """What appeared, changed or went away, in order; of a folder only what is in it, unless that is all."""
    different = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    different = {path for path in different if path.suffix != _INERT}
    parents = {path.parent for path in different}
    return sorted(
        path for path in different if path not in parents or path not in before or path not in after
    )


def _below(place: Path) -> Iterator[Path]:
    """What is in a folder, at any depth, up to a limit; of git's own only the link to it counts."""
    left = _MOST_ENTRIES
    waiting = [] if place.name == _GIT else [place]
    while waiting and left > 0:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    yield Path(entry.path)
                    left -= 1
                    if left == 0:
                        return
                    if stat.S_ISDIR(entry.stat(follow_symlinks=False).st_mode):
                        waiting.append(Path(entry.path))
        except OSError:
            continue
