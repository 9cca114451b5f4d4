"""Reads the queue for one of many workers, and asks the database no more often than it has to.

Every change in the queue is told to all workers, and each would ask the database five times for every one of
them: with a hundred workers that, and not the work, would be what the server does. So a worker that has
enough to do does not ask, news that come together are heard together, only new jobs are news, and who got
fewer jobs than it would take does not ask whether there are more.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.ports.repository import EntrypointExecutionParameter
from pgqueuer.qm import QueueManager

TOGETHER = 0.01
"""News that come within so many seconds are heard together."""
PROBE = 0.25
"""So often at most it is looked up whether something waits for a later time, or for somebody else."""
_CHANGED = "table_changed_event"
# The names step by step through an index, so that it is the same how many jobs wait under each.
_NEXT = """
WITH RECURSIVE waiting AS NOT MATERIALIZED (
    SELECT execute_after FROM pgqueuer WHERE entrypoint = ANY($1) AND status = 'queued'
), names AS (
    (SELECT entrypoint FROM pgqueuer WHERE status = 'queued' AND $2::boolean ORDER BY 1 LIMIT 1)
    UNION ALL
    SELECT (SELECT q.entrypoint FROM pgqueuer q WHERE q.status = 'queued' AND q.entrypoint > n.entrypoint
            ORDER BY 1 LIMIT 1)
    FROM names n WHERE n.entrypoint IS NOT NULL
), strange AS MATERIALIZED (
    SELECT n.entrypoint, job.payload FROM names n CROSS JOIN LATERAL (
        SELECT q.payload FROM pgqueuer q
        WHERE q.entrypoint = n.entrypoint AND q.status = 'queued' AND q.execute_after <= now()
        ORDER BY q.id DESC LIMIT 10
    ) job
    WHERE n.entrypoint <> ALL($1)
)
SELECT CASE WHEN EXISTS (SELECT 1 FROM waiting WHERE execute_after <= now()) THEN 0
            ELSE (SELECT extract(epoch FROM min(execute_after) - now()) FROM waiting) END::float8 AS seconds,
       ARRAY(SELECT entrypoint FROM strange) AS names, ARRAY(SELECT payload FROM strange) AS payloads
