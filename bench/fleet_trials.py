"""What becomes of many tasks when workers, the database, the queue or the network go away.

These are parts of bench/fleet.py; GEN_FLEET_TASKS and GEN_FLEET_LEASE set their size.
"""

import asyncio
import signal
import time
from collections import Counter

from tests.fleet import test_cut_off, test_failover
from tests.fleet.driving import LEASE_SECONDS, TASKS, Fleet, check_journal, ended, runs, submit
from tests.waiting import until


async def failover(fleet: Fleet) -> None:
    """kill -9 of a worker: when its tasks run elsewhere, and when all have ended."""
    fleet.start(3, "--concurrency", str(TASKS))
    async with fleet.open() as gen:
        submitting = asyncio.ensure_future(submit(gen, TASKS))  # the first ones end before the last begin
        few = max(min(5, TASKS // 6), 1)

        def busy() -> bool:
            return max(Counter(fleet.owners().values()).values(), default=0) >= few

        await until(busy, f"a worker has {few} tasks")
        [(busiest, _)] = Counter(fleet.owners().values()).most_common(1)
        victim = next(worker for worker in fleet.workers if worker.number == busiest)
        mine = {task for task, number in fleet.owners().items() if number == victim.number}
        began = time.perf_counter()
        victim.send(signal.SIGKILL)

        def again() -> bool:
            owners = fleet.owners()
            return all(owners.get(task) != victim.number for task in mine)

        await until(again, "they run elsewhere")
        taken = time.perf_counter() - began
        tasks = await submitting
        await ended(gen, tasks)
        done = time.perf_counter() - began
        begun = [runs(await check_journal(gen, task)) for task in tasks]
        print(
            f"kill -9, lease {LEASE_SECONDS:.0f} s: {len(mine)} of {TASKS} tasks taken over after "
            f"{taken:.1f} s, all done after {done:.1f} s, no turn twice, {sum(begun) - TASKS} runs cut"
        )


async def trials(fleet: Fleet) -> None:
    """Everything that may happen to workers, the database, the queue and the network, with so many tasks."""
    print()
    for module in (test_failover, test_cut_off):
        for name in [each for each in vars(module) if each.startswith("test_")]:
            place = Fleet(fleet.postgres, fleet.folder / name.removeprefix("test_")[:40])
            began = time.perf_counter()
            try:
                await getattr(module, name)(place)
            finally:
                place.close()
            said = name.removeprefix("test_").replace("_", " ")
            print(f"    {TASKS} tasks, {time.perf_counter() - began:.0f} s: {said}")
