"""Reads a user's git checkout without changing it or its repository, and recognises clones of it.

Whether a checkout is a clone of a task's repository is decided by commits only: anybody can name any remote.
Nothing else follows from it, since the owner of a clone can put anything into it: what is trusted or allowed
in one folder is not in the other.
"""

import hashlib
import os
import shutil
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.place import FolderCopy
from gencode.core.structs import replace
from gencode.journal.folder_snapshot import (
    MOST_COMMITS,
    MOST_PACK,
    FolderSnapshot,
    InvalidSnapshot,
    repository_around,
    safe_remote,
)
from gencode.workspaces.transfer.excluded_files import hold_back_secrets
from gencode.workspaces.worktrees.agent_work import add_all
from gencode.workspaces.worktrees.git import Git, git_error, is_disk_full, safe_git

PACK_SECONDS = 120.0
_DATE = "2000-01-01T00:00:00Z"
_OLD_FAULTS = ("badTimezone", "missingSpaceBeforeDate", "zeroPaddedFilemode", "missingTaggerEntry")
"""Harmless faults in the history of old repositories."""
_STRICT = "--strict=" + ",".join(f"{fault}=ignore" for fault in _OLD_FAULTS)
FSCK = {f"fetch.fsck.{fault}": "ignore" for fault in _OLD_FAULTS}
"""The settings that make a fetch ignore them."""


class Checkout(Struct, frozen=True):
    """The paths of a checkout: its folder `cwd` below `top`, git's own folder, objects and index."""

    git: Git
    cwd: Path
    top: Path
    git_dir: Path
    common_dir: Path
    objects: Path
    index: Path


async def checkout_at(folder: Path) -> Checkout:
    """The checkout around a folder; UserMistake if there is none."""
    cwd = _real(folder)
    around = repository_around(cwd)
    if around is None:
        raise UserMistake(f"{cwd} is not in a git repository")
    git = as_stored(await safe_git(cwd, around))
    words = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--git-path", "objects")
    said = await git.run("rev-parse", *words, "--git-path", "index")
    lines = os.fsdecode(said.out).splitlines()
    if said.ok and len(lines) != 5:
        raise UserMistake(
            f"the name of the folder {cwd} has a line break in it, and git cannot tell it exactly"
        )
    if not said.ok:
        raise git_error(said, f"The git repository around {cwd} cannot be used")
    top, git_dir, common, objects, index = (_plain(cwd / line) for line in lines)
    if not cwd.is_relative_to(top):
        raise UserMistake(f"{cwd} is not in a git repository: git takes it for a part of {top}")
    return Checkout(replace(git, folder=top), cwd, top, git_dir, common, objects, index)


def as_stored(git: Git) -> Git:
    """Git with every commit as it is stored, without replacements."""
    more = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}
    return replace(git, environ={**git.environ, **more})


def repository_key(checkout: Checkout, remote: str = "") -> str:
    """The key of a repository: its remote, or else its place on this machine."""
    name = remote or f"{socket.gethostname()}:{checkout.common_dir}"
    return hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:40]


@asynccontextmanager
async def scratch_objects(checkout: Checkout) -> AsyncGenerator[Git]:
    """Git for a checkout that puts new objects into a temporary store."""
    with TemporaryDirectory(prefix="gencode-") as folder:
        more = {
            "GIT_OBJECT_DIRECTORY": folder,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted_path(checkout.objects),
            "GIT_AUTHOR_DATE": _DATE,
            "GIT_COMMITTER_DATE": _DATE,
        }
        yield replace(checkout.git, environ={**checkout.git.environ, **more})


