"""What a command cannot put into git's folder for a person's git to obey, though it was not there before."""

import asyncio
import fcntl
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gencode.core.spec import Workspace
from gencode.sandbox.guarded_paths import guarded_state, touched_paths
from gencode.sandbox.placeholder_files import OWN_COMMONDIR, add_placeholders
from gencode.sandbox.profile import SandboxProfile, workspace_profile
from gencode.sandbox.shells import CommandRequest, Shells
from tests.sandbox.conftest import BUBBLEWRAP, built
from tests.sandbox.yard import BASH, SECONDS, Ended, Yard

pytestmark = pytest.mark.needs("git")

GIT = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org")
EVIL = r"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"touch %s; false\"\n"
REDIRECT = (
    "mkdir .git/evil; cp -r .git/objects .git/refs .git/evil/; printf '{config}' > .git/evil/config; "
    "mkdir .git/evil/hooks; echo evil > .git/commondir"
)


def git(folder: Path, *words: str) -> str:
    done = subprocess.run([*GIT, "-C", folder, *words], capture_output=True, text=True, check=True)
    return done.stdout


def repository(folder: Path) -> Path:
    """A repository with one commit and without any hooks, as some have it."""
    subprocess.run(["git", "init", "-q", "--template=", folder], check=True)
    git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    return folder


@pytest.fixture(params=[BUBBLEWRAP, "namespaces"])
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Yard:
    made = built(request.param, tmp_path)
    (made.workspace / ".git/config").unlink()
    (made.workspace / ".git/hooks").rmdir()
    repository(made.workspace)
    return made


@contextmanager
def held(plan: SandboxProfile) -> Generator[SandboxProfile]:
    found = add_placeholders(plan)
    try:
        yield found.plan
    finally:
        found.release()


