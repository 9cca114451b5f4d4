"""Commits an agent's changes in its worktree, so that they are not lost; removes an unchanged worktree."""

import asyncio
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from msgspec import Struct

from gencode.core.changes import ChangedFile
from gencode.core.errors import UserMistake
from gencode.core.structs import replace
from gencode.workspaces.worktrees.compare_commits import (
    MergePreview,
    changed_files,
    diff_text,
    is_merged,
    operation_in_progress,
    overlapping_changes,
    preview_merge,
    staged_files,
    uncommitted_changes,
    with_open_changes,
)
from gencode.workspaces.worktrees.create import GITLINK, MOST_ENTRIES, printable, remove_half_made
from gencode.workspaces.worktrees.git import Git, git_error, safe_git
from gencode.workspaces.worktrees.worktree import Worktree, derived_worktrees, folder_lock, retire_record

ADD_SECONDS = 300.0
IN_WORKTREE = "in the worktree only"
LARGEST_NEW_FILE = 50 << 20
_SHOWN = 10
_COMMIT = re.compile(rb"[0-9a-f]{40,64}")
_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
"""Folders that programs recreate by themselves; only these may be deleted with an unused worktree."""
_SPARSE = "sparse-checkout"
"""The word in git's messages about files outside the checked-out part of a repository."""
_UNDER_WAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply")


class WorktreeResult(Struct, frozen=True):
    """The result of a worktree. `kept` is False if nothing was changed and it was removed.

    `merges` says what a merge into the checkout it came from would result in now, `conflicts` are the paths
    that both changed, `overlaps` those with uncommitted changes there, which are treated as committed. `how`
    are commands that merge it.
    """

    kept: bool
    commit: str = ""
    diff: str = ""
    files: tuple[ChangedFile, ...] = ()
    more_files: int = 0
    merges: Literal["clean", "conflicts", "unknown"] = "unknown"
    conflicts: tuple[str, ...] = ()
    overlaps: tuple[str, ...] = ()
    how: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """The notes about changes that git cannot carry, without ignored files."""
    merged: bool = False
    """Whether all of it is in that checkout already."""
    blocked: str = ""
    """Why no merge can begin in that checkout now."""


class _Commit(Struct, frozen=True):
    """The commit with all changes, and what could not be put into it."""

    commit: str
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


async def commit_work(worktree: Worktree) -> WorktreeResult:
    """Commit an agent's changes and describe them. An unchanged worktree is removed with its branch.

    Anything else is never deleted. UserMistake if git cannot be used there; then everything stays as it is.
    """
    if not worktree.git_dir.is_dir() or not worktree.path.is_dir():
        return WorktreeResult(
            True, notes=(f"{worktree.path} or its repository is gone; its work is unknown",)
        )
    git = (await safe_git(worktree.path, worktree.path, worktree.git_dir)).for_checkout(
        worktree.git_dir, worktree.path
    )
    taken = await _committed(git, worktree)
    notes = (*taken.notes, *taken.ignored)
    if taken.commit != worktree.base:
        return await _described(git, worktree, replace(taken, notes=notes))
    notes += tuple(_reasons_to_keep(worktree))
    if not notes:
        return await remove_unused(git, worktree)
    return WorktreeResult(True, taken.commit, merges="clean", notes=(*notes, f"it is kept: {worktree.path}"))


async def _main(worktree: Worktree) -> Git:
    """Git for the checkout it came from, which may have settings that the worktree does not have."""
    git = await safe_git(worktree.repository, worktree.repository, worktree.main_dir)
    return git.for_checkout(worktree.main_dir, worktree.repository)


