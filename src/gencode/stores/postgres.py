"""The Postgres store: a journal that many machines may share.

The same promises as the SQLite file: every append is guarded by lease, epoch and number. Only the clock of
the database decides about leases. LISTEN and NOTIFY wake an owner up sooner and nothing rests on them: who
heard nothing looks every two seconds.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from gencode.core.errors import StoreTrouble
from gencode.core.events import DurableFact, Event, TaskCreated, unicode_text
from gencode.core.ids import new_id, stamp
from gencode.core.task import Task
from gencode.journal.owner import LEASE_SECONDS, QUEUE
from gencode.journal.store import Lease, Ownership, PostedMessage, TaskQuery, TaskSignal
from gencode.stores.journal_rules import (
    DRAWS,
    MOST_WAITING,
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
)
from gencode.stores.ledger_tables import SpendingPath
from gencode.stores.pg_append import AppendBatcher
from gencode.stores.pg_errors import TROUBLES
from gencode.stores.pg_ledger import PostgresLedger, completed, route_from
from gencode.stores.pg_pool import (
    PATIENCE,
    WAKE,
    Connection,
    Pool,
    PostgresChanges,
    PostgresDatabase,
    storable,
)
from gencode.stores.pg_schema import check_link
from gencode.stores.pg_task_rows import NewTaskRow, delete
from gencode.stores.sql_dialect import SideTables
from gencode.stores.task_fold import FOLD, StoredFact, events_of, folded, lines_of, snapshot_of

if TYPE_CHECKING:
    from gencode.stores.pg_event_log import PostgresEventLog

LOOK_SECONDS = 2.0
"""Between two looks without a notification."""

_TAKE = completed("""
WITH taken AS (
    UPDATE gen_task SET epoch = epoch + 1, owner = $2,
                        signal = CASE WHEN dispatch IS NULL THEN 0 ELSE signal END,
                        lease_until = clock_timestamp() + make_interval(secs => $4)
    WHERE id = $1 AND (lease_until IS NULL OR owner = $2 OR owner = $3 OR lease_until <= clock_timestamp())
    RETURNING id, epoch, last_seq
)
SELECT t.epoch, t.last_seq, s.body, {ROUTE}
FROM taken t LEFT JOIN gen_snapshot s ON s.task = t.id AND s.fold = $5
""")
# An append that is in flight renews the lease itself, so locked rows are skipped.
_RENEW = """
WITH renewed AS (
    UPDATE gen_task SET lease_until = clock_timestamp() + make_interval(secs => $2)
    WHERE id IN (SELECT id FROM gen_task WHERE owner = $1 FOR UPDATE SKIP LOCKED)
)
SELECT id FROM gen_task WHERE owner = $1
"""
_RELEASE = """
UPDATE gen_task SET owner = NULL, lease_until = NULL WHERE id = $1 AND epoch = $2 AND owner = $3
"""
_OWNED = """
SELECT id, CASE WHEN dispatch IS NULL THEN coalesce(owner, '') ELSE $1 END,
       dispatch IS NULL AND (lease_until IS NULL OR lease_until <= clock_timestamp()),
       CASE WHEN dispatch IS NULL AND lease_until <= clock_timestamp()
            THEN extract(epoch FROM clock_timestamp() - lease_until)::float8 + $2::float8 ELSE 0 END
