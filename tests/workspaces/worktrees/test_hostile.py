"""Repositories and agents that would like git to run something, to hide something, or to lead elsewhere."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.workspaces.worktrees.yard import TEN, commit, git, home_of, repository, worktree

from gencode.core.changes import ChangedFile
from gencode.core.errors import UserMistake
from gencode.workspaces.worktrees.agent_work import commit_work
from gencode.workspaces.worktrees.leftovers import find_leftovers

pytestmark = pytest.mark.needs("git")

HOOKS = (
    *(
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "pre-commit",
        "commit-msg",
        "post-commit",
    ),
    *(
        "prepare-commit-msg",
        "pre-merge-commit",
        "post-merge",
        "pre-auto-gc",
        "post-rewrite",
        "fsmonitor-watchman",
    ),
)
PROGRAMS = (
    *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass", "core.gitProxy"),
    *("core.alternateRefsCommand", "credential.helper", "sequence.editor", "gpg.program", "gpg.ssh.program"),
    *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "filter.Evil.Two.smudge"),
    *("diff.external", "diff.evil.command", "diff.evil.textconv", "merge.evil.driver", "hook.evil.command"),
    *(
        "filter..clean",
        "filter..smudge",
        "filter..process",
        "diff..command",
        "diff..textconv",
        "merge..driver",
    ),
    *("pager.status", "pager.diff", "alias.status", "alias.reset", "interactive.diffFilter"),
)


def plainly(folder: Path, *words: str) -> None:
    """What anybody's git would do, whether it can or not: it shows that a trap is one."""
    subprocess.run(["git", *words], cwd=folder, capture_output=True, check=False)


def trap(repo: Path, git_dir: Path) -> Path:
    """Name a program that leaves a trace wherever a configuration can name one; where the trace would be."""
    trace, program = repo.parent / "trace", repo.parent / "program"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {trace}\ncat\n')
    program.chmod(0o755)
    for name in HOOKS:
        (git_dir / "hooks").mkdir(exist_ok=True)
        (git_dir / "hooks" / name).symlink_to(program)
    for name in PROGRAMS:
        git(repo, "config", name, str(program))
    for name, value in {
        "filter.evil.required": "true",
        "commit.gpgSign": "true",
        "hook.evil.event": "post-checkout",
        "merge.renormalize": "true",
        "diff.submodule": "log",
        "core.untrackedCache": "true",
    }.items():
        git(repo, "config", name, value)
    return trace


@pytest.mark.parametrize("driver", ["evil", ""])
async def test_nothing_of_a_repository_runs(tmp_path: Path, driver: str) -> None:
    attributes = f"* filter={driver} diff={driver} merge={driver}\n"
    repo = repository(tmp_path / "repo", a_txt=TEN, _gitattributes=attributes)
    trace = trap(repo, repo / ".git")
    made = await worktree(repo)
    assert made.notes == ("filters such as LFS were not run; as git keeps them are: .gitattributes, a.txt",)
    (made.path / "a.txt").write_text(TEN.replace("1\n", "theirs\n"))
    (made.path / "new").write_text("new\n")
    (repo / "a.txt").write_text(TEN.replace("1\n", "mine\n"))
    done = await commit_work(made)
    assert [each.path for each in done.files] == ["a.txt", "new"]
    assert (await find_leftovers(home_of(repo)))[0].changed == 2
    assert not trace.exists()
    plainly(repo, "add", "--all")
    assert trace.exists()


@pytest.mark.parametrize("driver", ["evil", ""])
async def test_a_merge_driver_is_not_run_and_counts_as_a_conflict(tmp_path: Path, driver: str) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN, _gitattributes=f"* merge={driver}\n")
    made = await worktree(repo)
    (made.path / "a.txt").write_text(TEN.replace("1\n", "theirs\n"))
    commit(repo, a_txt=TEN.replace("9\n", "mine\n"))
    trace = trap(repo, repo / ".git")
    done = await commit_work(made)
    assert (done.merges, done.conflicts) == ("conflicts", ("a.txt",))
    assert not trace.exists()
    plainly(repo, "merge-tree", "--write-tree", "main", "gencode/one")
    assert trace.exists()


async def test_what_a_worktree_of_its_own_names_is_not_run_either(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN, _gitattributes="* filter=evil\n")
    git(repo, "config", "extensions.worktreeConfig", "true")
    made = await worktree(repo)
    trace = repo.parent / "trace"
    for folder in (repo, made.path):
        git(folder, "config", "--worktree", "filter.evil.clean", f"touch {trace}; cat")
    (made.path / "a.txt").write_text("theirs\n")
    (repo / "a.txt").write_text("mine\n")
    done = await commit_work(made)
    assert done.overlaps == ("a.txt",)
    assert not trace.exists()
    plainly(repo, "add", "--all")
    assert trace.exists()


async def test_a_git_that_does_not_obey_settings_of_the_environment_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "repo")
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text(f'#!/bin/sh\nunset GIT_CONFIG_COUNT\nexec {shutil.which("git")} "$@"\n')
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(UserMistake, match=r"older than 2\.31"):
        await worktree(repo)


