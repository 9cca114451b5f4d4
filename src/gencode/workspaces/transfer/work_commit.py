"""Commits an agent's changes in a worker's copy, on top of what was sent and of its own commits.

The objects of its repository are checked in a temporary place. Only a pack that git has checked object by
object gets into the mirror.
"""

import asyncio
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.structs import replace
from gencode.journal.folder_snapshot import MOST_PACK, as_reason
from gencode.workspaces.transfer.checkout import is_complete, make_pack, quoted_path, read_pack
from gencode.workspaces.transfer.copy_repository import CopyContents, read_repository, remove_repository
from gencode.workspaces.transfer.excluded_files import (
    added_secrets,
    exclude,
    exclusion_steps,
    hold_back_secrets,
    largest_contents,
)
from gencode.workspaces.worktrees.agent_work import (
    WorktreeResult,
    add_all,
    first_names,
    ignored_files,
    remove_unused,
)
from gencode.workspaces.worktrees.compare_commits import changed_files, diff_text
from gencode.workspaces.worktrees.git import Git, git_error, safe_git
from gencode.workspaces.worktrees.worktree import Worktree

_IN_COPY = "in the copy only"
_ONLY_HERE = f"stays {_IN_COPY}"
_UNREAD = "what was committed in it and is not in its files " + _ONLY_HERE
_ELSEWHERE = "what was committed on other branches " + _ONLY_HERE
_NOWHERE = "what was committed, stashed or staged in it and is in no file " + _ONLY_HERE
_WITH_KEYS = "what looks like a key was committed in it"
_TOO_HEAVY = f"too large to send with the rest, {_IN_COPY}"


class _TooLarge(UserMistake):
    """A pack is too large to be sent; without its largest files it may not be."""


class CommittedCopy(Struct, frozen=True):
    """The commits of a copy: `work`, the pack with them, and the commit that its agent was at.

    `lacking` says why there is no pack of work that was done, `left` which files are too large for the pack.
    """

    work: WorktreeResult
    body: bytes = b""
    head: str = ""
    lacking: str = ""
    left: str = ""


class _Scratch(Struct, frozen=True):
    """Where the commit is made: git for the copy that writes nowhere else, and the commit it began at."""

    git: Git
    tree: Worktree
    first: str
    objects: Path
    index: str


async def commit_copy(tree: Worktree, mirror: Git) -> CommittedCopy:
    """All contents of a copy, in the mirror. An unchanged copy is removed, anything else is kept.

    UserMistake if git cannot be used there; then everything stays as it is.
    """
    if not tree.git_dir.is_dir() or not tree.path.is_dir():
        gone = f"{tree.path} or its repository is gone; its work is unknown"
        return CommittedCopy(WorktreeResult(True, notes=(gone,)))
    git = (await safe_git(tree.path, tree.path, tree.git_dir)).for_checkout(tree.git_dir, tree.path)
    # In git's own folder of the copy, so that what a killed worker leaves goes with the copy.
    with TemporaryDirectory(prefix="gencode-", dir=tree.git_dir, ignore_cleanup_errors=True) as folder:
        objects = Path(folder, "objects")
        first = await git.output_line("rev-parse", "--verify", "--quiet", "HEAD^{commit}") or tree.base
        desk = _Scratch(_scratch_git(git, objects, tree), tree, first, objects, str(Path(folder, "index")))
        try:
            taken = await asyncio.to_thread(read_repository, tree, objects)
            await _indexed(desk.git, taken.packs)
        except UserMistake as mistake:
            return await _by_files(desk, mirror, str(mistake))
        head = await desk.git.output_line("rev-parse", "--verify", "--quiet", f"{taken.head}^{{commit}}")
        if taken.objects and not head:
            return await _by_files(desk, mirror, "its HEAD names no commit that is there")
        if head and await added_secrets(desk.git, first, head):
            return await _by_files(desk, mirror, _WITH_KEYS)
        return await _finished(desk, mirror, replace(taken, head=head))


def _scratch_git(git: Git, objects: Path, tree: Worktree) -> Git:
    """Git that puts new objects elsewhere, and ignores replacements."""
    more = {
        "GIT_OBJECT_DIRECTORY": str(objects),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted_path(tree.common_dir / "objects"),
        "GIT_NO_REPLACE_OBJECTS": "1",
    }
    return replace(git, environ={**git.environ, **more})


