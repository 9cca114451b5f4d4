"""The Postgres store of a fleet: the journal, queued tasks and the workers that run them."""

from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gencode.core.errors import StoreTrouble, StoreUnavailable
from gencode.core.events import DurableFact, Event, TaskCreated, settle
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.journal.dispatch import DispatchedTask, Enqueue, MissingWorker, StuckTask, WorkerInfo
from gencode.journal.store import Lease
from gencode.stores.journal_rules import (
    DRAWS,
    extended_journal,
    lease_held,
    lease_lost,
    new_journal,
    task_ids,
    task_missing,
)
from gencode.stores.ledger_tables import SpendingPath
from gencode.stores.pg_append import fact_columns
from gencode.stores.pg_errors import TROUBLES, trouble
from gencode.stores.pg_ledger import completed, route_from
from gencode.stores.pg_pool import Connection, alone, storable
from gencode.stores.pg_task_rows import EnqueueConnection, NewTaskRow, NotCombinable
from gencode.stores.postgres import PostgresStore
from gencode.stores.task_fold import FOLD, snapshot_of

if TYPE_CHECKING:
    from gencode.stores.pg_request_pacing import PostgresRequestPacing
    from gencode.stores.pg_workspace_transfer import PostgresWorkspaceTransfer

_LOCK = 1195723332
FORGOTTEN_SECONDS = 600.0
"""A worker that has not reported for so long is not listed."""
CLOSED_SECONDS = 10.0
"""So long somebody may go on with a task that was closed, before those it waited for are stopped, and so long
one may have stood still, before those are not begun any more."""

_AGAIN = """
UPDATE gen_task SET dispatch = $2, dispatched_at = clock_timestamp(), signal = 0
WHERE id = $1 AND dispatch IS NULL AND status NOT IN ('pending', 'running')
  AND (owner IS NULL OR lease_until <= clock_timestamp())
RETURNING id
"""
_HANDED = """
UPDATE gen_task SET dispatch = $2, dispatched_at = clock_timestamp(), owner = NULL, lease_until = NULL
WHERE id = $1 AND owner = $3 AND dispatch IS NULL AND status = 'pending' RETURNING id
"""
_SAME = "SELECT 1 FROM gen_task WHERE id = $1 AND dispatch = $2"
# Its keeper wrote it with the first epoch; what was taken or has ended since then is the keeper's no more.
_GIVEN = """
SELECT 1 FROM gen_task WHERE id = $1 AND (dispatch IS NOT NULL
    OR (owner IS DISTINCT FROM $2 AND (epoch > 1 OR status NOT IN ('pending', 'running'))))
"""
IN_DOUBT = (
    "Whether task {task} was queued before that is not known; when the database is there again, "
    "gen task show {task} tells."
)
_DISPATCHED = """
SELECT t.id, t.agent, t.status, t.dispatch, coalesce(t.owner, ''),
       t.lease_until IS NULL OR t.lease_until <= clock_timestamp(), t.epoch, s.body
FROM gen_task t LEFT JOIN gen_snapshot s ON s.task = t.id AND s.fold = $2 AND s.seq = t.last_seq
WHERE t.id = $1
"""
_BEGIN = completed("""
WITH begun AS (
    UPDATE gen_task SET
        epoch = epoch + 1, owner = $2, signal = CASE WHEN dispatch IS NULL THEN 0 ELSE signal END,
        lease_until = clock_timestamp() + make_interval(secs => $4),
        last_seq = $6, model = $7, updated_at = $8, status = $9
    WHERE id = $1 AND last_seq = $5
      AND (lease_until IS NULL OR owner = $2 OR owner = $3 OR lease_until <= clock_timestamp())
    RETURNING id, epoch
), written AS (
    INSERT INTO gen_journal (task, seq, epoch, kind, body, at)
    SELECT b.id, e.seq, b.epoch, e.kind, e.body, e.at
    FROM begun b, unnest($10::bigint[], $11::text[], $12::text[], $13::text[]) AS e (seq, kind, body, at)
    ORDER BY e.seq
)
SELECT epoch, {ROUTE} FROM begun
""")
_MINE = completed("""
SELECT t.epoch, {ROUTE}
FROM gen_task t JOIN gen_journal e ON e.task = t.id AND e.seq = $3 AND e.epoch = t.epoch
WHERE t.id = $1 AND t.owner = $2 AND t.last_seq = $3 AND e.at = $4
""")
_LAST_SEQ = "SELECT last_seq FROM gen_task WHERE id = $1"
_OVERDUE = """
SELECT id, agent, cwd, extract(epoch FROM clock_timestamp() - coalesce(lease_until, dispatched_at))::float8,
       epoch
FROM gen_task
WHERE dispatch IS NOT NULL
  AND coalesce(lease_until, dispatched_at) < clock_timestamp() - make_interval(secs => $1)
ORDER BY dispatched_at LIMIT 500
"""
_UNATTENDED = """
SELECT id, agent, dispatch FROM gen_task
WHERE id = ANY($1::text[]) AND dispatch IS NOT NULL
  AND (lease_until IS NULL OR lease_until <= clock_timestamp())
"""
_OVER = "SELECT id FROM gen_task WHERE id = ANY($1::text[]) AND dispatch IS NOT NULL"
_LED = """
SELECT id FROM gen_task
WHERE id = ANY($1::text[]) AND (dispatch IS NOT NULL
    OR lease_until > clock_timestamp() - make_interval(secs => $3)
    OR status NOT IN ('pending', 'running', 'interrupted')
    OR ended_at::timestamptz > clock_timestamp() - make_interval(secs => $2))
"""
_FREE = "UPDATE gen_task SET owner = NULL, lease_until = NULL WHERE owner = $1"
_DEPTH = """
SELECT count(*) FILTER (WHERE owner IS NULL), count(*) FILTER (WHERE lease_until > clock_timestamp())
FROM gen_task WHERE dispatch IS NOT NULL
"""
_REPORT = """
INSERT INTO gen_worker (name, agents, workspace, most, running, draining, version)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (name) DO UPDATE SET running = excluded.running, draining = excluded.draining,
                                 seen_at = clock_timestamp()
"""
_LEAVE = "DELETE FROM gen_worker WHERE name = $1 OR seen_at < clock_timestamp() - make_interval(secs => $2)"
_WORKERS = """
SELECT name, agents, workspace, most, running, draining, version,
       extract(epoch FROM clock_timestamp() - seen_at)::float8
FROM gen_worker WHERE seen_at > clock_timestamp() - make_interval(secs => $1) ORDER BY started_at
"""


