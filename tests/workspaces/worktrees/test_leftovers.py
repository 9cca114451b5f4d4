"""What is still there of worktrees, as the doctor tells it."""

import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.workspaces.worktrees.leftovers import doctor, named, typed
from tests.workspaces.worktrees.yard import commit, git, home_of, repository, worktree

from gencode.core.changes import describe_changes
from gencode.core.spec import Workspace
from gencode.permissions.agent_folders import worktrees_folder
from gencode.tasks.task_folders import worktree_changes
from gencode.workspaces.worktrees.agent_work import commit_work
from gencode.workspaces.worktrees.create import create_from, create_worktree, find_source
from gencode.workspaces.worktrees.leftovers import LeftoverWorktree, find_leftovers
from gencode.workspaces.worktrees.worktree import read_record, remove_record, write_record

pytestmark = pytest.mark.needs("git")

BEFORE = frozenset(
    ("path", "repository", "base", "branch", "workspace", "notes", "git_dir", "main_dir", "begun", "after")
)
"""What was noted of a worktree before there were origins."""


async def test_no_worktree_is_no_leftover(tmp_path: Path) -> None:
    assert await find_leftovers(tmp_path / "home") == []
    assert not (tmp_path / "home").exists()


async def test_leftovers_say_what_is_in_them_and_whether_it_is_merged(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = [await worktree(repo, name) for name in ("a-new", "b-done", "c-open", "d-merged")]
    for each in made[1:]:
        (each.path / each.name).write_text("work\n")
    await commit_work(made[1])
    await commit_work(made[3])
    (made[1].path / "later").write_text("more\n")
    git(repo, "merge", "--quiet", "gencode/d-merged")

    def left(number: int, changed: int, *, merged: bool) -> LeftoverWorktree:
        each = made[number]
        told = (str(each.path), str(repo), each.branch, changed)
        return LeftoverWorktree(*told, merged=merged, gone=False, dirty=not merged)

    assert await find_leftovers(home_of(repo)) == [
        left(0, 0, merged=True),
        left(1, 2, merged=False),
        left(2, 1, merged=False),
        left(3, 1, merged=True),
    ]


@pytest.mark.parametrize("how", ["merged", "squashed", "deleted by hand", "pruned"])
async def test_what_is_merged_is_removed_by_the_one_command_that_is_told(tmp_path: Path, how: str) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    (made.path / "x").write_text("work\n")
    await commit_work(made)
    git(repo, "merge", "--quiet", *(["--squash"] if how == "squashed" else []), "gencode/one")
    git(repo, "commit", "--quiet", "--allow-empty", "--message", "merged")
    if how in {"deleted by hand", "pruned"}:
        shutil.rmtree(made.path)
    if how == "pruned":
        git(repo, "worktree", "prune")
    (left,) = await find_leftovers(home_of(repo))
    assert (left.merged, typed(left.remove_command)) == (True, 0)
    assert await find_leftovers(home_of(repo)) == []
    assert git(repo, "branch", "--list", "gencode/*") == ""
    assert len(git(repo, "worktree", "list").splitlines()) == 1


async def test_what_was_done_after_the_command_was_told_is_not_removed_by_it(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    (made.path / "x").write_text("work\n")
    await commit_work(made)
    git(repo, "merge", "--quiet", "--squash", "gencode/one")
    git(repo, "commit", "--quiet", "--message", "squashed")
    (left,) = await find_leftovers(home_of(repo))
    (made.path / "x").write_text("more work\n")
    await commit_work(made)
    assert typed(left.remove_command) != 0
    assert git(repo, "show", "gencode/one:x") == "more work"


async def test_commits_that_are_on_no_branch_are_not_offered_for_removal(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    lost = commit(made.path, lost_txt="1\n")
    git(made.path, "reset", "--quiet", "--hard", made.base)
    await commit_work(made)
    [left] = await find_leftovers(home_of(repo))
    assert (left.merged, left.strays, left.merge_command.startswith(f"git -C {made.path} reflog")) == (
        False,
        True,
        True,
    )
    git(repo, "merge", "--quiet", lost)
    [left] = await find_leftovers(home_of(repo))
    assert (left.merged, left.strays) == (True, False)


async def test_work_that_was_squashed_counts_as_merged(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    (made.path / "x").write_text("work\n")
    await commit_work(made)
    git(repo, "merge", "--quiet", "--squash", "gencode/one")
    assert [each.merged for each in await find_leftovers(home_of(repo))] == [False]
    git(repo, "commit", "--quiet", "--message", "squashed")
    assert [each.merged for each in await find_leftovers(home_of(repo))] == [True]


async def test_what_is_gone_is_told_and_what_is_wholly_gone_is_not(tmp_path: Path) -> None:
    repo, lost = repository(tmp_path / "repo"), repository(tmp_path / "lost")
    deleted, removed = await worktree(repo, "deleted"), await worktree(repo, "removed")
    orphan = await worktree(lost, "orphan")
    (deleted.path / "x").write_text("work\n")
    await commit_work(deleted)
    shutil.rmtree(deleted.path)
    git(repo, "worktree", "remove", str(removed.path))
    git(repo, "branch", "--quiet", "-D", "gencode/removed")
    shutil.rmtree(lost)
    stray = worktrees_folder(home_of(repo)) / "other" / "stray"
    stray.mkdir(parents=True)
    assert await find_leftovers(home_of(repo)) == [
        LeftoverWorktree(str(orphan.path), str(lost), "gencode/orphan", None, merged=False, gone=True),
        LeftoverWorktree(str(stray), "", "", None, merged=False, gone=False),
        LeftoverWorktree(
            str(deleted.path), str(repo), "gencode/deleted", 1, merged=False, gone=False, missing=True
        ),
    ]


async def test_a_record_that_is_damaged_or_names_another_is_not_believed(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one, two = await worktree(repo, "one"), await worktree(repo, "two")
    records = one.path.parent / ".records"
    (records / "one.json").write_bytes((records / "two.json").read_bytes())
    (records / "two.json").write_text('{"path": 1')
    assert [each.branch for each in await find_leftovers(home_of(repo))] == ["", ""]
    assert (one.path / "a.txt").exists()
    assert (two.path / "a.txt").exists()


async def test_the_record_of_a_fork_from_before_its_origin_was_noted_is_read_and_tells_what_is_true(
    tmp_path: Path,
) -> None:
    repo = repository(tmp_path / "repo")
    first = await worktree(repo, "first")
    (first.path / "one.txt").write_text("one\n")
    begun = (await commit_work(first)).commit
    source = replace(await find_source(repo), base=begun)
    fork = await create_from(source, Workspace(repo, repo, tmp_path), home_of(repo), "fork")
    fork = replace(fork, begun="the work of task first", after="first")
    write_record(fork)
    record = fork.path.parent / ".records" / "fork.json"
    old = {name: value for name, value in json.loads(record.read_bytes()).items() if name in BEFORE}
    record.write_text(json.dumps(old))
    (fork.path / "two.txt").write_text("two\n")
    found = read_record(fork.path)
    assert found is not None and (found, found.first) == (fork, begun)
    work = await commit_work(found)
    lines = describe_changes(worktree_changes(found, work)).splitlines()
    assert [change.path for change in work.files] == ["two.txt"]
    assert lines[1] == "[It began with the work of task first, which is on its branch as well.]"
    assert "```diff" in lines and f"To take it over: git -C {repo} merge gencode/fork" in lines
    left = {Path(each.path).name: each.changed for each in await find_leftovers(home_of(repo))}
    assert left == {"first": 1, "fork": 1}


async def test_the_doctor_lists_them_and_changes_nothing(tmp_path: Path, home: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await create_worktree(Workspace(repo, repo, home), home / ".gen", "one")
    (made.path / "x").write_text("work\n")
    said = doctor(repo)
    assert said["worktrees"] == [
        {
            "path": str(made.path),
            "repository": str(repo),
            "branch": "gencode/one",
            "changed": 1,
            "merged": False,
            "gone": False,
            "missing": False,
            "away": False,
            "dirty": True,
            "tip": "",
            "listed": True,
            "mixedSince": "",
            "ignored": "",
            "strays": False,
            "aside": "",
            "besides": False,
            "branched": True,
            "atWork": [],
            "hidden": False,
            "inside": [],
            "submodules": [],
            "modules": "",
            "filters": [],
            "settled": False,
            "others": [],
            "astray": False,
            "ownBranch": "",
            "half": False,
        }
    ]
    assert [check for check in said["checks"] if check["name"] == "worktree"] == [
        {
            "name": "worktree",
            "state": "ok",
            "detail": f"{made.path}: gencode/one of {repo}, 1 file changed, not merged",
            "fix": f"git -C {made.path} add -A && git -C {made.path} commit -m 'What the agent left' && "
            f"git -C {repo} merge gencode/one",
        }
    ]
    assert git(made.path, "status", "--short") == "?? x"


@pytest.mark.parametrize("dirty", [True, False])
@pytest.mark.parametrize("where", ["at", "beyond", "beside", "before", "without"])
async def test_one_that_is_not_at_its_branch_is_merged_whole_by_the_command_that_is_told(
    tmp_path: Path, where: str, dirty: bool
) -> None:
    """Somebody left its branch: stayed at it, went beyond, beside or before it, or deleted it."""
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    (made.path / "first").write_text("work\n")
    await commit_work(made)
    named(repo)
    git(made.path, "checkout", "--quiet", "--detach", made.base if where in ("beside", "before") else "HEAD")
    if where not in ("at", "before"):
        commit(made.path, second="work\n")
    if where == "without":
        git(repo, "branch", "--quiet", "-D", made.branch)
    if dirty:
        (made.path / "third").write_text("work\n")
    [left] = await find_leftovers(home_of(repo))
    wrote = {"first": True, "second": where not in ("at", "before"), "third": dirty}
    own = {name for name, done in wrote.items() if done}
    assert (left.changed, left.merged, left.dirty) == (len(own), False, dirty)
    assert typed(left.merge_command) == 0
    assert {*git(repo, "ls-tree", "--name-only", "HEAD").split()} == {"a.txt", "sub"} | own
    [after] = await find_leftovers(home_of(repo))
    assert (after.merged, typed(after.remove_command), await find_leftovers(home_of(repo))) == (True, 0, [])


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
async def test_what_an_agent_hid_from_its_index_is_found_and_merged(tmp_path: Path, flag: str) -> None:
    """It was killed, so that nobody has committed anything."""
    repo = repository(tmp_path / "repo", a_txt="a\n", b_txt="b\n")
    named(repo)
    made = await worktree(repo)
    git(made.path, "update-index", flag, "a.txt")
    (made.path / "a.txt").write_text("work\n")
    assert git(made.path, "status", "--short") == ""
    [left] = await find_leftovers(home_of(repo))
    assert (left.changed, left.merged, left.dirty) == (1, False, True)
    assert typed(left.merge_command) == 0
    assert (repo / "a.txt").read_text() == "work\n"
    [after] = await find_leftovers(home_of(repo))
    assert (after.merged, typed(after.remove_command)) == (True, 0)


@pytest.mark.parametrize("more", [True, False])
async def test_a_repository_that_was_made_inside_is_never_merged_and_told_until_it_is_gone(
    tmp_path: Path, home: Path, more: bool
) -> None:
    repo = repository(tmp_path / "repo")
    named(repo)
    made = await create_worktree(Workspace(repo, repo, home), home / ".gen", "one")
    inner = repository(made.path / "vendor" / "inner")
    if more:
        (made.path / "vendor" / "new").write_text("work\n")
    [left] = await find_leftovers(home / ".gen")
    assert (left.merged, left.dirty, left.inside) == (False, more, ("vendor/inner",))
    if more:
        assert typed(left.merge_command) == 0
        assert git(repo, "ls-files", "vendor") == "vendor/new"
        [left] = await find_leftovers(home / ".gen")
    [check] = [check for check in doctor(repo)["checks"] if check["name"] == "worktree"]
    files = "1 file" if more else "0 files"
    assert (left.merged, left.settled, check["detail"], check["fix"]) == (
        False,
        True,
        f"{made.path}: gencode/one of {repo}, {files} changed, all is merged but repositories that were made "
        "in it: vendor/inner",
        f"git -C {inner} log (shows what is in it; when you have what you need: rm -rf {inner})",
    )
    shutil.rmtree(inner)
    [after] = await find_leftovers(home / ".gen")
    assert (after.merged, typed(after.remove_command)) == (True, 0)


async def test_one_from_which_another_was_made_is_not_offered_for_removal(tmp_path: Path, home: Path) -> None:
    repo = repository(tmp_path / "repo")
    named(repo)
    outer = await create_worktree(Workspace(repo, repo, home), home / ".gen", "outer")
    inner = await create_worktree(outer.workspace, home / ".gen", "inner")
    (inner.path / "x").write_text("work\n")
    found = {check["detail"].split(":")[0]: check for check in doctor(repo)["checks"]}
    told = found[str(outer.path)]
    assert told["detail"] == (
        f"{outer.path}: gencode/outer of {repo}, 0 files changed, all of it is merged; others were made from "
        f"it, so it stays: {inner.path}"
    )
    assert (told["fix"], typed(found[str(inner.path)]["fix"])) == ("", 0)
    assert git(outer.path, "show", "gencode/outer:x") == "work"


async def test_work_from_a_checkout_that_is_gone_is_offered_to_the_one_that_is_left(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    named(repo)
    git(repo, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    made = await worktree(tmp_path / "side")
    (made.path / "x").write_text("work\n")
    await commit_work(made)
    git(repo, "worktree", "remove", str(tmp_path / "side"))
    [left] = await find_leftovers(home_of(repo))
    assert (left.gone, left.repository, left.changed, left.merged) == (False, str(repo), 1, False)
    assert typed(left.merge_command) == 0
    assert (repo / "x").read_text() == "work\n"
    [after] = await find_leftovers(home_of(repo))
    assert (after.merged, typed(after.remove_command)) == (True, 0)


async def test_after_a_kill_between_the_commit_and_its_index_the_commands_work_as_they_are(
    tmp_path: Path,
) -> None:
    repo = repository(tmp_path / "repo")
    named(repo)
    made = await worktree(repo)
    (made.path / "x").write_text("work\n")
    before = (made.git_dir / "index").read_bytes()
    await commit_work(made)
    (made.git_dir / "index").write_bytes(before)
    [left] = await find_leftovers(home_of(repo))
    assert (left.changed, left.dirty, typed(left.merge_command)) == (1, False, 0)
    [after] = await find_leftovers(home_of(repo))
    assert (after.merged, typed(after.remove_command)) == (True, 0)
    assert (await find_leftovers(home_of(repo)), (repo / "x").read_text()) == ([], "work\n")


@pytest.mark.parametrize("half", [True, False])
async def test_one_whose_making_was_cut_is_told_with_all_that_has_to_go(
    tmp_path: Path, home: Path, half: bool
) -> None:
    repo = repository(tmp_path / "repo")
    made = await create_worktree(Workspace(repo, repo, home), home / ".gen", "one")
    remove_record(made.path)
    if half:
        (made.git_dir / "index").unlink()
        (made.path / "sub" / "b.txt").unlink()
    force = " --force" if half else ""
    [check] = [check for check in doctor(repo)["checks"] if check["name"] == "worktree"]
    remove = f"git -C {repo} worktree remove{force} {made.path} && git -C {repo} branch -d gencode/one"
    assert (check["detail"], check["fix"]) == (
        f"{made.path}: nothing is known about it",
        f"look into it, then {remove}",
    )
    assert typed(remove) == 0
    assert (await find_leftovers(home / ".gen"), git(repo, "branch", "--list", "gencode/*")) == ([], "")
