"""Agents in worktrees of their own, as somebody has to do with them who types commands in a repository."""

import os
import re
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gencode.testing import call, says
from tests.interfaces.cli.running import Ended, gen, script, start
from tests.tasks.repository import git, repository
from tests.waiting import until

pytestmark = pytest.mark.needs("git")

FREE = ("--permission-mode", "acceptEdits")
APART = (*FREE, "--isolation", "worktree")
AGENT = "---\nname: scribe\ndescription: writes\nisolation: worktree\n---\nYou write."


def writes(name: str, text: str) -> dict[str, Any]:
    return says("", call("Write", file_path=name, content=text))


def run(folder: Path, model: str, *words: str, agent: str = "general-purpose") -> tuple[str, Ended]:
    """Send an agent; its id and what was printed."""
    ended = gen("task", "run", agent, "go", "--model", model, *words, "--json", cwd=folder)
    return ended.json["agentId"], ended


def sh(folder: Path, command: str) -> "subprocess.CompletedProcess[str]":
    name = {f"GIT_{who}_{what}": "t@e" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environ = {**os.environ, **name}
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


def branches(folder: Path) -> list[str]:
    return [line.strip("*+ ") for line in git(folder, "branch", "--list", "gencode/*").splitlines()]


def test_a_fork_of_an_agent_in_a_worktree_has_one_of_its_own_with_the_work_so_far(
    tmp_path: Path, home: Path
) -> None:
    folder = repository(tmp_path / "project")
    (home / ".gen" / "agents").mkdir(parents=True)
    (home / ".gen" / "agents" / "scribe.md").write_text(AGENT)
    turns = [writes("first.txt", "1\n"), says("one"), writes("second.txt", "2\n"), says("two")]
    model = script(tmp_path, others=turns)
    source, _ = run(folder, model, *FREE, agent="scribe")
    here = gen("task", "fork", source, "more", "--model", model, *FREE, cwd=folder)
    (fork,) = {*branches(folder)} - {f"gencode/{source}"}
    started = f"made from the work of task {source}, as it was when the fork began."
    assert (here.code, started in here.err) == (0, True)
    assert f"[It began with the work of task {source}, which is on its branch as well.]" in here.out
    assert "diff --git a/second.txt" in here.out
    assert "diff --git a/first.txt" not in here.out
    behind = gen("task", "fork", source, "more", "--model", model, *FREE, "--background", cwd=folder)
    output = gen("task", "output", behind.out.strip(), cwd=folder)
    assert (started in behind.err, f"on the branch gencode/{behind.out.strip()}," in output.out) == (
        True,
        True,
    )
    assert git(folder, "status", "--short") == ""
    git(folder, "merge", "-q", fork)
    assert [(folder / name).read_text() for name in ("first.txt", "second.txt")] == ["1\n", "2\n"]


def test_a_fork_in_the_folder_itself_may_have_a_worktree_and_leaves_none_without_changes(
    tmp_path: Path,
) -> None:
    folder = repository(tmp_path / "project")
    model = script(tmp_path, others=[says("one"), says("two")])
    source, _ = run(folder, model)
    forked = gen("task", "fork", source, "more", "--model", model, *APART, cwd=folder)
    assert f"made from the last commit of {folder}." in forked.err
    assert forked.out == "two\n\n[It changed no file in its worktree, which was removed.]\n"
    assert branches(folder) == []


def test_a_fork_of_an_agent_that_changed_nothing_begins_where_that_one_began(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project")
    turns = [writes("first.txt", "1\n"), says("one"), says("two"), writes("third.txt", "3\n"), says("three")]
    model = script(tmp_path, others=turns)
    first, _ = run(folder, model, *APART)

    def fork_of(task: str) -> tuple[str, Ended]:
        ended = gen("task", "fork", task, "more", "--model", model, *FREE, "--json", cwd=folder)
        return ended.json["agentId"], ended

    second, unchanged = fork_of(first)
    assert unchanged.json["result"].endswith("[It changed no file in its worktree, which was removed.]")
    (folder / "a.txt").write_text("two\n")
    git(folder, "commit", "-qam", "meanwhile")
    third, forked = fork_of(second)
    assert f"the commit that task {second} started from" in forked.err
    assert (
        f"[It began with the work of task {first}, which is on its branch as well.]" in forked.json["result"]
    )
    names = git(folder, "ls-tree", "--name-only", f"gencode/{third}").split()
    assert (names, git(folder, "show", f"gencode/{third}:a.txt")) == (
        ["a.txt", "first.txt", "third.txt"],
        "one",
    )
    assert branches(folder) == sorted([f"gencode/{first}", f"gencode/{third}"])
    [take] = [line for line in forked.json["result"].splitlines() if line.startswith("To take it over: ")]
    assert sh(tmp_path, take.removeprefix("To take it over: ")).returncode == 0
    assert [(folder / f"{name}.txt").exists() for name in ("first", "third")] == [True, True]


def test_an_agent_that_outlives_the_command_has_its_worktree_too(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project")
    model = script(tmp_path, others=[writes("new.txt", "1\n"), says("done")])
    task, _ = run(folder, model, *APART, "--background")
    output = gen("task", "output", task, cwd=folder)
    assert f"[Its changes are on the branch gencode/{task}," in output.out
    assert (branches(folder), git(folder, "status", "--short")) == ([f"gencode/{task}"], "")


def test_an_agent_that_changed_nothing_is_woken_in_a_new_worktree(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project")
    model = script(tmp_path, others=[says("ready"), says("still"), writes("new.txt", "1\n"), says("done")])
    task, first = run(folder, model, *APART)
    assert first.json["result"].endswith("[It changed no file in its worktree, which was removed.]")
    resumed = gen("task", "resume", task, "again", "--model", model, cwd=folder)
    made = f"from the last commit of {folder}"
    assert (resumed.code, made in resumed.err) == (0, True)
    woken = gen("task", "send", task, "write now", cwd=folder)
    output = gen("task", "output", task, cwd=folder)
    shown = gen("task", "show", task, cwd=folder)
    assert (woken.code, f"[Its changes are on the branch gencode/{task}," in output.out) == (0, True)
    assert git(folder, "show", f"gencode/{task}:new.txt") == "1"
    assert "was removed" in " ".join(shown.out.split())


def test_an_agent_whose_worktree_was_deleted_is_told_how_to_get_it_back(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project")
    model = script(tmp_path, others=[writes("new.txt", "1\n"), says("done"), says("on"), says("and on")])
    task, _ = run(folder, model, *APART)
    sh(folder, "rm -r " + git(folder, "worktree", "list", "--porcelain").split("worktree ")[2].split("\n")[0])
    refused = gen("task", "resume", task, "again", cwd=folder)
    assert (refused.code, f"gencode/{task}" in refused.err) == (2, True)
    assert sh(folder, refused.err.partition("check it out again: ")[2].splitlines()[0]).returncode == 0
    again = gen("task", "resume", task, "again", cwd=folder)
    assert (again.code, again.out.startswith("on\n")) == (0, True)


def test_work_that_is_merged_is_not_offered_again_when_its_agent_goes_on(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project")
    model = script(tmp_path, others=[writes("new.txt", "1\n"), says("done"), says("small")])
    task, _ = run(folder, model, *APART)
    git(folder, "merge", "-q", f"gencode/{task}")
    resumed = gen("task", "resume", task, "again", "--model", model, cwd=folder)
    assert f"are all in {folder}.]" in resumed.out
    assert not re.search("not in your checkout|can be merged|take it over", resumed.out)


def test_the_doctor_prints_a_command_that_works_for_work_that_another_agent_did_as_well(
    tmp_path: Path,
) -> None:
    folder = repository(tmp_path / "project")
    model = script(tmp_path, others=[writes("new.txt", "1\n"), says("done")])
    (task, _), (other, _) = run(folder, model, *APART), run(folder, model, *APART)
    git(folder, "merge", "-q", f"gencode/{task}")
    found = [
        each for each in gen("doctor", "--json", cwd=folder).json["checks"] if each["name"] == "worktree"
    ]
    assert ["all of it is merged" in each["detail"] for each in found] == [True, True]
    assert {f"gencode/{task}", f"gencode/{other}"} == {*branches(folder)}
    assert [sh(tmp_path, each["fix"]).returncode for each in found] == [0, 0]
    assert (branches(folder), len(git(folder, "worktree", "list").splitlines())) == ([], 1)


def test_what_is_merged_but_for_files_that_git_ignores_is_told_with_those(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project")
    (folder / ".gitignore").write_text("out/\n")
    git(folder, "add", ".gitignore")
    git(folder, "commit", "-qm", "ignores")
    model = script(tmp_path, others=[writes("out/report.txt", "1\n"), writes("new.txt", "1\n"), says("done")])
    task, _ = run(folder, model, *APART)
    git(folder, "merge", "-q", f"gencode/{task}")
    but = "but what is ignored by git, in the worktree only: out/report.txt"
    output = gen("task", "output", task, cwd=folder)
    assert (output.code, output.out.rstrip().endswith(f"[All its changes are in {folder} now, {but}.]")) == (
        0,
        True,
    )
    merge = gen("task", "merge", task, cwd=folder)
    assert (merge.code, f"in {folder}, {but}. To see it: git -C " in merge.err) == (2, True)


async def test_after_a_kill_the_output_names_the_branch_and_how_to_take_it_over(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project")
    turns = [writes("half.txt", "half\n"), says("never", delay_ms=600_000)]
    model = script(tmp_path, others=turns)
    words = ("task", "run", "general-purpose", "go", "--model", model, *APART)
    process = start(*words, cwd=folder)

    def trees() -> list[str]:
        return git(folder, "worktree", "list", "--porcelain").split("worktree ")[2:]

    await until(lambda: any(Path(each.split("\n")[0], "half.txt").exists() for each in trees()))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (branch,) = branches(folder)
    output = gen("task", "output", branch.removeprefix("gencode/"), cwd=folder)
    assert f"[It was interrupted. What it had changed, 1 file, is on the branch {branch}, in " in output.out
    assert not (folder / "half.txt").exists()
    assert sh(tmp_path, output.out.partition("To take it over: ")[2]).returncode == 0
    assert (folder / "half.txt").read_text() == "half\n"
    taken = gen("task", "output", branch.removeprefix("gencode/"), cwd=folder)
    assert taken.out.rstrip().endswith(f"and all of it is in {folder}.]")


async def test_the_doctor_offers_no_command_for_a_worktree_that_somebody_is_at_work_in(
    tmp_path: Path, home: Path
) -> None:
    folder = repository(tmp_path / "project")
    model = script(tmp_path, others=[says("never", delay_ms=600_000)])
    process = start("task", "run", "general-purpose", "go", "--model", model, *APART, cwd=folder)

    def trees() -> list[dict[str, Any]]:
        return gen("doctor", "--json", cwd=folder).json["worktrees"]

    def told() -> dict[str, Any]:
        return {each["name"]: each for each in gen("doctor", "--json", cwd=folder).json["checks"]}["worktree"]

    await until(lambda: any(each["atWork"] for each in trees()), "the agent is at work")
    (branch,) = branches(folder)
    task = branch.removeprefix("gencode/")
    at_work, (tree,) = told(), trees()
    merge = gen("task", "merge", task, cwd=folder)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    killed = told()
    before = f"{tree['path']}: {branch} of {folder}, 0 files changed"
    assert (tree["atWork"], at_work["detail"], at_work["fix"]) == (
        [task],
        f"{before}, in use: task {task} of general-purpose is at work in it",
        f"gen task show {task}",
    )
    assert (merge.code, merge.err) == (
        2,
        f"gen: Task {task} of general-purpose is at work in {tree['path']}; when nobody is any more, "
        f"gen task output {task} tells how to take it over.\n",
    )
    assert (killed["detail"], killed["fix"]) == (
        f"{before}, all of it is merged",
        f"git -C {folder} worktree remove {tree['path']} && git -C {folder} branch -d {branch}",
    )
    with closing(sqlite3.connect(home / ".gen" / "gencode.db")) as journal:
        journal.execute("PRAGMA user_version = 1")
    assert told()["detail"] == (
        f"{before}, all of it is merged; whether an agent is at work in it could not be seen"
    )