class FleetStore(PostgresStore):
    """A journal in Postgres that also knows workers and what is for them."""

    troubles: tuple[type[Exception], ...] = TROUBLES

    @cached_property
    def pace(self) -> "PostgresRequestPacing":
        """The rate limits of models that all processes of this database share."""
        from gencode.stores.pg_request_pacing import PostgresRequestPacing

        return PostgresRequestPacing(self.link, self._ear)

    @property
    def snapshots(self) -> "PostgresWorkspaceTransfer":
        """The transfer of workspaces between machines."""
        from gencode.stores.pg_workspace_transfer import PostgresWorkspaceTransfer

        return PostgresWorkspaceTransfer(self.link)

    async def submit(
        self, fact: TaskCreated, order: bytes, enqueue: Enqueue, named: str = "", session: str = ""
    ) -> str:
        """Write a new task for workers and put it into a queue, all or nothing; its id.

        Under the id that is `named`, the same task is there once, however often it is submitted. The account
        of `session` pays for one of no conversation.
        """
        for task in task_ids(self.draw, named):
            growth = new_journal(task, (fact,))
            route = await self.ledger.route_below(growth.state, session)
            new = NewTaskRow(growth, self.lease_seconds, dispatch=order, route=route)
            tried: list[EnqueueConnection] = []

            async def at_once(
                connection: Connection,
                again: bool,
                new: NewTaskRow = new,
                tried: list[EnqueueConnection] = tried,
            ) -> bool:
                if again and await new.written(connection):
                    return True
                carrier = EnqueueConnection(connection, new)
                tried.append(carrier)
                await enqueue(carrier, new.task)
                return not carrier.taken and (carrier.sent or await new.write(connection, again))

            async def write(
                connection: Connection, again: bool, new: NewTaskRow = new, route: SpendingPath = route
            ) -> bool:
                written = await self.ledger.create(connection, again, new, route)
                if written:
                    await enqueue(connection, new.task)
                return written

            try:
                if not await self.ledger.is_unlimited(new.state, route):
                    raise NotCombinable
                written = await self.link.patiently(at_once)
                self.changes.note()
            except NotCombinable:
                written = await self.in_transaction(write)
            except StoreUnavailable as away:
                raise StoreUnavailable(
                    f"{away} {IN_DOUBT.format(task=task)}" if tried else str(away)
                ) from None
            if written or (task == named and await self._is_there(task, fact)):
                return task
        raise StoreTrouble(f"No free task id was found in {self.link.address} after {DRAWS} attempts.")

    async def _is_there(self, task: str, fact: TaskCreated) -> bool:
        """Whether a task was created with this fact; then it was submitted before."""
        return [event.fact for event in (await self.events(task))[:1]] == [settle(fact)[0]]

    async def submit_again(self, task: str, order: bytes, enqueue: Enqueue) -> None:
        """Give an earlier task to workers; UserMistake while somebody is at it.

        StoreUnavailable says that it was not given to them, and StoreTrouble that this is not known.
        """
        sent: list[str] = []

        async def write(connection: Connection, again: bool) -> bool:
            given = await connection.fetchval(_AGAIN, task, order)
            if given is None and not (again and await connection.fetchval(_SAME, task, order)):
                known = await connection.fetchrow(_DISPATCHED, task, FOLD)
                raise task_missing(task) if known is None else lease_held(task)
            await enqueue(connection, task)
            sent.append(task)
            return True

        try:
            await self.in_transaction(write)
        except StoreUnavailable as away:
            if not sent:
                raise
            raise StoreTrouble(f"{away} {IN_DOUBT.format(task=task)}") from None

    async def submit_held(self, task: str, keeper: str, order: bytes, enqueue: Enqueue) -> None:
        """Give a task to workers that `keeper` had written down and not begun; UserMistake otherwise.

        Only its keeper can do that, so one that workers have or had was given to them by an earlier try.
        """

        async def write(connection: Connection, _again: bool) -> bool:
            if await connection.fetchval(_HANDED, task, order, keeper) is not None:
                await enqueue(connection, task)
            elif not await connection.fetchval(_GIVEN, task, keeper):
                raise lease_held(task)
            return True

        await self.in_transaction(write)

    async def dispatched(self, task: str) -> DispatchedTask | None:
        """The state of a task that was given to workers."""
        for row in await self.link.fetch(_DISPATCHED, task, FOLD):
            status = Status(row[2])
            seen = snapshot_of(row[7]) if status is Status.PENDING else None
            return DispatchedTask(row[0], row[1], status, row[3], row[4], row[5], row[6], seen)
        return None

    async def begin(
        self, seen: Task, owner: str, facts: Sequence[DurableFact], instead_of: str | None = None
    ) -> tuple[Lease, list[Event]]:
        """Lease a task and write its first facts as one; UserMistake while somebody else's lease runs.

        Fenced when it is not as it was `seen`. `instead_of` is an owner whose lease does not count.
        """
        if owner in self._given_up:
            raise lease_lost(seen.id)
        beginning = TaskClaim(seen, owner, facts, self.lease_seconds)
        beginning.instead_of = instead_of
        begun = await self.link.swiftly(beginning.write)
        await self.ledger.taken(beginning.route, None)
        self._ear.hear(owner)
        self.changes.note()
        return begun

    async def overdue(self, seconds: float) -> list[StuckTask]:
        """The tasks for workers that no worker has run for so long."""
        return [StuckTask(*row) for row in await self.link.fetch(_OVERDUE, seconds)]

    async def unattended(self, tasks: Sequence[str]) -> list[tuple[str, str, bytes]]:
        """Those of these tasks that no worker runs, each with its agent and dispatch note."""
        return [(row[0], row[1], row[2]) for row in await self.link.fetch(_UNATTENDED, list(tasks))]

    async def missing_worker(self, task: str) -> MissingWorker | None:
        """Why no worker runs a task; None where one does, or none is needed."""
        return (await self.missing_workers([task])).get(task)

    async def missing_workers(self, tasks: Sequence[str]) -> dict[str, MissingWorker]:
        """`missing_worker` for several tasks; those without a reason are left out."""
        from gencode.stores.pg_fleet_status import missing_workers

        return await missing_workers(self, tasks)

    async def over(self, tasks: Sequence[str]) -> set[str]:
        """Those of these tasks that no worker will run."""
        return {*tasks} - {row[0] for row in await self.link.fetch(_OVER, list(tasks))}

    async def deserted(
        self, tasks: Sequence[str], closed: float = CLOSED_SECONDS, silent: float = 0.0
    ) -> set[str]:
        """Those of these tasks whose process has died, as far as one can tell from here: gone, interrupted so
        many seconds ago, or with a lease that was over so many seconds ago.

        One that was just closed may be so by whoever is about to go on with it. One that came to an end by
        itself waits for nothing: what it has out works on until its process calls it off, also for whoever
        goes on with it later.
        """
        return {*tasks} - {row[0] for row in await self.link.fetch(_LED, list(tasks), closed, silent)}

    async def depth(self) -> tuple[int, int]:
        """The number of tasks that wait for a worker, and of workers that report."""
        [row] = await self.link.fetch(_DEPTH)
        return row[0], row[1]

    async def hand_back(self, owner: str) -> None:
        """Release all leases of an owner whose work has stopped, so that others need not wait for them."""
        await self.link.fetch(_FREE, owner)
        self.changes.note()

    async def report(self, card: WorkerInfo) -> None:
        """Record that a worker is alive, and how busy it is."""
        row = (card.name, card.agents, card.workspace, card.most, card.running, card.draining, card.version)
        await self.link.fetch(_REPORT, *row)

    async def leave(self, name: str) -> None:
        """Remove a worker that has ended."""
        await self.link.fetch(_LEAVE, name, FORGOTTEN_SECONDS)

    async def workers(self) -> list[WorkerInfo]:
        """The workers that reported lately."""
        return [WorkerInfo(*row) for row in await self.link.fetch(_WORKERS, FORGOTTEN_SECONDS)]

    async def on_connection(self, step: Callable[[Any], Awaitable[None]]) -> None:
        """Run something in a transaction that excludes every other one of its kind."""

        async def taken(connection: Connection, _again: bool) -> None:
            async with alone(connection, _LOCK):
                await step(connection)

        await self.link.patiently(taken)

    async def new_pool(self, most: int, lost: Callable[[], None]) -> Any:
        """A new pool of connections; `lost` is called when one of them ends."""
        try:
            return await self.link.another_pool(most, lost)
        except TROUBLES as error:
            raise trouble(error, self.link.address) from error


