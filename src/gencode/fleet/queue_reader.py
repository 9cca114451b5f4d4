"""Reads the queue for one of many workers with as few queries as possible.

Postgres notifies every worker of every change in the queue. If each answered with a query, a hundred workers
would keep the server busy with nothing else. So only new jobs wake a worker up, notifications that arrive
together are handled together, and a worker with enough to do does not query at all.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import Struct
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job, JobId, QueueEntrypoint, QueueManagerId
from pgqueuer.queries import EntrypointExecutionParameter, Queries

log = logging.getLogger(__name__)

TOGETHER = 0.01
"""Notifications that arrive within this many seconds are handled together."""
PROBE = 0.25
"""The shortest time between two checks for delayed jobs and for jobs of agents not served."""
POLL_SECONDS = 1.0
"""After this time the queue is read again even without a notification."""
MOST_AT_ONCE = 10
"""So many jobs are taken from the queue with one statement."""
SHORTEST = 0.1
BEATS = 4
"""How many heartbeats of a running job are sent in each heartbeat time."""
# The names step by step through an index, so that it is the same how many jobs wait under each.
_NEXT = """
WITH RECURSIVE waiting AS NOT MATERIALIZED (
    SELECT execute_after FROM pgqueuer WHERE entrypoint = ANY($1) AND status = 'queued'
), names AS (
    (SELECT entrypoint FROM pgqueuer WHERE status = 'queued' ORDER BY 1 LIMIT 1)
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


class QueueEvent(Struct, frozen=True):
    """The fields of a pgqueuer notification that are read."""

    type: str = ""
    operation: str = ""


class WorkerLoad(Struct, frozen=True):
    """How busy a worker may be: whether it has enough to do, and how many jobs it may have at once."""

    full: Callable[[], bool]
    most: Callable[[], int]


class Again(Struct, frozen=True):
    """In how many seconds a job is to be tried again, and what to do when it is back in the queue."""

    seconds: float
    then: Callable[[], None] = lambda: None


class QueueDriver(AsyncpgPoolDriver):
    """A connection pool that reports when it cannot reach the database (by calling `broken`)."""

    def __init__(self, pool: Any, broken: Callable[[], None]) -> None:
        super().__init__(pool)
        self._say = broken

    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        """The rows of a query."""
        try:
            return await super().fetch(query, *args)
        except (OSError, TimeoutError):
            self._say()
            raise


class QueueReader:
    """Takes jobs while there is room and runs each, through pgqueuer's `Queries`.

    `work` returns when a job is to be retried, or None when it is done. `meet` gets jobs under names that are
    not served, newest first, and says whether some are served from now on.
    """

    def __init__(
        self,
        driver: QueueDriver,
        load: WorkerLoad,
        work: Callable[[Job], Awaitable[Again | None]],
        meet: Callable[[Sequence[tuple[str, bytes]]], bool],
        heartbeat_seconds: float,
        troubles: tuple[type[Exception], ...],
    ) -> None:
        self.limits: dict[str, int] = {}
        """The names that are served, and how many of each all workers may have at once; 0: any number."""
        self.number = QueueManagerId(uuid4())
        self._driver = driver
        self._queries = Queries(driver)
        self._load = load
        self._work = work
        self._meet = meet
        self._heartbeat = timedelta(seconds=heartbeat_seconds)
        self._troubles = troubles
        self._news = asyncio.Event()
        self._stopped = False
        self._looked = self._probed = 0.0
        self._claimed: deque[Job] = deque()
        self._jobs: dict[JobId, asyncio.Task[None]] = {}

    def nudge(self) -> None:
        """Look soon: a task has ended, or there are new jobs."""
        self._news.set()

    def stop(self) -> None:
        """Take no more jobs; running ones continue to their end."""
        self._stopped = True
        self._news.set()

    def begin(self, job: Job) -> None:
        """Work on a job that was taken in another way."""
        self._claimed.append(job)
        self._news.set()

    async def run(self) -> None:
        """Take jobs until it is stopped and the last one has ended."""
        await self._driver.add_listener(self._queries.qbe.settings.channel, self._hear)
        beating = asyncio.ensure_future(self._beat())
        try:
            while not self._stopped:
                self._news.clear()
                await self._take()
                await self._wait(await self._pause())
            while self._jobs:
                await asyncio.wait(self._jobs.values())
        finally:
            for each in (beating, *self._jobs.values()):
                each.cancel()

    def _hear(self, payload: str | bytes | bytearray) -> None:
        try:
            told = msgspec.json.decode(payload, type=QueueEvent)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        if (told.type, told.operation) == ("table_changed_event", "insert") and not self._load.full():
            self._news.set()

    async def _take(self) -> None:
        """Begin the jobs that may be run now, those first that were taken already."""
        self._looked = asyncio.get_running_loop().time()
        while self._claimed:
            self._begun(self._claimed.popleft())
        more = True
        while more and not self._load.full() and not self._stopped:
            limits = {
                QueueEntrypoint(name): EntrypointExecutionParameter(limit)
                for name, limit in self.limits.items()
            }
            most = self._load.most()
            batch = max(min(MOST_AT_ONCE, most // 2), 1)
            jobs = await self._queries.dequeue(batch, limits, self.number, most, self._heartbeat)
            for job in jobs:
                self._begun(job)
            more = len(jobs) == batch
            await asyncio.sleep(0)  # jobs begun above are counted from now on

    async def _wait(self, seconds: float) -> None:
        """Until there is news, but not at once after the last look: more may come together with it."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
        await asyncio.sleep(self._looked + TOGETHER - asyncio.get_running_loop().time())

    async def _pause(self) -> float:
        """How long to wait for news; shorter where a job waits for its time, which is not asked too often.

        Not at all where jobs are there that were not known to be for this worker.
        """
        if self._load.full() or self._news.is_set():
            return POLL_SECONDS
        now = asyncio.get_running_loop().time()
        if now - self._probed < PROBE:
            return PROBE
        self._probed = now
        [row] = await self._driver.fetch(_NEXT, list(self.limits))
        if self._meet(_pairs(row["names"], row["payloads"])):
            return 0.0
        if not isinstance(seconds := row["seconds"], float):
            return POLL_SECONDS
        return min(max(seconds, SHORTEST), POLL_SECONDS)

    def _begun(self, job: Job) -> None:
        if job.id not in self._jobs:  # a late heartbeat may let our own look take it again
            self._jobs[job.id] = asyncio.ensure_future(self._worked(job))

    async def _worked(self, job: Job) -> None:
        """Work on a job, and write down what became of it."""
        try:
            if (again := await self._work(job)) is None:
                await self._written(self._queries.log_jobs([(job, "successful", None)]))
                return
            await self._written(self._queries.retry_job(job, timedelta(seconds=again.seconds), None))
        finally:
            del self._jobs[job.id]
        again.then()

    async def _written(self, step: Coroutine[Any, Any, None]) -> None:
        """Without the database nothing is written: the job comes up again, and then its task has ended."""
        try:
            await step
        except self._troubles as trouble:
            log.info("the queue was not told of a job: %s", trouble)

    async def _beat(self) -> None:
        """Send heartbeats of running jobs, so that no other worker takes them."""
        while True:
            await asyncio.sleep(self._heartbeat.total_seconds() / BEATS)
            if self._jobs:
                await self._written(self._queries.update_heartbeat(list(self._jobs)))


def _pairs(names: Any, payloads: Any) -> list[tuple[str, bytes]]:
    return [(name, payload or b"") for name, payload in zip(names, payloads, strict=True)]
