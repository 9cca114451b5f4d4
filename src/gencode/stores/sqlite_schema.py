"""The SQLite schema, its migrations, and how the file is opened."""

import os
import secrets
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from gencode.core.errors import StoreTrouble
from gencode.journal.change_notifier import CLOSED

APPLICATION = 1195723331
"""The application id, "GENC", so that no other program's database is taken for ours."""

VERSION = 9
"""The version of the schema; each since 0.1 has a step in `sqlite_migrations.py` to the next one."""

_TABLES = (
    """
    CREATE TABLE gen_task (
        id TEXT PRIMARY KEY,
        agent TEXT NOT NULL,
        cwd TEXT NOT NULL,
        conversation INTEGER NOT NULL,
        parent TEXT,
        status TEXT NOT NULL,
        model TEXT NOT NULL DEFAULT '',
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        ended_at TEXT,
        epoch INTEGER NOT NULL DEFAULT 0,
        owner TEXT,
        lease_until TEXT,
        last_seq INTEGER NOT NULL,
        signal INTEGER NOT NULL DEFAULT 0,
        posted INTEGER NOT NULL DEFAULT 0,
        received INTEGER NOT NULL DEFAULT 0,
        paid_by TEXT,
        counted INTEGER NOT NULL DEFAULT 0
    )
    """,
    "CREATE INDEX idx_sessions_created ON gen_task(created_at)",
    "CREATE INDEX idx_sessions_parent ON gen_task(parent) WHERE parent IS NOT NULL",
    "CREATE INDEX idx_sessions_owner ON gen_task(owner) WHERE owner IS NOT NULL",
    # Opening the database looks for unfinished tasks without a running process.
    "CREATE INDEX idx_sessions_unfinished ON gen_task(status) WHERE status IN ('pending', 'running')",
    # An owner asks after every change what is new, and nearly always nothing is: then these two are empty.
    "CREATE INDEX idx_sessions_mail ON gen_task(owner) WHERE posted > received",
    "CREATE INDEX idx_sessions_asked ON gen_task(owner) WHERE signal <> 0",
    "CREATE INDEX idx_sessions_paid ON gen_task(paid_by) WHERE paid_by IS NOT NULL",
    """
    CREATE TABLE gen_journal (
        task TEXT NOT NULL REFERENCES gen_task(id) ON DELETE CASCADE,
        seq INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (task, seq)
    )
    """,
    # Apart from gen_task, because a row is rewritten whole: a long prompt must not be copied on every append.
    """
    CREATE TABLE gen_snapshot (
        task TEXT PRIMARY KEY REFERENCES gen_task(id) ON DELETE CASCADE,
        seq INTEGER NOT NULL,
        fold INTEGER NOT NULL,
        body TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE gen_message (
        task TEXT NOT NULL REFERENCES gen_task(id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        text TEXT NOT NULL,
        sender TEXT NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (task, number)
    )
    """,
    """
    CREATE TABLE gen_outbox (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        channel TEXT NOT NULL,
        chat TEXT NOT NULL,
        text TEXT NOT NULL,
        sender TEXT NOT NULL,
        at TEXT NOT NULL,
        tries INTEGER NOT NULL DEFAULT 0,
        not_before TEXT NOT NULL DEFAULT ''
    )
    """,
    """
    CREATE TABLE gen_account (
        id TEXT PRIMARY KEY,
        path TEXT NOT NULL,
        top TEXT NOT NULL,
        session TEXT NOT NULL DEFAULT '',
        agent TEXT NOT NULL DEFAULT '',
        open INTEGER NOT NULL DEFAULT 1,
        calls INTEGER NOT NULL DEFAULT 0,
        limit_turns INTEGER, limit_tokens INTEGER, limit_usd INTEGER, limit_spawns INTEGER,
        spent_turns INTEGER NOT NULL DEFAULT 0,
        spent_tokens INTEGER NOT NULL DEFAULT 0,
        spent_usd INTEGER NOT NULL DEFAULT 0,
        spent_spawns INTEGER NOT NULL DEFAULT 0,
        held_turns INTEGER NOT NULL DEFAULT 0,
        held_tokens INTEGER NOT NULL DEFAULT 0,
        held_usd INTEGER NOT NULL DEFAULT 0,
        seconds REAL
    ) WITHOUT ROWID
    """,
    # What is set aside in an account is looked for among the open ones of its tree, or of its session.
    "CREATE INDEX idx_accounts_top ON gen_account(top) WHERE open = 1",
    "CREATE INDEX idx_accounts_session ON gen_account(session) WHERE open = 1 AND session <> ''",
    """
    CREATE TABLE gen_hold (
        task TEXT PRIMARY KEY REFERENCES gen_task(id) ON DELETE CASCADE,
        owner TEXT NOT NULL,
        path TEXT NOT NULL,
        turns INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        usd INTEGER NOT NULL,
        at TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE gen_question (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        task TEXT NOT NULL REFERENCES gen_task(id) ON DELETE CASCADE,
        epoch INTEGER NOT NULL,
        owner TEXT NOT NULL,
        root TEXT NOT NULL,
        cwd TEXT NOT NULL,
        background INTEGER NOT NULL,
        home INTEGER NOT NULL,
        body TEXT NOT NULL,
        asked_at TEXT NOT NULL,
        until TEXT NOT NULL,
        answer TEXT,
        answered_by TEXT,
        mark TEXT NOT NULL DEFAULT ''
    )
    """,
    "CREATE INDEX idx_questions_open ON gen_question(number) WHERE answer IS NULL",
    "CREATE INDEX idx_questions_task ON gen_question(task)",
    """
    CREATE TABLE gen_presence (
        name TEXT PRIMARY KEY,
        cwd TEXT NOT NULL,
        background INTEGER NOT NULL,
        until TEXT NOT NULL
    )
    """,
)
JOBS = """
CREATE TABLE gen_job (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    due TEXT,
    owner TEXT NOT NULL,
    revision INTEGER NOT NULL,
    body TEXT NOT NULL,
    created_at TEXT NOT NULL
)
"""
VIEWS = (
    # A task goes with everything below it.
    """
    CREATE TRIGGER gen_task_deleted AFTER DELETE ON gen_task
    BEGIN DELETE FROM gen_task WHERE parent = OLD.id; END
    """,
    # What waits belongs to a run that still has its task. `alone`: it belongs to no conversation.
    """
    CREATE VIEW gen_open_question AS
    SELECT q.number, q.root, q.cwd, q.background, q.home, q.body, q.owner, r.owner AS led_by,
           NOT q.home AND r.owner IS q.owner AS alone,
           (julianday('now') - julianday(q.asked_at)) * 86400 AS age,
           (julianday(q.until) - julianday('now')) * 86400 AS remaining
    FROM gen_question q
        JOIN gen_task t ON t.id = q.task AND t.owner = q.owner AND t.epoch = q.epoch
        LEFT JOIN gen_task r ON r.id = q.root
    WHERE q.answer IS NULL AND q.until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
      AND t.lease_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    """,
    # Children in the words of OpenFork (seed 003), read from their journals.
    """
    CREATE VIEW SubSessions AS
    SELECT t.id AS Id, p.id AS ParentSessionId, json_extract(c.body, '$.call') AS ParentMessageId,
           t.agent AS AgentType, t.status AS Status, coalesce(json_extract(c.body, '$.prompt'), '') AS Prompt,
           CASE WHEN t.ended_at IS NOT NULL THEN coalesce(json_extract(e.body, '$.result'), '') END AS Result,
           json_extract(e.body, '$.error') AS Error,
           coalesce(json_extract(c.body, '$.policies'), '[]') AS EffectivePermissionsJson,
           t.created_at AS CreatedAt, t.ended_at AS CompletedAt
    FROM gen_task t
        LEFT JOIN gen_task p ON p.id = t.parent
        LEFT JOIN gen_journal c ON c.task = t.id AND c.seq = 1 AND json_valid(c.body)
        LEFT JOIN gen_journal e ON e.task = t.id AND t.ended_at IS NOT NULL AND json_valid(e.body)
            AND e.seq = (SELECT max(seq) FROM gen_journal WHERE task = t.id AND kind = 'TaskEnded')
    WHERE NOT t.conversation
    """,
)
SCHEMA: tuple[str, ...] = (
    *_TABLES,
    JOBS,
    *VIEWS,
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
"""The statements that create a new database."""

T = TypeVar("T")
Durability = Literal["normal", "power"]

PATIENCE = 10.0
"""Seconds for which another process may lock the database before we give up."""

_ALONE_SECONDS = 3.0
"""Seconds an upgrade waits for other processes to close the database."""


OLD_RELEASE = "0.1"
"""The release that wrote databases of every version before this one."""


class Migration(NamedTuple):
    """From which version to which a database went, and the copy of it from before."""

    before: int
    after: int
    backup: Path | None = None


_SYNCHRONOUS: dict[Durability, str] = {
    "normal": "PRAGMA synchronous = NORMAL",
    "power": "PRAGMA synchronous = FULL",
}

_NOT_WRITABLE = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
)


