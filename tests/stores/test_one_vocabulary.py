"""SQLite and Postgres have the same tables beside the journal, with columns of the same names."""

from pathlib import Path

import pytest

from gencode.stores.sqlite import SqliteStore
from tests.postgres import Postgres
from tests.stores.other_program import rows

pytestmark = pytest.mark.needs("postgres")

OF_POSTGRES = {
    "gen_task": {"number", "dispatch", "dispatched_at"},
    "gen_journal": {"place"},
}
"""What the queue of workers needs, and what SQLite has as the number of a row."""
SQLITE = """
SELECT t.name, lower(c.name) FROM sqlite_master t JOIN pragma_table_info(t.name) c WHERE t.name LIKE 'gen%'
"""
POSTGRES = """
SELECT table_name::text, column_name::text FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name LIKE 'gen%'
"""


async def test_every_table_of_sqlite_is_one_of_postgres_with_the_same_columns(
    path: Path, postgres: Postgres
) -> None:
    from gencode.stores.postgres import PostgresStore

    await (await SqliteStore.open(path)).close()
    store = await PostgresStore.open(postgres.new_schema())
    there = [(row[0], row[1]) for row in await store.link.fetch(POSTGRES)]
    await store.close()
    here = [(table, column) for table, column in rows(path, SQLITE)]
    tables = {table for table, _ in here}
    more = {(table, column) for table, columns in OF_POSTGRES.items() for column in columns}
    assert {each for each in there if each[0] in tables} == {*here} | more
