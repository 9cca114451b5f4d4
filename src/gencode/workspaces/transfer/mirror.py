"""Bare mirrors of repositories on a worker, with each object fetched once.

Nothing of a repository runs here: no hook, filter or submodule, and no transport but https, ssh and file. The
worker's own git settings say with which keys it fetches; none are ever sent to it.
"""

import os
from pathlib import Path

from gencode.core.errors import UserMistake
from gencode.core.structs import replace
from gencode.journal.dispatch import MissingPart
from gencode.journal.folder_snapshot import FolderSnapshot, InvalidSnapshot, SnapshotStore
from gencode.permissions.agent_folders import worktrees_folder
from gencode.workspaces.transfer.checkout import FSCK, has_commit, is_complete, read_pack
from gencode.workspaces.worktrees.create import remove_half_made
from gencode.workspaces.worktrees.git import Git, git_error, safe_git
from gencode.workspaces.worktrees.worktree import MIRRORS, folder_lock, private_folder, repository_folder

FETCH_SECONDS = 600.0
MOST_PACKS = 100
"""A mirror with more packs gets slow, so they are combined."""
TIPS = "refs/gencode/tips/"
_SHA256 = 64
_OWN = frozenset({"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS", "GIT_SSL_CAINFO"})
"""Variables of the worker's user by which git reaches a remote."""
_FETCHING = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.alternateRefsCommand": "",
    "protocol.allow": "never",
    "protocol.ext.allow": "never",
    "fetch.fsckObjects": "true",
    "fetch.recurseSubmodules": "false",
    # As a pack, all at once: a killed fetch leaves some of several loose objects.
    "fetch.unpackLimit": "1",
    "fetch.writeCommitGraph": "false",
    "fetch.bundleURI": "",
    "submodule.recurse": "false",
    "transfer.bundleURI": "false",
    "maintenance.auto": "false",
    "gc.auto": "0",
    **FSCK,
}


class FolderUnavailable(UserMistake):
    """What a task needs is not available here now; another worker, or a later try, may have it."""

    def __init__(self, message: str, lacks: MissingPart = MissingPart.OTHER) -> None:
        super().__init__(message)
        self.lacks = lacks


class RepositoryMirror:
    """The mirror of one repository below the folder of all worktrees."""

    def __init__(self, home: Path, key: str) -> None:
        self.path = worktrees_folder(home) / MIRRORS / key / "repository.git"
        self._copies = repository_folder(home, self.path)

    async def fetch(self, snapshot: FolderSnapshot, snapshots: SnapshotStore) -> Git:
        """Fetch everything that a snapshot leads to; git for the mirror. FolderUnavailable if some is
        missing.
        """
        with private_folder(self.path.parent):
            async with folder_lock(self.path.parent):
                git = await self._opened(long=len(snapshot.tip) == _SHA256)
                if not await has_commit(git, f"{TIPS}{snapshot.tip}"):
                    await self._filled(git, snapshot, snapshots)
        return git

    async def _opened(self, *, long: bool) -> Git:
        kind = "sha256" if long else "sha1"
        if not (self.path / "HEAD").is_file():
            above = await safe_git(self.path.parent, self.path)
            words = ("init", "--bare", "--quiet", "--template=", f"--object-format={kind}")
            said = await above.run(*words, str(self.path))
            if not said.ok:
                raise git_error(said, "No copy of its repository can be made", self.path.parent)
        git = await safe_git(self.path, self.path, self.path)
        return replace(git, where=(f"--git-dir={self.path}",))

    async def _filled(self, git: Git, snapshot: FolderSnapshot, snapshots: SnapshotStore) -> None:
        for commit in snapshot.known:
            if not await is_complete(git, commit):
                await self._fetched(git, snapshot, commit)
        if not await is_complete(git, snapshot.tip):
            await unpack_snapshot(git, snapshot, snapshots)
            if not await is_complete(git, snapshot.tip):
                raise InvalidSnapshot("what was sent of its folder is not all of it")
        said = await git.run_uninterrupted("update-ref", f"{TIPS}{snapshot.tip}", snapshot.tip)
        if not said.ok:
            raise git_error(said, "The copy of its repository cannot be written", self.path)
        if len(list((self.path / "objects" / "pack").glob("*.pack"))) > MOST_PACKS:
            # Unreachable objects are kept as well: an agent may have just added them.
            await git.run("repack", "-a", "-d", "-k", "-q", seconds=FETCH_SECONDS)

    async def _fetched(self, git: Git, snapshot: FolderSnapshot, commit: str) -> None:
        """Fetch a commit: by the branch that has it, or else by its name, which not every server allows."""
        with private_folder(self._copies):
            async with folder_lock(self._copies) as held:
                await remove_half_made(git, self.path, self._copies, held)
        fetching = replace(git, environ=fetch_environment())
        for wanted in (f"refs/heads/{snapshot.branch}" if snapshot.branch else "", commit):
            if not wanted or not snapshot.remote:
                continue
            said = await fetching.run_with_retries(
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-write-fetch-head",
                "--no-recurse-submodules",
                "--no-auto-maintenance",
                "--end-of-options",
                snapshot.remote,
                f"+{wanted}:refs/gencode/known/{commit}",
                seconds=FETCH_SECONDS,
            )
            if said.ok and await has_commit(git, commit):
                await git.run_uninterrupted("update-ref", f"refs/gencode/known/{commit}", commit)
                return
            if not said.ok and wanted == commit:
                raise FolderUnavailable(str(git_error(said, f"{snapshot.remote} cannot be fetched from")))
        raise FolderUnavailable(f"{snapshot.remote or 'No remote'} does not have the commit {commit[:12]}")


async def unpack_snapshot(git: Git, snapshot: FolderSnapshot, snapshots: SnapshotStore) -> None:
    """Unpack all that was sent of a folder; InvalidSnapshot if some of it is gone."""
    for name in snapshot.packs:
        body = await snapshots.pack(name)
        if body is None:
            raise InvalidSnapshot("what was sent of its folder is not in the database any more")
        await read_pack(git, body)


def fetch_environment() -> dict[str, str]:
    """The environment of a fetch: the worker's own keys and settings, within our limits."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "GEN_")) or name in _OWN
    }
    kept |= {
        "LC_ALL": "C",
        "GIT_ALLOW_PROTOCOL": "https:ssh:file",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_CONFIG_COUNT": str(len(_FETCHING)),
    }
    for number, (name, value) in enumerate(_FETCHING.items()):
        kept[f"GIT_CONFIG_KEY_{number}"] = name
        kept[f"GIT_CONFIG_VALUE_{number}"] = value
    return kept
