"""The in-memory store: the same guarantees as on disk, for as long as the process lives."""

import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from gencode.core.errors import StoreTrouble
from gencode.core.events import DurableFact, Event, TaskCreated, plain, unicode_text
from gencode.core.ids import new_id, stamp
from gencode.core.task import Task
from gencode.journal.change_notifier import ChangeNotifier
from gencode.journal.owner import LEASE_SECONDS
from gencode.journal.store import Lease, Ownership, PostedMessage, TaskQuery, TaskSignal
from gencode.stores.journal_rules import (
    DRAWS,
    MOST_WAITING,
    Growth,
    extended_journal,
    id_taken,
    imported_journal,
    lease_held,
    lease_lost,
    mailbox_full,
    message_text,
    new_journal,
    task_ids,
    task_missing,
    tasks_running,
)
from gencode.stores.memory_event_log import MemoryEventLog
from gencode.stores.memory_ledger import MemoryLedger

if TYPE_CHECKING:
    from gencode.stores.memory_questions import MemoryQuestions
    from gencode.stores.memory_schedule import MemoryOutbox, MemorySchedule


class _Record:
    """One task: its facts, their fold, and who may write to it until when."""

    __slots__ = ("epoch", "events", "owner", "session", "signal", "state", "until")

    def __init__(self, growth: Growth, epoch: int, owner: str | None, until: float) -> None:
        self.events = growth.events
        self.state = growth.state
        self.epoch = epoch
        self.owner = owner
        self.until = until
        self.signal: TaskSignal | None = None
        self.session = ""
        """The account of the session that pays for it."""


class TaskNow(Struct, frozen=True):
    """What questions depend on of a task: its place in the tree, its folder, and the lease."""

    parent: str | None
    cwd: str
    owner: str
    epoch: int
    leased: bool


