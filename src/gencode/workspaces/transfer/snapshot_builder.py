"""Builds the snapshot of a folder for a worker to copy. Nothing in it is changed, and no secret is sent."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.place import FolderCopy
from gencode.core.structs import replace
from gencode.journal.folder_snapshot import (
    MOST_COMMITS,
    MOST_ORIGINALS,
    MOST_PACK,
    FolderSnapshot,
    SnapshotStore,
    repository_around,
    safe_remote,
)
from gencode.permissions.trust import standing
from gencode.workspaces.transfer.checkout import (
    Checkout,
    checkout_at,
    make_commit,
    make_pack,
    repository_key,
    scratch_objects,
    write_commit_tree,
    write_tree,
)
from gencode.workspaces.transfer.excluded_files import added_secrets, largest_contents
from gencode.workspaces.worktrees.create import printable
from gencode.workspaces.worktrees.git import Git, git_error
from gencode.workspaces.worktrees.worktree import read_record

MOST_CHANGED = 256 << 20
"""The most bytes of uncommitted files that are read."""
_STATUS = (
    "status",
    "--porcelain",
    "-z",
    "--no-renames",
    "--untracked-files=all",
    "--ignore-submodules=all",
)
_MOST_STATUS = 8 << 20
UNCOMMITTED = "What was not committed when the task was sent"
NO_HISTORY = "its history is too large to send and was left out"
SHALLOW = "its history is not all here (a shallow clone) and was left out"


class EnclosingCopy(Struct, frozen=True):
    """Says that a folder is in a copy: how that was sent, and what it is a copy of."""

    snapshot: FolderSnapshot
    copied: FolderCopy


class _Upstream(Struct, frozen=True):
    """The commits that a remote has, which need not be sent, and the branch they are on."""

    remote: str = ""
    branch: str = ""
    known: tuple[str, ...] = ()


class SnapshotBuilder:
    """Packs one folder repeatedly. What has not changed since the last time is not packed again."""

    def __init__(
        self, folder: Path, home: Path, snapshots: SnapshotStore, around: EnclosingCopy | None = None
    ) -> None:
        self._folder = folder
        self._home = home
        self._snapshots = snapshots
        self._around = around
        self._last: tuple[str, FolderSnapshot] | None = None

    async def build(self) -> FolderSnapshot:
        """The folder as it is now. UserMistake says why it cannot be sent."""
        checkout = await checkout_at(self._folder)
        if self._around is not None and checkout.top != repository_around(checkout.cwd):
            raise UserMistake(f"the repository in {self._folder} was redirected to {checkout.top}")
        head = await checkout.git.output_line("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        changed = await _changed(checkout)
        look = _fingerprint(head, checkout, changed)
        trusted = _trusted(checkout.cwd, self._home)
        if self._last is not None and self._last[0] == look:
            snapshot = self._last[1]
            if not await self._snapshots.lacking(snapshot.packs):
                return replace(snapshot, trusted=trusted)
        begun = self._begun(checkout)
        first = await _without_keys(checkout.git, begun, head) if begun else head
        upstream = await _upstream(checkout.git, first, self._around) if first else _Upstream()
        clean = bool(head) and not changed and first == head
        at = first if first != head else ""
        snapshot = await _build(checkout, first, upstream, self._snapshots, clean=clean, at=at)
        if self._around is not None:
            key, earlier = self._around.snapshot.key, self._around.copied.originals[:MOST_ORIGINALS]
            snapshot = replace(snapshot, key=key, earlier=earlier)
        self._last = (look, snapshot)
        return replace(snapshot, trusted=trusted)

    def _begun(self, checkout: Checkout) -> str:
        """The commit that an agent began at; later ones are its own. Empty in a person's checkout."""
        if self._around is not None:
            sent = self._around.snapshot
            return sent.start_head or sent.head or sent.tip
        tree = read_record(checkout.top)
        return "" if tree is None or tree.away else tree.first


