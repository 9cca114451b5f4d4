"""A task in a worktree that goes from machine to machine: its work goes along, also with its forks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gencode import GenCode, Outcome
from gencode.app import components
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.journal.dispatch import SharedJournal
from gencode.journal.folder_snapshot import ReturnedChanges
from gencode.tasks.fork import Fork
from gencode.workspaces.worktrees.worktree import read_record, repository_folder
from tests.fleet.conftest import PATIENT
from tests.fleet.country import Country, call, results, says, told
from tests.fleet.driving import ended
from tests.interfaces.cli.running import gen as typed
from tests.postgres import Postgres
from tests.waiting import until
from tests.workspaces.worktrees.yard import git

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.needs("git")]

WORKTREE = TaskRequest("general-purpose", "work", isolation="worktree")


@pytest.fixture(scope="module")
def country(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Country]:
    """A worker that has neither the folder nor its worktrees."""
    made = Country(postgres, tmp_path_factory.mktemp("country"))
    made.settle("--concurrency", "4", *PATIENT)
    yield made
    made.close()


def writes(country: Country, name: str) -> None:
    """Let agents look at their folder and write a file."""
    country.write(says(call("LS", path="."), call("Write", file_path=name, content=f"{name}\n")))


async def seen(app: GenCode, task: str) -> set[str]:
    """The files that an agent saw when it last looked."""
    listed = (await results(app, task))[-2]
    return {name for name in ("one", "two", "three", "four", "open") if f"{name}.txt" in listed}


async def at_home(country: Country, task: str, name: str) -> tuple[Outcome, set[str]]:
    writes(country, name)
    async with country.gen() as app:
        found = await app.resume(task, "go on")
        assert (found.status, found.error) == (Status.COMPLETED, None)
        return found, await seen(app, task)


async def on_worker(country: Country, task: str, name: str) -> set[str]:
    writes(country, name)
    async with country.gen() as app:
        await app.detach(TaskRequest("", "go on", resume=task))
        theirs = "SELECT id FROM gen_task WHERE dispatch IS NOT NULL"
        await until(lambda: [task] not in country.rows(theirs), "the worker is done with it")
        found = await app.find(task)
        assert (found.status, found.end.error) == (Status.COMPLETED, None)
        return await seen(app, task)


async def forks(country: Country, task: str) -> list[set[str]]:
    """What forks see that begin at home and on a worker."""
    writes(country, "four.txt")
    async with country.gen() as app:
        near = await app.fork(task, "another way")
        far, _ = await components(app).tasks.service.fork_detached(
            task, Fork(), TaskRequest("", "another way")
        )
        found = [await app.find(near.agent_id), *await ended(app, [far])]
        assert [(each.status, each.end.error) for each in found] == [(Status.COMPLETED, None)] * 2
        return [await seen(app, each.id) for each in found]


async def came_back(app: GenCode, task: str) -> ReturnedChanges:
    shared = components(app).store
    assert isinstance(shared, SharedJournal)
    found = await shared.snapshots.returned(task)
    assert found is not None
    return found[0]


async def test_work_of_an_isolated_task_goes_along_from_worker_to_home_and_back(country: Country) -> None:
    writes(country, "one.txt")
    async with country.gen() as app:
        [first] = await ended(app, [(await app.detach(WORKTREE)).agent_id])
    assert await forks(country, first.id) == [{"one"}] * 2
    home, saw = await at_home(country, first.id, "two.txt")
    [tree] = [each for each in worktrees(country) if each.name == f"{first.id}-home"]
    (tree / "open.txt").write_text("not committed\n")
    assert (saw, "added one.txt" in home.result) == ({"one"}, True)
    assert await forks(country, first.id) == [{"one", "two", "open"}] * 2
    assert await on_worker(country, first.id, "three.txt") == {"one", "two", "open"}
    assert await forks(country, first.id) == [{"one", "two", "three", "open"}] * 2
    writes(country, "three.txt")
    async with country.gen() as app:
        await app.resume(first.id, "go on")
        heard = await told(app, first.id)
    assert (tree / "three.txt").read_text() == "three.txt\n"
    assert f"{tree}, on the branch gencode/{first.id}-home, as before; what you changed on " in heard[-2]
    taken = typed("task", "merge", first.id, cwd=country.folder, GEN_DATABASE_URL=country.url)
    assert (taken.code, git(country.folder, "status", "--short")) == (
        0,
        "?? one.txt\n?? open.txt\n?? three.txt\n?? two.txt",
    )
    for name in ("one", "open", "three", "two"):
        (country.folder / f"{name}.txt").unlink()


async def test_work_of_a_task_in_a_worktree_here_goes_along_to_a_worker_and_back(country: Country) -> None:
    writes(country, "one.txt")
    async with country.gen() as app:
        first = await app.task("general-purpose", "work", isolation="worktree")
        tree = Path((await app.find(first.agent_id)).created.worktree)
    assert await on_worker(country, first.agent_id, "two.txt") == {"one"}
    assert await forks(country, first.agent_id) == [{"one", "two"}] * 2
    _, saw = await at_home(country, first.agent_id, "three.txt")
    assert (saw, (tree / "two.txt").read_text(), (tree / "three.txt").is_file()) == (
        {"one", "two"},
        "two.txt\n",
        True,
    )
    assert await on_worker(country, first.agent_id, "three.txt") == {"one", "two", "three"}
    assert await on_worker(country, first.agent_id, "four.txt") == {"one", "two", "three"}
    (tree / "four.txt").write_text("somebody else's\n")
    async with country.gen() as app:
        behind = await app.resume(first.agent_id, "go on")
        heard = await told(app, first.agent_id)
        work = await came_back(app, first.agent_id)
    assert (behind.status, (tree / "four.txt").read_text()) == (Status.COMPLETED, "somebody else's\n")
    branch = f"gencode/{first.agent_id}-{work.commit[:8]}"
    way = f"git -C {tree} merge {branch}"
    assert "four.txt" in heard[-2] and way in heard[-2]
    assert git(tree, "show", f"{branch}:four.txt") == "four.txt"


async def test_what_a_person_had_not_committed_is_not_committed_by_taking_the_work_over(
    country: Country,
) -> None:
    (country.folder / "open.txt").write_text("of a person\n")
    writes(country, "one.txt")
    async with country.gen() as app:
        [first] = await ended(app, [(await app.detach(WORKTREE)).agent_id])
    found, saw = await at_home(country, first.id, "two.txt")
    [way] = [line for line in found.result.splitlines() if line.startswith("To take it over: ")]
    assert (saw, "or: " in found.result, " merge " in way) == ({"one", "open"}, False, False)
    git(country.folder, "-c", f"alias.take=!{way.removeprefix('To take it over: ')}", "take")
    assert git(country.folder, "status", "--short") == "A  one.txt\nA  two.txt\n?? open.txt"
    git(country.folder, "reset", "--quiet", "--hard")
    (country.folder / "open.txt").unlink()


def worktrees(country: Country) -> list[Path]:
    lines = git(country.folder, "worktree", "list", "--porcelain").splitlines()
    return [Path(line.removeprefix("worktree ")) for line in lines if line.startswith("worktree ")]


async def test_on_two_machines_with_one_repository_a_task_goes_on_with_what_is_on_its_branch(
    country: Country, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def move(machine: str) -> Path:
        monkeypatch.setenv("GEN_HOME", str(tmp_path / machine))
        return repository_folder(tmp_path / machine, country.folder)

    move("first")
    writes(country, "one.txt")
    async with country.gen() as app:
        task = (await app.task("general-purpose", "work", isolation="worktree")).agent_id
        tree = Path((await app.find(task)).created.worktree)
    before = git(country.folder, "rev-parse", f"gencode/{task}")
    (tree / "open.txt").write_text("only here\n")
    folder = move("second")
    hidden = (tmp_path / "first").rename(tmp_path / "not here")
    assert await forks(country, task) == [{"one"}] * 2
    found, saw = await at_home(country, task, "two.txt")
    [second] = [each for each in worktrees(country) if each.name.startswith(f"{task}-at-")]
    assert (saw, second.parent) == ({"one"}, folder)
    assert f"[Its changes are on the branch gencode/{second.name}, in {second}, and not" in found.result
    async with country.gen() as app:
        heard = (await told(app, task))[-2]
    assert f"from the branch gencode/{task}" in heard
    assert (tree in worktrees(country), git(country.folder, "rev-parse", f"gencode/{task}")) == (True, before)
    hidden.rename(tmp_path / "first")
    move("first")
    _, saw = await at_home(country, task, "three.txt")
    assert (saw, (tree / "two.txt").read_text()) == ({"one", "two", "open"}, "two.txt\n")
    move("second")
    _, saw = await at_home(country, task, "four.txt")
    assert saw == {"one", "two", "three", "open"}
    move("third")
    assert await on_worker(country, task, "four.txt") == {"one", "two", "three", "four", "open"}
    there = read_record(second)
    assert there is not None and there.branch == f"gencode/{second.name}"


async def test_what_does_not_fit_to_what_was_done_on_another_machine_is_named_with_its_branch(
    country: Country, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEN_HOME", str(tmp_path / "first"))
    writes(country, "one.txt")
    async with country.gen() as app:
        task = (await app.task("general-purpose", "work", isolation="worktree")).agent_id
        tree = Path((await app.find(task)).created.worktree)
    (tree / "one.txt").write_text("changed here\n")
    hidden = (tmp_path / "first").rename(tmp_path / "not here")
    monkeypatch.setenv("GEN_HOME", str(tmp_path / "second"))
    await at_home(country, task, "two.txt")
    [second] = [each for each in worktrees(country) if each.name.startswith(f"{task}-at-")]
    (second / "one.txt").write_text("changed there\n")
    await at_home(country, task, "three.txt")
    hidden.rename(tmp_path / "first")
    monkeypatch.setenv("GEN_HOME", str(tmp_path / "first"))
    _, saw = await at_home(country, task, "four.txt")
    async with country.gen() as app:
        heard = (await told(app, task))[-2]
    branch = f"gencode/{second.name}"
    way = f"git -C {tree} merge {branch}"
    assert "one.txt" in heard and way in heard
    assert (saw, git(tree, "show", f"{branch}:one.txt")) == ({"one"}, "changed there")


async def test_what_came_back_and_was_not_taken_over_stays_when_the_task_is_sent_again(
    country: Country,
) -> None:
    writes(country, "one.txt")
    async with country.gen() as app:
        task = (await app.task("general-purpose", "work", isolation="worktree")).agent_id
        tree = Path((await app.find(task)).created.worktree)
    await on_worker(country, task, "two.txt")
    (tree / "two.txt").write_text("somebody else's\n")
    await at_home(country, task, "three.txt")
    async with country.gen() as app:
        first = await came_back(app, task)
        before = git(tree, "rev-parse", "HEAD")
        heard = await told(app, task)
    branch = f"gencode/{task}-{first.commit[:8]}"
    assert "two.txt" in heard[-2] and branch in heard[-2]
    assert await on_worker(country, task, "four.txt") == {"one", "two", "three"}
    assert (git(country.folder, "show", f"{branch}:two.txt"), git(tree, "rev-parse", "HEAD")) == (
        "two.txt",
        before,
    )
    where = f"on {first.worker}: they are on the branch {branch} of {country.folder}"
    async with country.gen() as app:
        second = await came_back(app, task)
        heard, ended = await told(app, task), await app.find(task)
    assert f"You continue without your changes {where}." in heard[-2]
    assert f"it continues without its changes {where}" in ended.evidence.warnings
    assert second.commit != first.commit
