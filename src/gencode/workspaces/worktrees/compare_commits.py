"""Compares commits: which files differ, the patch, and the result of a merge. No checkout is changed."""

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from msgspec import Struct

from gencode.core.changes import ChangedFile, FileStatus
from gencode.workspaces.worktrees.create import printable
from gencode.workspaces.worktrees.git import Git, git_error

_TREE_OF = "^{tree}"
_CONFLICTS = 1
_MOST_DIRTY = 100_000
_MOST_NAMES = 32 << 20
_AT_ONCE = 500
_STAGES = {b"1", b"2", b"3"}
_BEGUN = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
}
_REFUSED = ("MERGE_HEAD", "CHERRY_PICK_HEAD")
"""While these files exist git begins no merge, even if all conflicts are resolved."""


class MergePreview(Struct, frozen=True):
    """The result of a merge: its tree, or the paths that both sides changed."""

    state: Literal["clean", "conflicts", "unknown"]
    conflicts: tuple[bytes, ...] = ()
    tree: str = ""
    half: str = ""
    """The tree that git would leave in the files if there are conflicts, if that is known."""


class UncommittedChanges(Struct, frozen=True):
    """The uncommitted changes of a checkout: files, and folders unknown to git."""

    known: bool
    files: frozenset[bytes] = frozenset()
    folders: tuple[bytes, ...] = ()
    missing: frozenset[bytes] = frozenset()
    """The files that were deleted without staging that: git writes them again without a warning."""

    def hinders(self, path: bytes, folder: Path) -> bool:
        """Whether a file that a merge would write is changed in the checkout, or there and unknown to git."""
        there = _below(folder, path)
        if path in self.missing:
            return not _can_be_made(there)
        return path in self.files or (path.startswith(self.folders) and _is_anything(there))


