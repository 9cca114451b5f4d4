"""Runs scheduled jobs: each run once, in whichever process is there, with nobody to ask.

A run is claimed in one transaction that also moves the job to its next time, so that only one of several
processes has it. Runs that were due while no process was there are not made up for: they are counted and
reported, once. A process that is killed between claiming a run and starting it loses that run, and the next
one to look reports it; a run is never started twice.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Protocol

from msgspec import Struct

from gencode.channels.address import parse_address
from gencode.channels.outbox import LONGEST, Outbox, OutgoingMessage
from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.ids import moment, stamp
from gencode.core.outcome import Outcome
from gencode.core.rules import Action, Mode, Policy, Rule, RuleSource, merge
from gencode.core.spec import TaskRequest
from gencode.core.status import Status, as_verb
from gencode.core.structs import replace
from gencode.core.text import clip
from gencode.journal.owner import new_owner, owner_state
from gencode.journal.store import Store
from gencode.schedule.recurrence import count_until, format_time, next_time, read_schedule, zone_of
from gencode.schedule.scheduled_jobs import ScheduledJob
from gencode.tasks.liveness import ownership_of
from gencode.tasks.running_task import RunningTask

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
MOST_AT_ONCE = 4
GRACE = timedelta(seconds=60)
"""How late a run may begin; after that it counts as missed."""
MOST_COUNTED = 1_000
FORGOTTEN = timedelta(days=1)
"""After how long a process of another machine counts as dead, whatever its task says."""
UNSTARTED = timedelta(minutes=10)
"""After how long one that has not begun a task counts as dead."""


class OpenFolder(Protocol):
    """An open GenCode in the folder of a job."""

    @property
    def policy(self) -> Policy:
        """The permission mode and the rules of the session."""
        ...

    def set_policy(self, policy: Policy) -> None:
        """Set the policy of the session."""
        ...

    async def start_task(self, request: TaskRequest) -> RunningTask:
        """Start one subagent."""
        ...

    async def start_turn(self, prompt: str, session: str | None = None, agent: str = "") -> RunningTask:
        """Start a turn of a conversation."""
        ...

    async def outcome(self, job: RunningTask) -> Outcome:
        """The outcome of a job, once it has ended."""
        ...


def any_folder(_job: ScheduledJob) -> bool:
    """Accepts every job."""
    return True


OpenFolderOf = Callable[[ScheduledJob], AbstractAsyncContextManager[OpenFolder]]
"""Opens the folder of a job as it is today, with nobody to ask."""


class RunResult(Struct, frozen=True):
    """The result of a run; `text` is its result or error."""

    status: str
    text: str = ""


class Scheduler:
    """Runs scheduled jobs when they are due. `tell` gets a line about every run that is missed or ends.

    Jobs that are not `mine`, because their folder is on another machine, are left to others.
    """

    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        opening: OpenFolderOf,
        tell: Callable[[str], None] = log.info,
        mine: Callable[[ScheduledJob], bool] = any_folder,
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._open = opening
        self._tell = tell
        self._mine = mine
        self._owner = new_owner()
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._drained = False

    def drain(self) -> None:
        """Start nothing more; running jobs are finished."""
        self._drained = True

    async def run(self) -> None:
        """Run due jobs and deliver messages until cancelled; then running jobs are stopped."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_delivering())
            while not self._drained:
                try:
                    for claimed in await self.look(datetime.now(UTC)):
                        group.create_task(self.fire(claimed))
                except GenCodeError as trouble:
                    log.warning("what is due could not be looked up: %s", trouble)
                await asyncio.sleep(LOOK_SECONDS)

    async def look(self, now: datetime) -> list[ScheduledJob]:
        """Claim every run that is due, and report what was missed or interrupted; the claimed ones."""
        claimed: list[ScheduledJob] = []
        for each in await self._store.schedule.due_or_running(stamp(now)):
            try:
                if each.owner:
                    await self._bury(each, now)
                elif self._mine(each) and (run := await self._claim(each, now)):
                    claimed.append(run)
            except UserMistake as mistake:  # a time zone that no longer exists, for example
                log.warning("the scheduled job %s cannot be run: %s", each.id, mistake)
        return claimed

    async def fire(self, job: ScheduledJob) -> None:
        """Run a claimed job, and write how it ended."""
        run = RunResult(Status.CANCELLED, "the process ended")
        try:
            async with self._slots:
                run = await self._ran(job)
        except (GenCodeError, OSError) as trouble:
            run = RunResult(Status.FAILED, str(trouble))
        finally:
            await asyncio.shield(self._close(job, run))

    async def _keep_delivering(self) -> None:
        while not self._drained:
            try:
                await self._outbox.deliver()
            except GenCodeError as trouble:
                log.warning("messages could not be delivered: %s", trouble)
            await asyncio.sleep(LOOK_SECONDS)

    async def _claim(self, job: ScheduledJob, now: datetime) -> ScheduledJob | None:
        """The run that is due now, if we get it; missed runs before it are reported."""
        zone, due = zone_of(job.zone), moment(job.due or stamp(now))
        schedule = read_schedule(job.when, moment(job.created_at))
        late = now - GRACE
        missed = count_until(schedule, due, late, zone, MOST_COUNTED)
        begins = due if due > late else next_time(schedule, late, zone)
        runs = begins is not None and begins <= now
        following = next_time(schedule, now, zone)
        after = replace(
            job,
            due=stamp(following) if following else None,
            missed=job.missed + missed,
            last_status="starting" if runs else "missed",
            last_task="",
            owner=self._owner if runs else "",
            began=stamp(begins) if runs and begins else "",
            runs=job.runs + runs,
        )
        text = _missed_words(job, missed, due) if missed else ""
        if not await self._store.schedule.replace(job, after, _draft(job, text)):
            return None
        if text:
            self._tell(text)
        return replace(after, revision=job.revision + 1) if runs else None

    async def _bury(self, job: ScheduledJob, now: datetime) -> None:
        """Release a run whose process died, and report it."""
        lost = owner_state(job.owner)
        if lost == "alive" or (lost == "unknown" and not await self._is_gone(job, now)):
            return
        run = f"{_named(job)}: its run of {format_time(moment(job.began), zone_of(job.zone))}"
        why = "its process died" if lost == "dead" else "its process died or could not reach the database"
        text, status = f"{run} was interrupted, because {why}; {_way(job)}", str(Status.INTERRUPTED)
        if not job.last_task:
            text, status = f"{run} was missed, because {why} before it began.", "missed"
        after = replace(job, owner="", began="", last_status=status, missed=job.missed + (status == "missed"))
        if await self._store.schedule.replace(job, after, _draft(job, text)):
            self._tell(text)

    async def _is_gone(self, job: ScheduledJob, now: datetime) -> bool:
        """Whether the process that runs a job on another machine has died, by the lease of its task."""
        since = now - moment(job.began)
        if since < GRACE or since >= FORGOTTEN:
            return since >= FORGOTTEN
        if not job.last_task:
            return since >= UNSTARTED
        held = await ownership_of(self._store, job.last_task)
        if held is not None:
            return held.over
        task = await self._store.task(job.last_task)
        return task is not None and task.end.at is not None and now - moment(task.end.at) >= GRACE

    async def _ran(self, job: ScheduledJob) -> RunResult:
        if job.session and (heard := await self._said_to_a_running_one(job)):
            return heard
        async with self._open(job) as place:
            place.set_policy(scheduled_policy(job.policy, place.policy))
            if job.task:
                request = TaskRequest(job.agent, job.prompt, job.label, background=True)
                live = await place.start_task(request)
            else:
                live = await place.start_turn(job.prompt, job.session or None, job.agent)
            await self._change(job, lambda now: replace(now, last_task=live.id, last_status="running"))
            outcome = await place.outcome(live)
        return RunResult(outcome.status, outcome.result or outcome.error or "")

    async def _said_to_a_running_one(self, job: ScheduledJob) -> RunResult | None:
        """Send the prompt as a message to a conversation that is running."""
        found = await self._store.task(job.session)
        if found is None:
            raise UserMistake(f"There is no conversation {job.session} any more.")
        if found.status.ended:
            return None
        await self._store.post(job.session, job.prompt, "system")
        return RunResult("told", f"The conversation {job.session} is running and gets it as a message.")

    async def _close(self, job: ScheduledJob, run: RunResult) -> None:
        """Write how a run ended; a job without a next time is removed if it went well."""
        went_well = run.status in (Status.COMPLETED, "told")
        text = clip(f"{_named(job)} {_ended(run.status)}.\n{run.text}".strip(), LONGEST - 200)
        try:
            await self._change(
                job,
                lambda now: (
                    None
                    if went_well and now.due is None
                    else replace(now, owner="", began="", last_status=run.status)
                ),
                _draft(job, text),
            )
        except GenCodeError as trouble:
            log.warning("how the scheduled job %s ended could not be written down: %s", job.id, trouble)
        self._tell(text)

    async def _change(
        self,
        job: ScheduledJob,
        make: Callable[[ScheduledJob], ScheduledJob | None],
        draft: OutgoingMessage | None = None,
    ) -> None:
        """Change the current version of a job that this process runs; a removed job stays removed."""
        while True:
            found = [each for each in await self._store.schedule.jobs() if each.id == job.id]
            if not found or found[0].owner != self._owner:
                if draft is not None:
                    await self._store.outbox.add_message(draft)
                return
            if await self._store.schedule.replace(found[0], make(found[0]), draft):
                return