def migrate(path: Path) -> Migration:
    """Bring the database (made if it is not there) up to date, after a backup copy.

    Processes that do this at once wait for each other; one of an earlier version that has the database open
    is told in a StoreTrouble. Blocks; call it outside of the event loop.
    """
    with PlainErrors(path):
        _make_room(path)
        if _patiently(lambda: _found_version(path)) == VERSION:
            return Migration(VERSION, VERSION)
        return _upgrade(path)


def open_pair(path: Path, durability: Durability) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """A connection that writes and one that reads, on a database that is up to date. Blocks.

    Where nothing can be written (no right, no room), both read, and the first write says so.
    """
    with PlainErrors(path):
        try:
            migrate(path)
        except StoreTrouble as trouble:
            if not _only_readable(path, trouble.__cause__):
                raise
            return _frozen(path), _frozen(path)
        writer, reader = _connect(path), _connect(path)
        # Even a PRAGMA reads the file, which another process may be closing at this moment.
        _patiently(lambda: writer.execute(_SYNCHRONOUS[durability]))
        _patiently(lambda: reader.execute("PRAGMA query_only = ON"))
        return writer, reader


def open_in_memory() -> sqlite3.Connection:
    """A new database without a file; its one connection reads and writes."""
    connection = _connect(":memory:")
    with Transaction(connection):
        for statement in SCHEMA:
            connection.execute(statement)
    return connection


