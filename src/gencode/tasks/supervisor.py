"""Supervises running tasks: the only place that starts and ends runs, and writes status and last words."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator

from gencode.agent.final_answer import BEFORE_THAT, last_fitting_answer, parse_answer
from gencode.agent.loop import report_in_last_turn, run
from gencode.agent.plugin_calls import plugin_failure
from gencode.agent.run_setup import LoopResult
from gencode.agent.stop import Stop
from gencode.agent.tool_calls import interrupted
from gencode.agent.work_queue import SlotPool
from gencode.budgets.ledger import BudgetSpent
from gencode.core.errors import GenCodeError, ProviderError, Stopped
from gencode.core.events import (
    BudgetSet,
    DurableFact,
    MessageAdded,
    QueueMoved,
    TaskBackgrounded,
    TaskEnded,
    TaskStarted,
)
from gencode.core.messages import FileChange
from gencode.core.outcome import title_of
from gencode.core.status import CANCELLED, EndReason, Status, StopCause, stop_cause
from gencode.core.status import LOST as UNWRITTEN
from gencode.core.structs import replace
from gencode.core.text import one_line
from gencode.journal.owner import new_owner
from gencode.journal.store import Lease, Store, TaskSignal
from gencode.tasks.crash_recovery import close_if_orphan
from gencode.tasks.deadline import DeadlineAlarm
from gencode.tasks.delivery import Delivery
from gencode.tasks.leave_worktree import leaving
from gencode.tasks.liveness import LeaseRenewal, LivenessTimeouts
from gencode.tasks.queries import current_budget
from gencode.tasks.result_warnings import warnings_of
from gencode.tasks.running_task import GRACE_SECONDS, LocalTask, RestsOn, RunningTask

log = logging.getLogger(__name__)

MOST_AGENTS = 16
LIVENESS_SECONDS = 1.0
"""The longest interval between looks for signs of life and queue positions."""
REPORT_SECONDS = 60.0
"""How long a stopped agent may take for its last report."""

ELSEWHERE = stop_cause("another process stopped it")
INTERRUPTED = StopCause(EndReason.INTERRUPTED, "the user interrupted it")
LOST = StopCause(EndReason.LEASE_LOST, "another process has it now")
CLOSING = StopCause(EndReason.CLOSING, "the program is closing")
REPORT = (
    "[Your task was stopped: {why}. No tool can be called any more. Report now what you have found and done, "
    "and what is still open.]"
)
NO_REPORT = "it was stopped and could not report what it had: {why}"


class Supervisor:
    """Runs tasks side by side in one task group; no task ever raises into its siblings."""

    def __init__(
        self, journal: Store, slots: SlotPool | None = None, timing: LivenessTimeouts | None = None
    ) -> None:
        self.owner = new_owner()
        self.slots = slots or SlotPool(MOST_AGENTS)
        self.timing = timing or LivenessTimeouts()
        self._renewal = LeaseRenewal(self._renew, self.timing.lease)
        self._places: dict[str, int] = {}
        self._missing: set[LocalTask] = set()
        self.stop = Stop()
        self._journal = journal
        self._jobs: dict[str, RunningTask] = {}
        self._local: dict[str, LocalTask] = {}
        self._group = asyncio.TaskGroup()
        self._chores: list[asyncio.Task[None]] = []
        """The periodic jobs while any task runs here."""
        self._delivery = Delivery(journal, self)
        self._errands: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Supervisor":
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.stop(CLOSING)
        await self.settle()
        if self._errands:
            await asyncio.wait(self._errands, timeout=GRACE_SECONDS)
        for chore in (*self._chores, *self._errands):
            chore.cancel()
        await self._group.__aexit__(None, None, None)

    def __iter__(self) -> Iterator[RunningTask]:
        return iter(tuple(self._jobs.values()))

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self, job: LocalTask) -> LocalTask:
        """Start a run; it ends by itself, by its limits, or by a stop of its branch."""
        self._local[job.id] = job
        self.watch(job, lambda: self._lived(job))
        return job

    def watch(self, live: RunningTask, life: Callable[[], Awaitable[None]]) -> None:
        """Supervise a task as long as its `life` takes, here or in another process."""
        self._jobs[live.id] = live
        log.info("task %s: %s started for %r", live.id, live.task.agent, one_line(title_of(live.task), 80))
        live.run_in(self._group.create_task(self._work(live, life)))
        if not self._chores:
            chores = (self._renewal.run(), self._heed(), self._look(), self._delivery.run())
            self._chores = [self._group.create_task(each) for each in chores]

    def run_aside(self, errand: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run something whether or not anybody waits for it; closing cancels it after the grace time."""
        begun = self._group.create_task(errand)
        if self.stop.stopped:
            asyncio.get_running_loop().call_later(GRACE_SECONDS, begun.cancel)
        self._errands.add(begun)
        begun.add_done_callback(self._errands.discard)
        return begun

    def find(self, task: str) -> RunningTask | None:
        """The running task with this id, if this process runs or follows it."""
        return self._jobs.get(task)

    def local(self, task: str) -> LocalTask | None:
        """The running task with this id, if it runs in this process."""
        return self._local.get(task)

    def local_tasks(self) -> list[LocalTask]:
        """The tasks that run in this process."""
        return list(self._local.values())

    def elsewhere(self, task: str) -> bool:
        """Whether another process runs a task that this one follows."""
        live = self.find(task)
        return live is not None and live.elsewhere

    async def settle(self) -> None:
        """Wait for stopped tasks to end; after the grace time they are cancelled."""
        working = [job.work for job in self if job.work is not None]
        if not working:
            return
        _, late = await asyncio.wait(working, timeout=GRACE_SECONDS)
        for work in late:
            work.cancel()
        if late:
            await asyncio.wait(late, timeout=GRACE_SECONDS)

    async def _work(self, live: RunningTask, life: Callable[[], Awaitable[None]]) -> None:
        try:
            await life()
        except GenCodeError as trouble:
            log.warning("task %s could not be written down: %s", live.id, trouble)
            live.fail(trouble)
            if live.unfinished is not None:
                self.run_aside(self._put_away(live.unfinished))
        finally:
            end = live.task.end
            log.info("task %s: %s %s %s", live.id, live.task.agent, live.task.status, end.error or "")
            live.fall()
            self._jobs.pop(live.id, None)
            self._local.pop(live.id, None)

    async def _put_away(self, lease: Lease) -> None:
        """End a task whose end could not be written, as soon as that is possible, unless another process has
        it.

        As long as this process exists, others would consider the task as running, and wait for what it holds.
        """
        async for _ in self._journal.changes.looks(LIVENESS_SECONDS):
            try:
                await self._journal.release(lease)
                await close_if_orphan(self._journal, lease.task, self.owner, why=UNWRITTEN)
                return
            except GenCodeError as trouble:
                log.info("task %s cannot be put away yet: %s", lease.task, trouble)

    async def _lived(self, job: LocalTask) -> None:
        ending = await self._ran(job)
        if ending.status is Status.FAILED and job.reports and job.turns.stopped:
            ending = _without_report(_stopped(job, job.turns.cause or CANCELLED), ending.error or "")
        ending = await _with_answers(job, ending)
        async with leaving(self._journal, self, job, ending) as ending:
            await self._close(job, ending)

    async def _wait_for_turn(self, job: LocalTask) -> None:
        """Wait for a slot in the work queue, and write that the task begins."""
        if job.first:
            if job.setup.slot is not None:
                with job.turns.interruptible(), job.record.parked():
                    await job.setup.slot.take()
            handed = job.setup.slot.handed if job.setup.slot is not None else ""
            await job.record.commit(*(_when_handed(each, handed) for each in job.first))
            job.begun()

    async def _ran(self, job: LocalTask) -> LoopResult:
        if job.ready is not None:
            return job.ready
        try:
            await self._wait_for_turn(job)
            job.deadline.begin(job.task, self.find)
            with DeadlineAlarm(job):
                try:
                    return await run(job.setup, job.transcript, job.record, job.turns)
                except Stopped as cut:
                    return await self._reported(job, cut.cause)
        except Stopped as cut:
            return _stopped(job, cut.cause)
        except BudgetSpent as spent:
            return LoopResult(Status.LIMIT_REACHED, EndReason.BUDGET, error=str(spent))
        except ProviderError as error:
            return LoopResult(Status.FAILED, EndReason.PROVIDER_ERROR, error=str(error))
        except asyncio.CancelledError:
            return _stopped(job, job.stop.cause or CANCELLED)
        except GenCodeError:
            raise
        except Exception as bug:
            if words := plugin_failure(bug):  # code of the embedding program failed, with its own message
                log.info("task %s failed: %s", job.id, words, exc_info=bug)
                return LoopResult(Status.FAILED, EndReason.EXTENSION_ERROR, error=words)
            log.exception("task %s failed by a bug", job.id)
            fault = f"a bug in GenCode: {type(bug).__name__}; the log has the details"
            return LoopResult(Status.FAILED, EndReason.BUG, error=fault)

    async def _reported(self, job: LocalTask, why: StopCause) -> LoopResult:
        """The result of an agent whose turns were stopped: with a last report, if one was asked for."""
        ending = _stopped(job, why)
        if job.reports and not job.first and not job.stop.stopped:
            note = REPORT.format(why=why)
            try:
                async with asyncio.timeout(REPORT_SECONDS):
                    text = await report_in_last_turn(job.setup, job.transcript, job.record, job.stop, note)
                schema = job.setup.schema
                output = None if schema is None else (await parse_answer(text, schema))[0]
                return replace(ending, text=text, output=output)
            except Stopped:
                return ending
            except (ProviderError, BudgetSpent, TimeoutError) as trouble:
                return _without_report(ending, str(trouble) or f"it took longer than {REPORT_SECONDS:.0f} s")
        return ending

    async def _close(self, job: LocalTask, ending: LoopResult) -> None:
        """Write results for interrupted calls and the end, in one transaction."""
        facts: list[DurableFact] = []
        if job.record.open_calls:
            why = ending.error or "the agent ended before it was answered"
            record = job.record
            answers = interrupted(record.open_calls, why, record.answers, record.remarks)
            facts.append(MessageAdded(answers))
        task = job.record.task
        said = bool(ending.text.strip())
        report, changes = (ending.text, ()) if said else (task.report.text, task.report.changes)
        changes = ending.changes or changes
        warnings = ending.warnings if job.ready else warnings_of(job.setup, job.transcript, task, ending)
        trouble = (job.record.trouble,) if job.record.trouble else ()
        warnings, error = (*warnings, *trouble), ending.error
        ended = TaskEnded(ending.status, report, error, warnings, ending.output, reason=ending.reason)
        ended = replace(ended, changes=changes)
        if job.rests_on and ending.status is Status.COMPLETED:
            ended = replace(ended, inputs=await _rests_on(job.rests_on))
        facts.append(ended)
        written = False
        try:
            await job.record.commit(*facts, last=True)
            written = True
        finally:
            if not written:
                await job.record.release()

    async def _heed(self) -> None:
        """Obey signals of other processes, and pass their messages on."""
        async for _ in self._journal.changes.looks():
            try:
                for posted in await self._journal.posted_messages(self.owner) if self._jobs else ():
                    if (job := self.local(posted.task)) is not None:
                        job.inbox.put(posted)
                for task, signal in await self._journal.signals(self.owner) if self._jobs else ():
                    live = self.find(task)
                    if (job := self.local(task)) is not None:
                        await self._take_budget(job)
                        await self._grant(job, signal)
                    elif (
                        live is not None
                        and signal in (TaskSignal.STOP, TaskSignal.REPORT)
                        and not live.stop.stopped
                    ):
                        live.request_stop()
                        self._group.create_task(live.halt(ELSEWHERE))
            except GenCodeError as trouble:
                log.warning("signals of other processes could not be handled: %s", trouble)

    async def _look(self) -> None:
        """Time out every silent task, and publish queue positions."""
        while True:
            await asyncio.sleep(min(LIVENESS_SECONDS, self.timing.stalled / 4))
            self._tell_places()
            for live in self:
                try:
                    known = None if live.queued else live.liveness
                    why = await known.look() if known is not None else None
                    if why is not None and live.overdue is None:
                        live.expire(why)
                        self._group.create_task(live.time_out(why))
                except GenCodeError as trouble:
                    log.warning("the silence of task %s could not be noted: %s", live.id, trouble)

    def _tell_places(self) -> None:
        """Publish the queue positions that have changed."""
        waiting = [task for task in self.slots.waiting() if task in self._jobs and self._jobs[task].queued]
        places = {task: place for place, task in enumerate(waiting, start=1)}
        for task, place in places.items():
            if place != self._places.get(task):
                self._jobs[task].tell(QueueMoved(place))
        self._places = places

    async def _grant(self, job: LocalTask, signal: TaskSignal) -> None:
        match signal:
            case TaskSignal.STOP if not job.stop.stopped:
                job.request_stop()
                self._group.create_task(job.halt(ELSEWHERE))
            case TaskSignal.REPORT if not job.turns.stopped:
                job.request_stop()
                job.report(ELSEWHERE)
            case TaskSignal.INTERRUPT if not job.turns.stopped:
                job.interrupt(INTERRUPTED)
            case TaskSignal.BACKGROUND if job.sent_back is not None and not job.sent_back.done():
                await self.move_to_background(job)
            case _:
                pass

    async def _take_budget(self, job: LocalTask) -> None:
        """Apply the budget that another process set to a task; the ledger limits its calls already."""
        budget = await current_budget(self._journal, job.task)
        if budget != job.task.terms.budget:
            job.change_seconds(budget, self.find)
            await job.record.commit(BudgetSet(budget))

    async def move_to_background(self, job: LocalTask, *, attended: bool = False) -> None:
        """Move a task to the background: its parent is released.

        Its questions still reach a person if it is `attended`: nobody wanted to be rid of them.
        """
        await job.record.commit(TaskBackgrounded())
        if not attended:
            job.setup.gate.approvals.move_to_background()
        job.move_to_background()

    async def _renew(self) -> None:
        """Renew the leases of all running tasks.

        A task that another process has by now (this one hung) is stopped: it can write nothing more, and
        nobody should answer its questions. A task that has just ended has no lease either, but only once.
        """
        jobs = set(self.local_tasks())
        held = await self._journal.renew(self.owner)
        lost = {job for job in jobs if job.id not in held}
        for job in self._missing & lost:
            if not job.stop.stopped:
                self._group.create_task(job.halt(LOST))
        self._missing = lost


