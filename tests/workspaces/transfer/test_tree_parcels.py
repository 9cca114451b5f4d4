"""Snapshots of worktrees on this machine: how their agent began, what it did, and no keys."""

from pathlib import Path

import pytest
from tests.workspaces.transfer.post import Office, arrived
from tests.workspaces.transfer.tree_parcel import forked, packed, worktree
from tests.workspaces.worktrees.yard import TEN, git, repository

from gencode.core.errors import UserMistake
from gencode.core.spec import Workspace
from gencode.workspaces.transfer.snapshot_builder import SHALLOW, SnapshotBuilder, snapshot_worktree
from gencode.workspaces.worktrees.agent_work import commit_work
from gencode.workspaces.worktrees.create import create_worktree

pytestmark = pytest.mark.needs("git")


async def test_a_copy_begins_as_the_worktree_is_at_the_commit_of_its_agent(
    tmp_path: Path, office: Office
) -> None:
    repo, tree = await worktree(tmp_path)
    (repo / "open.txt").write_text("not committed in the checkout\n")
    (tree.path / "a.txt").write_text("changed\n")
    git(tree.path, "commit", "--quiet", "--all", "--message", "Changed")
    (tree.path / "new.txt").write_text("new\n")
    (tree.path / "own.log").write_text("ignored\n")
    head, before = git(tree.path, "rev-parse", "HEAD"), git(repo, "count-objects")
    snapshot = await packed(repo, tree, office)
    lodging = await arrived(snapshot, office, tmp_path / "home")
    assert (snapshot.tip, snapshot.head, snapshot.start_head) == (tree.base, tree.base, head)
    assert git(lodging.cwd, "log", "-1", "--format=%s") == "Changed"
    assert git(lodging.cwd, "status", "--short") == "?? new.txt"
    assert {each.name for each in lodging.cwd.iterdir()} == {".git", ".gitignore", "a.txt", "new.txt"}
    assert (git(repo, "count-objects"), git(tree.path, "status", "--short")) == (before, "?? new.txt")


async def test_without_the_work_it_is_as_the_agent_began(tmp_path: Path, office: Office) -> None:
    repo, tree = await worktree(tmp_path)
    (tree.path / "new.txt").write_text("new\n")
    snapshot = await packed(repo, tree, office, with_work=False)
    lodging = await arrived(snapshot, office, tmp_path / "home")
    assert (snapshot.tip, snapshot.start, (lodging.cwd / "new.txt").exists()) == (tree.base, "", False)


async def test_keys_do_not_travel_not_even_committed_ones(tmp_path: Path, office: Office) -> None:
    repo, tree = await worktree(tmp_path)
    (tree.path / ".env").write_text("KEY=1\n")
    (tree.path / "id_rsa").write_text("secret\n")
    (tree.path / "new.txt").write_text("new\n")
    (tree.path / "a.txt").unlink()
    await commit_work(tree)  # this commits all that its agent left
    git(tree.path, "rm", "--quiet", ".env")
    git(tree.path, "commit", "--quiet", "--message", "Away with it")
    snapshot = await packed(repo, tree, office)
    lodging = await arrived(snapshot, office, tmp_path / "home")
    assert git(lodging.cwd, "status", "--short") == " D a.txt\n?? new.txt"
    assert (snapshot.start_head, git(lodging.cwd, "log", "--all", "--format=%s", "--", ".env")) == ("", "")
    assert snapshot.notes == ("not sent: new files that may hold secrets: id_rsa",)


async def test_a_history_that_is_not_there_is_left_out(tmp_path: Path, office: Office) -> None:
    source = repository(tmp_path / "source", a_txt=TEN)
    git(source, "commit", "--quiet", "--allow-empty", "--message", "Second")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{source}", "repo")
    repo = tmp_path / "repo"
    tree = await create_worktree(Workspace(repo, repo, tmp_path), tmp_path / "own", "0123abcd")
    (tree.path / "new.txt").write_text("new\n")
    snapshot = await packed(repo, tree, office)
    lodging = await arrived(snapshot, office, tmp_path / "home")
    assert snapshot.notes == (SHALLOW,)
    assert (snapshot.head, (lodging.cwd / "new.txt").read_text()) == ("", "new\n")
    assert (lodging.cwd / "a.txt").read_text() == TEN