async def preview_merge(git: Git, ours: str, theirs: str) -> MergePreview:
    """Merge two commits in git's object store only."""
    said = await git.run("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
    if said.code not in {0, _CONFLICTS} or not said.out:
        return await preview_with_old_git(git, ours, theirs)
    tree, *paths = said.out.removesuffix(b"\0").split(b"\0")
    if said.ok:
        return MergePreview("clean", tree=tree.decode())
    return MergePreview("conflicts", tuple(sorted({path for path in paths if path})), half=tree.decode())


async def preview_with_old_git(git: Git, ours: str, theirs: str) -> MergePreview:
    """The same for a git before 2.38: three trees in a temporary index, contents merged one by one."""
    base = await git.output_line("merge-base", ours, theirs)
    if not base:
        return MergePreview("unknown")
    with TemporaryDirectory(prefix="gencode-") as folder:
        index = str(Path(folder, "index"))
        said = await git.run("read-tree", "-i", "-m", "--aggressive", base, ours, theirs, index=index)
        unmerged = await git.run("ls-files", "--unmerged", "-z", index=index)
        if not said.ok or not unmerged.ok:
            return MergePreview("unknown")
        stages: dict[bytes, dict[bytes, bytes]] = {}
        for entry in unmerged.names:
            described, _, path = entry.partition(b"\t")
            mode, blob, stage = described.split(b" ")
            stages.setdefault(path, {})[stage] = mode + b" " + blob
        conflicts = [path for path, found in stages.items() if not await _merges(git, found, Path(folder))]
        if conflicts:
            return MergePreview("conflicts", tuple(sorted(conflicts)))
        tree = "" if stages else await git.output_line("rev-parse", f"{await _tree(git, index)}{_TREE_OF}")
    return MergePreview("clean", tree=tree)


async def overlapping_changes(
    main: Git, ours: str, theirs: str, found: MergePreview, dirty: UncommittedChanges
) -> list[bytes]:
    """The files that a merge would write and that are changed in the checkout, or there and unknown to git.

    A merge may write other files than were changed: renamed files have two names, and changes of others may
    be merged along.
    """
    old, new = ours, found.tree or found.half
    if not new:
        old, new = await main.output_line("merge-base", ours, theirs) or ours, theirs
    said = await main.run(
        "diff-tree",
        "-r",
        "-z",
        "--name-status",
        "--no-renames",
        "--end-of-options",
        old,
        new,
        most=_MOST_NAMES,
    )
    if not said.ok:
        raise git_error(said, f"What a merge into {main.folder} would change cannot be seen")
    written = [*zip(said.names[::2], said.names[1::2], strict=True)]
    unknown = await _unknown(main, [path for status, path in written if status == b"A"])
    return [path for _, path in written if path in unknown or dirty.hinders(path, main.folder)]


async def _unknown(main: Git, added: list[bytes]) -> set[bytes]:
    """Those of some new files whose place has something unknown to git, including ignored files."""
    there = [path for path in added if _is_anything(_below(main.folder, path))]
    found: set[bytes] = set()
    for start in range(0, len(there), _AT_ONCE):
        words = [f":(top,literal){os.fsdecode(path)}" for path in there[start : start + _AT_ONCE]]
        for name in (await main.run("ls-files", "--others", "-z", "--", *words)).names:
            parts = name.rstrip(b"/").split(b"/")
            found.update(b"/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return found.intersection(there)


async def with_open_changes(git: Git, ours: str, paths: Sequence[bytes]) -> str:
    """The commit of a checkout with its open changes of some files; "" if git refuses."""
    words = b"".join(b":(top,literal)" + path + b"\0" for path in paths)
    with TemporaryDirectory(prefix="gencode-") as folder:
        index = str(Path(folder, "index"))
        read = await git.run("read-tree", ours, index=index)
        added = await git.run(
            "add",
            "--all",
            "--force",
            "--pathspec-from-file=-",
            "--pathspec-file-nul",
            stdin=words,
            index=index,
        )
        if not read.ok or not added.ok:
            return ""
        tree = await _tree(git, index)
    return await git.output_line("commit-tree", "--no-gpg-sign", tree, "-p", ours, "-m", "open changes")


async def uncommitted_changes(git: Git, index: str = "") -> UncommittedChanges:
    """The uncommitted changes of a checkout, by its index or another; submodules are skipped."""
    said = await git.run(
        *(
            "status",
            "--porcelain",
            "-z",
            "--no-renames",
            "--untracked-files=normal",
            "--ignore-submodules=all",
        ),
        index=index,
    )
    if not said.ok:
        return UncommittedChanges(known=False)
    paths = [entry[3:] for entry in said.names[:_MOST_DIRTY]]
    return UncommittedChanges(
        known=True,
        files=frozenset(path for path in paths if not path.endswith(b"/")),
        folders=tuple(path for path in paths if path.endswith(b"/")),
        missing=frozenset(entry[3:] for entry in said.names[:_MOST_DIRTY] if entry.startswith(b" D ")),
    )


async def staged_files(git: Git, ours: str) -> set[bytes]:
    """The staged changes of a checkout; a merge of two sides does not begin with any."""
    return {*(await git.run("diff-index", "--cached", "--name-only", "-z", "--no-renames", ours)).names}


async def operation_in_progress(git: Git, git_dir: Path) -> str:
    """Why no merge can begin in a checkout at all; usually empty."""
    unmerged = (await git.run("ls-files", "--unmerged", "-z")).names
    if not unmerged and not any(_is_there(git_dir / name) for name in _REFUSED):
        return ""
    begun = next((what for name, what in _BEGUN.items() if _is_there(git_dir / name)), "")
    return f"is in the middle of {begun}" if begun else "has conflicts that are not resolved"


def _is_there(path: Path) -> bool:
    return path.exists()


def _below(folder: Path, path: bytes) -> bytes:
    return os.fsencode(folder) + b"/" + path


def _is_anything(path: bytes) -> bool:
    return os.path.lexists(path)


def _can_be_made(path: bytes) -> bool:
    """Whether nothing is at a path, and all its parents are folders."""
    there = Path(os.fsdecode(path))
    try:
        there.lstat()
    except FileNotFoundError:
        return Path(os.path.realpath(there.parent)) == there.parent
    except OSError:
        pass
    return False


async def is_merged(git: Git, ours: str, theirs: str) -> bool:
    """Whether all of a commit is in another: it is an ancestor, or merging it would change nothing."""
    if (await git.run("merge-base", "--is-ancestor", theirs, ours)).ok:
        return True
    found = await preview_merge(git, ours, theirs)
    return bool(found.tree) and found.tree == await git.output_line(
        "rev-parse", "--verify", f"{ours}{_TREE_OF}"
    )


async def _tree(git: Git, index: str) -> str:
    return (await git.run("write-tree", index=index)).line


async def _merges(git: Git, stages: dict[bytes, bytes], folder: Path) -> bool:
    """Whether the three contents of a file merge cleanly. Only regular files on all sides are tried."""
    if stages.keys() != _STAGES or not all(each.startswith(b"100") for each in stages.values()):
        return False
    if len({each.partition(b" ")[0] for each in stages.values()}) > 1:
        return False
    names: list[str] = []
    for stage in (b"2", b"1", b"3"):
        content = await git.run("cat-file", "blob", stages[stage].partition(b" ")[2].decode())
        if not content.ok:
            return False
        path = folder / os.fsdecode(stage)
        path.write_bytes(content.out)
        names.append(str(path))
    return (await git.run("merge-file", "--stdout", "--quiet", *names)).ok


MOST_FILES = 500
MOST_DIFF = 100_000
_MOST_BYTES = 32 << 20
_PLAINLY = (
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--submodule=short",
    "--ignore-submodules=none",
    "-r",
    "--find-renames",
    "--end-of-options",
)

_STATUS: dict[bytes, FileStatus] = {b"A": "added", b"D": "deleted", b"R": "renamed", b"T": "other kind"}


async def changed_files(git: Git, old: str, new: str) -> tuple[list[tuple[bytes, ChangedFile]], int]:
    """The files that differ with their real names, and how many more there are than are listed."""
    said = await git.run("diff-tree", "--raw", "--numstat", "-z", *_PLAINLY, old, new, most=_MOST_BYTES)
    if not said.ok:
        raise git_error(said, "The changed files cannot be listed")
    words = iter(said.out.split(b"\0"))
    statuses: dict[bytes, bytes] = {}
    found: list[tuple[bytes, ChangedFile]] = []
    for word in words:
        if word.startswith(b":"):
            status, path = word.rpartition(b" ")[2][:1], next(words)
            statuses[next(words) if status == b"R" else path] = status
        elif word:
            added, removed, path = word.split(b"\t", 2)
            was = b"" if path else next(words)
            path = path or next(words)
            status = _STATUS.get(statuses.get(path, b""), "changed")
            found.append(
                (path, ChangedFile(printable(path), status, _count(added), _count(removed), printable(was)))
            )
    return found[:MOST_FILES], max(len(found) - MOST_FILES, 0)


async def diff_text(git: Git, old: str, new: str) -> str:
    """The difference as a patch, cut at a line with a note if it is too long."""
    prefixes = ("--src-prefix=a/", "--dst-prefix=b/")
    said = await git.run("diff-tree", "-p", "-U3", *prefixes, *_PLAINLY, old, new, most=MOST_DIFF)
    if not said.ok and not said.cut:
        raise git_error(said, "The difference cannot be shown")
    if not said.cut:
        return said.out.decode(errors="replace")
    whole = said.out[: said.out.rfind(b"\n") + 1]
    note = f"[… the rest was left out; git diff {old[:12]} {new[:12]} shows all of it]\n"
    return whole.decode(errors="replace") + note


def _count(word: bytes) -> int | None:
    return None if word == b"-" else int(word)
