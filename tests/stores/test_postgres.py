"""The Postgres store keeps the promises of the port."""

from collections.abc import AsyncGenerator, Callable

import pytest

from gencode.core.budget import Budget
from gencode.core.ids import new_id
from gencode.journal.store import Store
from tests.contracts.changes import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.changes_of_others import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.changes_of_others import OpenTwice
from tests.contracts.global_log import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.ledger import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.ledger import begun
from tests.contracts.letters import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.schedule import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.store import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.store import OpenStore
from tests.contracts.unknown_kind import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.unknown_kind import WriteFact
from tests.contracts.wishes import *  # noqa: F403  (the contract's tests run here)
from tests.postgres import Postgres

pytestmark = pytest.mark.needs("postgres")


@pytest.fixture
async def open_store(postgres: Postgres) -> AsyncGenerator[OpenStore]:
    from gencode.stores.postgres import PostgresStore

    stores: list[PostgresStore] = []

    async def opened(*, lease_seconds: float = 15.0, draw: Callable[[], str] = new_id) -> Store:
        store = await PostgresStore.open(postgres.new_schema(), lease_seconds=lease_seconds, draw=draw)
        stores.append(store)
        return store

    yield opened
    for store in stores:
        await store.close()


@pytest.fixture
def write_fact() -> WriteFact:
    from gencode.stores.postgres import PostgresStore

    async def written(store: Store, task: str, seq: int, body: str) -> None:
        assert isinstance(store, PostgresStore)
        await store.link.fetch(
            "UPDATE gen_journal SET body = $3 WHERE task = $1 AND seq = $2", task, seq, body
        )

    return written


@pytest.fixture
async def open_twice(postgres: Postgres) -> AsyncGenerator[OpenTwice]:
    from gencode.stores.postgres import PostgresStore

    stores: list[PostgresStore] = []

    async def opened() -> tuple[Store, Store]:
        address = postgres.new_schema()
        for _ in range(2):
            stores.append(await PostgresStore.open(address))
        return stores[0], stores[1]

    yield opened
    for store in stores:
        await store.close()


async def test_a_limit_is_changed_while_other_accounts_are_being_written(open_twice: OpenTwice) -> None:
    from gencode.stores.postgres import PostgresStore

    store, other = await open_twice()
    assert isinstance(other, PostgresStore)
    one = await begun(store, None, Budget(tokens=100))
    two = await begun(store, None, Budget(tokens=100))
    async with other.link.pool.acquire() as connection, connection.transaction():
        await connection.execute("UPDATE gen_account SET calls = calls WHERE id = $1", two.task)
        await store.ledger.limit(one.task, Budget(tokens=200))
    balance = await other.ledger.balance(one.task)
    assert balance is not None
    assert balance.account.limits == {"tokens": 200}
