"""A worktree packed for another machine."""

from pathlib import Path

from tests.workspaces.transfer.post import Office
from tests.workspaces.worktrees.yard import TEN, repository

from gencode.core.events import Event, TaskCreated
from gencode.core.spec import Workspace
from gencode.core.task import fold
from gencode.journal.folder_snapshot import FolderSnapshot
from gencode.stores.memory import MemoryStore
from gencode.tasks.task_folders import TaskFolders
from gencode.workspaces.transfer.snapshot_builder import snapshot_worktree
from gencode.workspaces.worktrees.create import create_worktree
from gencode.workspaces.worktrees.worktree import Worktree, read_record


async def worktree(tmp_path: Path) -> tuple[Path, Worktree]:
    repo = repository(tmp_path / "repo", a_txt=TEN, _gitignore="*.log\n")
    return repo, await create_worktree(Workspace(repo, repo, tmp_path), tmp_path / "own", "0123abcd")


async def packed(repo: Path, tree: Worktree, office: Office, *, with_work: bool = True) -> FolderSnapshot:
    snapshot = await snapshot_worktree(tree.path, repo, tree.path.parents[2], office, with_work=with_work)
    assert snapshot is not None
    return snapshot


async def forked(repo: Path, tree: Worktree) -> Worktree:
    """A fork of the agent in a worktree, at home."""
    created = TaskCreated(cwd=str(repo), worktree=str(tree.path))
    source = fold(None, Event(tree.name, 1, "2026-01-01T00:00:00Z", created))
    workspace = Workspace(repo, repo, repo.parent)
    made = await TaskFolders(repo.parent / "own", MemoryStore()).create(workspace, source)
    found = read_record(Path(made.path))
    assert found is not None
    return found
