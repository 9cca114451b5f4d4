"""What is in a worktree and nowhere else: the doctor says so, and removes nothing of it unasked."""

from pathlib import Path

import pytest
from tests.workspaces.worktrees.leftovers import doctor, named, typed
from tests.workspaces.worktrees.yard import commit, git, repository

from gencode.core.spec import Workspace
from gencode.workspaces.worktrees.agent_work import commit_work
from gencode.workspaces.worktrees.create import create_worktree
from gencode.workspaces.worktrees.leftovers import find_leftovers
from gencode.workspaces.worktrees.worktree import Worktree

pytestmark = pytest.mark.needs("git")


def last_words(fix: str) -> str:
    """The command of an advice that a person types once they have what they need."""
    return fix.partition("when you have what you need: ")[2].removesuffix(")")


def advice(repo: Path) -> tuple[str, str]:
    """What the doctor says of the only worktree, and what it advises."""
    [check] = [check for check in doctor(repo)["checks"] if check["name"] == "worktree"]
    return check["detail"], check["fix"]


async def made_in(repo: Path, home: Path) -> Worktree:
    named(repo)
    return await create_worktree(Workspace(repo, repo, home), home / ".gen", "one")


@pytest.mark.parametrize("more", [True, False])
async def test_files_that_git_ignores_are_not_merged_and_shown_before_they_go(
    tmp_path: Path, home: Path, more: bool
) -> None:
    repo = repository(tmp_path / "repo", a_txt="a\n", _gitignore="out/\n")
    made = await made_in(repo, home)
    (made.path / "out").mkdir()
    (made.path / "out" / "report.txt").write_text("work\n")
    if more:
        (made.path / "x").write_text("work\n")
    await commit_work(made)
    if more:
        git(repo, "merge", "--quiet", made.branch)
    [left] = await find_leftovers(home / ".gen")
    show = f"git -C {made.path} ls-files --others --ignored --exclude-standard"
    remove = f"git -C {repo} worktree remove {made.path} && git -C {repo} branch -d gencode/one"
    assert (left.merged, left.settled, left.merge_command) == (
        False,
        True,
        f"{show} (shows them; when you have what you need: {remove})",
    )
    assert advice(repo) == (
        f"{made.path}: gencode/one of {repo}, {'1 file' if more else '0 files'} changed, all is merged but "
        "what is ignored by git, in the worktree only: out/report.txt",
        left.merge_command,
    )
    assert typed(left.merge_command) != 0, "as a whole it is no command"
    assert (made.path / "out" / "report.txt").read_text() == "work\n"
    assert git(made.path, *show.split()[3:]) == "out/report.txt"
    assert typed(last_words(left.merge_command)) == 0
    assert await find_leftovers(home / ".gen") == []


