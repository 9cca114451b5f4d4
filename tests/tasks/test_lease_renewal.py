"""The leases of a worker: when they are lost, and from when on those of others can be judged again."""

import asyncio

from gencode.core.errors import StoreTrouble
from gencode.tasks.liveness import LeaseRenewal
from tests.waiting import until

LEASE_SECONDS = 0.4


async def test_the_leases_of_others_are_not_judged_by_one_that_was_cut_off_itself() -> None:
    away = False
    lost = asyncio.Event()
    judged: list[bool] = []
    """Whether it would judge them, each time that it has to renew while the database is away."""

    async def renew() -> None:
        if away:
            if lost.is_set():
                judged.append(leases.settled)
            raise StoreTrouble("it did not answer")

    leases = LeaseRenewal(renew, LEASE_SECONDS, lost.set)
    running = asyncio.ensure_future(leases.run())
    try:
        await until(lambda: leases.settled, "it is well")
        away = True
        await lost.wait()
        await until(lambda: len(judged) > 1, "it has tried again")
        away = False
        await until(lambda: leases.well, "it is well again")
        await until(lambda: leases.settled, "it judges others again")
    finally:
        running.cancel()
    assert {*judged} == {False}
