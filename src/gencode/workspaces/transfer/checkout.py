"""away: a checkout of a person, looked at without changing anything in it or in its repository."""

import hashlib
import os
import shutil
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.journal.folder_snapshot import MOST_PACK, InvalidSnapshot, repository_around
from gencode.workspaces.transfer.held_back_secrets import withhold
from gencode.workspaces.worktrees.agent_work import add_all
from gencode.workspaces.worktrees.git import Git, is_full, quiet_git, trouble

PACK_SECONDS = 120.0
_DATE = "2000-01-01T00:00:00Z"
_OLD_FAULTS = ("badTimezone", "missingSpaceBeforeDate", "zeroPaddedFilemode", "missingTaggerEntry")
"""What old repositories have in their history and what does no harm."""
_STRICT = "--strict=" + ",".join(f"{fault}=ignore" for fault in _OLD_FAULTS)
FSCK = {f"fetch.fsck.{fault}": "ignore" for fault in _OLD_FAULTS}
"""The same, as settings for a fetch."""


class Checkout(Struct, frozen=True):
    """Where things lie: the folder `cwd` in the checkout `top`, git's own folder, objects and index."""

    git: Git
    cwd: Path
    top: Path
    git_dir: Path
    common_dir: Path
    objects: Path
    index: Path


async def checkout_at(folder: Path) -> Checkout:
    """The checkout around a folder; UserMistake when there is none."""
    cwd = _real(folder)
    around = repository_around(cwd)
    if around is None:
        raise UserMistake(f"{cwd} is not in a git repository")
    git = as_stored(await quiet_git(cwd, around))
    words = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--git-path", "objects")
    said = await git.run("rev-parse", *words, "--git-path", "index")
    lines = os.fsdecode(said.out).splitlines()
    if said.ok and len(lines) != 5:
        raise UserMistake(
            f"the name of the folder {cwd} has a line break in it, and git cannot tell it exactly"
        )
    if not said.ok:
        raise trouble(said, f"The git repository around {cwd} cannot be used")
    top, git_dir, common, objects, index = (_plain(cwd / line) for line in lines)
    if not cwd.is_relative_to(top):
        raise UserMistake(f"{cwd} is not in a git repository: git takes it for a part of {top}")
    return Checkout(replace(git, folder=top), cwd, top, git_dir, common, objects, index)


def as_stored(git: Git) -> Git:
    """The same, with every commit as it is stored and travels, whatever is said to stand for it."""
    more = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}
    return replace(git, environ={**git.environ, **more})


def key_at(checkout: Checkout, remote: str = "") -> str:
    """What names a repository, whatever is sent of it: its remote, or else its place on this machine."""
    name = remote or f"{socket.gethostname()}:{checkout.common_dir}"
    return hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:40]


@asynccontextmanager
async def apart(checkout: Checkout) -> AsyncGenerator[Git]:
    """Git for a checkout that puts new objects elsewhere, from where they are gone in the end."""
    with TemporaryDirectory(prefix="gencode-") as folder:
        more = {
            "GIT_OBJECT_DIRECTORY": folder,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted(checkout.objects),
            "GIT_AUTHOR_DATE": _DATE,
            "GIT_COMMITTER_DATE": _DATE,
        }
        yield replace(checkout.git, environ={**checkout.git.environ, **more})


async def tree_of(git: Git, checkout: Checkout, at: str = "") -> tuple[str, list[str]]:
    """Everything in a checkout that is not ignored as a tree, and what could not be put into it.

    Keys that nobody has committed do not travel, staged or not. What is committed is told by the commit `at`,
    if there is one, and else by HEAD.
    """
    with TemporaryDirectory(prefix="gencode-") as folder:
        index = str(Path(folder, "index"))
        if at:
            await git.run("read-tree", at, index=index)
        else:
            await _copied_index(git, checkout.index, index)
            at = await git.tell("rev-parse", "--verify", "--quiet", "HEAD^{commit}") or await git.tell(
                "mktree"
            )
        notes = await add_all(git, checkout.top, index)
        notes += await withhold(git, at, index)
        said = await git.run("write-tree", index=index)
        if not said.ok:
            raise trouble(said, f"What is in {checkout.top} cannot be written down")
        return said.line, notes


async def tree_at(git: Git, commit: str, since: str) -> tuple[str, list[str]]:
    """What a commit holds as a tree, but for keys that came since another one, and what is missing in it."""
    with TemporaryDirectory(prefix="gencode-") as folder:
        index = str(Path(folder, "index"))
        read = await git.run("read-tree", commit, index=index)
        notes = await withhold(git, since, index) if read.ok else []
        said = await git.run("write-tree", index=index)
        for each in (read, said):
            if not each.ok:
                raise trouble(each, f"What the commit {commit[:12]} holds cannot be written down")
        return said.line, notes


async def _copied_index(git: Git, index: Path, into: str) -> None:
    try:
        shutil.copy2(index, into)
    except OSError:
        await git.run("read-tree", "--empty", index=into)


async def commit_of(git: Git, tree: str, parents: Sequence[str], message: str) -> str:
    """A commit that is the same whenever it is made of the same."""
    above = [word for parent in parents for word in ("-p", parent)]
    said = await git.run("commit-tree", "--no-gpg-sign", tree, *above, "-m", message)
    if not said.ok:
        raise trouble(said, "A commit cannot be made")
    return said.line


async def packed(git: Git, commit: str, without: Sequence[str]) -> bytes | None:
    """All that a commit needs besides some others, as a pack; None when that is too large."""
    revisions = "".join(f"{each}\n" for each in (commit, *(f"^{other}" for other in without)))
    said = await git.run(
        *("pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "-q"),
        stdin=revisions.encode(),
        seconds=PACK_SECONDS,
        most=MOST_PACK,
    )
    if said.cut:
        return None
    if not said.ok:
        raise trouble(said, "The repository cannot be packed")
    return said.out


async def unpacked(git: Git, body: bytes) -> None:
    """Take the objects of a pack in, each looked at as git can; Unfit when one is not sound."""
    limit = f"--max-input-size={2 * MOST_PACK}"
    said = await git.run(
        "index-pack", "--stdin", "--fix-thin", _STRICT, limit, stdin=body, seconds=PACK_SECONDS
    )
    if not said.ok:
        why = trouble(said, "What was sent of the repository is not sound")
        raise why if is_full(said) else InvalidSnapshot(str(why))


async def has(git: Git, commit: str) -> bool:
    """Whether a commit is there; that says nothing of what it leads to."""
    return (await git.run("cat-file", "-e", f"{commit}^{{commit}}")).ok


async def is_whole(git: Git, commit: str, without: Sequence[str] = ()) -> bool:
    """Whether a commit is there with everything that it leads to, but for what others lead to.

    Without a look at worktrees: one that is just being made has no commit yet, which would be an error.
    """
    words = ("--single-worktree", commit, "--not", *without, "--all")
    said = await git.again("rev-list", "--objects", "--quiet", *words, seconds=PACK_SECONDS)
    if said.code < 0:
        raise trouble(said, f"Whether all of the commit {commit[:12]} is there could not be found out")
    return said.ok


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _plain(path: Path) -> Path:
    return Path(os.path.normpath(path))


def quoted(path: Path) -> str:
    """A path as git reads it from a list of paths, whatever is in it."""
    plain = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'
