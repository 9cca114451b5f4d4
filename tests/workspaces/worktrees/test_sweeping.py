"""What a killed git left of a worktree in a person's own repository: only what is ours is swept away."""

import asyncio
import fcntl
import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.workspaces.worktrees.halves import STEPS, branches, half_made
from tests.workspaces.worktrees.yard import commit, everything, git, home_of, repository, worktree

from gencode.workspaces.worktrees.agent_work import commit_work, remove_unused
from gencode.workspaces.worktrees.create import mark_begun, remove_half_made
from gencode.workspaces.worktrees.git import safe_git
from gencode.workspaces.worktrees.worktree import folder_lock, repository_folder

pytestmark = pytest.mark.needs("git")


def folder_of(repo: Path) -> Path:
    return repository_folder(home_of(repo), repo)


@pytest.mark.parametrize("step", STEPS)
async def test_a_worktree_of_ours_that_is_half_made_is_made_anew(tmp_path: Path, step: str) -> None:
    repo = repository(tmp_path / "repo")
    half_made(repo / ".git", folder_of(repo) / "one", step)
    made = await worktree(repo)
    assert git(made.path, "status", "--porcelain", "--branch") == "## gencode/one"
    half_made(repo / ".git", folder_of(repo) / "two", step)
    assert (await remove_unused(await safe_git(repo, repo), made)).kept is False
    assert (branches(repo), (repo / ".git" / "worktrees").exists()) == ([], False)


@pytest.mark.parametrize("own", [True, False])
async def test_a_branch_to_which_no_worktree_came_goes_unless_only_it_has_something(
    tmp_path: Path, own: bool
) -> None:
    repo = repository(tmp_path / "repo")
    folder_of(repo).mkdir(parents=True)
    mark_begun(folder_of(repo) / "one")
    git(repo, "branch", "gencode/one")
    if own:
        commit(repo, mine="1\n")
        git(repo, "branch", "--force", "gencode/one")
        git(repo, "reset", "--quiet", "--hard", "HEAD~1")
    await worktree(repo, "two")
    assert branches(repo) == (["gencode/one", "gencode/two"] if own else ["gencode/two"])


async def test_in_a_worktree_of_a_person_it_is_swept_away_as_well(tmp_path: Path) -> None:
    repo, side = repository(tmp_path / "repo"), tmp_path / "side"
    git(repo, "worktree", "add", "--quiet", str(side))
    entry = half_made(repo / ".git", folder_of(side) / "one", "shared")
    made = await worktree(side, "two")
    assert (made.common_dir, entry.exists()) == (repo / ".git", False)


async def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    entry = half_made(repo / ".git", tmp_path / "mine", "emptied")
    before = everything(entry)
    await worktree(repo)
    assert (everything(entry), (tmp_path / "mine" / ".git").is_file()) == (before, True)


async def test_links_are_not_followed(tmp_path: Path) -> None:
    repo, elsewhere = repository(tmp_path / "repo"), repository(tmp_path / "elsewhere")
    entry = half_made(elsewhere / ".git", folder_of(repo) / "one", "whole")
    (repo / ".git" / "worktrees").mkdir()
    (repo / ".git" / "worktrees" / "one").symlink_to(entry)
    before = everything(elsewhere)
    await worktree(repo, "two")
    assert (everything(elsewhere), (folder_of(repo) / "one" / ".git").is_file()) == (before, True)


async def test_a_branch_that_nothing_else_leads_to_stays(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    half_made(repo / ".git", folder_of(repo) / "one", "whole")
    tip = git(repo, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "work")
    git(repo, "update-ref", "refs/heads/gencode/one", tip)
    await worktree(repo, "two")
    assert (branches(repo), git(repo, "rev-parse", "gencode/one")) == (["gencode/one", "gencode/two"], tip)


async def test_a_branch_that_a_person_is_on_stays(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    half_made(repo / ".git", folder_of(repo) / "one", "pointed")
    git(repo, "symbolic-ref", "HEAD", "refs/heads/gencode/one")
    await worktree(repo, "two")
    assert branches(repo) == ["gencode/one", "gencode/two"]


async def test_without_locks_nothing_is_swept_away(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    entry = half_made(repo / ".git", folder_of(repo) / "one", "shared")
    before = everything(entry)
    await remove_half_made(await safe_git(repo, repo), repo / ".git", folder_of(repo), ())
    assert everything(entry) == before


def is_free(folder: Path) -> bool:
    with (folder / ".lock").open("ab") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


async def test_a_git_that_outlives_its_process_keeps_the_turn_until_it_ends(tmp_path: Path) -> None:
    repo, gate = repository(tmp_path / "repo"), tmp_path / "gate"
    os.mkfifo(gate)
    async with folder_lock(tmp_path) as held:
        waiting = replace(await safe_git(repo, repo), held=held)
        words = ("-c", f"alias.wait=!read line < '{gate}'", "wait")
        running = asyncio.create_task(waiting.run(*words))
        door = await asyncio.to_thread(gate.open, "w")
    assert not is_free(tmp_path)
    door.write("on\n")
    door.close()
    assert (await running).ok
    assert is_free(tmp_path)


async def test_worktrees_of_another_machine_with_the_same_repository_stay_and_so_does_their_work(
    tmp_path: Path,
) -> None:
    """Its home has the same name, as on many machines, and is not here."""
    repo = repository(tmp_path / "repo")
    theirs = await worktree(repo, "theirs")
    (theirs.path / "new.txt").write_text("theirs\n")
    await commit_work(theirs)
    (theirs.path / "open.txt").write_text("not committed\n")
    for file in theirs.git_dir.iterdir():
        os.utime(file, (1_000_000, 1_000_000))
    there = home_of(repo).rename(tmp_path / "not here")
    assert (await (await safe_git(repo, repo)).run("gc", "--quiet")).ok
    entry = half_made(repo / ".git", folder_of(repo) / "adding", "common")
    shutil.rmtree(home_of(repo))
    before = everything(repo / ".git" / "worktrees")
    ours = await worktree(repo, "ours")
    (ours.path / "new.txt").write_text("ours\n")
    await commit_work(ours)
    unused = await worktree(repo, "unused")
    await remove_unused(await safe_git(repo, repo), unused)
    shutil.rmtree(ours.git_dir)
    assert [*everything(repo / ".git" / "worktrees")] == [*before]
    assert (entry / "locked").is_file()
    assert git(repo, "show", "gencode/theirs:new.txt") == "theirs"
    shutil.rmtree(home_of(repo))
    there.rename(home_of(repo))
    assert git(theirs.path, "status", "--short", "--branch") == "## gencode/theirs\n?? open.txt"


async def test_what_was_begun_on_this_machine_is_swept_away_also_if_its_folder_is_gone(
    tmp_path: Path,
) -> None:
    repo = repository(tmp_path / "repo")
    entry = half_made(repo / ".git", folder_of(repo) / "one", "whole")
    mark_begun(folder_of(repo) / "one")
    shutil.rmtree(folder_of(repo) / "one")
    await worktree(repo, "two")
    assert (entry.exists(), branches(repo)) == (False, ["gencode/two"])
    assert sorted(each.name for each in folder_of(repo).iterdir()) == [".lock", ".records", "two"]
