"""Owns live tasks: the only place that starts work, ends it, and writes down how it ended."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

from gencode.core.errors import GenCodeError, ProviderError, Stopped
from gencode.core.events import DurableFact, MessageAdded, TaskBackgrounded, TaskEnded
from gencode.core.status import Status
from gencode.delegation.live import GRACE_SECONDS, Job, Live
from gencode.delegation.receipts import warnings_of
from gencode.delegation.watch import LOOK_SECONDS
from gencode.runtime.calls import interrupted
from gencode.runtime.loop import run, sum_up
from gencode.runtime.owner import new_owner
from gencode.runtime.ports import Journal, Wish
from gencode.runtime.seat import Ending
from gencode.runtime.stop import Stop

log = logging.getLogger(__name__)

RENEW_SECONDS = 3.0
REPORT_SECONDS = 60.0
"""So long an agent that was stopped may take to say what it has found."""

ELSEWHERE = "it was stopped from another process"
REPORT = (
    "You were stopped: {why}. No tool can be called any more. Say now what you have found and done so far, "
    "and what is still open."
)


class Supervisor:
    """Runs jobs side by side in one task group; no job ever raises into its siblings."""

    def __init__(self, journal: Journal) -> None:
        self.owner = new_owner()
        self.stop = Stop()
        self._journal = journal
        self._jobs: dict[str, Live] = {}
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

    def __iter__(self) -> Iterator[Live]:
        return iter(tuple(self._jobs.values()))

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self, job: Job) -> Job:
        """Begin to run a job; it ends by itself, by its limits, or by its branch being stopped."""
        self.watch(job, lambda: self._lived(job))
        if not self._chores:
            self._chores = [self._group.create_task(each) for each in (self._renew(), self._heed())]
        return job

    def watch(self, live: Live, life: Callable[[], Awaitable[None]]) -> None:
        """Look after a task for as long as its `life` takes, here or in a process of its own."""
        self._jobs[live.id] = live
        live.work = self._group.create_task(self._work(live, life))

    def find(self, task: str) -> Live | None:
        """The live task of this id, if it is looked after here."""
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

    async def _work(self, live: Live, life: Callable[[], Awaitable[None]]) -> None:
        try:
            await life()
        except GenCodeError as trouble:
            log.warning("task %s could not be written down: %s", live.id, trouble)
            live.trouble = trouble
        finally:
            live.fall()
            self._jobs.pop(live.id, None)

    async def _lived(self, job: Job) -> None:
        await self._close(job, await self._ran(job))

    async def _ran(self, job: Job) -> Ending:
        try:
            async with asyncio.timeout(job.seat.limits.seconds):
                try:
                    return await run(job.seat, job.transcript, job.record, job.turns)
                except Stopped as stopped:
                    return await self._reported(job, str(stopped))
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

    async def _reported(self, job: Job, why: str) -> Ending:
        """The end of an agent whose turns were stopped: with a last word, unless all of it was stopped."""
        text = ""
        if not job.stop.stopped:
            note = REPORT.format(why=why)
            try:
                async with asyncio.timeout(REPORT_SECONDS):
                    text = await sum_up(job.seat, job.transcript, job.record, job.stop, note)
            except (Stopped, ProviderError, TimeoutError) as trouble:
                log.info("task %s was stopped and could not report: %s", job.id, trouble)
        return Ending(Status.CANCELLED, text, why)

    async def _close(self, job: Job, ending: Ending) -> None:
        """Answer the calls that were cut and write the end, in one transaction."""
        facts: list[DurableFact] = []
        if job.record.open_calls:
            why = ending.error or "the agent ended before it was answered"
            facts.append(MessageAdded(interrupted(job.record.open_calls, why)))
        task = job.record.task
        result = ending.text if ending.text.strip() else task.result
        warnings = warnings_of(job.seat, job.transcript, task, ending)
        trouble = (job.record.trouble,) if job.record.trouble else ()
        facts.append(TaskEnded(ending.status, result, ending.error, (*warnings, *trouble)))
        written = False
        try:
            await job.record.commit(*facts, last=True)
            written = True
        finally:
            if not written:
                await job.record.release()

    async def _heed(self) -> None:
        """Do what somebody in another process asked for."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                for task, wish in await self._journal.asked(self.owner) if self._jobs else ():
                    if isinstance(job := self._jobs.get(task), Job):
                        await self._grant(job, wish)
            except GenCodeError as trouble:
                log.warning("what others asked for could not be done: %s", trouble)

    async def _grant(self, job: Job, wish: Wish) -> None:
        match wish:
            case Wish.STOP if not job.stop.stopped:
                self._group.create_task(job.halt(ELSEWHERE))
            case Wish.REPORT if not job.turns.stopped:
                job.report(ELSEWHERE)
            case Wish.BACKGROUND if job.sent_back is not None and not job.sent_back.done():
                await job.record.commit(TaskBackgrounded())
                job.seat.gate.background = True
                job.send_back()
            case _:
                pass

    async def _renew(self) -> None:
        """Keep the leases of all live tasks; a journal that cannot be reached is tried again."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self._journal.renew(self.owner)
            except GenCodeError as trouble:
                log.warning("leases could not be renewed: %s", trouble)
