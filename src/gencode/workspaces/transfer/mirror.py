"""Bare mirrors of repositories on a worker, with each object fetched once.

Nothing that came along runs here: no hook, no filter, no submodule, no transport but https, ssh and file.
The worker's own git settings say with which keys it fetches; none are ever sent to it.
"""

import os
from pathlib import Path

from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.journal.dispatch import MissingPart
from gencode.journal.folder_snapshot import FolderSnapshot, InvalidSnapshot, SnapshotStore
from gencode.permissions.agent_folders import worktrees_folder
from gencode.workspaces.transfer.checkout import FSCK, has_commit, is_complete, read_pack
from gencode.workspaces.worktrees.create import remove_half_made
from gencode.workspaces.worktrees.git import Git, git_error, safe_git
from gencode.workspaces.worktrees.worktree import MIRRORS, folder_lock, private_folder, repository_folder

FETCH_SECONDS = 600.0
MOST_PACKS = 100
"""A mirror with more of them gets slow, so they are made one."""
TIPS = "refs/gencode/tips/"
_SHA256 = 64
_OWN = frozenset({"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS", "GIT_SSL_CAINFO"})
"""What a worker's own user may have set so that git reaches a remote."""
_FETCHING = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.alternateRefsCommand": "",
    "protocol.allow": "never",
    "protocol.ext.allow": "never",
    "fetch.fsckObjects": "true",
    "fetch.recurseSubmodules": "false",
    # As a pack, all at once: of loose objects a fetch that was killed leaves some.
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
    """What a task needs cannot be had here and now; another worker, or a later try, may have it."""

    def __init__(self, message: str, lacks: MissingPart = MissingPart.OTHER) -> None:
        super().__init__(message)
        self.lacks = lacks


class RepositoryMirror:
    """The mirror of one repository below the folder of all worktrees."""

    def __init__(self, home: Path, key: str) -> None:
        self.path = worktrees_folder(home) / MIRRORS / key / "repository.git"
        self._copies = repository_folder(home, self.path)

    async def fetch(self, parcel: FolderSnapshot, parcels: SnapshotStore) -> Git:
        """Have everything that a parcel leads to; git for the mirror. Unreachable when some is missing."""
        with private_folder(self.path.parent):
            async with folder_lock(self.path.parent):
                git = await self._opened(long=len(parcel.tip) == _SHA256)
                if not await has_commit(git, f"{TIPS}{parcel.tip}"):
                    await self._filled(git, parcel, parcels)
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

    async def _filled(self, git: Git, parcel: FolderSnapshot, parcels: SnapshotStore) -> None:
        for commit in parcel.known:
            if not await is_complete(git, commit):
                await self._fetched(git, parcel, commit)
        if not await is_complete(git, parcel.tip):
            await unpack_snapshot(git, parcel, parcels)
            if not await is_complete(git, parcel.tip):
                raise InvalidSnapshot("what was sent of its folder is not all of it")
        said = await git.run_uninterrupted("update-ref", f"{TIPS}{parcel.tip}", parcel.tip)
        if not said.ok:
            raise git_error(said, "The copy of its repository cannot be written", self.path)
        if len(list((self.path / "objects" / "pack").glob("*.pack"))) > MOST_PACKS:
            # What no branch leads to is kept as well: an agent may have put it there just now.
            await git.run("repack", "-a", "-d", "-k", "-q", seconds=FETCH_SECONDS)

    async def _fetched(self, git: Git, parcel: FolderSnapshot, commit: str) -> None:
        """Fetch a commit: by the branch that has it, or else by its name, which not every server gives."""
        with private_folder(self._copies):
            async with folder_lock(self._copies) as held:
                await remove_half_made(git, self.path, self._copies, held)
        fetching = replace(git, environ=fetch_environment())
        for wanted in (f"refs/heads/{parcel.branch}" if parcel.branch else "", commit):
            if not wanted or not parcel.remote:
                continue
            said = await fetching.run_with_retries(
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-write-fetch-head",
                "--no-recurse-submodules",
                "--no-auto-maintenance",
                "--end-of-options",
                parcel.remote,
                f"+{wanted}:refs/gencode/known/{commit}",
                seconds=FETCH_SECONDS,
            )
            if said.ok and await has_commit(git, commit):
                await git.run_uninterrupted("update-ref", f"refs/gencode/known/{commit}", commit)
                return
            if not said.ok and wanted == commit:
                raise FolderUnavailable(str(git_error(said, f"{parcel.remote} cannot be fetched from")))
        raise FolderUnavailable(f"{parcel.remote or 'No remote'} does not have the commit {commit[:12]}")


async def unpack_snapshot(git: Git, parcel: FolderSnapshot, parcels: SnapshotStore) -> None:
    """Take in all that was sent of a folder; InvalidSnapshot when some of it is gone."""
    for name in parcel.packs:
        body = await parcels.pack(name)
        if body is None:
            raise InvalidSnapshot("what was sent of its folder is not in the database any more")
        await read_pack(git, body)


def fetch_environment() -> dict[str, str]:
    """What git sees when it fetches: the worker's own keys and settings, and the bounds of ours."""
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
