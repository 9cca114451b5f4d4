"""The git repository in a worker's copy of a folder, which belongs to its agent.

The agent may write anything into it. So git never runs on it here: the names of commits and the objects are
copied out file by file, and no link is followed.
"""

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.sandbox.placeholder_files import OWN_COMMONDIR
from gencode.workspaces.transfer.checkout import quoted_path
from gencode.workspaces.worktrees.git import Git, git_error
from gencode.workspaces.worktrees.worktree import Worktree

MOST_OBJECTS = 128 << 20
"""How many bytes of an agent's repository are read."""
_MOST_FILES = 50_000
_MOST_REFS = 1_000
_LONGEST_REF = 4 << 10
_DEEPEST = 50
_LONGEST_PACKED = 1 << 20
_SHA256 = 64
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LOOSE = re.compile(r"[0-9a-f]{38}(?:[0-9a-f]{24})?")
_PACK = re.compile(r"pack-[0-9a-f]{40,64}\.pack")
_NAME = re.compile(r"refs/(?:stash|(?:heads|tags)/[^\x00-\x20\x7f]+)")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CONFIG = """\
[core]
	repositoryformatversion = {version}
	filemode = true
	bare = false
	logallrefupdates = true
[user]
	name = GenCode
	email = gencode@localhost
[commit]
	gpgSign = false
[gc]
	auto = 0
[maintenance]
	auto = false
"""
_LONG = """\
[extensions]
	objectFormat = sha256
"""


class CopyContents(Struct, frozen=True):
    """The contents of a copy's repository: the commits at its HEAD and of its branches and tags, and the
    names of packs. `objects`: it has objects that were not there at first.
    """

    head: str = ""
    refs: dict[str, str] = {}
    packs: tuple[Path, ...] = ()
    objects: bool = False


def has_own_repository(tree: Worktree) -> bool:
    """Whether a copy has its own repository."""
    return _is_folder(tree.path / ".git")


async def create_repository(tree: Worktree, git: Git, head: str) -> None:
    """Give a copy its own repository: at `head`, with the files as they are.

    Its objects are those of the mirror, which is only read from here.
    """
    index = tree.git_dir / "gencode-index.new"
    try:
        shutil.copy2(tree.snapshot, index)
        said = await git.for_checkout(tree.git_dir, tree.path).run("read-tree", "-m", head, index=str(index))
        if not said.ok:
            raise git_error(said, f"The copy {tree.path} cannot be made")
        _furnished(tree, index, head)
    except OSError as error:
        raise UserMistake(f"The copy {tree.path} cannot be made: {error.strerror}.") from None
    finally:
        index.unlink(missing_ok=True)


def remove_repository(tree: Worktree) -> None:
    """Remove the repository of a copy, so that git treats the copy as a worktree of the mirror again."""
    _cleared(tree.path / ".git")
    (tree.path / ".git").write_bytes(b"gitdir: " + os.fsencode(tree.git_dir) + b"\n")


def read_repository(tree: Worktree, into: Path) -> CopyContents:
    """Copy the objects of a copy's repository, and read what it names. UserMistake if they are too many."""
    into.mkdir()
    (into / "pack").mkdir()
    try:
        own = os.open(tree.path / ".git", _READ | os.O_DIRECTORY)
    except OSError:
        raise UserMistake("its .git is gone, or no folder any more") from None
    try:
        if _is_redirected(own):
            raise UserMistake("its repository was redirected to another place (.git/commondir)")
        packs, count = _copied(own, into)
        refs = _refs(own)
        head = _text(own, "HEAD", _LONGEST_REF).strip()
        head = refs.get(head.removeprefix("ref:").strip(), "") if head.startswith("ref:") else head
        return CopyContents(head if _COMMIT.fullmatch(head) else "", refs, tuple(packs), count > 0)
    except OSError as error:
        raise UserMistake(f"the repository in {tree.path} cannot be read: {error.strerror}") from None
    finally:
        os.close(own)


def _is_redirected(own: int) -> bool:
    """Whether commits, stashes and branches may be elsewhere than in their usual place."""
    try:
        os.stat("commondir", dir_fd=own, follow_symlinks=False)
    except FileNotFoundError:
        return False
    # A placeholder of a running command may be left by a worker that was killed.
    return os.fsencode(_text(own, "commondir", _LONGEST_REF)) != OWN_COMMONDIR


