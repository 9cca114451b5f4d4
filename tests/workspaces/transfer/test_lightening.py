"""One file that is too large to travel keeps nothing else back: it stays where it is, and that is told."""

import random
from pathlib import Path

import pytest
from tests.workspaces.transfer.notices import said
from tests.workspaces.transfer.post import TASK, Office, arrived, sent
from tests.workspaces.worktrees.yard import TEN, git, repository

from gencode.fleet.worker_workspace import CopiedTaskFolder
from gencode.journal.folder_snapshot import MOST_PACK
from gencode.workspaces.transfer import checkout
from gencode.workspaces.transfer.apply_changes import ChangeApplier
from gencode.workspaces.transfer.excluded_files import LargeContents, exclusion_steps
from gencode.workspaces.transfer.worker_copy import IncomingTask

pytestmark = pytest.mark.needs("git")

MOST = 20_000
BRANCH = f"gencode/{TASK}"


@pytest.fixture(autouse=True)
def small_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the tests need no files of many MiB."""
    monkeypatch.setattr(checkout, "MOST_PACK", MOST)


def noise(size: int) -> bytes:
    """What no packing makes smaller, the same each time."""
    return random.Random(size).randbytes(size)


def project(tmp_path: Path) -> Path:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    (repo / "old.bin").write_bytes(b"old\n")
    git(repo, "add", ".")
    git(repo, "commit", "--quiet", "--message", "Old")
    return repo


async def test_the_rest_is_handed_in_and_comes_home_while_the_large_files_stay(
    tmp_path: Path, office: Office
) -> None:
    repo = project(tmp_path)
    lodging = await arrived(await sent(repo, office), office, tmp_path / "home")
    copy = lodging.cwd
    (copy / "a.txt").write_text("changed\n")
    (copy / "old.bin").write_bytes(noise(MOST + 1_000))
    (copy / "new\n.bin").write_bytes(noise(MOST + 2_000))
    (copy / "twin.bin").write_bytes(noise(MOST + 2_000))
    (copy / "fits.bin").write_bytes(noise(MOST // 2))
    work, why = await lodging.hand_in(office, "me", "worker")
    left = r"new\n.bin, old.bin, twin.bin"
    assert (why, [(each.status, each.path) for each in work.files]) == (
        "",
        [("changed", "a.txt"), ("added", "fits.bin")],
    )
    assert work.notes == (f"too large to send with the rest, in the copy only: {left}",)
    assert (office.back[TASK][0].left, office.back[TASK][0].files) == (left, 2)
    assert (copy / "twin.bin").read_bytes() == noise(MOST + 2_000)
    assert (await ChangeApplier(repo, office).apply(*office.back[TASK])).state == "applied"
    assert (repo / "old.bin").read_bytes() == b"old\n"
    assert git(repo, "status", "--short").split() == ["M", "a.txt", "??", "fits.bin"]


async def test_commits_with_such_a_file_become_one_commit_without_it(tmp_path: Path, office: Office) -> None:
    repo = project(tmp_path)
    lodging = await arrived(await sent(repo, office), office, tmp_path / "home")
    copy = lodging.cwd
    for name, content in (("b.txt", b"b\n"), ("big.bin", noise(2 * MOST)), ("c.txt", b"c\n")):
        (copy / name).write_bytes(content)
        git(copy, "add", ".")
        git(copy, "commit", "--quiet", "--message", f"Add {name}")
    work, why = await lodging.hand_in(office, "me", "worker")
    assert (why, [each.path for each in work.files]) == ("", ["b.txt", "c.txt"])
    assert work.notes == (
        "what was committed in it and is not in its files stays in the copy only, because it is larger "
        f"than {MOST_PACK >> 20} MiB",
        "too large to send with the rest, in the copy only: big.bin",
    )
    (repo / "b.txt").write_text("mine\n")
    assert (await ChangeApplier(repo, office).apply(*office.back[TASK])).state == "offered"
    assert git(repo, "ls-tree", "--name-only", BRANCH).split() == ["a.txt", "b.txt", "c.txt", "old.bin"]
    assert git(repo, "rev-list", "--count", f"HEAD..{BRANCH}") == "1"


async def test_the_result_names_what_stayed_and_where_and_who_goes_on_elsewhere_hears_it(
    tmp_path: Path, office: Office
) -> None:
    repo = project(tmp_path)
    guest = IncomingTask(TASK, str(repo), await sent(repo, office))
    made = await CopiedTaskFolder.prepare(guest, office, tmp_path / "home", "far")
    made.run_by(office.owner)
    (made.workspace.cwd / "a.txt").write_text("changed\n")
    (made.workspace.cwd / "big.bin").write_bytes(noise(2 * MOST))
    ending = await made.summary()
    await made.leave(tmp_path / "home")
    stays = "too large to send with the rest, in the copy only: big.bin"
    assert f"\nNot copied back, {stays}, in {made.path}.\n" in said(ending)
    assert (f"a copy of {repo} on far" in said(ending), ending.notes) == (True, (stays,))
    again = await CopiedTaskFolder.prepare(guest, office, tmp_path / "other", "near")
    assert sorted(each.name for each in again.workspace.cwd.iterdir()) == [".git", "a.txt", "old.bin"]
    [told] = again.change_notice()
    assert told.text.endswith(": big.bin.]")
    await again.leave(tmp_path / "other")
    same = await CopiedTaskFolder.prepare(guest, office, tmp_path / "home", "far")
    assert (same.same_place, (same.workspace.cwd / "big.bin").exists()) == (True, True)
    same.run_by(office.owner)
    (same.workspace.cwd / "b.txt").write_text("b\n")
    ending = await same.summary()
    await same.leave(tmp_path / "home")
    assert f"\nNot copied back, {stays}, in {made.path}.\n" in said(ending)
    assert (office.back[TASK][0].files, office.back[TASK][0].left) == (2, "big.bin")


def test_the_heaviest_are_left_out_first_and_no_more_than_must_be() -> None:
    heavy = [LargeContents(size, ()) for size in (MOST_PACK, MOST_PACK // 2, MOST_PACK // 2, 10, 1)]
    assert [len(each) for each in exclusion_steps(heavy)] == [2, 3, 4, 5]
    assert [len(each) for each in exclusion_steps(heavy[3:])] == [1, 2]
    assert list(exclusion_steps([])) == []
