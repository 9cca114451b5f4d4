"""The steps that bring a SQLite database of an earlier version up to date."""

from gencode.stores.sqlite_schema import JOBS, VIEWS

_LEDGER = (
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

_VERSION_7 = (
    *_LEDGER,
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

# One vocabulary with Postgres: a statement in each line.
_RENAMES = """
ALTER TABLE Sessions RENAME TO gen_task
ALTER TABLE gen_task RENAME COLUMN CreatedAt TO created_at
ALTER TABLE gen_task RENAME COLUMN UpdatedAt TO updated_at
ALTER TABLE gen_task RENAME COLUMN EndedAt TO ended_at
ALTER TABLE gen_task RENAME COLUMN LeaseUntil TO lease_until
ALTER TABLE gen_task RENAME COLUMN LastSeq TO last_seq
ALTER TABLE gen_task RENAME COLUMN PaidBy TO paid_by
ALTER TABLE gen_task RENAME COLUMN Cancel TO signal
ALTER TABLE gen_task RENAME COLUMN Mailed TO received
ALTER TABLE Journal RENAME TO gen_journal
ALTER TABLE Snapshots RENAME TO gen_snapshot
ALTER TABLE Letters RENAME TO gen_message
ALTER TABLE Outbox RENAME TO gen_outbox
ALTER TABLE gen_outbox RENAME COLUMN NotBefore TO not_before
ALTER TABLE Accounts RENAME TO gen_account
ALTER TABLE gen_account RENAME COLUMN LimitTurns TO limit_turns
ALTER TABLE gen_account RENAME COLUMN LimitTokens TO limit_tokens
ALTER TABLE gen_account RENAME COLUMN LimitUsd TO limit_usd
ALTER TABLE gen_account RENAME COLUMN LimitSpawns TO limit_spawns
ALTER TABLE gen_account RENAME COLUMN SpentTurns TO spent_turns
ALTER TABLE gen_account RENAME COLUMN SpentTokens TO spent_tokens
ALTER TABLE gen_account RENAME COLUMN SpentUsd TO spent_usd
ALTER TABLE gen_account RENAME COLUMN SpentSpawns TO spent_spawns
ALTER TABLE gen_account RENAME COLUMN HeldTurns TO held_turns
ALTER TABLE gen_account RENAME COLUMN HeldTokens TO held_tokens
ALTER TABLE gen_account RENAME COLUMN HeldUsd TO held_usd
ALTER TABLE Holds RENAME TO gen_hold
ALTER TABLE Questions RENAME TO gen_question
ALTER TABLE gen_question RENAME COLUMN AskedAt TO asked_at
ALTER TABLE gen_question RENAME COLUMN AnsweredBy TO answered_by
ALTER TABLE Persons RENAME TO gen_presence
"""
_VERSION_9 = (
    *("DROP VIEW Events", "DROP VIEW OpenQuestions", "DROP TABLE SubSessions", "DROP TABLE Claims"),
    *_RENAMES.strip().splitlines(),
    "ALTER TABLE gen_question ADD COLUMN mark TEXT NOT NULL DEFAULT ''",
    "UPDATE gen_outbox SET chat = CAST(chat AS BLOB), text = CAST(text AS BLOB)",
    JOBS,
    """
    INSERT INTO gen_job (id, due, owner, revision, body, created_at)
    SELECT Id, Due, Owner, Revision, Body, CreatedAt FROM Appointments ORDER BY rowid
    """,
    "DROP TABLE Appointments",
    *VIEWS,
    # A program of 0.1 that is still connected is told why its tables are not there any more.
    """
    CREATE VIEW Sessions AS
    SELECT * FROM "a newer GenCode upgraded it; end this program and start the new one"
    """,
    """
    CREATE VIEW Events AS
    SELECT * FROM "a newer GenCode upgraded it; end this program and start the new one"
    """,
    "PRAGMA user_version = 9",
)

OLDEST = 6
"""The version of release 0.1."""
MIGRATIONS: tuple[tuple[str, ...], ...] = (_VERSION_7, _VERSION_8, _VERSION_9)
"""The steps from the oldest version on; each leads to the next one and ends by writing its number down."""
