"""A job that one worker cannot run is taken at once by one that has what it needs, and by nobody for ever."""

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gencode.core.events import TaskCreated
from tests.postgres import Postgres
from tests.waiting import until

pytestmark = pytest.mark.needs("postgres")

LONG = 3_600
"""Nothing that waits so long is seen again in a test."""


@pytest.fixture
async def store(postgres: Postgres) -> AsyncGenerator[Any]:
    from gencode.stores.pg_fleet import FleetStore

    opened = await FleetStore.open(postgres.new_schema())
    yield opened
    await opened.close()


@asynccontextmanager
async def working(
    store: Any, count: int, run: Callable[[int, str], Awaitable[None]], curious: int = 0
) -> AsyncGenerator[None]:
    """So many workers that all hear of each other's offers, and all say that they fit.

    The first ones are curious: they look at tasks of agents that they do not know.
    """
    from gencode.fleet.queue import QueueConsumer, TaskSelection
    from gencode.fleet.task_handoff import OFFERS

    listening: set[int] = set()

    def worker(number: int) -> QueueConsumer:
        async def fits(needs: Any) -> bool:
            listening.add(number)
            return needs.agent != "nobody"

        def meet(waiting: Sequence[tuple[str, str]]) -> set[str]:
            return {agent for _, agent in waiting} if number < curious else set()

        share = TaskSelection(lambda: ["Explore"], 8, {"counted": 1}, fits=fits, meet=meet)
        return QueueConsumer(store, share, lambda task: run(number, task))

    serving = [worker(number) for number in range(count)]
    work = asyncio.gather(*(each.serve() for each in serving))
    numbers = itertools.count(1_000_000)

    async def all_listen() -> bool:
        offer = json.dumps({"job": next(numbers), "task": "", "needs": {"agent": "nobody"}})
        for words in (offer, "{", json.dumps({"job": "all"})):
            await store.link.fetch("SELECT pg_notify($1, $2)", OFFERS, words)
        return len(listening) == count

    await until(all_listen, "all listen")
    yield
    for each in serving:
        each.stop()
    await work


async def queued(store: Any, agent: str = "Explore") -> str:
    from gencode.fleet.queue import enqueue_task

    return await store.submit(TaskCreated(agent=agent), b"{}", enqueue_task(agent))


async def test_another_worker_takes_it_although_its_time_has_not_come(store: Any) -> None:
    from gencode.fleet.queue import RetryLater
    from gencode.fleet.task_handoff import TaskNeeds

    refused: dict[str, int] = {}
    ran: dict[str, int] = {}

    async def run(worker: int, task: str) -> None:
        if refused.setdefault(task, worker) == worker:
            raise RetryLater("its folder is not here", LONG, TaskNeeds("Explore", "/a", "mark"))
        ran[task] = worker

    async with working(store, 2, run):
        tasks = [await queued(store) for _ in range(6)]
        await until(lambda: len(ran) == len(tasks), "the other one has taken them all")
    assert ran == {task: 1 - refused[task] for task in tasks}


async def test_what_nobody_can_run_is_not_passed_round(store: Any) -> None:
    from gencode.fleet.queue import RetryLater
    from gencode.fleet.task_handoff import TaskNeeds

    tries: list[int] = []

    async def run(worker: int, _task: str) -> None:
        tries.append(worker)
        raise RetryLater("nobody has it", LONG, TaskNeeds("Explore"))

    async with working(store, 3, run):
        await queued(store)
        await until(lambda: {*tries} == {0, 1, 2}, "each has tried")
        await asyncio.sleep(0.5)
    assert sorted(tries) == [0, 1, 2]
    [[later]] = await store.link.fetch("SELECT execute_after > now() + interval '1 minute' FROM pgqueuer")
    assert later


async def test_an_agent_that_no_worker_knew_is_served_at_once_by_the_one_that_has_its_folder(
    store: Any,
) -> None:
    from gencode.fleet.queue import RetryLater
    from gencode.fleet.task_handoff import TaskNeeds

    refused: list[int] = []
    ran: dict[str, int] = {}

    async def run(worker: int, task: str) -> None:
        if worker == 0:
            refused.append(worker)
            raise RetryLater("its folder is not here", LONG, TaskNeeds("rare", "/a", "mark"))
        ran[task] = worker

    async with working(store, 2, run, curious=1):
        task = await queued(store, "rare")
        await until(lambda: bool(ran), "the other one has taken it")
    assert (refused, ran) == ([0], {task: 1})


async def test_an_agent_with_a_cap_that_was_not_known_is_counted_from_the_first_task_on(store: Any) -> None:
    at_once: list[int] = []
    running: set[str] = set()
    looked: set[int] = set()
    let_go = asyncio.Event()

    async def run(worker: int, task: str) -> None:
        if (await store.task(task)).agent == "rare":
            looked.add(worker)
            await let_go.wait()
            return
        running.add(task)
        at_once.append(len(running))
        await let_go.wait()
        running.discard(task)

    async with working(store, 2, run, curious=2):
        for _ in range(3):
            await queued(store, "counted")
        await until(lambda: at_once, "one has begun")
        for _ in range(9):  # more than one worker takes; both pass by those that wait, which came before
            await queued(store, "rare")
        await until(lambda: looked == {0, 1}, "both have looked at what waits")
        let_go.set()
        await until(lambda: len(at_once) == 3, "all have run")
    assert at_once == [1, 1, 1]
