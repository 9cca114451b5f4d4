"""Where a worker runs a task: in its folder, in a copy of it, or not at all."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from gencode.core.changes import describe_changes
from gencode.core.errors import StoreTrouble, UserMistake
from gencode.core.events import TaskCreated, TaskStarted
from gencode.core.messages import NoticeKind, SystemNotice
from gencode.core.place import WorkerCopy
from gencode.core.task import Task
from gencode.fleet.worker_workspace import FolderMode, FolderRequest, WorkerCopies, WorkerSettings
from gencode.journal.dispatch import NOT_HERE
from gencode.journal.folder_snapshot import COPIED, FolderSnapshot, mark_of
from gencode.stores.memory import MemoryStore
from gencode.tasks.task_folders import FolderSummary
from gencode.workspaces.transfer.mirror import FolderUnavailable
from gencode.workspaces.worktrees.leftovers import find_leftovers
from tests.workspaces.transfer.post import TASK, Office, sent
from tests.workspaces.worktrees.yard import TEN, repository

pytestmark = pytest.mark.needs("git")


def lodgings(
    tmp_path: Path, office: Office, folders: FolderMode = "auto", store: MemoryStore | None = None
) -> WorkerCopies:
    house = WorkerSettings("worker", tmp_path / "work", tmp_path / "home", folders)
    return WorkerCopies(store or MemoryStore(), office, house)


async def wanted(repo: Path, office: Office) -> FolderRequest:
    return FolderRequest(TASK, str(repo), mark_of(repo), await sent(repo, office))


async def used(lodgings: WorkerCopies, wanted: FolderRequest) -> str:
    """What a task gets: the folder itself, a copy, or why it gets none."""
    try:
        async with lodgings.folder_for(wanted) as lodged:
            return "itself" if lodged is None else "a copy"
    except FolderUnavailable as why:
        return str(why)


async def test_a_folder_is_used_as_it_is_only_where_it_really_is(tmp_path: Path) -> None:
    office = Office()
    repo = repository(tmp_path / "work" / "repo")
    here = await wanted(repo, office)
    elsewhere = replace(here, mark="another one")
    outside = await wanted(repository(tmp_path / "outside"), office)
    (tmp_path / "work" / "link").symlink_to(tmp_path / "outside")
    linked = replace(outside, cwd=str(tmp_path / "work" / "link"))
    plain = replace(elsewhere, snapshot=None, alone="it is in no repository")
    apart = replace(here, mark=COPIED)
    all_of_them = (here, elsewhere, outside, linked, plain, replace(plain, mark=""), apart)
    found = {
        folders: [await used(lodgings(tmp_path, office, folders), each) for each in all_of_them]
        for folders in ("auto", "shared", "away")
    }
    assert found == {
        "auto": ["itself", "a copy", "a copy", "a copy", NOT_HERE, "itself", "a copy"],
        "shared": ["itself", "itself", NOT_HERE, NOT_HERE, "itself", "itself", "a copy"],
        "away": ["a copy", "a copy", "a copy", "a copy", NOT_HERE, NOT_HERE, "a copy"],
    }
    assert await find_leftovers(tmp_path / "home") == []


async def test_who_cannot_make_a_copy_says_why_and_what_is_forged_is_refused(tmp_path: Path) -> None:
    office = Office()
    snapshot = FolderSnapshot(key="a" * 40, tip="b" * 40, remote=f"file://{tmp_path}/none", known=("b" * 40,))
    place = lodgings(tmp_path, office)
    assert "cannot be fetched from" in await used(place, FolderRequest(TASK, "/nowhere", "x", snapshot))
    [(task, worker, why, _)] = office.hindered
    assert (task, worker, "cannot be fetched from" in why) == (TASK, "worker", True)
    with pytest.raises(UserMistake, match="a remote address that is not allowed: 'ext::x'"):
        await used(place, FolderRequest(TASK, "/nowhere", "x", replace(snapshot, remote="ext::x")))
    assert len(office.hindered) == 1


async def test_an_agent_that_began_elsewhere_is_told_where_it_is_now(tmp_path: Path) -> None:
    office, store = Office(), MemoryStore()
    repo = repository(tmp_path / "there", a_txt=TEN)
    lease = await store.create(TaskCreated(agent="x", prompt="y"), "dead", (TaskStarted(),))
    here = replace(await wanted(repo, office), task=lease.task)
    place = lodgings(tmp_path, office, store=store)
    async with place.folder_for(here) as lodged:
        assert lodged is not None
        [heard] = lodged.change_notice()
        assert f"Your folder is now {lodged.workspace.cwd} on worker, made again from git" in heard.text
        here_now = WorkerCopy(str(lodged.workspace.cwd), "worker")
        assert heard.notice == SystemNotice(NoticeKind.PLACE, place=here_now)
        (lodged.workspace.cwd / "a.txt").write_text("begun\n")
        place.abandon()
        assert await lodged.summary() == FolderSummary()
    async with place.folder_for(here) as again:
        assert again is not None and (again.workspace.cwd / "a.txt").read_text() == "begun\n"
        again.run_by(office.owner)
        assert again.change_notice() == []
        ended = await again.summary()
    head = f"[It worked in a copy of {repo} on worker. What it changed there:]\nchanged a.txt +1 -10"
    offer = f"To take it over, if that was not done yet: gen task merge {lease.task}"
    assert ended.changes and describe_changes(ended.changes).startswith(f"{head}\n{offer}\n```diff\n")
    assert office.back[lease.task][0].cwd == str(repo)


async def test_a_copy_is_free_again_when_the_database_went_away_while_it_was_made(tmp_path: Path) -> None:
    class Gone(MemoryStore):
        gone = True

        async def task(self, task: str) -> Task | None:
            if self.gone:
                raise StoreTrouble("it did not answer")
            return await super().task(task)

    office, store = Office(), Gone()
    place, it = lodgings(tmp_path, office, store=store), await wanted(repository(tmp_path / "repo"), office)
    with pytest.raises(StoreTrouble) as kept:  # whoever keeps what was raised keeps all that it held
        await used(place, it)
    store.gone = False
    assert (await used(place, it), str(kept.value)) == ("a copy", "it did not answer")
