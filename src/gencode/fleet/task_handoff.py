"""Tasks that one worker cannot run are put back and offered to the others.

A worker that lacks the folder or the agent of a task puts it back for a later time and says what it needs.
All workers hear that, each looks at what it has itself, and only one that fits touches the database: it takes
exactly this job, before its time. Nobody else is woken up by that.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import msgspec
from msgspec import Struct
from pgqueuer.models import Job, TracebackRecord
from pgqueuer.queries import Queries

from gencode.fleet.queue_reader import QueueDriver

log = logging.getLogger(__name__)

OFFERS = "gen_offers"
"""The channel of offers; nothing rests on their being heard, since every job comes up again by itself."""
LONGEST = 7_900
"""Postgres passes on no longer words."""
MOST_KNOWN = 1_000
_CLAIM = """
UPDATE pgqueuer SET status = 'picked', updated = now(), heartbeat = now(), queue_manager_id = $3
WHERE id = $1 AND payload = $2 AND status = 'queued' AND entrypoint = $4
RETURNING *
"""


class TaskNeeds(Struct, frozen=True, omit_defaults=True):
    """What a worker must have to run a task that another one could not: the agent, or also the folder.

    `either`: the agent alone is enough, or the folder, which may bring it along.
    """

    agent: str
    cwd: str = ""
    mark: str = ""
    either: bool = False


class JobOffer(Struct, frozen=True):
    """A job that is in the queue again, by number and task: numbers alone are not the same in every queue."""

    job: int
    task: str
    needs: TaskNeeds


class JobExchange:
    """Offers jobs to others and takes what they offer. `fits`: whether a job could be run here, now.

    A job that was here once is not taken again for being offered, so that two do not pass it to and fro.
    """

    def __init__(
        self,
        driver: QueueDriver,
        fits: Callable[[TaskNeeds], Awaitable[bool]],
        troubles: tuple[type[Exception], ...],
    ) -> None:
        self._driver = driver
        self._fits = fits
        self._troubles = troubles
        self._needs: dict[int, TaskNeeds] = {}
        self._had: dict[int, None] = {}
        self._claiming = asyncio.Lock()
        self._at_work: set[asyncio.Task[None]] = set()
        self._claim: Callable[[JobOffer], Awaitable[list[dict[str, object]]]] | None = None
        self.claimed: deque[Job] = deque()
        """What was taken and is to be begun."""

    def serve(self, manager: UUID, entrypoint: Callable[[str], str]) -> None:
        """Take what is offered, for the queue of this number; under which name is known of each agent."""
        self._claim = lambda it: self._driver.fetch(
            _CLAIM,
            it.job,
            it.task.encode(),
            manager,
            entrypoint(it.needs.agent),
        )

    async def listen(self) -> None:
        """Hear what others offer from now on."""
        await self._driver.listen(OFFERS, self.receive)

    def remember_needs(self, job: int, needs: TaskNeeds) -> None:
        """Remember what a job needs that is about to be put back."""
        self._needs[job] = needs
        self._remember(job)

    def offer(self, job: Job) -> None:
        """Tell all workers of a job that was put back, if it is known what it needs."""
        needs = self._needs.pop(job.id, None)
        if needs is None:
            return
        words = msgspec.json.encode(JobOffer(job.id, (job.payload or b"").decode(errors="replace"), needs))
        if len(words) <= LONGEST:
            self._do(self._driver.notify(OFFERS, words.decode()))

    def receive(self, words: str | bytes | bytearray) -> None:
        """Some worker offers a job."""
        try:
            offer = msgspec.json.decode(words, type=JobOffer)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        self._do(self._taken(offer))

    async def _taken(self, offer: JobOffer) -> None:
        if offer.job in self._had or self._claim is None or not await self._fits(offer.needs):
            return
        async with self._claiming:  # one by one, since the same job may be offered again meanwhile
            rows = [] if offer.job in self._had else await self._claim(offer)
            if rows:
                self._remember(offer.job)
                self.claimed += [Job.model_validate(row) for row in rows]
                self._driver.nudge()

    def _remember(self, job: int) -> None:
        self._had[job] = None
        if len(self._had) > MOST_KNOWN:
            del self._had[next(iter(self._had))]

    def _do(self, step: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._done(step))
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)

    async def _done(self, step: Awaitable[None]) -> None:
        try:
            await step
        except self._troubles as trouble:
            log.info("a job could not be offered or taken: %s", trouble)


class OfferingQueries(Queries):
    """The queue; what is put back there is offered to the others."""

    def __init__(self, driver: QueueDriver, offer: Callable[[Job], None]) -> None:
        super().__init__(driver)
        self._offer = offer

    async def retry_job(self, job: Job, delay: timedelta, traceback_record: TracebackRecord | None) -> None:
        """Put a job back for a later time."""
        await super().retry_job(job, delay, traceback_record)
        self._offer(job)


FIRST_SECONDS = 0.5
"""After the first try; it is twice as long after each other one."""
LONGEST_SECONDS = 5.0
NEAR_SECONDS = 1.0
"""The longest where a try costs nothing, because only the folder itself was looked for."""
MOST_TRIED = 1_000


class RetryDelays:
    """Remembers tasks that could not be run here."""

    def __init__(self) -> None:
        self._tries: dict[str, int] = {}

    def next_delay(self, task: str, most: float = LONGEST_SECONDS) -> float:
        """In how many seconds a task may be tried again, by anybody."""
        tries = self._tries.pop(task, 0)
        self._tries[task] = tries + 1
        if len(self._tries) > MOST_TRIED:
            del self._tries[next(iter(self._tries))]
        return min(FIRST_SECONDS * 2 ** min(tries, 10), most)
