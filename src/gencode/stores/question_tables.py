"""The SQLite tables of questions and of the people who can answer."""

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
