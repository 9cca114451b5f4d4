"""Databases as earlier versions made them."""

import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from gencode.core.events import Event, TaskCreated, TaskEnded, TaskStarted, kind_of, settle
from gencode.core.status import EndReason, Status
from gencode.stores.sqlite_migrations import MIGRATIONS, OLDEST
from tests.contracts.store import said

RECORDED = Path(__file__).parents[1] / "journals" / "0.1" / "finished" / "data.tar.gz"
AT = "2026-01-01T00:00:00.000000Z"
LIFE = (
    TaskCreated(prompt="old"),
    TaskStarted(model="m"),
    said("hello"),
    TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED),
)


def statements_of(version: int) -> Iterator[str]:
    """What makes an empty database of a version: as release 0.1 left one, then the steps up to there."""
    with tarfile.open(RECORDED) as archive:
        file = archive.extractfile("finished/home/gencode.db")
        assert file is not None
        content = bytearray(file.read())
    content[18:20] = b"\1\1"  # it is in memory, where there is no log beside it
    with closing(sqlite3.connect(":memory:")) as recorded:
        recorded.deserialize(bytes(content))
        for pragma in ("application_id", "user_version"):
            [(number,)] = recorded.execute(f"PRAGMA {pragma}")
            yield f"PRAGMA {pragma} = {number}"
        for (statement,) in recorded.execute(
            "SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY rowid"
        ):
            yield statement
    for steps in MIGRATIONS[: version - OLDEST]:
        yield from steps


def made_by_version(version: int, path: Path) -> list[Event]:
    """A database as that version made it, with a task that has ended and one whose owner died."""
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.execute("PRAGMA journal_mode = WAL")
        for statement in statements_of(version):
            old.execute(statement)
        for task, status, owner, until in (
            ("aaaaaaaa", "completed", None, None),
            ("bbbbbbbb", "running", "me", "2026-01-01T00:00:00.000Z"),
        ):
            last = len(LIFE) if owner is None else 2
            old.execute(
                "INSERT INTO Sessions (Id, Agent, Cwd, Conversation, Status, CreatedAt, UpdatedAt, Epoch, "
                "Owner, LeaseUntil, LastSeq, Cancel) VALUES (?, '', '', 0, ?, ?, ?, 1, ?, ?, ?, ?)",
                (task, status, AT, AT, owner, until, last, 2 if owner else 0),
            )
            for seq, fact in enumerate(LIFE[:last], start=1):
                row = (task, seq, kind_of(fact), settle(fact)[1].decode(), AT)
                insert = "INSERT INTO Events (Task, Seq, Epoch, Kind, Body, At) VALUES (?, ?, 1, ?, ?, ?)"
                old.execute(insert if version < 7 else insert.replace("Events", "Journal"), row)
    return [Event("aaaaaaaa", seq, AT, fact) for seq, fact in enumerate(LIFE, start=1)]