async def _indexed(git: Git, packs: Sequence[Path]) -> None:
    """Index packs again; their own indexes may be wrong."""
    for pack in packs:
        said = await git.run("index-pack", str(pack))
        if not said.ok:
            raise git_error(said, "a pack in it is not sound")


async def _by_files(desk: _Scratch, mirror: Git, why: str) -> CommittedCopy:
    """A commit of the files alone, without anything from the agent's repository."""
    await asyncio.to_thread(shutil.rmtree, desk.objects)
    (desk.objects / "pack").mkdir(parents=True)
    return await _finished(desk, mirror, CopyContents(), (f"{_UNREAD}, because {as_reason(why)}",))


async def _finished(
    desk: _Scratch, mirror: Git, taken: CopyContents, notes: tuple[str, ...] = ()
) -> CommittedCopy:
    tree = desk.tree
    commit, left_out, ignored = await _committed(desk, taken.head)
    if commit == tree.base:
        notes = (_NOWHERE, *notes) if taken.objects else notes
        if not (left_out or ignored or notes):
            return CommittedCopy(await _removed(desk, mirror))
        told = (*left_out, *ignored, *notes, f"it is kept: {tree.path}")
        return CommittedCopy(
            WorktreeResult(True, commit, merges="clean", notes=told, left=(*left_out, *notes))
        )
    body, why = await _packed(desk, mirror, commit)
    if why and taken.head and not notes:  # perhaps only intermediate commits are the problem
        own = not await _leads_to(desk.git, desk.first, taken.head)
        if own or not isinstance(why, _TooLarge):
            return await _by_files(desk, mirror, str(why))
    left = ""
    if isinstance(why, _TooLarge) and (light := await _without_large_files(desk, mirror, commit)):
        commit, body, left = light
        why, notes = None, (*notes, f"{_TOO_HEAVY}: {left}")
    if others := await _others(desk, taken, commit):
        notes += (f"{_ELSEWHERE}: {first_names([os.fsencode(name) for name in others])}",)
    told = (*left_out, *ignored, *notes)
    work = replace(await _told(desk, commit), notes=told, left=(*left_out, *notes))
    return CommittedCopy(work, body, taken.head, str(why or ""), left)


async def _committed(desk: _Scratch, theirs: str) -> tuple[str, list[str], list[str]]:
    """A commit with all contents of the copy, what could not be put into it, and what git ignores."""
    git, first = desk.git, desk.first
    parents = await _parents(git, first, theirs)
    await _begin_index(desk, parents)
    notes = await add_all(git, desk.tree.path, desk.index, _IN_COPY)
    notes += [f"kept {_IN_COPY}: {each}" for each in await hold_back_secrets(git, first, desk.index)]
    ignored = await ignored_files(git, desk.index, _IN_COPY)
    return await _written(desk, parents), notes, ignored


async def _written(desk: _Scratch, parents: Sequence[str]) -> str:
    """The index as a commit; its parent, if nothing differs."""
    git = desk.git
    tree = await git.run("write-tree", index=desk.index)
    if not tree.ok:
        raise git_error(tree, f"The work in {desk.tree.path} cannot be committed")
    same = await git.output_line("rev-parse", "--verify", f"{parents[0]}^{{tree}}") == tree.line
    if same and len(parents) == 1:
        return parents[0]
    above = [word for parent in parents for word in ("-p", parent)]
    message = f"Work of an agent in {desk.tree.name}"
    made = await git.run("commit-tree", "--no-gpg-sign", tree.line, *above, "-m", message)
    if not made.ok:
        raise git_error(made, f"The work in {desk.tree.path} cannot be committed")
    return made.line


async def _without_large_files(desk: _Scratch, mirror: Git, commit: str) -> tuple[str, bytes, str] | None:
    """A commit without what is too large, its pack, and what was left out; None if nothing remains.

    What was sent before is included in any case.
    """
    for heavy in exclusion_steps(await largest_contents(desk.git, desk.first, commit)):
        await exclude(desk.git, heavy, desk.index)
        light = await _written(desk, [desk.first])
        if light == desk.tree.base:
            return None
        body, why = await _packed(desk, mirror, light)
        if not why:
            return light, body, first_names(sorted(name for each in heavy for name in each.names))
        if not isinstance(why, _TooLarge):
            return None
    return None