def run(yard: Yard, plan: SandboxProfile, text: str, cwd: Path) -> Ended:
    ended = subprocess.run(
        yard.wall.enclose((*BASH, text), plan),
        cwd=cwd,
        env=yard.environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def bash(yard: Yard, text: str) -> Ended:
    with held(yard.plan()) as plan:
        return run(yard, plan, text, yard.workspace)


def test_gits_folder_cannot_be_redirected(yard: Yard) -> None:
    ran = yard.base / "ran"
    attack = REDIRECT.format(config=EVIL % ran)
    ended = bash(yard, f"{attack} || rm -rf .git/evil; false")
    assert ended.code != 0
    git(yard.workspace, "status")
    assert (ran.exists(), (yard.workspace / ".git/commondir").exists()) == (False, False)
    subprocess.run(["bash", "-c", attack], cwd=yard.workspace, check=True)
    git(yard.workspace, "status")
    assert ran.exists(), "without a wall the attack works, so the test would see it"


def test_no_other_name_that_git_obeys_can_be_made(yard: Yard) -> None:
    work = yard.workspace
    git(work, "worktree", "add", "-q", str(yard.base / "linked"))
    (work / ".git/modules/part/deep").mkdir(parents=True)
    (work / ".git/modules/part/deep/HEAD").write_text("ref: refs/heads/main\n")
    attempts = [
        "echo x > .git/config.worktree",
        "echo x > .git/hooks/pre-commit",
        "rmdir .git/hooks",
        "mkdir .git/modules/new",
        "mkdir .git/modules/part/new",
        "echo x > .git/modules/part/deep/commondir",
        "echo x > .git/modules/part/deep/hooks/post-checkout",
        "mv .git/modules/part/deep .git/modules/part/moved",
        "echo x > .git/worktrees/linked/commondir",
        "echo x > .git/new; mv -f .git/new .git/worktrees/linked/commondir",
        "rm -f .git/worktrees/linked/gitdir",
        "mv .git/worktrees/linked .git/worktrees/moved",
        "rm -f .git/commondir",
        "mv .git/commondir .git/moved",
        "ln -sf evil .git/commondir",
        "mv .git moved",
        "rm -rf .git/config; false",
    ]
    with held(yard.plan()) as plan:
        before = guarded_state(plan.guarded)
        text = "; ".join(f"({each}) 2>/dev/null && echo {number}" for number, each in enumerate(attempts))
        assert run(yard, plan, f"{text}; true", work) == Ended(0, "", "")
        assert touched_paths(before, guarded_state(plan.guarded)) == []


def test_git_works_as_ever_behind_the_wall_and_before_it(yard: Yard) -> None:
    commit = " ".join(GIT)
    text = (
        f"echo x > file; git add file; {commit} commit -qm two; git log --format=%s; git status --short file"
    )
    with held(yard.plan()) as plan:
        assert run(yard, plan, text, yard.workspace) == Ended(0, "two\none\n", "")
        assert git(yard.workspace, "log", "--format=%s") == "two\none\n"
    assert git(yard.workspace, "status", "--short") == "?? .gen/\n"


def test_the_last_command_takes_away_what_stands_in(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    common = work / ".git/commondir"
    common.write_bytes(OWN_COMMONDIR)  # a process that was killed has left it
    plan = workspace_profile(work, tmp_path / "temp", tmp_path / "home", environ={})
    first, second = add_placeholders(plan), add_placeholders(plan)
    assert common.read_bytes() == OWN_COMMONDIR
    first.release()
    assert common.read_bytes() == OWN_COMMONDIR
    second.release()
    names = {"HEAD", "config", "config.worktree", "hooks", "objects", "refs"}
    assert {each.name for each in (work / ".git").iterdir()} - {"logs", "index", "COMMIT_EDITMSG"} == names


def test_what_git_itself_put_there_stays(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    (work / ".git/commondir").write_text("../../other\n")
    with held(workspace_profile(work, tmp_path / "temp", tmp_path / "home", environ={})):
        pass
    assert (work / ".git/commondir").read_text() == "../../other\n"


@pytest.mark.parametrize("reason", ["its files are elsewhere", "somebody keeps it locked"])
def test_where_nothing_can_stand_in_the_whole_folder_is_guarded(tmp_path: Path, reason: str) -> None:
    work = repository(tmp_path / "work")
    if reason == "its files are elsewhere":
        git(work, "config", "core.worktree", str(tmp_path / "elsewhere"))
    (work / ".git/commondir").write_bytes(OWN_COMMONDIR)
    locked = os.open(work / ".git/commondir", os.O_RDONLY)
    try:
        if reason == "somebody keeps it locked":
            fcntl.flock(locked, fcntl.LOCK_EX)
        plan = workspace_profile(work, tmp_path / "temp", tmp_path / "home", environ={})
        with held(plan) as closed:
            assert closed.guarded == (*plan.guarded, work / ".git")
    finally:
        os.close(locked)


def test_in_a_part_of_a_copy_git_commits_and_its_settings_stay(yard: Yard) -> None:
    own = yard.base / "home/own"
    copy = repository(own / "worktrees/a/one")
    (copy / "part").mkdir()
    settled = (copy / ".git/config").read_text()
    commit = " ".join(GIT)
    text = f"echo x > file; git add file; {commit} commit -qm two; git log --format=%s; pwd > ../outside"
    with held(workspace_profile(copy / "part", yard.base / "temp", own, environ={})) as plan:
        ended = run(yard, plan, text, copy / "part")
        assert (ended.out, ended.code != 0) == ("two\none\n", True)
        attempts = "echo x >> ../.git/config || echo y > ../.git/commondir || mv ../.git ../moved"
        assert run(yard, plan, attempts, copy / "part").code != 0
    left = sorted(each.name for each in copy.iterdir())
    assert ((copy / ".git/config").read_text(), left) == (settled, [".git", "part"])


def test_in_a_part_of_a_repository_of_the_person_it_is_only_read(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    (work / "part").mkdir()
    plan = workspace_profile(work / "part", tmp_path / "temp", tmp_path / "home", environ={})
    assert plan.writable == (work / "part",)


@pytest.mark.needs("bwrap")
async def test_a_command_of_an_agent_cannot_redirect_git_at_once_or_later(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    ran, common = tmp_path / "ran", work / ".git/commondir"
    attack = REDIRECT.format(config=EVIL % ran)
    shells = Shells(tmp_path / "home")
    workspace = Workspace(work, work, tmp_path)
    try:
        result = await shells.run(CommandRequest(f"{attack}; rm -rf .git/evil", workspace, "task"))
        assert (result.touched, common.exists()) == ((), False)
        shell = await shells.start(
            CommandRequest(f"until [ -e go ]; do sleep 0.05; done; {attack}", workspace, "task")
        )
        assert common.read_bytes() == OWN_COMMONDIR
        (work / "go").touch()
        async with asyncio.timeout(60):
            await shell.running.task
        git(work, "status")
        assert (ran.exists(), common.exists()) == (False, False)
    finally:
        await shells.close()
