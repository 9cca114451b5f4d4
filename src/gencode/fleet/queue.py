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
from pgqueuer.errors import PgqException, RetryRequested
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from gencode.core.errors import GenCodeError
from gencode.fleet.queue_reader import QueueDriver, WorkerLoad, WorkerQueue
from gencode.fleet.task_handoff import JobExchange, OfferingQueries, TaskNeeds
from gencode.journal.dispatch import Enqueue, SharedJournal

FORGET_SECONDS = 60.0
"""After that an agent that was not there is looked for again: somebody may have written its file."""

WaitingTask = tuple[str, str]
"""A task that nobody is at, and its agent."""


class ServedAgents:
    """The agents that are served here, in small letters. Where some were `named` it never changes."""

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
POLL_SECONDS = 1.0
MOST_AT_ONCE = 10
"""So many jobs are taken from the queue with one statement."""
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

    `parked` says how many of those that run only wait for a person; they do not count. `fits`: whether it has
    what another one lacked. `meet` is told of tasks whose agents are not served, and says which of
    these are from now on.
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
    """Puts a task of an agent into the queue, once, however often it is done.

    One that was taken so often may still stand there, for as long as the queue has not heard of its end.
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
    """Queue every task that nobody has been at for two lease times and that is not queued; their ids."""
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
    """Takes tasks from the queue for as long as it is not told to stop, whatever happens to the database.

    The work itself does not hang from the queue: when the database goes away the round is over, the work goes
    on, and the next round finds it where it is.
    """

    def __init__(
        self, store: SharedJournal, share: TaskSelection, run: Callable[[str], Awaitable[None]]
    ) -> None:
        self._store = store
        self._share = share
        self._run = run
        self._stopped = asyncio.Event()
        self._broken = asyncio.Event()
        self._works: dict[str, asyncio.Task[None]] = {}
        self._driver: QueueDriver | None = None
        self._exchange: JobExchange | None = None
        self._queue: WorkerQueue | None = None

    @property
    def running(self) -> int:
        """How many tasks are being run."""
        return len(self._works)

    def _has_enough(self) -> bool:
        return self.running - self._share.parked() >= self._share.most

    def _done(self, task: str) -> None:
        had_enough = self._has_enough()
        self._works.pop(task, None)
        if had_enough and self._driver is not None:
            self._driver.nudge()

    def serve_agents(self, agents: Iterable[str]) -> None:
        """Take the tasks of these agents too."""
        if self._queue is not None:
            for agent in agents:
                if entrypoint(agent) not in self._queue.qm.entrypoint_registry:
                    self._queue.entrypoint(entrypoint(agent), concurrency_limit=self._cap(agent))(self._one)

    def restart(self) -> None:
        """Begin a new round, because some agents are not to be served any more."""
        self._broken.set()

    def stop(self) -> None:
        """Take nothing more; what runs goes on to its end."""
        self._stopped.set()

    async def serve(self) -> None:
        """Take tasks and run them, until it is stopped and the last one has ended."""
        while not self._stopped.is_set():
            try:
                await self._round()
            except (GenCodeError, PgqException, RuntimeError, *self._store.troubles) as trouble:
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
        load = WorkerLoad(self._has_enough, self._share.parked)
        self._driver = driver = QueueDriver(pool, self._broken.set, load)
        self._exchange = exchange = JobExchange(driver, self._fits, self._store.troubles)
        self._queue = queue = WorkerQueue(driver, queries=OfferingQueries(driver, exchange.offer))
        queue.configure(load, driver.news, exchange.claimed, self._met)
        self.serve_agents(self._share.agents())
        exchange.serve(queue.qm.queue_manager_id, entrypoint)
        loop = asyncio.get_running_loop()
        serving = loop.create_task(self._taken(queue, exchange))
        watching = [loop.create_task(event.wait()) for event in (self._broken, self._stopped)]
        try:
            await asyncio.wait([serving, *watching], return_when=asyncio.FIRST_COMPLETED)
            queue.shutdown.set()
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

    async def _taken(self, queue: WorkerQueue, exchange: JobExchange) -> None:
        await exchange.listen()
        most = max(self._share.most, 2)
        await queue.run(
            dequeue_timeout=timedelta(seconds=POLL_SECONDS),
            batch_size=max(min(MOST_AT_ONCE, most // 2), 1),
            max_concurrent_tasks=most,
            heartbeat_timeout=timedelta(seconds=self._store.lease_seconds),
        )

    async def _one(self, job: Job) -> None:
        task = (job.payload or b"").decode(errors="replace")
        work = self._works.get(task)
        if work is None:
            if self._has_enough() or self._stopped.is_set():
                raise RetryRequested(timedelta(seconds=AGAIN_SECONDS), "this worker is busy")
            work = self._works[task] = asyncio.ensure_future(self._run(task))
            work.add_done_callback(lambda _: self._done(task))
        try:
            await asyncio.shield(work)
        except RetryLater as later:
            if later.needs is not None and self._exchange is not None:
                self._exchange.remember_needs(job.id, later.needs)
            raise RetryRequested(timedelta(seconds=later.seconds), str(later)) from None
        except GenCodeError as trouble:
            raise RetryRequested(timedelta(seconds=AGAIN_SECONDS), type(trouble).__name__) from None
