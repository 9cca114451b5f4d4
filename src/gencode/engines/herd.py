"""The queue as one of many workers sees it: none of them asks it more often than it has to (engines rack).

Every change in the queue is told to all workers, and each would ask the database four times for every one of
them: with a hundred workers that, and not the work, would be what the server does. So a worker that has
enough to do does not ask, news that come together are heard together, and only new jobs are news.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager

TOGETHER = 0.01
"""News that come within so many seconds are heard together."""
PROBE = 0.25
"""So often at most it is looked up whether something waits for a later time."""
_CHANGED = "table_changed_event"


class Load(Struct, frozen=True):
    """How busy a worker is: whether it has enough to do, and how many of its agents wait for a person."""

    full: Callable[[], bool]
    parked: Callable[[], int]


class Sieve:
    """Passes on what a worker has to hear of; `nudge` when it may take something again."""

    def __init__(self, hear: Callable[[Any], None], full: Callable[[], bool], channel: str) -> None:
        self._hear = hear
        self._full = full
        self._channel = channel
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

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
        self._last = asyncio.get_running_loop().time()
        news = {"channel": self._channel, "operation": "insert", "sent_at": datetime.now(UTC)}
        self._hear(msgspec.json.encode({**news, "table": "pgqueuer", "type": _CHANGED}).decode())


class Driver(AsyncpgPoolDriver):
    """Connections that say when they cannot reach the database (`broken` is told), and what is new in it."""

    def __init__(self, pool: Any, broken: Callable[[], None], load: Load) -> None:
        super().__init__(pool)
        self._say = broken
        self._load = load
        self._sieves: list[Sieve] = []

    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        """The rows of a query."""
        try:
            return await super().fetch(query, *args)
        except (OSError, TimeoutError):
            self._say()
            raise

    async def add_listener(self, channel: str, callback: Callable[[Any], None]) -> None:
        """Hear what is told on a channel, as far as it matters."""
        sieve = Sieve(callback, self._load.full, channel)
        self._sieves.append(sieve)
        await super().add_listener(channel, sieve)

    def nudge(self) -> None:
        """A task has ended, so another one may be taken."""
        for sieve in self._sieves:
            sieve.nudge()


class Taking(QueueManager):
    """Takes jobs while there is room, and so many more as wait for a person at that moment."""

    load: Load
    probed = 0.0

    async def fetch_jobs(
        self, batch_size: int, global_concurrency_limit: int | None, heartbeat_timeout: timedelta
    ) -> AsyncGenerator[Job, None]:
        """The jobs that may be run now."""
        if self.load.full():
            return
        most = None if global_concurrency_limit is None else global_concurrency_limit + self.load.parked()
        async for job in super().fetch_jobs(batch_size, most, heartbeat_timeout):
            yield job

    async def _effective_dequeue_timeout(self, dequeue_timeout: timedelta) -> timedelta:
        """How long to wait for news; shorter where a job waits for its time, which is not asked too often."""
        if self.load.full():
            return dequeue_timeout  # whatever ends here is news
        now = asyncio.get_running_loop().time()
        if now - self.probed < PROBE:
            return timedelta(seconds=PROBE)
        self.probed = now
        return await super()._effective_dequeue_timeout(dequeue_timeout)


class Queue(PgQueuer):
    """The queue as one worker sees it."""

    def taking(self, load: Load) -> "Queue":
        """The same, for a worker that is so busy."""
        manager = Taking(self.qm.queries, self.channel, resources=self.resources)
        manager.load = load
        manager.shutdown = self.shutdown
        self.qm = manager
        return self
