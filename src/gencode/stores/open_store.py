"""Opens the store that the settings name: a SQLite file or a Postgres database.

Nothing of Postgres is loaded where no address is set.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from gencode.core.errors import UserMistake
from gencode.core.extras import installing
from gencode.journal.owner import LEASE_SECONDS
from gencode.journal.store import Store
from gencode.stores.sqlite import SqliteStore
from gencode.stores.sqlite_schema import Durability

if TYPE_CHECKING:
    from gencode.stores.pg_fleet import FleetStore


async def open_store(path: Path, durability: Durability, url: str = "") -> Store:
    """The database at `url`, or the file at `path` where none is named."""
    return await open_postgres(url) if url else await SqliteStore.open(path, durability=durability)


async def open_postgres(url: str, lease_seconds: float = LEASE_SECONDS) -> "FleetStore":
    """The database at `url`; UserMistake when what it needs is not installed."""
    check_extra()
    from gencode.stores.pg_fleet import FleetStore

    return await FleetStore.open(url, lease_seconds=lease_seconds)


def check_extra() -> None:
    """UserMistake where the packages for Postgres are missing."""
    if any(find_spec(name) is None for name in ("asyncpg", "pgqueuer")):
        raise UserMistake(f"Postgres needs an extra package; install it with: {installing('postgres')}")
