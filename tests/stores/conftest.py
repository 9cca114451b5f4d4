"""A database of its own for every test."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from gencode.stores.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "gen.db"


@pytest.fixture
async def store(path: Path) -> AsyncGenerator[SqliteStore]:
    opened = await SqliteStore.open(path)
    yield opened
    await opened.close()