async def _rests_on(find_out: RestsOn) -> tuple[FileChange, ...] | None:
    """The inputs of a result, if they can be found; a failure to find them loses no result."""
    try:
        return await find_out()
    except (GenCodeError, asyncio.CancelledError) as trouble:
        log.info("what a result rests on could not be found out: %r", trouble)
        return None


def _when_handed(fact: DurableFact, handed: str) -> DurableFact:
    """A start with the time at which it left the queue, since it is written later."""
    return replace(fact, handed=handed) if isinstance(fact, TaskStarted) else fact


async def _with_answers(job: LocalTask, ending: LoopResult) -> LoopResult:
    """A result with the replies from before the last message; with a schema, the last one that matches."""
    said = bool(ending.text.strip())
    if job.setup.schema is None:
        return replace(ending, text=job.task.run.answers.joined_with(ending.text)) if said else ending
    if ending.status is Status.COMPLETED or ending.output is not None or not job.task.run.answers.before:
        return ending
    try:
        found = await last_fitting_answer(job.task.run.answers, job.setup.schema)
    except asyncio.CancelledError:  # the end is written in any case
        return ending
    if found is None:
        return ending
    since, output = found
    text = since.joined_with(ending.text) if said else ""
    return replace(ending, text=text, output=output, warnings=(*ending.warnings, BEFORE_THAT))


def _without_report(ending: LoopResult, trouble: str) -> LoopResult:
    """The result of a stopped agent that could not report any more."""
    return replace(ending, warnings=(*ending.warnings, NO_REPORT.format(why=trouble.rstrip("."))))


def _stopped(job: LocalTask, why: StopCause) -> LoopResult:
    """The result of an agent that was stopped, by somebody or by its deadline."""
    return LoopResult(Status.TIMED_OUT if job.overdue else Status.CANCELLED, why.reason, error=str(why))
