"""A post office for every test; who lodges with it leaves in the end."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.workspaces.transfer.post import Office


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office()
    yield made
    for lodging in made.lodgings:
        lodging.release(tmp_path / "home")
