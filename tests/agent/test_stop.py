"""The stop tree."""

import asyncio

import pytest

from gencode.agent.stop import Stop
from gencode.core.errors import Stopped
from gencode.core.status import stop_cause

ENOUGH = stop_cause("enough")


async def test_stopping_a_branch_stops_its_leaves_and_nothing_beside_it() -> None:
    root = Stop()
    left, right = root.branch(), root.branch()
    leaf = left.branch()
    left.stop(ENOUGH)
    assert [each.cause for each in (root, left, leaf, right)] == [None, ENOUGH, ENOUGH, None]


async def test_a_branch_of_a_stopped_branch_is_stopped_from_the_start() -> None:
    root = Stop()
    root.stop(stop_cause("closing"))
    with pytest.raises(Stopped, match="closing"):
        root.branch().check()


async def test_the_first_reason_stays() -> None:
    stop = Stop()
    stop.stop(stop_cause("first"))
    stop.stop(stop_cause("second"))
    assert stop.cause == stop_cause("first")


async def test_a_stop_cuts_an_await_and_shows_as_stopped() -> None:
    stop = Stop()
    asyncio.get_running_loop().call_soon(stop.stop, stop_cause("by the user"))
    with pytest.raises(Stopped, match="by the user"), stop.interruptible():
        await asyncio.sleep(60)
    await asyncio.sleep(0)
    current = asyncio.current_task()
    assert current is not None and current.cancelling() == 0


async def test_a_cancel_that_is_no_stop_stays_a_cancel() -> None:
    stop = Stop()

    async def work() -> None:
        with stop.interruptible():
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not stop.stopped


async def test_work_that_ended_is_not_cut_by_a_later_stop() -> None:
    stop = Stop()
    with stop.interruptible():
        await asyncio.sleep(0)
    stop.stop(stop_cause("late"))
    await asyncio.sleep(0)
    assert stop.stopped


async def test_a_fallen_branch_is_forgotten_by_its_parent() -> None:
    root = Stop()
    branch = root.branch()
    branch.fall()
    root.stop(stop_cause("gone"))
    assert not branch.stopped


async def test_a_branch_that_moves_is_stopped_with_its_new_parent_only() -> None:
    root = Stop()
    turn, session = root.branch(), root.branch()
    job = turn.branch()
    leaf = job.branch()
    job.move(session)
    turn.stop(stop_cause("interrupted"))
    assert (job.cause, leaf.cause) == (None, None)
    session.stop(ENOUGH)
    assert (job.cause, leaf.cause) == (ENOUGH, ENOUGH)


async def test_a_branch_that_moves_below_a_stopped_one_is_stopped() -> None:
    stopped, other = Stop(), Stop()
    stopped.stop(ENOUGH)
    job = other.branch()
    job.move(stopped)
    assert job.cause is ENOUGH
