"""Upgrades a SQLite file of an earlier version: under an exclusive lock, and after a backup copy."""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from gencode.core.errors import StoreTrouble
from gencode.journal.owner import owner_state, process_label, process_of

log = logging.getLogger(__name__)

_LOCKS = Path("/proc/locks")
_LONGEST_COMMAND = 60
_LEASED = {
    "gen_task": "SELECT id, owner FROM gen_task WHERE lease_until > {now} ORDER BY created_at, rowid",
    "Sessions": "SELECT Id, Owner FROM Sessions WHERE LeaseUntil > {now} ORDER BY CreatedAt, rowid",
}
"""The owners of tasks, by the table's name since version 8 or before."""
_TASKS = "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ('gen_task', 'Sessions')"
_NOW = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"


def lock_out_others(connection: sqlite3.Connection) -> None:
    """Lock the file until the connection is closed; SQLITE_BUSY where another connection has it open.

    In WAL mode every connection holds a shared lock for as long as it is open, also one that does nothing.
    """
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("COMMIT")


def in_use(path: Path) -> StoreTrouble:
    """Why a file is not upgraded while a program of the earlier version has it open."""
    users = users_of(path) or ["another program"]
    have = "has it" if len(users) == 1 else "have it"
    return _refused(path, f"{', '.join(users)} {have} open", f"End {_them(users)}, then try again.")


def check_leases(connection: sqlite3.Connection, path: Path) -> None:
    """StoreTrouble where a process, perhaps on another machine, still works on a task of the file."""
    (table,) = connection.execute(_TASKS).fetchone()
    leased = connection.execute(_LEASED[table].format(now=_NOW))
    owners = {owner: task for task, owner in leased if owner and owner_state(owner) != "dead"}
    if not owners:
        return
    users = [f"{_owner(owner)} works on task {task}" for owner, task in owners.items()]
    end = f"End {_them(users)}, or wait 15 seconds after a kill, then try again."
    raise _refused(path, ", and ".join(users), end)


def back_up(connection: sqlite3.Connection, path: Path, release: str) -> Path:
    """Copy the file of a `release` beside it, whole or not at all, and never over an earlier copy."""
    part = path.with_name(f"{path.name}.{release}-backup.part")
    try:
        part.unlink(missing_ok=True)  # of an upgrade that was killed
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with closing(sqlite3.connect(part)) as copy:
            connection.backup(copy)
        backup = next(each for each in _names(path, release) if not os.path.lexists(each))
        part.rename(backup)
    except (OSError, sqlite3.Error) as error:
        part.unlink(missing_ok=True)
        raise StoreTrouble(
            f"The database {path} is of an earlier version and was not upgraded, because no backup copy "
            f"could be made beside it ({_reason(error)}). Nothing was changed; make room, or make the folder "
            "writable, and try again."
        ) from error
    log.info("upgrading %s; the copy from before is %s", path, backup)
    return backup


def users_of(path: Path) -> list[str]:
    """The other processes that have the file open, as far as this system tells."""
    try:
        file = path.stat()
        locks = _LOCKS.read_text().splitlines()
    except OSError:
        return []
    where = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    # 2: POSIX  ADVISORY  READ 3104 fe:00:3612706 1073741826 1073742335
    fields = (line.split() for line in locks)
    found = {int(each[4]) for each in fields if len(each) == 8 and each[5] == where and each[4].isdigit()}
    return [_command(process) for process in sorted(found - {0, os.getpid()})]


def _names(path: Path, release: str) -> Iterator[Path]:
    yield path.with_name(f"{path.name}.{release}-backup")
    number = 2
    while True:
        yield path.with_name(f"{path.name}.{release}-backup-{number}")
        number += 1


def _refused(path: Path, why: str, end: str) -> StoreTrouble:
    return StoreTrouble(
        f"The database {path} is of an earlier version and cannot be upgraded while {why}. {end} "
        "Nothing was changed."
    )


def _owner(owner: str) -> str:
    process = process_of(owner)
    return _command(process) if process else process_label(owner)


def _command(process: int) -> str:
    """A process as shown to a person: its id and its command line without the interpreter."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        words = []
    if len(words) > 1 and Path(words[0]).name.startswith("python"):
        words = words[1:]
    typed = " ".join([Path(words[0]).name, *words[1:]]).strip() if words else ""
    typed = "".join(each if each.isprintable() else " " for each in typed)
    typed = typed if len(typed) <= _LONGEST_COMMAND else f"{typed[:_LONGEST_COMMAND]}…"
    return f"process {process} ({typed})" if typed else f"process {process}"


def _them(users: list[str]) -> str:
    return "it" if len(users) == 1 else "them"


def _reason(error: OSError | sqlite3.Error) -> str:
    return str(error.strerror or error) if isinstance(error, OSError) else str(error)
