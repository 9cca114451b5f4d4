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
from gencode.schedule.recurrence import next_time, parse_schedule, told, users_zone, zone_of

MOST = 200
"""So many appointments there are at most, of all folders together."""
LONGEST_PROMPT = 20_000
LONGEST_LABEL = 80


class JobRequest(Struct, frozen=True):
    """What somebody wants to have done later.

    Without `task` it is something said in a conversation that `agent` leads (empty: the main agent), in the
    one with the id `session` or each time in a new one; with it, a task of `agent`. What comes of it is also
    sent to the address `to`.
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
    """Work that is planned: a plan with its folder, with what it may do, and with what became of it so far.

    `policy` is the root's as it was when this was planned. `due` is when it runs next (None: never again),
    `owner` the process that is at it, `began` the due time of that run. `revision` counts the changes.
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
        """What it is called in a line."""
        return self.label or one_line(self.prompt, LONGEST_LABEL)

    @property
    def next_told(self) -> str:
        """When it runs next, in its own zone."""
        return told(moment(self.due), zone_of(self.zone)) if self.due else "never again"


class JobStore(Protocol):
    """Where appointments are kept. Every change is guarded by the revision, so that one process wins."""

    async def add(self, appointment: ScheduledJob, most: int) -> ScheduledJob:
        """Write a new one under a free id; UserMistake when there are so many already."""
        ...

    async def jobs(self) -> list[ScheduledJob]:
        """All of them, oldest first."""
        ...

    async def due_or_running(self, now: str) -> list[ScheduledJob]:
        """Those that are due, or that some process is at."""
        ...

    async def replace(
        self, before: ScheduledJob, after: ScheduledJob | None, draft: OutgoingMessage | None = None
    ) -> bool:
        """Put `after` (None: nothing) in the place of `before` and put a message out, all or nothing.

        False when somebody else has changed it since.
        """
        ...


class JobContext(Struct, frozen=True):
    """Where appointments are made: a folder, what may be done there at this moment, and who is known."""

    cwd: str
    policy: Callable[[], Policy]
    model: str
    find: Callable[[str], object]
    """Knows agents; UnknownName offers the nearest."""
    reach: Callable[[str], None]
    """Knows channels by address, likewise."""


class JobCalendar:
    """Makes, lists and removes appointments for one folder."""

    def __init__(self, schedule: JobStore, site: JobContext) -> None:
        self._schedule = schedule
        self._site = site

    async def add(self, plan: JobRequest, by: str = "") -> ScheduledJob:
        """Plan something; UserMistake says what is wrong with it."""
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
        """The appointments of this folder, or of all of them."""
        found = await self._schedule.jobs()
        return [each for each in found if everywhere or each.cwd == self._site.cwd]

    async def find(self, name: str, *, everywhere: bool = True) -> ScheduledJob:
        """An appointment by its id or the beginning of one."""
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
        """Remove an appointment; a run that is going on goes on."""
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
