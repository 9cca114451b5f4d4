"""Questions in Postgres: they keep every promise of the port."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from gencode.runtime.asking import Answer
from gencode.runtime.questions import kept_there
from tests.contracts.questions import *  # noqa: F403  (the contract's tests run here)
from tests.postgres import Postgres

pytestmark = pytest.mark.needs("postgres")


@pytest.fixture
async def store(postgres: Postgres) -> AsyncGenerator[Any]:
    from gencode.stores.pg_fleet import FleetStore

    opened = await FleetStore.open(postgres.new_schema(), lease_seconds=5.0)
    yield opened
    await opened.close()


def test_away_from_home_a_yes_reaches_no_further_than_the_agent_and_those_below_it() -> None:
    reaches = ("call", "agent", "subtree", "session", "always")
    kept = [kept_there(Answer(True, reach)).reach for reach in reaches]
    assert kept == ["call", "agent", "subtree", "subtree", "subtree"]
