"""Copies that begin with the work of another task: what is in them, what goes back, and hostile senders."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.workspaces.transfer.fork_parcel import FORK, with_work
from tests.workspaces.transfer.post import TASK, Office, arrived
from tests.workspaces.worktrees.yard import TEN, git, repository

from gencode.journal.folder_snapshot import InvalidSnapshot
from gencode.workspaces.worktrees.leftovers import find_leftovers

pytestmark = pytest.mark.needs("git")


@pytest.mark.parametrize("same_worker", [True, False])
async def test_a_copy_begins_with_the_work_and_what_goes_back_is_all_of_it(
    tmp_path: Path, office: Office, same_worker: bool
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    snapshot = await with_work(repo, tmp_path / "home", office)
    lodging = await arrived(snapshot, office, tmp_path / ("home" if same_worker else "other"), FORK)
    assert (lodging.fresh, git(lodging.cwd, "log", "-1", "--format=%s")) == (True, "Changed")
    assert git(lodging.cwd, "status", "--short") == "?? new.txt"
    (lodging.cwd / "more.txt").write_text("more\n")
    work, why = await lodging.hand_in(office, "me", "worker")
    told = sorted(each.path for each in work.files)
    assert (why, told, office.back[FORK][0].files) == ("", ["a.txt", "more.txt", "new.txt"], 3)
    assert snapshot.start != office.back[FORK][0].commit
    assert TASK in office.back and office.back[TASK][0].commit == snapshot.start


async def test_a_copy_that_stays_as_it_was_is_removed_and_nothing_goes_back(
    tmp_path: Path, office: Office
) -> None:
    snapshot = await with_work(repository(tmp_path / "repo", a_txt=TEN), tmp_path / "home", office)
    lodging = await arrived(snapshot, office, tmp_path / "home", FORK)
    await lodging.hand_in(office, "me", "worker")
    assert (office.back[FORK][0].nothing, office.back[FORK][0].taken) == (True, True)
    unused = await arrived(snapshot, office, tmp_path / "home", "0123abcf")
    await unused.remove_if_unused()
    assert await find_leftovers(tmp_path / "home") == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"start": "--output=x"}, "not a commit"),
        ({"start": "1" * 40}, "not all there"),
        ({"start_head": "1" * 40}, "at a commit that it was not at"),
        ({"packs": ("s" + "2" * 40,), "start": "1" * 40}, "not in the database"),
        ({"start_left": "a\x1b[31m"}, "missing files that is not valid"),
    ],
)
async def test_work_that_is_not_what_it_says_is_not_begun_with(
    tmp_path: Path, office: Office, words: dict[str, Any], why: str
) -> None:
    snapshot = await with_work(repository(tmp_path / "repo", a_txt=TEN), tmp_path / "home", office)
    with pytest.raises(InvalidSnapshot, match=why):
        await arrived(replace(snapshot, **words), office, tmp_path / "home", FORK)
    assert FORK not in office.back