FROM gen_task WHERE owner IS NOT NULL OR status IN ('pending', 'running')
"""
# The numbers are those of `TaskSignal`: only a stop (1) replaces a report (3), nothing a stop, a budget (5)
# nothing.
_ASK = """
WITH asked AS (
    UPDATE gen_task SET signal = CASE
        WHEN signal = 1 OR (signal = 3 AND $2 <> 1) OR (signal <> 0 AND $2 = 5) THEN signal ELSE $2 END
    WHERE id = $1 AND owner IS NOT NULL RETURNING owner
)
SELECT owner, pg_notify($3, owner) FROM asked
"""
_ASKED = "SELECT id, signal FROM gen_task WHERE owner = $1 AND signal BETWEEN 1 AND 5"
_HEARD = """
WITH heard AS (SELECT id, signal FROM gen_task WHERE owner = $1 AND signal IN (4, 5) ORDER BY id FOR UPDATE)
UPDATE gen_task t SET signal = 0 FROM heard h WHERE t.id = h.id RETURNING h.id, h.signal
"""
# Above what was taken too: an imported task has taken messages that were never posted here.
_NUMBER = """
UPDATE gen_task SET posted = greatest(posted, received) + 1 WHERE id = $1 AND posted - received < $2
RETURNING posted, owner
"""
_POST = "INSERT INTO gen_message (task, number, text, sender, at) VALUES ($1, $2, $3, $4, $5)"
_MESSAGES = """
SELECT m.task, m.number, m.text, m.sender, m.at FROM gen_task t JOIN gen_message m ON m.task = t.id
WHERE t.owner = $1 AND t.posted > t.received AND m.number > t.received ORDER BY 1, 2
"""
_WAITING = """
SELECT m.task, m.number, m.text, m.sender, m.at FROM gen_task t JOIN gen_message m ON m.task = t.id
WHERE t.id = $1 AND m.number > t.received ORDER BY 2
"""
_ONE = """
SELECT t.id, t.last_seq, s.body FROM gen_task t LEFT JOIN gen_snapshot s ON s.task = t.id AND s.fold = $2
WHERE t.id = $1
"""
# What was woken and waits for a worker is unfinished, though its row has its earlier end; who asks for ends
# by their status does not mean it.
_TASKS = """
SELECT t.id, t.last_seq, s.body FROM gen_task t LEFT JOIN gen_snapshot s ON s.task = t.id AND s.fold = $1
WHERE ($2::text IS NULL OR t.parent = $2) AND ($3::text IS NULL OR t.cwd = $3)
  AND ($4::text[] IS NULL OR t.status = ANY($4))
  AND ($5::text IS NULL OR t.ended_at IS NULL OR t.ended_at > $5
       OR ($4::text[] IS NULL AND t.dispatch IS NOT NULL))
  AND ($6::boolean IS NULL OR t.conversation = $6)
  AND (NOT $8::boolean OR t.parent IS NULL)
  AND ($9::text IS NULL OR lower(t.agent) = lower($9))
  AND ($10::text IS NULL
       OR (t.created_at, t.number) < (SELECT b.created_at, b.number FROM gen_task b WHERE b.id = $10))
  AND ($12::text[] IS NULL OR t.parent = ANY($12))
  AND (NOT $11::boolean OR (t.posted > t.received AND t.owner IS NULL AND t.dispatch IS NULL))
ORDER BY t.created_at DESC, t.number DESC LIMIT $7
"""
_IDS = "SELECT id FROM gen_task WHERE id >= $1 AND id < $1 || 'g' ORDER BY id LIMIT 20"
_LAST_SEQ = "SELECT last_seq FROM gen_task WHERE id = $1"
_EVENTS = "SELECT seq, at, body FROM gen_journal WHERE task = $1 AND seq > $2 AND seq <= $3 ORDER BY seq"
_NEWER = """
SELECT e.task, e.seq, e.at, e.body FROM unnest($1::text[], $2::bigint[]) AS k (task, seq)
    JOIN gen_journal e ON e.task = k.task AND e.seq > k.seq ORDER BY e.task, e.seq
