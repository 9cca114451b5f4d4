"""Questions in memory: they keep every promise of the port."""

import pytest

from gencode.stores.memory import MemoryStore
from tests.contracts.questions import *  # noqa: F403  (the contract's tests run here)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()
