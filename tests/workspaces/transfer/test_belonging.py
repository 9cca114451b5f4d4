"""Into which checkouts the work of a task may come: its own, and clones of it."""

import shutil
from pathlib import Path

import pytest
from tests.workspaces.transfer.post import Office, sent
from tests.workspaces.worktrees.yard import TEN, git, repository

from gencode.journal.folder_snapshot import FolderSnapshot
from gencode.workspaces.transfer.checkout import NotAClone, checkout_at, require_same_repository

pytestmark = pytest.mark.needs("git")


async def fits(folder: Path, snapshot: FolderSnapshot, *, own: bool) -> str:
    """Empty, or why it does not."""
    try:
        await require_same_repository(await checkout_at(folder), snapshot, own=own)
    except NotAClone as why:
        return str(why)
    return ""


async def test_work_comes_to_its_own_repository_also_when_its_commit_was_amended(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    git(tmp_path, "clone", "--quiet", str(repo), "clone")
    snapshot = await sent(repo, office)
    git(repo, "commit", "--quiet", "--amend", "--message", "amended")
    git(tmp_path, "clone", "--quiet", f"file://{repo}", "later")
    lacks = (
        f"does not have the commit {snapshot.head[:12]}, at which it was sent; if this is a clone, fetch it."
    )
    assert await fits(repo, snapshot, own=True) == ""
    assert await fits(tmp_path / "clone", snapshot, own=False) == ""
    assert await fits(tmp_path / "later", snapshot, own=False) == f"{tmp_path / 'later'} {lacks}"
    shutil.rmtree(repo)
    repository(repo, a_txt="another one at the same place\n")
    assert await fits(repo, snapshot, own=True) == f"{repo} {lacks}"


async def test_work_without_a_history_comes_only_to_the_repository_it_was_sent_from(
    tmp_path: Path, office: Office
) -> None:
    young = tmp_path / "young"
    young.mkdir()
    git(young, "init", "--quiet")
    (young / "a.txt").write_text("a\n")
    snapshot = await sent(young, office)
    moved = Path(shutil.copytree(young, tmp_path / "moved"))
    none = "Its history did not go with it, so no other folder can be told for a clone of its own."
    said = [await fits(young, snapshot, own=True)]
    said += [await fits(folder, snapshot, own=own) for folder, own in ((young, False), (moved, True))]
    assert said == ["", none, none]
