"""Applies a task's changes on a worker to the checkout it was sent from, or puts them on a branch.

Whether they apply is tested only in git's object store, in a part of it that is removed afterwards. They are
applied completely or not at all, to the files as they are, committed or not.
"""

import logging
import os
import shlex
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gencode.core import changes
from gencode.core.changes import ChangedFile, LostChanges, MergedChanges, Superseded
from gencode.core.errors import Fenced, UserMistake
from gencode.core.events import ChangesMoved
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.journal.folder_snapshot import (
    ReturnedChanges,
    SnapshotStore,
    as_reason,
    begins_behind,
    checked,
    mark_of,
)
from gencode.journal.owner import new_owner
from gencode.journal.store import Journal
from gencode.workspaces.transfer.checkout import (
    Checkout,
    checkout_at,
    has_commit,
    is_complete,
    make_commit,
    read_pack,
    scratch_objects,
    write_tree,
)
from gencode.workspaces.worktrees.compare_commits import MergePreview, changed_files, diff_text, preview_merge
from gencode.workspaces.worktrees.create import printable
from gencode.workspaces.worktrees.git import Git, git_error, run_to_end
from gencode.workspaces.worktrees.worktree import BRANCHES, Worktree, checked_name, lock_file

log = logging.getLogger(__name__)

MOST_PATCH = 256 << 20
APPLY_SECONDS = 120.0
LOCK_FILE = "gencode-applying.lock"
"""The lock file in git's folder of a checkout, held while changes are applied."""
LOCK_SECONDS = 300.0
_PREFIXES = ("--src-prefix=a/", "--dst-prefix=b/")
_WHOLLY = (
    "--binary",
    "--full-index",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "-r",
    "--ignore-submodules=none",
    "--submodule=short",
    "--end-of-options",
)
NOW = "What is in the checkout now"
TAKEN = frozenset({"applied", "there"})
"""The states of changes that no longer have to be merged."""

WriteCheck = Callable[[Path], bool]
"""Whether a file may be written without approval."""


class ApplyResult(Struct, frozen=True, rename="camel"):
    """The result of applying changes from elsewhere.

    `applied`: they are in the checkout now. `there`: all of them had been there already. `fits`: they could
    be applied. `offered`: they are on the branch. Otherwise nothing was done, and the branch is the one on
    which they could be had. `left` are files that exist only where the work was done.
    """

    state: Literal["applied", "there", "fits", "offered", "conflicts", "unknown"]
    checkout: str
    files: tuple[ChangedFile, ...] = ()
    more_files: int = 0
    conflicts: tuple[str, ...] = ()
    branch: str = ""
    diff: str = ""
    why: str = ""
    how: tuple[str, ...] = ()
    left: str = ""


class _Comparison(Struct, frozen=True):
    """The changes in git's store, and the checkout as it is now."""

    work: ReturnedChanges
    checkout: Checkout
    now: str
    found: MergePreview
    seen: ApplyResult


