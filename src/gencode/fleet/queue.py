"""The task queue of a fleet (pgqueuer, in the database of the journal), and what one worker takes from it.

The queue only dispatches. It may be late, wrong or empty at any time: whether a task may be run is decided by
its lease, and a task that is missing from the queue is put back by `reconcile`. A worker serves the agents
that were named, or else its own and every other one that is waited for: an agent that only a project defines
comes along with the folder, so a worker knows whether it has it when it has looked.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct
from pgqueuer.db import AsyncpgDriver
from pgqueuer.errors import PgqException
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from gencode.core.errors import GenCodeError
from gencode.fleet.queue_reader import Again, QueueDriver, QueueReader, WorkerLoad
from gencode.fleet.task_handoff import JobExchange, TaskNeeds
from gencode.journal.dispatch import Enqueue, SharedJournal

FORGET_SECONDS = 60.0
"""After this time a missing agent is looked for again: its file may have been written since."""

WaitingTask = tuple[str, str]
"""A task that no process is running, and its agent."""


class ServedAgents:
    """The agents served here, in lower case; if some were `named`, the set never changes."""

    def __init__(self, named: Iterable[str] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lacking: dict[str, tuple[str, float]] = {}
        self.own = frozenset(name.casefold() for name in named)
        """Those of this machine, whatever folder a task is about."""
        self.named = bool(self.own)
        self._served = {*self.own}

    def names(self) -> list[str]:
        """The agents whose tasks are taken."""
        return sorted(self._served)

    def learn(self, own: Iterable[str], waiting: Iterable[WaitingTask]) -> None:
        """Know the agents of this machine, and what is waited for."""
        if not self.named:
            self.own = frozenset(name.casefold() for name in own)
            self._served = {*self.own} | self._wanted(waiting)

    def note_missing(self, task: str, agent: str) -> None:
        """Note that the agent of a task is not here."""
        self._lacking[task] = (agent.casefold(), self._clock() + FORGET_SECONDS)

    def admit(self, agent: str) -> bool:
        """Whether a task of this agent, whose folder is here, may be taken; from then on it is served."""
        if not self.named:
            self._served.add(agent.casefold())
        return agent.casefold() in self._served

    def serve_waiting(self, waiting: Iterable[WaitingTask]) -> set[str]:
        """Serve those too that are waited for, unless they were found not to be here; which ones are new."""
        if self.named:
            return set()
        new = self._wanted(waiting) - self._served
        self._served |= new
        return new

    def drop_missing(self, waiting: Iterable[WaitingTask]) -> set[str]:
        """Leave those to others that were found not to be here, but for the tasks that wait; who they are."""
        if self.named:
            return set()
        wanted = self._wanted(waiting)
        lacking = {name for name, _ in self._lacking.values()} & self._served
        gone = lacking - wanted - self.own
        self._served -= gone
        return gone

    def _wanted(self, waiting: Iterable[WaitingTask]) -> set[str]:
        now = self._clock()
        self._lacking = {task: each for task, each in self._lacking.items() if each[1] > now}
        return {agent.casefold() for task, agent in waiting if task not in self._lacking}


log = logging.getLogger(__name__)

PREFIX = "gencode.agent."
AGAIN_SECONDS = 1.0
CONNECTIONS = 4
_THERE = "SELECT dedupe_key FROM pgqueuer WHERE dedupe_key = ANY($1) AND status IN ('queued', 'picked')"
_FORGET = "DELETE FROM pgqueuer_log WHERE created < now() - interval '1 day'"


class RetryLater(GenCodeError):
    """The task cannot be run here and now; `seconds` is how long to wait before anybody tries again.

    A worker that has what it `needs` does so at once.
    """

    def __init__(self, why: str, seconds: float = AGAIN_SECONDS, needs: TaskNeeds | None = None) -> None:
        super().__init__(why)
        self.seconds = seconds
        self.needs = needs


def _none() -> int:
    return 0


async def _never(_needs: TaskNeeds) -> bool:
    return False


def _nobody(_waiting: Sequence[WaitingTask]) -> set[str]:
    return set()


class TaskSelection(Struct, frozen=True):
    """What one worker takes from the queue: which agents, how many at once, and the caps of all workers.

    `parked` is how many running tasks only wait for a person; they take no place. `fits` says whether this
    worker has what another one lacked. `meet` gets tasks whose agents are not served, and returns those
    agents that are served from now on.
    """

    agents: Callable[[], Sequence[str]]
    most: int
    caps: Mapping[str, int]
    parked: Callable[[], int] = _none
    fits: Callable[[TaskNeeds], Awaitable[bool]] = _never
    meet: Callable[[Sequence[WaitingTask]], set[str]] = _nobody


def entrypoint(agent: str) -> str:
    """The name under which the tasks of an agent are queued."""
    return PREFIX + agent.casefold()


def enqueue_task(agent: str, priority: int = 0, delay: timedelta | None = None, takes: int = 0) -> Enqueue:
    """Queue a task of an agent, once, however often this is called.

    A resumed task has another key each time (`takes`): the job of its last run may still be in the queue.
    """

    async def enqueue(connection: Any, task: str) -> None:
        queries = Queries(AsyncpgDriver(connection))
        await queries.enqueue(
            entrypoint(agent),
            task.encode(),
            priority,
            delay,
            dedupe_key=f"{task} {takes}" if takes else task,
            on_conflict="skip",
        )

    return enqueue


async def ensure_queue(store: SharedJournal) -> None:
    """Make the tables of the queue, where they are not there yet."""

    async def install(connection: Any) -> None:
        queries = Queries(AsyncpgDriver(connection))
        if not await queries.schema_is_installed():
            await queries.install()

    await store.on_connection(install)


async def reconcile(store: SharedJournal) -> list[str]:
    """Queue every task that has had no owner for two lease times and is not in the queue; their ids."""
    stuck = await store.overdue(2 * store.lease_seconds)
    missing: list[str] = []

    async def enqueue(connection: Any) -> None:
        # To try it with those that are there would wake all workers up, for nothing.
        there = {row[0] for row in await connection.fetch(_THERE, [each.task for each in stuck])}
        lost = [each for each in stuck if each.task not in there]
        if not lost:
            return
        queries = Queries(AsyncpgDriver(connection))
        queued = await queries.enqueue(
            [entrypoint(each.agent) for each in lost],
            [each.task.encode() for each in lost],
            [0] * len(lost),
            dedupe_key=[each.task for each in lost],
            on_conflict="skip",
        )
        missing.extend(each.task for each, job in zip(lost, queued, strict=True) if job is not None)

    if stuck:
        await store.on_connection(enqueue)
    return missing


async def prune(store: SharedJournal) -> None:
    """Forget what the queue logged long ago; it keeps every job for ever."""

    async def forget(connection: Any) -> None:
        await connection.execute(_FORGET)

    await store.on_connection(forget)


class QueueConsumer:
    """Takes tasks from the queue until it is told to stop, whatever happens to the database.

    Running tasks do not depend on the queue: when the database is lost the round ends, the tasks go on, and
    the next round finds them running.
    """

    def __init__(
        self, store: SharedJournal, share: TaskSelection, run: Callable[[str], Awaitable[None]]
    ) -> None:
        self._store = store
        self._share = share
        self._run = run
        self._stopped = asyncio.Event()
        self._broken = asyncio.Event()
        self._works: dict[str, asyncio.Future[None]] = {}
        self._reader: QueueReader | None = None

    @property
    def running(self) -> int:
        """How many tasks are being run."""
        return len(self._works)

    def _has_enough(self) -> bool:
        return self.running - self._share.parked() >= self._share.most

    def _most(self) -> int:
        """So many jobs at once, and as many more as wait for a person at that moment."""
        return max(self._share.most, 2) + self._share.parked()

    def _done(self, task: str) -> None:
        had_enough = self._has_enough()
        self._works.pop(task, None)
        if had_enough and self._reader is not None:
            self._reader.nudge()

    def serve_agents(self, agents: Iterable[str]) -> None:
        """Take the tasks of these agents too."""
        if self._reader is not None:
            self._reader.limits |= {entrypoint(agent): self._cap(agent) for agent in agents}

    def restart(self) -> None:
        """Begin a new round, because some agents are not to be served any more."""
        self._broken.set()

    def stop(self) -> None:
        """Take no more tasks; running ones continue to their end."""
        self._stopped.set()

    async def serve(self) -> None:
        """Take tasks and run them, until it is stopped and the last one has ended."""
        while not self._stopped.is_set():
            try:
                await self._round()
            except (GenCodeError, PgqException, *self._store.troubles) as trouble:
                log.warning("the queue cannot be served at the moment: %s", trouble)
            if not self._stopped.is_set():
                await asyncio.sleep(AGAIN_SECONDS)
        while self._works:
            await asyncio.wait(self._works.values())

    async def _round(self) -> None:
        """Serve until the database goes away, or nothing more is to be taken."""
        await ensure_queue(self._store)
        self._broken.clear()
        pool = await self._store.new_pool(CONNECTIONS, self._broken.set)
        driver = QueueDriver(pool, self._broken.set)
        troubles = self._store.troubles

        async def work(job: Job) -> Again | None:
            return await self._worked(job, exchange)

        load = WorkerLoad(self._has_enough, self._most)
        reader = QueueReader(driver, load, work, self._met, self._store.lease_seconds, troubles)
        exchange = JobExchange(driver, reader, entrypoint, self._fits, troubles)
        self._reader = reader
        self.serve_agents(self._share.agents())
        loop = asyncio.get_running_loop()
        watching = [loop.create_task(event.wait()) for event in (self._broken, self._stopped)]
        serving = loop.create_task(reader.run())
        try:
            await exchange.listen()
            await asyncio.wait([serving, *watching], return_when=asyncio.FIRST_COMPLETED)
            reader.stop()
            if self._broken.is_set():
                serving.cancel()
            await asyncio.wait([serving])
        finally:
            for each in (serving, *watching):
                each.cancel()
            pool.terminate()
        if not serving.cancelled() and (trouble := serving.exception()) is not None:
            raise trouble

    async def _fits(self, needs: TaskNeeds) -> bool:
        # Whatever has a cap is only taken in turn: that is where it is counted.
        if self._cap(needs.agent) or self._has_enough() or self._stopped.is_set():
            return False
        fits = await self._share.fits(needs)
        if fits:
            self.serve_agents([needs.agent])
        return fits

    def _cap(self, agent: str) -> int:
        return self._share.caps.get(agent.casefold(), 0)

    def _met(self, jobs: Sequence[tuple[str, bytes]]) -> bool:
        """Serve agents that were not served so far, if they may be here; whether there are any."""
        waiting = [
            (payload.decode(errors="replace"), name.removeprefix(PREFIX))
            for name, payload in jobs
            if name.startswith(PREFIX)
        ]
        new = self._share.meet(waiting)
        self.serve_agents(new)
        return bool(new)

    async def _worked(self, job: Job, exchange: JobExchange) -> Again | None:
        """Run the task of a job; when that is to be tried again, or None."""
        task = (job.payload or b"").decode(errors="replace")
        work = self._works.get(task)
        if work is None:
            if self._has_enough() or self._stopped.is_set():
                return Again(AGAIN_SECONDS)
            work = self._works[task] = asyncio.ensure_future(self._run(task))
            work.add_done_callback(lambda _: self._done(task))
        await asyncio.wait([work])
        match None if work.cancelled() else work.exception():
            case None:
                return None
            case RetryLater(seconds=seconds, needs=TaskNeeds() as needs):
                exchange.keep(job)
                return Again(seconds, lambda: exchange.offer(job, needs))
            case RetryLater(seconds=seconds):
                return Again(seconds)
            case GenCodeError():
                return Again(AGAIN_SECONDS)
            case bug:
                log.error("a bug ended the work on task %s", task, exc_info=bug)
                return None
