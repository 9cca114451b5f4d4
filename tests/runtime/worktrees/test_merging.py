"""Whether work can be merged is told as git then does it, whatever state the person's checkout is in."""

import subprocess
from pathlib import Path

import pytest
from tests.runtime.worktrees.yard import PERSON, TEN, commit, git, repository, worktree

from gencode.delegation.trees import CLEAN, told
from gencode.runtime.worktrees.work import Work, result

pytestmark = pytest.mark.needs("git")


def merges(repo: Path, done: Work) -> int:
    """The exit code of the merge that is offered."""
    return tried(repo, *done.how[0].split()[3:], "--no-edit")


def tried(repo: Path, *words: str) -> int:
    return subprocess.run(["git", *PERSON, *words], cwd=repo, check=False, capture_output=True).returncode


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        ("merge", "is in the middle of a merge"),
        ("cherry-pick", "is in the middle of a cherry-pick"),
        ("rebase", "is in the middle of a rebase"),
        ("stash", "has conflicts that are not resolved"),
    ],
)
async def test_a_checkout_in_the_middle_of_something_has_to_end_that_first(
    tmp_path: Path, verb: str, state: str
) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "checkout", "--quiet", "-b", "other")
    commit(repo, a_txt="other\n")
    git(repo, "checkout", "--quiet", "main")
    made = await worktree(repo)
    (made.path / "new.txt").write_text("new\n")
    if verb == "stash":
        (repo / "a.txt").write_text("open\n")
        git(repo, "stash")
    commit(repo, a_txt="mine\n")
    does = ("stash", "pop") if verb == "stash" else (verb, "other")
    assert tried(repo, *does) != 0
    done = await result(made)
    words = list(told(made, done))
    assert (done.merges, merges(repo, done)) == ("unknown", 128)
    assert f"{repo} {state}: finish that, or give it up, before you merge." in words
    assert CLEAN not in words
    git(repo, *(("reset", "--hard") if verb == "stash" else (verb, "--abort")))
    done = await result(made)
    assert (done.merges, CLEAN in told(made, done), merges(repo, done)) == ("clean", True, 0)


async def test_a_new_file_in_a_folder_that_git_does_not_know_is_in_nobodys_way(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "open").mkdir()
    (repo / "open" / "x.txt").write_text("mine\n")
    made = await worktree(repo, below="open")
    (made.workspace.cwd / "new.txt").write_text("new\n")
    done = await result(made)
    assert (done.merges, done.overlaps, done.notes, merges(repo, done)) == ("clean", (), (), 0)
    assert (repo / "open" / "new.txt").read_text() == "new\n"


@pytest.mark.parametrize("forward", [True, False])
async def test_what_is_staged_has_to_be_committed_first_unless_the_branch_only_goes_forward(
    tmp_path: Path, forward: bool
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    made = await worktree(repo)
    (made.path / "new.txt").write_text("new\n")
    if not forward:
        commit(repo, b_txt="b\n")
    (repo / "staged.txt").write_text("mine\n")
    git(repo, "add", "staged.txt")
    done = await result(made)
    assert (done.merges, done.overlaps) == ("clean", () if forward else ("staged.txt",))
    assert (CLEAN in told(made, done), merges(repo, done) == 0) == (forward, forward)
    if not forward:
        assert "It can be merged once your own changes of staged.txt are committed." in told(made, done)
        commit(repo)
        assert merges(repo, await result(made)) == 0