class ChangeApplier:
    """Applies changes to the checkout around a folder."""

    def __init__(self, folder: Path, snapshots: SnapshotStore) -> None:
        self._folder = folder
        self._snapshots = snapshots
        self.is_news = True
        """Whether the last result has to be reported: the changes were not merged before."""

    async def preview(self, work: ReturnedChanges, body: bytes) -> ApplyResult:
        """What `apply` would do; nothing is changed."""
        checkout = await checkout_at(self._folder)
        async with scratch_objects(checkout) as git:
            seen = (await self._compared(git, checkout, work, body)).seen
            if seen.state in {"there", "fits"}:
                return seen
            return replace(seen, branch=await _branch_for(git, work), how=(f"gen task merge {work.task}",))

    async def apply(
        self, work: ReturnedChanges, body: bytes, allowed: WriteCheck | None = None
    ) -> ApplyResult:
        """Apply the changes if they fit and every file may be written, else make a branch of them.

        The checkout is locked: otherwise a file written after the test would be overwritten.
        """
        checkout = await checkout_at(self._folder)
        async with checkout_lock(checkout) as held:
            async with scratch_objects(checkout) as git:
                home = await self._compared(git, checkout, work, body)
                mine = replace(git, held=held)
                arrived = await _apply(mine, home, allowed) if home.seen.state == "fits" else home.seen
            if arrived.state in {"applied", "there"}:
                self.is_news = await self._snapshots.taken(work.task, work.commit)
                return arrived
            return await self._on_branch(checkout, work, body, arrived)

    async def fetch(self, work: ReturnedChanges, body: bytes) -> None:
        """Get the changes into the repository, on no branch; UserMistake if they are incomplete."""
        checkout = await checkout_at(self._folder)
        await self._taken_in(checkout.git, work, body)

    async def put_on_branch(self, work: ReturnedChanges, body: bytes) -> str:
        """Put the changes on their own branch in the repository; its name."""
        checkout = await checkout_at(self._folder)
        arrived = await self._on_branch(checkout, work, body, ApplyResult("unknown", str(checkout.top)))
        return arrived.branch

    async def _compared(
        self, git: Git, checkout: Checkout, work: ReturnedChanges, body: bytes
    ) -> _Comparison:
        await self._taken_in(git, work, body)
        tree, _ = await write_tree(git, checkout)
        now = await make_commit(git, tree, [work.snapshot.tip], NOW)
        found = await preview_merge(git, now, work.commit)
        files, more = await changed_files(git, work.snapshot.tip, work.commit)
        seen = ApplyResult(
            state="conflicts" if found.state == "conflicts" else "unknown",
            checkout=str(checkout.top),
            files=tuple(change for _, change in files),
            more_files=more,
            conflicts=tuple(map(printable, found.conflicts)),
            diff=await diff_text(git, work.snapshot.tip, work.commit),
            left=work.left,
        )
        if found.state == "clean" and found.tree:
            seen = replace(seen, state="there" if found.tree == tree else "fits")
        return _Comparison(work, checkout, tree, found, seen)

    async def _taken_in(self, git: Git, work: ReturnedChanges, body: bytes) -> None:
        """Get both commits into the store: the one the task began at, and the one with its changes."""
        snapshot = checked(work.snapshot)
        checked(replace(snapshot, tip=work.commit))
        if not await is_complete(git, snapshot.tip):
            for commit in snapshot.known:
                if not await has_commit(git, commit):
                    raise UserMistake(
                        f"The repository around {self._folder} does not have the commit {commit[:12]}, from "
                        "which the task began; fetch it, or go to the checkout that has it."
                    )
            for name in snapshot.packs:
                pack = await self._snapshots.pack(name)
                if pack is None:
                    raise UserMistake("What the task began with is not in the database any more.")
                await read_pack(git, pack)
        if not await is_complete(git, work.commit):
            await read_pack(git, body)
        if not await has_commit(git, snapshot.tip) or not await is_complete(git, work.commit):
            raise UserMistake("The changes that came back from the task are incomplete.")

    async def _on_branch(
        self, checkout: Checkout, work: ReturnedChanges, body: bytes, seen: ApplyResult
    ) -> ApplyResult:
        """Make a branch in the repository for a person to merge."""
        git = checkout.git
        await self._taken_in(git, work, body)
        branch = await _branch_for(git, work)
        said = await git.run_uninterrupted("update-ref", f"refs/heads/{branch}", work.commit)
        if not said.ok:
            raise git_error(said, f"The branch {branch} cannot be written")
        how = _how(checkout, work, branch)
        return replace(seen, state="offered", branch=branch, how=how, why=seen.why or _why(seen))


async def merge_into_worktree(tree: Worktree, commit: str, since: str) -> str:
    """Merge the commits that one commit has and another one lacks into a worktree; why not, if they conflict.

    They are merged as commits where the worktree is clean and on its own branch, and else into its files.
    """
    checkout = await checkout_at(tree.path)
    there, known = (checkout.top, checkout.git_dir), (tree.path, tree.git_dir)
    if [*map(os.path.realpath, there)] != [*map(os.path.realpath, known)]:
        return f"the repository in it was redirected to {checkout.git_dir}"
    async with checkout_lock(checkout) as held, scratch_objects(checkout) as git:
        if await git.output_line("symbolic-ref", "--quiet", "HEAD") == f"refs/heads/{tree.branch}":
            forward = replace(checkout.git, held=held).run("merge", "--ff-only", "--quiet", commit)
            if (await run_to_end(forward)).ok:
                return ""
        now, _ = await write_tree(git, checkout)
        found = await preview_merge(git, await make_commit(git, now, [since], NOW), commit)
        if found.conflicts:
            return f"both were changed: {', '.join(map(printable, found.conflicts[:5]))}"
        if not found.tree:
            return "it is unknown whether both can be merged"
        return await _write_tree(replace(git, held=held), now, found.tree)


@asynccontextmanager
async def checkout_lock(checkout: Checkout) -> AsyncGenerator[tuple[int, ...]]:
    """The lock of a checkout, also between processes; gives its descriptors, for git."""
    path = checkout.git_dir / LOCK_FILE
    try:  # no link is followed, and opening a pipe does not wait for its reader
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise UserMistake(f"{path} cannot be written: {error.strerror}.") from None
    with os.fdopen(handle, "wb"):
        yield await lock_file(handle, f"taking work over into {checkout.top}", LOCK_SECONDS)