async def test_missing_contents_are_not_fetched(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    trace = tmp_path / "trace"
    for name, value in {
        "remote.origin.url": f"ext::sh -c touch% {trace}",
        "remote.origin.promisor": "true",
        "remote.origin.partialCloneFilter": "blob:none",
        "protocol.ext.allow": "always",
        "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1",
    }.items():
        git(repo, "config", name, value)
    blob = git(repo, "rev-parse", "HEAD:a.txt")
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(UserMistake):
        await worktree(repo)
    assert not trace.exists()
    plainly(repo, "cat-file", "blob", blob)
    assert trace.exists()


async def test_a_repository_inside_is_left_alone(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner")
    repo = repository(tmp_path / "repo")
    git(repo, "submodule", "--quiet", "add", str(inner), "module")
    commit(repo)
    made = await worktree(repo)
    trace = tmp_path / "trace"
    git(tmp_path, "clone", "--quiet", str(inner), str(made.path / "module"))
    repository(made.path / "own")
    for name in ("module", "own"):
        git(made.path / name, "config", "core.fsmonitor", f"touch {trace}; false")
        (made.path / name / "a.txt").write_text("changed")
    git(tmp_path, "init", "--quiet", str(made.path / "empty"))
    (made.path / "beside").write_text("new\n")
    done = await commit_work(made)
    assert done.files == (ChangedFile("beside", "added", 1, 0),)
    assert done.notes == (
        "what is in submodules stays in the worktree only: module",
        "repositories made inside stay in the worktree only: empty, own",
    )
    assert (await find_leftovers(home_of(repo)))[0].merged is False
    assert not trace.exists()
    assert (made.path / "own" / "a.txt").read_text() == "changed"
    plainly(made.path, "add", "--all")
    assert trace.exists()


async def test_variables_of_our_own_environment_lead_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, other = repository(tmp_path / "repo"), repository(tmp_path / "other", x_txt="x\n")
    trace = tmp_path / "trace"
    for name, value in {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_EXTERNAL_DIFF": f"touch {trace}",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": f"touch {trace}; false",
        "GIT_AUTHOR_NAME": "Somebody",
    }.items():
        monkeypatch.setenv(name, value)
    made = await worktree(repo)
    (made.path / "a.txt").write_text("x")
    done = await commit_work(made)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    assert (made.repository, [each.path for each in done.files]) == (repo, ["a.txt"])
    assert git(repo, "log", "-1", "--format=%an <%ae>", "gencode/one") == "GenCode <gencode@localhost>"
    assert git(other, "branch", "--format=%(refname:short)") == "main"
    assert not trace.exists()


async def test_a_worktree_that_points_elsewhere_is_read_where_it_was_made(tmp_path: Path) -> None:
    repo, other = repository(tmp_path / "repo"), repository(tmp_path / "other")
    made = await worktree(repo)
    (made.path / ".git").write_text(f"gitdir: {other / '.git'}\n")
    done = await commit_work(made)
    assert (done.kept, done.notes) == (True, ("its .git was changed", f"it is kept: {made.path}"))
    (made.path / "new").write_text("new\n")
    assert [each.path for each in (await commit_work(made)).files] == ["new"]
    assert git(other, "branch", "--format=%(refname:short)") == "main"


async def test_changes_that_git_was_told_not_to_see_are_seen(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN, b_txt="b\n", c_txt="c\n")
    made = await worktree(repo)
    git(made.path, "update-index", "--assume-unchanged", "a.txt")
    git(made.path, "update-index", "--skip-worktree", "b.txt")
    git(made.path, "rm", "--cached", "--quiet", "c.txt")
    for name in "abc":
        (made.path / f"{name}.txt").write_text("hidden\n")
    (made.git_dir / "index.lock").touch()
    assert [each.path for each in (await commit_work(made)).files] == ["a.txt", "b.txt", "c.txt"]


async def test_file_names_of_any_kind_are_told_on_one_line(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    names = [
        b"-rf",
        b"line\nbreak",
        b"tab\there",
        b":(exclude)x",
        b'quote"',
        "grün".encode(),
        b"\x1b[31m",
        b"a b",
    ]
    if os.uname().sysname == "Linux":
        names.append(b"latin\xe9")
    for name in names:
        with open(os.fsencode(made.path) + b"/" + name, "wb") as file:  # noqa: PTH123, ASYNC230
            file.write(b"x\n")
    done = await commit_work(made)
    told = {each.path for each in done.files}
    assert told >= {"-rf", "line\\nbreak", "tab\\there", ":(exclude)x", 'quote"', "grün", "\\x1b[31m", "a b"}
    assert len(told) == len(names)
    assert all(each.isprintable() for each in told)
    assert done.diff.encode()
    assert git(made.path, "status", "--short") == ""


async def test_large_files_are_left_out_of_the_commit(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made = await worktree(repo)
    with (made.path / "large").open("wb") as file:
        file.truncate(200 << 20)
    (made.path / "small").write_text("s\n")
    done = await commit_work(made)
    assert done.files == (ChangedFile("small", "added", 1, 0),)
    assert done.notes == ("too large for a commit, in the worktree only: large",)
    assert (made.path / "large").exists()
