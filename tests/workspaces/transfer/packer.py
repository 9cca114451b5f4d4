"""Packs the folder of a worker."""

from pathlib import Path

from tests.workspaces.transfer.post import Office

from gencode.core.place import CopiedFolder, FolderCopy
from gencode.workspaces.transfer.snapshot_builder import EnclosingCopy, SnapshotBuilder
from gencode.workspaces.transfer.worker_copy import TaskWorktree

HERE = CopiedFolder("/home/me/repo", "/home/me")


def packer(lodging: TaskWorktree, office: Office, tmp_path: Path) -> SnapshotBuilder:
    copied = FolderCopy(str(lodging.tree.path), HERE.folder, HERE.home)
    return SnapshotBuilder(
        lodging.cwd, tmp_path / "home", office, EnclosingCopy(lodging.guest.snapshot, copied)
    )
