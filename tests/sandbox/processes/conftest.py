"""A door for each test, closed at its end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gencode.sandbox.processes.command_runner import CommandRunner


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
async def commands(state: Path) -> AsyncIterator[CommandRunner]:
    async with CommandRunner(state) as opened:
        yield opened
