"""Agents with `isolation: worktree` on workers: in copies of their own, also where the folder is shared."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.app import components
from gencode.core.errors import UserMistake
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.tasks.fork import Fork
from tests.fleet.conftest import PATIENT
from tests.fleet.country import Country, call, results, says, told
from tests.fleet.driving import ended
from tests.interfaces.cli.running import Ended
from tests.interfaces.cli.running import gen as typed
from tests.postgres import Postgres
from tests.waiting import until
from tests.workspaces.worktrees.yard import git

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.needs("git")]


@pytest.fixture(scope="module")
def country(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Country]:
    """A worker that shares the folder, which is on the same machine."""
    made = Country(postgres, tmp_path_factory.mktemp("country"))
    made.settle("--concurrency", "4", "--workspace", str(made.folder), *PATIENT)
    yield made
    made.close()


def gen(country: Country, *words: str) -> Ended:
    model = ("--model", f"scripted:{country.script}", "--permission-mode", "acceptEdits")
    named = model if words[1] != "merge" else ()
    return typed(*words, *named, cwd=country.folder, GEN_DATABASE_URL=country.url)


def wrote(name: str) -> dict[str, Any]:
    """A script in which an agent looks at its folder and writes a file into it."""
    return says(call("LS", path="."), call("Write", file_path=name, content=f"{name}\n"))


def untouched(country: Country) -> bool:
    return git(country.folder, "status", "--short") == ""


async def sent(country: Country, app: GenCode, name: str) -> Task:
    country.write(wrote(name))
    begun = gen(country, "task", "run", "general-purpose", "work", "--background", "--isolation", "worktree")
    assert begun.code == 0, begun.err
    [found] = await ended(app, [begun.out.strip()])
    assert (found.status, found.end.error) == (Status.COMPLETED, None)
    return found


async def test_it_works_in_a_copy_and_what_it_changed_is_only_offered(country: Country) -> None:
    async with country.gen() as app:
        found = await sent(country, app, "one.txt")
        assert f"[It worked in a copy of {country.folder} on " in found.result
        assert "What it changed there:]\nadded one.txt +1 -0\n" in found.result
        assert f": gen task merge {found.id}\n" in found.result
        assert untouched(country)
        country.write(wrote("two.txt"))
        await app.detach(TaskRequest("", "and more", resume=found.id))
        [again] = await ended(app, [found.id])
        seen = await results(app, found.id)
    assert (again.status, "one.txt" in seen[-2]) == (Status.COMPLETED, True)
    assert untouched(country)
    merged = gen(country, "task", "merge", found.id)
    assert merged.code == 0, merged.err
    assert git(country.folder, "status", "--short") == "?? one.txt\n?? two.txt"
    for name in ("one.txt", "two.txt"):
        (country.folder / name).unlink()


async def test_at_home_it_goes_on_and_is_forked_in_a_worktree(country: Country) -> None:
    async with country.gen() as app:
        found = await sent(country, app, "one.txt")
    country.write(wrote("two.txt"))
    async with country.gen() as app:
        forked = await app.fork(found.id, "another way")
        once = await app.resume(found.id, "go on")
        heard = await told(app, found.id)
    country.write(wrote("three.txt"))
    async with country.gen() as app:
        twice = await app.resume(found.id, "and on")
    for each in (once, twice, forked):
        assert (each.status, "[Its changes are on the branch gencode/" in each.result) == (
            Status.COMPLETED,
            True,
        )
    assert "added two.txt" in once.result and "added three.txt" not in once.result
    assert "added two.txt" in twice.result and "added three.txt" in twice.result
    assert "which contains what you changed on " in heard[-2]
    assert "[It began with the work of task " in forked.result and "added one.txt" in once.result
    assert untouched(country)


async def test_a_fork_of_a_task_in_a_worktree_here_begins_with_its_work(country: Country) -> None:
    country.write(wrote("one.txt"))
    first = gen(country, "task", "run", "general-purpose", "work", "--isolation", "worktree", "--json").json
    async with country.gen() as app:
        tree = Path((await app.find(first["agentId"])).created.worktree)
        (tree / "left.txt").write_text("not committed\n")
        (tree / ".env").write_text("KEY=1\n")
        country.write(wrote("two.txt"))
        task, words = await components(app).tasks.service.fork_detached(
            first["agentId"], Fork(), TaskRequest("", "another way")
        )
        [found] = await ended(app, [task])
        seen, heard = await results(app, task), await told(app, task)
        early, early_words = await components(app).tasks.service.fork_detached(
            first["agentId"], Fork(3), TaskRequest("", "before")
        )
        [before] = await ended(app, [early])
        listed = await results(app, early)
    begins = f"It begins in a copy of {country.folder} as task {first['agentId']} left it, with what that one"
    assert (found.status, found.end.error, words.startswith(begins)) == (Status.COMPLETED, None, True)
    assert [name in seen[-2] for name in ("a.txt", "one.txt", "left.txt", ".env")] == [
        True,
        True,
        True,
        False,
    ]
    assert "the file changes you had made until then" in heard[-1]
    assert (
        "What both changed there:]\nadded left.txt +1 -0\nadded one.txt +1 -0\nadded two.txt" in found.result
    )
    assert "not sent: " in " ".join(found.evidence.warnings)
    assert (before.status, "as it was when task" in early_words) == (Status.COMPLETED, True)
    assert ("a.txt" in listed[-2], "one.txt" in listed[-2]) == (True, False)
    assert untouched(country)
    merged = gen(country, "task", "merge", task)
    assert merged.code == 0, merged.err
    assert git(country.folder, "status", "--short") == "?? left.txt\n?? one.txt\n?? two.txt"
    for name in ("left.txt", "one.txt", "two.txt"):
        (country.folder / name).unlink()


async def test_a_fork_of_it_and_an_isolated_fork_of_another_one_are_isolated(country: Country) -> None:
    async with country.gen() as app:
        first = await sent(country, app, "one.txt")
        country.write(says(call("LS", path="."), call("LS", path=".")))
        [plain] = await ended(app, [(await app.detach(TaskRequest("general-purpose", "look"))).agent_id])
        country.write(wrote("two.txt"))
        asked = TaskRequest("", "another way", isolation="worktree")
        forks = [
            (await components(app).tasks.service.fork_detached(task.id, Fork(), asked))[0]
            for task in (first, plain)
        ]
        found = await ended(app, forks)
        seen = [(await results(app, each.id))[-2] for each in found]
    assert [(each.status, each.created.isolated) for each in (*found, plain)] == [
        (Status.COMPLETED, True),
        (Status.COMPLETED, True),
        (Status.COMPLETED, False),
    ]
    assert ["one.txt" in each for each in seen] == [True, False]
    assert untouched(country)


async def at_home(country: Country) -> Task:
    """A task that wrote a file in a worktree on this machine."""
    country.write(wrote("one.txt"))
    async with country.gen() as app:
        first = await app.task("general-purpose", "work", isolation="worktree")
        country.write(wrote("two.txt"))
        return await app.find(first.agent_id)


async def gone_on(country: Country, app: GenCode, task: str) -> Task:
    """A task that was given to workers again, once they are done with it."""
    theirs = "SELECT id FROM gen_task WHERE dispatch IS NOT NULL"
    await until(lambda: [task] not in country.rows(theirs), "the workers are done with it")
    return await app.find(task)


async def test_a_task_in_a_worktree_goes_on_in_that_or_in_a_copy_where_only_the_repository_is_shared(
    postgres: Postgres, tmp_path: Path
) -> None:
    country = Country(postgres, tmp_path)
    try:
        first = await at_home(country)
        async with country.gen() as app:
            await app.detach(TaskRequest("", "go on", resume=first.id))
            Path(first.created.worktree).parent.rename(tmp_path / "on another disk")
            country.settle("--workspace", str(country.folder), *PATIENT)
            away = await gone_on(country, app, first.id)
            seen = await results(app, first.id)
        other = await at_home(country)
        async with country.gen() as app:
            await app.detach(TaskRequest("", "go on", resume=other.id))
            near = await gone_on(country, app, other.id)
    finally:
        country.close()
    assert (away.status, away.end.error, "one.txt" in seen[-2]) == (Status.COMPLETED, None, True)
    assert f"[It worked in a copy of {country.folder} on " in away.result
    assert "added two.txt +1 -0\n" in away.result
    assert (near.status, near.end.error, untouched(country)) == (Status.COMPLETED, None, True)
    assert (
        f"[Its changes are on the branch gencode/{other.id}, in {other.created.worktree}, and" in near.result
    )
    assert (Path(other.created.worktree) / "two.txt").read_text() == "two.txt\n"


async def test_a_worker_that_shares_only_the_repository_goes_on_with_what_is_on_the_branch(
    country: Country, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEN_HOME", str(tmp_path / "first"))
    first = await at_home(country)
    (tmp_path / "first").rename(tmp_path / "not here")
    monkeypatch.setenv("GEN_HOME", str(tmp_path / "second"))
    async with country.gen() as app:
        await app.detach(TaskRequest("", "go on", resume=first.id))
        found = await gone_on(country, app, first.id)
        seen, heard = await results(app, first.id), await told(app, first.id)
    assert (found.status, found.end.error, "one.txt" in seen[-2]) == (Status.COMPLETED, None, True)
    assert f"[Its changes are on the branch gencode/{first.id}-at-" in found.result
    assert f"from the branch gencode/{first.id}" in heard[-2]
    assert (git(country.folder, "show", f"gencode/{first.id}:one.txt"), untouched(country)) == (
        "one.txt",
        True,
    )


async def test_without_git_there_is_no_copy_and_it_is_refused(country: Country, tmp_path: Path) -> None:
    named = {"database_url": country.url}
    async with GenCode.open(tmp_path, model=f"scripted:{country.script}", settings=named) as app:
        with pytest.raises(UserMistake, match=r"no copy of .* can be made: .* is not in a git repository"):
            await app.detach(TaskRequest("general-purpose", "work", isolation="worktree"))
