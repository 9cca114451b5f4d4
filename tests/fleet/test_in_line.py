"""Work of agents that end together comes home one after another, however long the line is."""

import asyncio
from collections.abc import Iterator

import pytest

from gencode import GenCode
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.tasks.running_task import GRACE_SECONDS
from gencode.workspaces.transfer.apply_changes import LOCK_FILE, checkout_lock
from gencode.workspaces.transfer.checkout import checkout_at
from tests.fleet.conftest import PATIENT
from tests.fleet.country import Country, call, says
from tests.interfaces.cli.running import gen as typed
from tests.postgres import Postgres
from tests.waiting import PATIENCE, until
from tests.workspaces.worktrees.yard import git

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.needs("git")]
MANY = 4
MAY = ["Bash(mktemp *)"]


@pytest.fixture(scope="module")
def country(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Country]:
    made = Country(postgres, tmp_path_factory.mktemp("country"))
    made.settle("--concurrency", "4", *PATIENT)
    made.write(says(call("Bash", command="mktemp new-XXXXXXXX")))
    yield made
    made.close()


def completed(country: Country) -> int:
    """How many have come to their end."""
    return int(country.rows("SELECT count(*) FROM gen_task WHERE status = 'completed'")[0][0])


async def all_ended(country: Country, gen: GenCode) -> "asyncio.Future[list[Outcome]]":
    """Agents that have ended longer ago than a process may take to end."""
    before = completed(country)
    work = asyncio.gather(*(gen.task("general-purpose", "make", isolation="process") for _ in range(MANY)))
    await until(lambda: completed(country) == before + MANY, "all have ended")
    await asyncio.sleep(GRACE_SECONDS + 0.5)
    return work


async def test_all_of_it_comes_however_long_one_stands_in_line(country: Country) -> None:
    async with country.gen(allow=MAY) as gen:
        async with checkout_lock(await checkout_at(country.folder)):
            work = await all_ended(country, gen)
        found = await work
    now = f"[Its changes are in the files of {country.folder} now.]"
    assert [(each.status, now in each.result) for each in found] == [(Status.COMPLETED, True)] * MANY
    made = sorted(country.folder.glob("new-*"))
    assert len(made) == MANY
    assert git(country.folder, "branch", "--format=%(refname:short)") == "main"
    for each in made:
        each.unlink()


async def test_whoever_closes_waits_for_nothing_in_line_and_it_is_offered(country: Country) -> None:
    async with checkout_lock(await checkout_at(country.folder)):
        async with asyncio.timeout(PATIENCE), country.gen(allow=MAY) as gen:
            work = await all_ended(country, gen)
        found = await work
    offer = "To take it over, if that was not done yet: gen task merge "
    assert [f"{offer}{each.agent_id}" in each.result for each in found] == [True] * MANY
    assert [*country.folder.glob("new-*")] == []


async def test_what_cannot_come_is_told_with_the_reason_and_offered_until_it_is_taken(
    country: Country,
) -> None:
    lock = country.folder / ".git" / LOCK_FILE
    lock.unlink(missing_ok=True)
    lock.mkdir()
    async with country.gen(allow=MAY) as gen:
        found = await gen.task("general-purpose", "make", isolation="process")
        lock.rmdir()
        task = found.agent_id
        because = f"{lock} cannot be written: Is a directory."
        why = f"[The changes of task {task} could not be copied back: {because}]"
        offer = f"To take it over, if that was not done yet: gen task merge {task}"
        assert [line in found.result.splitlines() for line in (why, offer)] == [True, True], found.result
        taken = typed("task", "merge", task, cwd=country.folder, GEN_DATABASE_URL=country.url)
        result = (await gen.find(task)).result
    assert (taken.code, len([*country.folder.glob("new-*")])) == (0, 1), taken.err
    assert [line in result.splitlines() for line in (why, offer)] == [False, False]
    assert f"[Its changes are in the files of {country.folder} now.]" in result
