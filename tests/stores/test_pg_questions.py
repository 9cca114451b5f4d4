"""Questions in Postgres: they keep every promise of the port."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contracts.questions import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.questions import ME, about, numbers, post, running
from tests.postgres import Postgres

pytestmark = pytest.mark.needs("postgres")


@pytest.fixture
async def store(postgres: Postgres) -> AsyncGenerator[Any]:
    from gencode.stores.pg_fleet import FleetStore

    opened = await FleetStore.open(postgres.new_schema(), lease_seconds=5.0)
    yield opened
    await opened.close()


async def test_a_question_is_written_down_once_however_often_that_is_tried(store: Any) -> None:
    task = await running(store)
    await store.questions.here(ME, 60.0)
    tries = [await store.questions.put(replace(post(about(task)), mark="once")) for _ in range(2)]
    assert (len(set(tries)), await numbers(store, ME)) == (1, tries[:1])
