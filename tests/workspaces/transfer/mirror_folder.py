"""The mirror of a repository."""

from pathlib import Path

from gencode.journal.folder_snapshot import FolderSnapshot
from gencode.workspaces.transfer.mirror import RepositoryMirror


def mirror_of(snapshot: FolderSnapshot, home: Path) -> Path:
    return RepositoryMirror(home, snapshot.key).path
