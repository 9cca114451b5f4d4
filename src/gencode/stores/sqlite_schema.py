"""The SQLite schema, its migrations, and how the file is opened."""

import os
import secrets
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from gencode.core.errors import StoreTrouble
from gencode.journal.change_notifier import CLOSED

LEDGER = (
    # The account of the session that pays for a whole tree is named where its top is.
    "ALTER TABLE Sessions ADD COLUMN PaidBy TEXT",
    # What version 0.1 wrote, and what is imported, tells of budgets only in its journal.
    "ALTER TABLE Sessions ADD COLUMN Counted INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX idx_sessions_paid ON Sessions(PaidBy) WHERE PaidBy IS NOT NULL",
    """
    CREATE TABLE Accounts (
        Id TEXT PRIMARY KEY,
        Path TEXT NOT NULL,
        Top TEXT NOT NULL,
        Session TEXT NOT NULL DEFAULT '',
        Agent TEXT NOT NULL DEFAULT '',
        Open INTEGER NOT NULL DEFAULT 1,
        Calls INTEGER NOT NULL DEFAULT 0,
        LimitTurns INTEGER, LimitTokens INTEGER, LimitUsd INTEGER, LimitSpawns INTEGER,
        SpentTurns INTEGER NOT NULL DEFAULT 0,
        SpentTokens INTEGER NOT NULL DEFAULT 0,
        SpentUsd INTEGER NOT NULL DEFAULT 0,
        SpentSpawns INTEGER NOT NULL DEFAULT 0,
        HeldTurns INTEGER NOT NULL DEFAULT 0,
        HeldTokens INTEGER NOT NULL DEFAULT 0,
        HeldUsd INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID
    """,
    # What is set aside in an account is looked for among the open ones of its tree, or of its session.
    "CREATE INDEX idx_accounts_top ON Accounts(Top) WHERE Open = 1",
    "CREATE INDEX idx_accounts_session ON Accounts(Session) WHERE Open = 1 AND Session <> ''",
    """
    CREATE TABLE Holds (
        Task TEXT PRIMARY KEY,
        Owner TEXT NOT NULL,
        Path TEXT NOT NULL,
        Turns INTEGER NOT NULL,
        Tokens INTEGER NOT NULL,
        Usd INTEGER NOT NULL,
        At TEXT NOT NULL,
        FOREIGN KEY (Task) REFERENCES Sessions(Id) ON DELETE CASCADE
    ) WITHOUT ROWID
    """,
)


