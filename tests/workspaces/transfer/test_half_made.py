"""A worker that was killed while it made a copy: later tasks of that repository do not notice."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.workspaces.transfer.mirror_folder import mirror_of
from tests.workspaces.transfer.post import TASK, Office, arrived, sent
from tests.workspaces.worktrees.halves import STEPS, branches, half_made, tip_of
from tests.workspaces.worktrees.yard import TEN, commit, git, repository

from gencode.journal.folder_snapshot import FolderSnapshot
from gencode.workspaces.worktrees.worktree import repository_folder

pytestmark = pytest.mark.needs("git")
DEAD = "0123dead-01234567"
KILLS = int(os.environ.get("GEN_EXAMPLES", "6"))


def later(first: FolderSnapshot, repo: Path, text: str) -> FolderSnapshot:
    """The same repository one commit on, to be fetched."""
    tip = commit(repo, a_txt=text)
    return replace(first, tip=tip, head=tip, remote=f"file://{repo}", branch="main", known=(tip,), packs=())


@pytest.mark.parametrize("step", STEPS)
async def test_what_a_killed_worker_left_half_made_stops_no_later_task(
    tmp_path: Path, office: Office, step: str
) -> None:
    repo, home = repository(tmp_path / "repo", a_txt=TEN), tmp_path / "home"
    first = await sent(repo, office)
    mirror = mirror_of(first, home)
    kept = await arrived(first, office, home)
    (kept.cwd / "new.txt").write_text("new\n")
    entry = half_made(mirror, repository_folder(home, mirror) / DEAD, step)
    other = await arrived(first, office, home, "0123abc1")
    assert ((other.cwd / "a.txt").read_text(), entry.exists()) == (TEN, False)
    half_made(mirror, kept.tree.path.parent / DEAD, step)
    fetched = await arrived(later(first, repo, "more\n"), office, home, "0123abc2")
    assert (fetched.cwd / "a.txt").read_text() == "more\n"
    half_made(mirror, kept.tree.path.parent / DEAD, step)
    work, why = await kept.hand_in(office, "me", "worker")
    assert (why, work.notes, kept.tree.path.exists()) == ("", (), False)
    assert (entry.exists(), (kept.tree.path.parent / DEAD).exists()) == (False, False)
    assert branches(mirror) == sorted(each.tree.branch for each in (other, fetched))


async def test_the_work_of_an_agent_is_never_swept_away(tmp_path: Path, office: Office) -> None:
    repo, home = repository(tmp_path / "repo", a_txt=TEN), tmp_path / "home"
    first = await sent(repo, office)
    mirror = mirror_of(first, home)
    kept = await arrived(first, office, home)
    (kept.tree.git_dir / "locked").write_text("initializing\n")
    filled = kept.tree.path.parent / DEAD
    entry = half_made(mirror, filled, "whole")
    (filled / "new.txt").write_text("new\n")
    await arrived(first, office, home, "0123abc1")
    assert (kept.cwd / "a.txt").read_text() == TEN
    assert sorted(each.name for each in filled.iterdir()) == [".git", "new.txt"]
    assert (entry / "HEAD").read_text() == f"ref: refs/heads/gencode/{DEAD}\n"


async def test_what_a_machine_that_went_down_left_empty_is_written_again(
    tmp_path: Path, office: Office
) -> None:
    repo, home = repository(tmp_path / "repo", a_txt=TEN), tmp_path / "home"
    first = await sent(repo, office)
    kept = await arrived(first, office, home)
    (kept.cwd / "new.txt").write_text("new\n")
    (kept.tree.git_dir / "commondir").write_text("")
    other = await arrived(first, office, home, "0123abc1")
    assert (other.cwd / "a.txt").read_text() == TEN
    work, why = await kept.hand_in(office, "me", "worker")
    assert (why, work.notes, office.back[TASK][0].files) == ("", (), 1)


def killed_while_adding(mirror: Path, path: Path) -> None:
    git(mirror, "update-ref", f"refs/heads/gencode/{path.name}", tip_of(mirror))
    command = ("git", "worktree", "add", "--quiet", "--no-checkout", str(path), f"gencode/{path.name}")
    adding = subprocess.Popen(command, cwd=mirror, start_new_session=True)
    time.sleep(random.uniform(0.001, 0.006))
    os.killpg(adding.pid, signal.SIGKILL)
    adding.wait()


async def test_a_git_that_is_killed_at_any_moment_stops_no_later_task(tmp_path: Path, office: Office) -> None:
    repo, home = repository(tmp_path / "repo", a_txt=TEN), tmp_path / "home"
    first = await sent(repo, office)
    folder = (await arrived(first, office, home)).tree.path.parent
    for number in range(KILLS):
        killed_while_adding(mirror_of(first, home), folder / f"{DEAD}-{number}")
    fetched = await arrived(later(first, repo, "more\n"), office, home, "0123abc1")
    assert (fetched.cwd / "a.txt").read_text() == "more\n"