class Transaction:
    """All of it or nothing. Two for every turn of every agent, so it is a class and no generator.

    It may be entered again and again, one after the other.
    """

    __slots__ = ("_begin", "_connection", "_cursor")

    def __init__(self, connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._begin = begin

    def __enter__(self) -> None:
        self._cursor.execute(self._begin)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._cursor.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._cursor.execute("ROLLBACK")


class PlainErrors:
    """What SQLite or the disk complains about, as a sentence. Mistakes in our own SQL stay what they are."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, *__: object) -> None:
        if error is None:
            return
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
            raise StoreTrouble(CLOSED) from None
        if isinstance(error, sqlite3.ProgrammingError | sqlite3.IntegrityError):
            return
        if isinstance(error, sqlite3.DatabaseError):
            raise StoreTrouble(_sentence(error, self._path)) from error
        if isinstance(error, OSError):
            raise StoreTrouble(
                f"The database {self._path} cannot be opened: {error.strerror or error}."
            ) from error


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process holds the lock, so that retrying helps."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


def _code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF


def _sentence(error: sqlite3.Error, path: Path) -> str:
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return f"Another program has held the database {path} for {PATIENCE:.0f} s; end it and try again."
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return (
                f"The database {path} cannot be written, because the file or its folder is read-only or the "
                "disk was full when it was opened; make it writable, or set GEN_HOME to a folder that is."
            )
        case sqlite3.SQLITE_FULL:
            return (
                f"The disk is full, so nothing more was written to the database {path}; "
                "what was written before is kept. Make room and try again."
            )
        case sqlite3.SQLITE_IOERR:
            return (
                f"The disk failed, so nothing more was written to the database {path}; "
                "what was written before is kept. Look for a full or broken disk, a limit or a quota."
            )
        case sqlite3.SQLITE_NOTADB:
            return f"{path} is not a database; move it away, or set GEN_HOME to another folder."
        case sqlite3.SQLITE_CORRUPT:
            return (
                f"The database {path} is damaged ({error}); keep a copy of it, then save what can be read "
                "with the `.recover` command of the sqlite3 program."
            )
        case sqlite3.SQLITE_CANTOPEN:
            return (
                f"The database {path} cannot be opened; its folder must exist and be writable "
                "(or set GEN_HOME to one that is)."
            )
        case _:
            return f"The database {path} could not be used: {error}."


def _make_room(path: Path) -> None:
    """Create the folder and an empty file that only the user may read: transcripts are private."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _connect(path: Path | str) -> sqlite3.Connection:
    # SQLite must not wait: that would block the event loop. The caller sleeps and retries.
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    connection.text_factory = _text
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA recursive_triggers = ON")
    return connection


_text = partial(str, encoding="utf-8", errors="replace")
"""Reads a column of text; called for each of them, so it is no function of ours."""


def _frozen(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?immutable=1"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    connection.text_factory = _text
    return connection


def _only_readable(path: Path, why: BaseException | None) -> bool:
    """Whether the file is complete (no WAL beside it) and of our version, but not writable."""
    log = path.with_name(f"{path.name}-wal")
    if not isinstance(why, sqlite3.Error) or _code(why) not in _NOT_WRITABLE:
        return False
    if log.exists() and log.stat().st_size:
        return False
    with closing(_frozen(path)) as connection:
        return _version(connection, path) == VERSION


def _patiently(step: Callable[[], T]) -> T:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return step()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
        time.sleep(0.01)


def _upgrade(path: Path) -> Migration:
    from gencode.stores.sqlite_upgrade import in_use, lock_out_others

    until = time.monotonic() + _ALONE_SECONDS
    while True:
        with closing(_connect(path)) as connection:
            try:
                lock_out_others(connection)
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
            else:
                return _migrate(connection, path)
        # Only with nothing open, so that several new processes do not lock each other out.
        if _patiently(lambda: _found_version(path)) == VERSION:
            return Migration(VERSION, VERSION)
        if time.monotonic() > until:
            raise in_use(path)
        time.sleep(0.005 * (1 + secrets.randbelow(8)))


def _migrate(connection: sqlite3.Connection, path: Path) -> Migration:
    """Take the steps that are missing, on a connection that has the database to itself."""
    from gencode.stores.sqlite_migrations import MIGRATIONS, OLDEST
    from gencode.stores.sqlite_upgrade import back_up, check_leases

    version = _version(connection, path)
    if version == VERSION:
        return Migration(VERSION, VERSION)
    if 0 < version < OLDEST:
        raise StoreTrouble(
            f"The database {path} has version {version}, which no release made; move it away, or set "
            "GEN_HOME to another folder. Nothing was changed."
        )
    backup: Path | None = None
    if version:
        check_leases(connection, path)
        backup = back_up(connection, path, OLD_RELEASE)
    done = False
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        with Transaction(connection):
            steps = chain.from_iterable(MIGRATIONS[version - OLDEST :]) if version else SCHEMA
            for statement in steps:
                connection.execute(statement)
        done = True
    finally:
        if backup and not done:
            backup.unlink()  # nothing was changed, so the next try makes its own
    return Migration(version, VERSION, backup)


def _found_version(path: Path) -> int:
    with closing(_connect(path)) as connection, Transaction(connection, "BEGIN"):
        return _version(connection, path)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the file; StoreTrouble if it is not ours or from the future."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if version > VERSION:
        raise StoreTrouble(
            f"The database {path} has version {version}, and this GenCode knows versions up to {VERSION}; "
            "upgrade GenCode to use it. Nothing was changed."
        )
    if application != APPLICATION and (tables or version):
        raise StoreTrouble(
            f"{path} is a database of another program; move it away, or set GEN_HOME to another folder."
        )
    return version