async def _parents(git: Git, first: str, theirs: str) -> list[str]:
    """The parents: what the copy was made from, and the agent's own commits, if there are any."""
    if not theirs or await _leads_to(git, first, theirs):
        return [first]
    return [theirs] if await _leads_to(git, theirs, first) else [first, theirs]


async def _leads_to(git: Git, commit: str, earlier: str) -> bool:
    return (await git.run("merge-base", "--is-ancestor", earlier, commit)).ok


async def _begin_index(desk: _Scratch, parents: Sequence[str]) -> None:
    """An index with all files that git knows in the copy, ignored or not; the agent's own may hide some.

    Their contents do not matter here: those of the files are added next.
    """
    git, index, first = desk.git, desk.index, desk.first
    with suppress(OSError):
        shutil.copy2(desk.tree.snapshot, index)
    said = await git.run("read-tree", "-m", first, index=index)
    if not said.ok:
        said = await git.run("read-tree", "--reset", first, index=index)
    if not said.ok:
        raise git_error(said, f"The work in {desk.tree.path} cannot be committed")
    if parents[-1] != first:
        base = await git.output_line("merge-base", first, parents[-1]) or await git.output_line("mktree")
        await git.run("read-tree", "-i", "-m", "--aggressive", base, first, parents[-1], index=index)


async def _packed(desk: _Scratch, mirror: Git, commit: str) -> tuple[bytes, UserMistake | None]:
    """The pack of a commit, once it is in the mirror with the copy's branch at it; if that fails, why."""
    try:
        body = await make_pack(desk.git, commit, [desk.tree.base])
        if body is None:
            return b"", _TooLarge(f"it is larger than {MOST_PACK >> 20} MiB")
        await _brought(desk, mirror, commit, body)
    except UserMistake as mistake:
        return b"", mistake
    return body, None


async def _brought(desk: _Scratch, mirror: Git, commit: str, body: bytes) -> None:
    if not await is_complete(mirror, commit, [desk.tree.base]):
        await read_pack(mirror, body)
        if not await is_complete(mirror, commit, [desk.tree.base]):
            raise UserMistake("it is not all there")
    said = await mirror.run_uninterrupted("update-ref", f"refs/heads/{desk.tree.branch}", commit)
    if not said.ok:
        raise git_error(said, f"The branch {desk.tree.branch} cannot be written")
    with suppress(OSError):  # only a cache of git
        shutil.copy2(desk.index, desk.tree.git_dir / "index")


async def _told(desk: _Scratch, commit: str) -> WorktreeResult:
    base = desk.tree.base
    files, more = await changed_files(desk.git, base, commit)
    diff = await diff_text(desk.git, base, commit)
    return WorktreeResult(True, commit, diff, tuple(change for _, change in files), more)


async def _others(desk: _Scratch, taken: CopyContents, commit: str) -> list[str]:
    """Branches, tags and stashes with commits that are not included."""
    wanted = [*{*taken.refs.values()} - {commit, desk.tree.base, desk.first, taken.head}]
    if not wanted:
        return []
    words = "".join(f"{each}\n" for each in (*wanted, f"^{commit}", f"^{desk.first}"))
    said = await desk.git.run("rev-list", "--max-count=1", "--stdin", stdin=words.encode())
    if said.ok and not said.out:
        return []
    return [name for name, each in taken.refs.items() if not await _leads_to(desk.git, commit, each)]


async def _removed(desk: _Scratch, mirror: Git) -> WorktreeResult:
    """Remove a copy in which nothing was done."""
    try:
        await asyncio.to_thread(remove_repository, desk.tree)
    except (OSError, RecursionError) as error:
        note = f"it could not be removed: {error}"
        return WorktreeResult(True, desk.tree.base, merges="clean", notes=(note,))
    return await remove_unused(mirror.for_checkout(desk.tree.git_dir, desk.tree.path), desk.tree)