async def write_tree(git: Git, checkout: Checkout, at: str = "") -> tuple[str, list[str]]:
    """Everything in a checkout that is not ignored as a tree, and what could not be put into it.

    Keys that are not committed are left out, staged or not. What is committed is decided by the commit `at`,
    if there is one, and else by HEAD.
    """
    with TemporaryDirectory(prefix="gencode-") as folder:
        index = str(Path(folder, "index"))
        if at:
            await git.run("read-tree", at, index=index)
        else:
            await _copied_index(git, checkout.index, index)
            at = await git.output_line(
                "rev-parse", "--verify", "--quiet", "HEAD^{commit}"
            ) or await git.output_line("mktree")
        notes = await add_all(git, checkout.top, index)
        notes += await hold_back_secrets(git, at, index)
        said = await git.run("write-tree", index=index)
        if not said.ok:
            raise git_error(said, f"What is in {checkout.top} cannot be written down")
        return said.line, notes


async def write_commit_tree(git: Git, commit: str, since: str) -> tuple[str, list[str]]:
    """A commit as a tree without keys that are newer than another commit, and what is missing in it."""
    with TemporaryDirectory(prefix="gencode-") as folder:
        index = str(Path(folder, "index"))
        read = await git.run("read-tree", commit, index=index)
        notes = await hold_back_secrets(git, since, index) if read.ok else []
        said = await git.run("write-tree", index=index)
        for each in (read, said):
            if not each.ok:
                raise git_error(each, f"What the commit {commit[:12]} holds cannot be written down")
        return said.line, notes


async def _copied_index(git: Git, index: Path, into: str) -> None:
    try:
        shutil.copy2(index, into)
    except OSError:
        await git.run("read-tree", "--empty", index=into)


async def make_commit(git: Git, tree: str, parents: Sequence[str], message: str) -> str:
    """A commit that is the same whenever it is made of the same."""
    above = [word for parent in parents for word in ("-p", parent)]
    said = await git.run("commit-tree", "--no-gpg-sign", tree, *above, "-m", message)
    if not said.ok:
        raise git_error(said, "A commit cannot be made")
    return said.line


async def make_pack(git: Git, commit: str, without: Sequence[str]) -> bytes | None:
    """All that a commit needs besides some others, as a pack; None if that is too large."""
    revisions = "".join(f"{each}\n" for each in (commit, *(f"^{other}" for other in without)))
    said = await git.run(
        "pack-objects",
        "--revs",
        "--thin",
        "--stdout",
        "--delta-base-offset",
        "-q",
        stdin=revisions.encode(),
        seconds=PACK_SECONDS,
        most=MOST_PACK,
    )
    if said.cut:
        return None
    if not said.ok:
        raise git_error(said, "The repository cannot be packed")
    return said.out


async def read_pack(git: Git, body: bytes) -> None:
    """Add the objects of a pack, each checked by git; InvalidSnapshot for an invalid one."""
    limit = f"--max-input-size={2 * MOST_PACK}"
    said = await git.run(
        "index-pack", "--stdin", "--fix-thin", _STRICT, limit, stdin=body, seconds=PACK_SECONDS
    )
    if not said.ok:
        why = git_error(said, "What was sent of the repository is not sound")
        raise why if is_disk_full(said) else InvalidSnapshot(str(why))


async def has_commit(git: Git, commit: str) -> bool:
    """Whether a commit exists; not whether everything it leads to does."""
    return (await git.run("cat-file", "-e", f"{commit}^{{commit}}")).ok


async def is_complete(git: Git, commit: str, without: Sequence[str] = ()) -> bool:
    """Whether a commit exists with everything it leads to, except what others lead to.

    Worktrees are ignored: one that is being made has no commit yet, which would be an error.
    """
    words = ("--single-worktree", commit, "--not", *without, "--all")
    said = await git.run_with_retries("rev-list", "--objects", "--quiet", *words, seconds=PACK_SECONDS)
    if said.code < 0:
        raise git_error(said, f"Whether all of the commit {commit[:12]} is there could not be found out")
    return said.ok


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _plain(path: Path) -> Path:
    return Path(os.path.normpath(path))


def quoted_path(path: Path) -> str:
    """A path as git reads it from a list of paths."""
    plain = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'


_MOST_ROOTS = 64 * 1024


class NotAClone(UserMistake):
    """Why a folder does not count as a clone; not raised for an unrelated folder."""


