"""A worker asks the queue no more often than it has to, and misses nothing."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gencode.core.events import TaskCreated
from tests.postgres import Postgres
from tests.waiting import until

pytestmark = pytest.mark.needs("postgres")
MOST = 2


@pytest.fixture
async def store(postgres: Postgres) -> AsyncGenerator[Any]:
    from gencode.stores.pg_fleet import FleetStore

    opened = await FleetStore.open(postgres.new_schema())
    yield opened
    await opened.close()


class Hands:
    """Works on what a reader of the queue takes, until it is let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.let_go = asyncio.Event()
        self.working = 0
        self.looks = 0

    async def work(self, job: Any) -> None:
        self.begun.append(job.payload.decode())
        self.working += 1
        await self.let_go.wait()
        self.working -= 1


@asynccontextmanager
async def reading(store: Any, hands: Hands) -> AsyncGenerator[Any]:
    """A reader of the queue with connections of its own, which counts how often it looks."""
    from gencode.fleet.queue import ensure_queue, entrypoint
    from gencode.fleet.queue_reader import QueueDriver, QueueReader, WorkerLoad

    class Counting(QueueDriver):
        async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
            hands.looks += "UPDATE" in query
            return await super().fetch(query, *args)

    def meet(_waiting: Sequence[tuple[str, bytes]]) -> bool:
        return False

    await ensure_queue(store)
    pool = await store.new_pool(2, lambda: None)
    load = WorkerLoad(lambda: hands.working >= MOST, lambda: MOST)
    reader = QueueReader(
        Counting(pool, lambda: None), load, hands.work, meet, store.lease_seconds, store.troubles
    )
    reader.limits = {entrypoint("Explore"): 0}
    serving = asyncio.ensure_future(reader.run())
    await until(lambda: hands.looks, "it has looked")
    try:
        yield reader
    finally:
        reader.stop()
        await serving
        pool.terminate()


async def submit(store: Any, count: int) -> list[str]:
    from gencode.fleet.queue import enqueue_task

    created = TaskCreated(agent="Explore")
    return [await store.submit(created, b"{}", enqueue_task("Explore")) for _ in range(count)]


async def test_a_worker_that_has_enough_to_do_does_not_ask_and_misses_nothing(store: Any) -> None:
    hands = Hands()
    async with reading(store, hands) as reader:
        tasks = await submit(store, MOST)
        await until(lambda: hands.working == MOST, "it has enough to do")
        before = hands.looks
        tasks += await submit(store, 20)
        hands.let_go.set()
        assert hands.looks == before
        reader.nudge()
        await until(lambda: len(hands.begun) == len(tasks), "all were begun")
    assert sorted(hands.begun) == sorted(tasks)
    assert await store.link.fetch("SELECT 1 FROM pgqueuer") == []
