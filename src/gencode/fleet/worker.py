"""A worker: the shared journal, its queue, and an open GenCode for every folder it works in.

This is the second file that imports every room; nothing of it is loaded without a shared database.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, NoReturn

import msgspec

from gencode import __version__
from gencode.app import GenCode, components
from gencode.budgets.ledger import BudgetSpent
from gencode.budgets.limits import NO_BUDGET, tightest
from gencode.core.budget import Budget
from gencode.core.errors import Fenced, GenCodeError, StoreTrouble, UserMistake
from gencode.core.ids import new_id
from gencode.core.status import PARENT_GONE, EndReason, Status, StopCause
from gencode.core.structs import replace
from gencode.fleet.queue import (
    QueueConsumer,
    RetryLater,
    ServedAgents,
    TaskSelection,
    ensure_queue,
    prune,
    reconcile,
)
from gencode.fleet.task_handoff import LONGEST_SECONDS, NEAR_SECONDS, RetryDelays, TaskNeeds
from gencode.fleet.worker_folder import WorkerFolder
from gencode.fleet.worker_folder import WorkerOptions as WorkerOptions
from gencode.fleet.worker_workspace import FolderRequest, WorkerCopies, WorkerSettings
from gencode.fleet.workspace_transfer import FleetOrder, read_order
from gencode.journal.dispatch import DispatchedTask, Handover, MissingPart, MissingWorker, WorkerInfo, lacking
from gencode.journal.folder_snapshot import InvalidSnapshot
from gencode.journal.store import Lease
from gencode.stores.open_store import open_postgres as open_postgres
from gencode.stores.pg_copy import copy_to as copy_to
from gencode.stores.pg_fleet import CLOSED_SECONDS, FleetStore
from gencode.stores.pg_fleet_status import fleet_status as fleet_status
from gencode.stores.pg_schema import migrate_url
from gencode.tasks.crash_recovery import close_leased, close_task, close_unclaimed
from gencode.tasks.deadline import UnclaimedTimer
from gencode.tasks.liveness import LeaseRenewal
from gencode.tasks.running_task import RunningTask
from gencode.workspaces.transfer.mirror import FolderUnavailable

log = logging.getLogger(__name__)

MOST_TAKES = 10
"""A task that was taken so often and never ended takes its workers down with it; it is given up."""
RECONCILE_SECONDS = 30.0
PRUNE_SECONDS = 3_600.0
STOPPED = StopCause(EndReason.LEASE_LOST, "its worker could not renew its lease")
HANDED_BACK = StopCause(EndReason.CLOSING, "its worker was stopped")
DAY_SECONDS = 86_400.0
"""The least time that a task nobody waits for stays queued: some workers run only by day."""
HARD_END = 70
_LAST_MOMENT = 0.15
"""The part of the lease time that everything has to stop; after it the process ends as a whole."""


async def migrate_shared(url: str) -> tuple[str, int, int]:
    """Upgrade a shared database and its queue; its address, and the versions before and after."""
    before, after = await migrate_url(url)
    store = await open_postgres(url)
    try:
        await ensure_queue(store)
        return store.link.address, before, after
    finally:
        await store.close()


class UnclaimedTasks:
    """Ends tasks that no worker could take for too long, also where their parent is gone.

    Too long is the time limit of the task, and at `least` this many seconds; nothing is checked while `judge`
    is false.
    """

    def __init__(
        self,
        store: FleetStore,
        judge: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        least: float = DAY_SECONDS,
    ) -> None:
        self._store = store
        self._judge = judge
        self._clock = clock
        self._least = least
        self._timers: dict[str, UnclaimedTimer] = {}

    async def look(self) -> list[str]:
        """Check all tasks that have had no owner for a while; the ids of those that were ended."""
        if not self._judge():
            self._pause()
            return []
        try:
            late = await self._store.overdue(2 * self._store.lease_seconds)
            found = await self._store.missing_workers([each.task for each in late])
        except GenCodeError:
            self._pause()
            raise
        seen = {task: self._at_least(each) for task, each in found.items()}
        self._timers = {task: self._timers.get(task) or UnclaimedTimer(self._clock) for task in seen}
        over = [task for task, timer in self._timers.items() if timer.is_over(seen[task])]
        ended = [task for task in over if await close_unclaimed(self._store, task, seen[task].end)]
        for task in ended:  # it may be sent again before the next look
            del self._timers[task]
        return ended

    def _at_least(self, seen: MissingWorker) -> MissingWorker:
        return seen if seen.most is None else replace(seen, most=max(seen.most, self._least))

    def _pause(self) -> None:
        for timer in self._timers.values():
            timer.pause()


class Worker:
    """Runs tasks of a shared database. `name` is unique for this process."""

    def __init__(
        self, store: FleetStore, options: WorkerOptions, last_word: Callable[[], None] = lambda: None
    ) -> None:
        """`last_word` reports that the whole process ends; it must not wait for anything."""
        self.name = f"{socket.gethostname()}-{os.getpid()}-{new_id()}"
        self._store = store
        self._options = options
        self._folders: dict[str, WorkerFolder] = {}
        self._closing: set[asyncio.Future[Any]] = set()
        self._draining = False
        self._left: list[Lease] = []
        self._bound: dict[str, tuple[RunningTask, str]] = {}
        caps = {name.casefold(): cap for name, cap in options.caps.items()}
        self._served = known = ServedAgents(options.agents)
        share = TaskSelection(known.names, options.most, caps, self._parked, self._fits, known.serve_waiting)
        self._serving = QueueConsumer(store, share, self.run)
        self.leases = LeaseRenewal(self._renew, options.lease_seconds, self._lost)
        self._retry_delays = RetryDelays()
        self._unclaimed = UnclaimedTasks(store, lambda: self.can_judge)
        settings = WorkerSettings(self.name, options.workspace, options.home, options.folders, options.walls)
        self._copies = WorkerCopies(store, store.snapshots, settings)
        self._last_word = last_word

    @property
    def card(self) -> WorkerInfo:
        """The worker as others see it."""
        agents = ", ".join(self._options.agents) or "all"
        workspace, running = str(self._options.workspace), self._serving.running
        return WorkerInfo(
            self.name, agents, workspace, self._options.most, running, self._draining, version=__version__
        )

    @property
    def can_judge(self) -> bool:
        """Whether it knows which tasks no worker can take.

        After a lost connection the others have to report first; while this one drains, its replacement may
        not have started yet.
        """
        return self.leases.settled and not self._draining

    async def work(self) -> None:
        """Take tasks until it is told to drain and the last one has ended."""
        await self._learn_agents()
        await self._store.report(self.card)
        loop = asyncio.get_running_loop()
        chores = [loop.create_task(self.leases.run()), loop.create_task(self._reconcile())]
        try:
            await self._serving.serve()
        finally:
            for folder in self._folders.values():
                folder.close()
            await self._settled()
            for chore in chores:
                chore.cancel()
            with suppress(StoreTrouble):
                await self._store.leave(self.name)

    def drain(self) -> None:
        """Take nothing more and end when what runs has ended."""
        self._draining = True
        self._serving.stop()

    async def hand_back(self) -> None:
        """Stop what still runs and give it back; other workers continue with it at once."""
        self.drain()
        owners = [
            components(folder.opened).supervisor.owner for folder in self._folders.values() if folder.opened
        ]
        copies = self._copies.abandon()
        self._give_up(HANDED_BACK)
        await self._settled()
        for copy in copies:
            await copy.hand_over()
        for owner in owners:
            with suppress(StoreTrouble):
                await self._store.hand_back(owner)

    async def run(self, task: str) -> None:
        """Run one task to its end; RetryLater when that is not possible here and now."""
        found = await self._store.dispatched(task)
        if found is None or found.order is None:
            return
        if not found.free:
            raise RetryLater("another worker is running it", self._options.lease_seconds / 3)
        async with AsyncExitStack() as stack:
            try:
                order = read_order(found.order)
                if (begun := found.takes - order.takes) >= MOST_TAKES:
                    raise UserMistake(f"it was started {begun} times and never finished")
                if await self._end_if_deserted(task, order):
                    return
                gen = await self._enter_folder(stack, found, order)
                await self._check_agent(gen, found, order)
                handover = _bounded(found, order.handover, self._options.budget)
                most = handover.created.budget if handover.created else NO_BUDGET
                await self._check_model(gen, found, order, most)
                job = await gen.take_on(handover)
            except (RetryLater, StoreTrouble, Fenced):
                raise
            except UserMistake as mistake:
                await self._end_refused(found, mistake)
                return
            await self._wait_for_end(task, order, job)

    async def _end_if_deserted(self, task: str, order: FleetOrder) -> bool:
        """End a queued task whose parent has gone; RetryLater while the parent may still come back."""
        sender = _sender(order)
        if not sender or not await self._store.deserted([sender], 0):
            return False
        if not self.leases.settled or not await self._store.deserted([sender], silent=CLOSED_SECONDS):
            raise RetryLater("the task that waits for it was disconnected a moment ago")
        try:
            await close_task(self._store, task, self.name, why=PARENT_GONE)
        except UserMistake:
            raise RetryLater("another worker is running it") from None
        return True

    async def _check_agent(self, gen: GenCode, found: DispatchedTask, order: FleetOrder) -> None:
        """RetryLater when the agent of a task is not on this machine; another one may have it."""
        try:
            gen.agents.find(found.agent)
        except UserMistake as mistake:
            self._served.note_missing(found.task, found.agent)
            raise await self._retry_elsewhere(found, order, *lacking(found.agent, mistake)) from None

    async def _check_model(
        self, gen: GenCode, found: DispatchedTask, order: FleetOrder, most: Budget
    ) -> None:
        """RetryLater when this machine cannot use the model of a task, for example without its key."""
        try:
            model = gen.model
            if most.usd is not None:
                components(gen).setup_builder.check_model(model.name)
        except UserMistake as mistake:
            raise await self._retry_elsewhere(found, order, str(mistake)) from None

    async def _retry_elsewhere(
        self, found: DispatchedTask, order: FleetOrder, why: str, lacks: MissingPart = MissingPart.OTHER
    ) -> RetryLater:
        """What makes a task wait for another worker, because this machine is not set up for it."""
        await self._store.snapshots.report_problem(found.task, self.name, why, lacks)
        needs = TaskNeeds(found.agent, order.cwd, order.mark, either=True)
        return RetryLater(why, self._retry_delays.next_delay(found.task), needs)

    async def _fits(self, needs: TaskNeeds) -> bool:
        """Whether what another worker lacked for a task is here: its agent, or its folder."""
        if (needs.either or not needs.cwd) and needs.agent.casefold() in self._served.own:
            return True
        if not needs.cwd:
            return False
        with suppress(FolderUnavailable):
            async with self._copies.folder_for(FolderRequest("", needs.cwd, needs.mark)):
                return self._served.admit(needs.agent)
        return False

    async def _enter_folder(self, stack: AsyncExitStack, found: DispatchedTask, order: FleetOrder) -> GenCode:
        """The GenCode for a task until the stack is left.

        RetryLater when its folder is not available here, or this machine is not set up for it.
        """
        try:
            return await stack.enter_async_context(self._open_folder(found.task, order))
        except FolderUnavailable as why:
            most = NEAR_SECONDS if why.lacks is MissingPart.FOLDER else LONGEST_SECONDS
            again = self._retry_delays.next_delay(found.task, most)
            raise RetryLater(str(why), again, TaskNeeds(found.agent, order.cwd, order.mark)) from None
        except (StoreTrouble, InvalidSnapshot):
            raise
        except UserMistake as mistake:
            raise await self._retry_elsewhere(found, order, str(mistake)) from None

    @asynccontextmanager
    async def _open_folder(self, task: str, order: FleetOrder) -> AsyncGenerator[GenCode]:
        """An open GenCode for a task: in its folder, or in a copy of it that is this task's alone."""
        wanted = FolderRequest(task, order.cwd, order.mark, order.snapshot, order.alone, order.tree)
        async with self._copies.folder_for(wanted) as copy:
            if copy is None and not self._is_sent_on(order):
                yield await self._folder(order.cwd, order.flags).gen()
                return
            folder = self._folder(str(copy.workspace.cwd) if copy else order.cwd, order.flags, task)
            try:
                gen = await folder.gen()
                if copy is not None:
                    components(gen).tasks.folders.prepare(task, copy)
                    copy.run_by(components(gen).supervisor.owner)
                    folder.enter_copy(copy)
                yield gen
            finally:
                folder.close()
                await asyncio.wait([folder.life])
                self._folders = {key: each for key, each in self._folders.items() if each is not folder}

    async def _wait_for_end(self, task: str, order: FleetOrder, job: RunningTask) -> None:
        """Look after a task until it has ended; a lease that could not be given back is remembered."""
        try:
            if sender := _sender(order):
                self._bound[task] = (job, sender)
            await job.ended()
        finally:
            self._bound.pop(task, None)
            if (lease := job.unfinished) is not None:
                self._left.append(lease)
                with suppress(StoreTrouble):
                    await self._release()

    async def _release(self) -> None:
        """Release the leases of tasks whose end could not be written, so that others can continue them."""
        while self._left:
            await self._store.release(self._left[-1])
            self._left.pop()

    async def _stop_abandoned(self) -> None:
        """Stop the tasks whose sender waited for them and is gone."""
        if not self._bound or not self.leases.settled:
            return
        gone = await self._store.deserted([sender for _, sender in self._bound.values()])
        for job, sender in list(self._bound.values()):
            if sender in gone:
                job.stop.stop(PARENT_GONE)

    async def _end_refused(self, found: DispatchedTask, why: UserMistake) -> None:
        """End a task that cannot be run, unless another worker is running it by now."""
        now = await self._store.dispatched(found.task)
        if now is None or now.order is None:
            return
        if not now.free:
            raise RetryLater("another worker is running it", self._options.lease_seconds / 3)
        spent = isinstance(why, BudgetSpent)
        cause = StopCause(EndReason.BUDGET if spent else EndReason.NOT_STARTED, str(why))
        status = Status.LIMIT_REACHED if spent else Status.FAILED
        if now.status is Status.RUNNING:
            status = Status.INTERRUPTED
        lease = await self._store.take(found.task, self.name)
        await close_leased(self._store, lease, cause, status, prompt=now.prompt)

    def _is_sent_on(self, order: FleetOrder) -> bool:
        """Whether a task was sent by one that runs here: the two know each other only as strangers do."""
        parent = order.handover.created.parent if order.handover.created else None
        opened = [folder.opened for folder in self._folders.values()]
        return bool(parent) and any(parent in gen.running for gen in opened if gen and parent)

    def _folder(self, cwd: str, flags: Mapping[str, Any], own: str = "") -> WorkerFolder:
        """The open folder for tasks, or for the `own` one of them."""
        key = msgspec.json.encode([cwd, flags, own], order="deterministic").decode()
        folder = self._folders.get(key)
        if folder is None or folder.life.done() or folder.given_up:
            folder = self._folders[key] = WorkerFolder(self._store, self._options, cwd, flags)
        return folder

    def _parked(self) -> int:
        """How many tasks wait for a person, or for agents elsewhere; others may be taken in their place."""
        return sum(folder.parked for folder in self._folders.values())

    async def _learn_agents(self) -> None:
        """The agents whose tasks are taken: those that were named, or all that are known or waited for."""
        if self._served.named:
            return
        async with GenCode.open(self._options.workspace, store=self._store) as gen:
            self._served.learn([spec.name for spec in gen.agents.spawnable()], await self._waiting())

    async def _renew(self) -> None:
        await self._release()
        for folder in list(self._folders.values()):
            if folder.opened is not None and not folder.given_up:
                await self._store.renew(components(folder.opened).supervisor.owner)
        await self._store.report(self.card)

    async def _reconcile(self) -> None:
        """Put tasks back into the queue that are missing there, and leave out agents that are not here."""
        pruned = time.monotonic()
        while True:
            await asyncio.sleep(min(RECONCILE_SECONDS, self._options.lease_seconds))
            try:
                await self._stop_abandoned()
                if time.monotonic() > pruned + PRUNE_SECONDS:
                    pruned = time.monotonic()
                    await prune(self._store)
                    await self._store.snapshots.forget()
                if ended := await self._unclaimed.look():
                    log.warning("no worker could take these in time, they have ended: %s", ", ".join(ended))
                if missing := await reconcile(self._store):
                    log.warning("put back into the queue: %s", ", ".join(missing))
                if not self._served.named and self._served.drop_missing(await self._waiting()):
                    self._serving.restart()
            except GenCodeError as trouble:
                log.warning("the queue could not be looked after: %s", trouble)

    async def _waiting(self) -> list[tuple[str, str]]:
        """The tasks that no process is running, each with its agent."""
        return [(each.task, each.agent) for each in await self._store.overdue(0)]

    def _lost(self) -> None:
        """Stop everything in time; the process ends as a whole where that takes too long."""
        if self._folders:
            log.error("leases could not be renewed in time; everything that runs here is stopped")
            end = asyncio.get_running_loop().call_later(_LAST_MOMENT * self._options.lease_seconds, self._end)
            self._give_up(STOPPED, end.cancel)
            self._store.cut()

    def _end(self) -> NoReturn:
        """The commands that are still running end with this process; that is what their guards are for."""
        log.critical("not everything could be stopped in time; the worker ends")
        self._last_word()
        os._exit(HARD_END)

    def _give_up(self, why: StopCause, then: Callable[[], None] | None = None) -> None:
        self._copies.abandon()
        folders, self._folders = list(self._folders.values()), {}
        for folder in folders:
            folder.give_up(why)
        closing = asyncio.gather(*(folder.life for folder in folders), return_exceptions=True)
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        if then is not None:
            closing.add_done_callback(lambda _: then())

    async def _settled(self) -> None:
        if pending := [*(folder.life for folder in self._folders.values()), *self._closing]:
            await asyncio.wait(pending)


def _sender(order: FleetOrder) -> str:
    """The parent that waits for a task or gets its result; empty where it was sent to outlive its parent."""
    handover = order.handover
    return (handover.created.parent or "") if handover.bound and handover.created else ""


def _bounded(found: DispatchedTask, handover: Handover, budget: Budget) -> Handover:
    handover, created = replace(handover, task=found.task, seen=found.seen), handover.created
    if created is None or budget == NO_BUDGET:
        return handover
    return replace(handover, created=replace(created, budget=tightest(created.budget, budget)))
