"""A private key does not travel, whatever its file is called and however it came there; the rest does."""

from pathlib import Path

import pytest
from tests.workspaces.transfer.packer import packer
from tests.workspaces.transfer.post import TASK, Office, arrived, sent
from tests.workspaces.transfer.private_key import LINE, pem
from tests.workspaces.transfer.tree_parcel import forked, packed, worktree
from tests.workspaces.worktrees.yard import commit, git, repository

from gencode.workspaces.transfer.apply_changes import ChangeApplier
from gencode.workspaces.transfer.excluded_files import LARGEST_SEARCHED
from gencode.workspaces.transfer.snapshot_builder import SnapshotBuilder
from gencode.workspaces.transfer.worker_copy import TaskWorktree

pytestmark = pytest.mark.needs("git")

NEW = "new files that may hold secrets: "
CHANGED = "what was changed in files since a private key came into them: "


def travelled(office: Office, folder: Path) -> list[str]:
    """The commits, and all that is in them, of everything in the repository of a copy."""
    objects = git(folder, "cat-file", "--batch-all-objects", "--batch", "--unordered", "--buffer")
    assert office.packs
    return [line for line in objects.splitlines() if LINE in line]


async def test_a_key_that_an_agent_committed_in_a_plain_file_stays_in_its_worktree(
    tmp_path: Path, office: Office
) -> None:
    repo, tree = await worktree(tmp_path)
    commit(tree.path, notes_txt=pem(), new_txt="new\n")
    head = git(tree.path, "rev-parse", "HEAD")
    snapshots = [
        await packed(repo, tree, office),
        await SnapshotBuilder(tree.path, tmp_path / "own", office).build(),
    ]
    for number, snapshot in enumerate(snapshots):
        lodging = await arrived(snapshot, office, tmp_path / "home", f"0123abc{number}")
        assert git(lodging.cwd, "status", "--short") == "?? new.txt"
        assert (snapshot.notes, travelled(office, lodging.cwd)) == ((f"not sent: {NEW}notes.txt",), [])
    assert (git(tree.path, "rev-parse", "HEAD"), (tree.path / "notes.txt").read_text()) == (head, pem())


async def test_a_key_that_was_committed_and_removed_again_is_not_in_what_travels(
    tmp_path: Path, office: Office
) -> None:
    repo, tree = await worktree(tmp_path)
    commit(tree.path, a_txt=f"{pem()}more\n", gone_txt=pem())
    git(tree.path, "mv", "gone.txt", "moved.txt")
    commit(tree.path, a_txt="clean again\n")
    git(tree.path, "rm", "--quiet", "moved.txt")
    commit(tree.path)
    snapshot = await packed(repo, tree, office)
    lodging = await arrived(snapshot, office, tmp_path / "home")
    assert git(lodging.cwd, "status", "--short") == " M a.txt"
    assert (snapshot.notes, snapshot.start_head, travelled(office, lodging.cwd)) == ((), "", [])


@pytest.mark.parametrize("hide", ["orphan", "replace", "merge"])
async def test_no_shape_of_a_history_hides_a_key(tmp_path: Path, office: Office, hide: str) -> None:
    repo, tree = await worktree(tmp_path)
    git(tree.path, "config", "log.showRoot", "false")
    if hide == "orphan":
        git(tree.path, "checkout", "--quiet", "--orphan", "other")
        commit(tree.path, notes_txt=pem())
    elif hide == "replace":
        bad = commit(tree.path, notes_txt=pem())
        git(tree.path, "replace", bad, tree.base)
    else:
        git(tree.path, "checkout", "--quiet", "-b", "side")
        commit(tree.path, notes_txt=pem())
        git(tree.path, "rm", "--quiet", "notes.txt")
        commit(tree.path)
        git(tree.path, "checkout", "--quiet", tree.branch)
        commit(tree.path, b_txt="b\n")
        git(tree.path, "merge", "--quiet", "--no-ff", "--message", "Both", "side")
    (tree.path / "notes.txt").unlink(missing_ok=True)
    commit(tree.path, c_txt="c\n")
    lodging = await arrived(await packed(repo, tree, office), office, tmp_path / "home")
    assert ((lodging.cwd / "c.txt").read_text(), travelled(office, lodging.cwd)) == ("c\n", [])


@pytest.mark.parametrize("with_work", [True, False])
async def test_a_fork_of_work_with_a_key_in_a_plain_file_travels_without_it(
    tmp_path: Path, office: Office, with_work: bool
) -> None:
    repo, tree = await worktree(tmp_path)
    (tree.path / "deploy.cfg").write_text(pem())
    (tree.path / "a.txt").write_text(f"{pem()}changed\n")
    fork = await forked(repo, tree)
    snapshot = await packed(repo, fork, office, with_work=with_work)
    lodging = await arrived(snapshot, office, tmp_path / "home")
    assert git(lodging.cwd, "status", "--short") == ""
    assert snapshot.notes == (f"not sent: {NEW}deploy.cfg", f"not sent: {CHANGED}a.txt")
    assert travelled(office, lodging.cwd) == []