async def test_a_worktree_that_is_redirected_or_of_another_repository_is_refused(
    tmp_path: Path, office: Office
) -> None:
    repo, tree = await worktree(tmp_path)
    other = repository(tmp_path / "other")
    with pytest.raises(UserMistake, match="is no worktree of the repository around"):
        await snapshot_worktree(tree.path, other, tmp_path / "own", office)
    for place in (repo, other):
        (tree.path / ".git").write_text(f"gitdir: {place}/.git\n")
        with pytest.raises(UserMistake, match="was redirected to"):
            await packed(repo, tree, office)
    assert office.packs == {}


async def test_a_worktree_that_is_gone_is_no_parcel(tmp_path: Path, office: Office) -> None:
    (repo, tree), home = await worktree(tmp_path), tmp_path / "own"
    assert await snapshot_worktree(tmp_path / "nowhere", repo, home, office) is None
    await commit_work(tree)
    assert await snapshot_worktree(tree.path, repo, home, office) is None


@pytest.mark.parametrize("with_work", [True, False])
async def test_keys_that_a_fork_began_with_stay_at_home(
    tmp_path: Path, office: Office, with_work: bool
) -> None:
    repo, tree = await worktree(tmp_path)
    (tree.path / ".env").write_text("KEY=1\n")
    (tree.path / "a.txt").write_text("changed\n")
    fork = await forked(repo, await forked(repo, tree))
    (fork.path / "new.txt").write_text("new\n")
    snapshot = await packed(repo, fork, office, with_work=with_work)
    lodging = await arrived(snapshot, office, tmp_path / "home")
    status = " M a.txt\n?? new.txt" if with_work else " M a.txt"
    assert ((fork.path / ".env").read_text(), git(lodging.cwd, "status", "--short")) == ("KEY=1\n", status)
    assert git(lodging.cwd, "log", "--all", "--format=%s", "--", ".env") == ""
    assert (snapshot.tip, snapshot.notes) == (
        tree.base,
        ("not sent: new files that may hold secrets: .env",),
    )


async def test_a_fork_without_keys_goes_on_from_the_work_it_began_with(
    tmp_path: Path, office: Office
) -> None:
    repo, tree = await worktree(tmp_path)
    (tree.path / "a.txt").write_text("changed\n")
    fork = await forked(repo, tree)
    (fork.path / "new.txt").write_text("new\n")
    snapshot = await packed(repo, fork, office)
    lodging = await arrived(snapshot, office, tmp_path / "home")
    assert (snapshot.tip, git(lodging.cwd, "status", "--short")) == (fork.base, "?? new.txt")
    assert ((lodging.cwd / "a.txt").read_text(), snapshot.notes) == ("changed\n", ())


async def test_keys_that_were_committed_for_an_agent_do_not_go_with_those_it_sends(
    tmp_path: Path, office: Office
) -> None:
    _, tree = await worktree(tmp_path)
    (tree.path / ".env").write_text("KEY=1\n")
    (tree.path / "a.txt").write_text("changed\n")
    await commit_work(tree)  # this commits all that its agent left
    inner = await create_worktree(tree.workspace, tmp_path / "own", "4567cdef")
    sent = [
        await SnapshotBuilder(tree.path, tmp_path / "own", office).build(),
        await packed(tree.path, inner, office),
    ]
    for number, snapshot in enumerate(sent):
        lodging = await arrived(snapshot, office, tmp_path / "home", f"0123abc{number}")
        assert (git(lodging.cwd, "status", "--short"), snapshot.head) == (" M a.txt", tree.base)
        assert git(lodging.cwd, "log", "--all", "--format=%s", "--", ".env") == ""
        assert snapshot.notes == ("not sent: new files that may hold secrets: .env",)
    assert (inner.path / ".env").read_text() == "KEY=1\n"