"""


class WorkerLoad(Struct, frozen=True):
    """How busy a worker is: whether it has enough to do, and how many of its agents wait for a person."""

    full: Callable[[], bool]
    parked: Callable[[], int]


class NewsFilter:
    """Passes on what a worker has to hear of; `nudge` when it may take something again."""

    def __init__(self, hear: Callable[[Any], None], full: Callable[[], bool], channel: str) -> None:
        self._hear = hear
        self._full = full
        self._channel = channel
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.passed = 0
        """How often it was let look."""

    def __call__(self, payload: str | bytes | bytearray) -> None:
        """Something was told to all workers."""
        told = payload if isinstance(payload, str) else bytes(payload).decode(errors="replace")
        if f'"{_CHANGED}"' not in told:
            self._hear(payload)
        elif '"insert"' in told and not self._full():
            self.nudge()

    def nudge(self) -> None:
        """Let it look into the queue, soon."""
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._last + TOGETHER - loop.time()
        if wait > 0:
            self._timer = loop.call_later(wait, self._pass_on)
        else:
            self._pass_on()

    def _pass_on(self) -> None:
        self._timer = None
        self.passed += 1
        self._last = asyncio.get_running_loop().time()
        news = {"channel": self._channel, "operation": "insert", "sent_at": datetime.now(UTC)}
        self._hear(msgspec.json.encode({**news, "table": "pgqueuer", "type": _CHANGED}).decode())


class QueueDriver(AsyncpgPoolDriver):
    """Connections that say when they cannot reach the database (`broken` is told), and what is new in it."""

    def __init__(self, pool: Any, broken: Callable[[], None], load: WorkerLoad) -> None:
        super().__init__(pool)
        self._say = broken
        self._load = load
        self._sieves: list[NewsFilter] = []

    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        """The rows of a query."""
        try:
            return await super().fetch(query, *args)
        except (OSError, TimeoutError):
            self._say()
            raise

    async def add_listener(self, channel: str, callback: Callable[[Any], None]) -> None:
        """Hear what is told on a channel, as far as it matters."""
        sieve = NewsFilter(callback, self._load.full, channel)
        self._sieves.append(sieve)
        await super().add_listener(channel, sieve)

    async def listen(self, channel: str, callback: Callable[[Any], None]) -> None:
        """Hear everything that is told on another channel."""
        await super().add_listener(channel, callback)

    def news(self) -> int:
        """How often something new was heard of."""
        return sum(sieve.passed for sieve in self._sieves)

    def nudge(self) -> None:
        """Something may be taken: a task has ended, or one is there that fits."""
        for sieve in self._sieves:
            sieve.nudge()


class JobFetcher(QueueManager):
    """Takes jobs while there is room, and so many more as wait for a person at that moment."""

    def __init__(
        self,
        queue: PgQueuer,
        load: WorkerLoad,
        news: Callable[[], int],
        claimed: deque[Job],
        meet: Callable[[Sequence[tuple[str, bytes]]], bool] | None,
    ) -> None:
        """`meet` gets jobs under names that are not served, newest first; whether some are from now on."""
        super().__init__(queue.qm.queries, queue.channel, resources=queue.resources)
        self.shutdown = queue.shutdown
        self.load = load
        self.news = news
        self.claimed = claimed
        self.meet = meet
        self.probed = 0.0

    async def fetch_jobs(
        self, batch_size: int, global_concurrency_limit: int | None, heartbeat_timeout: timedelta
    ) -> AsyncGenerator[Job, None]:
        """The jobs that may be run now, those first that were taken already."""
        while self.claimed:
            yield self.claimed.popleft()
        limits = {name: each.parameters.concurrency_limit for name, each in self.entrypoint_registry.items()}
        served = {name: EntrypointExecutionParameter(limit) for name, limit in limits.items()}
        more = True
        while more and not self.load.full() and not self.shutdown.is_set():
            most = None if global_concurrency_limit is None else global_concurrency_limit + self.load.parked()
            # With each job that is begun one piece of news is forgotten, and it may be of a later job.
            heard = self.news()
            jobs = await self.queries.dequeue(
                batch_size, served, self.queue_manager_id, most, heartbeat_timeout
            )
            for job in jobs:
                yield job
            more = len(jobs) == batch_size or self.news() != heard

    async def _effective_dequeue_timeout(self, dequeue_timeout: timedelta) -> timedelta:
        """How long to wait for news; shorter where a job waits for its time, which is not asked too often.

        Not at all where jobs are there that were not known to be for this worker.
        """
        if self.load.full():
            return dequeue_timeout  # whatever ends here is news
        now = asyncio.get_running_loop().time()
        if now - self.probed < PROBE:
            return timedelta(seconds=PROBE)
        self.probed = now
        served = list(self.entrypoint_registry)
        [row] = await self.queries.driver.fetch(_NEXT, served, self.meet is not None)
        if self.meet is not None and self.meet(_pairs(row["names"], row["payloads"])):
            return timedelta(0)
        if not isinstance(seconds := row["seconds"], float):
            return dequeue_timeout
        return min(max(timedelta(seconds=seconds), self.min_dequeue_poll_interval), dequeue_timeout)


class WorkerQueue(PgQueuer):
    """The queue as one worker sees it."""

    def configure(
        self,
        load: WorkerLoad,
        news: Callable[[], int],
        claimed: deque[Job],
        meet: Callable[[Sequence[tuple[str, bytes]]], bool] | None = None,
    ) -> None:
        """Take as a worker does that is so busy, hears so much, and has claimed these jobs already."""
        self.qm = JobFetcher(self, load, news, claimed, meet)


def _pairs(names: Any, payloads: Any) -> list[tuple[str, bytes]]:
    return [(name, payload or b"") for name, payload in zip(names, payloads, strict=True)]