def scheduled_policy(stored: Policy, today: Policy) -> Policy:
    """The policy of a run: what was allowed when it was scheduled, without what today's settings are against.

    An allow rule of a file applies only while it is still there; one that was given for this job stays.
    """
    now = {(rule.tool, rule.pattern) for rule in today.rules if rule.action is Action.ALLOW}
    kept = [rule for rule in stored.rules if _lasts(rule, now)]
    strict = [rule for rule in today.rules if rule.action is not Action.ALLOW]
    mode = Mode.PLAN if today.mode is Mode.PLAN else stored.mode
    mode = Mode.UNATTENDED if mode is Mode.DEFAULT else mode  # the same decisions, and the agent is told so
    return Policy(mode, merge(kept, strict), "scheduled")


def _lasts(rule: Rule, allowed_now: set[tuple[str, str]]) -> bool:
    if rule.action is not Action.ALLOW or rule.origin.source is RuleSource.FLAG:
        return True
    return (rule.tool, rule.pattern) in allowed_now


def _ended(status: str) -> str:
    return "was delivered" if status == "told" else as_verb(status)


def _named(job: ScheduledJob) -> str:
    return f"[The scheduled job {job.id} ({job.title})]"


def _missed_words(job: ScheduledJob, missed: int, first: datetime) -> str:
    since = format_time(first, zone_of(job.zone))
    if missed == 1:
        return f"{_named(job)}: its run of {since} was missed, because GenCode was not running."
    count = f"{missed:,}{' or more' if missed >= MOST_COUNTED else ''}"
    return f"{_named(job)}: {count} runs since {since} were missed, because GenCode was not running."


def _way(job: ScheduledJob) -> str:
    if job.task:
        return f"resume it with: gen task resume {job.last_task} PROMPT"
    return f"resume it with: gen -p PROMPT --session {job.last_task}"


def _draft(job: ScheduledJob, text: str) -> OutgoingMessage | None:
    return OutgoingMessage(parse_address(job.to), text, job.by) if job.to and text else None
