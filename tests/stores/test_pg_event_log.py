"""Followers of a Postgres journal miss nothing that is committed late, and wait for nobody else."""

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import pytest

from gencode.core.events import TaskCreated
from tests.contracts.global_log import ids
from tests.contracts.store import said
from tests.postgres import Postgres

if TYPE_CHECKING:
    from gencode.stores.postgres import PostgresStore

pytestmark = pytest.mark.needs("postgres")

LATE = "INSERT INTO gen_journal (task, seq, epoch, kind, body, at) VALUES ('0badcafe', 1, 0, 'x', '{', '')"


@pytest.fixture
async def store(postgres: Postgres) -> AsyncGenerator["PostgresStore"]:
    from gencode.stores.postgres import PostgresStore

    opened = await PostgresStore.open(postgres.new_schema())
    yield opened
    await opened.close()


@pytest.fixture
async def slow(store: "PostgresStore") -> AsyncGenerator[Any]:
    """Another connection to the same database."""
    import asyncpg

    connect: Any = asyncpg
    connection: Any = await connect.connect(store.link.url)
    yield connection
    await connection.close()


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_nothing_is_told_before_what_may_still_come_before_it(
    store: "PostgresStore", slow: Any, ends: str
) -> None:
    first = await store.create(TaskCreated(), "me")
    start = await store.global_log.end()
    writing = slow.transaction()
    await writing.start()
    await slow.execute(LATE)
    await store.append(first, [said("drew its number later, and is committed first")])
    assert await store.global_log.after(start) == []
    await getattr(writing, ends)()
    facts = await store.global_log.after(start) or []
    late = [("0badcafe", 1)] if ends == "commit" else []
    assert [(fact.mark.task, fact.mark.seq) for fact in facts] == [*late, (first.task, 2)]
    assert [fact.event is None for fact in facts] == [*(True for _ in late), False]  # what a hand broke


async def test_the_end_is_where_nothing_more_can_come_before(store: "PostgresStore", slow: Any) -> None:
    lease = await store.create(TaskCreated(), "me")
    async with slow.transaction():
        await slow.execute(LATE)
        await store.append(lease, [said("later")])
        end = asyncio.create_task(store.global_log.end())
        await asyncio.sleep(0.05)
        assert not end.done()
    mark = await end
    assert mark is not None and (mark.task, mark.seq) == (lease.task, 2)


async def test_the_long_transactions_of_others_keep_nobody_waiting(store: "PostgresStore", slow: Any) -> None:
    lease = await store.create(TaskCreated(), "me")
    start = await store.global_log.end()
    async with slow.transaction():
        await slow.execute("CREATE TABLE something_else (x int)")
        await slow.fetch("SELECT count(*) FROM gen_journal")
        await store.append(lease, [said("at once")])
        assert ids(await store.global_log.after(start)) == [(lease.task, 2)]
