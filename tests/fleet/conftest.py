"""A fleet without workers for every test, and one with a worker for all tests of a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.driving import Fleet
from tests.postgres import Postgres

PATIENT = ("--lease-seconds", "15")
"""For workers that nobody kills, on machines that are busy."""


@pytest.fixture
def fleet(postgres: Postgres, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(postgres, tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def standing(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(postgres, tmp_path_factory.mktemp("standing"))
    made.start(1, "--concurrency", "4", *PATIENT)
    yield made
    made.close()
