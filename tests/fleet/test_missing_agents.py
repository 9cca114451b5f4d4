"""An agent that only some workers have: the others leave its tasks alone."""

from pathlib import Path

import pytest

from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.journal.dispatch import NoWorkerReason
from gencode.permissions.trust import standing, trust
from gencode.settings import gen_home
from gencode.stores.pg_fleet_status import fleet_status
from tests.fleet.conftest import PATIENT
from tests.fleet.driving import Fleet, Process, ended, submit
from tests.postgres import Postgres
from tests.waiting import until
from tests.workspaces.worktrees.yard import commit, git

pytestmark = pytest.mark.needs("postgres")

RARE = {"rare": {"description": "Only on one machine.", "prompt": "Work."}}


async def test_a_task_waits_for_a_worker_that_has_its_agent(fleet: Fleet) -> None:
    fleet.write({"*": [{"text": "done"}]})
    fleet.start(1)
    async with fleet.open(agents=RARE) as gen:
        tasks = await submit(gen, 3, "rare")

        async def said_why() -> bool:
            seen = [each.missing_worker.reason for each in (await fleet_status(fleet.url)).stuck]
            return set(seen) == {NoWorkerReason.NO_AGENT}

        await until(said_why, "the worker has said what is missing")
        assert {(await gen.find(task)).status for task in tasks} == {Status.PENDING}
        fleet.workers.append(Process(fleet.folder, fleet.url, agent="rare").ready())
        found = await ended(gen, tasks)
        again = (await gen.detach(TaskRequest("rare", "more"))).agent_id
        [last] = await ended(gen, [again])
    assert [task.status for task in (*found, last)] == [Status.COMPLETED] * 4


@pytest.mark.needs("git")
async def test_an_agent_that_only_a_project_defines_goes_along_to_a_worker_that_never_heard_of_it(
    postgres: Postgres, tmp_path: Path
) -> None:
    fleet = Fleet(postgres, tmp_path / "project")
    try:
        far = tmp_path / "far"
        far.mkdir()
        fleet.workers.append(Process(far, fleet.url, *PATIENT).ready())
        fleet.write({"*": [{"text": "done"}]})
        git(fleet.folder, "init", "--quiet", "--initial-branch=main")
        agent = fleet.folder / ".gen" / "agents" / "rare.md"
        agent.parent.mkdir(parents=True)
        agent.write_text("---\nname: rare\ndescription: Only of this project.\n---\nWork.\n")
        commit(fleet.folder, a_txt="a\n")
        trust(standing(fleet.folder, gen_home()), gen_home())
        async with fleet.open() as gen:
            [found] = await ended(gen, await submit(gen, 1, "rare"))
        assert (found.status, found.result) == (Status.COMPLETED, "done")
    finally:
        fleet.close()
