"""A Postgres database of an earlier version is upgraded by `gen migrate`, when nobody works with it."""

import gzip
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from gencode.core.errors import StoreTrouble
from gencode.journal.owner import new_owner
from tests.postgres import Postgres

pytestmark = pytest.mark.needs("postgres")

LAST_OF_0_1 = 5
RECORDED = Path(__file__).parents[1] / "journals" / "0.1" / "fleet" / "dump.sql.gz"
ELSEWHERE = "farm-7 pid:[1]|boot|4711|99|aaaaaaaa"
MADE = """
INSERT INTO gen_version VALUES (5);
INSERT INTO gen_task (id, agent, cwd, conversation, status, model, created_at, updated_at, epoch, last_seq)
VALUES ('aaaaaaaa', '', '', false, 'pending', '', '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z', 1, 1);
INSERT INTO gen_event (task, seq, epoch, kind, body, at)
VALUES ('aaaaaaaa', 1, 1, 'TaskCreated', '{"kind":"TaskCreated","prompt":"old"}', '2026-01-01T00:00:00Z');
"""
INSERT = """
WITH moved AS (UPDATE gen_task SET last_seq = $1 WHERE id = 'aaaaaaaa' RETURNING id)
INSERT INTO gen_event (task, seq, epoch, kind, body, at) SELECT id, $1, 1, 'x', '{}', '' FROM moved
"""
"""As 0.1 writes a fact."""


def recorded_tables() -> str:
    """The empty tables as 0.1 made them, for wherever the search path leads."""
    dump = gzip.decompress(RECORDED.read_bytes()).decode()
    tables = re.sub(r"^COPY .*?^\\\.$", "", dump, flags=re.DOTALL | re.MULTILINE)
    left_out = ("\\", "SELECT pg_catalog.set", "SET ")
    return "\n".join(
        line.replace("public.", "") for line in tables.splitlines() if not line.startswith(left_out)
    )


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.new_schema()


@pytest.fixture
async def old(url: str) -> AsyncGenerator[Any]:
    """A connection to a database that 0.1 made, with one task."""
    import asyncpg

    connect: Any = asyncpg
    connection: Any = await connect.connect(url)
    await connection.execute(recorded_tables())
    await connection.execute(MADE)
    yield connection
    await connection.close()


async def leased_by(owner: str, old: Any) -> None:
    await old.execute("UPDATE gen_task SET owner = $1, lease_until = 'infinity'", owner)


async def refused(url: str, old: Any) -> str:
    """Why `gen migrate` does nothing."""
    from gencode.stores.pg_schema import migrate_url

    with pytest.raises(StoreTrouble) as trouble:
        await migrate_url(url)
    assert await old.fetchval("SELECT number FROM gen_version") == LAST_OF_0_1
    assert await old.fetchval("SELECT count(*) FROM gen_event") == 1
    return str(trouble.value)


async def test_it_is_not_upgraded_by_being_opened(url: str, old: Any) -> None:
    from gencode.stores.postgres import PostgresStore

    with pytest.raises(StoreTrouble, match=r"of an earlier version\. .* \(pg_dump\), then run gen migrate"):
        await PostgresStore.open(url)
    assert await old.fetchval("SELECT number FROM gen_version") == LAST_OF_0_1


async def test_it_is_upgraded_by_gen_migrate_and_keeps_its_tasks(url: str, old: Any) -> None:
    from gencode.stores.pg_schema import VERSION, migrate_url
    from gencode.stores.postgres import PostgresStore

    assert await migrate_url(url) == (LAST_OF_0_1, VERSION)
    store = await PostgresStore.open(url)
    [event] = await store.events("aaaaaaaa")
    lease = await store.take("aaaaaaaa", "me")
    await store.close()
    assert (event.seq, lease.state.created.prompt) == (1, "old")


async def test_a_worker_that_is_alive_is_named_and_nothing_is_changed(url: str, old: Any) -> None:
    from gencode.stores.pg_schema import VERSION, migrate_url

    await old.execute(
        "INSERT INTO gen_worker (name, agents, workspace, most, running, version) "
        "VALUES ('farm-7-4711-aaaaaaaa', '', '', 1, 0, '0.1.0')"
    )
    assert "while worker farm-7-4711-aaaaaaaa runs. End it" in await refused(url, old)
    await old.execute("UPDATE gen_worker SET seen_at = seen_at - interval '16 seconds'")
    assert await migrate_url(url) == (LAST_OF_0_1, VERSION)


async def test_a_process_at_work_on_a_task_is_named_and_nothing_is_changed(url: str, old: Any) -> None:
    await leased_by(ELSEWHERE, old)
    assert "while process 4711 on farm-7 works on task aaaaaaaa. End it" in await refused(url, old)


async def test_a_dead_process_keeps_nobody_from_upgrading(url: str, old: Any) -> None:
    from gencode.stores.pg_schema import VERSION, migrate_url

    place, boot, _, began, end = new_owner().split("|")
    await leased_by("|".join((place, boot, "4194999", began, end)), old)
    assert await migrate_url(url) == (LAST_OF_0_1, VERSION)


async def test_a_program_of_the_earlier_version_writes_nothing_any_more(url: str, old: Any) -> None:
    import asyncpg

    from gencode.stores.pg_schema import migrate_url

    written = await old.prepare(INSERT)
    await written.fetch(2)
    await migrate_url(url)
    for _ in range(2):
        # 0.1 says: The database ADDRESS could not be used: …
        with pytest.raises(asyncpg.PostgresError, match="^a newer GenCode upgraded it; end this program"):
            await written.fetch(3)
    assert await old.fetchval("SELECT last_seq FROM gen_task") == 2
    assert await old.fetchval("SELECT count(*) FROM gen_journal") == 2


SHAPE = """
SELECT table_name, column_name, data_type, is_nullable, coalesce(column_default, ''), is_identity
FROM information_schema.columns WHERE table_schema = current_schema() AND table_name LIKE 'gen%'
ORDER BY table_name, column_name
"""


async def test_a_new_database_and_one_that_was_brought_up_to_date_have_the_same_shape(
    postgres: Postgres, url: str, old: Any
) -> None:
    import asyncpg

    from gencode.stores.pg_schema import migrate_url

    await migrate_url(url)
    new = postgres.new_schema()
    await migrate_url(new)
    connect: Any = asyncpg
    fresh: Any = await connect.connect(new)
    kept_out = {"gen_event"}  # where 0.1 would write
    shapes = [
        [tuple(row) for row in await each.fetch(SHAPE) if row[0] not in kept_out] for each in (old, fresh)
    ]
    await fresh.close()
    assert shapes[0] == shapes[1]


async def test_a_database_that_no_release_made_is_left_alone(url: str, old: Any) -> None:
    from gencode.stores.pg_schema import migrate_url

    await old.execute("UPDATE gen_version SET number = 4")
    with pytest.raises(StoreTrouble, match="has version 4"):
        await migrate_url(url)
    assert await old.fetchval("SELECT count(*) FROM gen_event") == 1
