"""What happens to tasks when workers, the database or the queue go away: each one ends, and nothing twice."""

import asyncio
import signal

import pytest

from gencode import GenCode
from gencode.core.events import Event
from gencode.core.messages import ToolMessage
from gencode.core.status import Status
from gencode.core.task import transcript_of
from tests.fleet.driving import CUT, TASKS, Fleet, Process, check_journal, ended, runs, submit
from tests.waiting import until

pytestmark = pytest.mark.needs("postgres")


async def test_the_tasks_of_a_killed_worker_are_finished_by_another(fleet: Fleet) -> None:
    fleet.start(2, "--concurrency", str(TASKS))
    async with fleet.open() as gen:
        tasks = await submit(gen)
        first, _ = await fleet.busy()
        first.send(signal.SIGKILL)
        first.close()
        mine = [task for task, number in fleet.owners().items() if number == first.number]
        found = await ended(gen, tasks)
        assert [(task.status, task.result) for task in found] == [(Status.COMPLETED, "done")] * TASKS
        again = {task: runs(await check_journal(gen, task)) for task in tasks}
        assert mine and {task for task, count in again.items() if count > 1} <= {*mine}


async def test_a_call_that_a_killed_worker_had_begun_is_reported_and_not_done_again(fleet: Fleet) -> None:
    call = {"name": "Bash", "input": {"command": "echo begun >> beats; sleep 60"}}
    fleet.write({"*": [{"text": "turn 0", "calls": [call]}, {"text": "done"}]})
    fleet.start(2)
    async with fleet.open(permission_mode="dontAsk") as gen:
        [task] = await submit(gen, 1)
        await until((fleet.folder / "beats").exists, "its command runs")
        first, _ = await fleet.busy()
        first.send(signal.SIGKILL)
        [found] = await ended(gen, [task])
        messages = transcript_of(await gen.history.events(task))
    assert (found.status, found.result) == (Status.COMPLETED, "done")
    [result] = [each for said in messages if isinstance(said, ToolMessage) for each in said.results]
    assert (result.error, result.text.startswith(CUT)) == (True, True)
    assert (fleet.folder / "beats").read_text() == "begun\n"


async def stopped_at_work(fleet: Fleet, gen: GenCode) -> tuple[Process, list[str]]:
    """A worker that was stopped while it was at something, and all tasks that were given."""
    tasks: list[str] = []
    for _ in range(5):
        tasks += await submit(gen)
        first, _ = await fleet.busy()
        first.send(signal.SIGSTOP)
        await asyncio.sleep(0.3)  # what was on its way to the database arrives there
        if first.number in fleet.owners("running").values():
            return first, tasks
        first.send(signal.SIGCONT)  # it had just begun or ended
    raise AssertionError("no worker was stopped at work")


def written_nothing(worker: Process) -> bool:
    """Whether what it still had to write was refused, or it ended because it could not stop in time."""
    return "nothing was written" in worker.logged() or "the worker ends" in worker.logged()


async def test_a_worker_that_was_stopped_past_its_lease_is_fenced_and_works_on(fleet: Fleet) -> None:
    fleet.start(2, "--concurrency", str(TASKS))
    async with fleet.open() as gen:
        first, tasks = await stopped_at_work(fleet, gen)
        found = await ended(gen, tasks)
        assert {(task.status, task.result) for task in found} == {(Status.COMPLETED, "done")}
        first.send(signal.SIGCONT)
        await until(lambda: written_nothing(first), "its late writes are refused")
        taken = [runs(await check_journal(gen, task)) for task in tasks]
        assert max(taken) == 2
        more = await submit(gen, 2 * TASKS)
        await until(lambda: first.number in fleet.owners().values(), "it takes tasks again")
        assert {task.status for task in await ended(gen, more)} == {Status.COMPLETED}


async def test_a_stopped_worker_that_comes_back_loses_nothing_when_the_next_one_dies(fleet: Fleet) -> None:
    fleet.start(2, "--concurrency", str(TASKS))
    async with fleet.open() as gen:
        tasks = await submit(gen)
        first, second = await fleet.busy()
        first.send(signal.SIGSTOP)
        await until(
            lambda: {*fleet.owners().values()} == {second.number}, "the second worker has all that is left"
        )
        first.send(signal.SIGCONT)
        second.send(signal.SIGKILL)
        found = await ended(gen, tasks)
        assert [(task.status, task.result) for task in found] == [(Status.COMPLETED, "done")] * TASKS
        for task in tasks:
            runs(await check_journal(gen, task))


async def test_work_goes_on_when_all_sessions_were_ended_and_the_database_was_restarted(fleet: Fleet) -> None:
    fleet.start(2, "--concurrency", str(TASKS))
    async with fleet.open() as gen:
        tasks = await submit(gen)
        await until(lambda: len(fleet.owners()) > 1, "some are at work")
        following = [asyncio.ensure_future(followed(gen, task)) for task in tasks]
        fleet.postgres.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        )
        await until(lambda: bool(fleet.owners()), "some are at work")
        fleet.postgres.stop()
        fleet.postgres.start()
        found = await ended(gen, tasks)
        assert [(task.status, task.result) for task in found] == [(Status.COMPLETED, "done")] * TASKS
        for task in tasks:
            runs(await check_journal(gen, task))
        assert await asyncio.gather(*following) == [await gen.history.events(task) for task in tasks]
        more = await submit(gen, 2)
        assert {task.status for task in await ended(gen, more)} == {Status.COMPLETED}


async def followed(gen: GenCode, task: str) -> list[Event]:
    """What somebody hears who follows a task to its end."""
    return [event async for event in gen.history.follow(task)]


async def test_tasks_that_are_missing_from_the_queue_are_put_back(fleet: Fleet) -> None:
    fleet.start(2, "--concurrency", str(TASKS))
    async with fleet.open() as gen:
        tasks = await submit(gen)
        first, _ = await fleet.busy()
        fleet.rows("TRUNCATE pgqueuer")
        first.send(signal.SIGKILL)
        found = await ended(gen, tasks)
        assert [(task.status, task.result) for task in found] == [(Status.COMPLETED, "done")] * TASKS
        for task in tasks:
            runs(await check_journal(gen, task))
