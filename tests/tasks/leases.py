"""Leases that run out."""

import sqlite3
from contextlib import closing
from pathlib import Path


def leases_run_out(home: Path) -> None:
    """What time does to the leases of a process that is suspended."""
    with closing(sqlite3.connect(home / ".gen" / "gencode.db")) as database, database:
        database.execute("UPDATE gen_task SET lease_until = '2020-01-01' WHERE owner IS NOT NULL")
