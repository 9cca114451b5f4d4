"""The steps that bring a SQLite database of an earlier version up to date."""

from gencode.stores.sqlite_schema import APPLICATION, JOBS, VIEWS

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

_VERSION_1 = (
    f"PRAGMA application_id = {APPLICATION}",
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

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    _VERSION_1,
    _VERSION_2,
    _VERSION_3,
    _VERSION_4,
    (*QUESTIONS, "PRAGMA user_version = 5"),
    _VERSION_6,
    _VERSION_7,
    _VERSION_8,
    _VERSION_9,
)
"""Step n leads from version n to version n + 1 and ends by writing that number down."""
