"""A task in a worktree is sent again: what came back of it before, and nobody took over, is not lost."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.workspaces.transfer.post import TASK, Office, arrived
from tests.workspaces.transfer.tree_parcel import packed, worktree
from tests.workspaces.worktrees.yard import commit, git

from gencode.core.events import TaskCreated
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.journal.folder_snapshot import MissingChanges
from gencode.workspaces.restore_worktree import LatestWork, LocalWork, save_returned_work
from gencode.workspaces.transfer.apply_changes import ChangeApplier, merge_into_worktree
from gencode.workspaces.worktrees.worktree import Worktree

pytestmark = pytest.mark.needs("git")

BRANCH = f"gencode/{TASK}"


async def worked(tmp_path: Path, office: Office, do: Callable[[Path], object]) -> tuple[LatestWork, Worktree]:
    """Send a worktree away with what is in it, do something there, and hand it in."""
    repo, tree = await worktree(tmp_path)
    lodging = await arrived(await packed(repo, tree, office), office, tmp_path / "home")
    do(lodging.cwd)
    await lodging.hand_in(office, "me", "far")
    created = TaskCreated("tester", "work", cwd=str(repo), worktree=str(tree.path))
    task = Task(TASK, created, "", Status.COMPLETED, 1)
    return LatestWork(task, branch=tree.branch, back=office.back[TASK], snapshots=office), tree


async def asided(ground: LatestWork, tree: Worktree, office: Office) -> tuple[bool, MissingChanges | None]:
    """Set aside what came back before the worktree is sent as it is now."""
    return await save_returned_work(
        ground, LocalWork(tree.branch, tree), await packed(tree.repository, tree, office)
    )


def new(folder: Path) -> None:
    (folder / "new.txt").write_text("far away\n")


async def test_what_is_not_in_the_worktree_is_put_on_a_branch_and_told(
    tmp_path: Path, office: Office
) -> None:
    ground, tree = await worked(tmp_path, office, new)
    own, kept = commit(tree.path, new_txt="here\n"), f"{BRANCH}-{office.back[TASK][0].commit[:8]}"
    missing = MissingChanges("on_branch", worker="far", branch=kept, top=str(tree.repository))
    before = f"changes on far: they are on the branch {kept} of {tree.repository}"
    assert missing.user_note() == f"it continues without its {before}"
    assert missing.agent_note() == f"You continue without your {before}."
    for _ in range(2):  # whoever sends it may have to try again
        assert await asided(ground, tree, office) == (True, missing)
    snapshot = await packed(tree.repository, tree, office)
    assert await save_returned_work(ground, LocalWork(tree.branch), snapshot) == (True, missing)
    assert git(tree.path, "rev-parse", kept) == office.back[TASK][0].commit
    assert (git(tree.path, "rev-parse", BRANCH), git(tree.path, "status", "--short")) == (own, "")


async def test_what_is_all_in_the_worktree_needs_no_branch(tmp_path: Path, office: Office) -> None:
    ground, tree = await worked(tmp_path, office, new)
    (tree.path / "open.txt").write_text("not committed\n")
    work, body = office.back[TASK]
    await ChangeApplier(tree.repository, office).fetch(work, body)
    commit(tree.path, other_txt="so that it comes into the files\n")
    assert await merge_into_worktree(tree, work.commit, work.snapshot.tip) == ""
    assert await asided(ground, tree, office) == (True, None)
    assert git(tree.path, "branch", "--list", f"{BRANCH}*", "--format=%(refname:short)") == BRANCH


async def test_what_was_made_of_the_very_same_is_gone_on_from(tmp_path: Path, office: Office) -> None:
    """Its agent worked there last and could not be told of its place."""
    ground, tree = await worked(tmp_path, office, new)
    assert await asided(ground, tree, office) == (False, None)


async def test_what_cannot_be_put_on_a_branch_is_gone_on_from_and_told(
    tmp_path: Path, office: Office
) -> None:
    ground, tree = await worked(tmp_path, office, new)
    commit(tree.path, new_txt="here\n")
    broken = replace(ground, back=(office.back[TASK][0], b"nothing that git can read"))
    goes, missing = await asided(broken, tree, office)
    assert missing is not None
    assert (goes, missing.state, missing.branch, missing.worker) == (False, "in_worktree", BRANCH, "far")
    first = f"You continue without your changes on the branch {BRANCH}: the copy has your changes on far, "
    assert missing.agent_note().startswith(f"{first}which could not be put on a branch: ")


async def test_what_was_taken_over_or_is_nothing_is_not_looked_at(tmp_path: Path, office: Office) -> None:
    ground, tree = await worked(tmp_path, office, new)
    work = office.back[TASK][0]
    for each in (replace(work, taken=True), replace(work, commit=work.snapshot.tip)):
        assert await asided(replace(ground, back=(each, b"")), tree, office) == (True, None)


async def test_a_branch_that_a_worktree_is_on_is_not_moved_below_its_files(
    tmp_path: Path, office: Office
) -> None:
    ground, tree = await worked(tmp_path, office, new)
    commit(tree.repository, new_txt="of a person\n")
    arrival = await ChangeApplier(tree.repository, office).apply(*office.back[TASK])
    assert (arrival.state, arrival.branch) == ("offered", f"{BRANCH}-{office.back[TASK][0].commit[:8]}")
    assert git(tree.path, "status", "--short") == ""
    assert ground.branch == tree.branch


@pytest.mark.parametrize("detached", [False, True])
async def test_only_the_own_branch_of_a_worktree_is_moved_forward(
    tmp_path: Path, office: Office, *, detached: bool
) -> None:
    """A person, or an agent that was killed, checked another one out there."""
    _, tree = await worked(tmp_path, office, new)
    work, body = office.back[TASK]
    await ChangeApplier(tree.repository, office).fetch(work, body)
    git(tree.path, "checkout", "--quiet", *(["--detach"] if detached else ["-b", "feature"]))
    assert await merge_into_worktree(tree, work.commit, work.snapshot.tip) == ""
    assert (git(tree.path, "rev-parse", "HEAD"), git(tree.path, "status", "--short")) == (
        tree.base,
        "?? new.txt",
    )
