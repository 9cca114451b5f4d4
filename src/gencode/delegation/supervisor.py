"""Owns live tasks: the only place that starts work, ends it, and writes down how it ended."""

import asyncio
import logging
from collections.abc import Iterator

from msgspec import Struct

from gencode.core.errors import GenCodeError, ProviderError, Stopped
from gencode.core.events import DurableFact, MessageAdded, TaskEnded
from gencode.core.messages import Message
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.runtime.calls import interrupted
from gencode.runtime.loop import run
from gencode.runtime.owner import new_owner
from gencode.runtime.ports import Journal
from gencode.runtime.recorder import Recorder
from gencode.runtime.seat import Ending, Seat
from gencode.runtime.stop import Stop

log = logging.getLogger(__name__)

GRACE_SECONDS = 2.0
RENEW_SECONDS = 3.0
LOOK_SECONDS = 0.1
"""How often the journal is asked whether somebody in another process wants a task stopped."""


class Job(Struct, eq=False):
    """One live task: its seat, its transcript, its pen and the branch it hangs from."""

    seat: Seat
    transcript: list[Message]
    record: Recorder
    stop: Stop
    trouble: GenCodeError | None = None
    work: "asyncio.Task[None] | None" = None

    @property
    def id(self) -> str:
        """The id of the task."""
        return self.record.lease.task

    @property
    def over(self) -> bool:
        """Whether it has ended and that is written down."""
        return self.work is not None and self.work.done() and self.record.task.status.ended

    async def wait(self, seconds: float) -> None:
        """Wait for its end, at most so long."""
        if self.work is not None and seconds > 0:
            await asyncio.wait([self.work], timeout=seconds)

    async def ended(self) -> Task:
        """The task once it has ended; raises what kept it from being written down, if anything did."""
        if self.work is not None:
            await asyncio.wait([self.work])
        if self.trouble is not None:
            raise self.trouble
        return self.record.task

    async def halt(self, why: str) -> None:
        """Stop the job and wait until it has ended, or has been cut off after the grace time."""
        self.stop.stop(why)
        if self.work is not None:
            _, late = await asyncio.wait([self.work], timeout=GRACE_SECONDS)
            for work in late:
                work.cancel()


class Supervisor:
    """Runs jobs side by side in one task group; no job ever raises into its siblings."""

    def __init__(self, journal: Journal) -> None:
        self.owner = new_owner()
        self.stop = Stop()
        self._journal = journal
        self._jobs: dict[str, Job] = {}
        self._group = asyncio.TaskGroup()
        self._chores: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Supervisor":
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.stop("the program is closing")
        await self.settle()
        for chore in self._chores:
            chore.cancel()
        await self._group.__aexit__(None, None, None)

    def __iter__(self) -> Iterator[Job]:
        return iter(tuple(self._jobs.values()))

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self, job: Job) -> Job:
        """Begin to run a job; it ends by itself, by its limits, or by its branch being stopped."""
        self._jobs[job.id] = job
        job.work = self._group.create_task(self._work(job))
        if not self._chores:
            self._chores = [self._group.create_task(each) for each in (self._renew(), self._heed())]
        return job

    def find(self, task: str) -> Job | None:
        """The live job of a task, if it is live here."""
        return self._jobs.get(task)

    async def settle(self) -> None:
        """Wait for stopped work to end; what has not after the grace time is cancelled."""
        working = [job.work for job in self if job.work is not None]
        if not working:
            return
        _, late = await asyncio.wait(working, timeout=GRACE_SECONDS)
        for work in late:
            work.cancel()
        if late:
            await asyncio.wait(late, timeout=GRACE_SECONDS)

    async def _work(self, job: Job) -> None:
        try:
            ending = await self._ran(job)
            await self._close(job, ending)
        except GenCodeError as trouble:
            log.warning("task %s could not be written down: %s", job.id, trouble)
            job.trouble = trouble
        finally:
            job.stop.fall()
            self._jobs.pop(job.id, None)

    async def _ran(self, job: Job) -> Ending:
        try:
            async with asyncio.timeout(job.seat.limits.seconds):
                return await run(job.seat, job.transcript, job.record, job.stop)
        except TimeoutError:
            return Ending(Status.TIMED_OUT, error=f"it took longer than {job.seat.limits.seconds} s")
        except Stopped as stopped:
            return Ending(Status.CANCELLED, error=str(stopped))
        except ProviderError as error:
            return Ending(Status.FAILED, error=str(error))
        except asyncio.CancelledError:
            return Ending(Status.CANCELLED, error=job.stop.reason or "it was cancelled")
        except GenCodeError:
            raise
        except Exception as bug:
            log.exception("task %s failed by a bug", job.id)
            return Ending(
                Status.FAILED, error=f"a fault in GenCode: {type(bug).__name__}; the log has the details"
            )

    async def _close(self, job: Job, ending: Ending) -> None:
        """Answer the calls that were cut and write the end, in one transaction."""
        facts: list[DurableFact] = []
        if job.record.open_calls:
            why = ending.error or "the agent ended before it was answered"
            facts.append(MessageAdded(interrupted(job.record.open_calls, why)))
        result = ending.text or job.record.task.result
        facts.append(TaskEnded(ending.status, result, ending.error))
        written = False
        try:
            await job.record.commit(*facts, last=True)
            written = True
        finally:
            if not written:
                await job.record.release()

    async def _heed(self) -> None:
        """Stop what somebody in another process asked to be stopped."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                asked = await self._journal.asked_stops(self.owner) if self._jobs else ()
            except GenCodeError as trouble:
                log.warning("it could not be seen whether something should stop: %s", trouble)
                continue
            for task in asked:
                if job := self._jobs.get(task):
                    job.stop.stop("it was stopped from another process")

    async def _renew(self) -> None:
        """Keep the leases of all live tasks; a journal that cannot be reached is tried again."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self._journal.renew(self.owner)
            except GenCodeError as trouble:
                log.warning("leases could not be renewed: %s", trouble)