def _furnished(tree: Worktree, index: Path, head: str) -> None:
    made = tree.path.parent / f".{tree.name}.git"
    shutil.rmtree(made, ignore_errors=True)
    branch = made / "refs" / "heads" / tree.branch
    for folder in (made / "hooks", made / "objects" / "info", made / "objects" / "pack", branch.parent):
        folder.mkdir(parents=True)
    long = len(head) == _SHA256
    (made / "config").write_text(_CONFIG.format(version=int(long)) + (_LONG if long else ""))
    (made / "HEAD").write_text(f"ref: refs/heads/{tree.branch}\n")
    branch.write_text(f"{head}\n")
    there = quoted_path(tree.common_dir / "objects")
    (made / "objects" / "info" / "alternates").write_bytes(os.fsencode(f"{there}\n"))
    shutil.copy2(index, made / "index")
    _cleared(tree.path / ".git")
    made.rename(tree.path / ".git")


def _cleared(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _copied(own: int, into: Path) -> tuple[list[Path], int]:
    """Copy loose objects and packs, and nothing else: no index of a pack, and no alternates."""
    packs: list[Path] = []
    count, size = 0, 0
    for folder, name, handle in _objects(own):
        target = into / folder / name
        target.parent.mkdir(exist_ok=True)
        count += 1
        size += _copy(handle, name, target, MOST_OBJECTS - size)
        if count > _MOST_FILES or size > MOST_OBJECTS:
            raise UserMistake(f"there is more than {MOST_OBJECTS >> 20} MiB in the repository of the copy")
        if folder == "pack":
            packs.append(target)
    return packs, count


def _objects(own: int) -> Iterator[tuple[str, str, int]]:
    """The folder, name and an open handle of the folder of everything that looks like an object or a pack."""
    if not _is_folder_at(own, "objects"):
        return
    for place, folders, files, handle in os.fwalk("objects", dir_fd=own):
        folder = place.removeprefix("objects").lstrip("/")
        folders[:] = [each for each in folders if not folder and (each == "pack" or _is_fan(each))]
        wanted = _PACK if folder == "pack" else _LOOSE
        yield from ((folder, name, handle) for name in files if folder and wanted.fullmatch(name))


def _is_folder_at(own: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=own, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _is_fan(name: str) -> bool:
    return len(name) == 2 and all(letter in "0123456789abcdef" for letter in name)


def _copy(handle: int, name: str, target: Path, most: int) -> int:
    """Copy a regular file, or as much of it as shows that it is too large; the bytes copied."""
    done = 0
    with _plain(handle, name) as source, target.open("xb") as file:
        while done <= most and (block := source.read(1 << 20)):
            done += file.write(block)
    return done


def _plain(handle: int, name: str) -> BinaryIO:
    """A regular file, no link, pipe or device; OSError otherwise."""
    opened = os.fdopen(os.open(name, _READ, dir_fd=handle), "rb")
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        opened.close()
        raise OSError(errno.EINVAL, "it is no plain file")
    return opened


def _text(handle: int, name: str, most: int) -> str:
    """The text of a file; empty if it is not regular or too long."""
    try:
        with _plain(handle, name) as file:
            text = file.read(most + 1)
    except OSError:
        return ""
    return os.fsdecode(text) if len(text) <= most else ""


def _loose_refs(own: int) -> Iterator[tuple[str, str]]:
    if _is_folder_at(own, "refs"):
        for place, _, files, handle in os.fwalk("refs", dir_fd=own):
            if place.count("/") > _DEEPEST:
                raise UserMistake("the names of branches in the repository of the copy are too long")
            yield from ((f"{place}/{name}", _text(handle, name, _LONGEST_REF).strip()) for name in files)


def _packed_refs(own: int) -> Iterator[tuple[str, str]]:
    for line in _text(own, "packed-refs", _LONGEST_PACKED).splitlines():
        commit, _, name = line.partition(" ")
        yield name, commit


def _refs(own: int) -> dict[str, str]:
    """Branches, tags and the stash, each with its commit; a loose ref wins over a packed one."""
    found: dict[str, str] = {}
    for name, commit in chain(_packed_refs(own), _loose_refs(own)):
        if _NAME.fullmatch(name) and _COMMIT.fullmatch(commit):
            found[name] = commit
        if len(found) > _MOST_REFS:
            raise UserMistake(f"there are more than {_MOST_REFS} branches in the repository of the copy")
    return found
