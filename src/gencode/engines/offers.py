"""Jobs that one worker puts back and another one has what they need for (engines rack).

A worker that cannot run a task, because it lacks the folder or the agent, puts it back for a later time and
says what it needs. All workers hear that, each looks at what it has itself, and only one that fits touches
the database: it brings the job forward and takes it. Nobody else is woken up by that.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
from msgspec import Struct
from pgqueuer.models import Job, TracebackRecord
from pgqueuer.queries import Queries

from gencode.engines.herd import Driver

log = logging.getLogger(__name__)

OFFERS = "gen_offers"
"""The channel of offers; nothing rests on their being heard, since every job comes up again by itself."""
LONGEST = 7_900
"""Postgres passes on no longer words."""
MOST_FORWARD = 3
"""So often a worker brings a job forward that somebody else then takes and puts back."""
MOST_KNOWN = 1_000
_FORWARD = """
UPDATE pgqueuer SET execute_after = now() WHERE id = $1 AND status = 'queued' AND execute_after > now()
RETURNING id
"""


class Needs(Struct, frozen=True, omit_defaults=True):
    """What a worker must have to run a task that another one could not: the agent, or also the folder."""

    agent: str
    cwd: str = ""
    mark: str = ""


class Offer(Struct, frozen=True):
    """A job that is in the queue again."""

    job: int
    needs: Needs


class Exchange:
    """Offers jobs to others and takes up what they offer. `fits`: whether a job could be run here, now.

    A job that was put back here is not taken up again here, so that two workers do not pass it to and fro.
    """

    def __init__(
        self, driver: Driver, fits: Callable[[Needs], Awaitable[bool]], troubles: tuple[type[Exception], ...]
    ) -> None:
        self._driver = driver
        self._fits = fits
        self._troubles = troubles
        self._needs: dict[int, Needs] = {}
        self._tried: dict[int, int] = {}
        self._at_work: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        """Hear what others offer from now on."""
        await self._driver.listen(OFFERS, self.hear)

    def note(self, job: int, needs: Needs) -> None:
        """Remember what a job needs that is about to be put back."""
        self._needs[job] = needs
        self._try(job, MOST_FORWARD)

    def offer(self, job: int) -> None:
        """Tell all workers of a job that was put back, if it is known what it needs."""
        needs = self._needs.pop(job, None)
        words = msgspec.json.encode(Offer(job, needs)).decode() if needs else ""
        if words and len(words.encode()) <= LONGEST:
            self._do(self._driver.notify(OFFERS, words))

    def hear(self, words: str | bytes | bytearray) -> None:
        """Some worker offers a job."""
        try:
            offer = msgspec.json.decode(words, type=Offer)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        if self._tried.get(offer.job, 0) < MOST_FORWARD:
            self._do(self._forward(offer))

    async def _forward(self, offer: Offer) -> None:
        if await self._fits(offer.needs):
            self._try(offer.job, self._tried.get(offer.job, 0) + 1)
            if await self._driver.fetch(_FORWARD, offer.job):
                self._driver.nudge()

    def _try(self, job: int, times: int) -> None:
        self._tried.pop(job, None)
        self._tried[job] = times
        if len(self._tried) > MOST_KNOWN:
            del self._tried[next(iter(self._tried))]

    def _do(self, step: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._done(step))
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)

    async def _done(self, step: Awaitable[None]) -> None:
        try:
            await step
        except self._troubles as trouble:
            log.info("a job could not be offered or taken up: %s", trouble)


class Shelf(Queries):
    """The queue; what is put back there is offered to the others."""

    def __init__(self, driver: Driver, offer: Callable[[int], None]) -> None:
        super().__init__(driver)
        self._offer = offer

    async def retry_job(self, job: Job, delay: timedelta, traceback_record: TracebackRecord | None) -> None:
        """Put a job back for a later time."""
        await super().retry_job(job, delay, traceback_record)
        self._offer(job.id)
