"""The SQLite tables of the ledger: accounts and holds."""

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
