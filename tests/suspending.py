"""Suspends a process as Ctrl-Z does, but never in the middle of a commit, which would lock the database."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.waiting import PATIENCE, wait_until


def suspend(process: int) -> None:
    """Let a process that shares the database of this test stand still; SIGCONT lets it go on."""
    path = Path(os.environ["GEN_HOME"], "gencode.db")
    with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        os.kill(process, signal.SIGSTOP)
        wait_until(lambda: stands_still(process), "it stands still")
        database.execute("ROLLBACK")


def stands_still(process: int) -> bool:
    """Whether a process is suspended, where the system tells that."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "tT"
    except OSError:
        return not Path("/proc/self/stat").exists()
