"""Where a task goes on at home when what came back of it cannot be had there."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from gencode.core.events import TaskCreated
from gencode.core.spec import Workspace
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.workspaces.restore_worktree import LatestWork, LocalWork, restore_worktree, save_returned_work
from gencode.workspaces.transfer.snapshot_builder import snapshot_worktree
from tests.workspaces.transfer.post import TASK, Office, arrived, sent
from tests.workspaces.worktrees.yard import git, repository

pytestmark = pytest.mark.needs("git")


async def test_it_is_told_and_goes_along_when_the_task_is_sent_again(tmp_path: Path) -> None:
    office, repo = Office(), repository(tmp_path / "repo")
    lodging = await arrived(await sent(repo, office), office, tmp_path / "home")
    (lodging.cwd / "new.txt").write_text("far away\n")
    await lodging.hand_in(office, "me", "far")
    lodging.release(tmp_path / "home")
    created = TaskCreated("tester", "work", cwd=str(repo), isolated=True)
    task = Task(TASK, created, "", Status.COMPLETED, 1)
    back = (office.back[TASK][0], b"nothing that git can read")
    ground = LatestWork(task, away=True, back=back, snapshots=office)
    found = await restore_worktree(ground, Workspace(repo, repo, tmp_path), tmp_path / "own")
    why = f"(try gen task merge {TASK}): "
    assert found.notice is not None
    assert why in found.notice.agent and why in found.notice.person
    here = replace(ground, away=False, branch=found.tree.branch)
    (found.tree.path / "new.txt").write_text("here\n")
    snapshot = await snapshot_worktree(found.tree.path, repo, tmp_path / "own", office)
    assert snapshot is not None
    goes, missing = await save_returned_work(here, LocalWork(found.tree.branch, found.tree), snapshot)
    assert missing is not None
    assert (goes, missing.state, missing.branch) == (False, "in_worktree", f"gencode/{TASK}-home")
    assert git(found.tree.path, "status", "--short") == "?? new.txt"
