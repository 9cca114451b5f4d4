"""What came of a worktree: the files, the difference, the merge, and what is kept."""

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.workspaces.worktrees.yard import TEN, commit, everything, git, home_of, repository, worktree

from gencode.core.changes import ChangedFile, describe_changes
from gencode.tasks.task_folders import worktree_changes
from gencode.workspaces.worktrees import compare_commits
from gencode.workspaces.worktrees.agent_work import (
    WorktreeResult,
    commit_work,
    snapshot_commit,
)
from gencode.workspaces.worktrees.compare_commits import MergePreview, preview_merge, preview_with_old_git
from gencode.workspaces.worktrees.git import safe_git
from gencode.workspaces.worktrees.leftovers import find_leftovers
from gencode.workspaces.worktrees.worktree import Worktree, read_record

pytestmark = pytest.mark.needs("git")


def shell(command: str) -> None:
    subprocess.run(["sh", "-ec", command], check=True, capture_output=True)


AS_ADA = "export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=a@b"


def branches(repo: Path) -> list[str]:
    return git(repo, "branch", "--format=%(refname:short)").splitlines()


async def test_an_untouched_worktree_is_removed_with_its_branch(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    before = everything(repo)
    made = await worktree(repo)
    cache = made.path / "sub" / "__pycache__"
    assert await commit_work(made) == WorktreeResult(
        False, made.base, merges="clean", notes=("nothing was changed",)
    )
    assert not made.path.exists()
    assert everything(repo) == before
    assert read_record(made.path) is None
    assert not cache.exists()


async def test_everything_that_was_changed_is_told_and_committed(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN, sub__b_txt=TEN * 2, gone_txt="gone\n", pic="\0" * 9)
    made = await worktree(repo)
    (made.path / "a.txt").write_text(TEN.replace("3\n", "three\nthree and a half\n"))
    (made.path / "gone.txt").unlink()
    (made.path / "pic").write_bytes(b"\0\1\2")
    (made.path / "sub" / "b.txt").rename(made.path / "sub" / "c.txt")
    commit(made.path, committed_txt="by the agent itself\n")
    (made.path / "new").mkdir()
    (made.path / "new" / "n.txt").write_text("new\n")
    done = await commit_work(made)
    there = f"git -C {repo}"
    assert done == WorktreeResult(
        kept=True,
        commit=git(repo, "rev-parse", "gencode/one"),
        diff=git(repo, "diff", "-M", made.base, "gencode/one") + "\n",
        files=(
            ChangedFile("a.txt", "changed", 2, 1),
            ChangedFile("committed.txt", "added", 1, 0),
            ChangedFile("gone.txt", "deleted", 0, 1),
            ChangedFile("new/n.txt", "added", 1, 0),
            ChangedFile("pic", "changed", None, None),
            ChangedFile("sub/c.txt", "renamed", 0, 0, "sub/b.txt"),
        ),
        merges="clean",
        how=(
            f"{there} merge gencode/one",
            f"{there} diff --binary {made.base[:12]} gencode/one | {there} apply --3way",
        ),
    )
    assert "+three and a half\n" in done.diff
    assert "Binary files a/pic and b/pic differ\n" in done.diff
    assert git(made.path, "status", "--short") == ""
    assert git(repo, "log", "-1", "--format=%an <%ae>%n%cn%n%s", "gencode/one").splitlines() == [
        *("GenCode <gencode@localhost>", "GenCode", "Work of an agent in one")
    ]
    assert git(repo, "status", "--short") == ""


@pytest.mark.parametrize("which", [0, 1])
async def test_the_commands_take_the_work_over(tmp_path: Path, which: int) -> None:
    repo = repository(tmp_path / "it's a repo")
    made = await worktree(repo)
    (made.path / "a.txt").write_text("theirs\n")
    (made.path / "pic").write_bytes(b"\0\1\2")
    commit(repo, mine_txt="mine\n")
    done = await commit_work(made)
    assert not (await find_leftovers(home_of(repo)))[0].merged
    shell(f"{AS_ADA}\n{done.how[which]}")
    assert (repo / "a.txt").read_text() == "theirs\n"
    assert (repo / "pic").read_bytes() == b"\0\1\2"
    commit(repo)
    assert (await find_leftovers(home_of(repo)))[0].merged


async def test_what_both_sides_changed_is_a_conflict(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN, b_txt=TEN, c_txt=TEN)
    made = await worktree(repo)
    (made.path / "a.txt").write_text(TEN.replace("1\n", "theirs\n"))
    (made.path / "b.txt").write_text(TEN.replace("1\n", "theirs\n"))
    (made.path / "c.txt").unlink()
    commit(repo, a_txt=TEN.replace("1\n", "mine\n"), b_txt=TEN.replace("9\n", "mine\n"), c_txt="mine\n")
    before = everything(repo)
    done = await commit_work(made)
    assert (done.merges, done.conflicts) == ("conflicts", ("a.txt", "c.txt"))
    assert {name: text for name, text in everything(repo).items() if not name.startswith(".git/")} == {
        name: text for name, text in before.items() if not name.startswith(".git/")
    }


async def test_uncommitted_changes_in_the_same_files_are_named(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN, b_txt=TEN, _gitignore="ignored\n")
    made = await worktree(repo)
    for name in ("a.txt", "b.txt", "new", "folder/deep", "free"):
        (made.path / name).parent.mkdir(exist_ok=True)
        (made.path / name).write_text("theirs\n")
    (made.path / "ignored").write_text("theirs\n")
    git(made.path, "add", "--force", "ignored")
    git(made.path, "commit", "--quiet", "--message", "forced")
    (repo / "folder").mkdir()
    for name in ("a.txt", "new", "folder/deep", "ignored"):
        (repo / name).write_text("mine\n")
    done = await commit_work(made)
    assert (done.merges, done.conflicts) == ("conflicts", ("a.txt", "folder/deep", "ignored", "new"))
    assert done.overlaps == ("a.txt", "folder/deep", "ignored", "new")
    assert done.notes == (
        f"changed and not committed in {repo}, so commit or stash first: a.txt, folder/deep, ignored, new",
    )


async def test_open_changes_that_go_together_with_the_work_are_no_conflict(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    (made.path / "a.txt").write_text(TEN.replace("9\n", "theirs\n"))
    (repo / "a.txt").write_text(TEN.replace("0\n", "mine\n"))
    before = git(repo, "status", "--porcelain")
    done = await commit_work(made)
    assert (done.merges, done.overlaps) == ("clean", ("a.txt",))
    assert git(repo, "status", "--porcelain") == before
    git(repo, "commit", "--quiet", "--all", "--message", "mine")
    git(repo, "merge", "--quiet", made.branch)


async def test_a_long_difference_is_cut_at_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    (made.path / "long.txt").write_text("word\n" * 50_000)
    for number in range(30):
        (made.path / f"n{number:02}").write_text("x\n")
    monkeypatch.setattr(compare_commits, "MOST_FILES", 20)
    done = await commit_work(made)
    lines = done.diff.splitlines()
    assert len(done.diff) < compare_commits.MOST_DIFF + 200
    assert lines[-1].startswith("[… the rest was left out; git diff ")
    assert lines[-2] == "+word"
    assert (len(done.files), done.more_files) == (20, 11)


async def test_an_agent_that_went_to_another_branch_loses_nothing(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "branch", "feature")
    made = await worktree(repo)
    first = commit(made.path, first_txt="1\n")
    git(made.path, "checkout", "--quiet", "feature")
    (made.path / "second.txt").write_text("2\n")
    done = await commit_work(made)
    assert done.files == (ChangedFile("second.txt", "added", 1, 0),)
    assert done.notes == (f"commits that are not in the last state are on gencode/one-earlier-{first[:8]}",)
    assert git(repo, "rev-parse", f"gencode/one-earlier-{first[:8]}") == first
    assert git(repo, "rev-parse", "feature") == made.base
    assert git(made.path, "branch", "--show-current") == "gencode/one"


async def test_a_detached_head_and_a_deleted_branch_lose_nothing(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    git(made.path, "checkout", "--quiet", "--detach")
    git(made.path, "branch", "--quiet", "-D", "gencode/one")
    commit(made.path, first_txt="1\n")
    (made.path / "second.txt").write_text("2\n")
    assert [each.path for each in (await commit_work(made)).files] == ["first.txt", "second.txt"]


def committed_and_went_back(made: Worktree) -> str:
    commit(made.path, lost_txt="1\n")
    git(made.path, "reset", "--quiet", "--hard", made.base)
    return "there were commits that are in no branch; see git reflog in it"


def left_an_ignored_file(made: Worktree) -> str:
    (made.path / "results.log").write_text("precious")
    return "ignored by git, in the worktree only: results.log"


def began_a_merge(made: Worktree) -> str:
    (made.git_dir / "MERGE_HEAD").write_text(made.base)
    return "git was in the middle of something: MERGE_HEAD"


@pytest.mark.parametrize("deed", [committed_and_went_back, left_an_ignored_file, began_a_merge])
async def test_what_could_be_missed_is_kept(tmp_path: Path, deed: Callable[[Worktree], str]) -> None:
    repo = repository(tmp_path / "repo", _gitignore="*.log\n__pycache__/\n")
    made = await worktree(repo)
    reason = deed(made)
    done = await commit_work(made)
    assert done == WorktreeResult(True, made.base, merges="clean", notes=(reason, f"it is kept: {made.path}"))
    assert describe_changes(worktree_changes(made, done)).splitlines() == [
        f"[There are no changes on its branch {made.branch}; {reason}; it is kept: {made.path}.]"
    ]
    assert made.path.exists()
    assert "gencode/one" in branches(repo)


async def test_something_only_staged_is_kept(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    (made.path / "x").write_text("staged")
    git(made.path, "add", "x")
    (made.path / "x").unlink()
    assert (await commit_work(made)).kept
    assert git(made.path, "show", ":x") == "staged"


@pytest.mark.parametrize("whose", ["person", "agent"])
async def test_what_lies_outside_of_a_sparse_checkout_is_committed_too(tmp_path: Path, whose: str) -> None:
    repo = repository(tmp_path / "repo", sub__b_txt="b\n", other__c_txt="c\n", other__d_txt="d\n")
    if whose == "person":
        git(repo, "sparse-checkout", "set", "--cone", "sub")
    made = await worktree(repo)
    if whose == "agent":
        git(made.path, "sparse-checkout", "set", "--cone", "sub")
    (made.path / "sub" / "b.txt").unlink()
    (made.path / "other").mkdir()
    (made.path / "other" / "c.txt").write_text("changed\n")
    (made.path / "other" / "new.txt").write_text("new\n")
    done = await commit_work(made)
    told = {(change.status, change.path) for change in done.files}
    changed = {("deleted", "sub/b.txt"), ("changed", "other/c.txt"), ("added", "other/new.txt")}
    assert (told, done.merges, done.notes) == (changed, "clean", ())


async def test_caches_do_not_keep_a_worktree(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", _gitignore="__pycache__/\n")
    made = await worktree(repo)
    (made.path / "src" / "__pycache__").mkdir(parents=True)
    (made.path / "src" / "__pycache__" / "x.pyc").write_bytes(b"\0")
    assert not (await commit_work(made)).kept
    assert not made.path.exists()


async def test_the_state_of_a_worktree_is_a_commit_and_changes_nothing(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    unchanged = await snapshot_commit(made)
    (made.path / "x").write_text("work\n")
    before = (git(made.path, "status", "--short"), branches(repo), git(repo, "rev-parse", made.branch))
    state = await snapshot_commit(made)
    assert (unchanged, git(repo, "show", f"{state}:x")) == (made.base, "work")
    assert before == (
        git(made.path, "status", "--short"),
        branches(repo),
        git(repo, "rev-parse", made.branch),
    )
    done = await commit_work(made)
    assert await snapshot_commit(made) == done.commit
    git(repo, "worktree", "remove", "--force", str(made.path))
    assert await snapshot_commit(made) == done.commit
    git(repo, "branch", "--quiet", "-D", made.branch)
    assert await snapshot_commit(made) == ""


async def test_work_that_is_merged_is_offered_no_more(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    (made.path / "x").write_text("work\n")
    open_still = await commit_work(made)
    git(repo, "merge", "--quiet", made.branch)
    taken = await commit_work(made)
    assert (open_still.merged, len(open_still.how), taken.merged, taken.how) == (False, 2, True, ())
    (made.path / "x").write_text("more\n")
    assert (await commit_work(made)).merged is False


async def test_a_second_look_finds_what_came_later(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    (made.path / "a").write_text("1\n")
    first = await commit_work(made)
    assert await commit_work(made) == first
    (made.path / "b").write_text("2\n")
    again = await commit_work(read_record(made.path) or made)
    assert [each.path for each in again.files] == ["a", "b"]
    assert git(repo, "rev-list", "--count", f"{made.base}..gencode/one") == "2"


async def test_twenty_at_once_are_told(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await asyncio.gather(*(worktree(repo, f"n{number}") for number in range(20)))
    for each in made[::2]:
        (each.path / each.name).write_text("work\n")
    done = await asyncio.gather(*map(commit_work, made))
    assert [each.kept for each in done] == [True, False] * 10
    assert branches(repo) == sorted([*(each.branch for each in made[::2]), "main"])
    assert [each.branch for each in await find_leftovers(home_of(repo))] == sorted(
        each.branch for each in made[::2]
    )


async def test_a_repository_that_is_gone_is_told(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    repo.rename(tmp_path / "moved")
    assert await commit_work(made) == WorktreeResult(
        True, notes=(f"{made.path} or its repository is gone; its work is unknown",)
    )
    assert (made.path / "a.txt").read_text() == TEN


async def test_both_ways_to_look_at_a_merge_agree(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN, b_txt=TEN, c_txt=TEN, d_txt=TEN)
    base = git(repo, "rev-parse", "HEAD")
    clean = commit(repo, a_txt=TEN.replace("1\n", "x\n"), new_txt="n\n")
    git(repo, "checkout", "--quiet", "--detach", base)
    (repo / "d.txt").unlink()
    other = commit(repo, a_txt=TEN.replace("9\n", "y\n"), b_txt="other\n")
    git(repo, "checkout", "--quiet", "--detach", base)
    third = commit(repo, a_txt=TEN.replace("1\n", "z\n"), new_txt="another\n", d_txt="changed\n")
    quiet = await safe_git(repo, repo)
    pairs = [(base, clean), (clean, other), (clean, third), (other, third), (base, base)]
    new = [await preview_merge(quiet, *pair) for pair in pairs]
    old = [await preview_with_old_git(quiet, *pair) for pair in pairs]
    assert [(each.state, each.conflicts) for each in new] == [(each.state, each.conflicts) for each in old]
    assert [each.state for each in new] == ["clean", "clean", "conflicts", "conflicts", "clean"]
    assert new[2].conflicts == (b"a.txt", b"new.txt")
    assert new[3].conflicts == (b"d.txt",)
    assert old[0] == MergePreview("clean", tree=git(repo, "rev-parse", f"{clean}^{{tree}}"))