async def test_what_is_not_committed_is_looked_at_in_the_same_way(tmp_path: Path, office: Office) -> None:
    """Files with odd names, binary, changed, moved, and large ones; what is committed stays so."""
    repo = repository(
        tmp_path / "repo", a_txt="a\n", kept_txt=f"{pem()}old\n", moved_txt=f"{pem()}m\n", staged_txt="s\n"
    )
    for name, content in (
        ("a.txt", f"{pem()}a\n"),
        ("kept.txt", f"{pem()}new\n"),
        ("new\nline:.txt", pem()),
        ("large.txt", pem() + " " * LARGEST_SEARCHED),
        ("staged.txt", pem()),
    ):
        (repo / name).write_text(content)
    (repo / "some.bin").write_bytes(b"\0\xff" + pem().encode())
    (repo / "link").symlink_to("new\nline:.txt")
    git(repo, "add", "staged.txt")
    (repo / "staged.txt").write_text("clean again\n")
    git(repo, "mv", "moved.txt", "here.txt")
    snapshot = await sent(repo, office)
    lodging = await arrived(snapshot, office, tmp_path / "home")
    assert set(git(lodging.cwd, "status", "--short", "--no-renames").splitlines()) == {
        *(" M kept.txt", " D moved.txt", " M staged.txt"),
        *("?? here.txt", "?? large.txt", "?? link"),
    }
    assert snapshot.notes == (
        rf"not sent: {NEW}new\nline:.txt, some.bin",
        f"not sent: {CHANGED}a.txt",
    )


@pytest.mark.parametrize("committed", [True, False])
async def test_a_key_that_an_agent_made_elsewhere_stays_there_and_the_rest_comes_home(
    tmp_path: Path, office: Office, committed: bool
) -> None:
    repo = repository(tmp_path / "repo", a_txt="a\n", b_txt="b\n")
    lodging = await arrived(await sent(repo, office), office, tmp_path / "home")
    for name, content in (
        ("notes.txt", pem()),
        (".env", "KEY=1\n"),
        ("a.txt", pem()),
        ("b.txt", "changed\n"),
    ):
        (lodging.cwd / name).write_text(content)
    if committed:
        commit(lodging.cwd)
    work, why = await lodging.hand_in(office, "me", "worker")
    there = f"kept in the copy only: {NEW}.env, notes.txt", f"kept in the copy only: {CHANGED}a.txt"
    assert (why, work.notes[:2], len(work.notes)) == ("", there, 2 + committed)
    assert [(each.status, each.path) for each in work.files] == [("changed", "b.txt")]
    assert LINE not in work.diff and (lodging.cwd / "notes.txt").read_text() == pem()
    arrival = await ChangeApplier(repo, office).apply(*office.back[TASK])
    assert (arrival.state, git(repo, "status", "--short")) == ("applied", " M b.txt")
    assert travelled(office, lodging.tree.common_dir) == []


async def test_a_key_that_was_committed_in_a_copy_is_not_sent_on(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo", a_txt="a\n")
    first = await arrived(await sent(repo, office), office, tmp_path / "home")
    commit(first.cwd, notes_txt=pem(), b_txt="b\n")
    snapshot = await packer(first, office, tmp_path).build()
    second = await arrived(snapshot, office, tmp_path / "other", "00000002")
    assert (git(second.cwd, "status", "--short"), travelled(office, second.cwd)) == ("?? b.txt", [])
    assert snapshot.notes == (f"not sent: {NEW}notes.txt",)


@pytest.mark.parametrize("committed", [True, False])
async def test_a_key_of_the_person_that_an_agent_moved_elsewhere_is_moved_at_home_and_never_lost(
    tmp_path: Path, office: Office, *, committed: bool
) -> None:
    repo = repository(tmp_path / "repo", a_txt="a\n", plain_txt=pem())
    (repo / ".env").write_text("A=1\n")
    (repo / "old.pem").write_text(pem())
    commit(repo)
    lodging = await arrived(await sent(repo, office), office, tmp_path / "home")
    git(lodging.cwd, "mv", "old.pem", "new.pem")
    assert (await _home(lodging, repo, office, committed=committed)) == ["R  old.pem -> new.pem"]


async def _home(lodging: TaskWorktree, repo: Path, office: Office, *, committed: bool) -> list[str]:
    """What is changed at home by what an agent has done."""
    if committed:
        commit(lodging.cwd)
    await lodging.hand_in(office, "me", "worker")
    await ChangeApplier(repo, office).apply(*office.back[TASK])
    git(repo, "add", "--all")
    return git(repo, "status", "--short").splitlines()


@pytest.mark.parametrize("committed", [True, False])
async def test_a_key_of_the_person_that_an_agent_moved_and_changed_stays_where_it_was_at_home(
    tmp_path: Path, office: Office, *, committed: bool
) -> None:
    repo = repository(tmp_path / "repo", a_txt="a\n", plain_txt=f"{pem()}one\ntwo\n")
    (repo / ".env").write_text("A=1\n")
    commit(repo)
    lodging = await arrived(await sent(repo, office), office, tmp_path / "home")
    git(lodging.cwd, "mv", ".env", "conf.env")
    (lodging.cwd / "conf.env").write_text("B=2\n")
    git(lodging.cwd, "mv", "plain.txt", "plainer.txt")
    (lodging.cwd / "plainer.txt").write_text(f"{pem()}three\n")
    git(lodging.cwd, "rm", "--quiet", "a.txt")
    assert (await _home(lodging, repo, office, committed=committed)) == ["D  a.txt"]
