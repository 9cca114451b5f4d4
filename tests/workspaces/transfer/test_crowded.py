"""Several tasks at one mirror at once, and a mirror that lacks a part of a commit that it has."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.workspaces.transfer.fork_parcel import FORK, with_work
from tests.workspaces.transfer.input_file import with_input
from tests.workspaces.transfer.mirror_folder import mirror_of
from tests.workspaces.transfer.post import TASK, Office, arrived, sent
from tests.workspaces.worktrees.yard import TEN, git, repository

from gencode.journal.folder_snapshot import InvalidSnapshot
from gencode.workspaces.transfer.apply_changes import ChangeApplier

pytestmark = pytest.mark.needs("git")
NOTHING = "0" * 40

Half = Callable[[Path], None]


def without_commit(common: Path) -> None:
    """As git has a worktree for a moment while it adds it."""
    _half_made(common)["HEAD"].write_text(f"{NOTHING}\n")


def without_words(common: Path) -> None:
    """As a file is while it is written: there, and empty."""
    _half_made(common)["commondir"].write_text("")


def _half_made(common: Path) -> dict[str, Path]:
    folder = common / "worktrees" / "half"
    folder.mkdir(parents=True)
    words = {"gitdir": "/nowhere/.git", "HEAD": "ref: refs/heads/half", "commondir": "../.."}
    for name, text in words.items():
        (folder / name).write_text(f"{text}\n")
    return {name: folder / name for name in words}


def only_the_commit(mirror: Path, repo: Path, name: str) -> None:
    """Put a commit into a mirror, and nothing of what it leads to."""
    text = with_input(repo, "cat-file", "commit", name, text=b"")
    there = with_input(mirror, "hash-object", "-t", "commit", "-w", "--stdin", text=text)
    assert there.decode().strip() == name


async def test_a_worktree_that_is_being_made_beside_it_takes_nothing_from_a_task(
    tmp_path: Path, office: Office
) -> None:
    repo, home = repository(tmp_path / "repo", a_txt=TEN), tmp_path / "home"
    fork = await with_work(repo, home, office)
    without_commit(mirror_of(fork, home))
    lodging = await arrived(fork, office, home, FORK)
    (repo / "a.txt").write_text("later\n")
    other = await arrived(await sent(repo, office), office, home, "0123abcf")
    assert (lodging.cwd / "new.txt").read_text() == "new\n"
    assert (other.cwd / "a.txt").read_text() == "later\n"
    (lodging.cwd / "more.txt").write_text("more\n")
    _, why = await lodging.hand_in(office, "me", "worker")
    assert (why, office.back[FORK][0].files) == ("", 3)


@pytest.mark.parametrize("half", [without_commit, without_words])
async def test_work_comes_home_while_a_worktree_is_being_made_there(
    tmp_path: Path, office: Office, half: Half
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    await with_work(repo, tmp_path / "home", office)
    half(repo / ".git")
    arrival = await ChangeApplier(repo, office).apply(*office.back[TASK])
    assert (arrival.state, (repo / "new.txt").read_text()) == ("applied", "new\n")


async def test_a_fetch_waits_until_a_worktree_is_made(tmp_path: Path, office: Office) -> None:
    repo, home = repository(tmp_path / "repo", a_txt=TEN), tmp_path / "home"
    first = await sent(repo, office)
    await arrived(first, office, home)
    tip = git(repo, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "more")
    git(repo, "update-ref", "refs/heads/more", tip)
    later = replace(first, tip=tip, head=tip, remote=f"file://{repo}", branch="more", known=(tip,), packs=())
    mirror = mirror_of(first, home)
    without_commit(mirror)

    async def made_in_the_end() -> None:
        await asyncio.sleep(0.2)
        shutil.rmtree(mirror / "worktrees" / "half")

    lodging, _ = await asyncio.gather(arrived(later, office, home, FORK), made_in_the_end())
    assert git(lodging.cwd, "log", "-1", "--format=%s") == "more"


async def test_a_commit_without_its_files_is_unpacked_again(tmp_path: Path, office: Office) -> None:
    repo, home, other = repository(tmp_path / "repo", a_txt=TEN), tmp_path / "home", tmp_path / "other"
    fork = await with_work(repo, home, office)
    begun = replace(fork, start="", start_head="", fork="", packs=fork.packs[:-1])
    await arrived(begun, office, other, "0123abcf")
    only_the_commit(mirror_of(fork, other), mirror_of(fork, home), fork.start)
    forked = await arrived(fork, office, other, FORK)
    resumed = await arrived(begun, office, other)
    assert [(each.cwd / "new.txt").read_text() for each in (forked, resumed)] == ["new\n"] * 2


async def test_a_folder_whose_commit_came_without_its_files_is_had_again(
    tmp_path: Path, office: Office
) -> None:
    repo, home = repository(tmp_path / "repo", a_txt=TEN), tmp_path / "home"
    first = await sent(repo, office)
    head = git(repo, "rev-parse", "HEAD")
    fetched = replace(first, key="b" * 40, remote=f"file://{repo}", branch="main", known=(head,), packs=())
    for snapshot in (first, fetched):
        mirror = mirror_of(snapshot, home)
        mirror.parent.mkdir(parents=True)
        git(mirror.parent, "init", "--quiet", "--bare", str(mirror))
        only_the_commit(mirror, repo, head)
        lodging = await arrived(snapshot, office, home, f"0123abc{snapshot.key[0]}")
        assert (lodging.cwd / "a.txt").read_text() == TEN


async def test_a_commit_without_its_files_that_no_pack_has_is_refused(tmp_path: Path, office: Office) -> None:
    repo, home, other = repository(tmp_path / "repo", a_txt=TEN), tmp_path / "home", tmp_path / "other"
    fork = await with_work(repo, home, office)
    await arrived(replace(fork, start="", start_head="", fork=""), office, tmp_path / "third", "0123abcf")
    short = replace(fork, packs=fork.packs[:-1])
    await arrived(replace(short, start="", start_head="", fork=""), office, other, "0123abcf")
    only_the_commit(mirror_of(fork, other), mirror_of(fork, home), fork.start)
    with pytest.raises(InvalidSnapshot, match="what the task did before is not all there"):
        await arrived(short, office, other, FORK)


async def test_many_tasks_at_one_mirror_begin_and_hand_in_at_once(tmp_path: Path, office: Office) -> None:
    repo, home = repository(tmp_path / "repo", a_txt=TEN), tmp_path / "home"
    fork = await with_work(repo, home, office)
    tasks = [f"0123ab0{number}" for number in range(4)]

    async def run(task: str) -> str:
        lodging = await arrived(fork, office, home, task)
        (lodging.cwd / f"{task}.txt").write_text("x\n")
        return (await lodging.hand_in(office, "me", "worker"))[1]

    assert await asyncio.gather(*map(run, tasks)) == [""] * 4
    assert [office.back[task][0].files for task in tasks] == [3] * 4
