"""The memory store keeps the promises of the port."""

from collections.abc import Callable

import pytest

from gencode.core.ids import new_id
from gencode.journal.store import Store
from gencode.stores.memory import MemoryStore
from tests.contracts.changes import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.global_log import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.ledger import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.letters import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.schedule import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.store import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.store import OpenStore
from tests.contracts.wishes import *  # noqa: F403  (the contract's tests run here)


@pytest.fixture
def open_store() -> OpenStore:
    async def opened(*, lease_seconds: float = 15.0, draw: Callable[[], str] = new_id) -> Store:
        return MemoryStore(lease_seconds=lease_seconds, draw=draw)

    return opened