"""


class PostgresStore(SideTables):
    """A `Store` in Postgres. Make one with `await PostgresStore.open(url)`."""

    def __init__(self, link: Pool, lease_seconds: float, draw: Callable[[], str]) -> None:
        self.link = link
        self.lease_seconds = lease_seconds
        self.changes = PostgresChanges(link)
        """Wakes whoever waits for something new."""
        super().__init__(PostgresDatabase(link, self.changes.note), draw)
        self._appends = AppendBatcher(link, lease_seconds, self.changes)
        self._ear = self.changes.ear
        self.ledger = PostgresLedger(link, self._ear, self.changes.note)
        """What tasks may spend, and have spent."""
        self._given_up: set[str] = set()
        self._global_log: PostgresEventLog | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        lease_seconds: float = LEASE_SECONDS,
        draw: Callable[[], str] = new_id,
        patience: float = PATIENCE,
    ) -> Self:
        """Open the database at `url`, made if it is empty."""
        link = await Pool.open(url, patience=patience)
        try:
            await check_link(link)
        except StoreTrouble:
            await link.close()
            raise
        return cls(link, lease_seconds, draw)

    @property
    def global_log(self) -> "PostgresEventLog":
        """The facts of all tasks in one order."""
        from gencode.stores.pg_event_log import PostgresEventLog

        self._global_log = self._global_log or PostgresEventLog(self.link)
        return self._global_log

    async def close(self) -> None:
        """Close the connections after all appends were written."""
        await self._appends.close()
        await self.changes.aclose()
        await self.link.close()

    def cut(self) -> None:
        """End all connections at once; the next step makes new ones."""
        self._ear.cut()
        self.link.cut()

    def give_up(self, owner: str) -> None:
        """Write nothing more for an owner, whatever its leases say: others may have its tasks by now."""
        self._given_up.add(owner)

    async def create(
        self,
        fact: TaskCreated,
        owner: str,
        then: Sequence[DurableFact] = (),
        named: str = "",
        session: str = "",
    ) -> Lease:
        """Write the first facts of a new task under a free id, and lease it to `owner`."""
        for task in task_ids(self.draw, named):
            growth = new_journal(task, (fact, *then))
            route = await self.ledger.route_below(growth.state, session)
            new = NewTaskRow(growth, self.lease_seconds, owner, route=route)
            if await self._write_new(new, route):
                self.ledger.created(growth.state, route)
                self._ear.hear(owner)
                self.changes.note()
                return Lease(owner, 1, growth.state, route.path)
        raise StoreTrouble(f"No free task id was found in {self.link.address} after {DRAWS} attempts.")

    async def _write_new(self, new: NewTaskRow, route: SpendingPath) -> bool:
        """Write a new task if its budget allows it; False when its id is taken."""
        if await self.ledger.is_unlimited(new.state, route):
            return await self.link.patiently(new.write)

        async def write(connection: Connection, again: bool) -> bool:
            return await self.ledger.create(connection, again, new, route)

        return await self.in_transaction(write)

    async def take(
        self, task: str, owner: str, instead_of: str | None = None, session: str | None = None
    ) -> Lease:
        """Lease an existing task with a new epoch; UserMistake while somebody else's lease runs."""

        rows = await self.link.fetch(_TAKE, task, owner, instead_of, self.lease_seconds, FOLD)
        if not rows:
            known = await self.link.fetch(_LAST_SEQ, task)
            raise lease_held(task) if known else task_missing(task)
        epoch, last, body, told = rows[0]
        state = snapshot_of(body)
        if state is None or state.seq < last:  # from here on nobody else writes
            newer = await self.link.fetch(_EVENTS, task, state.seq if state else 0, last)
            state, trouble = folded(task, state, [_fact(each) for each in newer], last)
            if state is None or trouble:
                await self.link.fetch(_RELEASE, task, epoch, owner)
                raise trouble or task_missing(task)
        self._ear.hear(owner)
        self.changes.note()
        route = await self.ledger.taken(route_from(told), session)
        return Lease(owner, epoch, state, route.path)

    async def append(self, lease: Lease, facts: Sequence[DurableFact], *, last: bool = False) -> list[Event]:
        """Write all facts in one transaction, or raise Fenced and write none; `last` gives the lease back."""
        if not facts:
            return []
        if lease.owner in self._given_up:
            raise lease_lost(lease.task)
        if lease.state.status.ended:
            await self.ledger.going_on(lease.state, extended_journal(lease.state, facts).state)
        events = await self._appends.append(lease, facts, last=last)
        if last:
            self.ledger.forget(lease.task)
        return events

    async def renew(self, owner: str) -> set[str]:
        """Extend every lease of `owner`; the tasks that it has."""
        if owner in self._given_up:
            return set()
        try:
            rows = await self._ear.fetch(_RENEW, owner, self.lease_seconds)
        except TROUBLES:
            rows = await self.link.fetch(_RENEW, owner, self.lease_seconds)
        return {task for (task,) in rows}

    async def release(self, lease: Lease) -> None:
        """Give the lease back at once, whatever the task's status."""
        if lease.owner in self._given_up:
            return  # whatever it started may still be stopping; the lease runs out by itself
        self.ledger.forget(lease.task)
        await self.link.fetch(_RELEASE, lease.task, lease.epoch, lease.owner)
        self.changes.note()

    async def owned(self) -> list[Ownership]:
        """Every task that is leased or has not ended, its owner (empty: nobody), and whether that is over."""
        return [Ownership(*row) for row in await self.link.fetch(_OWNED, QUEUE, self.lease_seconds)]

    async def send_signal(self, task: str, signal: TaskSignal) -> bool:
        """Ask something of whoever holds the lease of a task; False when nobody does."""
        rows = await self.link.fetch(_ASK, storable(task), signal.value, WAKE)
        for row in rows:
            self._ear.hear(row[0])
        self.changes.note()
        return bool(rows)

    async def signals(self, owner: str) -> list[tuple[str, TaskSignal]]:
        """What somebody asked of the tasks of `owner`; an interrupt and a budget are told once."""
        if await self._ear.quiet("asked", owner, LOOK_SECONDS):
            return []
        rows = await self.link.fetch(_ASKED, owner)
        asked = [(task, TaskSignal(signal)) for task, signal in rows]
        lasting = [each for each in asked if not each[1].once]
        if lasting:
            self._ear.hear(owner)  # it applies for as long as the task is leased
        if len(lasting) == len(asked):
            return lasting
        heard = await self.link.fetch(_HEARD, owner)
        return [*lasting, *((task, TaskSignal(signal)) for task, signal in heard)]

    async def post(self, task: str, text: str, sender: str) -> int:
        """Leave a message for a task, whoever runs it; its number. UserMistake when it cannot be taken."""
        clean, who = message_text(text).encode(), unicode_text(sender).encode()

        async def write(connection: Connection) -> tuple[int, str | None]:
            row = await connection.fetchrow(_NUMBER, task, MOST_WAITING)
            if row is None:
                known = await connection.fetchval(_LAST_SEQ, task)
                raise task_missing(task) if known is None else mailbox_full(task)
            number, owner = row
            await connection.execute(_POST, task, number, clean, who, stamp())
            if owner is not None:
                await connection.execute("SELECT pg_notify($1, $2)", WAKE, owner)
            return number, owner

        number, owner = await self.link.transaction(write, self.changes.note)
        if owner is not None:
            self._ear.hear(owner)
        return number

    async def posted_messages(self, owner: str) -> list[PostedMessage]:
        """The messages to the tasks of `owner` that these have not taken yet, in order."""
        if await self._ear.quiet("messages", owner, LOOK_SECONDS):
            return []
        messages = await self._messages(_MESSAGES, owner)
        if messages:
            self._ear.hear(owner)  # they wait until they are taken
        return messages

    async def unread_messages(self, task: str) -> list[PostedMessage]:
        """The messages that a task has not taken yet, in order."""
        return await self._messages(_WAITING, task)

    async def adopt(self, events: Sequence[Event]) -> None:
        """Write a whole foreign journal of one task as it is; UserMistake if its id is taken."""
        growth = imported_journal(events)
        if not await self.link.patiently(NewTaskRow(growth, self.lease_seconds).write):
            raise id_taken(growth.state.id)
        await self.ledger.adopted(growth.state.id)
        self.changes.note()

    async def delete(self, task: str) -> list[str]:
        """Delete a task with everything below it, all or nothing; the ids that are gone."""
        return await self.link.transaction(lambda connection: delete(connection, task), self.changes.note)

    async def task(self, task: str) -> Task | None:
        """The fold of a task's facts, as far as they can be read."""
        found = await self._folded(await self.link.fetch(_ONE, storable(task), FOLD))
        for state, trouble in found:
            if state is None and trouble:
                raise trouble
            return state
        return None

    async def tasks(self, query: TaskQuery) -> list[Task]:
        """The folds of the newest tasks that match, oldest first, each as far as its facts can be read.

        `ended_after` leaves unfinished tasks in.
        """
        rows = await self.link.fetch(
            _TASKS,
            FOLD,
            None if query.parent is None else storable(query.parent),
            None if query.cwd is None else storable(unicode_text(query.cwd)),
            list(query.statuses) or None,
            query.ended_after,
            query.conversations,
            None if query.limit is None else max(query.limit, 0),
            query.roots,
            None if query.agent is None else storable(unicode_text(query.agent)),
            None if query.before is None else storable(unicode_text(query.before)),
            query.unheard,
            [storable(each) for each in query.parents] or None,
        )
        return [state for state, _ in await self._folded(rows[::-1]) if state is not None]

    async def ids(self, beginning: str) -> list[str]:
        """Every task id that starts so (at most 20)."""
        return [row[0] for row in await self.link.fetch(_IDS, storable(unicode_text(beginning)))]

    async def events(self, task: str, after: int = 0) -> list[Event]:
        """The facts of a task with a number above `after`, in order; CorruptFact if one cannot be read."""
        after = min(max(after, 0), 2**62)
        facts, last = await self._stored(task, after)
        return events_of(task, facts, after, last)

    async def lines(self, task: str) -> list[dict[str, Any]]:
        """All facts of a task as objects for an export, also those of kinds that are not known here."""
        return lines_of(task, *await self._stored(task, 0))

    async def _stored(self, task: str, after: int) -> tuple[list[StoredFact], int]:
        """The facts after a number, and the number of the last one."""
        rows = await self.link.fetch(_LAST_SEQ, storable(task))
        if not rows or rows[0][0] <= after:
            return [], 0
        facts = await self.link.fetch(_EVENTS, task, after, rows[0][0])
        return [_fact(each) for each in facts], rows[0][0]

    async def _folded(self, rows: Sequence[Any]) -> list[tuple[Task | None, Any]]:
        """The tasks of these rows, in their order; facts that were written since are left out."""
        states = {task: snapshot_of(body) for task, _, body in rows}
        known = {task: state.seq if state else 0 for task, state in states.items()}
        behind = [task for task, last, _ in rows if known[task] < last]
        lasts = {task: last for task, last, _ in rows}
        newer: dict[str, list[StoredFact]] = {}
        if behind:
            for row in await self.link.fetch(_NEWER, behind, [known[task] for task in behind]):
                if row[1] <= lasts[row[0]]:
                    newer.setdefault(row[0], []).append((row[1], row[2], row[3]))
        return [folded(task, states[task], newer.get(task, ()), last) for task, last, _ in rows]

    async def _messages(self, statement: str, whose: str) -> list[PostedMessage]:
        rows = await self.link.fetch(statement, storable(whose))
        return [PostedMessage(row[0], row[1], row[2].decode(), row[3].decode(), row[4]) for row in rows]

    async def in_transaction(self, write: Callable[[Connection, bool], Awaitable[bool]]) -> bool:
        """Run a transaction; its flag says that an earlier attempt may have been written."""

        async def step(connection: Connection, again: bool) -> bool:
            async with connection.transaction():
                return await write(connection, again)

        written = await self.link.patiently(step)
        self.changes.note()
        return written


def _fact(row: Any) -> StoredFact:
    return row[0], row[1], row[2]
