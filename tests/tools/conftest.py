"""Fixtures for the tools."""

from pathlib import Path

import pytest

from tests.tools.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """An empty workspace."""
    root = tmp_path / "ws"
    root.mkdir()
    return Desk(root)
