"""A fleet for each test, closed at its end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.mcp.fleet import Fleet


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    opened = Fleet(tmp_path)
    yield opened
    await opened.close()
