"""A new task and its place in a queue are written with one statement: both or neither, and once."""

from collections.abc import AsyncGenerator
from contextlib import nullcontext
from typing import Any

import pytest

from gencode.core.changes import LostChanges
from gencode.core.errors import StoreTrouble, StoreUnavailable, UserMistake
from gencode.core.events import ChangesMoved, TaskCreated, TaskEnded, TaskStarted
from gencode.core.status import EndReason, Status
from gencode.journal.store import TaskQuery
from tests.postgres import Postgres
from tests.stores.lost_connection import first_replies_lost

pytestmark = pytest.mark.needs("postgres")

NAME = "0123abcd"
IDS = ("a" * 12, "a" * 12, "b" * 12)
_PUT = "WITH put AS (INSERT INTO places (task, n) SELECT $1, $2 RETURNING n) SELECT n FROM put"


@pytest.fixture
async def store(postgres: Postgres) -> AsyncGenerator[Any]:
    from gencode.stores.pg_fleet import FleetStore

    opened = await FleetStore.open(postgres.new_schema(), patience=2.0)
    await opened.link.fetch("CREATE TABLE places (task text, n int CHECK (n < 9))")
    yield opened
    await opened.close()


def putting(n: int, statement: str = _PUT) -> Any:
    async def enqueue(connection: Any, task: str) -> None:
        await connection.fetch(statement, task, n)

    return enqueue


async def there(store: Any) -> tuple[list[str], list[str]]:
    """The tasks, and those that have a place."""
    rows = await store.link.fetch("SELECT task FROM places ORDER BY task")
    return sorted(task.id for task in await store.tasks(TaskQuery())), [row[0] for row in rows]


async def test_both_are_written_with_one_statement(store: Any) -> None:
    statements: list[str] = []
    patiently = store.link.patiently

    async def counting(step: Any, patience: float | None = None) -> Any:
        def heard(told: Any) -> None:
            statements.append(told.query)

        async def counted(connection: Any, again: bool) -> Any:
            with connection.query_logger(heard):
                return await step(connection, again)

        return await patiently(counted, patience)

    first = await store.submit(TaskCreated(agent="Explore"), b"{}", putting(1))  # the driver learns types
    store.link.patiently = counting
    task = await store.submit(TaskCreated(agent="Explore"), b"{}", putting(1))
    store.link.patiently = patiently
    assert len(statements) == 1
    assert await there(store) == (sorted([first, task]), sorted([first, task]))
    assert (await store.dispatched(task)).order == b"{}"


async def test_what_fails_writes_neither(store: Any) -> None:
    with pytest.raises(StoreTrouble):
        await store.submit(TaskCreated(), b"{}", putting(9))
    assert await there(store) == ([], [])


async def test_an_id_that_is_taken_is_drawn_again(store: Any) -> None:
    ids = list(IDS)
    store.draw = lambda: ids.pop(0)
    assert await store.submit(TaskCreated(), b"{}", putting(1)) == IDS[0]
    assert await store.submit(TaskCreated(), b"{}", putting(2)) == IDS[2]
    assert await there(store) == ([IDS[0], IDS[2]], [IDS[0], IDS[2]])


async def test_a_reply_that_got_lost_is_not_written_twice(store: Any) -> None:
    with first_replies_lost(store):
        task = await store.submit(TaskCreated(), b"{}", putting(1))
    assert await there(store) == ([task], [task])


async def test_a_task_that_may_be_there_is_submitted_again_under_its_name_and_is_there_once(
    store: Any,
) -> None:
    from gencode.stores.pg_fleet import IN_DOUBT

    born = TaskCreated(agent="Explore", prompt="look")
    with first_replies_lost(store, all_of_them=True), pytest.raises(StoreUnavailable) as doubt:
        await store.submit(born, b"{}", putting(1), NAME)
    assert str(doubt.value).endswith(IN_DOUBT.format(task=NAME))
    assert await store.submit(born, b"{ }", putting(1), NAME) == NAME
    assert await there(store) == ([NAME], [NAME])
    other = await store.submit(TaskCreated(agent="Explore"), b"{}", putting(1), NAME)
    assert await there(store) == (sorted([NAME, other]), sorted([NAME, other]))


async def test_where_no_server_answered_nothing_can_have_been_queued(store: Any, postgres: Postgres) -> None:
    await store.link.pool.expire_connections()  # what is sent on one that has just died is in doubt
    postgres.stop()
    try:
        with pytest.raises(StoreUnavailable) as away:
            await store.submit(TaskCreated(), b"{}", putting(1), NAME)
    finally:
        postgres.start()
    assert NAME not in str(away.value)


@pytest.mark.parametrize("lost", [True, False])
async def test_a_task_that_waited_for_its_turn_is_given_to_workers_once(store: Any, lost: bool) -> None:
    lease = await store.create(TaskCreated(agent="Explore"), "keeper")
    for number in range(2):
        with first_replies_lost(store) if lost else nullcontext():
            await store.submit_held(lease.task, "keeper", b"{}" + b" " * number, putting(1))
    assert (await store.dispatched(lease.task)).order == b"{}"
    worker = await store.take(lease.task, "worker")
    await store.append(
        worker, [TaskStarted(), TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED)], last=True
    )
    await store.submit_held(lease.task, "keeper", b"{}", putting(1))  # the answer comes after its end
    assert (await store.dispatched(lease.task)).order is None
    assert await there(store) == ([lease.task], [lease.task])
    with pytest.raises(UserMistake):
        await store.submit_held(
            (await store.create(TaskCreated(), "keeper")).task, "other", b"{}", putting(1)
        )


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO places (task, n) VALUES ($1, $2)",
        "WITH RECURSIVE x AS (SELECT 1) INSERT INTO places (task, n) VALUES ($1, $2)",
    ],
)
async def test_a_statement_that_takes_nothing_along_is_written_in_a_transaction(
    store: Any, statement: str
) -> None:
    task = await store.submit(TaskCreated(), b"{}", putting(1, statement))
    assert await there(store) == ([task], [task])
    with pytest.raises(StoreTrouble):
        await store.submit(TaskCreated(), b"{}", putting(9, statement))
    assert await there(store) == ([task], [task])


async def test_a_task_without_a_place_is_written_too(store: Any) -> None:
    async def nowhere(_connection: Any, _task: str) -> None:
        pass

    task = await store.submit(TaskCreated(), b"{}", nowhere)
    assert await there(store) == ([task], [])


async def test_a_note_on_a_task_that_workers_were_given_again_does_not_take_it_from_them(
    store: Any,
) -> None:
    lease = await store.create(TaskCreated(), "me")
    ends = (TaskStarted(), TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED))
    await store.append(lease, ends, last=True)
    await store.submit_again(lease.task, b"{}", putting(1))
    await store.append(
        await store.take(lease.task, "you"), [ChangesMoved(LostChanges(lease.task, "why"))], last=True
    )
    assert (await store.dispatched(lease.task)).order == b"{}"
    await store.append(await store.take(lease.task, "worker"), ends, last=True)
    assert (await store.dispatched(lease.task)).order is None