async def _described(git: Git, worktree: Worktree, taken: _Commit) -> WorktreeResult:
    files, more = await changed_files(git, worktree.base, taken.commit)
    diff = await diff_text(git, worktree.base, taken.commit)
    known = WorktreeResult(True, taken.commit, diff, tuple(change for _, change in files), more)
    there = worktree.repository.is_dir() and worktree.main_dir.is_dir()
    main = await _main(worktree) if there else None
    ours = await main.output_line("rev-parse", "--verify", "--quiet", "HEAD^{commit}") if main else ""
    if main is None or not ours:
        notes = (*taken.notes, f"the checkout {worktree.repository} it came from is gone")
        return replace(known, notes=notes, how=(f"git -C {shlex.quote(str(worktree.path))} log",))
    if await is_merged(git, ours, taken.commit):
        return replace(known, merges="clean", notes=taken.notes, merged=True)
    if blocked := await operation_in_progress(main, worktree.main_dir):
        told = f"{worktree.repository} {blocked}"
        return replace(known, how=_merge_commands(worktree), notes=taken.notes, blocked=told)
    dirty = await uncommitted_changes(main)
    found = await preview_merge(git, ours, taken.commit)
    overlaps = await overlapping_changes(main, ours, taken.commit, found, dirty)
    if not (await git.run("merge-base", "--is-ancestor", ours, taken.commit)).ok:
        overlaps += sorted(await staged_files(main, ours) - {*overlaps})
    notes = list(taken.notes)
    against = await with_open_changes(main, ours, overlaps) if overlaps else ours
    if overlaps:
        found = await preview_merge(git, against, taken.commit) if against else MergePreview("unknown")
        where = f"changed and not committed in {worktree.repository}"
        notes.append(f"{where}, so commit or stash first: {first_names(overlaps)}")
    if not dirty.known:
        notes.append(f"whether {worktree.repository} has uncommitted changes could not be seen")
    return replace(
        known,
        merges=found.state,
        conflicts=tuple(map(printable, _as_merged(found.conflicts, against, taken.commit, worktree.branch))),
        overlaps=tuple(map(printable, overlaps)),
        how=_merge_commands(worktree),
        notes=tuple(notes),
    )


def _merge_commands(worktree: Worktree) -> tuple[str, ...]:
    there, branch = shlex.quote(str(worktree.repository)), worktree.branch
    patch = patch_command(
        str(worktree.repository), worktree.first if worktree.mixed else worktree.base, branch
    )
    if worktree.mixed:  # a merge would commit a person's uncommitted changes
        return (patch,)
    if worktree.after:  # a patch would lack the changes that it began with
        return (f"git -C {there} merge {branch}",)
    return (f"git -C {there} merge {branch}", patch)


def patch_command(repository: str, first: str, branch: str) -> str:
    """The command that applies a branch's changes since a commit to the files, without committing."""
    there = shlex.quote(repository)
    return f"git -C {there} diff --binary {first[:12]} {branch} | git -C {there} apply --3way"


def _as_merged(conflicts: Iterable[bytes], ours: str, theirs: str, branch: str) -> Iterator[bytes]:
    """The names of conflicts as a merge of the branch gives them; a taken name gets its side appended."""
    sides = {f"~{ours}".encode(): b"~HEAD", f"~{theirs}".encode(): f"~{branch.replace('/', '_')}".encode()}
    for path in conflicts:
        side = next((each for each in sides if path.endswith(each)), b"")
        yield path.removesuffix(side) + sides.get(side, b"")


async def _committed(git: Git, worktree: Worktree) -> _Commit:
    """All contents of the worktree as a commit on its branch; the base itself if nothing was changed."""
    index = worktree.git_dir / "gencode-index.new"
    lock = worktree.git_dir / "gencode-index.new.lock"
    try:
        taken = await _taken(git, worktree, index)
        notes = await _on_branch(git, worktree, taken.commit)
        if taken.commit != worktree.base:
            with suppress(OSError):  # only a cache of git
                index.replace(worktree.git_dir / "index")
        return replace(taken, notes=(*taken.notes, *notes))
    finally:
        index.unlink(missing_ok=True)
        lock.unlink(missing_ok=True)


async def _taken(git: Git, worktree: Worktree, index: Path) -> _Commit:
    """All contents of the worktree as a commit on no branch."""
    head = await git.output_line("rev-parse", "--verify", "--quiet", "HEAD^{commit}") or worktree.base
    await begin_index(git, worktree, head, index)
    notes = await add_all(git, worktree.path, str(index))
    ignored = await ignored_files(git, str(index))
    tree = await git.run("write-tree", index=str(index))
    if not tree.ok:
        raise git_error(tree, f"The work in {worktree.path} cannot be committed")
    commit = head
    if tree.line != await git.output_line("rev-parse", "--verify", f"{head}^{{tree}}"):
        message = f"Work of an agent in {worktree.name}"
        made = await git.run("commit-tree", "--no-gpg-sign", tree.line, "-p", head, "-m", message)
        if not made.ok:
            raise git_error(made, f"The work in {worktree.path} cannot be committed")
        commit = made.line
    return _Commit(commit, tuple(notes), tuple(ignored))