async def snapshot_worktree(
    path: Path, folder: Path, home: Path, snapshots: SnapshotStore, *, with_work: bool = True
) -> FolderSnapshot | None:
    """A folder as an agent's worktree here began, with or without its changes; None if it is gone.

    Files trusted in the folder itself are trusted in it. UserMistake if its agent replaced the checkout, or
    it belongs to another repository.
    """
    tree = read_record(path)
    if tree is None or tree.away or not tree.path.is_dir():
        return None
    checkout, original = await checkout_at(tree.workspace.cwd), await checkout_at(folder)
    there, known = (checkout.top, checkout.git_dir), (tree.path, tree.git_dir)
    if [*map(os.path.realpath, there)] != [*map(os.path.realpath, known)]:
        raise UserMistake(f"the repository in {tree.path} was redirected to {checkout.git_dir}")
    if checkout.common_dir != original.common_dir:
        raise UserMistake(f"{tree.path} is no worktree of the repository around {folder}")
    base = await _without_keys(checkout.git, tree.first, tree.base)
    upstream = await _upstream(checkout.git, base, None)
    snapshot = await _build(checkout, base, upstream, snapshots, clean=True)
    snapshot = replace(snapshot, trusted=_trusted(original.cwd, home))
    if with_work or base != tree.base:
        at = "" if with_work else tree.base
        return await _with_work(checkout, base, snapshot, snapshots, at=at)
    return snapshot


async def snapshot_branch(
    branch: str, folder: Path, home: Path, snapshots: SnapshotStore, *, with_work: bool = True
) -> FolderSnapshot | None:
    """The same for a worktree that another machine made of the repository, from its branch."""
    checkout = await checkout_at(folder)
    tip = await checkout.git.output_line(
        "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}"
    )
    base = await checkout.git.output_line("merge-base", "HEAD", tip) if tip else ""
    if not base:
        return None
    upstream = await _upstream(checkout.git, base, None)
    snapshot = await _build(checkout, base, upstream, snapshots, clean=True)
    snapshot = replace(snapshot, trusted=_trusted(checkout.cwd, home))
    return await _with_work(checkout, base, snapshot, snapshots, at=tip) if with_work else snapshot