async def _apply(git: Git, home: _Comparison, allowed: WriteCheck | None) -> ApplyResult:
    """Write the result of a merge into the files of the checkout, if all of them may be written."""
    top = home.checkout.top
    changes, more = await changed_files(git, home.now, home.found.tree)
    refused = [printable(path) for path, _ in changes if allowed and not allowed(top / os.fsdecode(path))]
    if refused or (more and allowed):
        rest = ", …" if len(refused) > 5 or more else ""
        return replace(
            home.seen, why=f"these files need approval to be changed: {', '.join(refused[:5])}{rest}"
        )
    why = await _write_tree(git, home.now, home.found.tree)
    return replace(home.seen, why=why) if why else replace(home.seen, state="applied")


async def _write_tree(git: Git, now: str, wanted: str) -> str:
    """Write one tree into the files of a checkout that hold another; if that fails, why."""
    if now == wanted:
        return ""
    words = ("diff-tree", "-p", *_PREFIXES, *_WHOLLY, now, wanted)
    patch = await git.run(*words, seconds=APPLY_SECONDS, most=MOST_PATCH)
    if not patch.ok:
        return str(git_error(patch, "It cannot be told as a patch"))
    apply = git.run("apply", "--whitespace=nowarn", "-", stdin=patch.out, seconds=APPLY_SECONDS)
    said = await run_to_end(apply)
    return "" if said.ok else str(git_error(said, "It could not be applied"))


async def _branch_for(git: Git, work: ReturnedChanges) -> str:
    """The branch for changes: that of their task, or a new one if it is in use."""
    branch = BRANCHES + checked_name(work.task)
    about = await git.output_line(
        "for-each-ref", "--format=%(objectname) %(worktreepath)", f"refs/heads/{branch}"
    )
    before, _, tree = about.partition(" ")
    above = not before or (await git.run("merge-base", "--is-ancestor", before, work.commit)).ok
    # A worktree that is on it would have the files of another commit.
    return f"{branch}-{work.commit[:8]}" if tree or not above else branch


def _why(seen: ApplyResult) -> str:
    if seen.state == "conflicts":
        return f"a merge would conflict in: {', '.join(seen.conflicts)}"
    return "it is unknown whether it can be merged"


def _how(checkout: Checkout, work: ReturnedChanges, branch: str) -> tuple[str, ...]:
    """The commands that merge them, as for worktrees."""
    there, snapshot = shlex.quote(str(checkout.top)), work.snapshot
    patch = f"git -C {there} diff --binary {snapshot.tip[:12]} {branch}"
    by_patch = f"{patch} | git -C {there} apply --3way"
    return (f"git -C {there} merge {branch}", by_patch) if snapshot.tip == snapshot.head else (by_patch,)


def describe_result(arrival: ApplyResult) -> Iterator[str]:
    """Where the changes are now, and what to do if they could not be applied."""
    match arrival.state:
        case "applied" | "there" | "offered":
            yield from changes.describe_changes(_moved(arrival)).splitlines()
        case "fits":
            yield f"Its changes can be applied in {arrival.checkout} as things are."
        case _:
            known = f"A merge would conflict in: {', '.join(arrival.conflicts)}."
            unknown = "It is unknown whether it can be merged."
            yield known if arrival.state == "conflicts" else unknown
            for command in arrival.how:
                yield f"To have it on the branch {arrival.branch}, with the commands that merge it: {command}"


def _moved(arrival: ApplyResult) -> MergedChanges:
    where, why = arrival.checkout, as_reason(arrival.why)
    match arrival.state:
        case "applied" | "there":
            return MergedChanges(arrival.state, where)
        case _:
            return MergedChanges("offered", where, arrival.branch, why, arrival.how)


async def missing_changes_notice(snapshots: SnapshotStore, task: Task) -> str:
    """A note before a task is resumed here without its changes; usually empty."""
    found = await snapshots.returned(task.id) if task.status.ended else None
    behind = begins_behind(found[0], mark_of(task.cwd)) if found else None
    return behind.user_note() if behind is not None else ""


async def record_result(journal: Journal, task: str, arrival: ApplyResult) -> None:
    """Record what became of the changes of a task; merged ones are no longer offered."""
    await _record(journal, task, _moved(arrival), "offers" if arrival.state in TAKEN else "")


async def record_failure(journal: Journal, task: str, why: str) -> None:
    """Record why the changes of a task did not arrive; they are offered as before."""
    await _record(journal, task, LostChanges(task, as_reason(why)), "")


async def _record(
    journal: Journal, task: str, change: MergedChanges | LostChanges, supersedes: Superseded
) -> None:
    try:
        lease = await journal.take(task, new_owner())
        await journal.append(lease, [ChangesMoved(change, supersedes)], last=True)
    except (UserMistake, Fenced) as busy:
        log.info("what became of the changes of task %s was not noted: %s", task, busy)
