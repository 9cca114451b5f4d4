"""worktrees: what a git that was killed while it added one has left, and how that is swept away.

Git stumbles over it: it fetches nothing any more, and may add no other worktree. Only whoever has the turn of
a folder sweeps, for then nobody else is adding one there.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gencode.workspaces.worktrees.git import Git
from gencode.workspaces.worktrees.worktree import BRANCHES

_ADDING = b"initializing"
"""Git's own word, in the file `locked`, until a worktree is whole."""
_BEGUN = ".{}.begun"
_SHARED = "../..\n"
_MOST = 8 << 10
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


async def sweep(git: Git, common: Path, folder: Path, held: tuple[int, ...]) -> None:
    """Remove what is left half made of worktrees in a folder of ours; work of an agent is in none of them.

    Their branches go where another one leads to the same. Without a lock that is `held` nothing is touched:
    somebody may be at it.
    """
    begun = _begun(folder) if held else []
    swept: list[str] = []
    for entry, path in _ours(common / "worktrees", folder) if held else ():
        with suppress(OSError):
            if _text(entry / "locked") == _ADDING and _is_unused(path, entry):
                _removed(entry, path)
                swept.append(BRANCHES + path.name)
            elif _text(entry / "commondir") == b"":  # the machine went down before it was on the disk
                (entry / "commondir").write_text(_SHARED)
    swept += [BRANCHES + name for name in begun if not _is_there(folder / name)]
    for branch in dict.fromkeys(swept):
        await _without(git, branch)
    for name in begun:
        (folder / _BEGUN.format(name)).unlink(missing_ok=True)


def begins(path: Path) -> Path:
    """Note that a worktree is about to be made on this machine; the note goes when it is whole, or swept."""
    note = path.parent / _BEGUN.format(path.name)
    note.touch()
    return note


def _begun(folder: Path) -> list[str]:
    """The names of the worktrees that were begun here and did not become whole."""
    before, after = _BEGUN.split("{}")
    found = folder.glob(_BEGUN.format("*"))
    return [each.name.removeprefix(before).removesuffix(after) for each in found]


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _ours(entries: Path, folder: Path) -> Iterator[tuple[Path, Path]]:
    """What git knows about each worktree in a folder. Where it is not said whose it is, git heeds it not."""
    real = Path(os.path.realpath(folder))
    with suppress(OSError):
        if not stat.S_ISDIR(entries.lstat().st_mode):
            return
        for found in sorted(os.scandir(entries), key=lambda each: each.name):
            entry = Path(found.path)
            if found.is_dir(follow_symlinks=False) and (said := _text(entry / "gitdir")):
                path = _led(entry, said).parent
                if path.parent == real and not path.name.startswith("."):
                    yield entry, path


def _is_unused(path: Path, entry: Path) -> bool:
    """Whether a folder holds nothing but a file that names what git knows about it.

    One that is not there may be on another machine with the same repository, where it is just being made,
    unless it was begun here.
    """
    try:
        found = list(path.iterdir()) if stat.S_ISDIR(path.lstat().st_mode) else [path]
    except FileNotFoundError:
        return (path.parent / _BEGUN.format(path.name)).exists()
    if found != [path / ".git"]:
        return not found
    said = _text(path / ".git")
    return said == b"" or (
        said is not None and _led(path, said.removeprefix(b"gitdir: ")) == Path(os.path.realpath(entry))
    )


def _removed(entry: Path, path: Path) -> None:
    """In an order in which it may be killed at any moment: what is left is swept later, or does no harm.

    Git heeds nothing of which it is not said whose it is.
    """
    (path / ".git").unlink(missing_ok=True)
    (entry / "gitdir").unlink()
    with suppress(FileNotFoundError):
        path.rmdir()
    shutil.rmtree(entry)


async def _without(git: Git, branch: str) -> None:
    """Delete a branch if another one has all that is on it; git refuses where somebody has it checked out."""
    wanted = ("--count=2", "--format=%(refname)", f"--contains=refs/heads/{branch}")
    said = await git.run("for-each-ref", *wanted)
    if said.ok and len(said.out.splitlines()) > 1:
        await git.patiently("branch", "--quiet", "-D", "--", branch)


def _led(start: Path, said: bytes) -> Path:
    return Path(os.path.normpath(start / os.fsdecode(said)))


def _text(path: Path) -> bytes | None:
    """What a plain file says, without the end of its line; None where there is none."""
    try:
        with os.fdopen(os.open(path, _PLAIN), "rb") as file:
            plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(_MOST).removesuffix(b"\n") if plain else None
    except OSError:
        return None
