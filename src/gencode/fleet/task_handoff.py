"""Tasks that one worker cannot run are put back and offered to the others.

A worker that lacks the folder or the agent of a task puts it back with a delay and announces what it needs.
Every worker receives that and checks what it has itself; only one that fits touches the database, and claims
exactly this job before the delay is over. No other worker is woken up.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Struct
from pgqueuer.models import Job

from gencode.fleet.queue_reader import QueueDriver, QueueReader

log = logging.getLogger(__name__)

OFFERS = "gen_offers"
"""The channel of offers. An offer may get lost: every job is tried again after its delay anyway."""
LONGEST = 7_900
"""The longest payload in bytes that Postgres delivers with a notification."""
MOST_KNOWN = 1_000
_CLAIM = """
UPDATE pgqueuer SET status = 'picked', updated = now(), heartbeat = now(), queue_manager_id = $3
WHERE id = $1 AND payload = $2 AND status = 'queued' AND entrypoint = $4
RETURNING *
"""


class TaskNeeds(Struct, frozen=True, omit_defaults=True):
    """What a worker needs to run a task that another one could not run: the agent, or also the folder.

    `either`: the agent alone is enough, or the folder, which may define it.
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
        reader: QueueReader,
        entrypoint: Callable[[str], str],
        fits: Callable[[TaskNeeds], Awaitable[bool]],
        troubles: tuple[type[Exception], ...],
    ) -> None:
        """What is taken is begun by `reader`; `entrypoint` is the name under which an agent is queued."""
        self._driver = driver
        self._reader = reader
        self._entrypoint = entrypoint
        self._fits = fits
        self._troubles = troubles
        self._had: dict[int, None] = {}
        self._claiming = asyncio.Lock()
        self._at_work: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        """Listen for offers of other workers."""
        await self._driver.add_listener(OFFERS, self.receive)

    def keep(self, job: Job) -> None:
        """Remember a job that is about to be offered."""
        self._had[job.id] = None
        if len(self._had) > MOST_KNOWN:
            del self._had[next(iter(self._had))]

    def offer(self, job: Job, needs: TaskNeeds) -> None:
        """Tell all workers of a job that was put back, and what it needs."""
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
        if offer.job in self._had or not await self._fits(offer.needs):
            return
        async with self._claiming:  # one by one, since the same job may be offered again meanwhile
            if offer.job in self._had:
                return
            name, task = self._entrypoint(offer.needs.agent), offer.task.encode()
            for row in await self._driver.fetch(_CLAIM, offer.job, task, self._reader.number, name):
                job = Job.model_validate(row)
                self.keep(job)
                self._reader.begin(job)

    def _do(self, step: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._done(step))
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)

    async def _done(self, step: Awaitable[None]) -> None:
        try:
            await step
        except self._troubles as trouble:
            log.info("a job could not be offered or taken: %s", trouble)


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