async def _with_work(
    checkout: Checkout, base: str, snapshot: FolderSnapshot, snapshots: SnapshotStore, *, at: str
) -> FolderSnapshot:
    """The snapshot of a worktree with the changes since a commit, or only those up to `at`."""
    async with scratch_objects(checkout) as git:
        head = "" if at else await git.output_line("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        head = await _without_keys(git, base, head) if head and snapshot.head else base
        tree, notes = await (write_commit_tree(git, at, base) if at else write_tree(git, checkout, head))
        if not snapshot.head:
            first = await git.output_line("rev-parse", "--verify", f"{base}^{{tree}}")
            base = head = await make_commit(git, first, [], UNCOMMITTED)
        same = await git.output_line("rev-parse", "--verify", f"{head}^{{tree}}") == tree
        start = head if same else await make_commit(git, tree, [head], UNCOMMITTED)
        notes = [*snapshot.notes, *(f"not sent: {note}" for note in notes)]
        snapshot = replace(snapshot, notes=tuple(notes))
        if start == base:
            return snapshot
        pack = await _kept(git, f"s{start}", start, [base], snapshots)
        if pack is None:
            raise await _too_large(git, checkout.top, base, start)
        own = head if head != base else ""
        return replace(snapshot, start=start, start_head=own, packs=(*snapshot.packs, pack))


async def _without_keys(git: Git, first: str, head: str) -> str:
    """A commit of an agent; the `first` one if anything like a key was committed since, even if removed.

    The commits in between are then sent as one.
    """
    return first if await added_secrets(git, first, head) else head


async def _changed(checkout: Checkout) -> list[bytes]:
    """The uncommitted files; UserMistake if they are too many or too large."""
    said = await checkout.git.run(*_STATUS, most=_MOST_STATUS)
    too_much = f"too much in {checkout.top} is neither committed nor ignored"
    if said.cut:
        raise UserMistake(f"{too_much}: more files than can be listed")
    if not said.ok:
        raise git_error(said, f"What was changed in {checkout.top} cannot be seen")
    names = [entry[3:] for entry in said.names]
    found = [(_seen(_below(checkout.top, name)), name) for name in names]
    sizes = [(seen.st_size, name) for seen, name in found if seen]
    size = sum(each for each, _ in sizes)
    if size > MOST_CHANGED:
        largest, name = max(sizes)
        raise UserMistake(
            f"{too_much}: {_size(size)}, of it {_size(largest)} in {printable(name)}; at most "
            f"{_size(MOST_CHANGED)} can be sent"
        )
    return names


def _fingerprint(head: str, checkout: Checkout, changed: Sequence[bytes]) -> str:
    """A fingerprint that is the same for an unchanged folder, by one call of git and the times of files."""
    told = hashlib.sha256(f"{head}\0{checkout.cwd}\0".encode(errors="surrogateescape"))
    for name in changed:
        seen = _seen(_below(checkout.top, name))
        told.update(name + b"\0")
        if seen is not None:
            told.update(f"{seen.st_mode} {seen.st_size} {seen.st_mtime_ns} {seen.st_ino}\0".encode())
    return told.hexdigest()


def _below(folder: Path, name: bytes) -> bytes:
    return os.fsencode(folder) + b"/" + name


def _seen(path: bytes) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _trusted(folder: Path, home: Path) -> dict[str, str]:
    """The folder's own files and those they start, if exactly these are trusted here."""
    found = standing(folder, home)
    return {**found.brought.files, **found.started} if found.trusted else {}


async def _build(
    checkout: Checkout, head: str, upstream: _Upstream, snapshots: SnapshotStore, *, clean: bool, at: str = ""
) -> FolderSnapshot:
    async with scratch_objects(checkout) as git:
        notes: list[str] = []
        tree, tip = "", head
        if not clean:
            tree, notes = await write_tree(git, checkout, at)
            tip = await make_commit(git, tree, [head] if head else [], UNCOMMITTED)
        snapshot = FolderSnapshot(
            key=repository_key(checkout, upstream.remote),
            tip=tip,
            head=head,
            below=str(checkout.cwd.relative_to(checkout.top)),
            remote=upstream.remote,
            branch=upstream.branch,
            known=upstream.known,
            notes=tuple(f"not sent: {note}" for note in notes),
            home=home if (home := str(Path.home())).isprintable() else "",
        )
        packs = await _history(git, snapshot, snapshots)
        if packs is None:
            tree = tree or await git.output_line("rev-parse", "--verify", f"{head}^{{tree}}")
            why = SHALLOW if await _is_shallow(git) else NO_HISTORY
            snapshot = replace(snapshot, notes=(*snapshot.notes, why))
            return await _without_history(git, snapshot, tree, snapshots, checkout.top)
        if tip != head and (pack := await _kept(git, f"s{tip}", tip, packs[1], snapshots)):
            return replace(snapshot, packs=(*packs[0], pack))
        if tip != head:
            raise await _too_large(git, checkout.top, head, tip)
        return replace(snapshot, packs=packs[0])


async def _history(
    git: Git, snapshot: FolderSnapshot, snapshots: SnapshotStore
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The pack of the history, if any is needed, and the commits that a worker then has.

    None if it is too large, or the history is incomplete here.
    """
    if not snapshot.head or snapshot.head in snapshot.known:
        return (), snapshot.known
    if await _is_shallow(git):
        return None
    above = hashlib.sha256(" ".join(snapshot.known).encode()).hexdigest()[:16]
    name = f"h{snapshot.head}-{above}" if snapshot.known else f"h{snapshot.head}"
    pack = await _kept(git, name, snapshot.head, snapshot.known, snapshots)
    return None if pack is None else ((pack,), (snapshot.head,))


async def _without_history(
    git: Git, snapshot: FolderSnapshot, tree: str, snapshots: SnapshotStore, top: Path
) -> FolderSnapshot:
    """The same with one commit without a history."""
    tip = await make_commit(git, tree, [], UNCOMMITTED)
    pack = await _kept(git, f"t{tip}", tip, (), snapshots)
    if pack is None:
        raise await _too_large(git, top, snapshot.head, tip)
    return replace(snapshot, tip=tip, head="", remote="", branch="", known=(), packs=(pack,))


async def _is_shallow(git: Git) -> bool:
    return await git.output_line("rev-parse", "--is-shallow-repository") == "true"


async def _kept(
    git: Git, name: str, commit: str, without: Sequence[str], snapshots: SnapshotStore
) -> str | None:
    """The name of a pack that is in the database now; None if it is too large for that."""
    if await snapshots.lacking([name]):
        body = await make_pack(git, commit, without)
        if body is None:
            return None
        await snapshots.keep(name, body)
    return name


async def _too_large(git: Git, top: Path, head: str, tip: str) -> UserMistake:
    """What is too large, and the remedy: a remote does not help for uncommitted files."""
    large = (await largest_contents(git, await git.output_line("mktree"), tip))[:1]
    changed = await largest_contents(git, head, tip) if head and head != tip else []
    fresh = not head or any({*large[0].names} & {*each.names} for each in changed if large)
    most = f", most of it in {printable(large[0].names[0])} ({_size(large[0].size)})" if large else ""
    push = "to a remote that the workers can reach"
    way = f"Ignore it, or commit it and push it {push}" if fresh else f"Push the commit {push}"
    return UserMistake(
        f"{top} is too large to send: packed it has more than {_size(MOST_PACK)}{most}, which is "
        f"{'not ' if fresh else ''}committed. {way}, or use workers that share the folder"
    )


def _size(octets: int) -> str:
    return f"{octets >> 20} MiB" if octets >> 20 else f"{-(-octets >> 10)} KiB"


async def _upstream(git: Git, head: str, around: EnclosingCopy | None) -> _Upstream:
    """The part of a commit's history that a remote with a safe address has, as far as is known here.

    A copy has no remotes. What the remote of its original has is in what was sent of it.
    """
    if around is not None:
        sent = around.snapshot
        above = [await git.run("merge-base", "--is-ancestor", known, head) for known in sent.known]
        same = bool(sent.remote and above) and all(said.ok for said in above)
        return _Upstream(sent.remote, sent.branch, sent.known) if same else _Upstream()
    names = sorted((await git.output_line("remote")).splitlines(), key=lambda name: (name != "origin", name))
    for name in names[:MOST_COMMITS]:
        address = safe_remote(await git.output_line("remote", "get-url", name))
        if not address or address.startswith("file:"):  # a path on this disk is of no use to others
            continue
        if branch := await _branch_with(git, name, head):
            return _Upstream(address, branch, (head,))
        edge = await git.run("rev-list", "--boundary", head, "--not", f"--remotes={name}")
        shared = [line[1:] for line in edge.line.splitlines() if line.startswith("-")] if edge.ok else []
        if 0 < len(shared) <= MOST_COMMITS and (branch := await _branch_with(git, name, shared[0])):
            return _Upstream(address, branch, tuple(shared))
    return _Upstream()


async def _branch_with(git: Git, remote: str, commit: str) -> str:
    """A branch of a remote that has a commit."""
    below = f"refs/remotes/{remote}/"
    words = ("for-each-ref", "--count=20", f"--contains={commit}", "--format=%(refname)")
    found = (await git.output_line(*words, below)).splitlines()
    branches = [name.removeprefix(below) for name in found]
    return next((branch for branch in branches if branch != "HEAD"), "")
