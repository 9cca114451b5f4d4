"""Scheduled jobs, and the port of the store that keeps them; `tasks/scheduler.py` runs them."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from msgspec import Struct

from gencode.channels.address import parse_address
from gencode.channels.outbox import OutgoingMessage
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.ids import clean_id, moment, stamp
from gencode.core.rules import Policy
from gencode.core.text import one_line
from gencode.schedule.recurrence import format_time, next_time, parse_schedule, users_zone, zone_of

MOST = 200
"""The most scheduled jobs, of all folders together."""
LONGEST_PROMPT = 20_000
LONGEST_LABEL = 80


class JobRequest(Struct, frozen=True):
    """A request to schedule a job.

    Without `task` it is a prompt in a conversation that `agent` leads (empty: the main agent), in the one
    with the id `session` or each time in a new one; with it, a task of `agent`. The result is also sent to
    the address `to`.
    """

    when: str
    prompt: str
    zone: str = ""
    agent: str = ""
    task: bool = False
    session: str = ""
    label: str = ""
    model: str = ""
    to: str = ""


class ScheduledJob(Struct, frozen=True, omit_defaults=True):
    """A scheduled job: the request with its folder, its permissions, and the state of its runs.

    `policy` is the root's as it was when the job was scheduled. `due` is its next run (None: never again),
    `owner` the process that runs it, `began` the due time of that run. `revision` counts the changes.
    """

    when: str
    prompt: str
    zone: str
    cwd: str
    policy: Policy
    created_at: str
    due: str | None
    id: str = ""
    agent: str = ""
    task: bool = False
    session: str = ""
    label: str = ""
    model: str = ""
    to: str = ""
    by: str = ""
    owner: str = ""
    began: str = ""
    runs: int = 0
    missed: int = 0
    last_task: str = ""
    last_status: str = ""
    revision: int = 0

    @property
    def title(self) -> str:
        """Its title in a line."""
        return self.label or one_line(self.prompt, LONGEST_LABEL)

    @property
    def next_told(self) -> str:
        """The time of its next run, in its own zone."""
        return format_time(moment(self.due), zone_of(self.zone)) if self.due else "never again"


class JobStore(Protocol):
    """The port for scheduled jobs. Every change is guarded by the revision, so that one process wins."""

    async def add(self, job: ScheduledJob, most: int) -> ScheduledJob:
        """Store a new job under a free id; UserMistake if there are too many."""
        ...

    async def jobs(self) -> list[ScheduledJob]:
        """All jobs, oldest first."""
        ...

    async def due_or_running(self, now: str) -> list[ScheduledJob]:
        """The jobs that are due, or that some process runs."""
        ...

    async def replace(
        self, before: ScheduledJob, after: ScheduledJob | None, draft: OutgoingMessage | None = None
    ) -> bool:
        """Replace `before` with `after` (None: remove it) and store a message, in one transaction.

        False if somebody else has changed it since.
        """
        ...


class JobContext(Struct, frozen=True):
    """The context of new jobs: a folder, the permissions there, and the known agents."""

    cwd: str
    policy: Callable[[], Policy]
    model: str
    find: Callable[[str], object]
    """Finds agents; UnknownName suggests the nearest."""
    reach: Callable[[str], None]
    """Checks the channel of an address, likewise."""


class JobCalendar:
    """Makes, lists and removes the jobs of one folder."""

    def __init__(self, schedule: JobStore, site: JobContext) -> None:
        self._schedule = schedule
        self._site = site

    async def add(self, plan: JobRequest, by: str = "") -> ScheduledJob:
        """Schedule a job; UserMistake says what is wrong with it."""
        self._check(plan)
        name = plan.zone.strip() or users_zone()
        zone, now = zone_of(name), datetime.now(UTC)
        schedule = parse_schedule(plan.when, now, zone)
        due = next_time(schedule, now, zone)
        if due is None:
            raise UserMistake(f"{plan.when[:80]!r} never occurs.")
        appointment = ScheduledJob(
            when=str(schedule),
            prompt=plan.prompt,
            zone=name,
            cwd=self._site.cwd,
            policy=self._site.policy(),
            created_at=stamp(now),
            due=stamp(due),
            agent=plan.agent,
            task=plan.task,
            session=plan.session,
            label=one_line(plan.label, LONGEST_LABEL),
            model=plan.model or self._site.model,
            to=plan.to,
            by=by,
        )
        return await self._schedule.add(appointment, MOST)

    async def listed(self, *, everywhere: bool = False) -> list[ScheduledJob]:
        """The jobs of this folder, or of all of them."""
        found = await self._schedule.jobs()
        return [each for each in found if everywhere or each.cwd == self._site.cwd]

    async def find(self, name: str, *, everywhere: bool = True) -> ScheduledJob:
        """A job by its id or the beginning of one."""
        beginning, known = clean_id(name), await self.listed(everywhere=everywhere)
        found = [each for each in known if beginning and each.id.startswith(beginning)]
        if len(found) > 1:
            raise UserMistake(
                f"{name!r} is the beginning of several ids: {', '.join(each.id for each in found)}."
            )
        if not found:
            raise UnknownName("scheduled job", name[:80], [each.id for each in known])
        return found[0]

    async def remove(self, name: str, *, everywhere: bool = True) -> ScheduledJob:
        """Remove a job; a running one is finished."""
        while True:
            found = await self.find(name, everywhere=everywhere)
            if await self._schedule.replace(found, None):
                return found

    def _check(self, plan: JobRequest) -> None:
        if not plan.prompt.strip():
            raise UserMistake("The prompt is empty; say what is to be done.")
        if len(plan.prompt) > LONGEST_PROMPT:
            raise UserMistake(
                f"The prompt is longer than {LONGEST_PROMPT:,} characters; name a file instead."
            )
        if plan.task and not plan.agent:
            raise UserMistake("A task needs an agent; name one.")
        if plan.task and plan.session:
            raise UserMistake("A task of an agent belongs to no conversation; leave one of the two out.")
        if plan.agent:
            self._site.find(plan.agent)
        if plan.to:
            self._site.reach(str(parse_address(plan.to)))
