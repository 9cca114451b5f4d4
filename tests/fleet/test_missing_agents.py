"""An agent that only some workers have: the others leave its tasks alone."""

import pytest

from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.stores.pg_survey import survey
from tests.fleet.driving import Fleet, Process, ended, submit, until

pytestmark = pytest.mark.needs("postgres")

RARE = {"rare": {"description": "Only on one machine.", "prompt": "Work."}}


async def test_a_task_waits_for_a_worker_that_has_its_agent(fleet: Fleet) -> None:
    fleet.write({"*": [{"text": "done"}]})
    fleet.start(1)
    async with fleet.open(agents=RARE) as gen:
        tasks = await submit(gen, 3, "rare")

        async def said_why() -> bool:
            return {each.why for each in (await survey(fleet.url)).stuck} == {"no worker has the agent rare"}

        await until(said_why, "the worker has said what is missing")
        assert {(await gen.find(task)).status for task in tasks} == {Status.PENDING}
        fleet.workers.append(Process(fleet.folder, fleet.url, agent="rare").ready())
        found = await ended(gen, tasks)
        again = (await gen.detach(TaskRequest("rare", "more"))).agent_id
        [last] = await ended(gen, [again])
    assert [task.status for task in (*found, last)] == [Status.COMPLETED] * 4