async def snapshot_commit(worktree: Worktree) -> str:
    """The contents of a worktree as a commit, without a change to it or its branch; "" if it is gone."""
    there = worktree.path.is_dir() and worktree.git_dir.is_dir()
    if there:
        git = await safe_git(worktree.path, worktree.path, worktree.git_dir)
        with TemporaryDirectory(prefix="gencode-") as folder:
            inside = git.for_checkout(worktree.git_dir, worktree.path)
            return (await _taken(inside, worktree, Path(folder, "index"))).commit
    if not worktree.common_dir.is_dir():
        return ""
    git = await safe_git(worktree.common_dir, worktree.common_dir, worktree.common_dir)
    git = git.for_checkout(worktree.common_dir, worktree.common_dir)
    return await git.output_line(
        "rev-parse", "--verify", "--quiet", f"refs/heads/{worktree.branch}^{{commit}}"
    )


async def begin_index(git: Git, worktree: Worktree, head: str, index: Path) -> None:
    """An index at `head`, from the saved one: the agent's own may hide changes or be locked."""
    try:
        shutil.copy2(worktree.snapshot, index)
    except OSError:
        said = await git.run("read-tree", "--reset", head, index=str(index))
    else:
        said = await git.run("read-tree", "-m", worktree.base, head, index=str(index))
    if not said.ok:
        said = await git.run("read-tree", "--reset", head, index=str(index))
    if not said.ok:
        raise git_error(said, f"The work in {worktree.path} cannot be committed")


async def submodules_of(git: Git, index: str = "") -> list[bytes]:
    entries = (await git.run("ls-files", "--stage", "-z", most=MOST_ENTRIES, index=index)).names
    return [entry.partition(b"\t")[2] for entry in entries if entry.startswith(GITLINK)]