QUESTIONS = (
    """
    CREATE TABLE Questions (
        Number INTEGER PRIMARY KEY AUTOINCREMENT,
        Task TEXT NOT NULL,
        Epoch INTEGER NOT NULL,
        Owner TEXT NOT NULL,
        Root TEXT NOT NULL,
        Cwd TEXT NOT NULL,
        Background INTEGER NOT NULL,
        Home INTEGER NOT NULL,
        Body TEXT NOT NULL,
        AskedAt TEXT NOT NULL,
        Until TEXT NOT NULL,
        Answer TEXT,
        AnsweredBy TEXT,
        FOREIGN KEY (Task) REFERENCES Sessions(Id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX idx_questions_open ON Questions(Number) WHERE Answer IS NULL",
    "CREATE INDEX idx_questions_task ON Questions(Task)",
    # What waits belongs to a run that still has its task. `Alone`: it belongs to no conversation.
    """
    CREATE VIEW OpenQuestions AS
    SELECT q.Number, q.Root, q.Cwd, q.Background, q.Home, q.Body, q.Owner, r.Owner AS LedBy,
           NOT q.Home AND r.Owner IS q.Owner AS Alone,
           (julianday('now') - julianday(q.AskedAt)) * 86400 AS Asked,
           (julianday(q.Until) - julianday('now')) * 86400 AS Left
    FROM Questions q
        JOIN Sessions t ON t.Id = q.Task AND t.Owner = q.Owner AND t.Epoch = q.Epoch
        LEFT JOIN Sessions r ON r.Id = q.Root
    WHERE q.Answer IS NULL AND q.Until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
      AND t.LeaseUntil > strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    """,
    """
    CREATE TABLE Persons (
        Name TEXT PRIMARY KEY,
        Cwd TEXT NOT NULL,
        Background INTEGER NOT NULL,
        Until TEXT NOT NULL
    )
    """,
)


T = TypeVar("T")
Durability = Literal["normal", "power"]

PATIENCE = 10.0
"""Seconds for which another process may hold the database before we give up."""

_ALONE_SECONDS = 3.0
"""So long an upgrade waits for other processes to close the database before it is refused."""

_APPLICATION = 1195723331  # "GENC", so that no other program's database is taken for ours

_VERSION_1 = (
    f"PRAGMA application_id = {_APPLICATION}",
    """
    CREATE TABLE Sessions (
        Id TEXT PRIMARY KEY,
        Agent TEXT NOT NULL,
        Cwd TEXT NOT NULL,
        Conversation INTEGER NOT NULL,
        Parent TEXT,
        Status TEXT NOT NULL,
        Model TEXT NOT NULL DEFAULT '',
        CreatedAt TEXT NOT NULL,
        UpdatedAt TEXT NOT NULL,
        EndedAt TEXT,
        Epoch INTEGER NOT NULL DEFAULT 0,
        Owner TEXT,
        LeaseUntil TEXT,
        LastSeq INTEGER NOT NULL,
        Cancel INTEGER NOT NULL DEFAULT 0
    )
    """,
    "CREATE INDEX idx_sessions_created ON Sessions(CreatedAt)",
    "CREATE INDEX idx_sessions_parent ON Sessions(Parent) WHERE Parent IS NOT NULL",
    "CREATE INDEX idx_sessions_owner ON Sessions(Owner) WHERE Owner IS NOT NULL",
    """
    CREATE TABLE SubSessions (
        Id TEXT PRIMARY KEY,
        ParentSessionId TEXT,
        ParentMessageId TEXT,
        AgentType TEXT NOT NULL DEFAULT 'general-purpose',
        Status TEXT NOT NULL DEFAULT 'pending',
        Prompt TEXT,
        Result TEXT,
        Error TEXT,
        EffectivePermissionsJson TEXT,
        CreatedAt TEXT NOT NULL,
        CompletedAt TEXT,
        FOREIGN KEY (Id) REFERENCES Sessions(Id) ON DELETE CASCADE,
        FOREIGN KEY (ParentSessionId) REFERENCES Sessions(Id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX idx_subsessions_parent ON SubSessions(ParentSessionId)",
    "CREATE INDEX idx_subsessions_status ON SubSessions(Status)",
    # The cascade removes the row of a child; this removes the child itself, and so everything below it.
    """
    CREATE TRIGGER subsessions_deleted AFTER DELETE ON SubSessions
    BEGIN DELETE FROM Sessions WHERE Id = OLD.Id; END
    """,
    """
    CREATE TABLE Events (
        Task TEXT NOT NULL,
        Seq INTEGER NOT NULL,
        Epoch INTEGER NOT NULL,
        Kind TEXT NOT NULL,
        Body TEXT NOT NULL,
        At TEXT NOT NULL,
        PRIMARY KEY (Task, Seq),
        FOREIGN KEY (Task) REFERENCES Sessions(Id) ON DELETE CASCADE
    )
    """,
    # Apart from Sessions, because a row is rewritten whole: a long prompt must not be copied on every append.
    """
    CREATE TABLE Snapshots (
        Task TEXT PRIMARY KEY,
        Seq INTEGER NOT NULL,
        Fold INTEGER NOT NULL,
        Body TEXT NOT NULL,
        FOREIGN KEY (Task) REFERENCES Sessions(Id) ON DELETE CASCADE
    )
    """,
    "PRAGMA user_version = 1",
)

_VERSION_2 = (
    # Whoever opens the database looks for tasks that nobody works on any more.
    "CREATE INDEX idx_sessions_unfinished ON Sessions(Status) WHERE Status IN ('pending', 'running')",
    "PRAGMA user_version = 2",
)

_VERSION_3 = (
    """
    CREATE TABLE Letters (
        Task TEXT NOT NULL,
        Number INTEGER NOT NULL,
        Text TEXT NOT NULL,
        Sender TEXT NOT NULL,
        At TEXT NOT NULL,
        PRIMARY KEY (Task, Number),
        FOREIGN KEY (Task) REFERENCES Sessions(Id) ON DELETE CASCADE
    )
    """,
    "ALTER TABLE Sessions ADD COLUMN Posted INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE Sessions ADD COLUMN Mailed INTEGER NOT NULL DEFAULT 0",
    # An owner asks after every change what is new, and nearly always nothing is: then these two are empty.
    "CREATE INDEX idx_sessions_mail ON Sessions(Owner) WHERE Posted > Mailed",
    "CREATE INDEX idx_sessions_asked ON Sessions(Owner) WHERE Cancel <> 0",
    "PRAGMA user_version = 3",
)

_VERSION_4 = (
    """
    CREATE TABLE Appointments (
        Id TEXT PRIMARY KEY,
        Due TEXT,
        Owner TEXT NOT NULL DEFAULT '',
        Revision INTEGER NOT NULL DEFAULT 0,
        Body TEXT NOT NULL,
        CreatedAt TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE Outbox (
        Number INTEGER PRIMARY KEY AUTOINCREMENT,
        Channel TEXT NOT NULL,
        Chat TEXT NOT NULL,
        Text TEXT NOT NULL,
        Sender TEXT NOT NULL,
        At TEXT NOT NULL,
        Tries INTEGER NOT NULL DEFAULT 0,
        NotBefore TEXT NOT NULL DEFAULT ''
    )
    """,
    "PRAGMA user_version = 4",
)

_VERSION_6 = (
    # Who asks a process at work for a part of the budget that it spends from.
    """
    CREATE TABLE Claims (
        Number INTEGER PRIMARY KEY AUTOINCREMENT,
        Via TEXT NOT NULL,
        Body TEXT NOT NULL,
        At TEXT NOT NULL,
        FOREIGN KEY (Via) REFERENCES Sessions(Id) ON DELETE CASCADE
    )
    """,
    "PRAGMA user_version = 6",
)

# The version of 0.2. Tables that 0.2 adds go above the two statements about the journal.
_VERSION_7 = (
    *LEDGER,
    # A process of 0.1 that is still connected must not write: it knows neither the facts nor the budgets of
    # 0.2. It finds no table of the old name, and its sentence about that ends with the name in this view.
    "ALTER TABLE Events RENAME TO Journal",
    """
    CREATE VIEW Events AS
    SELECT * FROM "a newer GenCode upgraded it; end this program and start the new one"
    """,
    "PRAGMA user_version = 7",
)
# The seconds that another process set for a task at work; its journal has them once its own has heard of it.
_VERSION_8 = ("ALTER TABLE Accounts ADD COLUMN Seconds REAL", "PRAGMA user_version = 8")

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    _VERSION_1,
    _VERSION_2,
    _VERSION_3,
    _VERSION_4,
    (*QUESTIONS, "PRAGMA user_version = 5"),
    _VERSION_6,
    _VERSION_7,
    _VERSION_8,
)
"""Step n leads from version n to version n + 1 and ends by writing that number down."""

VERSION = len(MIGRATIONS)

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
        # Even a setting looks at the file, which another process may be closing at this moment.
        _patiently(lambda: writer.execute(_SYNCHRONOUS[durability]))
        _patiently(lambda: reader.execute("PRAGMA query_only = ON"))
        return writer, reader


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
    """Whether another process is in the way and waiting helps."""
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
    """The folder and an empty file that nobody else may read: transcripts are private."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _connect(path: Path) -> sqlite3.Connection:
    # No waiting inside SQLite: it would stop the event loop. The caller waits and tries again.
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    connection.text_factory = _text
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA recursive_triggers = ON")
    return connection


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")


def _frozen(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?immutable=1"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    connection.text_factory = _text
    return connection


def _only_readable(path: Path, why: BaseException | None) -> bool:
    """Whether the file lies there whole (nothing in a log beside it), of our version, only not writable."""
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
        # Only with nothing open, so that several new processes do not keep each other out.
        if _patiently(lambda: _found_version(path)) == VERSION:
            return Migration(VERSION, VERSION)
        if time.monotonic() > until:
            raise in_use(path)
        time.sleep(0.005 * (1 + secrets.randbelow(8)))


def _migrate(connection: sqlite3.Connection, path: Path) -> Migration:
    """Take the steps that are missing, on a connection that has the database to itself."""
    from gencode.stores.sqlite_upgrade import back_up, check_leases

    version = _version(connection, path)
    if version == VERSION:
        return Migration(VERSION, VERSION)
    backup: Path | None = None
    if version:
        check_leases(connection, path)
        backup = back_up(connection, path, OLD_RELEASE)
    done = False
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        with Transaction(connection):
            for steps in MIGRATIONS[version:]:
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
    if application != _APPLICATION and (tables or version):
        raise StoreTrouble(
            f"{path} is a database of another program; move it away, or set GEN_HOME to another folder."
        )
    return version
