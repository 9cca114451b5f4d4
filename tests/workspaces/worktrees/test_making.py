"""Making a worktree: where it is, what is in it, what is said about it, and when there is none."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.workspaces.worktrees.yard import TEN, commit, everything, git, home_of, repository, worktree

from gencode.core.errors import UserMistake
from gencode.core.spec import Workspace
from gencode.permissions.agent_folders import worktrees_folder
from gencode.workspaces.worktrees.create import create_from, create_worktree, find_source
from gencode.workspaces.worktrees.git import GitResult, git_error
from gencode.workspaces.worktrees.worktree import (
    Worktree,
    local_name,
    local_worktree,
    read_record,
    repository_folder,
)

pytestmark = pytest.mark.needs("git")


async def mistake(repository: Path, name: str = "one", below: str = ".") -> str:
    with pytest.raises(UserMistake) as caught:
        await worktree(repository, name, below)
    return str(caught.value)


async def test_a_worktree_is_a_checkout_of_the_last_commit_on_a_branch_of_its_own(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    base = git(repo, "rev-parse", "HEAD")
    made = await worktree(repo)
    path = repository_folder(home_of(repo), repo) / "one"
    assert made == Worktree(
        path=path,
        repository=repo,
        base=base,
        branch="gencode/one",
        workspace=Workspace(path, path, tmp_path),
        notes=(),
        git_dir=repo / ".git" / "worktrees" / "one",
        main_dir=repo / ".git",
    )
    assert path.parent.name.startswith("repo-")
    assert path.parents[1] == tmp_path / "home" / "worktrees"
    assert (path / "a.txt").read_text() == TEN
    assert (path / "sub" / "b.txt").read_text() == "b\n"
    assert (
        git(path, "status", "--porcelain=v2", "--branch") == f"# branch.oid {base}\n# branch.head gencode/one"
    )
    assert read_record(path) == made


async def test_the_checkout_it_is_made_from_stays_as_it_is(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "a.txt").write_text("mine")
    before = {name: text for name, text in everything(repo).items() if not name.startswith(".git/")}
    await worktree(repo)
    assert {name: text for name, text in everything(repo).items() if not name.startswith(".git/")} == before
    assert git(repo, "status", "--short") == " M a.txt"
    assert git(repo, "branch", "--show-current") == "main"


async def test_what_is_known_of_how_it_began_is_noted_at_once(tmp_path: Path) -> None:
    """A process that is killed just then leaves no worktree that is taken for another one."""
    repo = repository(tmp_path / "repo")
    first = git(repo, "rev-parse", "HEAD")
    commit(repo, new_txt="new\n")
    source = await find_source(repo)
    begun = replace(source, begun="the work of another", after="other", origin=first, mixed=True)
    made = await create_from(begun, Workspace(repo, repo, tmp_path), home_of(repo), "one")
    plain = await worktree(repo, "two")
    assert read_record(made.path) == replace(
        plain,
        path=made.path,
        branch="gencode/one",
        workspace=made.workspace,
        git_dir=made.git_dir,
        begun="the work of another",
        after="other",
        origin=first,
        mixed=True,
    )


async def test_it_is_found_by_its_branch_when_the_machine_has_another_name_by_now(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo, "one-at-0a1b2c")
    assert local_name("one", home_of(repo)) != made.name
    assert local_worktree(home_of(repo), repo, "one", "", made.branch) == made
    assert local_worktree(home_of(repo), repo, "one", "", "") is None
    assert local_worktree(home_of(repo), None, "one", "", made.branch) is None


async def test_a_subfolder_stays_the_current_folder(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await create_worktree(Workspace(repo / "sub", repo / "sub", tmp_path), home_of(repo), "one")
    assert made.workspace == Workspace(made.path / "sub", made.path / "sub", tmp_path)


async def test_a_workspace_around_the_repository_becomes_the_worktree(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await create_worktree(Workspace(tmp_path, repo / "sub", tmp_path), home_of(repo), "one")
    assert made.workspace == Workspace(made.path, made.path / "sub", tmp_path)


async def test_a_folder_that_is_not_in_the_commit_is_made(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "new" / "deep").mkdir(parents=True)
    made = await worktree(repo, below="new/deep")
    assert made.workspace.cwd == made.path / "new" / "deep"
    assert made.workspace.cwd.is_dir()
    assert made.notes == ("the folder new/deep is not in the commit and was made empty",)


async def test_a_folder_that_is_a_link_in_the_commit_leads_nowhere(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (tmp_path / "outside").mkdir()
    (repo / "link").symlink_to(tmp_path / "outside")
    commit(repo)
    (repo / "link").unlink()
    (repo / "link" / "deep").mkdir(parents=True)
    made = await worktree(repo, below="link/deep")
    assert made.workspace == Workspace(made.path, made.path, tmp_path)
    assert made.notes[0] == "link/deep is not a folder in the commit; the worktree begins at its top"
    assert list((tmp_path / "outside").iterdir()) == []


async def test_uncommitted_changes_are_counted(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "a.txt").write_text("mine")
    (repo / "new\nfile").write_text("mine")
    (repo / "sub" / "b.txt").unlink()
    made = await worktree(repo)
    changes = r"a.txt, sub/b.txt, new\nfile"
    assert made.notes == (
        f"it holds the last commit; 3 uncommitted changes of {repo} are not in it: {changes}",
    )
    assert sorted(path.name for path in made.path.iterdir()) == [".git", "a.txt", "sub"]


async def test_submodules_are_named_and_not_checked_out(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner")
    repo = repository(tmp_path / "repo")
    git(repo, "submodule", "--quiet", "add", str(inner), "module")
    commit(repo)
    made = await worktree(repo)
    assert made.notes == ("submodules are not checked out: module",)
    assert list((made.path / "module").iterdir()) == []


async def test_a_worktree_of_a_submodule_and_of_a_worktree_can_be_made(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner", x_txt="x\n")
    repo = repository(tmp_path / "repo")
    git(repo, "submodule", "--quiet", "add", str(inner), "module")
    of_module = await worktree(repo / "module")
    assert (of_module.path / "x.txt").read_text() == "x\n"
    first = await worktree(repo)
    of_worktree = await create_worktree(first.workspace, home_of(repo), "two")
    assert (of_worktree.repository, of_worktree.main_dir) == (first.path, first.git_dir)
    assert (of_worktree.path / "a.txt").read_text() == TEN


async def test_our_home_in_a_folder_no_agent_may_write_is_left_for_one_beside_it(tmp_path: Path) -> None:
    assert worktrees_folder(tmp_path / ".gen") == tmp_path / ".gen-worktrees"
    assert worktrees_folder(tmp_path / ".Gen" / "state") == tmp_path / ".Gen-worktrees"
    assert worktrees_folder(tmp_path / "state") == tmp_path / "state" / "worktrees"


async def test_twenty_at_once_are_made(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await asyncio.gather(*(worktree(repo, f"n{number}") for number in range(20)))
    assert [each.branch for each in made] == [f"gencode/n{number}" for number in range(20)]
    assert {(each.path / "a.txt").read_text() for each in made} == {TEN}
    assert len(git(repo, "worktree", "list").splitlines()) == 21


async def test_a_lock_that_goes_away_is_waited_for(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    lock = repo / ".git" / "refs" / "heads" / "gencode" / "one.lock"
    lock.parent.mkdir()
    lock.touch()
    making = asyncio.create_task(worktree(repo))
    await asyncio.sleep(0.2)
    lock.unlink()
    assert (await making).branch == "gencode/one"


async def test_outside_a_repository_there_is_no_worktree(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert await mistake(tmp_path / "plain") == (
        f"{tmp_path / 'plain'} is not in a git repository, so there is nothing to make a worktree of; "
        "run git init there and commit, or run without isolation."
    )
    assert not home_of(tmp_path / "plain").exists()


async def test_without_a_commit_there_is_no_worktree(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "repo")
    repo = tmp_path / "repo"
    assert await mistake(repo) == f"The repository {repo} has no commit yet; commit something and try again."


@pytest.mark.parametrize("below", [".", "refs"])
async def test_a_bare_repository_has_no_worktree_here(tmp_path: Path, below: str) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "repo")
    bare = tmp_path / "repo"
    assert await mistake(bare, below=below) == (
        f"{bare / below} is in a bare repository or in git's own folder; go to a checkout of it."
    )


async def test_gits_own_folder_is_no_checkout(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    assert "is in a bare repository or in git's own folder" in await mistake(repo, below=".git")


async def test_without_git_there_is_no_worktree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = repository(tmp_path / "repo")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await mistake(repo) == (
        "git is not installed; a worktree needs it. Install git, or run without isolation."
    )


async def test_a_git_that_lies_in_the_repository_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "git").write_text("#!/bin/sh\ntouch ran\n")
    (repo / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{repo}:.:{os.environ['PATH']}")
    await worktree(repo)
    assert not (repo / "ran").exists()


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../up", "a/b", "-x", "a..b", "a.lock", "a b", "ä", "a\n", "x" * 65, ".x", "x.", "@{"],
)
async def test_odd_names_are_refused(tmp_path: Path, name: str) -> None:
    repo = repository(tmp_path / "repo")
    assert (await mistake(repo, name)).startswith(f"A worktree cannot be called {name[:80]!r}")


async def test_a_name_is_given_once(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    (made.path / "work").write_text("precious")
    assert await mistake(repo) == f"There already is a worktree at {made.path}; take another name."
    git(repo, "branch", "gencode/two")
    assert (
        await mistake(repo, "two")
        == f"The repository {repo} already has a branch gencode/two; take another name."
    )
    assert (made.path / "work").read_text() == "precious"
    assert git(repo, "branch", "--list", "gencode/two").strip() == "gencode/two"


async def test_a_branch_in_the_way_is_named(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "branch", "gencode")
    assert (await mistake(repo)).endswith(
        "it has a branch gencode, so there can be none called gencode/one. Rename that one: "
        "git branch -m gencode OTHER"
    )


async def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    home_of(repo).write_text("a file")
    assert (await mistake(repo)).startswith(f"A worktree cannot be made in {home_of(repo)}")
    assert git(repo, "branch", "--format=%(refname)") == "refs/heads/main"


async def test_what_cannot_be_checked_out_leaves_nothing_behind(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    blob = git(repo, "rev-parse", "HEAD:a.txt")
    stored = repo / ".git" / "objects" / blob[:2] / blob[2:]
    stored.unlink()
    before = everything(repo)
    assert (await mistake(repo)).startswith("The worktree ")
    after = everything(repo)
    assert after == before
    assert [path.name for path in (tmp_path / "home" / "worktrees").rglob("one*")] == []


async def test_a_making_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    before = everything(repo)
    for delay in (0.01, 0.03, 0.05, 0.07):
        making = asyncio.create_task(worktree(repo))
        await asyncio.sleep(delay)
        making.cancel()
        ended = await asyncio.gather(making, return_exceptions=True)
        if isinstance(ended[0], Worktree):
            break
        assert everything(repo) == before
        assert not (repository_folder(home_of(repo), repo) / "one").exists()


async def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    name = os.fsdecode(b"r\xff")
    try:
        (tmp_path / name).mkdir()
    except OSError:
        pytest.skip("this file system knows only UTF-8")
    assert "is not UTF-8" in await mistake(repository(tmp_path / name / "repo"))


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            "error: unable to write file a\nfatal: cannot create directory: No space left on device",
            "No: the disk is full. Free some space and try again.",
        ),
        (
            "fatal: detected dubious ownership in repository at '/x'",
            "No: it belongs to somebody else. If you trust it, add it to git's safe.directory.",
        ),
        (
            "fatal: Unable to create '/x/.git/index.lock': File exists.",
            "No: another git process holds a lock there. Try again when it has finished.",
        ),
        (
            "fatal: failed to read /x/.git/worktrees/mine/commondir: Success",
            "No: another git process is adding a worktree there. If none is running, it was "
            "killed; then remove the folder worktrees/mine in git's own folder, and try again.",
        ),
        ("hint: x\nfatal: something else", "No: git said 'fatal: something else'."),
        ("", "No: git said 'no reason was given'."),
    ],
)
def test_what_git_complains_about_is_a_sentence(error: str, sentence: str) -> None:
    assert str(git_error(GitResult(128, b"", error), "No")) == sentence


def mounted(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def unmount(folder: Path) -> None:
    subprocess.run(["umount", folder], check=True)


async def test_a_full_disk_is_named_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """On a file system that is too small; where none can be mounted this is not tried."""
    repo = repository(tmp_path / "repo", big_txt="x" * 3_000_000)
    home_of(repo).mkdir()
    if not mounted(home_of(repo)):
        pytest.skip("no file system can be mounted here")
    try:
        assert (await mistake(repo)).endswith("the disk is full. Free some space and try again.")
        assert git(repo, "worktree", "list", "--porcelain").count("worktree ") == 1
        assert git(repo, "branch", "--format=%(refname)") == "refs/heads/main"
    finally:
        unmount(home_of(repo))