async def add_all(git: Git, folder: Path, index: str, where: str = IN_WORKTREE) -> list[str]:
    """Add everything to the index except nested repositories and very large files.

    The result says what was left out, and `where` it is.
    """
    notes: list[str] = []
    modules = await submodules_of(git, index)
    fresh = await git.run("ls-files", "--others", "--exclude-standard", "-z", index=index)
    if not fresh.ok:
        raise git_error(fresh, f"The new files in {folder} cannot be seen")
    nested = [name.rstrip(b"/") for name in fresh.names if name.endswith(b"/")]
    large = [name for name in fresh.names if _size(folder, name) > LARGEST_NEW_FILE]
    if filled := [name for name in modules if is_filled(folder, name)]:
        notes.append(f"what is in submodules stays {where}: {first_names(filled)}")
    if nested:
        notes.append(f"repositories made inside stay {where}: {first_names(nested)}")
    if large:
        notes.append(f"too large for a commit, {where}: {first_names(large)}")
    # A pattern that leaves out is the only way to keep git from looking into another repository.
    words = [b":/", *(b":(top,exclude,literal)" + name for name in (*modules, *nested, *large))]
    asked = ("--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
    stdin = b"".join(word + b"\0" for word in words)
    said = await git.run("add", "--all", *asked, stdin=stdin, seconds=ADD_SECONDS, index=index)
    if not said.ok and _SPARSE in said.error:
        # Only existing files: a missing one may never have been checked out.
        there = ("--ignore-removal", "--sparse", *asked)
        said = await git.run("add", *there, stdin=stdin, seconds=ADD_SECONDS, index=index)
    if not said.ok:
        reason = (said.error.splitlines() or ["no reason was given"])[0]
        notes.append(f"not everything could be committed, the rest is {where}: {reason[:200]}")
    return notes


async def _on_branch(git: Git, worktree: Worktree, commit: str) -> list[str]:
    """Move the branch to the commit and the worktree to the branch; no commit of a branch is dropped."""
    ref = f"refs/heads/{worktree.branch}"
    notes: list[str] = []
    tip = await git.output_line("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if tip and tip != commit and not (await git.run("merge-base", "--is-ancestor", tip, commit)).ok:
        spare = f"{ref}-earlier-{tip[:8]}"
        await _moved(git, spare, tip, "")
        notes.append(f"commits that are not in the last state are on {spare.removeprefix('refs/heads/')}")
    if tip != commit:
        await _moved(git, ref, commit, tip)
    if await git.output_line("symbolic-ref", "--quiet", "HEAD") != ref:
        await git.run_uninterrupted("symbolic-ref", "HEAD", ref)
    return notes


async def _moved(git: Git, ref: str, commit: str, before: str) -> None:
    said = await git.run_uninterrupted("update-ref", ref, commit, *([before] if before else []))
    if not said.ok:
        raise git_error(said, f"The branch {ref.removeprefix('refs/heads/')} cannot be written")


def _reasons_to_keep(worktree: Worktree) -> Iterator[str]:
    """Why a worktree with unchanged files is kept: something else in it or in its history was changed."""
    under_way = [name for name in _UNDER_WAY if (worktree.git_dir / name).exists()]
    if under_way:
        yield f"git was in the middle of something: {', '.join(under_way)}"
    if others := derived_worktrees(worktree.path):
        yield f"others were made from it: {', '.join(map(str, others[:_SHOWN]))}"
    try:
        commits = visited_commits(worktree)
    except OSError:
        yield "its history cannot be read"
        return
    if commits - {worktree.base}:
        yield "there were commits that are in no branch; see git reflog in it"
    if is_redirected(worktree):
        yield "its .git was changed"


def is_redirected(worktree: Worktree) -> bool:
    """Whether the `.git` of a worktree does not lead to git's own data about it."""
    try:
        pointer = (worktree.path / ".git").read_bytes()
    except OSError:
        return True
    return worktree.path / os.fsdecode(pointer.strip().removeprefix(b"gitdir: ")) != worktree.git_dir


def visited_commits(worktree: Worktree) -> set[str]:
    """Every commit that a worktree has been at; OSError if that cannot be read."""
    history = (worktree.git_dir / "logs" / "HEAD").read_bytes().splitlines()
    words = {word for line in history for word in line.split(b" ", 2)[:2]}
    return {word.decode() for word in words if _COMMIT.fullmatch(word) and word.strip(b"0")}


async def ignored_files(git: Git, index: str, where: str = IN_WORKTREE) -> list[str]:
    """Files that git ignores and no program recreates: they are only in the worktree."""
    said = await git.run("ls-files", "--others", "--ignored", "--exclude-standard", "-z", index=index)
    if not said.ok and not said.cut:
        return [f"ignored by git, {where}, if there is anything: that could not be seen"]
    own = [name for name in said.names if _CACHES.isdisjoint(os.fsdecode(name).split("/"))]
    many = " at least" if said.cut else ""
    return [f"ignored by git, {where}{many}: {first_names(own)}"] if own or said.cut else []


async def remove_unused(git: Git, worktree: Worktree) -> WorktreeResult:
    """Remove a worktree in which nothing was done, and its branch."""
    staged = await git.run("diff-index", "--cached", "--quiet", "--ignore-submodules=all", worktree.base)
    if not staged.ok:
        return WorktreeResult(
            True, worktree.base, merges="clean", notes=(f"something was staged; kept: {worktree.path}",)
        )
    common = replace(git, folder=worktree.common_dir, where=(f"--git-dir={worktree.common_dir}",))
    try:
        async with folder_lock(worktree.path.parent) as held:
            await remove_half_made(common, worktree.common_dir, worktree.path.parent, held)
            said = await common.run_uninterrupted("worktree", "remove", "--force", str(worktree.path))
            if not said.ok:
                note = str(git_error(said, f"{worktree.path} was not changed and could not be removed"))
                return WorktreeResult(True, worktree.base, merges="clean", notes=(note,))
            await common.run_uninterrupted("update-ref", "-d", f"refs/heads/{worktree.branch}", worktree.base)
        await asyncio.to_thread(retire_record, worktree.path)
    except (OSError, UserMistake) as error:
        return WorktreeResult(
            True, worktree.base, merges="clean", notes=(f"it could not be removed: {error}",)
        )
    return WorktreeResult(False, worktree.base, merges="clean", notes=("nothing was changed",))


def _size(folder: Path, name: bytes) -> int:
    try:
        return os.lstat(_below(folder, name)).st_size
    except OSError:
        return 0


def is_filled(folder: Path, name: bytes) -> bool:
    """Whether there is anything in a folder."""
    with suppress(OSError), os.scandir(_below(folder, name)) as found:
        return any(True for _ in found)
    return False


def _below(folder: Path, name: bytes) -> bytes:
    return os.fsencode(folder) + b"/" + name


def first_names(names: list[bytes]) -> str:
    said = ", ".join(printable(name) for name in names[:_SHOWN])
    return said if len(names) <= _SHOWN else f"{said} and {len(names) - _SHOWN} more"