def with_submodule(tmp_path: Path) -> Path:
    repo = repository(tmp_path / "repo")
    repository(tmp_path / "library", l_txt="l\n")
    git(repo, "submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    commit(repo)
    return repo


@pytest.mark.parametrize("how", ["checked out", "only its folder"])
async def test_what_is_in_a_submodule_is_not_merged_and_removed_by_the_commands_that_are_told(
    tmp_path: Path, home: Path, how: str
) -> None:
    """Git would refuse to remove the first, and remove the second without a word."""
    repo = with_submodule(tmp_path)
    made = await made_in(repo, home)
    inner = made.path / "lib"
    if how == "checked out":
        git(made.path, "submodule", "--quiet", "update", "--init")
    (inner / "new.txt").write_text("work\n")
    (made.path / "x").write_text("work\n")
    await commit_work(made)
    git(repo, "merge", "--quiet", made.branch)
    modules = f" {made.git_dir}/modules" if how == "checked out" else ""
    detail, fix = advice(repo)
    assert (detail, fix) == (
        f"{made.path}: gencode/one of {repo}, 1 file changed, all is merged but what is in submodules: lib",
        f"ls -A {inner} && git -C {inner} status (shows what is in it; when you have what you need: "
        f"rm -rf {inner}{modules} && mkdir {inner})",
    )
    assert (typed(fix) != 0, (inner / "new.txt").exists()) == (True, True)
    assert typed(last_words(fix)) == 0
    detail, fix = advice(repo)
    assert detail.endswith("1 file changed, all of it is merged")
    assert (typed(fix), await find_leftovers(home / ".gen")) == (0, [])


async def test_a_submodule_that_was_taken_out_again_is_told_while_its_commits_are_there(
    tmp_path: Path, home: Path
) -> None:
    repo = with_submodule(tmp_path)
    made = await made_in(repo, home)
    git(made.path, "submodule", "--quiet", "update", "--init")
    git(made.path, "submodule", "--quiet", "deinit", "--all")
    modules = made.git_dir / "modules"
    detail, fix = advice(repo)
    assert (detail.partition("all is ")[2], fix) == (
        f"merged but what is in submodules: {modules}",
        f"ls -A {modules} (shows what is in it; when you have what you need: rm -rf {modules})",
    )
    assert typed(last_words(fix)) == 0
    assert (typed(advice(repo)[1]), await find_leftovers(home / ".gen")) == (0, [])


async def test_submodules_are_told_beside_what_is_not_merged(tmp_path: Path, home: Path) -> None:
    repo = with_submodule(tmp_path)
    made = await made_in(repo, home)
    git(made.path, "submodule", "--quiet", "update", "--init")
    (made.path / "x").write_text("work\n")
    detail, fix = advice(repo)
    assert detail.endswith("1 file changed, not merged; not with what is in submodules: lib")
    assert (typed(fix), (repo / "x").read_text()) == (0, "work\n")


async def test_one_with_files_that_a_filter_would_change_is_removed_by_the_command_that_is_told(
    tmp_path: Path, home: Path
) -> None:
    """Its agent saw them as git keeps them; a person's git, whose filter runs, takes them for changed."""
    repo = repository(tmp_path / "repo", _gitattributes="*.dat filter=up\n", x_dat="HELLO\n")
    git(repo, "config", "filter.up.clean", "tr a-z A-Z")
    git(repo, "config", "filter.up.smudge", "cat")
    git(repo, "config", "filter.up.required", "true")
    git(repo, "config", "filter.other.clean", "cat")
    made = await made_in(repo, home)
    (made.path / "x.dat").write_text("more\n")
    await commit_work(made)
    git(repo, "merge", "--quiet", made.branch)
    detail, fix = advice(repo)
    off = "-c filter.up.clean= -c filter.up.process= -c filter.up.required=false"
    assert detail.endswith("1 file changed, all of it is merged")
    assert fix == (f"git -C {repo} {off} worktree remove {made.path} && git -C {repo} branch -d gencode/one")
    (made.path / "x.dat").write_text("still more\n")
    assert typed(fix) != 0, "what is done since is not removed"
    (made.path / "x.dat").write_text("more\n")
    assert (typed(fix), await find_leftovers(home / ".gen")) == (0, [])


@pytest.mark.parametrize("dirty", [True, False])
async def test_one_that_an_agent_made_itself_is_removed_with_its_own_branch_and_never_by_force(
    tmp_path: Path, home: Path, dirty: bool
) -> None:
    repo = repository(tmp_path / "repo")
    made = await made_in(repo, home)
    mine = made.path.parent / "mine"
    git(made.path, "worktree", "add", "--quiet", str(mine))
    if dirty:
        (mine / "x").write_text("work\n")
    await commit_work(made)
    detail, fix = advice(repo)
    remove = f"git -C {repo} worktree remove {mine} && git -C {repo} branch -d mine"
    assert (detail, fix) == (f"{mine}: nothing is known about it", f"look into it, then {remove}")
    assert ((typed(remove) == 0), mine.exists()) == (not dirty, dirty)


async def test_commits_of_one_that_an_agent_made_itself_without_a_branch_are_kept_by_what_is_told(
    tmp_path: Path, home: Path
) -> None:
    repo = repository(tmp_path / "repo")
    made = await made_in(repo, home)
    mine = made.path.parent / "mine"
    git(made.path, "worktree", "add", "--quiet", "--detach", str(mine))
    await commit_work(made)
    remove = f"git -C {repo} worktree remove {mine}"
    assert advice(repo)[1] == f"look into it, then {remove}"
    lost = commit(mine, lost_txt="1\n")
    look = f"git -C {mine} log (its commits are on no branch; git -C {mine} branch NAME keeps them)"
    assert advice(repo)[1] == f"{look}, then {remove}"
    git(mine, "branch", "kept")
    assert (typed(remove), git(repo, "rev-parse", "kept")) == (0, lost)


async def test_what_git_ignores_in_one_that_an_agent_made_itself_is_told(tmp_path: Path, home: Path) -> None:
    repo = repository(tmp_path / "repo", a_txt="a\n", _gitignore="out/\n")
    made = await made_in(repo, home)
    mine = made.path.parent / "mine"
    git(made.path, "worktree", "add", "--quiet", str(mine))
    (mine / "out").mkdir()
    (mine / "out" / "report.txt").write_text("work\n")
    await commit_work(made)
    ignored = "ignored by git, in the worktree only: out/report.txt"
    assert advice(repo)[0] == f"{mine}: nothing is known about it; {ignored}"


@pytest.mark.parametrize("pointer", [None, "gitdir: /nowhere\n"])
async def test_one_whose_pointer_to_its_repository_is_not_as_it_was_is_merged_and_removed_all_the_same(
    tmp_path: Path, home: Path, pointer: str | None
) -> None:
    repo = repository(tmp_path / "repo")
    made = await made_in(repo, home)
    (made.path / ".git").unlink()
    if pointer is not None:
        (made.path / ".git").write_text(pointer)
    (made.path / "x").write_text("work\n")
    _, merge = advice(repo)
    assert merge.startswith(f"git -C {repo} worktree repair && git -C {made.path} add -A && ")
    before = (made.path / ".git").read_text() if pointer else None
    await commit_work(made)
    git(repo, "merge", "--quiet", made.branch)
    detail, remove = advice(repo)
    assert (before, detail.endswith("1 file changed, all of it is merged")) == (pointer, True)
    assert (typed(remove), await find_leftovers(home / ".gen")) == (0, [])


async def test_what_is_not_committed_where_that_pointer_is_gone_is_merged_by_the_command_that_is_told(
    tmp_path: Path, home: Path
) -> None:
    repo = repository(tmp_path / "repo")
    made = await made_in(repo, home)
    (made.path / ".git").unlink()
    (made.path / "x").write_text("work\n")
    assert typed(advice(repo)[1]) == 0
    assert (repo / "x").read_text() == "work\n"
