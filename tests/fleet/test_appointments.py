"""What is planned in a shared database runs once, on whichever worker has its folder."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from gencode.app import components
from gencode.core.events import TaskCreated, TaskStarted
from gencode.core.ids import stamp
from gencode.core.rules import Mode, Policy
from gencode.core.status import Status
from gencode.journal.store import TaskQuery
from gencode.schedule.scheduled_jobs import ScheduledJob
from tests.fleet.conftest import PATIENT
from tests.fleet.driving import Fleet
from tests.waiting import until

pytestmark = pytest.mark.needs("postgres")

COUNT = 6


def planned(fleet: Fleet, prompt: str, due: datetime, cwd: str = "") -> ScheduledJob:
    return ScheduledJob(
        when=f"at {stamp(due)}",
        prompt=prompt,
        zone="UTC",
        cwd=cwd or str(fleet.folder),
        policy=Policy(Mode.DEFAULT),
        created_at=stamp(),
        due=stamp(due),
        model=f"scripted:{fleet.folder}/script.json",
    )


async def test_each_appointment_runs_once_over_all_workers_and_servers(fleet: Fleet) -> None:
    fleet.write({"*": [{"text": "done", "delay_ms": 50}]})
    fleet.start(2, *PATIENT)
    async with fleet.open() as gen:
        schedule = components(gen).store.schedule
        soon = datetime.now(UTC) + timedelta(seconds=1.5)
        for number in range(COUNT):
            await schedule.add(planned(fleet, f"job {number}", soon), 100)
        away = await schedule.add(planned(fleet, "elsewhere", soon, "/nowhere/at/all"), 100)

        async def all_ran() -> bool:
            return [each.id for each in await schedule.jobs()] == [away.id]

        await until(all_ran, "all but the one of another machine have run")
        ran = await gen.history.tasks(TaskQuery())
        assert sorted(task.created.prompt for task in ran) == [f"job {number}" for number in range(COUNT)]
        assert {task.status for task in ran} == {Status.COMPLETED}
        [left] = await schedule.jobs()
        assert (left.runs, left.missed, left.owner) == (0, 0, "")


async def test_what_a_worker_of_another_machine_left_behind_is_told_when_its_lease_is_over(
    fleet: Fleet,
) -> None:
    from gencode.channels.outbox import Outbox
    from gencode.stores.pg_fleet import FleetStore
    from gencode.tasks.scheduler import Scheduler

    store = await FleetStore.open(fleet.url, lease_seconds=1.0)
    now = datetime.now(UTC)
    away = "|".join(("another machine", "", "1", "1", "x"))
    task = (await store.create(TaskCreated(conversation=True), away, [TaskStarted()])).task
    job = await store.schedule.add(planned(fleet, "job", now + timedelta(days=1)), 100)
    at_it = replace(job, owner=away, began=stamp(now), last_task=task, last_status="running")
    assert await store.schedule.replace(job, at_it)
    told: list[str] = []
    scheduler = Scheduler(store, Outbox(store, {}), lambda _: pytest.fail("nothing is due"), told.append)
    later = now + timedelta(minutes=2)
    assert (await scheduler.look(later), told) == ([], [])
    await store.link.fetch("UPDATE gen_task SET lease_until = clock_timestamp()")
    assert await scheduler.look(later) == []
    [after] = await store.schedule.jobs()
    assert (after.owner, after.last_status, len(told)) == ("", "interrupted", 1)
    await store.close()
