"""A fleet without workers for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.driving import Fleet
from tests.postgres import Postgres


@pytest.fixture
def fleet(postgres: Postgres, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(postgres, tmp_path)
    yield made
    made.close()