class MemoryStore:
    """A `Store` in dictionaries."""

    def __init__(self, *, lease_seconds: float = LEASE_SECONDS, draw: Callable[[], str] = new_id) -> None:
        self._records: dict[str, _Record] = {}
        self._mail: dict[str, list[PostedMessage]] = {}
        self._lease_seconds = lease_seconds
        self._draw = draw
        self._outbox: MemoryOutbox | None = None
        self._schedule: MemorySchedule | None = None
        self._questions: MemoryQuestions | None = None
        self.changes = ChangeNotifier()
        """Wakes whoever waits for something new."""
        self.global_log = MemoryEventLog(lambda: [record.state for record in self._records.values()])
        """The facts of all tasks in one order."""
        self.ledger = MemoryLedger(
            lambda task: self._records[task].state if task in self._records else None,
            lambda: [record.state for record in self._records.values()],
            self._above,
            self.changes.note,
        )
        """What tasks may spend, and have spent."""

    @property
    def outbox(self) -> "MemoryOutbox":
        """Messages that are not delivered yet."""
        from gencode.stores.memory_schedule import MemoryOutbox

        self._outbox = self._outbox or MemoryOutbox(self.changes)
        return self._outbox

    @property
    def schedule(self) -> "MemorySchedule":
        """What is planned for later; nothing of it is loaded before somebody asks."""
        from gencode.stores.memory_schedule import MemorySchedule

        self._schedule = self._schedule or MemorySchedule(self.outbox, self._draw, self.changes)
        return self._schedule

    @property
    def questions(self) -> "MemoryQuestions":
        """Where questions wait until a person answers them; nothing of it is loaded before somebody asks."""
        from gencode.stores.memory_questions import MemoryQuestions

        self._questions = self._questions or MemoryQuestions(self._task_now, self.changes)
        return self._questions

    async def close(self) -> None:
        """Wake whoever waits for something new; the facts stay readable while the store exists."""
        self.changes.close()

    async def create(
        self,
        fact: TaskCreated,
        owner: str,
        then: Sequence[DurableFact] = (),
        named: str = "",
        session: str = "",
    ) -> Lease:
        """Write the first facts of a new task under a free id, and lease it to `owner`."""
        for task in task_ids(self._draw, named):
            if task not in self._records:
                growth = new_journal(task, (fact, *then))
                record = _Record(growth, 1, owner, self._until())
                record.session = session
                above = self._path_of(record)
                self.ledger.created(growth.state, above)
                self._records[task] = record
                self.global_log.write(growth.events)
                self.changes.note()
                return Lease(owner, 1, growth.state, (task, *above))
        raise StoreTrouble(f"No free task id was found in {DRAWS} attempts.")

    async def take(
        self, task: str, owner: str, instead_of: str | None = None, session: str | None = None
    ) -> Lease:
        """Lease an existing task with a new epoch; UserMistake while somebody else's lease runs."""
        record = self._records.get(task)
        if record is None:
            raise task_missing(task)
        if record.owner not in (None, owner, instead_of) and record.until > time.monotonic():
            raise lease_held(task)
        record.epoch += 1
        record.owner = owner
        record.until = self._until()
        record.signal = None
        self.changes.note()
        top = self._top(record)
        if session is not None and session != top.session:
            top.session = session
            self.ledger.count([session])
        path = (task, *self._above(task))
        self.ledger.learn(path)
        return Lease(owner, record.epoch, record.state, path)

    async def append(self, lease: Lease, facts: Sequence[DurableFact], *, last: bool = False) -> list[Event]:
        """Write all facts at once, or raise Fenced and write none; `last` also gives the lease back."""
        if not facts:
            return []
        growth = extended_journal(lease.state, facts)
        record = self._records[lease.task]
        if (record.epoch, record.owner, record.state.seq) != (lease.epoch, lease.owner, lease.state.seq):
            raise lease_lost(lease.task)
        before = record.state
        self.ledger.check_appended(before, growth.state, lease.path)
        record.events.extend(growth.events)
        self.global_log.write(growth.events)
        record.state = lease.state = growth.state
        lease.unlimited = not self.ledger.appended(before, growth.state, lease.path)
        if last:
            record.owner = None
        self.changes.note()
        return growth.events

    async def renew(self, owner: str) -> set[str]:
        """Extend every lease of `owner`; the tasks that it has."""
        mine = {task for task, record in self._records.items() if record.owner == owner}
        for task in mine:
            self._records[task].until = self._until()
        return mine

    async def release(self, lease: Lease) -> None:
        """Give the lease back at once, whatever the task's status."""
        record = self._records[lease.task]
        if (record.epoch, record.owner) == (lease.epoch, lease.owner):
            record.owner = None
            self.changes.note()

    async def owned(self) -> list[Ownership]:
        """Every task that is leased or has not ended, its owner (empty: nobody), and whether that is over."""
        now = time.monotonic()
        return [
            Ownership(task, record.owner or "", *self._over(record, now))
            for task, record in self._records.items()
            if record.owner is not None or not record.state.status.ended
        ]

    async def send_signal(self, task: str, signal: TaskSignal) -> bool:
        """Ask something of whoever holds the lease of a task; False when nobody does."""
        record = self._records.get(task)
        if record is None or record.owner is None:
            return False
        kept = record.signal is TaskSignal.STOP or (
            record.signal is TaskSignal.REPORT and signal is not TaskSignal.STOP
        )
        kept = kept or (record.signal is not None and signal is TaskSignal.BUDGET)
        record.signal = record.signal if kept else signal
        self.changes.note()
        return True

    async def signals(self, owner: str) -> list[tuple[str, TaskSignal]]:
        """What somebody asked of the tasks of `owner`; an interrupt and a budget are told once."""
        pairs = [(task, record.signal) for task, record in self._records.items() if record.owner == owner]
        heard = [(task, signal) for task, signal in pairs if signal is not None]
        for task, signal in heard:
            if signal.once:
                self._records[task].signal = None
        return heard

    async def post(self, task: str, text: str, sender: str) -> int:
        """Leave a letter for a task, whoever runs it; its number. UserMistake when it cannot be taken."""
        clean = message_text(text)
        if task not in self._records:
            raise task_missing(task)
        waiting = await self.unread_messages(task)
        if len(waiting) >= MOST_WAITING:
            raise mailbox_full(task)
        number = (waiting[-1].number if waiting else self._records[task].state.delivered.mailed) + 1
        self._mail[task] = [*waiting, PostedMessage(task, number, clean, unicode_text(sender), stamp())]
        self.changes.note()
        return number

    async def posted_messages(self, owner: str) -> list[PostedMessage]:
        """The letters to the tasks of `owner` that these have not taken yet, in order."""
        mine = sorted(task for task in self._mail if self._records[task].owner == owner)
        return [letter for task in mine for letter in await self.unread_messages(task)]

    async def unread_messages(self, task: str) -> list[PostedMessage]:
        """The letters that a task has not taken yet, in order."""
        letters = self._mail.get(task, ())
        return [letter for letter in letters if letter.number > self._records[task].state.delivered.mailed]

    async def adopt(self, events: Sequence[Event]) -> None:
        """Write a whole foreign journal of one task as it is; UserMistake if its id is taken."""
        growth = imported_journal(events)
        if growth.state.id in self._records:
            raise id_taken(growth.state.id)
        self._records[growth.state.id] = _Record(growth, 0, None, 0.0)
        self.global_log.write(growth.events)
        self.ledger.count(self._above(growth.state.id))
        self.changes.note()

    async def delete(self, task: str) -> list[str]:
        """Delete a task with everything below it, all or nothing; the ids that are gone."""
        if task not in self._records:
            raise task_missing(task)
        below = [task]
        for above in below:
            children = (name for name, each in self._records.items() if each.state.parent == above)
            below += [name for name in children if name not in below]
        gone = sorted(below, key=lambda name: self._records[name].state.created_at)
        if owned := [name for name in gone if self._records[name].owner is not None]:
            raise tasks_running(owned)
        for name in gone:
            del self._records[name]
            self._mail.pop(name, None)
        self.global_log.forget(gone)
        self.ledger.deleted(gone)
        self.changes.note()
        return gone

    async def task(self, task: str) -> Task | None:
        """The fold of a task's facts."""
        record = self._records.get(task)
        return record.state if record else None

    async def tasks(self, query: TaskQuery) -> list[Task]:
        """The folds of the newest tasks that match, oldest first; `ended_after` leaves unfinished ones in."""
        records = [each for each in self._records.values() if not query.unheard or self._is_unheard(each)]
        states = [each.state for each in records if _matches(each.state, query)]
        states.sort(key=lambda state: state.created_at)
        if query.before is not None:
            every = sorted((each.state for each in self._records.values()), key=lambda each: each.created_at)
            older = {each.id for each in takewhile(lambda each: each.id != query.before, every)}
            states = [each for each in states if each.id in older and query.before in self._records]
        return states if query.limit is None else states[max(len(states) - max(query.limit, 0), 0) :]

    async def ids(self, beginning: str) -> list[str]:
        """Every task id that starts so (at most 20)."""
        return sorted(task for task in self._records if task.startswith(beginning))[:20]

    async def events(self, task: str, after: int = 0) -> list[Event]:
        """The facts of a task with a number above `after`, in order."""
        record = self._records.get(task)
        return record.events[max(after, 0) :] if record else []

    async def lines(self, task: str) -> list[dict[str, Any]]:
        """All facts of a task as objects for an export."""
        return [plain(event) for event in await self.events(task)]

    def _above(self, task: str) -> tuple[str, ...]:
        record = self._records.get(task)
        return self._path_of(record) if record is not None else ()

    def _path_of(self, record: _Record) -> tuple[str, ...]:
        """The ids above a task, nearest first, and the account of its session."""
        above = tuple(each.state.id for each in self._upwards(record))
        session = self._top(record).session
        return (*above[1:], session) if session else above[1:]

    def _top(self, record: _Record) -> _Record:
        return self._upwards(record)[-1]

    def _upwards(self, record: _Record) -> list[_Record]:
        """A task and those above it; what was imported may go round in circles."""
        found = {record.state.id: record}
        while (above := self._records.get(record.state.parent or "")) and above.state.id not in found:
            record = found[above.state.id] = above
        return [*found.values()]

    def _is_unheard(self, record: _Record) -> bool:
        letters = self._mail.get(record.state.id, ())
        return record.owner is None and any(each.number > record.state.delivered.mailed for each in letters)

    def _task_now(self, task: str) -> TaskNow | None:
        """Whose a task is at this moment."""
        record = self._records.get(task)
        if record is None:
            return None
        leased = record.owner is not None and record.until > time.monotonic()
        return TaskNow(record.state.parent, record.state.cwd, record.owner or "", record.epoch, leased)

    def _over(self, record: _Record, now: float) -> tuple[bool, float]:
        """Whether nobody has a task any more, and for how long nothing was heard of who should have it."""
        if record.owner is None or record.until > now:
            return record.owner is None, 0.0
        return True, now - record.until + self._lease_seconds

    def _until(self) -> float:
        return time.monotonic() + self._lease_seconds


def _matches(state: Task, query: TaskQuery) -> bool:
    return (
        (query.parent is None or state.parent == query.parent)
        and (not query.parents or state.parent in query.parents)
        and (query.cwd is None or state.cwd == unicode_text(query.cwd))
        and (not query.statuses or state.status in query.statuses)
        and (query.ended_after is None or state.end.at is None or state.end.at > query.ended_after)
        and (query.conversations is None or state.conversation == query.conversations)
        and not (query.roots and state.parent is not None)
        and (query.agent is None or state.agent.lower() == query.agent.lower())
    )
