"""The in-memory store: the SQLite store on a database without a file, for as long as the process lives."""

from collections.abc import Callable

from gencode.core.ids import new_id
from gencode.journal.owner import LEASE_SECONDS
from gencode.stores.sqlite import SqliteStore
from gencode.stores.sqlite_schema import open_in_memory


class MemoryStore(SqliteStore):
    """A `Store` of one process; nobody else can open it, and it is gone with the last reference to it."""

    def __init__(self, *, lease_seconds: float = LEASE_SECONDS, draw: Callable[[], str] = new_id) -> None:
        connection = open_in_memory()
        super().__init__(None, (connection, connection), None, lease_seconds, draw)

    async def close(self) -> None:
        """Wake whoever waits for something new; what was written stays readable while the store exists."""
        self.changes.close()