class TaskClaim:
    """The claim of a task that was `seen` waiting, and its first events, by `owner`.

    One statement claims it and writes: to take it first and to write afterwards would be two round trips, and
    two waits for the disk. It is begun only as it was seen, and only if nobody's lease runs.
    """

    def __init__(self, seen: Task, owner: str, facts: Sequence[DurableFact], lease_seconds: float) -> None:
        self._seen = seen
        self._owner = owner
        self._growth = extended_journal(seen, facts)
        self._lease_seconds = lease_seconds
        self.instead_of: str | None = None
        """An owner whose lease may be taken over."""
        self.route = SpendingPath(())
        """The accounts it spends from, once it has begun."""

    async def write(self, connection: Connection, again: bool) -> tuple[Lease, list[Event]]:
        """Claim it; UserMistake while another lease runs, Fenced when the task has changed since."""
        seen, state, events = self._seen, self._growth.state, self._growth.events
        row: tuple[Any, ...] = (
            seen.id,
            self._owner,
            self.instead_of,
            self._lease_seconds,
            seen.seq,
            state.seq,
            storable(state.run.model),
            events[-1].at,
            state.status,
        )
        begun = await connection.fetchrow(_BEGIN, *row, *fact_columns(self._growth))
        if begun is None and again:
            begun = await connection.fetchrow(_MINE, seen.id, self._owner, state.seq, events[-1].at)
        if begun is None:
            last = await connection.fetchval(_LAST_SEQ, seen.id)
            if last is None:
                raise task_missing(seen.id)
            raise lease_held(seen.id) if last == seen.seq else lease_lost(seen.id)
        self.route = route_from(begun[1])
        return Lease(self._owner, begun[0], state, self.route.path), events
