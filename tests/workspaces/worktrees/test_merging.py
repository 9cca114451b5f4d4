"""Whether work can be merged is told as git then does it, whatever state the person's checkout is in."""

import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.workspaces.worktrees.yard import PERSON, TEN, commit, git, home_of, repository, worktree

from gencode.core.changes import describe_changes
from gencode.core.spec import Workspace
from gencode.tasks.task_folders import worktree_changes
from gencode.workspaces.worktrees.agent_work import WorktreeResult, commit_work
from gencode.workspaces.worktrees.create import create_from, find_source
from gencode.workspaces.worktrees.worktree import Worktree

CLEAN = "It can be merged without conflicts."

pytestmark = pytest.mark.needs("git")


def said(made: Worktree, done: WorktreeResult) -> list[str]:
    return describe_changes(worktree_changes(made, done)).splitlines()


def merges(repo: Path, done: WorktreeResult) -> int:
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
    done = await commit_work(made)
    words = said(made, done)
    assert (done.merges, merges(repo, done)) == ("unknown", 128)
    assert f"{repo} {state}: finish or abort that before you merge." in words
    assert CLEAN not in words
    git(repo, *(("reset", "--hard") if verb == "stash" else (verb, "--abort")))
    done = await commit_work(made)
    assert (done.merges, CLEAN in said(made, done), merges(repo, done)) == (
        "clean",
        True,
        0,
    )


async def test_a_new_file_in_a_folder_that_git_does_not_know_is_in_nobodys_way(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "open").mkdir()
    (repo / "open" / "x.txt").write_text("mine\n")
    made = await worktree(repo, below="open")
    (made.workspace.cwd / "new.txt").write_text("new\n")
    done = await commit_work(made)
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
    done = await commit_work(made)
    assert (done.merges, done.overlaps) == ("clean", () if forward else ("staged.txt",))
    assert (CLEAN in said(made, done), merges(repo, done) == 0) == (forward, forward)
    if not forward:
        assert "It can be merged once your own changes of staged.txt are committed." in said(made, done)
        commit(repo)
        assert merges(repo, await commit_work(made)) == 0


async def test_a_file_that_was_renamed_is_in_the_way_under_its_old_name(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    made = await worktree(repo)
    (made.path / "a.txt").rename(made.path / "b.txt")
    (repo / "a.txt").write_text(TEN.replace("0\n", "mine\n"))
    done = await commit_work(made)
    assert (done.merges, done.overlaps, merges(repo, done)) == ("clean", ("a.txt",), 1)
    commit(repo)
    assert merges(repo, await commit_work(made)) == 0
    assert (repo / "b.txt").read_text() == TEN.replace("0\n", "mine\n")


async def test_a_file_is_in_the_way_also_under_the_name_that_a_person_gave_it(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    made = await worktree(repo)
    (made.path / "a.txt").write_text(TEN.replace("9\n", "theirs\n"))
    git(repo, "mv", "a.txt", "b.txt")
    commit(repo)
    (repo / "b.txt").write_text(TEN.replace("0\n", "mine\n"))
    done = await commit_work(made)
    assert (done.merges, done.overlaps, merges(repo, done)) == ("clean", ("b.txt",), 2)


async def test_the_last_of_very_many_files_is_in_the_way_too(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    commit(repo, **{f"f{number:03}": "1\n" for number in range(600)})
    made = await worktree(repo)
    for number in range(600):
        (made.path / f"f{number:03}").write_text("2\n")
    (repo / "f599").write_text("mine\n")
    done = await commit_work(made)
    assert (len(done.files), done.overlaps, done.conflicts) == (500, ("f599",), ("f599",))
    assert merges(repo, done) == 1


async def test_what_the_work_before_a_fork_changed_is_in_the_way_too(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    first = await worktree(repo)
    (first.path / "a.txt").write_text(TEN.replace("9\n", "theirs\n"))
    work = await commit_work(first)
    source = replace(await find_source(repo), base=work.commit, after="one", origin=first.base)
    fork = await create_from(source, Workspace(repo, repo, tmp_path), home_of(repo), "two")
    (fork.path / "new.txt").write_text("new\n")
    (repo / "a.txt").write_text(TEN.replace("0\n", "mine\n"))
    done = await commit_work(fork)
    assert (done.merges, done.overlaps, merges(repo, done)) == ("clean", ("a.txt",), 1)


async def test_a_file_that_is_only_missing_and_an_empty_folder_are_in_nobodys_way(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    made = await worktree(repo)
    (made.path / "a.txt").write_text("theirs\n")
    (made.path / "new").write_text("new\n")
    (repo / "a.txt").unlink()
    (repo / "new" / "deep").mkdir(parents=True)
    done = await commit_work(made)
    assert (done.merges, done.overlaps, CLEAN in said(made, done)) == (
        "clean",
        (),
        True,
    )
    assert merges(repo, done) == 0
    assert ((repo / "a.txt").read_text(), (repo / "new").read_text()) == ("theirs\n", "new\n")


@pytest.mark.parametrize("name", ["", "sub/deep/mine", "sub/ignored"])
async def test_a_folder_that_becomes_a_file_is_in_the_way_with_what_git_does_not_know_in_it(
    tmp_path: Path, name: str
) -> None:
    repo = repository(tmp_path / "repo", sub__b_txt=TEN, _gitignore="ignored\n")
    made = await worktree(repo)
    shutil.rmtree(made.path / "sub")
    (made.path / "sub").write_text("a file now\n")
    if name:
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text("mine\n")
    done = await commit_work(made)
    assert (done.overlaps, CLEAN in said(made, done)) == ((("sub",), False) if name else ((), True))
    assert name or merges(repo, done) == 0


async def test_a_folder_in_the_place_of_a_file_that_is_missing_is_in_the_way(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    made = await worktree(repo)
    (made.path / "a.txt").write_text("theirs\n")
    (repo / "a.txt").unlink()
    (repo / "a.txt").mkdir()
    (repo / "a.txt" / "mine").write_text("mine\n")
    done = await commit_work(made)
    assert (done.overlaps, merges(repo, done)) == (("a.txt",), 1)
    assert (repo / "a.txt" / "mine").read_text() == "mine\n"


async def test_conflicts_have_the_names_that_a_merge_gives_them(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN, b_txt=TEN)
    made = await worktree(repo)
    (made.path / "a.txt").write_text("theirs\n")
    (made.path / "b.txt").unlink()
    (made.path / "b.txt").symlink_to("a.txt")
    (repo / "a.txt").unlink()
    (repo / "a.txt").symlink_to("b.txt")
    commit(repo, b_txt="mine\n")
    done = await commit_work(made)
    assert merges(repo, done) == 1
    unmerged = git(repo, "diff", "--name-only", "--diff-filter=U").splitlines()
    assert {*done.conflicts} == {*unmerged}
    assert any("~HEAD" in each or "~gencode_one" in each for each in done.conflicts)