class Clone(Struct, frozen=True):
    """A checkout here and the one that a task belongs to, whose user's home is `home`."""

    top: Path
    of: str
    home: str = ""

    def copied(self, own: Path | None) -> FolderCopy:
        """The folder copy that this is for rules; paths in `own`, GenCode's folder, are unchanged."""
        keeps = (str(self.top), *([str(own)] if own else []))
        return FolderCopy(str(self.top), self.of, self.home, keeps, narrows=True)


async def clone_at(cwd: Path, folder: str, snapshot: FolderSnapshot | None) -> Clone:
    """The folder of a task in a clone, if that is the same place in it; NotAClone otherwise.

    The clone must have the commit of the task's `snapshot`. Without one the folder of the task must be on
    this machine, and both must begin with the same commits.
    """
    try:
        here = await checkout_at(cwd)
        if snapshot is not None:
            await require_commit(here, snapshot)
            below = Path(snapshot.below)
        else:
            below = await _same_history(here, Path(folder))
    except NotAClone:
        raise
    except UserMistake:  # no repository, no git
        raise NotAClone("") from None
    if here.cwd.relative_to(here.top) != below:
        raise NotAClone(f"In this clone, its folder is {here.top / below}: go on there.")
    there = Path(folder)
    top = there.parents[len(below.parts) - 1] if below.parts else there
    return Clone(here.top, str(top), snapshot.home if snapshot is not None else str(Path.home()))


async def require_commit(here: Checkout, snapshot: FolderSnapshot) -> None:
    """NotAClone if the commit at which a task was sent is in no branch of a checkout."""
    if not snapshot.head:
        raise NotAClone(
            "Its history did not go with it, so no other folder can be told for a clone of its own."
        )
    if not await _is_in_history(here.git, snapshot.head):
        raise NotAClone(
            f"{here.top} does not have the commit {snapshot.head[:12]}, at which it was sent; if this is a "
            "clone, fetch it."
        )


async def require_same_repository(here: Checkout, snapshot: FolderSnapshot, *, own: bool) -> None:
    """NotAClone if the changes of a task belong neither to this repository nor to one it is a clone of.

    `own`: the checkout is where the task was sent from. Another machine may have another repository there,
    and an amended commit is in no branch.
    """
    if own and snapshot.head and await has_commit(here.git, snapshot.head):
        return
    if own and not snapshot.head and snapshot.key in await _keys(here):
        return
    await require_commit(here, snapshot)


async def _keys(here: Checkout) -> set[str]:
    """The keys of a checkout's repository."""
    remotes = (await here.git.output_line("remote")).splitlines()[:MOST_COMMITS]
    addresses = [safe_remote(await here.git.output_line("remote", "get-url", name)) for name in remotes]
    return {repository_key(here), *(repository_key(here, address) for address in addresses)}


async def _is_in_history(git: Git, commit: str) -> bool:
    if not await has_commit(git, commit):
        return False
    if (await git.run("merge-base", "--is-ancestor", commit, "HEAD")).ok:
        return True
    return bool(
        await git.output_line("for-each-ref", "--count=1", f"--contains={commit}", "--format=%(refname)")
    )


async def _same_history(here: Checkout, folder: Path) -> Path:
    """The place of a folder of this machine in its checkout, if both histories begin alike."""
    there = await checkout_at(folder)
    roots = await _roots(there.git)
    if not roots or roots != await _roots(here.git):
        raise NotAClone(
            f"{here.top} does not begin with the same commits as {there.top}, so it is no clone of it."
        )
    return there.cwd.relative_to(there.top)


async def _roots(git: Git) -> frozenset[str]:
    """The first commits of a history; none if it is incomplete."""
    if await git.output_line("rev-parse", "--is-shallow-repository") != "false":
        return frozenset()
    said = await git.run("rev-list", "--max-parents=0", "HEAD", most=_MOST_ROOTS)
    return frozenset(said.line.split()) if said.ok else frozenset()
